"""Looking at the index from outside: do pointers lead somewhere, is there anything in it that is not a word, a reference or a time?"""

from __future__ import annotations

import duckdb
import polars as pl

from subconscious_pipeline.words import is_word

_REFERENCES = ("source_ref", "source_type", "session_id", "transaction_id", "model", "hmac", "input_hash")


def spans(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Every distinct extracted span of memory: source_type, source_ref, time_start, time_end."""
    return con.sql(
        "SELECT DISTINCT s.source_type, s.source_ref, s.time_start, s.time_end FROM observation_spans s "
        "JOIN observations o ON o.id = s.observation_id WHERE o.origin = 'extraction'"
    ).pl()


def dangling(warehouse: duckdb.DuckDBPyConnection, wanted: pl.DataFrame) -> int:
    """How many of these spans do not start and end at a row of the warehouse."""
    warehouse.register("wanted", wanted.to_arrow())
    row = warehouse.execute("""
        WITH moments AS (
            SELECT source_type, source_ref, sent_at AS moment FROM messages UNION ALL
            SELECT source_type, source_ref, sent_at FROM emails UNION ALL
            SELECT source_type, source_ref, start_at FROM calendar_events UNION ALL
            SELECT source_type, source_ref, end_at FROM calendar_events)
        SELECT count(*) FROM wanted w WHERE NOT EXISTS (
            SELECT 1 FROM moments m WHERE m.source_type = w.source_type AND m.source_ref = w.source_ref AND m.moment = w.time_start)
        OR NOT EXISTS (
            SELECT 1 FROM moments m WHERE m.source_type = w.source_type AND m.source_ref = w.source_ref AND m.moment = w.time_end)""").fetchone()
    warehouse.unregister("wanted")
    return int(row[0]) if row else 0


def odd_words(con: duckdb.DuckDBPyConnection) -> int:
    """How many stored words are not of the one form a keyword may have."""
    rows = con.execute("SELECT DISTINCT word FROM (SELECT word FROM keywords UNION ALL SELECT unnest(words) FROM observations)").fetchall()
    return sum(not is_word(row[0]) for row in rows)


def sentences(con: duckdb.DuckDBPyConnection) -> int:
    """How many text values outside reference columns hold a space followed by more text, as prose does."""
    columns = con.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND data_type = 'VARCHAR' AND table_name <> 'meta'"
    ).fetchall()
    found = 0
    for table, column in columns:
        if column not in _REFERENCES:
            row = con.execute(f'SELECT count(*) FROM "{table}" WHERE regexp_matches("{column}", \'\\s\')').fetchone()
            found += int(row[0]) if row else 0
    return found
