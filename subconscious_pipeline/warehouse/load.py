"""From record frames into the warehouse tables, in bulk: new rows in, edits in place, nothing twice.

Every load notes the instants of what it touched in the temporary table `touched`, from which `windows.refresh` goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import duckdb
import polars as pl

from subconscious_pipeline.warehouse.threads import rethread

_SAME_NAMED = ["source_type", "source_ref", "native_id"]
_SAME_MOMENT = ["source_type", "source_ref", "sent_at", "author"]
_MESSAGE_HASH = "md5_number(concat_ws(chr(31), kind, coalesce(author_id, author), epoch_us(sent_at), text))"

# A row's identity. Sources without ids of their own (WhatsApp) are numbered within one author's messages of one instant, so
# that a longer re-export gives every old row its old key and an edit changes the row it edits.
_MESSAGES_STAGED = f"""
CREATE OR REPLACE TEMP VIEW staged AS
SELECT md5_number(concat_ws(chr(31), source_type, source_ref,
                     coalesce('i' || native_id, concat_ws(chr(30), epoch_us(sent_at), author, nth)))) AS message_key,
       source_id, source_type, source_ref, native_id, thread_id, author, author_id, is_bot, kind, text, sent_at, end_at, tz_source,
       edited_at, ordinal, noise, {_MESSAGE_HASH} AS content_hash, file_id
FROM {{incoming}}
"""

# An export that starts in the middle of a minute, or has lost a row of it, numbers that minute's rows differently. There what is known
# stands, and only rows of a content not seen before are added after it.
_PLACED = f"""
CREATE OR REPLACE TEMP TABLE placed AS
WITH offered AS (
        SELECT source_type, source_ref, sent_at, count(*) AS rows, sent_at = min(sent_at) OVER (PARTITION BY source_type, source_ref) AS first
        FROM incoming WHERE native_id IS NULL GROUP BY source_type, source_ref, sent_at),
     known AS (
        SELECT m.source_type, m.source_ref, m.sent_at, m.author, m.content_hash,
               row_number() OVER (PARTITION BY m.source_type, m.source_ref, m.content_hash ORDER BY m.ordinal, m.message_key) AS copy
        FROM messages m SEMI JOIN offered USING (source_type, source_ref, sent_at) WHERE m.native_id IS NULL),
     partial AS (
        SELECT o.source_type, o.source_ref, o.sent_at FROM offered o
        JOIN (SELECT source_type, source_ref, sent_at, count(*) AS rows FROM known GROUP BY ALL) k USING (source_type, source_ref, sent_at)
        WHERE o.first OR k.rows > o.rows),
     copies AS (
        SELECT i.*, {_MESSAGE_HASH} AS content_hash,
               row_number() OVER (PARTITION BY i.source_type, i.source_ref, {_MESSAGE_HASH} ORDER BY i.ordinal) AS copy
        FROM incoming i SEMI JOIN partial USING (source_type, source_ref, sent_at) WHERE i.native_id IS NULL),
     unseen AS (SELECT c.* FROM copies c ANTI JOIN known USING (source_type, source_ref, content_hash, copy)),
     counted AS (SELECT source_type, source_ref, sent_at, author, count(*) AS rows FROM known GROUP BY ALL)
SELECT i.* FROM incoming i LEFT JOIN partial p USING (source_type, source_ref, sent_at) WHERE i.native_id IS NOT NULL OR p.sent_at IS NULL
UNION ALL BY NAME
SELECT u.* EXCLUDE (content_hash, copy) REPLACE (
    coalesce(c.rows, 0) + row_number() OVER (PARTITION BY u.source_type, u.source_ref, u.sent_at, u.author ORDER BY u.ordinal) AS nth)
FROM unseen u LEFT JOIN counted c
  ON c.source_type = u.source_type AND c.source_ref = u.source_ref AND c.sent_at = u.sent_at AND c.author IS NOT DISTINCT FROM u.author
"""

_EMAILS_STAGED = """
CREATE OR REPLACE TEMP VIEW staged AS
SELECT md5_number(source_ref) AS email_key, source_id, 'email' AS source_type, source_ref, source_ref AS thread_id, from_name, from_addr, "to", subject,
       sent_at, date_source, body_full, body_new, kind, "references", labels, zone, noise,
       md5_number(concat_ws(chr(31), from_addr, subject, body_full, epoch_us(sent_at))) AS content_hash, file_id
FROM incoming
"""

_EVENTS_STAGED = """
CREATE OR REPLACE TEMP VIEW staged AS
SELECT md5_number(source_ref) AS event_key, source_id, 'calendar' AS source_type, source_ref, series, summary, description, location, organizer, attendees,
       start_at, end_at, all_day, start_date::DATE AS start_date, end_date::DATE AS end_date, tz_name, tz_source, rrule, status,
       rrule IS NULL OR start_at = min(start_at) OVER (PARTITION BY series, rrule IS NULL) AS speaks, noise,
       md5_number(concat_ws(chr(31), summary, description, location, organizer, array_to_string(attendees, ','), epoch_us(start_at), epoch_us(end_at),
                     all_day, rrule, status)) AS content_hash, file_id, changed_at
FROM incoming
"""

_MOMENTS = {"messages": "sent_at", "emails": "sent_at", "calendar_events": "start_at"}
_KEYS = {"messages": "message_key", "emails": "email_key", "calendar_events": "event_key"}


@dataclass(frozen=True)
class Loaded:
    """What one load changed."""

    new: int
    updated: int


def begin(con: duckdb.DuckDBPyConnection) -> None:
    """To be called before the first load of a transaction: nothing is touched yet."""
    # Appending in order is one thread's work; a second one only contends with it (a tenth of a load's time on two cores).
    con.execute("SET threads=1; CREATE OR REPLACE TEMP TABLE touched (moment TIMESTAMPTZ)")


@contextmanager
def _staged(con: duckdb.DuckDBPyConnection, incoming: pl.DataFrame, *statements: str) -> Iterator[None]:
    """Offer a frame as `incoming`, and what the statements make of it as the view `staged`: content is not copied on its way."""
    con.register("incoming", incoming.to_arrow())
    try:
        for statement in statements:
            con.execute(statement)
        yield
    finally:
        con.unregister("incoming")


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    return int(row[0]) if row else 0


def _holds(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    return _count(con, f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1)") > 0


def _merge(con: duckdb.DuckDBPyConnection, table: str) -> Loaded:
    """Insert staged rows whose key is new, overwrite those whose content differs. Their keys are left in `fresh` and `changed`."""
    key, moment = _KEYS[table], _MOMENTS[table]
    columns = con.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]).fetchall()
    named = ", ".join(f'"{column}"' for (column,) in columns)
    if not _holds(con, table):
        con.execute("CREATE OR REPLACE TEMP TABLE changed AS SELECT * FROM staged LIMIT 0")
        con.execute("CREATE OR REPLACE TEMP VIEW fresh AS FROM staged")
    else:
        con.execute(f"""
            CREATE OR REPLACE TEMP TABLE compared AS SELECT s.{key}, t.{moment} AS former, t.{key} IS NULL AS unknown
            FROM staged s LEFT JOIN {table} t USING ({key}) WHERE t.{key} IS NULL OR s.content_hash <> t.content_hash""")
        con.execute(f"CREATE OR REPLACE TEMP TABLE changed AS SELECT s.* FROM staged s SEMI JOIN (FROM compared WHERE NOT unknown) USING ({key})")
        con.execute(f"CREATE OR REPLACE TEMP VIEW fresh AS SELECT s.* FROM staged s SEMI JOIN (FROM compared WHERE unknown) USING ({key})")
        # What moves in time leaves the window it was in: that one has to be seen anew too.
        con.execute("INSERT INTO touched SELECT former FROM compared WHERE NOT unknown")
    counts = Loaded(_count(con, "SELECT count(*) FROM fresh"), _count(con, "SELECT count(*) FROM changed"))
    if counts.updated:
        con.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM changed)")
        con.execute(f"INSERT INTO {table} ({named}) SELECT {named} FROM changed")
    if counts.new:
        con.execute(f"INSERT INTO {table} ({named}) SELECT {named} FROM fresh")
    con.execute(f"INSERT INTO touched SELECT {moment} FROM fresh UNION ALL SELECT {moment} FROM changed")
    return counts


def _rounds(frames: Sequence[pl.DataFrame]) -> Iterator[list[pl.DataFrame]]:
    """Frames that may be loaded together: files that tell the same conversation without ids have to come one after another."""
    current: list[pl.DataFrame] = []
    owners: dict[tuple[str, str], str] = {}
    for frame in frames:
        told = {
            (row[0], row[1]): row[2]
            for row in frame.filter(pl.col("native_id").is_null()).select("source_type", "source_ref", "file_id").unique().rows()
        }
        if any(owners.get(conversation, file) != file for conversation, file in told.items()):
            yield current
            current, owners = [], {}
        current.append(frame)
        owners |= told
    if current:
        yield current


def _numbered(incoming: pl.DataFrame) -> pl.DataFrame:
    """One row an id, the last one standing; rows without id numbered (`nth`) within author and instant."""
    named = incoming.filter(pl.col("native_id").is_not_null()).unique(_SAME_NAMED, keep="last", maintain_order=True)
    nth = pl.lit(None, pl.Int64).alias("nth")
    if len(named) == len(incoming):
        return named.with_columns(nth)
    unnamed = incoming.filter(pl.col("native_id").is_null())
    numbered = unnamed.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_SAME_MOMENT).alias("nth"))
    return pl.concat([named.with_columns(nth), numbered]) if len(named) else numbered


def load_messages(con: duckdb.DuckDBPyConnection, frames: Sequence[pl.DataFrame]) -> Loaded:
    """Load frames of message records (with noise, source_id, file_id, ordinal columns and the source's zone), in order of their files."""
    new = updated = 0
    for together in _rounds(frames):
        incoming = _numbered(pl.concat(together))
        statements: tuple[str, ...]
        if incoming["nth"].null_count() < len(incoming) and _holds(con, "messages"):
            statements = (_PLACED, _MESSAGES_STAGED.format(incoming="placed"))
        else:
            statements = (_MESSAGES_STAGED.format(incoming="incoming"),)
        with _staged(con, incoming, *statements):
            loaded = _merge(con, "messages")
        new, updated = new + loaded.new, updated + loaded.updated
    _name(con, pl.concat([frame.select("source_type", "source_ref", "title", "zone").unique(maintain_order=True) for frame in frames]))
    return Loaded(new, updated)


def _name(con: duckdb.DuckDBPyConnection, names: pl.DataFrame) -> None:
    con.register("incoming_names", names.to_arrow())
    con.execute("""
        INSERT INTO names
        SELECT source_type, source_ref, coalesce(max(title), source_ref), max(zone) FROM incoming_names GROUP BY source_type, source_ref
        ON CONFLICT DO UPDATE SET zone = excluded.zone,
            title = CASE WHEN excluded.title = excluded.source_ref THEN names.title ELSE excluded.title END""")
    con.unregister("incoming_names")


def load_emails(con: duckdb.DuckDBPyConnection, frames: Sequence[pl.DataFrame]) -> Loaded:
    """Load frames of e-mail records, then thread anew: an answer may have come before what it answers."""
    with _staged(con, pl.concat(frames).unique("source_ref", keep="last", maintain_order=True), _EMAILS_STAGED):
        loaded = _merge(con, "emails")
    if loaded.new or loaded.updated:
        rethread(con)
    return loaded


def load_events(con: duckdb.DuckDBPyConnection, frames: Sequence[pl.DataFrame], as_of: datetime) -> Loaded:
    """Load frames of calendar records; every event that is new or different leaves a row in `calendar_changes`.

    A change is dated by the event's own stamp where that is news, else by `as_of` (aware): when it was first seen. Occurrences
    that a series no longer has are removed: a series that moved leaves no ghosts at its old times.
    """
    with _staged(con, pl.concat(frames).unique("source_ref", keep="last", maintain_order=True), _EVENTS_STAGED):
        _remove_vanished(con)
        loaded = _merge(con, "calendar_events")
        _note_changes(con, as_of)
    return loaded


def _remove_vanished(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""
        CREATE OR REPLACE TEMP TABLE vanished AS
        SELECT e.event_key, e.start_at FROM calendar_events e SEMI JOIN staged s ON s.series = e.series AND s.file_id = e.file_id
        ANTI JOIN staged k ON k.event_key = e.event_key""")
    con.execute(
        "INSERT INTO touched SELECT start_at FROM vanished UNION ALL SELECT changed_at FROM calendar_changes SEMI JOIN vanished USING (event_key)"
    )
    con.execute("DELETE FROM calendar_events WHERE event_key IN (SELECT event_key FROM vanished)")


def _note_changes(con: duckdb.DuckDBPyConnection, as_of: datetime) -> None:
    # An event that changes is told anew everywhere it has spoken before.
    con.execute("INSERT INTO touched SELECT changed_at FROM calendar_changes SEMI JOIN changed USING (event_key)")
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE spoken AS
        SELECT s.event_key,
               CASE WHEN s.changed_at <= $now AND (c.last_at IS NULL OR s.changed_at > c.last_at) THEN s.changed_at ELSE $now END AS changed_at
        FROM (SELECT event_key, changed_at, speaks FROM fresh UNION ALL SELECT event_key, changed_at, speaks FROM changed) s
        LEFT JOIN (SELECT event_key, max(changed_at) AS last_at FROM calendar_changes GROUP BY ALL) c ON c.event_key = s.event_key
        WHERE s.speaks""",
        {"now": as_of},
    )
    con.execute("INSERT INTO calendar_changes FROM spoken")
    con.execute("INSERT INTO touched SELECT changed_at FROM spoken")


def withdraw(con: duckdb.DuckDBPyConnection, file_ids: Sequence[str]) -> None:
    """Take out what files said at assumed times, because they are read again under another zone or date order.

    Rows with ids of their own are dated anew in place; the others would come twice.
    """
    if file_ids and _holds(con, "messages"):
        gone = "file_id IN (SELECT unnest(?)) AND native_id IS NULL AND tz_source IN ('floating', 'config')"
        con.execute(f"INSERT INTO touched SELECT sent_at FROM messages WHERE {gone}", [list(file_ids)])
        con.execute(f"DELETE FROM messages WHERE {gone}", [list(file_ids)])
