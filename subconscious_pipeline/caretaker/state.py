"""Everything the caretaker knows, folded from the log. Pure: the same events give the same state, wherever one begins.

What is settled is let go, so the state stays as small as what is open; only ids of events are kept, their words stay in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from subconscious_pipeline.caretaker import events as ev
from subconscious_pipeline.caretaker import sessions
from subconscious_pipeline.caretaker.events import Command, EndCause, InvalidEvent, TraversalOutcome
from subconscious_pipeline.caretaker.log import Event, EventLog
from subconscious_pipeline.caretaker.sessions import MICROS, Session
from subconscious_pipeline.instants import to_micros

FOLD_VERSION = 1  # raise it with every change of this module or of sessions.py: saved folds are then rebuilt
SAVE_EVERY = 500


class Advisory(msgspec.Struct):
    """A recall that is neither answered nor dropped."""

    event_id: int
    request_id: str
    session_id: str
    asked: int
    max_depth: int | None
    cancelled: bool = False
    superseded: int | None = None  # when the next advisory of its session came, while this one waited
    tries: int = 0
    failed: int = 0  # when it last failed
    orphaned: bool = False  # its session ended


class Traversing(msgspec.Struct):
    """The traversal that holds the throttle."""

    request_id: str
    lease: int


class Doing(msgspec.Struct):
    """A command begun and not finished well."""

    command: str
    tries: int
    lease: int
    failed: int = 0  # when it last failed; 0: not known to have failed


class State(msgspec.Struct):
    """The folded log up to `last_id`. Times are microseconds since the epoch, UTC; ids are event ids, 0 for none."""

    last_id: int = 0
    phase: Literal["running", "stopping", "down"] = "running"
    shutdown_id: int = 0
    deadline: int = 0
    shutdown_saved: dict[str, int] = {}  # contexts saved by session during this shutdown
    shutdown_published: bool = False
    sessions: dict[str, Session] = {}  # connected ones
    ended: dict[int, Session] = {}  # ended and not closed, by the event that ended them
    unsaved: dict[str, list[int]] = {}  # working contexts by session
    advisories: dict[str, Advisory] = {}
    traversing: Traversing | None = None
    doing: dict[str, Doing] = {}  # by transaction id
    last_sweep: int | None = None
    last_sweep_id: int = 0
    last_consolidate: int | None = None
    last_consolidate_id: int = 0
    feedback_seen: int = 0  # newest Accessed or Claimed
    feedback_done: int = 0  # newest one that memory has
    changed_id: int = 0  # newest event that says memory changed
    published_id: int = 0  # what the last publication covers
    rejected: int = 0  # events that cannot be read here


def fold(events: Iterable[Event], start: State | None = None) -> State:
    """The state after some events; `start` (the state before them) is not changed.

    An event that cannot be read (a newer writer, a foreign one) is counted and has no effect.
    """
    state = State() if start is None else msgspec.msgpack.decode(msgspec.msgpack.encode(start), type=State)
    for event in events:
        _apply(state, event)
    return state


def current(log: EventLog, start: State | None = None) -> State:
    """The state of a log now, from `start`, the saved fold or nothing; the fold is saved when much was read."""
    if start is None:
        saved = log.load_fold(FOLD_VERSION)
        start = State() if saved is None else _decoded(saved)
    if log.last_id() == start.last_id:
        return start
    state = fold(log.stream(start.last_id), start)
    if state.last_id - start.last_id >= SAVE_EVERY:
        log.save_fold(FOLD_VERSION, state.last_id, msgspec.msgpack.encode(state))
    return state


def _decoded(saved: bytes) -> State:
    try:
        return msgspec.msgpack.decode(saved, type=State)
    except msgspec.MsgspecError:
        return State()  # the saved fold is a cache: what cannot be read is rebuilt


def _apply(state: State, event: Event) -> None:
    state.last_id = event.id
    handler = _HANDLERS.get(event.kind)
    try:
        payload = event.payload()
    except InvalidEvent:
        state.rejected += 1
        return
    session = _session(state, event)
    if session is not None and payload.incoming and not isinstance(payload, ev.SessionEnded):
        sessions.touch(session, event.id, event.micros)
    if handler is not None:
        handler(state, event, payload)


def _session(state: State, event: Event) -> Session | None:
    return state.sessions.get(event.session_id or "")


def _session_started(state: State, event: Event, payload: ev.SessionStarted) -> None:
    session_id = event.session_id or ""
    state.sessions[session_id] = sessions.begin(session_id, event.id, event.micros, payload)
    if state.phase == "down":
        state.phase = "running"


def _interaction(state: State, event: Event, payload: ev.Interaction) -> None:
    session = _session(state, event)
    if session is not None:
        sessions.interact(session, event.id, event.micros, payload.mode)


def _working_context(state: State, event: Event, _: ev.WorkingContext) -> None:
    state.unsaved.setdefault(event.session_id or "", []).append(event.id)


def _feedback(state: State, event: Event, _: ev.Accessed | ev.Claimed) -> None:
    state.feedback_seen = event.id


def _session_ended(state: State, event: Event, payload: ev.SessionEnded) -> None:
    session = _session(state, event)
    if session is None:
        return
    if payload.cause is EndCause.TIMEOUT and event.causation_id not in (None, session.last_seen_id):
        return  # a sign of life came while the caretaker took it for silent
    sessions.end(session, event.id, event.micros, payload.cause)
    state.ended[event.id] = state.sessions.pop(session.id)
    for advisory in state.advisories.values():
        advisory.orphaned = advisory.orphaned or advisory.session_id == session.id


def _advised(state: State, event: Event, payload: ev.TotalRecallAdvisory) -> None:
    if payload.request_id in state.advisories:
        return
    for other in state.advisories.values():
        if other.session_id == event.session_id and other.superseded is None and other.tries == 0:
            other.superseded = event.micros
    state.advisories[payload.request_id] = Advisory(event.id, payload.request_id, event.session_id or "", event.micros, payload.max_depth)


def _cancelled(state: State, event: Event, payload: ev.TotalRecallCancelled) -> None:
    advisory = state.advisories.get(payload.request_id)
    if advisory is not None and event.session_id in (None, advisory.session_id):
        advisory.cancelled = True


def _shutdown_requested(state: State, event: Event, payload: ev.ShutdownRequested) -> None:
    if state.phase == "stopping":
        return
    state.phase = "stopping"
    state.shutdown_id = event.id
    state.deadline = event.micros + round(payload.timeout_seconds * MICROS)
    state.shutdown_saved = {}
    state.shutdown_published = False


def _caretaker_started(state: State, event: Event, _: ev.CaretakerStarted) -> None:
    # It is recorded under the caretaker lock, so nothing that was begun before can still be alive.
    state.traversing = None
    for doing in state.doing.values():
        doing.lease = min(doing.lease, event.micros)
    if state.phase == "down" or (state.phase == "stopping" and event.micros >= state.deadline):
        state.phase = "running"


def _shutdown_completed(state: State, _: Event, __: ev.ShutdownCompleted) -> None:
    state.phase = "down"


def _command_started(state: State, event: Event, payload: ev.CommandStarted) -> None:
    state.doing[event.transaction_id] = Doing(payload.command.value, payload.tries, to_micros(payload.lease_until))


def _command_finished(state: State, event: Event, payload: ev.CommandFinished) -> None:
    if not payload.ok:
        state.doing[event.transaction_id] = Doing(payload.command.value, payload.tries, event.micros, failed=event.micros)
        return
    state.doing.pop(event.transaction_id, None)
    if payload.changed:
        state.changed_id = event.id
    match payload.command:
        case Command.SWEEP:
            state.last_sweep, state.last_sweep_id = event.micros, event.id
        case Command.CONSOLIDATE:
            state.last_consolidate, state.last_consolidate_id = event.micros, event.id
        case Command.FLUSH:
            _flushed(state, event.session_id or "", set(payload.event_ids))
        case Command.FEEDBACK:
            state.feedback_done = max(state.feedback_done, *payload.event_ids)
        case Command.PUBLISH:
            state.published_id = event.id
            state.shutdown_published = state.phase == "stopping"
        case Command.TRAVERSAL:
            pass  # a traversal has events of its own


def _flushed(state: State, session_id: str, done: set[int]) -> None:
    before = state.unsaved.pop(session_id, [])
    left = [event_id for event_id in before if event_id not in done]
    if left:
        state.unsaved[session_id] = left
    if state.phase == "stopping":
        state.shutdown_saved[session_id] = state.shutdown_saved.get(session_id, 0) + len(before) - len(left)


def _traversal_started(state: State, _: Event, payload: ev.TraversalStarted) -> None:
    state.traversing = Traversing(payload.request_id, to_micros(payload.lease_until))
    if (advisory := state.advisories.get(payload.request_id)) is not None:
        advisory.tries = payload.tries


def _traversal_depth(state: State, _: Event, payload: ev.TraversalDepth) -> None:
    if state.traversing is not None and state.traversing.request_id == payload.request_id:
        state.traversing.lease = to_micros(payload.lease_until)


def _traversal_finished(state: State, event: Event, payload: ev.TraversalFinished) -> None:
    if state.traversing is not None and state.traversing.request_id == payload.request_id:
        state.traversing = None
    if payload.outcome is not TraversalOutcome.FAILED:
        state.advisories.pop(payload.request_id, None)
    elif (advisory := state.advisories.get(payload.request_id)) is not None:
        advisory.failed = event.micros


def _dropped(state: State, _: Event, payload: ev.AdvisoryDropped) -> None:
    state.advisories.pop(payload.request_id, None)


def _session_closed(state: State, event: Event, _: ev.SessionClosed) -> None:
    state.ended.pop(event.causation_id or 0, None)


def _break_sent(state: State, event: Event, _: ev.BreakNotification) -> None:
    if (session := _session(state, event)) is not None:
        session.break_sent = True


def _audited(state: State, event: Event, _: ev.SessionAuditPrompt) -> None:
    if (session := state.ended.get(event.causation_id or 0)) is not None:
        session.audited = True


_HANDLERS: dict[str, Callable[[State, Event, Any], None]] = {
    "SessionStarted": _session_started,
    "Interaction": _interaction,
    "WorkingContext": _working_context,
    "Accessed": _feedback,
    "Claimed": _feedback,
    "SessionEnded": _session_ended,
    "TotalRecallAdvisory": _advised,
    "TotalRecallCancelled": _cancelled,
    "ShutdownRequested": _shutdown_requested,
    "CaretakerStarted": _caretaker_started,
    "ShutdownCompleted": _shutdown_completed,
    "CommandStarted": _command_started,
    "CommandFinished": _command_finished,
    "TraversalStarted": _traversal_started,
    "TraversalDepth": _traversal_depth,
    "TraversalFinished": _traversal_finished,
    "AdvisoryDropped": _dropped,
    "SessionClosed": _session_closed,
    "BreakNotification": _break_sent,
    "SessionAuditPrompt": _audited,
}
