"""What is known of one session: connected or ended, its mode, its stretch of work. Pure; folded from its events, in log order.

Only TASK time counts as work. IDLE pauses the stretch: it neither counts nor resets. A CONVERSATION ends the stretch.
"""

from __future__ import annotations

import msgspec

from subconscious_pipeline.caretaker.events import EndCause, Mode, SessionRules, SessionStarted
from subconscious_pipeline.caretaker.settings import CaretakerSettings

MICROS = 1_000_000


class Session(msgspec.Struct):
    """One tracked session. Times are microseconds since the epoch, UTC; ids are event ids, 0 for none."""

    id: str
    instance_id: str
    mind_type: str
    rules: dict[str, float]
    started_id: int
    started: int
    last_seen: int  # newest event of the session: the heartbeat
    last_seen_id: int
    mode: str = Mode.IDLE.value
    task_micros: int = 0  # finished runs of TASK mode, whole session
    stretch_micros: int = 0  # finished runs of TASK mode in this stretch
    run_since: int | None = None  # begin of the present run of TASK mode
    stretch_id: int = 0  # the event that began the stretch
    break_sent: bool = False
    ended_id: int = 0
    ended: int = 0
    cause: str = ""
    audited: bool = False


def begin(session_id: str, event_id: int, micros: int, payload: SessionStarted) -> Session:
    """A session as it is when it starts."""
    rules: SessionRules = payload.rules
    overrides = {name: float(value) for name, value in rules.model_dump(exclude_none=True).items()}
    return Session(session_id, payload.instance_id, payload.mind_type, overrides, event_id, micros, micros, event_id)


def touch(session: Session, event_id: int, micros: int) -> None:
    """Take a sign of life."""
    session.last_seen = max(session.last_seen, micros)
    session.last_seen_id = event_id


def interact(session: Session, event_id: int, micros: int, mode: Mode) -> None:
    """Take a report of activity."""
    session.mode = mode.value
    if mode is Mode.TASK:
        if session.run_since is None:
            session.run_since = micros
        if session.stretch_id == 0:
            session.stretch_id = event_id
        return
    _end_run(session, micros)
    if mode is Mode.CONVERSATION:
        session.stretch_micros = 0
        session.stretch_id = 0
        session.break_sent = False


def end(session: Session, event_id: int, micros: int, cause: EndCause) -> None:
    """Take the end."""
    _end_run(session, micros)
    session.ended_id, session.ended, session.cause = event_id, micros, cause.value


def _end_run(session: Session, micros: int) -> None:
    if session.run_since is not None:
        run = max(0, micros - session.run_since)
        session.task_micros += run
        session.stretch_micros += run
        session.run_since = None


def stretch_seconds(session: Session, as_of: int) -> float:
    """Work since the last conversation, in seconds, at `as_of` (microseconds)."""
    running = 0 if session.run_since is None else max(0, as_of - session.run_since)
    return (session.stretch_micros + running) / MICROS


def threshold(session: Session | None, name: str, settings: CaretakerSettings) -> float:
    """The value of a threshold for a session: its own rule, else the home's."""
    own = None if session is None else session.rules.get(name)
    return float(getattr(settings, name)) if own is None else own
