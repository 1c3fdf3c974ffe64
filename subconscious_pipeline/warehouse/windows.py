"""The `conversations` table: which conversation speaks in which window, and the hash that tells whether a window has changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb

# A message and a mail speak in the window they were sent in. A calendar event speaks where it changed and where it starts;
# generated occurrences of an unchanged series do not (`speaks` is set on the first of a series only).
_ROWS = """
    SELECT source_type, source_ref, message_key AS key, content_hash, noise, sent_at AS moment FROM messages
    WHERE sent_at >= $first AND sent_at < $after
    UNION ALL
    SELECT source_type, source_ref, email_key, content_hash, noise, sent_at FROM emails WHERE sent_at >= $first AND sent_at < $after
    UNION ALL
    SELECT source_type, source_ref, key, content_hash, noise, min(moment) FROM (
        SELECT source_type, source_ref, event_key AS key, content_hash, noise, start_at AS moment FROM calendar_events
        WHERE speaks AND start_at >= $first AND start_at < $after
        UNION ALL
        SELECT source_type, source_ref, event_key, content_hash, noise, changed_at FROM calendar_events JOIN calendar_changes USING (event_key)
        WHERE speaks AND changed_at >= $first AND changed_at < $after)
    GROUP BY source_type, source_ref, key, content_hash, noise, {window}
"""
_BUCKET = "make_timestamptz((floor(epoch_us({at}) / ({hours} * 3600000000)))::BIGINT * {hours} * 3600000000)"


def bucket(at: str, hours: int) -> str:
    """SQL for the start of the window of `hours` hours that holds the instant column `at`."""
    return _BUCKET.format(at=at, hours=int(hours))


def refresh(con: duckdb.DuckDBPyConnection, hours: int) -> int:
    """Rewrite `conversations` for every window that holds an instant in the temporary table `touched`; returns the number of windows."""
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE windows AS SELECT DISTINCT {bucket('moment', hours)} AS window_start FROM touched WHERE moment IS NOT NULL"
    )
    return rebuild(con, hours)


def rebuild(con: duckdb.DuckDBPyConnection, hours: int) -> int:
    """Rewrite `conversations` for the windows in the temporary table `windows` (one column, window_start)."""
    row = con.execute(f"SELECT count(*), min(window_start), max(window_start) + INTERVAL {int(hours)} HOUR FROM windows").fetchone()
    if row is None or not row[0]:
        return 0
    window = bucket("moment", hours)
    con.execute("DELETE FROM conversations WHERE window_start IN (SELECT window_start FROM windows)")
    con.execute(
        f"""
        INSERT INTO conversations
        SELECT r.window_start, r.source_type, r.source_ref, coalesce(any_value(n.title), r.source_ref), count(*), count(*) FILTER (len(r.noise) > 0),
               min(r.moment), max(r.moment), coalesce(to_hex(bit_xor(r.key) FILTER (len(r.noise) = 0)) || to_hex(bit_xor(r.content_hash) FILTER (len(r.noise) = 0)), '')
        FROM (SELECT *, {window} AS window_start FROM ({_ROWS.format(window=window)})) r
        SEMI JOIN windows w ON w.window_start = r.window_start
        LEFT JOIN names n ON n.source_type = r.source_type AND n.source_ref = r.source_ref
        GROUP BY r.window_start, r.source_type, r.source_ref""",
        {"first": row[1], "after": row[2]},
    )
    return int(row[0])


@dataclass(frozen=True)
class WindowInput:
    """What the warehouse holds for one window."""

    start: datetime  # aware UTC
    rows: int  # rows that are not noise
    noise: int
    conversations: int
    input_hash: str  # changes when, and only when, a row that is not noise comes, goes or changes


def window_inputs(con: duckdb.DuckDBPyConnection, first: datetime | None = None, last: datetime | None = None) -> list[WindowInput]:
    """Every window that holds rows, in order; optionally only those that start within [first, last]."""
    rows = con.execute(
        """
        SELECT window_start, sum(rows - noise)::BIGINT, sum(noise)::BIGINT, count(*) FILTER (rows > noise),
               md5(coalesce(string_agg(source_type || chr(31) || source_ref || chr(31) || input_hash, ',' ORDER BY source_type, source_ref)
                            FILTER (rows > noise), ''))
        FROM conversations WHERE window_start >= coalesce(?::TIMESTAMPTZ, window_start) AND window_start <= coalesce(?::TIMESTAMPTZ, window_start)
        GROUP BY window_start ORDER BY window_start""",
        [first, last],
    ).fetchall()
    return [WindowInput(*row) for row in rows]


@dataclass(frozen=True)
class RowCount:
    """Rows of one table in one window."""

    window: str  # partition key
    rows: int
    noise: int
    reasons: str  # "bot 3, media 2"


_INSTANT_OF = {"messages": "sent_at", "emails": "sent_at", "calendar_events": "start_at"}


def rows_by_window(con: duckdb.DuckDBPyConnection, table: str, hours: int, start: datetime, end: datetime) -> list[RowCount]:
    """Rows and noise of `messages`, `emails` or `calendar_events` for the windows within [start, end)."""
    moment = _INSTANT_OF[table]
    rows = con.execute(
        f"""
        WITH chosen AS (SELECT {bucket(moment, hours)} AS window_start, noise FROM {table} WHERE {moment} >= $start AND {moment} < $end),
             why AS (SELECT window_start, string_agg(reason || ' ' || n, ', ' ORDER BY n DESC, reason) AS reasons FROM (
                 SELECT window_start, reason, count(*) AS n FROM (SELECT window_start, unnest(noise) AS reason FROM chosen) GROUP BY ALL)
                 GROUP BY window_start)
        SELECT strftime(c.window_start, '%Y-%m-%dT%H:%MZ'), count(*), count(*) FILTER (len(c.noise) > 0), coalesce(any_value(w.reasons), '')
        FROM chosen c LEFT JOIN why w ON w.window_start = c.window_start GROUP BY c.window_start ORDER BY c.window_start""",
        {"start": start, "end": end},
    ).fetchall()
    return [RowCount(*row) for row in rows]
