"""Merging concepts that belong together: planned, applied by id, bounded, undone by deleting a transaction's rows.

No model decides here, and nothing is deleted: a merge is a redirect. There is nothing to summarize in an index of words and
pointers, so the strategy SUMMARIZE is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

import duckdb
import polars as pl

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.memory.merge import CORE_SIZE, rarity
from subconscious_pipeline.memory.project import RESOLVED, Projection, project
from subconscious_pipeline.memory.salience import TIERS
from subconscious_pipeline.words import stem

CANDIDATE_OVERLAP = 0.30
NEAR_DAYS = 7
MOST_OBSERVATIONS = 12
MOST_MERGES = 50  # a run
MOST_HOLDERS = 400  # a word or source with more concepts says nothing about any two of them

Strategy = Literal["COMBINE", "KEEP_NEWEST"]


@dataclass(frozen=True)
class Merge:
    """One planned merge of two concepts."""

    from_id: int
    into_id: int
    overlap: float
    observations: int  # of the result


@dataclass(frozen=True)
class Consolidation:
    """What is to be merged, strongest overlap first."""

    strategy: Strategy
    merges: tuple[Merge, ...]


@dataclass(frozen=True)
class _Member:
    """One concept as consolidation sees it."""

    id: int
    observations: int
    tier: str
    claimed: bool


def strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        ConfigError: unknown, or SUMMARIZE with the reason why not.
    """
    wanted = name.upper().replace("-", "_")
    if wanted == "SUMMARIZE":
        raise ConfigError("SUMMARIZE is refused: the index holds words and pointers, there is nothing to summarize; use COMBINE or KEEP_NEWEST")
    if wanted not in get_args(Strategy):
        raise ConfigError(f"there is no strategy {name!r}; use COMBINE or KEEP_NEWEST")
    return "COMBINE" if wanted == "COMBINE" else "KEEP_NEWEST"


_LIVE = f"CREATE OR REPLACE TEMP TABLE live AS SELECT id, words, resolved, observed_at FROM ({RESOLVED}) WHERE resolved IN (SELECT id FROM concepts)"

_POSTINGS = """
CREATE OR REPLACE TEMP TABLE postings AS
SELECT DISTINCT l.id, l.resolved AS concept_id, s.stem_id FROM (SELECT id, resolved, unnest(words) AS word FROM live) l JOIN stemmed s USING (word);
CREATE OR REPLACE TEMP TABLE seen AS SELECT concept_id, stem_id, count(*) AS n FROM postings GROUP BY ALL;
"""

# Never all pairs: two concepts meet where they hold the same telling word in the same or a neighbouring week, or the same
# telling word and the same source. One statement a step: a planner that sees it all at once joins in the wrong order.
_PAIRS = f"""
CREATE OR REPLACE TEMP TABLE cores AS
SELECT c.concept_id, c.stem_id, s.weight, s.holders FROM (
    SELECT concept_id, stem_id FROM seen QUALIFY row_number() OVER (PARTITION BY concept_id ORDER BY n DESC, stem_id) <= {CORE_SIZE}) c
JOIN weights s USING (stem_id);

CREATE OR REPLACE TEMP TABLE sizes AS
SELECT concept_id, total, stems, first_at, last_at FROM (SELECT concept_id, sum(weight) AS total, count(*) AS stems FROM cores GROUP BY concept_id)
JOIN (SELECT concept_id, epoch(min(time_start)) / 86400 AS first_at, epoch(max(time_end)) / 86400 AS last_at FROM sources GROUP BY concept_id)
USING (concept_id);

CREATE OR REPLACE TEMP TABLE telling AS SELECT concept_id, stem_id FROM cores WHERE holders <= {MOST_HOLDERS};

CREATE OR REPLACE TEMP TABLE weeks AS
SELECT concept_id, stem_id, unnest(generate_series(floor(first_at / {NEAR_DAYS})::BIGINT, floor(last_at / {NEAR_DAYS})::BIGINT + 1)) AS week
FROM telling JOIN sizes USING (concept_id);

CREATE OR REPLACE TEMP TABLE places AS
SELECT concept_id, stem_id, place FROM telling JOIN (
    SELECT concept_id, dense_rank() OVER (ORDER BY source_type, source_ref) AS place, count(*) OVER (PARTITION BY source_type, source_ref) AS holders
    FROM sources) USING (concept_id)
WHERE holders <= {MOST_HOLDERS};

CREATE OR REPLACE TEMP TABLE meetings AS
SELECT DISTINCT p.concept_id AS a, q.concept_id AS b FROM places p JOIN places q USING (place, stem_id) WHERE p.concept_id < q.concept_id
UNION
SELECT m.a, m.b FROM (
    SELECT DISTINCT p.concept_id AS a, q.concept_id AS b FROM weeks p JOIN weeks q USING (week, stem_id) WHERE p.concept_id < q.concept_id) m
JOIN sizes p ON p.concept_id = m.a JOIN sizes q ON q.concept_id = m.b
WHERE greatest(p.first_at, q.first_at) - least(p.last_at, q.last_at) <= {NEAR_DAYS};

CREATE OR REPLACE TEMP TABLE common AS
SELECT m.a, m.b, sum(x.weight) AS weight, count(*) AS stems
FROM meetings m JOIN cores x ON x.concept_id = m.a JOIN cores y ON y.concept_id = m.b AND y.stem_id = x.stem_id GROUP BY m.a, m.b;
"""

_CANDIDATES = f"""
SELECT a, b, overlap FROM (
    -- Rounded: sums of weights differ in their last digits with the order in which threads add them up, and equals must stay equal.
    SELECT c.a, c.b, round(c.weight / least(p.total, q.total), 9) AS overlap, c.stems, p.stems AS left_stems, q.stems AS right_stems
    FROM common c JOIN sizes p ON p.concept_id = c.a JOIN sizes q ON q.concept_id = c.b)
WHERE overlap >= {CANDIDATE_OVERLAP} AND stems >= CASE WHEN least(left_stems, right_stems) >= 3 THEN 2 ELSE 1 END
ORDER BY overlap DESC, a, b
"""


def _prepare(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(_LIVE)
    words = [row[0] for row in con.execute("SELECT DISTINCT unnest(words) AS word FROM live ORDER BY word").fetchall()]
    stems: dict[str, int] = {}
    numbered = [stems.setdefault(stem(word), len(stems)) for word in words]
    stemmed = pl.DataFrame({"word": words, "stem_id": numbered}, schema={"word": pl.String, "stem_id": pl.Int64})
    con.register("stemmed_words", stemmed.to_arrow())
    con.execute("CREATE OR REPLACE TEMP TABLE stemmed AS FROM stemmed_words")
    con.unregister("stemmed_words")
    con.execute(_POSTINGS)
    counts = con.execute("SELECT stem_id, sum(n)::BIGINT, count(*) FROM seen GROUP BY stem_id").fetchall()
    total = con.execute("SELECT count(*) FROM live").fetchone()
    observations = total[0] if total else 0
    weights = pl.DataFrame(
        [(stem_id, rarity(n, observations), holders) for stem_id, n, holders in counts],
        schema={"stem_id": pl.Int64, "weight": pl.Float64, "holders": pl.Int64},
        orient="row",
    )
    con.register("stem_weights", weights.to_arrow())
    con.execute("CREATE OR REPLACE TEMP TABLE weights AS FROM stem_weights")
    con.unregister("stem_weights")


def candidates(con: duckdb.DuckDBPyConnection) -> list[tuple[int, int, float]]:
    """Pairs of live concepts whose cores overlap enough and that share a source or lie close in time: (smaller id, larger id, overlap)."""
    _prepare(con)
    con.execute(_PAIRS)
    return con.execute(_CANDIDATES).fetchall()


def _survivor(a: _Member, b: _Member) -> tuple[_Member, _Member]:
    """Who stays: what belongs to somebody's identity, then what is claimed, then the larger, then the older one."""

    def rank(member: _Member) -> tuple[bool, bool, int, int]:
        return member.tier != "IDENTITY_CORE", not member.claimed, -member.observations, member.id

    return (a, b) if rank(a) <= rank(b) else (b, a)


def plan(con: duckdb.DuckDBPyConnection, how: Strategy = "COMBINE", most: int = MOST_MERGES) -> Consolidation:
    """What a consolidation would merge now; reads only. Two IDENTITY_CORE concepts are never merged with each other.

    Args:
        con: an open memory connection; a read-only one will do.
        most: most merges of this run.
    """
    found = candidates(con)
    rows = con.execute(
        "SELECT c.id, count(l.id), any_value(s.tier), any_value(s.claimed) FROM concepts c JOIN live l ON l.resolved = c.id "
        "JOIN concept_state s ON s.concept_id = c.id GROUP BY c.id"
    ).fetchall()
    members = {row[0]: _Member(*row) for row in rows}
    merged: set[int] = set()  # one merge a concept and run: the next run looks at the result anew, with its new core
    merges: list[Merge] = []
    for a, b, overlap in found:
        if len(merges) >= most:
            break
        if a in merged or b in merged:
            continue
        stays, goes = _survivor(members[a], members[b])
        size = stays.observations + goes.observations
        if size > MOST_OBSERVATIONS or (goes.tier == "IDENTITY_CORE"):
            continue
        merged |= {a, b}
        merges.append(Merge(goes.id, stays.id, round(overlap, 6), size))
    return Consolidation(how, tuple(merges))


def still_valid(con: duckdb.DuckDBPyConnection, planned: Consolidation) -> Consolidation:
    """The part of a plan whose concepts are all still there and not merged since it was made."""
    alive = {row[0] for row in con.execute("SELECT id FROM concepts").fetchall()}
    return Consolidation(planned.strategy, tuple(merge for merge in planned.merges if {merge.from_id, merge.into_id} <= alive))


def apply(con: duckdb.DuckDBPyConnection, planned: Consolidation, transaction_id: str, as_of: datetime) -> Projection | None:
    """Carry out a plan within the caller's transaction. A transaction id that was applied already changes nothing (returns None).

    Raises:
        StoreError: when the result would break an invariant.
    """
    if con.execute("SELECT 1 FROM merges WHERE transaction_id = ? LIMIT 1", [transaction_id]).fetchone() or not planned.merges:
        return None
    con.executemany(
        'INSERT INTO merges (from_id, into_id, strategy, transaction_id, "at") VALUES (?, ?, ?, ?, ?)',
        [(merge.from_id, merge.into_id, planned.strategy, transaction_id, as_of) for merge in planned.merges],
    )
    for merge in planned.merges:
        tiers = con.execute("SELECT tier FROM concept_state WHERE concept_id IN (?, ?)", [merge.from_id, merge.into_id]).fetchall()
        best = min((row[0] for row in tiers), key=TIERS.index)
        con.execute("UPDATE concept_state SET tier = ? WHERE concept_id = ? AND tier <> ?", [best, merge.into_id, best])
    return project(con, as_of, transaction_id)


def transactions(con: duckdb.DuckDBPyConnection) -> Sequence[tuple[str, datetime, int]]:
    """Consolidations that can be undone, newest first: transaction id, when, how many merges."""
    return con.execute('SELECT transaction_id, max("at"), count(*) FROM merges GROUP BY transaction_id ORDER BY 2 DESC, 1').fetchall()


def undo(con: duckdb.DuckDBPyConnection, transaction_id: str, as_of: datetime) -> int:
    """Take back every merge of a transaction within the caller's; returns how many.

    Raises:
        ConfigError: when nothing of that transaction is there.
    """
    row = con.execute("SELECT count(*) FROM merges WHERE transaction_id = ?", [transaction_id]).fetchone()
    count = int(row[0]) if row else 0
    if not count:
        raise ConfigError(f"there is no consolidation {transaction_id!r} to undo; `subconscious consolidate --list` names them")
    con.execute("DELETE FROM merges WHERE transaction_id = ?", [transaction_id])
    project(con, as_of, transaction_id)
    return count
