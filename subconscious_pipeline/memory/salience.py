"""How present a concept is, and what follows for its tier. Always recomputed from timestamps, so a sweep done twice equals once.

Base-level activation of ACT-R: Anderson & Schooler, "Reflections of the environment in memory", Psychological Science 2(6), 1991;
B = ln Σ t_j^-d with d = 0.5, and the logistic retrieval probability with threshold τ and noise s.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb

from subconscious_pipeline.memory.project import REDIRECTS, RESOLVED
from subconscious_pipeline.memory.store import raise_revision

DECAY = 0.5
CLAIMED_DECAY = 0.35  # a claimed concept fades slower
THRESHOLD = -3.0  # τ: a single observation crosses 0.5 after about 17 days
NOISE = 0.5  # s
# Promotion stands above demotion, so that a score on the edge does not move a concept to and fro.
PROMOTE_ACTIVE, DEMOTE_ACTIVE = 0.45, 0.35
PROMOTE_LONG_TERM, DEMOTE_LONG_TERM = 0.20, 0.12

# Most protective first.
TIERS = ("IDENTITY_CORE", "ACTIVE_CONTEXT", "LONG_TERM", "ARCHIVE")


@dataclass(frozen=True)
class Sweep:
    """What a sweep did."""

    concepts: int
    promoted: int
    demoted: int
    changed: bool


_SCORES = f"""
CREATE OR REPLACE TEMP TABLE scores AS
WITH resolved AS ({RESOLVED}),
     moments AS (
        SELECT resolved AS concept_id, observed_at AS moment FROM resolved WHERE resolved IS NOT NULL
        UNION ALL
        SELECT coalesce(r.into_id, a.concept_id), a."at" FROM accesses a
        LEFT JOIN ({REDIRECTS} SELECT * FROM redirects) r ON r.from_id = a.concept_id),
     activation AS (
        SELECT m.concept_id, ln(sum(power(greatest((epoch($as_of::TIMESTAMPTZ) - epoch(m.moment)) / 3600.0, 1.0),
                                          -CASE WHEN s.claimed THEN {CLAIMED_DECAY} ELSE {DECAY} END))) AS b
        FROM moments m JOIN concept_state s USING (concept_id) JOIN concepts c ON c.id = m.concept_id
        GROUP BY m.concept_id)
SELECT c.id AS concept_id, s.tier, s.claimed,
       CASE WHEN s.tier = 'IDENTITY_CORE' THEN 1.0
            ELSE round(coalesce(1 / (1 + exp(-(a.b - ({THRESHOLD})) / {NOISE})), 0), 9) END AS score
FROM concepts c JOIN concept_state s ON s.concept_id = c.id LEFT JOIN activation a ON a.concept_id = c.id
"""

# Any number of tiers in one sweep, so that a missed sweep is caught up by the next.
_MOVES = f"""
CREATE OR REPLACE TEMP TABLE moves AS
SELECT concept_id, score, tier AS old_tier, CASE
    WHEN tier = 'IDENTITY_CORE' THEN tier
    WHEN tier = 'ACTIVE_CONTEXT' AND score >= {DEMOTE_ACTIVE} THEN 'ACTIVE_CONTEXT'
    WHEN tier <> 'ACTIVE_CONTEXT' AND score >= {PROMOTE_ACTIVE} THEN 'ACTIVE_CONTEXT'
    WHEN claimed THEN 'LONG_TERM'
    WHEN tier = 'ARCHIVE' AND score < {PROMOTE_LONG_TERM} THEN 'ARCHIVE'
    WHEN tier <> 'ARCHIVE' AND score < {DEMOTE_LONG_TERM} THEN 'ARCHIVE'
    ELSE 'LONG_TERM' END AS tier
FROM scores
"""
_RANK = f"array_position({list(TIERS)}, {{}})"


def sweep(con: duckdb.DuckDBPyConnection, as_of: datetime) -> Sweep:
    """Recompute every concept's score at `as_of` and move tiers, within the caller's transaction.

    Moments still to come (an appointment observed in advance) count as one hour ago: what lies ahead is as present as can be.
    Demotes and promotes, never deletes. IDENTITY_CORE is exempt; a claimed concept is never demoted below LONG_TERM.
    """
    con.execute(_SCORES, {"as_of": as_of})
    con.execute(_MOVES)
    row = con.execute(f"""
        SELECT count(*), count(*) FILTER ({_RANK.format("m.tier")} < {_RANK.format("m.old_tier")}),
               count(*) FILTER ({_RANK.format("m.tier")} > {_RANK.format("m.old_tier")}),
               count(*) FILTER (m.tier <> s.tier OR m.score <> s.score) FROM moves m JOIN concept_state s USING (concept_id)""").fetchone()
    assert row is not None
    concepts, promoted, demoted, changed = row
    if changed:
        con.execute(
            "UPDATE concept_state SET tier = m.tier, score = m.score, scored_at = ? FROM moves m "
            "WHERE m.concept_id = concept_state.concept_id AND (m.tier <> concept_state.tier OR m.score <> concept_state.score)",
            [as_of],
        )
        raise_revision(con)
    return Sweep(concepts, promoted, demoted, bool(changed))


def tier_counts(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Concepts by tier."""
    rows = con.execute("SELECT s.tier, count(*) FROM concepts c JOIN concept_state s ON s.concept_id = c.id GROUP BY s.tier").fetchall()
    found = {row[0]: int(row[1]) for row in rows}
    return {tier: found.get(tier, 0) for tier in TIERS}


def distribution(con: duckdb.DuckDBPyConnection) -> list[tuple[float, str, int]]:
    """How many concepts lie in which tenth of the score, by tier: (lower edge, tier, concepts), ascending."""
    return con.execute(
        f"""
        SELECT edge, tier, count(*) FROM (
            SELECT least(floor(s.score * 10) / 10, 0.9) AS edge, s.tier, {_RANK.format("s.tier")} AS rank
            FROM concepts c JOIN concept_state s ON s.concept_id = c.id)
        GROUP BY edge, tier, rank ORDER BY edge, rank"""
    ).fetchall()
