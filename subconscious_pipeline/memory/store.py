"""Opening memory.duckdb, its revision, and the invariants that every commit keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from subconscious_pipeline import duck
from subconscious_pipeline.errors import StoreError
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory.schema import MIGRATIONS
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.words import WORD_PATTERN

_INVARIANTS = {
    "a keyword without its concept": "SELECT count(*) FROM keywords ANTI JOIN concepts ON keywords.concept_id = concepts.id",
    "a pointer without its concept": "SELECT count(*) FROM sources ANTI JOIN concepts ON sources.concept_id = concepts.id",
    "a concept without keywords": "SELECT count(*) FROM concepts ANTI JOIN keywords ON keywords.concept_id = concepts.id",
    "a concept without pointers": "SELECT count(*) FROM concepts ANTI JOIN sources ON sources.concept_id = concepts.id",
    "a span without its observation": "SELECT count(*) FROM observation_spans s ANTI JOIN observations o ON o.id = s.observation_id",
    "a keyword that is no word": f"SELECT count(*) FROM keywords WHERE NOT regexp_full_match(word, '{WORD_PATTERN}')",
    "a pointer that ends before it starts": "SELECT count(*) FROM sources WHERE time_end < time_start",
}


def broken_invariants(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """What is wrong with the index, and how often; empty when all is well."""
    counts = {name: con.execute(query).fetchone() for name, query in _INVARIANTS.items()}
    return {name: int(row[0]) for name, row in counts.items() if row and row[0]}


def check_invariants(con: duckdb.DuckDBPyConnection) -> None:
    """Raise StoreError (and so roll the transaction back) when the index is not sound."""
    if broken := broken_invariants(con):
        raise StoreError("the change was rolled back, it would leave " + ", ".join(f"{name} ({count})" for name, count in broken.items()))


@contextmanager
def writing(home: Home, settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """One write transaction on memory.duckdb. See `duck.writing`."""
    with duck.writing(home.memory, home.lock("memory"), MIGRATIONS, settings.lock_seconds) as con:
        duck.check_window_hours(con, settings.window_hours, keep=True)
        yield con


@contextmanager
def reading(home: Home, settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to memory.duckdb. See `duck.reading`."""
    with duck.reading(home.memory, MIGRATIONS, settings.lock_seconds) as con:
        duck.check_window_hours(con, settings.window_hours)
        yield con


def revision(con: duckdb.DuckDBPyConnection) -> int:
    """The revision of the memory: raised by every commit that changes it."""
    row = con.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()
    return int(row[0]) if row else 0


def raise_revision(con: duckdb.DuckDBPyConnection) -> int:
    """Count this transaction; returns the new revision."""
    con.execute("UPDATE meta SET value = (value::BIGINT + 1)::VARCHAR WHERE key = 'revision'")
    return revision(con)
