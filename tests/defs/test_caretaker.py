"""The caretaker in Dagster: what each sensor asks for on a literal home, and what the jobs it launches do."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from extraction.fake_server import FakeServer, Request, Step
from place import Place, at, result, said, span

from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.bridge import FilePublisher, StoreMemory
from subconscious_pipeline.caretaker.events import Command, CommandStarted, TransactionContext
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import current
from subconscious_pipeline.caretaker.tick import Caretaker, CaretakerLock
from subconscious_pipeline.definitions import defs
from subconscious_pipeline.defs.automation import late_data
from subconscious_pipeline.defs.instance import instance
from subconscious_pipeline.instants import iso_z

from .world import AS_OF, KEYS, answer, ask, asked, cli, execute, small

NOW = at("2026-04-01T12:00Z")
SLOT = int(NOW.timestamp()) // 120  # a run that died before it began is asked for again in the next
NAMES = ("decay", "consolidation", "session_monitor", "total_recall")


@pytest.fixture(autouse=True)
def the_home(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors find the home of the test in the environment; its clock stands at NOW."""
    monkeypatch.setenv("SUBCONSCIOUS_HOME", str(place.home.root))
    stand(place, NOW)


def stand(place: Place, moment: datetime) -> None:
    place.home.clock.write_text(iso_z(moment), encoding="ascii")


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def tick(name: str) -> tuple[list[str], str | None]:
    """Run keys that one look of a sensor asks for, and why it asks for none."""
    found = defs.resolve_sensor_def(name).evaluate_tick(dg.build_sensor_context(definitions=defs))
    return [request.run_key for request in found.run_requests or ()], found.skip_message


def asks() -> dict[str, list[str]]:
    return {name: keys for name in NAMES if (keys := tick(name)[0])}


def remember(place: Place) -> None:
    """Four matters: one of today, one of six weeks ago, and two that turned out to be the same."""
    place.persist(result("2026-04-01T06:00Z", said("heron census wetland", span("club", "2026-04-01T09:00Z"), ttl=300)))
    place.persist(result("2026-02-16T06:00Z", said("piano lesson recital", span("music", "2026-02-16T09:00Z"), ttl=300)))
    place.persist(result("2026-03-31T06:00Z", said("entrance lock key door cylinder", span("house", "2026-03-31T09:00Z"), ttl=300)))
    place.persist(result("2026-03-31T12:00Z", said("entrance lock parcel courier theft", span("house", "2026-03-31T13:00Z"), ttl=300)))
    place.project(NOW)
    assert len(place.concepts()) == 4


def settled(place: Place) -> EventLog:
    """A home whose sweep, consolidation and publication are done at NOW; returns its log, which the caller closes."""
    log = EventLog(place.home.events)
    Caretaker(log, StoreMemory(place.home, place.settings), FilePublisher(place.home, place.settings), CaretakerSettings()).step(place.home.now)
    assert asks() == {}
    return log


def pictures(place: Place) -> list[dict[str, Any]]:
    """The metadata that sweeps have shown of the asset `salience`."""
    with instance(place.home) as storage:
        records = storage.fetch_observations(dg.AssetKey("salience"), limit=10).records
    return [{name: value.value for name, value in record.asset_observation.metadata.items()} for record in records if record.asset_observation]


def kinds(log: EventLog, after_id: int = 0) -> list[str]:
    return [event.kind for event in log.read(after_id)]


# ---- sensors ----


def test_a_home_without_an_index_is_left_alone(place: Place) -> None:
    assert [tick(name) for name in NAMES] == [([], "this home has no index yet")] * 4
    assert not place.home.events.exists()


def test_the_first_look_asks_for_a_sweep_and_a_consolidation(place: Place) -> None:
    remember(place)
    assert asks() == {"decay": [f"decay:decaysweep-0#1@{SLOT}"], "consolidation": [f"consolidation:consolidate-0#1@{SLOT}"]}


def test_nothing_is_asked_for_until_an_interval_is_over(place: Place) -> None:
    remember(place)
    with settled(place) as log:
        swept = next(e.id for e in log.read(kinds=["CommandFinished"]) if e.body.startswith('{"command":"DecaySweep"'))
        stand(place, after(59))
        assert [tick(name) for name in NAMES] == [([], "nothing is due")] * 4
        stand(place, after(60))
        assert asks() == {"decay": [f"decay:decaysweep-{swept}#1@{SLOT + 30}"]}


def test_the_run_key_names_the_try(place: Place) -> None:
    remember(place)
    with EventLog(place.home.events) as log:
        begun = CommandStarted(command=Command.SWEEP, tries=1, lease_until=after(2))
        log.append(NewEvent(begun, NOW, TransactionContext(transaction_id="decaysweep-0", trigger="interval", at=NOW)))
    assert tick("decay") == ([], "nothing is due")
    stand(place, after(2))
    assert tick("decay")[0] == [f"decay:decaysweep-0#2@{SLOT + 1}"]


def test_a_session_that_worked_for_long_asks_for_session_care_by_the_event_that_began_its_work(place: Place) -> None:
    remember(place)
    with settled(place) as log:
        client.session_start(log, "s", NOW, instance_id="desk", rules={"heartbeat_minutes": 1_000})
        stretch = client.activity(log, "s", after(1), "TASK")
        stand(place, after(30))
        assert asks() == {}
        stand(place, after(91))
        assert asks() == {"session_monitor": [f"session_monitor:break-{stretch}@{SLOT + 45}"], "decay": tick("decay")[0]}


def test_an_end_and_a_note_ask_for_one_run_whose_key_holds_both(place: Place) -> None:
    remember(place)
    with settled(place) as log:
        client.session_start(log, "s", NOW, instance_id="desk")
        note = client.note(log, "s", NOW, ["tenor"])
        client.session_end(log, "s", NOW)
        [key] = tick("session_monitor")[0]
        assert re.fullmatch(rf"session_monitor:flush-{note}#1@{SLOT}\+[0-9a-f]{{12}}", key)
        client.session_start(log, "t", NOW, instance_id="desk")
        client.session_end(log, "t", NOW)
        [other] = tick("session_monitor")[0]
        assert other != key, "more to do is another run"


def test_a_recall_is_asked_for_once_its_debounce_is_over(place: Place) -> None:
    remember(place)
    with settled(place) as log:
        client.session_start(log, "s", NOW, instance_id="desk")
        client.recall(log, "s", NOW, words=["entrance"], request_id="r")
        advisory = log.last_id()
        stand(place, after(1.4))
        assert asks() == {}
        stand(place, after(1.5))
        assert asks() == {"total_recall": [f"total_recall:recall-{advisory}#1@{SLOT}"]}


def test_a_damaged_event_log_is_a_reason_to_skip_not_a_crash(place: Place) -> None:
    remember(place)
    place.home.events.write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    for name in NAMES:
        keys, reason = tick(name)
        assert keys == []
        assert reason is not None
        assert reason.startswith("events.db cannot be used as an event log")
    skipped = late_data.evaluate_tick(dg.build_sensor_context(definitions=defs))
    assert not skipped.run_requests
    assert "events.db" in (skipped.skip_message or "")


def test_a_bad_threshold_is_a_reason_to_skip_not_a_crash(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(place)
    monkeypatch.setenv("SUBCONSCIOUS_SWEEP_MINUTES", "often")
    assert "SUBCONSCIOUS_SWEEP_MINUTES" in (tick("decay")[1] or "")


def test_sensors_run_without_being_switched_on() -> None:
    assert [defs.resolve_sensor_def(name).default_status for name in NAMES] == [dg.DefaultSensorStatus.RUNNING] * 4


# ---- jobs ----


def test_the_sweep_moves_tiers_publishes_and_shows_one_picture_of_scores(place: Place) -> None:
    remember(place)
    assert execute(place.home, "decay_sweep").success
    assert place.memory("SELECT tier, count(*) FROM concept_state GROUP BY tier ORDER BY tier") == [("ACTIVE_CONTEXT", 3), ("LONG_TERM", 1)]
    [metadata] = pictures(place)
    assert {name: value for name, value in metadata.items() if name.startswith("tier_")} == {
        "tier_IDENTITY_CORE": 0, "tier_ACTIVE_CONTEXT": 3, "tier_LONG_TERM": 1, "tier_ARCHIVE": 0
    }  # fmt: skip
    picture = metadata["scores"]
    assert picture.startswith("```\n0.9 " + "█" * 60 + " 3\n")
    assert "\n0.2 " + "▓" * 20 + " 1\n" in picture
    assert (place.home.published / "awareness.md").exists()
    assert execute(place.home, "decay_sweep").success, "nothing is due any more, and that is no failure"
    with EventLog(place.home.events) as log:
        assert kinds(log).count("CommandFinished") == 2
    assert len(pictures(place)) == 1


def test_the_consolidation_merges_and_publishes(place: Place) -> None:
    remember(place)
    assert execute(place.home, "consolidate").success
    assert {"entrance", "lock", "key", "door", "cylinder", "parcel", "courier", "theft"} in place.concepts().values()
    assert place.memory("SELECT count(*) FROM merges") == [(1,)]
    assert b"cylinder" in place.home.index.read_bytes()


def test_session_care_reminds_prompts_saves_and_closes(place: Place) -> None:
    remember(place)
    with settled(place) as log:
        client.session_start(log, "long", NOW, instance_id="desk", rules={"heartbeat_minutes": 1_000})
        client.activity(log, "long", NOW, "TASK")
        client.session_start(log, "short", NOW, instance_id="desk")
        client.note(log, "short", NOW, ["tenor", "choir"])
        client.session_end(log, "short", after(90))
        stand(place, after(90))
        before = log.last_id()
        assert execute(place.home, "session_care").success
        assert kinds(log, before) == [
            "BreakNotification", "SessionAuditPrompt", "CommandStarted", "CommandFinished", "SessionClosed", "CommandStarted", "CommandFinished",
        ]  # fmt: skip
        assert {"tenor", "choir"} in place.concepts().values()
        assert b"tenor" in place.home.index.read_bytes()
        assert tick("session_monitor") == ([], "nothing is due")


def test_the_recall_job_delivers_a_recollection(place: Place) -> None:
    remember(place)
    with settled(place) as log:
        client.session_start(log, "s", NOW, instance_id="desk")
        client.recall(log, "s", NOW, words=["heron"], request_id="r")
        stand(place, after(2))
        assert execute(place.home, "recall").success
        [event] = log.read(kinds=["Recollection"])
        assert event.session_id == "s"
        assert set(event.payload().concepts[0].words) == {"heron", "census", "wetland"}  # type: ignore[attr-defined]
        assert place.memory("SELECT count(*) FROM accesses WHERE session_id = 's'") != [(0,)]


def test_a_command_that_fails_fails_its_run_and_says_what_is_tried_again(place: Place) -> None:
    remember(place)
    place.home.memory.write_bytes(b"no database")
    run = execute(place.home, "decay_sweep")
    assert not run.success
    [failure] = [event for event in run.all_events if event.is_step_failure]
    assert "decaysweep-0" in (failure.step_failure_data.user_failure_data.description or "")
    with EventLog(place.home.events) as log:
        [finished] = log.read(kinds=["CommandFinished"])
        assert finished.payload().error == "StoreError"  # type: ignore[attr-defined]
    stand(place, after(2))
    assert tick("decay")[0] == [f"decay:decaysweep-0#2@{SLOT + 1}"]


def test_a_job_behind_a_busy_caretaker_gives_up_after_the_lock_time_and_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(place)
    monkeypatch.setenv("SUBCONSCIOUS_LOCK_SECONDS", "0.1")
    with EventLog(place.home.events) as log, CaretakerLock(log) as mine:
        assert mine
        run = execute(place.home, "decay_sweep")
        assert run.success
        assert kinds(log) == []
    assert pictures(place) == []
    stand(place, after(2))
    assert tick("decay")[0] == [f"decay:decaysweep-0#1@{SLOT + 1}"], "and it is asked for again"


# ---- shutdown ----


def test_a_shutdown_is_carried_out_by_session_care_and_then_nothing_is_asked_for(place: Place) -> None:
    remember(place)
    with settled(place) as log:
        client.session_start(log, "s", NOW, instance_id="desk")
        client.note(log, "s", NOW, ["tenor", "choir"])
        client.shutdown(log, NOW, 30)
        assert list(asks()) == ["session_monitor"]
        assert execute(place.home, "session_care").success
        [done] = log.read(kinds=["ShutdownCompleted"])
        assert done.payload().model_dump(include={"saved_contexts", "published", "timed_out"}) == {
            "saved_contexts": 1, "published": True, "timed_out": False
        }  # fmt: skip
        assert b"tenor" in place.home.index.read_bytes()
        stand(place, after(10_000))
        assert asks() == {}
        assert late_data.evaluate_tick(dg.build_sensor_context(definitions=defs)).skip_message == (
            "this home was shut down; `subconscious dev` or `subconscious tick` starts it again"
        )


def test_a_run_asks_about_no_further_window_once_a_shutdown_is_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = small(tmp_path / "other")
    monkeypatch.setenv("SUBCONSCIOUS_HOME", str(home.root))

    def script(request: Request) -> Step:
        with EventLog(home.events) as log:
            if current(log).phase == "running":
                client.shutdown(log, at(AS_OF), 600)
        return answer(request)

    monkeypatch.setattr("subconscious_pipeline.defs.index.ShutdownWatch.__init__.__defaults__", (0.0,))
    with FakeServer(script) as server:
        ask(monkeypatch, server, concurrency="1")
        done = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert done.code == 0, done.text
        assert asked(server) == [KEYS[0]]
        assert "3 windows wait for the next run" in done.out
    with EventLog(home.events) as log:
        assert current(log).phase == "stopping"
