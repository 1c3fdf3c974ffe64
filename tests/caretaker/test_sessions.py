"""Sessions as folded from events: stretches of work, heartbeats, what is unsaved; the same wherever the fold begins."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.caretaker import client, monitor
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.sessions import stretch_seconds
from subconscious_pipeline.caretaker.state import FOLD_VERSION, current, fold
from subconscious_pipeline.instants import to_micros

from .world import NOON, QUIET, World, after


def modes(world: World, *reports: tuple[float, str]) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    for minute, mode in reports:
        client.activity(world.log, "s", after(minutes=minute), mode)


@pytest.mark.parametrize(
    ("reports", "minutes"),
    [
        ([], 0),
        ([(0, "TASK")], 60),
        ([(0, "TASK"), (20, "TASK")], 60),
        ([(0, "TASK"), (20, "IDLE")], 20),
        ([(0, "TASK"), (20, "IDLE"), (50, "TASK")], 30),
        ([(0, "TASK"), (20, "CONVERSATION")], 0),
        ([(0, "TASK"), (20, "CONVERSATION"), (50, "TASK")], 10),
        ([(0, "IDLE"), (40, "TASK")], 20),
    ],
)
def test_only_task_time_counts_idle_pauses_and_a_conversation_resets(world: World, reports: list[tuple[float, str]], minutes: int) -> None:
    modes(world, *reports)
    assert stretch_seconds(current(world.log).sessions["s"], to_micros(after(minutes=60))) == minutes * 60


def test_a_break_is_due_at_the_threshold_only_in_task_mode_and_by_the_rules_of_the_session(world: World) -> None:
    client.session_start(world.log, "short", NOON, instance_id="desk", rules={"break_minutes": 10})
    modes(world, (0, "TASK"))
    client.activity(world.log, "short", NOON, "TASK")
    state = current(world.log)

    def due(minute: float, second: float = 0) -> list[tuple[str, int]]:
        return [(session.id, worked) for session, worked in monitor.breaks_due(state, after(minute, second), QUIET)]

    assert due(9, 59) == []
    assert due(10) == [("short", 10)]
    assert due(90) == [("short", 90), ("s", 90)]
    client.activity(world.log, "short", after(minutes=5), "IDLE")
    state = current(world.log)
    assert due(90) == [("s", 90)]


def test_what_has_been_told_is_not_due_again_and_an_end_by_choice_is_not_closed_before_its_prompt(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk", rules={"break_minutes": 10})
    client.activity(world.log, "s", NOON, "TASK")

    def due() -> list[str]:
        return [type(record.payload).__name__ for record in world.caretaker.due(world.now).records]

    world.at(minutes=10)
    assert due() == ["BreakNotification"]
    world.step()
    assert due() == []
    client.session_end(world.log, "s", world.now)
    assert due() == ["SessionAuditPrompt"]
    world.caretaker._record(world.caretaker.due(world.now).records[0], world.now)
    assert due() == ["SessionClosed"]


def test_a_session_may_set_its_own_heartbeat(world: World) -> None:
    client.session_start(world.log, "slow", NOON, instance_id="desk", rules={"heartbeat_minutes": 120})
    client.session_start(world.log, "s", NOON, instance_id="desk")
    client.note(world.log, "s", after(minutes=20), ["lock"])  # any sign of life counts
    state = current(world.log)
    lost = [[s.id for s in monitor.lost_heartbeats(state, after(minutes=m), QUIET)] for m in (49, 50, 119, 120)]
    assert lost == [[], ["s"], ["s"], ["slow", "s"]]


def test_activity_after_the_end_changes_nothing_but_a_note_is_still_saved(world: World) -> None:
    modes(world, (0, "TASK"))
    client.session_end(world.log, "s", after(minutes=1), "CRASH")
    client.activity(world.log, "s", after(minutes=2), "TASK")
    client.session_end(world.log, "s", after(minutes=3), "EXPLICIT")
    client.note(world.log, "s", after(minutes=4), ["lock"])
    world.at(minutes=5)
    world.step()
    assert world.trace("SessionAuditPrompt", "SessionClosed") == ["300 SessionClosed CRASH"]
    assert world.memory.calls == ["flush s crash lock"]


def test_a_session_that_ends_and_begins_again_before_anybody_looks_is_two_sessions(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    client.note(world.log, "s", NOON, ["lock"])
    client.recall(world.log, "s", NOON, words=["lock"], request_id="r1")
    client.session_end(world.log, "s", after(seconds=1))
    client.session_start(world.log, "s", after(seconds=2), instance_id="desk")
    client.note(world.log, "s", after(seconds=3), ["gym"])
    world.at(seconds=100)
    world.step()
    assert world.trace("AdvisoryDropped", "SessionAuditPrompt", "SessionClosed") == [
        "100 AdvisoryDropped r1 not_connected",
        "100 SessionAuditPrompt",
        "100 SessionClosed EXPLICIT",
    ]
    assert world.memory.calls == ["flush s session_end lock"]
    client.session_end(world.log, "s", after(seconds=101), "CRASH")
    world.step()
    assert world.memory.calls[1:] == ["flush s crash gym"]


def test_a_sign_of_life_that_came_first_undoes_a_time_out(world: World) -> None:
    client.session_start(world.log, "s", NOON, instance_id="desk")
    (record,) = world.caretaker.due(after(minutes=30)).records
    client.activity(world.log, "s", after(minutes=30), "TASK")
    world.caretaker._record(record, after(minutes=30))
    world.at(minutes=31)
    world.step()
    assert list(current(world.log).sessions) == ["s"]
    assert world.trace("SessionClosed") == []


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    verb = st.sampled_from(["start", "TASK", "IDLE", "CONVERSATION", "note", "end", "recall", "claim", "step"])
    return draw(st.lists(st.tuples(verb, st.sampled_from(["a", "b"]), st.integers(0, 3_000)), max_size=25))


@settings(max_examples=40, deadline=None)
@given(steps())
def test_the_state_is_the_same_from_nothing_from_anywhere_and_from_the_saved_fold(course: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), settled=False)
        for verb, name, seconds in course:
            world.at(seconds=(world.now - NOON).total_seconds() + seconds)
            match verb:
                case "start":
                    client.session_start(world.log, name, world.now, instance_id="desk")
                case "TASK" | "IDLE" | "CONVERSATION":
                    client.activity(world.log, name, world.now, verb)
                case "note":
                    client.note(world.log, name, world.now, ["lock"])
                case "end":
                    client.session_end(world.log, name, world.now)
                case "recall":
                    client.recall(world.log, name, world.now, words=["lock"])
                case "claim":
                    client.claim(world.log, name, world.now, [1])
                case "step":
                    world.step()
        events = world.log.read()
        whole = fold(events)
        for cut in {0, len(events) // 2, len(events)}:
            assert fold(events[cut:], fold(events[:cut])) == whole
        assert world.caretaker.state() == whole
        world.log.close()


def test_a_saved_fold_is_used_and_one_of_another_version_is_not(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.db") as log:
        client.session_start(log, "s", NOON, instance_id="desk")
        for second in range(600):
            client.activity(log, "s", after(seconds=second), "TASK")
        whole = current(log)
        assert log.load_fold(FOLD_VERSION) is not None
        assert current(log) == whole
        log.save_fold(FOLD_VERSION, 1, b"older")
        assert current(log) == whole
        log.save_fold(FOLD_VERSION + 1, 601, b"of another program")
        assert current(log) == whole
        log.drop_fold()
        log.save_fold(FOLD_VERSION, 601, b"damaged")
        assert current(log) == whole
        log.drop_fold()
        assert current(log) == whole
