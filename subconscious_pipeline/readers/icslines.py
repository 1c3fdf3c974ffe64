"""The raw side of iCalendar: bytes -> unfolded lines with numbers -> calendars and event blocks. One bad line costs only itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from subconscious_pipeline.readers.base import EXCERPT_CHARS, ReadError
from subconscious_pipeline.readers.mailheader import decode_bytes

BEGIN = re.compile(rb"^[ \t]*BEGIN:VCALENDAR[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
DATE_PROPERTIES = frozenset(("DTSTART", "DTEND", "EXDATE", "RDATE", "RECURRENCE-ID", "DTSTAMP", "CREATED", "LAST-MODIFIED"))
_WANTED = DATE_PROPERTIES | frozenset(
    ("UID", "SUMMARY", "DESCRIPTION", "LOCATION", "STATUS", "SEQUENCE", "DURATION", "RRULE", "ORGANIZER", "ATTENDEE")
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9-]+")
_QUOTED_HEAD = re.compile(r"^((?:[^\":]|\"[^\"]*\")*):(.*)$", re.DOTALL)
_PARAM = re.compile(r";\s*([A-Za-z0-9-]+)=(\"[^\"]*\"|[^;\"]*)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Property(NamedTuple):
    """One content line: its parameters (uppercase names, no quotes) and its raw value."""

    params: dict[str, str]
    value: str

    @property
    def text(self) -> str:
        """The value as TEXT, escapes resolved."""
        return unescape(self.value)


@dataclass
class Calendar:
    """What one VCALENDAR says of all its events."""

    zone_name: str = ""  # X-WR-TIMEZONE
    method: str = ""
    zones: dict[str, str] = field(default_factory=dict)  # TZID -> source text of its VTIMEZONE


@dataclass
class Block:
    """One VEVENT: the line it begins on and its properties by uppercase name. Alarms are left out."""

    calendar: Calendar
    line: int
    properties: dict[str, list[Property]] = field(default_factory=dict)

    def first(self, name: str) -> Property | None:
        """The first property of that name."""
        found = self.properties.get(name)
        return found[0] if found else None

    def text(self, name: str) -> str:
        """The text of the first property of that name, or ""."""
        found = self.properties.get(name)
        return found[0].text.strip() if found else ""


@dataclass
class Parsed:
    """Everything of a file."""

    blocks: list[Block] = field(default_factory=list)
    errors: list[ReadError] = field(default_factory=list)
    ignored: int = 0  # to-dos, journals, free/busy


def unescape(text: str) -> str:
    r"""TEXT with ``\n``, ``\,``, ``\;`` and ``\\`` resolved (RFC 5545, 3.3.11)."""
    return _ESCAPE.sub(lambda match: "\n" if match.group(1) in "nN" else match.group(1), text) if "\\" in text else text


def parse_line(line: str) -> tuple[str, Property] | None:
    """(uppercase name, property) of a content line, or None when it is none."""
    head, colon, value = line.partition(":")
    if '"' in head and head.count('"') % 2:
        match = _QUOTED_HEAD.match(line)
        if not match:
            return None
        head, value = match.groups()
    elif not colon:
        return None
    name, _, _ = head.partition(";")
    name = name.strip().upper()
    if not _NAME.fullmatch(name):
        return None
    if name in DATE_PROPERTIES and ":" in value:  # an unquoted display name such as (UTC-05:00) holds a colon; a date never does
        head, _, value = line.rpartition(":")
    params = {key.upper(): text.strip('"') for key, text in _PARAM.findall(head)} if ";" in head else {}
    return name, Property(params, value)


def logical_lines(data: bytes, number: int) -> Iterator[tuple[int, str]]:
    """(line number, unfolded text). Unfolds bytes before decoding: old writers fold inside a UTF-8 character."""
    current: list[bytes] = []
    began = number
    for raw in data.split(b"\n"):
        line = raw.removesuffix(b"\r")
        if line[:1] in (b" ", b"\t") and current:
            current.append(line[1:])
        else:
            if current:
                yield began, _decode(current)
            current, began = [line], number
        number += 1
    if current:
        yield began, _decode(current)


def _decode(pieces: list[bytes]) -> str:
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return data.decode("ascii") if data.isascii() else decode_bytes(data, "utf-8")


def parse_file(data: bytes) -> Parsed | None:
    """Calendars and events of a file, with what was set aside; None when no line says BEGIN:VCALENDAR.

    What stands before the first calendar (a comment, a byte order mark) is skipped; calendars may follow one another.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    start = BEGIN.search(data)
    if not start:
        return None
    walk = _Walk()
    for number, line in logical_lines(data[start.start() :].lstrip(b" \t"), data.count(b"\n", 0, start.start()) + 1):
        walk.take(number, line)
    walk.end()
    return walk.parsed


class _Walk:
    """The state of one pass over the lines."""

    def __init__(self) -> None:
        self.parsed = Parsed()
        self.calendar: Calendar | None = None
        self.component = ""  # the component directly inside the calendar
        self.depth = 0  # of components nested in it
        self.block: Block | None = None
        self.source: list[str] = []  # of a VTIMEZONE
        self.began = 0

    def take(self, number: int, line: str) -> None:
        """One logical line."""
        upper = line[:6].upper()
        if upper == "BEGIN:":
            self._begin(number, line[6:].strip().upper())
        if self.component == "VTIMEZONE":
            self.source.append(line)
        if upper[:4] == "END:":
            self._end(number, line[4:].strip().upper())
        elif upper != "BEGIN:" and self.component != "VTIMEZONE" and line.strip():
            self._property(number, line)

    def _property(self, number: int, line: str) -> None:
        if self.block is not None and not self.depth:
            colon, semicolon = line.find(":"), line.find(";")
            end = min(colon, semicolon) if colon >= 0 and semicolon >= 0 else max(colon, semicolon)
            name = line[:end].upper() if end > 0 else ""
            if name and name not in _WANTED and colon > 0 and _NAME.fullmatch(name):
                return
        parsed = parse_line(line)
        if parsed is None or self.calendar is None:
            self.parsed.errors.append(ReadError(f"line {number}", "bad_line", "not a line of a calendar; skipped", line[:EXCERPT_CHARS]))
            return
        name, value = parsed
        if self.block is not None and not self.depth:
            self.block.properties.setdefault(name, []).append(value)
        elif not self.component:
            if name == "X-WR-TIMEZONE":
                self.calendar.zone_name = value.text.strip()
            elif name == "METHOD":
                self.calendar.method = value.value.strip().upper()

    def _begin(self, number: int, name: str) -> None:
        if name == "VCALENDAR":
            self._abandon()
            self.calendar = Calendar()
            return
        if self.calendar is None:
            self.calendar = Calendar()
        if self.component and name in ("VEVENT", "VTODO", "VJOURNAL", "VTIMEZONE", "VFREEBUSY"):
            self._abandon()
        if self.component:
            self.depth += 1
            return
        self.component, self.began = name, number
        if name == "VEVENT":
            self.block = Block(self.calendar, number)

    def _end(self, number: int, name: str) -> None:
        if name == "VCALENDAR":
            self._abandon()
            self.calendar = None
        elif name == self.component:
            self._close()
        elif self.depth:
            self.depth -= 1
        else:
            self.parsed.errors.append(ReadError(f"line {number}", "bad_line", "an END without its BEGIN; skipped", ""))

    def _close(self) -> None:
        if self.block is not None:
            self.parsed.blocks.append(self.block)
        elif self.component == "VTIMEZONE" and self.calendar is not None:
            text = "\r\n".join([*self.source, ""])
            for line in self.source:
                if line.upper().startswith("TZID") and (parsed := parse_line(line)):
                    self.calendar.zones[parsed[1].value.strip()] = text
        elif self.component in ("VTODO", "VJOURNAL", "VFREEBUSY"):
            self.parsed.ignored += 1
        self._reset()

    def _reset(self) -> None:
        self.component, self.depth, self.block, self.source = "", 0, None, []

    def _abandon(self) -> None:
        """A component that never ended: an event is set aside, anything else is dropped."""
        if self.block is not None:
            self.parsed.errors.append(ReadError(f"line {self.began}", "broken_component", "the event that begins here never ends; set aside"))
        self._reset()

    def end(self) -> None:
        """The end of the file."""
        self._abandon()
