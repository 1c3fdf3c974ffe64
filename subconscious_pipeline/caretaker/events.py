"""What may stand in the event log: one versioned payload model a kind, and the transaction every event carries.

Words pass the same barrier as extracted ones, times are aware: nothing else can be written or read back through here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from subconscious_pipeline.errors import SubconsciousError
from subconscious_pipeline.words import FILLER, is_word, normalize

MAX_WORDS = 8
MAX_TTL_DAYS = 365


class InvalidEvent(SubconsciousError):
    """An event was refused before it reached the log; the text names the fields, never what was in them."""


def _keyword(text: str) -> str:
    word = normalize(text)
    if not is_word(word):
        raise ValueError("not a keyword: 2 to 16 letters or digits, at most one hyphen, beginning with a letter")
    if word in FILLER:
        raise ValueError("says nothing on its own (filler)")
    return word


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _distinct(items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@#/+-]{0,199}$")]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:@#/+ -]{0,80}$")]
Keyword = Annotated[str, StringConstraints(max_length=64), AfterValidator(_keyword)]
Keywords = Annotated[tuple[Keyword, ...], Field(max_length=MAX_WORDS), AfterValidator(_distinct)]
Instant = Annotated[AwareDatetime, AfterValidator(_utc)]
ConceptId = Annotated[int, Field(ge=1)]


class Mode(StrEnum):
    """What a mind is doing when it reports itself."""

    TASK = "TASK"
    CONVERSATION = "CONVERSATION"
    IDLE = "IDLE"


class EndCause(StrEnum):
    """Why a session ended."""

    EXPLICIT = "EXPLICIT"
    TIMEOUT = "TIMEOUT"
    CRASH = "CRASH"


class DropReason(StrEnum):
    """Why an advisory gets no recollection."""

    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    NOT_CONNECTED = "not_connected"
    SHUTDOWN = "shutdown"
    FAILED = "failed"


class TraversalOutcome(StrEnum):
    """How a traversal came to its end; all but `failed` deliver a recollection."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    SESSION_ENDED = "session_ended"
    FAILED = "failed"


class Command(StrEnum):
    """What the caretaker orders. A command is begun and finished in the log under one transaction."""

    FEEDBACK = "RecordFeedback"
    FLUSH = "Flush"
    TRAVERSAL = "Traversal"
    SWEEP = "DecaySweep"
    CONSOLIDATE = "Consolidate"
    PUBLISH = "Publish"


class TransactionContext(BaseModel):
    """What an event belongs to: the transaction, the event that caused it, what set it off, for whom and when."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    transaction_id: Identifier
    causation_id: int | None = Field(None, ge=1, description="Id of the event that led to this one.")
    trigger: Identifier = Field(description="agent, interval, debounce, session_end, heartbeat, shutdown, …")
    session_id: Identifier | None = None
    at: Instant = Field(description="When the transaction was begun (UTC).")


class Payload(BaseModel):
    """Base of all payloads. `version` rises when a field changes its meaning or a required one is added."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: ClassVar[int] = 1
    incoming: ClassVar[bool] = False
    notification: ClassVar[bool] = False
    of_session: ClassVar[bool] = True  # whether the event must name a session


class Incoming(Payload):
    """Written by agents."""

    incoming: ClassVar[bool] = True


class Notification(Payload):
    """Written by the caretaker for a mind to read."""

    notification: ClassVar[bool] = True


class SourcePointer(BaseModel):
    """Where raw data lies, as memory knows it: a conversation, message or event, and the span in it (UTC)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_type: str
    source_ref: str
    time_start: Instant
    time_end: Instant


class Pointer(SourcePointer):
    """A pointer an agent writes: checked for its form; the end is not before the start."""

    source_type: Identifier
    source_ref: Annotated[str, StringConstraints(min_length=1, max_length=500)]

    @model_validator(mode="after")
    def _ordered(self) -> Pointer:
        if self.time_end < self.time_start:
            raise ValueError("time_end lies before time_start")
        return self


# --- in: agents ---------------------------------------------------------------------------------------------------------------


class SessionRules(BaseModel):
    """Thresholds one session sets for itself; what is left out keeps the home's value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    break_minutes: float | None = Field(None, gt=0)
    heartbeat_minutes: float | None = Field(None, gt=0)
    debounce_seconds: float | None = Field(None, ge=0)
    recall_depth: int | None = Field(None, ge=0, le=10)
    recall_fan_out: int | None = Field(None, ge=1, le=100)
    recall_total: int | None = Field(None, ge=1, le=1_000)


class SessionStarted(Incoming):
    """A mind connected; tracking begins."""

    instance_id: Identifier
    mind_type: Label = "agent"
    rules: SessionRules = SessionRules()


class Interaction(Incoming):
    """Activity of a session and its mode; every one is a heartbeat."""

    mode: Mode


class WorkingContext(Incoming):
    """Unsaved context: words with pointers, kept in the log until flushed as an observation of origin `session`."""

    words: Annotated[Keywords, Field(min_length=1)]
    pointers: tuple[Pointer, ...] = Field((), max_length=50)
    ttl_days: int = Field(14, ge=3, le=MAX_TTL_DAYS)


class Accessed(Incoming):
    """Concepts a mind looked up; feeds their salience."""

    concept_ids: tuple[ConceptId, ...] = Field(min_length=1, max_length=1_000)


class Claimed(Incoming):
    """Concepts a mind makes its own: they fade slower, or never when `core`."""

    concept_ids: tuple[ConceptId, ...] = Field(min_length=1, max_length=1_000)
    core: bool = False


class SessionEnded(Incoming):
    """A session ended. The caretaker itself records cause TIMEOUT when the heartbeat is lost."""

    cause: EndCause
    reason: Label = ""


class TotalRecallAdvisory(Incoming):
    """Searching was not enough: a deep recall is asked for, from concepts or from words."""

    request_id: Identifier
    concept_ids: tuple[ConceptId, ...] = Field((), max_length=100)
    words: Keywords = ()
    max_depth: int | None = Field(None, ge=0, le=10)

    @model_validator(mode="after")
    def _has_roots(self) -> TotalRecallAdvisory:
        if not self.concept_ids and not self.words:
            raise ValueError("a recall needs concept ids or words to begin at")
        return self


class TotalRecallCancelled(Incoming):
    """The mind found what it needed: a waiting recall is dropped, a running one halts at the next depth."""

    of_session: ClassVar[bool] = False
    request_id: Identifier


class ForgetRequested(Incoming):
    """Something must go and not come back. Memory's forgetting reads this; `what` is never a word or name in plain text."""

    of_session: ClassVar[bool] = False
    what: Literal["source", "conversation", "person", "word", "concept"]
    hmac: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16,128}$")] = Field(description="Keyed hash of what must go.")


class ShutdownRequested(Incoming):
    """The system is going down: save everything within `timeout_seconds` of this event."""

    of_session: ClassVar[bool] = False
    timeout_seconds: float = Field(gt=0, le=86_400)


class NotificationAcknowledged(Incoming):
    """The mind has seen these notifications (event ids)."""

    of_session: ClassVar[bool] = False
    notification_ids: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1, max_length=1_000)


# --- recorded by the caretaker ----------------------------------------------------------------------------------------------


class CaretakerStarted(Payload):
    """A caretaker took up its work, holding the caretaker lock: whatever was running before is dead; a completed shutdown is over."""

    of_session: ClassVar[bool] = False
    instance_id: Identifier


class CommandStarted(Payload):
    """A command is being executed (try number `tries`); taken to be dead after `lease_until`."""

    of_session: ClassVar[bool] = False
    command: Command
    tries: int = Field(ge=1)
    lease_until: Instant
    event_ids: tuple[int, ...] = Field((), description="Events the command carries into memory.")


class CommandFinished(Payload):
    """How a command ended. `error` is the name of an exception class, never its text."""

    of_session: ClassVar[bool] = False
    command: Command
    tries: int = Field(ge=1)
    ok: bool
    changed: bool = Field(False, description="Whether memory changed, so that a new snapshot is due.")
    counts: dict[Identifier, int] = {}
    event_ids: tuple[int, ...] = ()
    error: Identifier | None = None


class TraversalStarted(Payload):
    """A deep traversal began (try number `tries`) and holds the throttle until `lease_until`."""

    request_id: Identifier
    tries: int = Field(ge=1)
    max_depth: int = Field(ge=0)
    lease_until: Instant


class TraversalDepth(Payload):
    """One depth is done; the lease is renewed."""

    request_id: Identifier
    depth: int = Field(ge=0)
    concept_ids: tuple[ConceptId, ...]
    lease_until: Instant


class TraversalFinished(Payload):
    """A traversal ended. `depth_reached` is the deepest depth done, -1 when there was none."""

    request_id: Identifier
    tries: int = Field(ge=1)
    outcome: TraversalOutcome
    depth_reached: int = Field(ge=-1)
    recalled: int = Field(ge=0)
    error: Identifier | None = None


class AdvisoryDropped(Payload):
    """An advisory gets no recollection, and why."""

    request_id: Identifier
    reason: DropReason


class SessionClosed(Payload):
    """A session is over: audited when it ended by choice, and nothing of it is unsaved."""

    cause: EndCause
    seconds: float = Field(ge=0, description="From start to end.")
    task_seconds: float = Field(ge=0, description="In task mode, over the whole session.")


class ShutdownCompleted(Payload):
    """The report of a shutdown: what was saved, and what the time-out cut off (which stays in the log for the next start)."""

    of_session: ClassVar[bool] = False
    saved_contexts: int = Field(ge=0)
    saved_sessions: tuple[Identifier, ...]
    published: bool
    cut_off_contexts: int = Field(ge=0)
    cut_off_sessions: tuple[Identifier, ...]
    cut_off_feedback: bool
    timed_out: bool


class BreakNotification(Notification):
    """Sustained task mode: a nudge, not a command."""

    task_minutes: int = Field(ge=0)
    message: Annotated[str, StringConstraints(max_length=300)]


class SessionAuditPrompt(Notification):
    """A session is about to close by choice: what happened, what to keep, what to claim. Notes and claims still count afterwards."""

    questions: tuple[str, ...]
    unsaved_contexts: int = Field(ge=0)


class RecalledConcept(BaseModel):
    """One concept a traversal found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    concept_id: ConceptId
    words: tuple[str, ...]
    score: float = Field(ge=0, le=1, description="Strength of the strongest path to it; 1 for a root.")
    depth: int = Field(ge=0)
    tier: Identifier
    pointers: tuple[SourcePointer, ...]


class Recollection(Notification):
    """What a recall brought up, strongest first; partial when `outcome` is not `completed`."""

    request_id: Identifier
    outcome: TraversalOutcome
    depth_reached: int = Field(ge=-1)
    concepts: tuple[RecalledConcept, ...]


KINDS: dict[str, type[Payload]] = {
    model.__name__: model
    for model in (
        SessionStarted, Interaction, WorkingContext, Accessed, Claimed, SessionEnded, TotalRecallAdvisory, TotalRecallCancelled,
        ForgetRequested, ShutdownRequested, NotificationAcknowledged, CaretakerStarted, CommandStarted, CommandFinished,
        TraversalStarted, TraversalDepth, TraversalFinished, AdvisoryDropped, SessionClosed, ShutdownCompleted,
        BreakNotification, SessionAuditPrompt, Recollection,
    )
}  # fmt: skip
NOTIFICATIONS = tuple(name for name, model in KINDS.items() if model.notification)
