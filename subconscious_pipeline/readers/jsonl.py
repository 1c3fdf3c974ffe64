"""One JSON object a line: the door for every source that has no reader of its own (documents, tickets, agent transcripts)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from subconscious_pipeline.instants import to_micros
from subconscious_pipeline.readers._json import excerpt, fault, repaired
from subconscious_pipeline.readers.base import Item, MessageRecord, Reader, ReadError, ReadOptions

_BOM = b"\xef\xbb\xbf"
_PEEK_LINES = 20
_REQUIRED = ("source_type", "source_ref", "at", "text")
_KEY = re.compile(rb'"(source_type|source_ref|at|text)"\s*:')
_MILLISECONDS_FROM = 1e11  # as seconds this would be the year 5138
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z
_LAST_MICROS = _LAST_SECOND * 1_000_000
_FIRST_MICROS = -62_135_596_800_000_000  # 0001-01-01T00:00:00Z

_Instant = str | int | float


class _Row(msgspec.Struct, gc=False):
    source_type: str
    source_ref: str
    text: str
    at: _Instant | None = None
    native_id: str | int | None = None
    author: str | None = None
    kind: str | None = None
    thread_id: str | int | None = None
    end_at: _Instant | None = None
    title: str | None = None


_decode = msgspec.json.Decoder(_Row).decode


class _Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


class JsonlReader:
    """Rows with `source_type`, `source_ref`, `at`, `text` and optional `native_id`, `author`, `kind`, `thread_id`, `end_at`, `title`."""

    name = "jsonl"

    def identify(self, path: Path, head: bytes) -> bool:
        """Whether one of the first lines is a JSON object with at least two of the four required keys."""
        if path.is_dir():
            return False
        lines = head.removeprefix(_BOM).split(b"\n")
        cut_off = lines.pop() if len(head) >= 65_536 else b""
        filled = [line for line in lines if line.strip()][:_PEEK_LINES]
        if not filled:
            return cut_off.lstrip().startswith(b"{") and len(set(_KEY.findall(cut_off))) >= 2
        return any(_looks_right(line) for line in filled)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Every row; a line that is no such row is quarantined with its number. Blank lines are not input."""
        assumed = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(_BOM)
                if not line.strip():
                    continue
                try:
                    record = _record(_parse(line), options)
                except _Refused as refusal:
                    yield ReadError(f"line {number}", refusal.code, refusal.message, excerpt(line))
                    continue
                if record.tz_source == "floating":
                    assumed += 1
                yield record
        if assumed:
            message = f"{assumed} times carry no zone and were read as {options.zone.key}; set timezone for this source in sources.yaml"
            yield ReadError("file", "zone_assumed", message, warning=True)


def _looks_right(line: bytes) -> bool:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return isinstance(value, dict) and sum(key in value for key in _REQUIRED) >= 2


def _parse(line: bytes) -> _Row:
    try:
        return _decode(line)
    except msgspec.ValidationError as error:
        raise _Refused(*fault(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Refused("invalid_utf8", f"is not UTF-8 (byte {error.start + 1}); save the file as UTF-8") from None
    again = repaired(line)
    if again is None:
        raise _Refused("bad_json", "is not one JSON object a line; it may be cut off")
    try:
        return _decode(again)
    except msgspec.ValidationError as error:
        raise _Refused(*fault(error)) from None


def _record(row: _Row, options: ReadOptions) -> MessageRecord:
    if not row.source_type or not row.source_ref:
        raise _Refused("empty_field", "source_type and source_ref must not be empty")
    if row.at is None or row.at == "":
        raise _Refused("undated", "has no `at`; nothing is ever dated by guess")
    sent_at, tz_source = _instant(row.at, "at", options)
    end_at = None if row.end_at is None or row.end_at == "" else _instant(row.end_at, "end_at", options)[0]
    native_id, thread_id, text = row.native_id, row.thread_id, row.text
    return MessageRecord(
        source_ref=row.source_ref,
        sent_at=sent_at,
        text=text.replace("\0", "") if "\0" in text else text,
        native_id=native_id if native_id is None or type(native_id) is str else str(native_id),
        thread_id=thread_id if thread_id is None or type(thread_id) is str else str(thread_id),
        author=row.author,
        kind=row.kind or "text",
        tz_source=tz_source,
        end_at=end_at,
        title=row.title,
        source_type=row.source_type,
    )


def _instant(value: _Instant, field: str, options: ReadOptions) -> tuple[int, str]:
    """Microseconds since the epoch and tz_source of ISO 8601 text, unix seconds, or unix milliseconds above 1e11."""
    tz_source = "explicit"
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            raise _Refused("undated", f"`{field}` is no ISO 8601 time and no unix time") from None
        if at.tzinfo is None:
            at, tz_source = at.replace(tzinfo=options.zone), options.naive_tz_source
        micros = to_micros(at)
    else:
        micros, tz_source = round(value * (1_000 if abs(value) > _MILLISECONDS_FROM else 1_000_000)), "unixtime"
    if not _FIRST_MICROS <= micros <= _LAST_MICROS:
        raise _Refused("undated", f"`{field}` is outside the years 1 to 9999")
    return micros, tz_source


READER: Reader = JsonlReader()
