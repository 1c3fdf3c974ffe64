"""Header values of e-mails: charsets, encoded words, addresses, ids, dates. Never raises on what a header holds."""

from __future__ import annotations

import base64
import binascii
import re
from calendar import timegm
from datetime import datetime
from email.utils import getaddresses, parsedate_tz

MICROS = 1_000_000
OLDEST_YEAR, NEWEST_YEAR = 1971, 2200
WIDEST_OFFSET = 14 * 3600  # seconds; no zone lies further from UTC

_CHARSETS = {
    "utf8mb4": "utf-8", "unicode-1-1-utf-7": "utf-7", "iso-8859-8-i": "iso-8859-8", "iso-8859-8-e": "iso-8859-8", "iso-8859-1": "cp1252",
    "latin1": "cp1252", "latin-1": "cp1252", "ansi": "cp1252", "ks_c_5601-1987": "cp949", "ks_c_5601": "cp949", "euc-kr": "cp949",
    "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "gb_2312-80": "gb18030", "shift_jis": "cp932", "x-sjis": "cp932",
    "sjis": "cp932", "macintosh": "mac_roman", "x-mac-roman": "mac_roman", "x-mac-cyrillic": "mac_cyrillic", "tis-620": "cp874",
    "ansi_x3.4-1968": "ascii", "us-ascii": "ascii", "x-user-defined": "cp1252", "big5-hkscs": "big5hkscs",
}  # fmt: skip
_CODE_PAGE = re.compile(r"^(?:x-)?(?:cp|ibm|dos|win|windows)[-_ ]?(\d{3,5})$")

_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_FOLD = re.compile(r"\r?\n[ \t]*")
_BAD_Q = re.compile(rb"=(?![0-9A-Fa-f]{2})")
_ID = re.compile(r"<([^<>]+)>")
_PLAIN_ADDRESS = re.compile(r"^[^\s,;<>()\"@:\\]+@[^\s,;<>()\"@:\\]+$")
_LOOSE_ADDRESS = re.compile(r"[^\s,;<>()\"'@:\\]+@[^\s,;<>()\"'@:\\]+")
_NAMED_ADDRESS = re.compile(r"^\s*(?:\"([^\"\\]*)\"|([^\",;<>()@:\\]*?))\s*<\s*([^\s,;<>()\"@:\\]+@[^\s,;<>()\"@:\\]+)\s*>\s*$")

_MONTHS = {name: number for number, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)}
_DATE = re.compile(
    r"^\s*(?:[A-Za-z]{3,9},?\s*)?(\d{1,2})\s+([A-Za-z]{3})[a-z]*\.?\s+(\d{4})\s+(\d{1,2}):(\d\d)(?::(\d\d))?\s*([+-]\d{4}|GMT|UTC?|Z)\b"
)
_ASCTIME = re.compile(r"([A-Za-z]{3})\s+(\d{1,2})\s+(\d{1,2}):(\d\d)(?::(\d\d))?\s+(?:([+-]\d{4})\s+|[A-Z]{1,5}\s+)?(\d{4})(?:\s+([+-]\d{4}))?")
_ISO = re.compile(r"^\s*\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?\s?(?:Z|[+-]\d\d:?\d\d)\s*$")
_MIDNIGHT_24 = re.compile(r"\b24:00(:00)?\b")


def codec(label: str) -> str:
    """The Python codec for a charset label of the wild; an unknown label comes back as it is."""
    name = label.strip().strip("\"'").lower()
    if match := _CODE_PAGE.match(name):
        return f"cp{match.group(1)}"
    return _CHARSETS.get(name, name)


def decode_bytes(data: bytes, label: str) -> str:
    """Text of `data`: in the labelled charset, else UTF-8, else windows-1252. Never fails."""
    for name in (codec(label) if label else "utf-8", "utf-8"):
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")


def _decode_word(charset: str, encoding: str, text: str) -> tuple[str, bytes] | None:
    """(codec, bytes) of an encoded word, or None when it breaks RFC 2047."""
    try:
        raw = text.encode("ascii")
        if encoding in "bB":
            data = base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
        elif _BAD_Q.search(raw):
            return None
        else:
            data = binascii.a2b_qp(raw, header=True)
        name = codec(charset.partition("*")[0])
        b"".decode(name)
    except (LookupError, ValueError):
        return None
    return name, data


def decode_header(raw: str) -> str:
    """One line of text from a raw header value (surrogates for bytes above 127). A malformed encoded word stays as it is written."""
    if "\n" in raw:
        raw = _FOLD.sub(" ", raw)
    raw = _plain(raw)
    if "=?" not in raw:
        return clean(raw).strip()
    pieces: list[str] = []
    run: list[tuple[str, bytes, str]] = []  # codec, bytes, source: a character may be split over adjacent words of one codec
    at = 0
    for match in _WORD.finditer(raw):
        gap = raw[at : match.start()]
        word = _decode_word(*match.groups())
        if gap.strip() or word is None or (run and run[0][0] != word[0]):
            after_word = bool(run)
            pieces.append(_join(run))
            run = []
            if gap.strip() or word is None or not after_word:  # white space between two encoded words is not part of the text
                pieces.append(gap)
        elif not run:
            pieces.append(gap)
        if word is None:
            pieces.append(match.group())
        else:
            run.append((*word, match.group()))
        at = match.end()
    pieces += [_join(run), raw[at:]]
    return clean(" ".join("".join(pieces).splitlines())).strip()


def _join(run: list[tuple[str, bytes, str]]) -> str:
    """The text of adjacent encoded words, or their source when the bytes are not of that charset."""
    if not run:
        return ""
    try:
        return b"".join(data for _, data, _ in run).decode(run[0][0])
    except ValueError:
        if len(run) == 1:
            return run[0][2]
        texts = [_join([word]) for word in run]
        return "".join(text if text != source else f" {source} " for text, (_, _, source) in zip(texts, run, strict=True))


def clean(text: str) -> str:
    """`text` without NUL and lone surrogates, which no store and no UTF-8 file can hold."""
    return _UNSTORABLE.sub("", text) if not text.isascii() or "\x00" in text else text


def _plain(text: str) -> str:
    """A raw header value as text: UTF-8, else windows-1252, for its bytes above 127."""
    return text if text.isascii() else decode_bytes(text.encode("utf-8", "surrogateescape"), "")


def addresses(raw: str) -> list[tuple[str, str]]:
    """(display name, lowercase address) of an address header, in order."""
    if not raw:
        return []
    if "\n" in raw:
        raw = _FOLD.sub(" ", raw)
    raw = clean(_plain(raw)).strip()
    if _PLAIN_ADDRESS.match(raw):
        return [("", raw.lower())]
    if match := _NAMED_ADDRESS.match(raw):
        return [(decode_header(match.group(1) or match.group(2) or ""), match.group(3).lower())]
    found = [(decode_header(name), address.strip().lower()) for name, address in getaddresses([raw]) if "@" in address]
    return found or [("", one.lower()) for one in _LOOSE_ADDRESS.findall(raw)] or [(decode_header(raw), "")]


def message_ids(raw: str) -> list[str]:
    """Message ids of a header, without angle brackets, in order."""
    raw = clean(_plain(raw))
    if found := _ID.findall(raw):
        return [re.sub(r"\s+", "", one) for one in found]
    return [word for word in raw.split() if "@" in word]


def _micros(year: int, month: int, day: int, hour: int, minute: int, second: int, offset: int) -> int | None:
    if not OLDEST_YEAR <= year <= NEWEST_YEAR or abs(offset) > WIDEST_OFFSET:
        return None
    try:
        at = datetime(year, month, day, hour, minute, min(second, 59))  # noqa: DTZ001 (the offset is applied below)
    except ValueError:
        return None
    return (timegm(at.timetuple()) - offset) * MICROS


def _offset(text: str | None) -> int:
    """Seconds east of UTC of ``+0530``; names and nothing count as UTC. Nonsense comes back out of range."""
    if not text or text[0] not in "+-":
        return 0
    minutes = int(text[3:5])
    if minutes > 59:
        return WIDEST_OFFSET + 1
    seconds = int(text[1:3]) * 3600 + minutes * 60
    return -seconds if text[0] == "-" else seconds


def parse_date(raw: str) -> int | None:
    """Microseconds since the epoch of a Date value (RFC 5322 and its obsolete forms, asctime, ISO 8601 with offset).

    None when it is no date, or an impossible one (24:00, offset beyond 14 hours): never a guess, never now.
    """
    if match := _DATE.match(raw):
        day, name, year, hour, minute, second, zone = match.groups()
        month = _MONTHS.get(name.lower(), 0)
        return _micros(int(year), month, int(day), int(hour), int(minute), int(second or 0), _offset(zone))
    if _ISO.match(raw):
        try:
            at = datetime.fromisoformat(re.sub(r"\s+(?=[-+Z])", "", raw.strip()))
        except ValueError:
            return None
        utc = (at - (at.utcoffset() or at - at)).replace(tzinfo=None)
        return _micros(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, 0)
    if re.match(r"\s*\d{4}\D", raw):
        return None
    try:
        parts = parsedate_tz(raw)
    except (ValueError, TypeError, IndexError):
        return None
    return _micros(*parts[:6], parts[9] or 0) if parts else None


def repair_date(raw: str) -> int | None:
    """The instant of a date whose only fault is the hour 24:00, which means the midnight that ends the day."""
    at = parse_date(_MIDNIGHT_24.sub("00:00:00", raw, count=1)) if _MIDNIGHT_24.search(raw) else None
    return None if at is None else at + 86_400 * MICROS


def received_date(raw: str) -> int | None:
    """The instant after the last semicolon of a Received header."""
    return parse_date(_FOLD.sub(" ", raw.rpartition(";")[2])) if ";" in raw else None


def from_line_date(line: str) -> int | None:
    """The instant of an mbox separator; asctime without offset is UTC (RFC 4155); an offset may stand before or after the year."""
    if match := _ASCTIME.search(line):
        name, day, hour, minute, second, before, year, after = match.groups()
        month = _MONTHS.get(name.lower(), 0)
        return _micros(int(year), month, int(day), int(hour), int(minute), int(second or 0), _offset(before or after))
    return parse_date(line.split(None, 2)[2]) if len(line.split(None, 2)) == 3 else None
