"""From record frames into the warehouse tables, in bulk: new rows in, edits in place, nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import polars as pl

# A row's identity. Sources without ids of their own (WhatsApp) are numbered within one author's messages of one instant, so
# that a longer re-export gives every old row its old key and an edit changes the row it edits.
_MESSAGES_STAGED = """
CREATE OR REPLACE TEMP TABLE staged AS
SELECT * FROM (
    SELECT md5(concat_ws(chr(31), source_type, source_ref, coalesce('i' || native_id, concat_ws(chr(30), epoch_us(sent_at), author, nth)))) AS message_key,
           source_id, source_type, source_ref, native_id, thread_id, author, author_id, is_bot, kind, text, sent_at, end_at, tz_source,
           edited_at, ordinal, noise, md5(concat_ws(chr(31), kind, coalesce(author_id, author), epoch_us(sent_at), text)) AS content_hash, file_id
    FROM (SELECT *, CASE WHEN native_id IS NULL
                         THEN row_number() OVER (PARTITION BY source_type, source_ref, sent_at, author, native_id IS NULL ORDER BY ordinal) END AS nth
          FROM incoming)
    {unless_partial}
) {deduplicated}
"""
_LAST_WINS = "QUALIFY row_number() OVER (PARTITION BY message_key ORDER BY ordinal DESC) = 1"

# An export that starts in the middle of a minute numbers that minute's rows differently: what is already known of it stands.
_UNLESS_PARTIAL = """
    WHERE native_id IS NOT NULL OR NOT EXISTS (
        SELECT 1 FROM (SELECT file_id, source_type, source_ref, min(sent_at) AS first_at FROM incoming GROUP BY ALL) f
        JOIN (SELECT source_type, source_ref, sent_at, count(*) AS known FROM messages WHERE native_id IS NULL GROUP BY ALL) m
          ON m.source_type = f.source_type AND m.source_ref = f.source_ref AND m.sent_at = f.first_at
        JOIN (SELECT file_id, source_type, source_ref, sent_at, count(*) AS offered FROM incoming GROUP BY ALL) o
          ON o.file_id = f.file_id AND o.source_type = f.source_type AND o.source_ref = f.source_ref AND o.sent_at = f.first_at
        WHERE f.file_id = incoming.file_id AND f.source_type = incoming.source_type AND f.source_ref = incoming.source_ref
          AND f.first_at = incoming.sent_at AND m.known > o.offered)
"""

_EMAILS_STAGED = """
CREATE OR REPLACE TEMP TABLE staged AS
SELECT md5(source_ref) AS email_key, source_id, 'email' AS source_type, source_ref, source_ref AS thread_id, from_name, from_addr, "to", subject,
       sent_at, date_source, body_full, body_new, kind, "references", labels, zone, noise,
       md5(concat_ws(chr(31), from_addr, subject, body_full, epoch_us(sent_at))) AS content_hash, file_id
FROM incoming QUALIFY row_number() OVER (PARTITION BY source_ref ORDER BY ordinal DESC) = 1
"""

_EVENTS_STAGED = """
CREATE OR REPLACE TEMP TABLE staged AS
SELECT md5(source_ref) AS event_key, source_id, 'calendar' AS source_type, source_ref, series, summary, description, location, organizer, attendees,
       start_at, end_at, all_day, start_date::DATE AS start_date, end_date::DATE AS end_date, tz_name, tz_source, rrule, status,
       rrule IS NULL OR start_at = min(start_at) OVER (PARTITION BY series, rrule IS NULL) AS speaks, noise,
       md5(concat_ws(chr(31), summary, description, location, organizer, array_to_string(attendees, ','), epoch_us(start_at), epoch_us(end_at),
                     all_day, rrule, status)) AS content_hash, file_id, changed_at
FROM incoming QUALIFY row_number() OVER (PARTITION BY source_ref ORDER BY ordinal DESC) = 1
"""


@dataclass(frozen=True)
class Loaded:
    """What one load changed."""

    new: int
    updated: int


def _stage(con: duckdb.DuckDBPyConnection, frames: Sequence[pl.DataFrame], statement: str) -> None:
    incoming = pl.concat(frames)
    con.register("incoming", incoming.to_arrow())
    try:
        con.execute(statement)
    finally:
        con.unregister("incoming")


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    return int(row[0]) if row else 0


def _merge(con: duckdb.DuckDBPyConnection, table: str, key: str, columns: Sequence[str]) -> Loaded:
    """Insert staged rows whose key is new, overwrite those whose content differs, and note both in `touched`."""
    named = ", ".join(f'"{column}"' for column in columns)
    con.execute(f"CREATE TEMP TABLE IF NOT EXISTS touched_{table} (key VARCHAR)")
    if _count(con, f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1)") == 0:
        con.execute(f"INSERT INTO {table} ({named}) SELECT {named} FROM staged")
        con.execute(f"INSERT INTO touched_{table} SELECT {key} FROM staged")
        return Loaded(_count(con, "SELECT count(*) FROM staged"), 0)
    con.execute(f"""
        CREATE OR REPLACE TEMP TABLE changed AS SELECT s.* FROM staged s JOIN {table} t USING ({key})
        WHERE s.content_hash <> t.content_hash""")
    con.execute(f"CREATE OR REPLACE TEMP TABLE fresh AS SELECT s.* FROM staged s ANTI JOIN {table} t USING ({key})")
    counts = Loaded(_count(con, "SELECT count(*) FROM fresh"), _count(con, "SELECT count(*) FROM changed"))
    if counts.updated:
        con.execute(f"INSERT OR REPLACE INTO {table} ({named}) SELECT {named} FROM changed")
    con.execute(f"INSERT INTO {table} ({named}) SELECT {named} FROM fresh")
    con.execute(f"INSERT INTO touched_{table} SELECT {key} FROM fresh UNION ALL SELECT {key} FROM changed")
    return counts


def _columns(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    return [row[0] for row in con.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]).fetchall()]


def load_messages(con: duckdb.DuckDBPyConnection, frames: Sequence[pl.DataFrame]) -> Loaded:
    """Load frames of message records (with noise, source_id, file_id, ordinal columns and the source's zone)."""
    known = _count(con, "SELECT count(*) FROM (SELECT 1 FROM messages LIMIT 1)") > 0
    _stage(con, frames, _MESSAGES_STAGED.format(unless_partial=_UNLESS_PARTIAL if known else "", deduplicated=_LAST_WINS))
    loaded = _merge(con, "messages", "message_key", _columns(con, "messages"))
    names = pl.concat([f.select("source_type", "source_ref", "title", "zone").unique(maintain_order=True) for f in frames])
    con.register("incoming_names", names.to_arrow())
    con.execute("""
        INSERT OR REPLACE INTO names SELECT source_type, source_ref, coalesce(max(title), source_ref), max(zone) FROM incoming_names
        GROUP BY source_type, source_ref""")
    con.unregister("incoming_names")
    return loaded


def load_emails(con: duckdb.DuckDBPyConnection, frames: Sequence[pl.DataFrame]) -> Loaded:
    """Load frames of e-mail records, then thread anew: an answer may have come before what it answers."""
    _stage(con, frames, _EMAILS_STAGED)
    loaded = _merge(con, "emails", "email_key", _columns(con, "emails"))
    if loaded.new or loaded.updated:
        _rethread(con)
    return loaded


def load_events(con: duckdb.DuckDBPyConnection, frames: Sequence[pl.DataFrame], as_of: str) -> Loaded:
    """Load frames of calendar records; every event that is new or different leaves a row in `calendar_changes`.

    A change is dated by the event's own stamp where that is news, else by `as_of` (ISO instant): when it was first seen.
    """
    _stage(con, frames, _EVENTS_STAGED)
    loaded = _merge(con, "calendar_events", "event_key", _columns(con, "calendar_events"))
    con.execute(
        """
        INSERT INTO calendar_changes
        SELECT s.event_key, CASE WHEN s.changed_at <= ?::TIMESTAMPTZ AND (c.last_at IS NULL OR s.changed_at > c.last_at) THEN s.changed_at ELSE ?::TIMESTAMPTZ END
        FROM staged s JOIN (SELECT DISTINCT key FROM touched_calendar_events) t ON t.key = s.event_key
        LEFT JOIN (SELECT event_key, max(changed_at) AS last_at FROM calendar_changes GROUP BY ALL) c ON c.event_key = s.event_key
        WHERE s.speaks""",
        [as_of, as_of],
    )
    return loaded


def thread_roots(parents: dict[str, Sequence[str]]) -> dict[str, str]:
    """The thread of each mail: the root of its connected component of references, whatever the order of arrival.

    Args:
        parents: message id → ids it refers to, oldest first.

    Returns:
        message id → id of its thread: the one id of the component that refers to nothing; the smallest of them when there are several.
    """
    leader: dict[str, str] = {}

    def find(node: str) -> str:
        path = []
        while (up := leader.setdefault(node, node)) != node:
            path.append(node)
            node = up
        for passed in path:
            leader[passed] = node
        return node

    for mail, refs in parents.items():
        previous = mail
        for ref in refs:
            leader[find(previous)] = find(ref)
            previous = ref
        find(mail)
    roots: dict[str, str] = {}
    below = {mail for mail, refs in parents.items() if refs}
    # References lists run oldest first: every id after the first of a list has something above it, known mail or not.
    below |= {ref for refs in parents.values() for ref in refs[1:]}
    for node in leader:
        top = find(node)
        rank = (node in below, node)
        if top not in roots or rank < (roots[top] in below, roots[top]):
            roots[top] = node
    return {mail: roots[find(mail)] for mail in parents}


def _rethread(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute('SELECT email_key, source_ref, thread_id, "references" FROM emails').fetchall()
    roots = thread_roots({ref: refs for _, ref, _, refs in rows})
    moved = [(key, roots[ref]) for key, ref, thread, _ in rows if roots[ref] != thread]
    if moved:
        con.register("moved", pl.DataFrame(moved, schema={"email_key": pl.String, "thread_id": pl.String}, orient="row").to_arrow())
        con.execute(
            "CREATE OR REPLACE TEMP TABLE rethreaded AS SELECT e.* REPLACE (m.thread_id AS thread_id) FROM emails e JOIN moved m USING (email_key)"
        )
        con.unregister("moved")
        con.execute("INSERT OR REPLACE INTO emails SELECT * FROM rethreaded")
