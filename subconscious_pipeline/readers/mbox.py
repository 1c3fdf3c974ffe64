"""mbox files: a streaming splitter over bytes, one message in memory at a time. Parsing is `mail`'s."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.readers.base import EXCERPT_CHARS, Item, ReadError, ReadOptions
from subconscious_pipeline.readers.mail import read_mail

# "From " + sender token + date. The date is asctime, with an offset or zone before or after the year, or RFC 5322, or ISO 8601.
_TIME = rb"\d{1,2}:\d\d(?::\d\d)?"
_SEPARATOR = re.compile(
    rb"^From \S+ +(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +"
    rb"(?:[A-Z][a-z]{2} +\d{1,2} +" + _TIME + rb" (?:[-+A-Za-z0-9]{1,6} +){0,2}\d{4}\b|\d{1,2} +[A-Z][a-z]{2} +\d{4} +" + _TIME + rb")"
    rb"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d)[^\r\n]{0,60}\r?\n?$"
)
_HEADER = re.compile(rb"^(?:[!-9;-~]+[ \t]*:|>From )")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_BLANK = (b"\n", b"\r\n")


class Chunk(NamedTuple):
    """One message of an mbox file, or what stands before the first separator (`from_line` None)."""

    offset: int  # bytes from the start of the file
    from_line: bytes | None
    raw: bytes  # everything after the separator, mbox quoting still in it


def split_mbox(lines: Iterable[bytes]) -> Iterator[Chunk]:
    """Messages of an mbox file given as lines.

    A separator stands at the start of the file or after a blank line, names a sender and a date, and is followed by a header line:
    a sentence of a body that begins with "From " splits nothing.
    """
    offset = start = 0
    from_line: bytes | None = None
    collected: list[bytes] = []
    candidate: bytes | None = None
    after_blank = True
    for line in lines:
        if candidate is not None:
            if _HEADER.match(line):
                if collected or from_line is not None:
                    yield Chunk(start, from_line, b"".join(collected))
                start, from_line, collected = offset - len(candidate), candidate, []
            else:
                collected.append(candidate)
            candidate = None
        if after_blank and line.startswith(b"From ") and _SEPARATOR.match(line):
            candidate = line
            after_blank = False
        else:
            collected.append(line)
            after_blank = line in _BLANK
        offset += len(line)
    if candidate is not None:
        collected.append(candidate)
    if collected or from_line is not None:
        yield Chunk(start, from_line, b"".join(collected))


class MboxReader:
    """mbox in its mboxo and mboxrd forms, and the mbox of Google Takeout."""

    name = "mbox"

    def identify(self, path: Path, head: bytes) -> bool:
        """Whether the first line that is not blank is a separator with a header line after it."""
        if path.is_dir():
            return False
        first, _, rest = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").partition(b"\n")
        return _SEPARATOR.match(first + b"\n") is not None and _HEADER.match(rest) is not None

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Every message as an EmailRecord or a ReadError located by ordinal (from 1) and byte offset.

        Raises:
            SourceError: when the file cannot be opened, is empty, or holds no separator at all.
        """
        try:
            stream = path.open("rb", buffering=1 << 20)
        except OSError as error:
            raise SourceError(path, "unreadable", f"cannot be opened ({error.strerror}); check its permissions") from error
        ordinal = 0
        with stream:
            if stream.read(3) != b"\xef\xbb\xbf":
                stream.seek(0)
            base = stream.tell()
            for chunk in split_mbox(stream):
                if chunk.from_line is None:
                    if chunk.raw.strip():
                        excerpt = chunk.raw[:EXCERPT_CHARS].decode("utf-8", "replace")
                        yield ReadError(f"byte {base + chunk.offset}", "no_separator", "text before the first message of the file", excerpt)
                    continue
                ordinal += 1
                raw = _QUOTED_FROM.sub(rb"\1", chunk.raw) if b">From " in chunk.raw else chunk.raw
                locator = f"message {ordinal}, byte {base + chunk.offset}"
                yield read_mail(raw, options.own_addresses, locator, chunk.from_line.decode("ascii", "replace"))
        if not ordinal:
            raise SourceError(path, "no_messages", "no mbox separator (`From sender date`) found; is this another format?")


READER = MboxReader()
