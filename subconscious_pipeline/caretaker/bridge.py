"""The caretaker's ports on the real stores: each call is one short transaction of the room that owns the data."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from subconscious_pipeline.caretaker.events import TransactionContext
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.ports import Access, Effect, SessionObservation
from subconscious_pipeline.caretaker.settings import load_caretaker_settings
from subconscious_pipeline.caretaker.tick import Caretaker
from subconscious_pipeline.caretaker.traversal import AssociationConcept, AssociationGraph, AssociationView
from subconscious_pipeline.errors import without_content
from subconscious_pipeline.extraction.types import Observation, Span
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import consolidate, project, salience, session, store
from subconscious_pipeline.publish.files import publish
from subconscious_pipeline.publish.state import write_state
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.words import stem


class StoreMemory:
    """`MemoryPort` on memory.duckdb."""

    def __init__(self, home: Home, settings: Settings, strategy: consolidate.Strategy = "COMBINE") -> None:
        self._home = home
        self._settings = settings
        self._strategy = strategy

    @without_content()
    def sweep(self, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Expire what is past its date, recompute scores, move tiers."""
        with store.writing(self._home, self._settings) as con:
            projected = project.project(con, as_of, transaction.transaction_id) if project.is_due(con, as_of) else None
            swept = salience.sweep(con, as_of)
        counts = {"concepts": swept.concepts, "promoted": swept.promoted, "demoted": swept.demoted, "expired": projected.expired if projected else 0}
        return Effect(swept.changed or (projected is not None and projected.changed), counts)

    @without_content()
    def plan_and_consolidate(self, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Merge what belongs together. Planned on a read-only connection: candidates take seconds, a writer holds the store."""
        with store.reading(self._home, self._settings) as con:
            planned = consolidate.plan(con, self._strategy)
        if not planned.merges:
            return Effect(False, {"merges": 0})
        with store.writing(self._home, self._settings) as con:
            valid = consolidate.still_valid(con, planned)
            done = consolidate.apply(con, valid, transaction.transaction_id, as_of)
        return Effect(done is not None, {"merges": len(valid.merges) if done else 0})

    @without_content()
    def flush(self, observations: Sequence[SessionObservation], session_id: str, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Persist session notes and give them their concepts."""
        notes = [(note.event_id, _observation(note)) for note in observations]
        with store.writing(self._home, self._settings) as con:
            new = session.flush(con, session_id, notes, self._settings.window_hours)
            projected = project.project(con, as_of, transaction.transaction_id)
        return Effect(bool(new) or projected.changed, {"observations": new})

    @without_content()
    def record_accesses(self, accesses: Sequence[Access], transaction: TransactionContext, as_of: datetime) -> Effect:
        """Note accesses."""
        with store.writing(self._home, self._settings) as con:
            new = session.record_accesses(con, [(access.concept_id, access.at, access.session_id) for access in accesses])
        return Effect(bool(new), {"accesses": new})

    @without_content()
    def claim(self, concept_ids: Sequence[int], core: bool, transaction: TransactionContext, as_of: datetime) -> Effect:
        """Mark concepts as claimed."""
        with store.writing(self._home, self._settings) as con:
            changed = session.claim(con, concept_ids, core)
        return Effect(bool(changed), {"claimed": changed})

    @without_content()
    def associations(self, as_of: datetime) -> AssociationView:
        """The live concepts of every tier, read into memory."""
        with store.reading(self._home, self._settings) as con:
            rows = con.execute("""
                SELECT c.id, s.tier, list(DISTINCT k.word ORDER BY k.word) FROM concepts c JOIN concept_state s ON s.concept_id = c.id
                JOIN keywords k ON k.concept_id = c.id GROUP BY c.id, s.tier ORDER BY c.id""").fetchall()
            pointers: dict[int, list[Span]] = defaultdict(list)
            for concept_id, *span in con.execute(
                "SELECT concept_id, source_type, source_ref, time_start, time_end FROM sources ORDER BY ALL"
            ).fetchall():
                pointers[concept_id].append(Span(*span))
            led = session.redirects(con)
        held = Counter(s for _, _, words in rows for s in {stem(word) for word in words})
        weight = {s: math.log(1 + len(rows) / count) for s, count in held.items()}
        return AssociationGraph(
            (
                AssociationConcept(
                    concept_id, tuple(words), {s: weight[s] for s in {stem(word) for word in words}}, tier, tuple(pointers[concept_id])
                )
                for concept_id, tier, words in rows
            ),
            led,
        )


class FilePublisher:
    """`PublishPort`: the published files and `state.json`."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home = home
        self._settings = settings

    @without_content()
    def publish(self, as_of: datetime) -> None:
        """Publish the index as it is."""
        write_state(self._home, self._settings, publish(self._home, self._settings, as_of).state)


@contextmanager
def caretaker_of(home: Home, settings: Settings) -> Iterator[Caretaker]:
    """The caretaker of a home over its real stores; its log is open as long as the context lasts."""
    knobs = load_caretaker_settings()
    with EventLog(home.events, settings.lock_seconds) as log:
        yield Caretaker(log, StoreMemory(home, settings), FilePublisher(home, settings), knobs)


def _observation(note: SessionObservation) -> Observation:
    return Observation(note.words, "ongoing", note.ttl_days, note.observed_at, note.expires, note.spans)
