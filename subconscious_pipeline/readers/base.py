"""The seam between the outside world and the warehouse: records, quarantined items, and the protocol every reader keeps.

Readers turn one path into a stream of items and know nothing of databases, windows or models. All instants are whole
microseconds since the epoch, UTC: a million aware datetimes cost seconds, a million integers do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable
from zoneinfo import ZoneInfo

import msgspec

from subconscious_pipeline.settings import DateOrder


class MessageRecord(msgspec.Struct, frozen=True, gc=False):
    """One message of a chat, or one entry of any source without a reader of its own."""

    source_ref: str  # channel, direct message or group; stable across exports of the same conversation
    sent_at: int  # microseconds since the epoch, UTC
    text: str  # plain text, entities resolved; "" for bare media
    native_id: str | None = None  # the source's own id inside source_ref, stable across exports; None: it has none
    thread_id: str | None = None
    author: str | None = None  # display name
    author_id: str | None = None
    is_bot: bool = False
    kind: str = "text"  # text, media, sticker, system, call, deleted, broadcast, poll, location, contact
    tz_source: str = "explicit"  # explicit (offset in the data), unixtime, config (told by the user), floating (assumed)
    edited_at: int | None = None
    end_at: int | None = None  # microseconds; only for entries that last (jsonl)
    title: str | None = None  # name of the conversation
    source_type: str = "messaging"


class EmailRecord(msgspec.Struct, frozen=True, gc=False):
    """One e-mail. The warehouse threads by `references`; the reader only reports them."""

    source_ref: str  # Message-ID without angle brackets; a content hash where there is none
    sent_at: int | None  # microseconds since the epoch, UTC; None only with date_source "none"
    date_source: str  # header, received, internaldate, from_line, none
    from_name: str
    from_addr: str
    to: tuple[str, ...]  # addresses of To and Cc
    subject: str
    body_full: str  # plain text
    body_new: str  # without quoted text and signature
    kind: str = "personal"  # personal, list, marketing, auto, bounce, invite, chat
    references: tuple[str, ...] = ()  # ids of References and In-Reply-To, oldest first, without angle brackets
    labels: tuple[str, ...] = ()


class EventRecord(msgspec.Struct, frozen=True, gc=False):
    """One calendar event, or one occurrence of a recurring one."""

    source_ref: str  # UID, or UID/RECURRENCE where RECURRENCE is the occurrence's original start as 20240610T013000Z or 20240610
    series: str  # UID
    start_at: int  # microseconds since the epoch, UTC; an all-day event starts at midnight of its date in its zone
    end_at: int
    all_day: bool
    start_date: str  # local date, YYYY-MM-DD
    end_date: str  # local date of the last day, inclusive
    summary: str
    description: str = ""
    location: str = ""
    organizer: str = ""
    attendees: tuple[str, ...] = ()
    tz_name: str = ""
    tz_source: str = "explicit"  # explicit, config, floating
    rrule: str | None = None  # set on every generated occurrence of a series; None for single events and overrides
    status: str = "confirmed"  # confirmed, tentative, cancelled
    changed_at: int | None = None  # LAST-MODIFIED, else CREATED, else DTSTAMP


class ReadError(msgspec.Struct, frozen=True, gc=False):
    """One bad item that was set aside (or, with `warning`, something the user should know about a file).

    `message` never quotes content; `excerpt` (at most 200 characters) may, and stays in the warehouse.
    """

    locator: str  # "line 12", "general/2024-01-01.json[3]", "uid abc"
    code: str  # short fixed identifier, such as "bad_json", "no_timestamp", "undated"
    message: str
    excerpt: str = ""
    warning: bool = False  # True: nothing was lost


Record = MessageRecord | EmailRecord | EventRecord
Item = Record | ReadError

EXCERPT_CHARS = 200


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may need to know and the file cannot say."""

    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))  # zone of naive times
    zone_configured: bool = False  # False: `zone` is an assumption, so tz_source is "floating" and a warning is due
    date_order: DateOrder | None = None  # for numeric dates that no line decides
    own_addresses: frozenset[str] = frozenset()  # lowercase
    expand_until: int | None = None  # microseconds; recurring events are expanded up to here (None: 400 days after their start)

    @property
    def naive_tz_source(self) -> str:
        """The `tz_source` of a time that carries no zone."""
        return "config" if self.zone_configured else "floating"


@runtime_checkable
class Reader(Protocol):
    """One format. Stateless; a module offers one instance as ``READER``."""

    name: str  # "slack", "whatsapp", "mbox", "eml", "ics", "jsonl"

    def identify(self, path: Path, head: bytes) -> bool:
        """Whether `path` is of this format, judged by content.

        Args:
            path: an existing file or directory.
            head: its first 64 KiB (b"" for a directory).
        """
        ...

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Every item of `path`, in the order of the file: records and what was set aside.

        One bad item costs that item, never the file. Items in = records out + non-warning errors out.

        Raises:
            SourceError: when nothing can be read (truncated archive, undecidable date order), naming the place and the next step.
        """
        ...
