"""The gate: when a recall starts, waits or is dropped. Rules one by one, then any course of events against an independent model."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from subconscious_pipeline.caretaker import client, gate
from subconscious_pipeline.caretaker.events import (
    AdvisoryDropped,
    CaretakerStarted,
    DropReason,
    Payload,
    ShutdownCompleted,
    TransactionContext,
    TraversalDepth,
    TraversalFinished,
    TraversalOutcome,
    TraversalStarted,
)
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import State, current, fold
from subconscious_pipeline.errors import StoreError

from .world import NOON, QUIET, World, after


def verdicts(world: World, at: datetime) -> list[str]:
    return [
        f"{d.request_id} {type(d).__name__} {getattr(d, 'why', '') or getattr(d, 'reason', '')}".strip()
        for d in gate.decide(current(world.log), at, world.settings)
    ]


def connected(world: World, *names: str, **rules: float) -> None:
    for name in names:
        client.session_start(world.log, name, NOON, instance_id="desk", rules=rules)


def test_three_advisories_within_the_debounce_give_one_traversal_for_the_last(world: World) -> None:
    connected(world, "s")
    for second, request in ((0, "r1"), (30, "r2"), (60, "r3")):
        client.recall(world.log, "s", after(seconds=second), words=["lock"], request_id=request)
    assert verdicts(world, after(seconds=60)) == ["r1 Drop superseded", "r2 Drop superseded", "r3 Wait debounce"]
    world.at(seconds=150)
    world.step()
    assert world.trace("AdvisoryDropped", "TraversalStarted", "Recollection") == [
        "150 AdvisoryDropped r1 superseded",
        "150 AdvisoryDropped r2 superseded",
        "150 TraversalStarted r3",
        "150 Recollection r3 completed 1 of 2@0,3@0,1@1,4@1",
    ]


def test_an_advisory_past_its_window_is_not_superseded_however_late_anybody_looks(world: World) -> None:
    connected(world, "s")
    client.recall(world.log, "s", NOON, words=["lock"], request_id="r1")
    client.recall(world.log, "s", after(seconds=90), words=["gym"], request_id="r2")
    assert verdicts(world, after(seconds=90)) == ["r1 Start", "r2 Wait debounce"]
    assert verdicts(world, after(minutes=10)) == ["r1 Start", "r2 Wait throttle"]


def test_a_cancel_before_the_start_drops(world: World) -> None:
    connected(world, "s", "other")
    client.recall(world.log, "s", NOON, words=["lock"], request_id="r1")
    client.recall_cancel(world.log, NOON, "r1", "other")
    assert verdicts(world, NOON) == ["r1 Wait debounce"]
    client.recall_cancel(world.log, NOON, "r1", "s")
    assert verdicts(world, NOON) == ["r1 Drop cancelled"]


def test_nobody_connected_means_no_recall(world: World) -> None:
    connected(world, "s")
    client.recall(world.log, "s", NOON, words=["lock"], request_id="r1")
    client.recall(world.log, "never-started", NOON, words=["lock"], request_id="r2")
    client.session_end(world.log, "s", after(seconds=1), "CRASH")
    assert verdicts(world, after(seconds=2)) == ["r1 Drop not_connected", "r2 Drop not_connected"]


def test_others_wait_for_the_throttle_and_an_expired_lease_frees_it(world: World) -> None:
    connected(world, "a", "b")
    client.recall(world.log, "a", NOON, words=["lock"], request_id="r1")
    client.recall(world.log, "b", after(seconds=1), words=["gym"], request_id="r2")
    begun = TraversalStarted(request_id="r1", tries=1, max_depth=3, lease_until=after(seconds=210))
    world.log.append(NewEvent(begun, after(seconds=90), TransactionContext(transaction_id="t", trigger="debounce", session_id="a", at=NOON)))
    assert verdicts(world, after(seconds=209)) == ["r1 Wait throttle", "r2 Wait throttle"]
    assert verdicts(world, after(seconds=210)) == ["r1 Start", "r2 Wait throttle"]
    client.session_end(world.log, "a", after(seconds=200), "CRASH")
    client.session_end(world.log, "b", after(seconds=200), "CRASH")
    assert verdicts(world, after(seconds=209)) == ["r1 Wait throttle", "r2 Drop not_connected"]
    assert verdicts(world, after(seconds=210)) == ["r1 Drop not_connected", "r2 Drop not_connected"]


def test_a_recall_that_has_begun_is_not_superseded_by_one_whose_clock_is_behind(world: World) -> None:
    connected(world, "s")
    client.recall(world.log, "s", NOON, words=["lock"], request_id="r1")
    begun = TraversalStarted(request_id="r1", tries=1, max_depth=3, lease_until=after(seconds=210))
    world.log.append(NewEvent(begun, after(seconds=90), TransactionContext(transaction_id="t", trigger="debounce", session_id="s", at=NOON)))
    client.recall(world.log, "s", after(seconds=60), words=["gym"], request_id="r2")
    assert verdicts(world, after(seconds=210)) == ["r1 Start", "r2 Wait throttle"]


def test_a_session_may_set_its_own_debounce(world: World) -> None:
    connected(world, "s", debounce_seconds=5)
    client.recall(world.log, "s", NOON, words=["lock"], request_id="r1")
    assert verdicts(world, after(seconds=4)) == ["r1 Wait debounce"]
    assert verdicts(world, after(seconds=5)) == ["r1 Start"]


def test_an_advisory_that_fails_every_time_is_dropped_as_failed(world: World) -> None:
    def broken() -> None:
        raise StoreError("memory.duckdb is damaged")

    connected(world, "s", heartbeat_minutes=600)
    client.recall(world.log, "s", NOON, words=["lock"], request_id="r1")
    world.memory.on["associations"] = broken
    for minute in range(2, 10):
        world.at(minutes=minute)
        world.step()
    assert world.trace("TraversalFinished", "AdvisoryDropped", "Recollection") == [
        "120 TraversalFinished r1 failed -1",
        "180 TraversalFinished r1 failed -1",
        "300 TraversalFinished r1 failed -1",
        "300 AdvisoryDropped r1 failed",
    ]


@dataclass
class Asked:
    """The model's own account of one advisory, kept without the fold."""

    session: str
    at: datetime
    order: int
    cancelled: bool = False
    orphaned: bool = False
    started: bool = False
    settled: str = ""


class Gate(RuleBasedStateMachine):
    """Any course of sessions, advisories, cancels, crashes and shutdowns, with the gate's decisions carried out as they fall."""

    names = ("a", "b")
    knobs = CaretakerSettings(debounce_seconds=90, lease_seconds=120, recall_tries=2)

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.log = EventLog(Path(self.directory.name) / "events.db")
        self.now = NOON
        self.open: set[str] = set()
        self.down = False
        self.asked: dict[str, Asked] = {}
        self.running: tuple[str, datetime] | None = None
        self.state = State()
        self.decisions: list[tuple[int, datetime, list[gate.Decision]]] = []

    def teardown(self) -> None:
        self.now += timedelta(hours=1)
        if self.running is not None:
            self._finish(TraversalOutcome.COMPLETED)
        for name in sorted(self.open):
            self.end(name)
        self.ask()
        assert all(a.settled for a in self.asked.values()), "an advisory was neither answered nor dropped"
        assert current(self.log, self.state).advisories == {}
        events = self.log.read()
        for upto, at, decided in self.decisions:  # replayed from nothing: the same decisions
            assert gate.decide(fold(e for e in events if e.id <= upto), at, self.knobs) == decided
        self.log.close()
        self.directory.cleanup()

    def _write(self, payload: Payload, session: str | None = None) -> None:
        self.log.append(NewEvent(payload, self.now, TransactionContext(transaction_id="t", trigger="test", session_id=session, at=self.now)))

    @rule(name=st.sampled_from(names))
    def start(self, name: str) -> None:
        client.session_start(self.log, name, self.now, instance_id="desk")
        self.open.add(name)
        self.down = False

    @rule(name=st.sampled_from(names))
    def end(self, name: str) -> None:
        client.session_end(self.log, name, self.now, "CRASH")
        if name in self.open:
            self.open.discard(name)
            for asked in self.asked.values():
                asked.orphaned = asked.orphaned or asked.session == name

    @rule(name=st.sampled_from(names))
    def advise(self, name: str) -> None:
        request = f"r{len(self.asked)}"
        client.recall(self.log, name, self.now, words=["lock"], request_id=request)
        self.asked[request] = Asked(name, self.now, len(self.asked))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.asked)))
        client.recall_cancel(self.log, self.now, request)
        self.asked[request].cancelled = True

    @rule(seconds=st.sampled_from([1, 30, 89, 90, 121]))
    def pass_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def shut_down(self) -> None:
        client.shutdown(self.log, self.now, 30)
        self.down = True
        self.ask()
        self._write(ShutdownCompleted(
            saved_contexts=0, saved_sessions=(), published=True, cut_off_contexts=0, cut_off_sessions=(), cut_off_feedback=False, timed_out=False
        ))  # fmt: skip

    @rule()
    def restart(self) -> None:
        self._write(CaretakerStarted(instance_id="again"))
        self.running = None
        self.down = False

    @rule()
    def ask(self) -> None:
        self.state = current(self.log, self.state)
        decided = gate.decide(self.state, self.now, self.knobs)
        self.decisions.append((self.state.last_id, self.now, decided))
        unsettled = [request for request, a in self.asked.items() if not a.settled]
        assert [d.request_id for d in decided] == unsettled, "every open advisory gets one decision"
        for decision in decided:
            asked = self.asked[decision.request_id]
            if isinstance(decision, gate.Start):
                self._started(decision.request_id, asked)
            elif isinstance(decision, gate.Drop):
                self._dropped(decision, asked)

    def _started(self, request: str, asked: Asked) -> None:
        assert self.running is None or self.running[1] <= self.now, "two traversals at once"
        assert asked.session in self.open, "a traversal for nobody"
        assert not asked.orphaned, "a traversal for a session that ended meanwhile"
        assert not self.down, "a traversal during a shutdown"
        assert not asked.cancelled, "a traversal that was cancelled before"
        assert self.now >= asked.at + timedelta(seconds=90), "a traversal within the debounce"
        if not asked.started:
            assert not self._superseded(asked), "a traversal for an advisory that was superseded"
        asked.started = True
        lease = self.now + timedelta(seconds=120)
        tries = self.state.advisories[request].tries + 1
        self._write(TraversalStarted(request_id=request, tries=tries, max_depth=3, lease_until=lease), asked.session)
        self.running = (request, lease)

    def _superseded(self, asked: Asked) -> bool:
        later = (a for a in self.asked.values() if a.session == asked.session and a.order > asked.order)
        return any(a.at < asked.at + timedelta(seconds=90) for a in later)

    def _dropped(self, decision: gate.Drop, asked: Asked) -> None:
        true = {
            DropReason.CANCELLED: asked.cancelled,
            DropReason.SUPERSEDED: self._superseded(asked),
            DropReason.NOT_CONNECTED: asked.session not in self.open or asked.orphaned,
            DropReason.SHUTDOWN: self.down,
            DropReason.FAILED: asked.started,
        }
        assert true[decision.reason], f"dropped as {decision.reason} without that being so"
        asked.settled = decision.reason
        self._write(AdvisoryDropped(request_id=decision.request_id, reason=decision.reason), asked.session)

    @precondition(lambda self: self.running is not None)
    @rule()
    def depth(self) -> None:
        assert self.running is not None
        request = self.running[0]
        self.state = current(self.log, self.state)
        asked = self.asked[request]
        must_halt = self.down or asked.cancelled or asked.orphaned
        assert (gate.halt(self.state, request) is not None) == must_halt
        if must_halt:
            self._finish(gate.halt(self.state, request) or TraversalOutcome.COMPLETED)
        else:
            lease = self.now + timedelta(seconds=120)
            self._write(TraversalDepth(request_id=request, depth=1, concept_ids=(), lease_until=lease), asked.session)
            self.running = (request, lease)

    @precondition(lambda self: self.running is not None)
    @rule()
    def finish(self) -> None:
        self._finish(TraversalOutcome.COMPLETED)

    def _finish(self, outcome: TraversalOutcome) -> None:
        assert self.running is not None
        request, _ = self.running
        self._write(TraversalFinished(request_id=request, tries=1, outcome=outcome, depth_reached=1, recalled=0), self.asked[request].session)
        self.asked[request].settled = self.asked[request].settled or "answered"
        self.running = None

    @invariant()
    def the_fold_is_the_same_from_anywhere(self) -> None:
        assert current(self.log, self.state) == fold(self.log.read())


TestGate = Gate.TestCase
TestGate.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_the_defaults_are_those_the_documents_name() -> None:
    assert (QUIET.break_minutes, QUIET.debounce_seconds, QUIET.heartbeat_minutes) == (90, 90, 30)
