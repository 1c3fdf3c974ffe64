"""Reading the warehouse: the transcript of a window, the raw rows behind a pointer, and what the ledger says of files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import duckdb

from subconscious_pipeline.instants import Window
from subconscious_pipeline.warehouse.transcript import Conversation, Line, Transcript
from subconscious_pipeline.warehouse.windows import window_inputs

_WINDOW_MESSAGES = """
    SELECT m.source_type, m.source_ref, coalesce(n.title, m.source_ref) AS title, coalesce(n.zone, 'UTC') AS zone, m.message_key::VARCHAR AS key,
           m.sent_at AS at, coalesce(m.end_at, m.sent_at) AS ends, coalesce(m.author, m.author_id, '?') AS author, m.text AS text
    FROM messages m LEFT JOIN names n ON n.source_type = m.source_type AND n.source_ref = m.source_ref
    WHERE m.sent_at >= $start AND m.sent_at < $end AND len(m.noise) = 0
    ORDER BY min(m.sent_at) OVER (PARTITION BY m.source_type, m.source_ref), m.source_type, m.source_ref, m.sent_at, m.ordinal, m.message_key
"""
_WINDOW_EMAILS = """
    SELECT thread_id, source_ref, email_key::VARCHAR AS key, sent_at AS at, CASE WHEN from_name <> '' THEN from_name ELSE from_addr END AS author,
           subject, body_new, zone
    FROM emails WHERE sent_at >= $start AND sent_at < $end AND len(noise) = 0
    ORDER BY min(sent_at) OVER (PARTITION BY thread_id), thread_id, sent_at, email_key
"""
_WINDOW_EVENTS = """
    SELECT DISTINCT e.source_ref, e.event_key::VARCHAR AS key, e.start_at AS at, e.end_at AS ends, e.all_day, e.start_date, e.end_date, e.tz_name,
           e.organizer, e.summary, e.location, e.description, e.rrule
    FROM calendar_events e LEFT JOIN calendar_changes c USING (event_key)
    WHERE e.speaks AND len(e.noise) = 0
      AND ((e.start_at >= $start AND e.start_at < $end) OR (c.changed_at >= $start AND c.changed_at < $end))
    ORDER BY e.start_at, e.source_ref
"""


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def _in_zone(at: datetime, zone: ZoneInfo) -> datetime:
    try:
        return at.astimezone(zone)
    except OverflowError:  # within a day of the years 1 and 9999, which some programs write for "always"
        return at


def _local(at: datetime, zone: ZoneInfo) -> str:
    local = _in_zone(at, zone)
    offset = local.strftime("%z")
    return f"{local:%Y-%m-%d %a %H:%M} {offset[:3]}:{offset[3:5]}"


def _one_paragraph(text: str) -> str:
    return " ".join(text.split())


def _rows(con: duckdb.DuckDBPyConnection, query: str, window: Window) -> Iterable[dict[str, Any]]:
    cursor = con.execute(query, {"start": window.start, "end": window.end})
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def transcript(con: duckdb.DuckDBPyConnection, window: Window) -> Transcript:
    """Everything of a window that is not noise, grouped into conversations and numbered.

    Chats come first, then e-mail threads, then calendar events; inside each, what began first comes first.
    """
    number = 0
    grouped: dict[tuple[str, str, str], list[Line]] = {}

    def add(group: tuple[str, str, str], **line: Any) -> None:
        nonlocal number
        number += 1
        grouped.setdefault(group, []).append(Line(n=number, **{**line, "author": _one_paragraph(line["author"])}))

    for row in _rows(con, _WINDOW_MESSAGES, window):
        zone = _zone(row["zone"])
        add(
            (row["source_type"], row["source_ref"], row["title"]),
            key=row["key"], source_type=row["source_type"], source_ref=row["source_ref"], at=row["at"], ends=row["ends"],
            local=_local(row["at"], zone), last_date=_in_zone(row["ends"], zone).date(), author=row["author"], text=_one_paragraph(row["text"]),
        )  # fmt: skip
    for row in _rows(con, _WINDOW_EMAILS, window):
        zone = _zone(row["zone"])
        add(
            ("email", row["thread_id"], ""),
            key=row["key"], source_type="email", source_ref=row["source_ref"], at=row["at"], ends=row["at"],
            local=_local(row["at"], zone), last_date=_in_zone(row["at"], zone).date(), author=row["author"],
            text=_one_paragraph(f"Subject: {row['subject']}. {row['body_new']}"),
        )  # fmt: skip
    for row in _rows(con, _WINDOW_EVENTS, window):
        zone = _zone(row["tz_name"] or "UTC")
        local = f"{row['start_date']:%Y-%m-%d %a} all day" if row["all_day"] else _local(row["at"], zone)
        last: date = row["end_date"]
        add(
            ("calendar", row["source_ref"], ""),
            key=row["key"], source_type="calendar", source_ref=row["source_ref"], at=row["at"], ends=row["ends"],
            local=local, last_date=last, author=row["organizer"] or "calendar",
            text=_one_paragraph(" ".join(filter(None, [row["summary"], f"({row['location']})" if row["location"] else "", row["description"],
                                                       "(repeats)" if row["rrule"] else ""]))),
        )  # fmt: skip
    conversations = tuple(
        Conversation(kind, _one_paragraph(title) or _title(lines[0]), tuple(lines)) for (kind, _ref, title), lines in grouped.items()
    )
    found = window_inputs(con, window.start, window.start)
    return Transcript(window, conversations, found[0].input_hash if found else "")


def _title(line: Line) -> str:
    return line.author if line.source_type == "email" else "event"


@dataclass(frozen=True)
class RawItem:
    """One raw row behind a pointer."""

    at: datetime | None  # aware UTC
    author: str
    text: str
    source_type: str
    source_ref: str
    native_id: str


_POINTER = """
    SELECT sent_at AS moment, coalesce(author, author_id, ''), text, source_type, source_ref, coalesce(native_id, ''), ordinal FROM messages
    WHERE source_type = $type AND source_ref = $ref AND sent_at >= coalesce($from, sent_at) AND sent_at <= coalesce($to, sent_at)
    UNION ALL
    SELECT sent_at, CASE WHEN from_name <> '' THEN from_name || ' <' || from_addr || '>' ELSE from_addr END,
           'Subject: ' || subject || chr(10) || chr(10) || body_full, source_type, source_ref, source_ref, 0
    FROM emails WHERE $type = 'email' AND (source_ref = $ref OR thread_id = $ref)
      AND coalesce(sent_at >= $from, true) AND coalesce(sent_at <= $to, true)
    UNION ALL
    SELECT start_at, organizer,
           summary || CASE WHEN location <> '' THEN chr(10) || location ELSE '' END
           || CASE WHEN description <> '' THEN chr(10) || description ELSE '' END
           || chr(10) || 'from ' || CASE WHEN all_day THEN start_date || ' to ' || end_date
                                         ELSE strftime(start_at, '%Y-%m-%dT%H:%MZ') || ' to ' || strftime(end_at, '%Y-%m-%dT%H:%MZ') END
           || CASE WHEN status <> 'confirmed' THEN ' (' || status || ')' ELSE '' END,
           source_type, source_ref, source_ref, 0
    FROM calendar_events WHERE $type = 'calendar' AND (source_ref = $ref OR series = $ref)
      AND start_at <= coalesce($to, start_at) AND end_at >= coalesce($from, end_at)
    ORDER BY moment, ordinal
"""


def read_pointer(
    con: duckdb.DuckDBPyConnection, source_type: str, source_ref: str, time_from: datetime | None = None, time_to: datetime | None = None
) -> list[RawItem]:
    """The raw rows of a pointer, oldest first; both ends of the time range are included. A mail's thread or an event's series id work too."""
    rows = con.execute(_POINTER, {"type": source_type, "ref": source_ref, "from": time_from, "to": time_to}).fetchall()
    return [RawItem(*row[:6]) for row in rows]


def knows_ref(con: duckdb.DuckDBPyConnection, source_type: str, source_ref: str) -> bool:
    """Whether any row at all lies behind this type and ref, at whatever time."""
    return bool(read_pointer(con, source_type, source_ref))


@dataclass(frozen=True)
class SourceFacts:
    """What the ledger says of one source."""

    source_id: str
    reader: str
    rows: int
    errors: int


@dataclass(frozen=True)
class FileError:
    """One quarantined item or file, as `status` shows it (no excerpt: that stays in the warehouse)."""

    source_id: str
    path: str
    locator: str
    code: str
    message: str
    warning: bool


def source_facts(con: duckdb.DuckDBPyConnection) -> list[SourceFacts]:
    """Rows and errors per source."""
    rows = con.execute("""
        SELECT source_id, string_agg(DISTINCT reader, ', ' ORDER BY reader) FILTER (reader <> ''), sum(rows)::BIGINT, sum(errors)::BIGINT
        FROM ingested_files GROUP BY source_id ORDER BY source_id""").fetchall()
    return [SourceFacts(source_id, reader or "", count, errors) for source_id, reader, count, errors in rows]


def file_errors(con: duckdb.DuckDBPyConnection, limit: int = 1_000) -> list[FileError]:
    """What was set aside, by file and place."""
    rows = con.execute(
        """
        SELECT f.source_id, f.path, e.locator, e.code, e.message, e.warning FROM ingest_errors e JOIN ingested_files f USING (file_id)
        ORDER BY e.warning, f.path, e.locator LIMIT ?""",
        [limit],
    ).fetchall()
    return [FileError(*row) for row in rows]


def sources_down(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Ids of sources whose file was missing or unreadable when last tried."""
    rows = con.execute("""
        SELECT DISTINCT f.source_id FROM ingest_errors e JOIN ingested_files f USING (file_id)
        WHERE e.code IN ('missing', 'unreadable') AND e.locator = 'file' ORDER BY 1""").fetchall()
    return [row[0] for row in rows]


def doubled_rows(con: duckdb.DuckDBPyConnection) -> int:
    """How many rows share their key with another: always 0."""
    row = con.execute("""
        SELECT (SELECT count(*) - count(DISTINCT message_key) FROM messages) + (SELECT count(*) - count(DISTINCT email_key) FROM emails)
             + (SELECT count(*) - count(DISTINCT event_key) FROM calendar_events)""").fetchone()
    return int(row[0]) if row else 0
