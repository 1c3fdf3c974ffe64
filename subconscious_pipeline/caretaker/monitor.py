"""What sessions and a shutdown ask for: time-outs, break reminders, audit prompts, flushes, closings. Pure decisions only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from subconscious_pipeline.caretaker.events import EndCause, ShutdownCompleted
from subconscious_pipeline.caretaker.sessions import MICROS, Session, stretch_seconds, threshold
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import State
from subconscious_pipeline.instants import to_micros

MOST_AT_ONCE = 500

AUDIT_QUESTIONS = (
    "What happened in this session?",
    "What of it should be kept? Write it down with a note.",
    "Which concepts are yours, and must not be lost? Claim them.",
)


FlushTrigger = Literal["session_end", "heartbeat", "crash", "late_note", "shutdown"]
_TRIGGERS: dict[EndCause, FlushTrigger] = {EndCause.EXPLICIT: "session_end", EndCause.TIMEOUT: "heartbeat", EndCause.CRASH: "crash"}


@dataclass(frozen=True)
class FlushDue:
    """Working contexts that must go into memory now; `first_id` names the flush until they are in."""

    session_id: str
    event_ids: tuple[int, ...]
    trigger: FlushTrigger

    @property
    def first_id(self) -> int:
        """The oldest working context of it: stays the same however often the flush is tried."""
        return self.event_ids[0]


def lost_heartbeats(state: State, as_of: datetime, settings: CaretakerSettings) -> list[Session]:
    """Connected sessions that have been silent for their heartbeat time-out."""
    now = to_micros(as_of)
    return [s for s in state.sessions.values() if (now - s.last_seen) / MICROS >= threshold(s, "heartbeat_minutes", settings) * 60]


def breaks_due(state: State, as_of: datetime, settings: CaretakerSettings) -> list[tuple[Session, int]]:
    """Connected sessions in task mode past their threshold and not yet told in this stretch, with whole minutes of work."""
    now = to_micros(as_of)
    due: list[tuple[Session, int]] = []
    for session in state.sessions.values():
        if session.run_since is not None and not session.break_sent:
            worked = stretch_seconds(session, now)
            if worked >= threshold(session, "break_minutes", settings) * 60:
                due.append((session, int(worked // 60)))
    return due


def break_message(minutes: int) -> str:
    """The words of a break reminder."""
    return f"{minutes} minutes of work without a pause to talk. When did you last speak with someone about anything but the task?"


def audits_due(state: State) -> list[Session]:
    """Sessions that ended by choice and have not been prompted to reflect."""
    return [s for s in state.ended.values() if s.cause == EndCause.EXPLICIT and not s.audited]


def flushes_due(state: State) -> list[FlushDue]:
    """Working contexts of sessions that are over (or, during a shutdown, of all), oldest first, in bounded batches."""
    due = [
        FlushDue(session_id, tuple(over[:MOST_AT_ONCE]), _flush_trigger(state, session_id))
        for session_id in state.unsaved
        if (over := state.unsaved[session_id] if state.phase == "stopping" else _left_over(state, session_id))
    ]
    return sorted(due, key=lambda flush: flush.first_id)


def _left_over(state: State, session_id: str) -> list[int]:
    # What was noted before a session of this id began anew belongs to the one before.
    ids = state.unsaved.get(session_id, [])
    session = state.sessions.get(session_id)
    return ids if session is None else [event_id for event_id in ids if event_id < session.started_id]


def _flush_trigger(state: State, session_id: str) -> FlushTrigger:
    if state.phase == "stopping":
        return "shutdown"
    causes = [session.cause for session in state.ended.values() if session.id == session_id]
    return _TRIGGERS[EndCause(causes[-1])] if causes else "late_note"


def closable(state: State) -> list[Session]:
    """Ended sessions that have nothing left: prompted when they ended by choice, and all their contexts saved."""
    return [s for s in state.ended.values() if (s.audited or s.cause != EndCause.EXPLICIT) and not _left_over(state, s.id)]


def feedback_due(state: State) -> bool:
    """Whether accesses or claims wait to reach memory."""
    return state.feedback_seen > state.feedback_done


ShutdownStep = Literal["feedback", "flush", "publish"]


def shutdown_steps(state: State, as_of: datetime) -> tuple[ShutdownStep, ...]:
    """What a shutdown still has to do, in order: save what agents said, save their contexts, publish. None when done or out of time."""
    if to_micros(as_of) >= state.deadline:
        return ()
    steps: list[ShutdownStep] = []
    if feedback_due(state):
        steps.append("feedback")
    if state.unsaved:
        steps.append("flush")
    if not state.shutdown_published or state.changed_id > state.published_id:
        steps.append("publish")
    return tuple(steps)


def shutdown_report(state: State) -> ShutdownCompleted:
    """What a shutdown saved and what it leaves undone; what is left stays in the log for the next start."""
    cut_off = sum(map(len, state.unsaved.values()))
    published = state.shutdown_published and state.changed_id <= state.published_id
    return ShutdownCompleted(
        saved_contexts=sum(state.shutdown_saved.values()),
        saved_sessions=tuple(sorted(state.shutdown_saved)),
        published=published,
        cut_off_contexts=cut_off,
        cut_off_sessions=tuple(sorted(state.unsaved)),
        cut_off_feedback=feedback_due(state),
        timed_out=bool(cut_off) or feedback_due(state) or not published,
    )
