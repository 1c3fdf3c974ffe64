"""From observations to concepts, keywords and pointers: forget what is past its date, assign what is new, rewrite the projection.

`concepts`, `keywords` and `sources` hold nothing of their own; they can be thrown away and come back the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb
import polars as pl

from subconscious_pipeline.memory import observe
from subconscious_pipeline.memory.merge import Sighting, assign
from subconscious_pipeline.memory.store import check_invariants, raise_revision

# Where merges have led each concept id that was merged away.
REDIRECTS = """
    WITH RECURSIVE hops AS (
        SELECT from_id, into_id, 1 AS depth FROM merges
        UNION ALL SELECT h.from_id, m.into_id, h.depth + 1 FROM hops h JOIN merges m ON m.from_id = h.into_id
    ), redirects AS (SELECT from_id, arg_max(into_id, depth) AS into_id FROM hops GROUP BY from_id)
"""
# The concept an observation counts for now: its own, or where merges have led it.
RESOLVED = f"""
    {REDIRECTS}
    SELECT o.*, coalesce(r.into_id, o.concept_id) AS resolved FROM observations o LEFT JOIN redirects r ON r.from_id = o.concept_id
"""


@dataclass(frozen=True)
class Projection:
    """What a projection did."""

    founded: int  # concepts that are new
    joined: int  # observations that joined a concept that was there
    expired: int  # observations past their date
    tombstoned: int  # concepts that are gone
    concepts: int
    keywords: int
    sources: int
    revision: int
    changed: bool


def _one(con: duckdb.DuckDBPyConnection, query: str, *parameters: object) -> int:
    row = con.execute(query, list(parameters)).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _past(con: duckdb.DuckDBPyConnection, as_of: datetime) -> list[tuple[int, int]]:
    """Observations whose date has passed, and the concepts they count for."""
    return con.execute(
        f"""
        SELECT o.id, o.resolved FROM ({RESOLVED}) o LEFT JOIN concept_state s ON s.concept_id = o.resolved
        WHERE o.expires < ? AND s.tier IS DISTINCT FROM 'IDENTITY_CORE'""",
        [as_of.date()],
    ).fetchall()


def is_due(con: duckdb.DuckDBPyConnection, as_of: datetime) -> bool:
    """Whether time has something to do for a projection: observations past their date, or without a concept. Cheap, unlike `project`."""
    return bool(_one(con, "SELECT count(*) FROM observations WHERE concept_id IS NULL") or _past(con, as_of))


def expire(con: duckdb.DuckDBPyConnection, as_of: datetime) -> list[int]:
    """Delete observations whose date has passed (UTC), except those of IDENTITY_CORE concepts; returns the concepts they were of."""
    rows = _past(con, as_of)
    observe.delete(con, [row[0] for row in rows])
    return [row[1] for row in rows]


def _assign(con: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Give observations without a concept one. Returns how many concepts were founded and how many observations joined one."""
    if not _one(con, "SELECT count(*) FROM observations WHERE concept_id IS NULL"):
        return 0, 0
    rows = con.execute(f"SELECT id, words, resolved FROM ({RESOLVED}) ORDER BY resolved IS NOT NULL DESC, window_start, ordinal, id").fetchall()
    next_id = 1 + max(
        _one(con, "SELECT max(id) FROM concepts"),
        _one(con, "SELECT max(concept_id) FROM observations"),
        _one(con, "SELECT max(concept_id) FROM tombstones"),
        _one(con, "SELECT greatest(max(from_id), max(into_id)) FROM merges"),
    )
    assigned = assign((Sighting(row[0], tuple(row[1]), row[2]) for row in rows), next_id)
    pairs = pl.DataFrame({"id": list(assigned), "concept_id": list(assigned.values())}, schema={"id": pl.Int64, "concept_id": pl.Int64})
    con.register("assigned", pairs.to_arrow())
    con.execute("UPDATE observations SET concept_id = a.concept_id FROM assigned a WHERE a.id = observations.id")
    con.unregister("assigned")
    founded = len({concept for concept in assigned.values() if concept >= next_id})
    return founded, len(assigned) - founded


_REBUILD = f"""
CREATE OR REPLACE TEMP TABLE live AS {RESOLVED};

CREATE OR REPLACE TEMP TABLE new_concepts AS SELECT resolved AS id, max(expires) AS expires FROM live GROUP BY resolved;

-- A concept whose last merge kept the newest member speaks with that member's words only; its pointers stay.
CREATE OR REPLACE TEMP VIEW speaking AS
SELECT l.resolved, l.words FROM live l LEFT JOIN (
    SELECT resolved, arg_max(concept_id, (observed_at, id)) AS newest FROM live
    WHERE resolved IN (SELECT into_id FROM merges WHERE strategy = 'KEEP_NEWEST') GROUP BY resolved) k USING (resolved)
WHERE k.newest IS NULL OR l.concept_id = k.newest;

CREATE OR REPLACE TEMP TABLE new_keywords AS
SELECT row_number() OVER (ORDER BY concept_id, word) AS id, concept_id, word
FROM (SELECT DISTINCT resolved AS concept_id, unnest(words) AS word FROM speaking);

CREATE OR REPLACE TEMP TABLE new_sources AS
SELECT row_number() OVER (ORDER BY concept_id, source_type, source_ref) AS id, * FROM (
    SELECT l.resolved AS concept_id, s.source_type, s.source_ref, min(s.time_start) AS time_start, max(s.time_end) AS time_end
    FROM live l JOIN observation_spans s ON s.observation_id = l.id GROUP BY ALL);
"""


def rebuild(con: duckdb.DuckDBPyConnection, as_of: datetime, expired: list[int], transaction_id: str | None = None) -> int:
    """Rewrite `concepts`, `keywords`, `sources` from the live observations; tombstone concepts that are gone. Returns how many."""
    con.execute(_REBUILD)
    return _replace(con, as_of, expired, transaction_id)


def _replace(con: duckdb.DuckDBPyConnection, as_of: datetime, expired: list[int], transaction_id: str | None) -> int:
    """The part of `rebuild` after the new rows are made."""
    past = pl.DataFrame({"id": expired}, schema={"id": pl.Int64})
    con.register("past", past.to_arrow())
    row = con.execute(
        """
        INSERT INTO tombstones SELECT c.id, CASE WHEN c.id IN (SELECT id FROM past) THEN 'expired' ELSE 'superseded' END, ?, ? FROM concepts c
        WHERE c.id NOT IN (SELECT id FROM new_concepts) AND c.id NOT IN (SELECT from_id FROM merges) ORDER BY c.id""",
        [as_of, transaction_id],
    ).fetchone()
    con.unregister("past")
    for table in ("concepts", "keywords", "sources"):
        con.execute(f"DELETE FROM {table} WHERE id NOT IN (SELECT id FROM new_{table})")
        con.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM new_{table}")
    con.execute("""
        INSERT INTO concept_state SELECT id, 'ACTIVE_CONTEXT', false, 0, TIMESTAMPTZ '1970-01-01' FROM concepts
        WHERE id NOT IN (SELECT concept_id FROM concept_state)""")
    con.execute("""
        DELETE FROM concept_state WHERE concept_id NOT IN (SELECT id FROM concepts) AND concept_id NOT IN (SELECT from_id FROM merges)
        AND concept_id NOT IN (SELECT DISTINCT concept_id FROM observations WHERE concept_id IS NOT NULL)""")
    return int(row[0]) if row else 0


def is_projected(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the projection says exactly what the live observations say (nothing unassigned, replaced or gone since)."""
    if _one(con, "SELECT count(*) FROM observations WHERE concept_id IS NULL"):
        return False
    con.execute(_REBUILD)
    return not _differs(con)


def _differs(con: duckdb.DuckDBPyConnection) -> bool:
    return any(
        _one(con, f"SELECT count(*) FROM ((FROM {table} EXCEPT FROM new_{table}) UNION ALL (FROM new_{table} EXCEPT FROM {table}))")
        for table in ("concepts", "keywords", "sources")
    )


def project(con: duckdb.DuckDBPyConnection, as_of: datetime, transaction_id: str | None = None) -> Projection:
    """Bring the projection up to `as_of` within the caller's transaction. Doing it twice changes nothing the second time.

    Raises:
        StoreError: when an invariant would break (the transaction must then be rolled back).
    """
    expired = expire(con, as_of)
    founded, joined = _assign(con)
    con.execute(_REBUILD)
    changed = bool(expired or founded or joined) or _differs(con)
    gone = 0
    if changed:
        gone = _replace(con, as_of, expired, transaction_id)
        check_invariants(con)
        raise_revision(con)
    concepts, keywords, sources = (_one(con, f"SELECT count(*) FROM {table}") for table in ("concepts", "keywords", "sources"))
    return Projection(
        founded, joined, len(expired), gone,
        concepts, keywords, sources,
        _one(con, "SELECT value FROM meta WHERE key = 'revision'"), changed,
    )  # fmt: skip
