"""The snapshot as data: everything the published files say, read from memory in one go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime

import duckdb

from subconscious_pipeline.errors import StoreError
from subconscious_pipeline.memory.project import REDIRECTS, RESOLVED
from subconscious_pipeline.memory.store import revision
from subconscious_pipeline.publish import tokens
from subconscious_pipeline.publish.choose import SEPARATOR, Candidate, choose
from subconscious_pipeline.publish.overview import Overview
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.words import is_word


@dataclass(frozen=True)
class Pointer:
    """A source pointer or a tight span inside one; instants are aware UTC."""

    concept_id: int
    source_type: str
    source_ref: str
    time_start: datetime
    time_end: datetime


@dataclass(frozen=True)
class Concept:
    """One live concept."""

    id: int
    expires: date
    tier: str
    score: float


@dataclass(frozen=True)
class Keyword:
    """One word of one concept."""

    concept_id: int
    word: str
    rarity: float  # ln(1 + concepts / concepts with the word)


@dataclass(frozen=True)
class Snapshot:
    """What is published. Sorted throughout, so that equal memories give equal bytes."""

    revision: int
    status: str
    reasons: tuple[str, ...]
    as_of: datetime
    watermark: datetime
    words: tuple[str, ...]
    tokens: int
    concepts: tuple[Concept, ...]
    keywords: tuple[Keyword, ...]
    sources: tuple[Pointer, ...]
    spans: tuple[Pointer, ...]
    redirects: tuple[tuple[int, int], ...]


def take(con: duckdb.DuckDBPyConnection, state: Overview, settings: Settings) -> Snapshot:
    """Read the snapshot from an open memory connection and choose its words."""
    concepts = [
        Concept(*row)
        for row in con.execute(
            "SELECT c.id, c.expires, s.tier, s.score FROM concepts c JOIN concept_state s ON s.concept_id = c.id ORDER BY c.id"
        ).fetchall()
    ]
    words = con.execute(
        f"""
        WITH live AS ({RESOLVED}), ranks AS (
            SELECT resolved AS concept_id, word, min(rank) - 1 AS rank
            FROM (SELECT resolved, unnest(words) AS word, generate_subscripts(words, 1) AS rank FROM live) GROUP BY ALL)
        SELECT k.concept_id, k.word, r.rank, count(*) OVER (PARTITION BY k.word)
        FROM keywords k JOIN ranks r ON r.concept_id = k.concept_id AND r.word = k.word ORDER BY k.concept_id, k.word"""
    ).fetchall()
    if any(not is_word(word) for _, word, _, _ in words):
        raise StoreError("memory holds a keyword that is no word; nothing was published (`subconscious doctor` says more)")
    state_of = {concept.id: concept for concept in concepts}
    listed = [
        Candidate(concept_id, word, rank, state_of[concept_id].score) for concept_id, word, rank, _ in words if state_of[concept_id].tier != "ARCHIVE"
    ]
    chosen = choose(listed, settings.awareness_tokens, tokens.count)
    spans = con.execute(
        f"""
        SELECT DISTINCT l.resolved, s.source_type, s.source_ref, s.time_start, s.time_end
        FROM ({RESOLVED}) l JOIN observation_spans s ON s.observation_id = l.id
        WHERE l.resolved IN (SELECT id FROM concepts) ORDER BY ALL"""
    ).fetchall()
    sources = con.execute("SELECT concept_id, source_type, source_ref, time_start, time_end FROM sources ORDER BY ALL").fetchall()
    redirects = con.execute(f"{REDIRECTS} SELECT from_id, into_id FROM redirects WHERE into_id IN (SELECT id FROM concepts) ORDER BY 1").fetchall()
    return Snapshot(
        revision=revision(con),
        status=state.status,
        reasons=state.reasons,
        as_of=state.published_at,
        watermark=state.watermark,
        words=tuple(chosen),
        tokens=tokens.count(SEPARATOR.join(chosen)),
        concepts=tuple(concepts),
        keywords=tuple(Keyword(concept, word, round(math.log(1 + len(concepts) / held), 9)) for concept, word, _, held in words),
        sources=tuple(Pointer(*row) for row in sources),
        spans=tuple(Pointer(*row) for row in spans),
        redirects=tuple((row[0], row[1]) for row in redirects),
    )
