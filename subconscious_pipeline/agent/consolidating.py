"""Consolidation by hand: planned on a read-only connection, applied by id, logged, published. Decides nothing that memory does not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from subconscious_pipeline.caretaker.events import Command, CommandFinished, CommandStarted, TransactionContext
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.errors import without_content
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import iso_z
from subconscious_pipeline.memory import consolidate as memory
from subconscious_pipeline.memory import store
from subconscious_pipeline.publish.files import publish
from subconscious_pipeline.publish.state import write_state
from subconscious_pipeline.settings import Settings

PERSON = "person"  # the trigger of what somebody typed


@dataclass(frozen=True)
class Pair:
    """One merge, with the words of both sides."""

    merge: memory.Merge
    from_words: tuple[str, ...]
    into_words: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """A consolidation as it is shown."""

    strategy: memory.Strategy
    pairs: tuple[Pair, ...]

    def as_json(self) -> dict[str, Any]:
        """The shape of `subconscious consolidate --json`, without the transaction."""
        return {
            "strategy": self.strategy,
            "merges": [
                {
                    "from_id": p.merge.from_id, "from_keywords": list(p.from_words), "into_id": p.merge.into_id,
                    "into_keywords": list(p.into_words), "overlap": p.merge.overlap, "observations": p.merge.observations,
                }
                for p in self.pairs
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Done:
    """A consolidation that can be undone."""

    transaction_id: str
    at: datetime
    merges: int

    def as_json(self) -> dict[str, Any]:
        """One entry of `subconscious consolidate --list --json`."""
        return {"transaction_id": self.transaction_id, "at": iso_z(self.at), "merges": self.merges}


@without_content()
def plan(home: Home, settings: Settings, how: memory.Strategy) -> Shown:
    """What a consolidation would merge now; changes nothing."""
    return _planned(home, settings, how)[1]


@without_content()
def consolidate(home: Home, settings: Settings, how: memory.Strategy, as_of: datetime) -> tuple[Shown, str | None]:
    """Merge, log and publish; returns what was merged and the transaction id to undo it with (None: there was nothing to merge)."""
    planned, shown = _planned(home, settings, how)
    if not planned.merges:
        return shown, None
    transaction_id = f"{PERSON}-{uuid4().hex[:12]}"
    with store.writing(home, settings) as con:
        valid = memory.still_valid(con, planned)
        applied = memory.apply(con, valid, transaction_id, as_of)
    if applied is None:
        return Shown(how, ()), None
    _publish(home, settings, transaction_id, as_of, {"merges": len(valid.merges)})
    return Shown(how, tuple(pair for pair in shown.pairs if pair.merge in valid.merges)), transaction_id


@without_content()
def undo(home: Home, settings: Settings, transaction_id: str, as_of: datetime) -> int:
    """Take a consolidation back, log and publish; returns how many merges it had.

    Raises:
        ConfigError: when there is no such transaction.
    """
    with store.writing(home, settings) as con:
        count = memory.undo(con, transaction_id, as_of)
    _publish(home, settings, f"undo-{uuid4().hex[:12]}", as_of, {"undone": count})
    return count


@without_content()
def transactions(home: Home, settings: Settings) -> list[Done]:
    """Consolidations that can be undone, newest first."""
    with store.reading(home, settings) as con:
        return [Done(*row) for row in memory.transactions(con)]


def _planned(home: Home, settings: Settings, how: memory.Strategy) -> tuple[memory.Consolidation, Shown]:
    with store.reading(home, settings) as con:
        planned = memory.plan(con, how)
        ids = [concept for merge in planned.merges for concept in (merge.from_id, merge.into_id)]
        words = dict(
            con.execute(
                "SELECT concept_id, list(word ORDER BY word) FROM keywords WHERE concept_id IN (SELECT unnest(?::BIGINT[])) GROUP BY 1", [ids]
            ).fetchall()
        )
    return planned, Shown(how, tuple(Pair(m, tuple(words[m.from_id]), tuple(words[m.into_id])) for m in planned.merges))


def _publish(home: Home, settings: Settings, transaction_id: str, as_of: datetime, counts: dict[str, int]) -> None:
    """Log the command with its outcome, in one append so that a kill leaves none half told; then publish.

    The caretaker sees that memory has changed: should the publication fail here, it publishes at its next look.
    """
    transaction = TransactionContext(transaction_id=transaction_id, trigger=PERSON, at=as_of)
    begun = CommandStarted(command=Command.CONSOLIDATE, tries=1, lease_until=as_of)
    finished = CommandFinished(command=Command.CONSOLIDATE, tries=1, ok=True, changed=True, counts=counts)
    with EventLog(home.events, settings.lock_seconds) as log:
        log.append(NewEvent(begun, as_of, transaction), NewEvent(finished, as_of, transaction))
    write_state(home, settings, publish(home, settings, as_of).state)
