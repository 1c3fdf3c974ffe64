"""What the caretaker did, one line an event, for those who watch it work. Names no words: a log of a terminal lives long."""

from __future__ import annotations

from subconscious_pipeline.caretaker.events import (
    AdvisoryDropped,
    BreakNotification,
    CommandFinished,
    InvalidEvent,
    Recollection,
    SessionAuditPrompt,
    SessionClosed,
    SessionEnded,
    ShutdownCompleted,
    TraversalFinished,
    TraversalOutcome,
)
from subconscious_pipeline.caretaker.log import Event

_NAMES = {
    "RecordFeedback": "accesses and claims taken in",
    "Flush": "notes saved",
    "DecaySweep": "decay sweep",
    "Consolidate": "consolidation",
    "Publish": "published",
}


def told(event: Event) -> str:
    """One line about an event that the caretaker recorded; empty for what agents said and for steps on the way."""
    try:
        payload = event.payload()
    except InvalidEvent:
        return ""  # counted by the fold
    of = f" (session {event.session_id})" if event.session_id else ""
    match payload:
        case CommandFinished(ok=True):
            counts = ", ".join(f"{count:,} {name}" for name, count in payload.counts.items())
            text = f"{_NAMES[payload.command.value]}{f': {counts}' if counts else ''}{of}"
        case CommandFinished():
            text = f"{_NAMES[payload.command.value]}: failed ({payload.error}), is tried again later{of}"
        case TraversalFinished(outcome=TraversalOutcome.FAILED):
            text = f"recall {payload.request_id}: failed ({payload.error}), is tried again later{of}"
        case Recollection():
            text = f"recall {payload.request_id}: {len(payload.concepts)} concepts, {payload.outcome.value}{of}"
        case AdvisoryDropped():
            text = f"recall {payload.request_id}: dropped, {payload.reason.value.replace('_', ' ')}{of}"
        case BreakNotification():
            text = f"break suggested after {payload.task_minutes} minutes{of}"
        case SessionAuditPrompt():
            text = f"audit prompt sent{of}"
        case SessionEnded() if event.trigger == "heartbeat":
            text = f"heartbeat lost{of}"
        case SessionClosed():
            text = f"session closed, {payload.cause.value.lower()}{of}"
        case ShutdownCompleted():
            text = f"shutdown: {payload.saved_contexts} notes saved, {payload.cut_off_contexts} cut off"
        case _:
            return ""
    return f"{event.at:%H:%M:%S}Z  {text}"
