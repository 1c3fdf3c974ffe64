"""What the caretaker needs from the rooms below it. Every call may be repeated after a crash with the same transaction id,
and must then change nothing more: each docstring says by what key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Protocol

from subconscious_pipeline.caretaker.events import TransactionContext
from subconscious_pipeline.caretaker.traversal import AssociationView
from subconscious_pipeline.extraction.types import Span


@dataclass(frozen=True)
class Effect:
    """What a command did: whether the index changed (a new snapshot is due), and counts for people to read."""

    changed: bool
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionObservation:
    """A working context on its way into memory, as an observation of origin `session`."""

    event_id: int  # with the session id: its key, for ever
    words: tuple[str, ...]  # most telling first, all `words.is_word`, no filler
    ttl_days: int
    observed_at: datetime  # the end of its last pointer (aware UTC)
    expires: date  # observed_at's date + ttl_days
    spans: tuple[Span, ...]  # at least one; the session itself at the time of the note when the agent gave none


@dataclass(frozen=True)
class Access:
    """One concept that was looked up or recalled."""

    concept_id: int
    at: datetime  # aware UTC
    session_id: str


class MemoryPort(Protocol):
    """The memory room, its only writer. Errors on purpose (`SubconsciousError`) fail the command, which is tried again."""

    def sweep(self, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Recompute scores from timestamps and move tiers. Twice equals once."""
        ...

    def plan_and_consolidate(self, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Merge what belongs together, in one transaction; nothing when `merges` already holds this transaction id."""
        ...

    def flush(self, observations: Sequence[SessionObservation], session_id: str, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Persist session observations, all or none; one whose (session_id, event_id) is there already is left as it is."""
        ...

    def record_accesses(self, accesses: Sequence[Access], transaction: TransactionContext, as_of: datetime) -> Effect:
        """Note accesses; one with the same (concept_id, at, session_id) is there once. Unknown ids are left out, merged ones redirected."""
        ...

    def claim(self, concept_ids: Sequence[int], core: bool, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Mark concepts as claimed (`core`: IDENTITY_CORE). Twice equals once; unknown ids are left out, merged ones redirected."""
        ...

    def associations(self, as_of: datetime) -> AssociationView:
        """The live concepts of every tier. It holds no lock once returned, so accesses can be recorded while it is in use."""
        ...


class PublishPort(Protocol):
    """The publish room."""

    def publish(self, as_of: datetime) -> None:
        """Publish the index as it is; an older revision never replaces a newer one."""
        ...
