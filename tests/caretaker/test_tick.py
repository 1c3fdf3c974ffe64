"""The driver: what is due is done once, one caretaker works at a time, and a kill at any moment costs nothing."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.events import Command
from subconscious_pipeline.caretaker.notifications import list_notices
from subconscious_pipeline.caretaker.plan import run_key
from subconscious_pipeline.caretaker.settings import CaretakerSettings, load_caretaker_settings
from subconscious_pipeline.caretaker.shutdown import shut_down
from subconscious_pipeline.caretaker.state import current
from subconscious_pipeline.caretaker.tick import CaretakerLock, tick
from subconscious_pipeline.errors import ConfigError

from .world import NOON, QUIET, World, after

DEFAULTS = CaretakerSettings()


def test_sweeps_and_consolidations_come_by_their_intervals_and_a_missed_one_is_caught_up_once(tmp_path: Path) -> None:
    world = World(tmp_path, DEFAULTS, settled=False)
    for minute in (0, 0, 59, 60, 61, 300, 301, 24 * 60):
        world.at(minutes=minute)
        world.step()
    assert world.memory.sweeps == [after(minutes=m) for m in (0, 60, 300, 24 * 60)]
    assert world.trace("CommandStarted") == [
        "0 CommandStarted DecaySweep",
        "0 CommandStarted Consolidate",
        "0 CommandStarted Publish",
        "3600 CommandStarted DecaySweep",
        "18000 CommandStarted DecaySweep",
        "86400 CommandStarted DecaySweep",
        "86400 CommandStarted Consolidate",
        "86400 CommandStarted Publish",
    ]


def test_a_step_leaves_word_of_when_it_looked(tmp_path: Path) -> None:
    world = World(tmp_path, settled=False)
    assert world.log.last_tick() is None
    world.at(minutes=7)
    world.step()
    assert world.log.last_tick() == after(minutes=7)


def test_every_command_carries_its_transaction(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    note = client.note(world.log, "s", NOON, ["lock"])
    end = client.session_end(world.log, "s", NOON, "CRASH")
    world.at(seconds=5)
    world.step()
    begun, finished = (e for e in world.log.read(end) if e.kind.startswith("Command") and e.session_id == "s")
    assert begun.transaction == finished.transaction
    assert (begun.uid, finished.uid) == (f"flush-{note}/started/1", f"flush-{note}/finished/1")
    assert begun.transaction.model_dump() == {
        "transaction_id": f"flush-{note}", "causation_id": end, "trigger": "crash", "session_id": "s", "at": after(seconds=5)
    }  # fmt: skip


def test_accesses_and_claims_reach_memory_in_order_and_once(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    client.accessed(world.log, "s", after(seconds=1), [1, 2])
    client.claim(world.log, "s", after(seconds=2), [2])
    client.claim(world.log, "s", after(seconds=3), [2], core=True)
    world.at(seconds=4)
    world.step()
    world.step()
    assert world.memory.calls == ["accesses 1,2", "claim 2", "claim 2 core"]
    assert world.memory.accesses == {(1, after(seconds=1), "s"), (2, after(seconds=1), "s")}
    assert world.memory.claimed == {2: True}


def test_many_notes_are_saved_in_batches_and_none_is_left(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    for n in range(501):
        client.note(world.log, "s", NOON, [f"word{n}"])
    client.session_end(world.log, "s", NOON)
    world.step()
    assert len(world.memory.observations) == 501
    assert world.trace("SessionClosed") == ["0 SessionClosed EXPLICIT"]


def test_a_second_caretaker_does_nothing_while_one_is_at_work(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    client.session_end(world.log, "s", NOON)
    with CaretakerLock(world.log) as mine:
        assert mine
        assert tick(world.log, world.memory, world.publisher, NOON, QUIET).busy
        assert not world.caretaker.start("second", world.clock)
    assert not tick(world.log, world.memory, world.publisher, NOON, QUIET).busy


def test_a_shutdown_behind_a_busy_caretaker_waits_no_longer_than_its_time(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    client.note(world.log, "s", NOON, ["lock"])

    def wait(seconds: float) -> None:
        world.now += timedelta(seconds=seconds)

    with CaretakerLock(world.log):
        report = shut_down(world.caretaker, 30, world.clock, wait)
    assert (report.timed_out, report.cut_off_contexts, report.published) == (True, 1, False)
    assert after(seconds=30) <= world.now < after(seconds=31)


def test_a_job_for_one_command_executes_that_alone(tmp_path: Path) -> None:
    world = World(tmp_path, DEFAULTS, settled=False)
    (sweep, consolidate) = world.caretaker.due(NOON).runs
    assert (run_key(sweep, NOON, DEFAULTS), run_key(consolidate, NOON, DEFAULTS)) == (
        "decaysweep-0#1@14793480", "consolidate-0#1@14793480",
    )  # fmt: skip
    world.caretaker.step(world.clock, only={Command.SWEEP})
    assert world.memory.calls == ["sweep"]


def test_a_command_that_died_is_executed_again_when_its_lease_is_over_or_a_caretaker_starts(tmp_path: Path) -> None:
    for restart, seconds in ((False, 120), (True, 0)):
        world = World(tmp_path / str(restart), DEFAULTS, settled=False)
        world.memory.on["sweep"] = killed
        with pytest.raises(Killed):
            world.step()
        del world.memory.on["sweep"]
        world.memory.calls.clear()
        if restart:
            world.restart()
        else:
            world.at(seconds=119)
            world.step()
            assert "sweep" not in world.memory.calls
        world.at(seconds=seconds)
        world.step()
        assert "sweep" in world.memory.calls
        assert world.trace("CommandFinished")[-1].endswith("Publish") or world.memory.calls[-1] == "sweep"


def test_what_a_killed_flush_had_saved_is_still_published(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    client.note(world.log, "s", NOON, ["lock"])
    client.session_end(world.log, "s", NOON, "CRASH")
    world.memory.on["flushed"] = killed
    with pytest.raises(Killed):
        world.step()
    del world.memory.on["flushed"]
    world.restart()
    world.step()
    assert len(world.memory.observations) == 1
    assert world.publisher.published == [NOON]


class Killed(BaseException):
    """The process is gone at this point."""


def killed() -> None:
    raise Killed


class Fuse:
    """Kills at the n-th moment; every write to the log and every call of a port is two moments, before and after."""

    def __init__(self, moments: int) -> None:
        self.left = moments

    def burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.burn()
            result = call(*args, **kwargs)
            self.burn()
            return result

        return called


def busy_day(path: Path, moments: int) -> tuple[World, bool]:
    """Everything the caretaker does, once; killed at one moment, restarted, and carried to its end."""
    world = World(path, DEFAULTS, settled=False)
    client.session_start(world.log, "a", NOON, instance_id="desk")
    client.session_start(world.log, "b", NOON, instance_id="phone")
    client.session_start(world.log, "c", NOON, instance_id="car")
    client.accessed(world.log, "a", NOON, [1, 2])
    client.claim(world.log, "a", NOON, [4], core=True)
    client.note(world.log, "b", NOON, ["lock"])
    client.note(world.log, "c", NOON, ["gym"])
    client.recall(world.log, "a", NOON, concept_ids=[1], request_id="r1")
    client.recall(world.log, "b", NOON, words=["gym"], request_id="r2")
    client.session_end(world.log, "b", after(seconds=1), "CRASH")
    client.session_end(world.log, "c", after(seconds=1))
    world.at(seconds=100)
    fuse = Fuse(moments)
    plain = world.log.append
    world.log.append = fuse.wrap(plain)  # type: ignore[method-assign]
    for name in ("sweep", "plan_and_consolidate", "flush", "record_accesses", "claim", "associations"):
        setattr(world.memory, name, fuse.wrap(getattr(world.memory, name)))
    died = False
    try:
        world.step()
        client.activity(world.log, "a", world.now, "TASK")
        shut_down(world.caretaker, 30, world.clock, lambda _: None)
    except Killed:
        died = True
        world.log.append = plain  # type: ignore[method-assign]
        world.restart()
        world.step()
        shut_down(world.caretaker, 30, world.clock, lambda _: None)
    return world, died


def outcome(world: World) -> dict[str, Any]:
    state = current(world.log)
    return {
        "observations": sorted((session, o.words) for (session, _), o in world.memory.observations.items()),
        "accesses": sorted(world.memory.accesses),
        "claimed": world.memory.claimed,
        "consolidations": len(world.memory.consolidations),
        "notices": sorted((n.session_id, n.content.model_dump_json()) for n in list_notices(world.log)),
        "dropped": [e.body for e in world.log.read(kinds=["AdvisoryDropped"])],
        "closed": sorted((e.session_id or "", e.body) for e in world.log.read(kinds=["SessionClosed"])),
        "open": (state.unsaved, state.advisories, state.traversing, state.phase, state.feedback_done == state.feedback_seen),
    }


def test_a_kill_at_any_moment_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    world, died = busy_day(tmp_path / "calm", moments=10**9)
    right = outcome(world)
    assert not died
    assert right["open"] == ({}, {}, None, "down", True)
    assert len(right["notices"]) == 2  # one audit prompt, one recollection
    moments = 0
    while died or moments == 0:
        moments += 1
        world, died = busy_day(tmp_path / str(moments), moments)
        assert outcome(world) == right, f"killed at moment {moments}"
        world.log.close()
    assert moments > 60


def fill(path: Path, rows: int) -> None:
    """Interactions of a session by the thousand, written in bulk: what is measured is reading them."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(
        """INSERT INTO events (uid, at, kind, version, session_id, transaction_id, "trigger", begun_at, payload)
           WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
           SELECT 'bulk-' || i, ?, 'Interaction', 1, 'old-' || (i % 500), 't' || i, 'agent', 0, '{"mode":"TASK"}' FROM n""",
        [rows, int(NOON.timestamp()) * 1_000_000],
    )
    db.close()


def test_a_tick_over_a_hundred_thousand_events_reads_only_what_is_new(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    fill(world.log.path, 100_000)
    current(world.log)  # the one that folds them all, and saves the fold
    client.activity(world.log, "s", NOON, "TASK")
    begin = time.perf_counter()
    report = tick(world.log, world.memory, world.publisher, NOON, QUIET)
    assert time.perf_counter() - begin < 0.2
    assert report.ran == ()
    assert current(world.log).sessions["s"].mode == "TASK"


def test_writers_keep_the_fold_near_the_end_of_a_log_that_nobody_ticks(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    fill(world.log.path, 4 * client.FOLD_EVERY)
    while client.activity(world.log, "s", NOON, "TASK") % client.FOLD_EVERY:
        pass
    saved = sqlite3.connect(world.log.path).execute("SELECT last_id FROM saved_fold").fetchone()
    assert saved == (world.log.last_id(),)


def test_settings_come_from_the_environment_and_a_bad_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBCONSCIOUS_BREAK_MINUTES", "45")
    assert load_caretaker_settings(debounce_seconds=5).model_dump(include={"break_minutes", "debounce_seconds"}) == {
        "break_minutes": 45, "debounce_seconds": 5,
    }  # fmt: skip
    monkeypatch.setenv("SUBCONSCIOUS_BREAK_MINUTES", "soon")
    with pytest.raises(ConfigError, match="SUBCONSCIOUS_BREAK_MINUTES"):
        load_caretaker_settings()
