"""All that is due at one instant, in the order in which it is to be done. Pure; `tick.py` carries it out.

Every action has a key made of the events that led to it, so doing it again after a crash is recognized as the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from subconscious_pipeline.caretaker import gate, monitor
from subconscious_pipeline.caretaker.events import (
    AdvisoryDropped,
    BreakNotification,
    Command,
    EndCause,
    Payload,
    SessionAuditPrompt,
    SessionClosed,
    SessionEnded,
)
from subconscious_pipeline.caretaker.sessions import MICROS, Session
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import State
from subconscious_pipeline.instants import to_micros


@dataclass(frozen=True)
class Record:
    """An event to write, and nothing else to do."""

    key: str  # uid of the event
    payload: Payload
    trigger: str
    causation_id: int | None
    session_id: str | None


@dataclass(frozen=True)
class Run:
    """A command to execute."""

    command: Command
    key: str  # its transaction id: the same at every try
    tries: int  # the try this would be, from 1
    trigger: str
    causation_id: int | None
    session_id: str | None = None
    event_ids: tuple[int, ...] = ()  # Flush: working contexts
    request_id: str = ""  # Traversal: which advisory


@dataclass(frozen=True)
class Plan:
    """What is due. Records are written first; then one command is run and everything is looked at again."""

    records: tuple[Record, ...]
    runs: tuple[Run, ...]


def plan(state: State, as_of: datetime, settings: CaretakerSettings) -> Plan:
    """What the caretaker does at `as_of` (aware UTC), from the folded log alone."""
    if state.phase == "down":
        return Plan(tuple(_drops(state, as_of, settings)), ())
    records = [*_drops(state, as_of, settings), *_session_records(state, as_of, settings)]
    if state.phase == "stopping":
        steps = monitor.shutdown_steps(state, as_of)
        runs = [run for step in steps for run in _shutdown_runs(state, step)]
        if not steps:
            records.append(Record(f"shutdown-{state.shutdown_id}", monitor.shutdown_report(state), "shutdown", state.shutdown_id, None))
        return Plan(tuple(records), tuple(runs))
    now = to_micros(as_of)
    runs = [*_feedback(state), *_flushes(state), *_traversals(state, as_of, settings), *_intervals(state, now, settings), *_publication(state)]
    return Plan(tuple(records), tuple(run for run in runs if run.command is Command.TRAVERSAL or _ready(state, run.key, now, settings)))


def run_key(run: Run, as_of: datetime, settings: CaretakerSettings) -> str:
    """A key for schedulers that never run a key twice: another one for each try, and for a run that died before it began."""
    return f"{run.key}#{run.tries}@{_slot(as_of, settings)}"


def record_key(record: Record, as_of: datetime, settings: CaretakerSettings) -> str:
    """The same for an event that is to be written."""
    return f"{record.key}@{_slot(as_of, settings)}"


def _slot(as_of: datetime, settings: CaretakerSettings) -> int:
    return to_micros(as_of) // round(settings.lease_seconds * MICROS)


def _ready(state: State, key: str, now: int, settings: CaretakerSettings) -> bool:
    doing = state.doing.get(key)
    if doing is None:
        return True
    if doing.failed:
        return now >= doing.failed + gate.retry_micros(doing.tries, settings)
    return now >= doing.lease


def _tries(state: State, key: str) -> int:
    doing = state.doing.get(key)
    return 1 if doing is None else doing.tries + 1


def _drops(state: State, as_of: datetime, settings: CaretakerSettings) -> list[Record]:
    drops = [decision for decision in gate.decide(state, as_of, settings) if isinstance(decision, gate.Drop)]
    records = []
    for drop in drops:
        advisory = state.advisories[drop.request_id]
        payload = AdvisoryDropped(request_id=drop.request_id, reason=drop.reason)
        records.append(Record(f"dropped-{advisory.event_id}", payload, "gate", advisory.event_id, advisory.session_id))
    return records


def _session_records(state: State, as_of: datetime, settings: CaretakerSettings) -> list[Record]:
    records: list[Record] = []
    if state.phase == "running":
        lost = monitor.lost_heartbeats(state, as_of, settings)
        for s in lost:
            ended = SessionEnded(cause=EndCause.TIMEOUT, reason="heartbeat lost")
            records.append(Record(f"timeout-{s.last_seen_id}", ended, "heartbeat", s.last_seen_id, s.id))
        for s, minutes in monitor.breaks_due(state, as_of, settings):
            if s not in lost:
                nudge = BreakNotification(task_minutes=minutes, message=monitor.break_message(minutes))
                records.append(Record(f"break-{s.stretch_id}", nudge, "task_time", s.stretch_id, s.id))
    for s in monitor.audits_due(state):
        prompt = SessionAuditPrompt(questions=monitor.AUDIT_QUESTIONS, unsaved_contexts=len(state.unsaved.get(s.id, ())))
        records.append(Record(f"audit-{s.ended_id}", prompt, "session_end", s.ended_id, s.id))
    records.extend(_closed(s) for s in monitor.closable(state))
    return records


def _closed(s: Session) -> Record:
    closed = SessionClosed(cause=EndCause(s.cause), seconds=max(0, s.ended - s.started) / MICROS, task_seconds=s.task_micros / MICROS)
    return Record(f"closed-{s.ended_id}", closed, "session_end", s.ended_id, s.id)


def _feedback(state: State) -> list[Run]:
    if not monitor.feedback_due(state):
        return []
    key = f"feedback-{state.feedback_done}"
    return [Run(Command.FEEDBACK, key, _tries(state, key), "agent", state.feedback_seen)]


def _flushes(state: State) -> list[Run]:
    runs = []
    for due in monitor.flushes_due(state):
        key = f"flush-{due.first_id}"
        ends = [ended_id for ended_id, session in state.ended.items() if session.id == due.session_id]
        causation = ends[-1] if ends else due.event_ids[-1]
        runs.append(Run(Command.FLUSH, key, _tries(state, key), due.trigger, causation, due.session_id, due.event_ids))
    return runs


def _traversals(state: State, as_of: datetime, settings: CaretakerSettings) -> list[Run]:
    runs = []
    for decision in gate.decide(state, as_of, settings):
        if isinstance(decision, gate.Start):
            a = state.advisories[decision.request_id]
            runs.append(Run(Command.TRAVERSAL, f"recall-{a.event_id}", a.tries + 1, "debounce", a.event_id, a.session_id, request_id=a.request_id))
    return runs


def _intervals(state: State, now: int, settings: CaretakerSettings) -> list[Run]:
    runs = []
    for command, last, last_id, minutes in (
        (Command.SWEEP, state.last_sweep, state.last_sweep_id, settings.sweep_minutes),
        (Command.CONSOLIDATE, state.last_consolidate, state.last_consolidate_id, settings.consolidate_minutes),
    ):
        if last is None or now - last >= minutes * 60 * MICROS:
            key = f"{command.value.lower()}-{last_id}"
            runs.append(Run(command, key, _tries(state, key), "interval", last_id or None))
    return runs


def _publication(state: State) -> list[Run]:
    return [_publish(state, "memory_changed", state.changed_id)] if state.changed_id > state.published_id else []


def _publish(state: State, trigger: str, causation_id: int) -> Run:
    key = f"publish-{state.published_id}"
    return Run(Command.PUBLISH, key, _tries(state, key), trigger, causation_id)


def _shutdown_runs(state: State, step: monitor.ShutdownStep) -> list[Run]:
    # No lease and no backoff here: whoever executes this holds the caretaker lock, and there is no time.
    match step:
        case "feedback":
            return _feedback(state)
        case "flush":
            return _flushes(state)
        case "publish":
            return [_publish(state, "shutdown", state.shutdown_id)]
