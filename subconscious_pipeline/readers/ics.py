"""iCalendar files and feeds. Bad lines and broken events cost only themselves; series are expanded here, not by a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.readers.base import Item, ReadError, ReadOptions
from subconscious_pipeline.readers.icsevents import EventReader
from subconscious_pipeline.readers.icslines import BEGIN, parse_file

_MAIL = re.compile(rb"^\s*(?:From \S|[!-9;-~]+[ \t]*:[ \t])")
_PAGE = re.compile(rb"^\s*<(?:!doctype html|html|head|\?xml|!--)", re.IGNORECASE)
_LONGEST_PREAMBLE = 8_192


class IcsReader:
    """One or more VCALENDARs in a file."""

    name = "ics"

    def identify(self, path: Path, head: bytes) -> bool:
        """Whether a calendar begins near the top (a mail that carries one is none), or a .ics file holds a web page instead."""
        if path.is_dir():
            return False
        text = head.decode("utf-16", "ignore").encode() if head[:2] in (b"\xff\xfe", b"\xfe\xff") else head.removeprefix(b"\xef\xbb\xbf")
        if b"\n" not in text:
            text = text.replace(b"\r", b"\n")
        begin = BEGIN.search(text)
        if begin is None:
            return path.suffix.lower() in (".ics", ".ical") and _PAGE.match(text) is not None
        return begin.start() <= _LONGEST_PREAMBLE and (begin.start() == 0 or not _MAIL.match(text))

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Every event and every occurrence up to the horizon; errors are located by line.

        Raises:
            SourceError: when the file cannot be read, or is not a calendar (a login page instead of a feed).
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SourceError(path, "unreadable", f"cannot be opened ({error.strerror}); check its permissions") from error
        parsed = parse_file(data)
        if parsed is None:
            what = "it is a web page; does the feed need a login?" if _PAGE.match(data) else "no BEGIN:VCALENDAR found"
            raise SourceError(path, "not_a_calendar", f"not a calendar: {what}")
        yield from parsed.errors
        yield from EventReader(options).read(parsed.blocks)
        if parsed.ignored:
            yield ReadError("file", "not_events", f"{parsed.ignored} to-dos, journals or free/busy entries were ignored", warning=True)


READER = IcsReader()
