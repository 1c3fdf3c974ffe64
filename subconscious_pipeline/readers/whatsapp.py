"""WhatsApp's exported chats: the text file, or the zip that holds it. Media files are not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, cast

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.readers._archive import MemberError, Zip, zip_names
from subconscious_pipeline.readers._json import excerpt
from subconscious_pipeline.readers._whatsapp_dates import HEADER, MARKS, BadTime, Calendar, decide_order, half_of
from subconscious_pipeline.readers._whatsapp_phrases import classify, classify_unsigned, unmarked
from subconscious_pipeline.readers.base import Item, MessageRecord, Reader, ReadError, ReadOptions
from subconscious_pipeline.settings import DateOrder

_CHAT_FILE = "_chat.txt"
_PEEK_LINES = 20
_HEADER_CHARS = 60
_AUTHOR_CHARS = 80
_IN_HEADER = re.compile(f"[{MARKS}]")
_QUOTES = re.compile('["“”„«»]')
_WITH = (
    "with|mit|con|avec|com o|com|met|med|z użytkownikiem|z|с контактом|с пользователем|с|s kontaktem|s|cu|amb|dengan|käyttäjän|και|με|eli|מול|עם|مع"
)
_PREFIX = re.compile(rf"(?:[^\W\d_]+[ _]){{0,5}}WhatsApp(?:[-_ ]?[^\W\d_]+)?(?:[ _](?:{_WITH})[ _]|\s?[-–:_]\s|チャット\s?[-–:]?\s?)(.+)$")
_SUFFIX = re.compile(r"(.+?) (?:ile|adlı kişiyle|kanssa) (?:WhatsApp.*|.*WhatsApp)$")
_COPY = re.compile(r"\s*\(\d{1,3}\)$")

# Bracket, first number, separator, second and third number, AM/PM before, clock, AM/PM after: as printed.
_When = tuple[str | None, str, str | None, str, str, str | None, str, str | None]


class _Start(NamedTuple):
    """A line that begins a message."""

    row: int
    when: _When
    offset: int  # where the rest of the line begins


class WhatsAppReader:
    """A chat as the app exports it, in any of its languages and both of its line forms."""

    name = "whatsapp"

    def identify(self, path: Path, head: bytes) -> bool:
        """Whether one of the first lines begins like a message, or the zip holds such a text file."""
        if path.is_dir() or not head:
            return False
        if head.startswith(b"PK\x03\x04"):
            names = zip_names(path, head)
            return bool(_known_names(names)) or any(map(_holds_chat, _texts(path, names)))
        return _holds_chat(head)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Every message. Rows carry no `native_id`: the app gives none.

        Raises:
            SourceError: ``no_messages``, ``ambiguous_date_order``, ``truncated_archive``.
        """
        with path.open("rb") as file:
            content = file.read()
        if not content.startswith(b"PK\x03\x04"):
            yield from _chat(path, "", content, chat_name(path.parent.name if path.name == _CHAT_FILE else path.stem), options)
            return
        del content
        archive = Zip(path)
        try:
            names = _known_names(archive.names()) or [name for name in archive.names() if _holds_chat(_head(archive, name))]
            if not names:
                raise SourceError(path, "no_messages", "holds no exported chat such as _chat.txt; export the chat again")
            for name in names:
                try:
                    content = archive.read(name)
                except MemberError as error:
                    raise SourceError(path, error.code, error.message, name) from None
                stem = path.stem if name.rpartition("/")[2] == _CHAT_FILE else name.rpartition("/")[2].removesuffix(".txt")
                yield from _chat(path, f"{name} " if len(names) > 1 else "", content, chat_name(stem), options)
        finally:
            archive.close()


def chat_name(stem: str) -> str:
    """The chat's name from a file name without extension: no "WhatsApp Chat with …" in any language, no copy number."""
    stem = _COPY.sub("", unmarked(stem)).strip()
    if found := _PREFIX.match(stem) or _SUFFIX.match(stem):
        return found.group(1).strip() or stem
    return stem


def _known_names(names: list[str]) -> list[str]:
    plain = [name for name in names if name.rpartition("/")[2] == _CHAT_FILE]
    return plain or [name for name in names if name.endswith(".txt") and _PREFIX.match(name.rpartition("/")[2])]


def _texts(path: Path, names: list[str]) -> Iterator[bytes]:
    try:
        archive = Zip(path)
    except SourceError:
        return
    try:
        yield from (_head(archive, name) for name in names)
    finally:
        archive.close()


def _head(archive: Zip, name: str) -> bytes:
    if not name.casefold().endswith(".txt"):
        return b""
    try:
        return archive.read(name)[:65_536]
    except MemberError:
        return b""


def _holds_chat(head: bytes) -> bool:
    text = _decoded(head)[0]
    if "\0" in text:
        return False
    filled = [line for line in text.split("\n")[:200] if line.strip()][:_PEEK_LINES]
    return any(_tells_chat(line) for line in filled)


def _tells_chat(line: str) -> bool:
    """Whether a line begins like a message and not like a line of a program's log."""
    found = _header(line)
    if found is None:
        return False
    bracket, year, _, _, _, before, clock, after = found[0]
    logged = bracket is None and len(year) == 4 and len(clock) > 5
    return not logged and ((before or after) is None or half_of(before or after or "") is not None)


def _decoded(content: bytes) -> tuple[str, bool]:
    """The text, and whether bytes had to be replaced."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace"), False
    if len(content) > 3 and content[1:4:2] == b"\0\0" and content[0]:
        return content.decode("utf-16-le", "replace"), False
    try:
        return content.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        return content.decode("utf-8-sig", "replace"), True


def _header(line: str) -> tuple[_When, str, int] | None:
    """When a message begins with this line, the line (rid of marks inside its header), and where its rest begins."""
    found = HEADER.match(line)
    if found is None:
        if line.isascii() or not _IN_HEADER.search(line, 0, _HEADER_CHARS):
            return None
        line = _IN_HEADER.sub("", line[:_HEADER_CHARS]) + line[_HEADER_CHARS:]
        found = HEADER.match(line)
        if found is None:
            return None
    return cast(_When, found.group(1, 2, 3, 4, 5, 6, 7, 8)), line, found.start(9)


def _chat(path: Path, member: str, content: bytes, name: str, options: ReadOptions) -> Iterator[Item]:
    text, replaced = _decoded(content)
    del content
    lines = text.replace("\0", "").replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    starts = _starts(lines)
    if not starts:
        where = f" ({member.strip()})" if member else ""
        raise SourceError(
            path, "no_messages", f"holds no line that begins like a WhatsApp message{where}; export the chat again, or convert it to jsonl"
        )
    if replaced:
        yield ReadError(f"{member}file", "invalid_utf8", "holds bytes that are not UTF-8; they were replaced", warning=True)
    order = _order(path, member, starts, options)
    if order.warning is not None:
        yield order.warning
    for index in range(starts[0].row):
        if unmarked(lines[index]):
            yield ReadError(f"{member}line {index + 1}", "no_message", "stands before the first message and belongs to none", excerpt(lines[index]))
    calendar = Calendar(order.order, options.zone)
    found = False
    ends = [start.row for start in starts[1:]] + [len(lines)]
    for start, end in zip(starts, ends, strict=True):
        bracket, first, separator, second, third, before, clock, after = start.when
        line = lines[start.row]
        rest = line[start.offset :] if end == start.row + 1 else "\n".join([line[start.offset :], *lines[start.row + 1 : end]])
        try:
            sent_at = calendar.micros((first, separator, second, third), before, clock, after)
        except BadTime as error:
            yield ReadError(f"{member}line {start.row + 1}", "bad_time", str(error), excerpt(line))
            continue
        found = True
        author, kind, said = _signed(rest, bracket is not None)
        yield MessageRecord(
            source_ref=name,
            sent_at=sent_at,
            text=said,
            author=author,
            kind=kind,
            tz_source=options.naive_tz_source,
            title=name,
        )
    if found and not options.zone_configured:
        message = f"times carry no zone and were read as {options.zone.key}; set timezone for this source in sources.yaml"
        yield ReadError(f"{member}file", "zone_assumed", message, warning=True)


def _starts(lines: list[str]) -> list[_Start]:
    """The lines that begin messages. In a 24-hour file a stray word after the time is no AM/PM, so such a line is text."""
    starts: list[_Start] = []
    known: dict[_When, _When] = {}
    plain = odd = 0
    for index, line in enumerate(lines):
        found = _header(line)
        if found is None:
            continue
        when, lines[index], offset = found
        meridiem = when[5] or when[7]
        if meridiem is None:
            plain += 1
        elif half_of(meridiem) is None:
            odd += 1
        starts.append(_Start(index, known.setdefault(when, when), offset))
    if odd and plain > len(starts) - plain - odd:
        return [start for start in starts if (meridiem := start.when[5] or start.when[7]) is None or half_of(meridiem)]
    return starts


@dataclass(frozen=True)
class _Decided:
    order: DateOrder
    warning: ReadError | None = None


def _order(path: Path, member: str, starts: list[_Start], options: ReadOptions) -> _Decided:
    triples = [triple for triple, _ in groupby((start.when[1], start.when[2], start.when[3], start.when[4]) for start in starts)]
    decided = decide_order(triples, options.date_order)
    if decided.order is None:
        message = "no date in it tells the day from the month; set date_order: dmy or date_order: mdy for this source in sources.yaml"
        raise SourceError(path, "ambiguous_date_order", message, f"{member}line {starts[0].row + 1}")
    if not decided.contradicts:
        return _Decided(decided.order)
    message = f"its dates are {decided.order}, not {options.date_order} as configured; they were read as {decided.order}"
    return _Decided(decided.order, ReadError(f"{member}file", "date_order_contradicted", message, warning=True))


def _signed(rest: str, bracketed: bool) -> tuple[str | None, str, str]:
    """Author, kind and text. A line without ``author: `` is the app's own, also when a quoted group name holds a colon."""
    cut = rest.find(": ")
    line_end = rest.find("\n")
    if line_end >= 0 and (cut < 0 or cut > line_end):
        cut = line_end - 1 if rest[line_end - 1 : line_end] == ":" else -1
    elif cut < 0 and rest.endswith(":"):
        cut = len(rest) - 1
    author = _author(rest[:cut]) if 0 < cut <= _AUTHOR_CHARS else None
    if author is None:
        kind, text = classify_unsigned(rest)
    else:
        kind, text = classify(rest[cut + 1 :], bracketed)
    return author, kind, text


@lru_cache(maxsize=4096)
def _author(printed: str) -> str | None:
    """A name without marks and the ~ of unsaved numbers; None when a quotation is still open, so that it is no name."""
    if len(_QUOTES.findall(printed)) % 2:
        return None
    return unmarked(printed).replace("\u00a0", " ").replace("\u202f", " ").removeprefix("~").strip() or None


READER: Reader = WhatsAppReader()
