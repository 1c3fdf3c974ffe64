"""The caretaker's sequences as they stand in the log: events in, commands and notifications out, under a frozen clock."""

from __future__ import annotations

from datetime import timedelta

from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.notifications import list_notices
from subconscious_pipeline.caretaker.shutdown import shut_down
from subconscious_pipeline.errors import StoreLocked

from .world import NOON, World, after


def test_an_advisory_becomes_a_recollection_after_the_debounce(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.recall(world.log, "s", world.at(seconds=10), words=["Building"], request_id="r1")
    world.step()
    world.at(seconds=99)
    world.step()
    assert world.trace() == ["0 SessionStarted", "10 TotalRecallAdvisory r1 building"]
    world.at(seconds=100)
    world.step()
    assert world.trace() == [
        "100 TraversalStarted r1",
        "100 TraversalDepth r1 0",
        "100 TraversalDepth r1 1",
        "100 TraversalDepth r1 2",
        "100 TraversalDepth r1 3",
        "100 TraversalFinished r1 completed 3",
        "100 Recollection r1 completed 3 of 1@0,2@1,3@2,4@3",
    ]
    assert world.memory.calls == ["associations", "accesses 1", "accesses 2", "accesses 3", "accesses 4"]
    assert world.memory.accesses == {(n, after(seconds=10), "s") for n in (1, 2, 3, 4)}  # dated when it was asked: once, however often repeated
    (notice,) = list_notices(world.log, session_id="s")
    assert [c.tier for c in notice.content.concepts][-1] == "ARCHIVE"  # type: ignore[attr-defined]
    world.step()
    assert world.trace() == []


def test_a_cancel_in_mid_traversal_halts_at_the_next_depth_and_delivers_what_was_found(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.recall(world.log, "s", world.at(), concept_ids=[1], request_id="r1")
    world.trace()

    def cancel_at_the_second() -> None:
        if world.memory.calls[-1] == "accesses 2":
            client.recall_cancel(world.log, world.now, "r1", "s")

    world.memory.on["accesses"] = cancel_at_the_second
    world.at(seconds=90)
    world.step()
    assert world.trace() == [
        "90 TraversalStarted r1",
        "90 TraversalDepth r1 0",
        "90 TotalRecallCancelled r1",
        "90 TraversalDepth r1 1",
        "90 TraversalFinished r1 cancelled 1",
        "90 Recollection r1 cancelled 1 of 1@0,2@1",
    ]


def test_an_explicit_end_is_prompted_then_saved_then_closed(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.activity(world.log, "s", world.at(minutes=1), "TASK")
    client.note(world.log, "s", world.at(minutes=2), ["lock", "entrance"])
    client.session_end(world.log, "s", world.at(minutes=3), reason="done for today")
    world.at(minutes=4)
    world.step()
    assert world.trace() == [
        "0 SessionStarted",
        "60 Interaction TASK",
        "120 WorkingContext lock entrance",
        "180 SessionEnded EXPLICIT done for today",
        "240 SessionAuditPrompt",
        "240 CommandStarted Flush",
        "240 CommandFinished Flush",
        "240 SessionClosed EXPLICIT",
        "240 CommandStarted Publish",
        "240 CommandFinished Publish",
    ]
    assert world.memory.calls == ["flush s session_end lock entrance"]
    # The prompt is answered after the close: the note and the claim still count.
    client.note(world.log, "s", world.at(minutes=5), ["spare", "key"])
    client.claim(world.log, "s", world.now, [3], core=True)
    world.step()
    assert world.trace("CommandFinished") == ["300 CommandFinished RecordFeedback", "300 CommandFinished Flush", "300 CommandFinished Publish"]
    assert world.memory.calls[1:] == ["claim 3 core", "flush s late_note spare key"]
    assert world.memory.claimed == {3: True}


def test_a_crash_saves_the_unsaved_context_without_a_prompt(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.note(world.log, "s", world.at(seconds=1), ["lock", "entrance"])
    client.recall(world.log, "s", world.at(seconds=2), words=["lock"], request_id="r1")
    client.session_end(world.log, "s", world.at(seconds=3), "CRASH")
    world.trace()
    world.at(seconds=4)
    world.step()
    assert world.trace() == [
        "4 AdvisoryDropped r1 not_connected",
        "4 CommandStarted Flush",
        "4 CommandFinished Flush",
        "4 SessionClosed CRASH",
        "4 CommandStarted Publish",
        "4 CommandFinished Publish",
    ]
    assert world.memory.calls == ["flush s crash lock entrance"]


def test_a_lost_heartbeat_ends_the_session_as_a_time_out(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.note(world.log, "s", world.at(minutes=1), ["lock"])
    world.trace()
    world.at(minutes=30, seconds=59)
    world.step()
    assert world.trace() == []
    world.at(minutes=31)
    world.step()
    assert world.trace() == [
        "1860 SessionEnded TIMEOUT heartbeat lost",
        "1860 CommandStarted Flush",
        "1860 CommandFinished Flush",
        "1860 SessionClosed TIMEOUT",
        "1860 CommandStarted Publish",
        "1860 CommandFinished Publish",
    ]


def test_a_shutdown_in_time_saves_every_session_and_publishes(world: World) -> None:
    client.session_start(world.log, "a", world.at(), instance_id="desk")
    client.session_start(world.log, "b", world.at(), instance_id="phone")
    client.note(world.log, "a", world.at(), ["lock"])
    client.note(world.log, "b", world.at(), ["gym"])
    client.accessed(world.log, "a", world.at(), [1])
    client.recall(world.log, "a", world.at(), words=["lock"], request_id="r1")
    world.trace()
    world.at(seconds=100)  # the recall would begin now, but a shutdown came
    report = shut_down(world.caretaker, 30, world.clock, lambda _: None)
    assert world.trace() == [
        "100 ShutdownRequested",
        "100 AdvisoryDropped r1 shutdown",
        "100 CommandStarted RecordFeedback",
        "100 CommandFinished RecordFeedback",
        "100 CommandStarted Flush",
        "100 CommandFinished Flush",
        "100 CommandStarted Flush",
        "100 CommandFinished Flush",
        "100 CommandStarted Publish",
        "100 CommandFinished Publish",
        "100 ShutdownCompleted saved 2 cut off 0 published True",
    ]
    assert (report.timed_out, report.saved_sessions) == (False, ("a", "b"))
    assert world.publisher.published == [world.now]
    # Nothing happens until the next start, then it goes on where it was: both sessions are still known, and now silent too long.
    world.at(minutes=60)
    assert world.step().recorded == ()
    world.restart()
    world.step()
    assert world.trace("SessionEnded") == ["3600 SessionEnded TIMEOUT heartbeat lost"] * 2


def test_a_shutdown_out_of_time_says_what_it_cut_off_and_the_next_start_saves_it(world: World) -> None:
    for name, word in (("a", "lock"), ("b", "gym")):
        client.session_start(world.log, name, world.at(), instance_id="desk")
        client.note(world.log, name, world.at(), [word])
    world.trace()

    def slow() -> None:
        world.now += timedelta(seconds=31)

    world.memory.on["flush"] = slow
    report = shut_down(world.caretaker, 30, world.clock, lambda _: None)
    assert world.trace() == [
        "0 ShutdownRequested",
        "0 CommandStarted Flush",
        "31 CommandFinished Flush",
        "31 ShutdownCompleted saved 1 cut off 1 published False",
    ]
    assert (report.timed_out, report.cut_off_sessions) == (True, ("b",))
    del world.memory.on["flush"]
    world.restart()
    client.session_end(world.log, "b", world.now, "CRASH")
    world.step()
    assert world.memory.calls == ["flush a shutdown lock", "flush b crash gym"]
    assert [o.words for o in world.memory.observations.values()] == [("lock",), ("gym",)]


def test_a_start_after_a_shutdown_that_died_works_on_and_one_within_its_time_finishes_it(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.note(world.log, "s", world.at(), ["lock"])
    client.shutdown(world.log, world.at(), 30)
    world.at(seconds=29)
    world.restart()
    assert world.caretaker.state().phase == "stopping"
    world.at(seconds=30)
    world.restart()
    assert world.caretaker.state().phase == "running"
    client.session_end(world.log, "s", world.now, "CRASH")
    world.step()
    assert world.memory.calls == ["flush s crash lock"]


def test_a_traversal_halts_for_a_shutdown_and_delivers_what_it_has(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.recall(world.log, "s", world.at(), concept_ids=[1], request_id="r1")
    world.memory.on["associations"] = lambda: client.shutdown(world.log, world.now, 30) and None
    world.trace()
    world.at(seconds=90)
    world.step()
    assert world.trace() == [
        "90 TraversalStarted r1",
        "90 ShutdownRequested",
        "90 TraversalDepth r1 0",
        "90 TraversalFinished r1 shutdown 0",
        "90 Recollection r1 shutdown 0 of 1@0",
        "90 CommandStarted Publish",
        "90 CommandFinished Publish",
        "90 ShutdownCompleted saved 0 cut off 0 published True",
    ]


def test_who_is_silent_gets_no_break_reminder(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.activity(world.log, "s", world.at(), "TASK")
    world.trace()
    world.at(minutes=100)
    world.step()
    assert world.trace() == ["6000 SessionEnded TIMEOUT heartbeat lost", "6000 SessionClosed TIMEOUT"]


def test_a_break_is_suggested_once_a_stretch(world: World) -> None:
    client.session_start(world.log, "s", world.at(), instance_id="desk")
    world.trace()
    for minute in range(0, 220, 10):
        client.activity(world.log, "s", world.at(minutes=minute), "CONVERSATION" if minute == 110 else "TASK")
        world.step()
    assert world.trace("BreakNotification") == ["5400 BreakNotification 90", "12600 BreakNotification 90"]
    assert (world.now - NOON) == timedelta(minutes=210)


def test_a_command_that_fails_is_tried_again_with_patience_and_recorded_each_time(world: World) -> None:
    def locked() -> None:
        raise StoreLocked("memory.duckdb is held by another process")

    client.session_start(world.log, "s", world.at(), instance_id="desk")
    client.note(world.log, "s", world.at(), ["lock"])
    client.session_end(world.log, "s", world.at(), "CRASH")
    world.memory.on["flush"] = locked
    world.trace()
    for second in (0, 30, 60, 120, 180):
        world.at(seconds=second)
        world.step()
    del world.memory.on["flush"]
    world.at(seconds=420)
    world.step()
    assert world.trace("CommandFinished", "SessionClosed") == [
        "0 CommandFinished Flush failed",
        "60 CommandFinished Flush failed",
        "180 CommandFinished Flush failed",
        "420 CommandFinished Flush",
        "420 SessionClosed CRASH",
        "420 CommandFinished Publish",
    ]
