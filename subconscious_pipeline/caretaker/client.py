"""What agents write: one small function a verb, each validates its payload and appends one event. It opens no other store.

Words pass the same barrier as extracted ones and times must carry a zone; what is refused is named by its place, never quoted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from subconscious_pipeline.caretaker.events import (
    Accessed,
    Claimed,
    EndCause,
    Incoming,
    Interaction,
    InvalidEvent,
    Mode,
    Pointer,
    SessionEnded,
    SessionStarted,
    ShutdownRequested,
    TotalRecallAdvisory,
    TotalRecallCancelled,
    TransactionContext,
    WorkingContext,
)
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.caretaker.state import current

FOLD_EVERY = 2_000

_Model = TypeVar("_Model", bound=BaseModel)


def session_start(
    log: EventLog, session_id: str, at: datetime, *, instance_id: str, mind_type: str = "agent", rules: Mapping[str, float] | None = None
) -> int:
    """A mind connects. `rules` are thresholds for this session alone (see `SessionRules`). Returns the event's id.

    Like every function here, raises InvalidEvent when a value is refused and StoreLocked when the log cannot be written.
    """
    payload = checked(SessionStarted, instance_id=instance_id, mind_type=mind_type, rules=dict(rules or {}))
    return append(log, payload, at, session_id)


def activity(log: EventLog, session_id: str, at: datetime, mode: Mode | str) -> int:
    """Report what the mind is doing (TASK, CONVERSATION or IDLE); also the heartbeat."""
    return append(log, checked(Interaction, mode=mode), at, session_id)


def note(log: EventLog, session_id: str, at: datetime, words: Sequence[str], pointers: Sequence[Pointer] = (), ttl_days: int = 14) -> int:
    """Write down working context: 1 to 8 keywords, most telling first, and where the raw data lies. Kept until memory has it."""
    return append(log, checked(WorkingContext, words=tuple(words), pointers=tuple(pointers), ttl_days=ttl_days), at, session_id)


def accessed(log: EventLog, session_id: str, at: datetime, concept_ids: Sequence[int]) -> int:
    """Say which concepts were looked up; they fade slower."""
    return append(log, checked(Accessed, concept_ids=tuple(concept_ids)), at, session_id)


def claim(log: EventLog, session_id: str, at: datetime, concept_ids: Sequence[int], *, core: bool = False) -> int:
    """Make concepts one's own; with `core` they never fade or expire."""
    return append(log, checked(Claimed, concept_ids=tuple(concept_ids), core=core), at, session_id)


def session_end(log: EventLog, session_id: str, at: datetime, cause: EndCause | str = EndCause.EXPLICIT, reason: str = "") -> int:
    """The session ends; the caretaker prompts (EXPLICIT), saves what is unsaved, and closes it."""
    return append(log, checked(SessionEnded, cause=cause, reason=reason), at, session_id)


def recall(
    log: EventLog,
    session_id: str,
    at: datetime,
    *,
    words: Sequence[str] = (),
    concept_ids: Sequence[int] = (),
    max_depth: int | None = None,
    request_id: str = "",
) -> str:
    """Ask for a deep recall; returns its request id. The same request id given twice is one request."""
    request = request_id or uuid4().hex
    payload = checked(TotalRecallAdvisory, request_id=request, words=tuple(words), concept_ids=tuple(concept_ids), max_depth=max_depth)
    append(log, payload, at, session_id, uid=f"advisory:{request}")
    return request


def recall_cancel(log: EventLog, at: datetime, request_id: str, session_id: str | None = None) -> int:
    """Take a recall back: one that waits is dropped, one that runs halts at the next depth and delivers what it has."""
    return append(log, checked(TotalRecallCancelled, request_id=request_id), at, session_id)


def shutdown(log: EventLog, at: datetime, timeout_seconds: float) -> int:
    """Ask the caretaker to save everything within `timeout_seconds` and stop."""
    return append(log, checked(ShutdownRequested, timeout_seconds=timeout_seconds), at, None, trigger="shutdown")


def pointer(source_type: str, source_ref: str, time_start: datetime, time_end: datetime) -> Pointer:
    """A pointer for a note; both times must carry a zone."""
    return checked(Pointer, source_type=source_type, source_ref=source_ref, time_start=time_start, time_end=time_end)


def checked(model: type[_Model], **fields: Any) -> _Model:
    """A validated payload.

    Raises:
        InvalidEvent: naming each bad field and its place, without its value.
    """
    try:
        return model(**fields)
    except ValidationError as error:
        places = [
            f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise InvalidEvent(f"{model.__name__} refused: " + "; ".join(places)) from None


def append(log: EventLog, payload: Incoming, at: datetime, session_id: str | None, uid: str = "", trigger: str = "agent") -> int:
    """Append one validated payload of an agent; returns the event's id. An event whose `uid` the log holds is not written again."""
    if at.tzinfo is None:
        raise InvalidEvent(f"{type(payload).__name__} refused: its time has no zone")
    transaction = checked(TransactionContext, transaction_id=uuid4().hex, trigger=trigger, session_id=session_id, at=at)
    # What is only a sign of life or use may be lost in a power cut; a note or an end may not.
    event_id = log.append(NewEvent(payload, at, transaction, uid), durable=not isinstance(payload, Interaction | Accessed))[0]
    if event_id % FOLD_EVERY == 0:
        current(log)  # a few milliseconds now and then, so that no tick ever finds a long log unread, even after days without one
    return event_id
