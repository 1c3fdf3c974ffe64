"""What sessions leave in memory: their working context as observations, what they looked up, what they claimed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import duckdb
import polars as pl

from subconscious_pipeline.extraction.types import Observation
from subconscious_pipeline.instants import window_at
from subconscious_pipeline.memory import observe
from subconscious_pipeline.memory.project import REDIRECTS
from subconscious_pipeline.memory.store import raise_revision

_LED = f"{REDIRECTS} SELECT from_id, into_id FROM redirects"


def redirects(con: duckdb.DuckDBPyConnection) -> dict[int, int]:
    """Merged concept id → the concept it now is part of."""
    return dict(con.execute(_LED).fetchall())


def live(con: duckdb.DuckDBPyConnection, concept_ids: Iterable[int]) -> list[int]:
    """The live concepts these ids stand for, through merges, each once; unknown and expired ones are left out."""
    led = redirects(con)
    wanted = dict.fromkeys(led.get(concept, concept) for concept in concept_ids)
    known = {row[0] for row in con.execute("SELECT id FROM concepts WHERE id IN (SELECT unnest(?::BIGINT[]))", [list(wanted)]).fetchall()}
    return [concept for concept in wanted if concept in known]


def flush(con: duckdb.DuckDBPyConnection, session_id: str, notes: Sequence[tuple[int, Observation]], hours: int) -> int:
    """Persist a session's notes as observations of origin `session`, within the caller's transaction; returns how many are new.

    Args:
        notes: (event id, observation); one whose event id is there already for this session is left as it is.
        hours: length of a window.
    """
    rows = con.execute("SELECT ordinal FROM observations WHERE origin = 'session' AND session_id = ?", [session_id]).fetchall()
    known = {row[0] for row in rows}
    fresh = [(event_id, note) for event_id, note in notes if event_id not in known]
    for event_id, note in fresh:
        observe.insert(con, [note], "session", window_at(note.observed_at, hours).start, [None], session_id, first_ordinal=event_id)
    if fresh:
        raise_revision(con)
    return len(fresh)


def record_accesses(con: duckdb.DuckDBPyConnection, accesses: Sequence[tuple[int, datetime, str]]) -> int:
    """Note (concept id, instant, session id) accesses; one that is there already is not noted twice. Returns how many are new."""
    led = redirects(con)
    wanted = {(led.get(concept, concept), at, session) for concept, at, session in accesses}
    frame = pl.DataFrame(
        sorted(wanted), schema={"concept_id": pl.Int64, "moment": pl.Datetime("us", "UTC"), "session_id": pl.String}, orient="row"
    )  # fmt: skip
    con.register("new_accesses", frame.to_arrow())
    row = con.execute(f"""
        INSERT INTO accesses
        SELECT n.concept_id, n.moment, n.session_id FROM new_accesses n SEMI JOIN concepts c ON c.id = n.concept_id
        ANTI JOIN (SELECT coalesce(r.into_id, a.concept_id) AS concept_id, a."at", a.session_id
                   FROM accesses a LEFT JOIN ({_LED}) r ON r.from_id = a.concept_id) a
        ON a.concept_id = n.concept_id AND a."at" = n.moment AND a.session_id = n.session_id""").fetchone()
    con.unregister("new_accesses")
    count = int(row[0]) if row else 0
    if count:
        raise_revision(con)
    return count


def claim(con: duckdb.DuckDBPyConnection, concept_ids: Sequence[int], core: bool) -> int:
    """Mark concepts as claimed, with `core` as IDENTITY_CORE; returns how many changed. Twice equals once."""
    changed = 0
    for concept in live(con, concept_ids):
        row = con.execute(
            "UPDATE concept_state SET claimed = true, tier = CASE WHEN ? THEN 'IDENTITY_CORE' WHEN tier = 'ARCHIVE' THEN 'LONG_TERM' ELSE tier END "
            "WHERE concept_id = ? AND (NOT claimed OR (? AND tier <> 'IDENTITY_CORE'))",
            [core, concept, core],
        ).fetchone()
        changed += int(row[0]) if row else 0
    if changed:
        raise_revision(con)
    return changed
