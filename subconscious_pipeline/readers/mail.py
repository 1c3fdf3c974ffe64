"""One RFC 5322 message -> EmailRecord; shared by every reader of mail. It knows no files, and a header never makes it fail."""

from __future__ import annotations

import csv
import hashlib
import re
from email import message_from_bytes
from email.message import Message

from subconscious_pipeline.readers import mailheader
from subconscious_pipeline.readers.base import EXCERPT_CHARS, EmailRecord, ReadError
from subconscious_pipeline.readers.mailkind import kind_of
from subconscious_pipeline.readers.mailtext import html_text, new_text, unflow

Headers = dict[str, list[str]]  # lowercase name -> raw values in order

# What the standard library's parser is known to raise on hostile input.
_FAULTS = (ValueError, LookupError, TypeError, AttributeError, RecursionError, AssertionError)
_TELLING = ("from", "date", "subject", "message-id", "received", "to", "return-path")
_FIELD = re.compile(r"[!-9;-~]+")
_PLAIN_TYPE = re.compile(r"^text/plain\s*(?:;\s*charset=\"?([\w.:-]+)\"?\s*)?$", re.IGNORECASE)
_METHOD = re.compile(rb"^METHOD:\s*(\w+)", re.MULTILINE | re.IGNORECASE)
_CALENDAR_TYPES = ("text/calendar", "application/ics")


def read_mail(raw: bytes, own: frozenset[str], locator: str, from_line: str = "") -> EmailRecord | ReadError:
    """The record of one message, or what was set aside.

    Args:
        raw: the message without an mbox separator, mbox quoting already undone.
        own: the user's own addresses, lowercase.
        locator: where it lies, for the error.
        from_line: the mbox separator, whose date is the last resort.
    """
    try:
        headers, parts, envelope = _one_part(raw) or _parsed(raw)
        if not any(name in headers for name in _TELLING):
            return ReadError(locator, "not_a_mail", "no header of a mail (From, Date, Subject, Message-ID) found", _excerpt(raw))
        return _record(headers, parts, raw, own, from_line or envelope)
    except _FAULTS as fault:
        return ReadError(locator, "bad_mail", f"the message cannot be parsed ({type(fault).__name__})", _excerpt(raw))


def _parsed(raw: bytes) -> tuple[Headers, _Parts, str]:
    """Headers, readable parts and envelope line of any message."""
    message = message_from_bytes(raw)  # compat32: email.policy.default is 14 times slower and truncates
    headers: Headers = {}
    for name, value in message.raw_items():
        headers.setdefault(name.lower(), []).append(value)
    parts = _Parts()
    parts.collect(message, root=True)
    return headers, parts, message.get_unixfrom() or ""


def _one_part(raw: bytes) -> tuple[Headers, _Parts, str] | None:
    """The same for a mail of one plain text with nothing unusual about it, at a third of the parser's time; None: ask the parser."""
    head, blank, body = raw.partition(b"\n\n")
    if not blank or b"\r" in raw:
        return None
    headers: Headers = {}
    values: list[str] = []
    for line in head.decode("ascii", "surrogateescape").split("\n"):
        if line[:1] in (" ", "\t"):
            if not values:
                return None
            values[-1] += "\n" + line
            continue
        name, colon, value = line.partition(":")
        if not colon or not _FIELD.fullmatch(name):
            return None
        values = headers.setdefault(name.lower(), [])
        values.append(value.lstrip(" \t"))
    types, encodings = headers.get("content-type", ["text/plain"]), headers.get("content-transfer-encoding", ["7bit"])
    match = _PLAIN_TYPE.match(types[0])
    if not match or len(types) + len(encodings) > 2 or encodings[0].strip().lower() not in ("7bit", "8bit"):
        return None
    parts = _Parts()
    parts.sort = "text/plain"
    parts.found.append(("plain", mailheader.decode_bytes(body, match.group(1) or "")))
    return headers, parts, ""


def _excerpt(raw: bytes) -> str:
    return raw[:EXCERPT_CHARS].decode("utf-8", "replace")


def _first(headers: Headers, name: str) -> str:
    values = headers.get(name)
    return values[0] if values else ""


def _record(headers: Headers, parts: _Parts, raw: bytes, own: frozenset[str], from_line: str) -> EmailRecord:
    body = parts.text()
    senders = mailheader.addresses(_first(headers, "from")) or mailheader.addresses(_first(headers, "sender"))
    from_name, from_addr = senders[0] if senders else ("", "")
    to = dict.fromkeys(address for name in ("to", "cc") for value in headers.get(name, ()) for _, address in mailheader.addresses(value) if address)
    subject = mailheader.decode_header(_first(headers, "subject"))
    sent_at, date_source = _sent_at(headers, from_line)
    references = _references(headers)
    own_ids = mailheader.message_ids(_first(headers, "message-id"))
    ref = own_ids[0] if own_ids else _content_id(from_addr, sent_at if date_source == "header" else None, subject, body)
    labels = _labels(headers)
    return EmailRecord(
        source_ref=ref,
        sent_at=sent_at,
        date_source=date_source,
        from_name=from_name,
        from_addr=from_addr,
        to=tuple(to),
        subject=subject,
        body_full=body,
        body_new=new_text(body),
        kind=kind_of(headers, parts.sort, from_addr, subject, labels, parts.method, own, raw),
        references=tuple(one for one in references if one != ref),
        labels=labels,
    )


def _sent_at(headers: Headers, from_line: str) -> tuple[int | None, str]:
    """When a mail was sent, and who says so: Date, the topmost Received, the mbox separator, a Date of 24:00, nobody."""
    dates = headers.get("date", [])
    for value in dates:
        if (at := mailheader.parse_date(value)) is not None:
            return at, "header"
    if (at := mailheader.received_date(_first(headers, "received"))) is not None:
        return at, "received"
    if from_line and (at := mailheader.from_line_date(from_line)) is not None:
        return at, "from_line"
    for value in dates:
        if (at := mailheader.repair_date(value)) is not None:
            return at, "header"
    return None, "none"


def _references(headers: Headers) -> list[str]:
    values = headers.get("references", []) + headers.get("in-reply-to", [])
    return list(dict.fromkeys(one for value in values for one in mailheader.message_ids(value)))


def _labels(headers: Headers) -> tuple[str, ...]:
    if "x-gmail-labels" not in headers:
        return ()
    text = mailheader.decode_header(",".join(headers["x-gmail-labels"]))
    return tuple(label.strip() for row in csv.reader([text], skipinitialspace=True) for label in row if label.strip())


def _content_id(from_addr: str, sent_at: int | None, subject: str, body: str) -> str:
    """An id for a mail without one. Decoded fields only: the same mail has the same id in an mbox, a Maildir and an .eml."""
    canonical = "\n".join([from_addr, str(sent_at or ""), " ".join(subject.split()), " ".join(body.split())])
    return "sha256-" + hashlib.sha256(canonical.encode("utf-8", "replace")).hexdigest()


class _Parts:
    """The readable parts of a message: plain and HTML texts in order, and the method of a calendar part."""

    def __init__(self) -> None:
        self.method = ""
        self.sort = ""  # content type of the whole message
        self.found: list[tuple[str, str]] = []  # ("plain" or "html", text)

    def text(self) -> str:
        """All readable text, newlines as ``\\n``, no trailing blanks."""
        texts = (html_text(text) if sort == "html" else text for sort, text in self.found)
        return "\n\n".join(stripped for text in texts if (stripped := mailheader.clean(text).strip("\r\n \t")))

    def collect(self, part: Message, root: bool = False) -> None:
        """Add what `part` holds. Of alternatives only the plain one counts, unless it is empty."""
        sort = part.get_content_type()
        self.sort = self.sort or sort
        if part.is_multipart():
            if sort.startswith("multipart/"):
                self._collect_multipart(part)
            return
        if sort in _CALENDAR_TYPES:
            declared = part.get_param("method")
            inside = None if declared else _METHOD.search(part.get_payload(decode=True) or b"")  # type: ignore[arg-type]
            self.method = str(declared).upper() if declared else inside.group(1).decode().upper() if inside else self.method
        elif root and sort.startswith("multipart/"):  # its boundary is missing: what is there is all there is
            self.found.append(("plain", _text(part)))
        elif sort in ("text/plain", "text/html") and (root or not _is_attachment(part)):
            self.found.append(("html" if sort == "text/html" else "plain", _text(part)))

    def _collect_multipart(self, part: Message) -> None:
        children = part.get_payload()
        inner = _Parts()
        for child in children:
            if isinstance(child, Message):
                inner.collect(child)
        self.method = self.method or inner.method
        found = [(sort, text) for sort, text in inner.found if text.strip()]
        if part.get_content_subtype() == "alternative":
            found = [one for one in found if one[0] == "plain"] or found
        self.found.extend(found)


def _is_attachment(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or part.get_filename() is not None


def _text(part: Message) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    declared = str(part.get("content-type", "")).lower()  # parsing parameters that are not there costs as much as the rest
    label = (part.get_param("charset") or "") if "charset" in declared else ""
    text = mailheader.decode_bytes(data, label if isinstance(label, str) else label[2])
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    flowed = part.get_param("format") if "format" in declared else None
    if isinstance(flowed, str) and flowed.lower() == "flowed":
        return unflow(text, str(part.get_param("delsp", "no")).lower() == "yes")
    return text
