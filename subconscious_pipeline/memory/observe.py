"""Writing observations: the outcome of a window replaces what that window said before, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import count

import duckdb
import polars as pl

from subconscious_pipeline.errors import StoreError
from subconscious_pipeline.extraction.types import Observation, WindowResult
from subconscious_pipeline.memory import ledger
from subconscious_pipeline.memory.merge import Trace, inherit
from subconscious_pipeline.settings import Settings

_INSTANT = pl.Datetime("us", "UTC")


def persist(con: duckdb.DuckDBPyConnection, result: WindowResult, as_of: datetime, settings: Settings) -> ledger.Status:
    """Write a window's outcome: ledger, and its observations unless it failed (then what it said before stays).

    Returns:
        The window's status in the ledger: a failed window may now be ``quarantined``.
    """
    if result.status != "failed":
        _replace(con, result)
    return ledger.record(con, result, as_of, settings)


def _replace(con: duckdb.DuckDBPyConnection, result: WindowResult) -> None:
    old_ids, old, concepts, kept_for_ever = _former(con, result.window.start)
    new = [_trace(observation) for observation in result.observations]
    pairs = inherit(old, new)
    inherited = {n: concepts[o] for n, o in pairs.items()}
    # What belongs to somebody's identity is never deleted, not even when a re-run no longer says it.
    kept = {old_ids[o] for o in kept_for_ever if o not in pairs.values()}
    gone = [identity for identity in old_ids if identity not in kept]
    delete(con, gone)
    if result.observations:
        concept_ids = [inherited.get(n) for n in range(len(new))]
        ids = [old_ids[pairs[n]] if n in pairs else None for n in range(len(new))]
        insert(con, result.observations, "extraction", result.window.start, concept_ids, ids=ids)


def _former(con: duckdb.DuckDBPyConnection, window_start: datetime) -> tuple[list[int], list[Trace], list[int | None], set[int]]:
    rows = con.execute(
        """
        SELECT o.id, o.words, o.concept_id, coalesce(s.tier = 'IDENTITY_CORE', false),
               list({'t': p.source_type, 'r': p.source_ref, 'a': epoch(p.time_start), 'b': epoch(p.time_end)})
        FROM observations o JOIN observation_spans p ON p.observation_id = o.id LEFT JOIN concept_state s ON s.concept_id = o.concept_id
        WHERE o.origin = 'extraction' AND o.window_start = ? GROUP BY ALL ORDER BY o.id""",
        [window_start],
    ).fetchall()
    traces = [Trace(tuple(row[1]), tuple((p["t"], p["r"], p["a"], p["b"]) for p in row[4])) for row in rows]
    return [row[0] for row in rows], traces, [row[2] for row in rows], {position for position, row in enumerate(rows) if row[3]}


def _trace(observation: Observation) -> Trace:
    spans = tuple((s.source_type, s.source_ref, s.time_start.timestamp(), s.time_end.timestamp()) for s in observation.spans)
    return Trace(observation.words, spans)


def delete(con: duckdb.DuckDBPyConnection, ids: Sequence[int]) -> None:
    """Delete observations and their spans."""
    if ids:
        con.register("doomed", pl.DataFrame({"id": list(ids)}, schema={"id": pl.Int64}).to_arrow())
        con.execute("DELETE FROM observation_spans WHERE observation_id IN (SELECT id FROM doomed)")
        con.execute("DELETE FROM observations WHERE id IN (SELECT id FROM doomed)")
        con.unregister("doomed")


def insert(
    con: duckdb.DuckDBPyConnection,
    observations: Sequence[Observation],
    origin: str,
    window_start: datetime,
    concept_ids: Sequence[int | None],
    session_id: str | None = None,
    first_ordinal: int = 0,
    ids: Sequence[int | None] | None = None,
) -> list[int]:
    """Insert observations of one window (or one session note) in the order given, numbered from `first_ordinal`; returns their ids.

    Args:
        concept_ids: the concept of each, None for those that projection has to assign.
        ids: the id of each, None (or no list) for the next free one.

    Raises:
        StoreError: when an observation points nowhere; a concept must lead to its sources.
    """
    if any(not observation.spans for observation in observations):
        raise StoreError("an observation without any source pointer cannot be stored")
    wanted = list(ids or [None] * len(observations))
    row = con.execute("SELECT coalesce(max(id), 0) FROM observations").fetchone()
    free = count(max([row[0] if row else 0, *(identity for identity in wanted if identity is not None)]) + 1)
    given = [next(free) if identity is None else identity for identity in wanted]
    made = pl.DataFrame(
        {
            "id": given,
            "window_start": pl.Series([window_start] * len(given), dtype=_INSTANT),
            "ordinal": list(range(first_ordinal, first_ordinal + len(given))),
            "words": [list(o.words) for o in observations],
            "kind": [o.kind for o in observations],
            "ttl_days": [o.ttl_days for o in observations],
            "observed_at": pl.Series([o.observed_at for o in observations], dtype=_INSTANT),
            "expires": [o.expires for o in observations],
            "concept_id": pl.Series(list(concept_ids), dtype=pl.Int64),
        }
    )
    spans = [
        (identity, s.source_type, s.source_ref, s.time_start, s.time_end) for identity, o in zip(given, observations, strict=True) for s in o.spans
    ]
    spanned = pl.DataFrame(
        spans,
        schema={"observation_id": pl.Int64, "source_type": pl.String, "source_ref": pl.String, "time_start": _INSTANT, "time_end": _INSTANT},
        orient="row",
    )
    con.register("new_observations", made.to_arrow())
    con.register("new_spans", spanned.to_arrow())
    con.execute(
        "INSERT INTO observations "
        "SELECT id, ?, window_start, ordinal, ?, words, kind, ttl_days, observed_at, expires, concept_id FROM new_observations",
        [origin, session_id],
    )
    con.execute("INSERT INTO observation_spans SELECT * FROM new_spans")
    con.unregister("new_observations")
    con.unregister("new_spans")
    return given
