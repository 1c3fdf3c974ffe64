"""Slack exports: a folder or zip with one folder a channel and one JSON file a day.

Reads only; which rows are worth anything (joins, bots, bare files) is decided in the warehouse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.readers._archive import Archive, MemberError, open_archive, zip_names
from subconscious_pipeline.readers._json import elements, excerpt, fault
from subconscious_pipeline.readers._slack_names import CHANNEL_FILES, USERS, Directory, Place, Profile, load_directory, shown_name
from subconscious_pipeline.readers._slack_text import plain, redacted, rich
from subconscious_pipeline.readers.base import Item, MessageRecord, Reader, ReadError, ReadOptions

_DAY_FILE = re.compile(r"^(.*/)?[^/]+/\d{4}-\d{2}-\d{2}\.json$")
_METADATA = frozenset({USERS, *CHANNEL_FILES})
_PEEK_FILES = 5
_LAST_MICROS = 253_402_300_799_000_000  # 9999-12-31T23:59:59Z

_DELETED = frozenset({"message_deleted", "tombstone"})
_CALL = frozenset({"huddle_thread", "sh_room_created", "sh_room_shared"})
_SYSTEM = frozenset({
    "app_conversation_join", "app_conversation_leave", "assistant_app_thread", "bot_add", "bot_remove", "bot_enable", "bot_disable",
    "channel_archive", "channel_canvas_updated", "channel_convert_to_private", "channel_convert_to_public", "channel_join", "channel_leave",
    "channel_name", "channel_posting_permissions", "channel_purpose", "channel_topic", "channel_unarchive", "conversations_invite",
    "document_mention", "ekm_access_denied", "group_archive", "group_join", "group_leave", "group_name", "group_purpose", "group_topic",
    "group_unarchive", "joiner_notification", "joiner_notification_for_inviter", "message_changed", "message_replied", "pinned_item",
    "reminder_add", "reminder_delete", "unpinned_item",
})  # fmt: skip

_Stamp = str | int | float
_NOTHING = msgspec.Raw()


class _Edited(msgspec.Struct, gc=False):
    ts: _Stamp | None = None


class _BotProfile(msgspec.Struct, gc=False):
    name: str | None = None


class _Row(msgspec.Struct, gc=False):
    ts: _Stamp
    text: str | None = None
    user: str | None = None
    type: str | None = "message"
    subtype: str | None = None
    thread_ts: _Stamp | None = None
    edited: _Edited | None = None
    username: str | None = None
    bot_id: str | None = None
    bot_profile: _BotProfile | None = None
    user_profile: Profile | None = None
    files: msgspec.Raw = _NOTHING
    file: msgspec.Raw = _NOTHING
    blocks: msgspec.Raw = _NOTHING
    attachments: msgspec.Raw = _NOTHING


_decode_day = msgspec.json.Decoder(list[_Row]).decode
_decode_row = msgspec.json.Decoder(_Row).decode


class SlackReader:
    """A Slack export, also one inside a single enclosing folder."""

    name = "slack"

    def identify(self, path: Path, head: bytes) -> bool:
        """Whether there are day files of JSON lists in channel folders, or Slack's metadata files beside each other."""
        if not path.is_dir():
            names = zip_names(path, head)
            prefix = _prefix(names)
            return prefix is not None and (any(map(_DAY_FILE.match, names)) or _metadata_count(names, prefix) > 1)
        try:
            archive = open_archive(path)
            names = archive.names()
        except SourceError:
            return False
        prefix = _prefix(names)
        if prefix is None:
            return False
        days = [name for name in names if name.startswith(prefix) and _DAY_FILE.match(name)][:_PEEK_FILES]
        return _metadata_count(names, prefix) > 1 or any(_is_list(archive, name) for name in days)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Every message, channel by channel and day by day. `options` are not needed: Slack times are unix times.

        Raises:
            SourceError: ``truncated_archive`` for a damaged zip, ``no_messages`` when there are no day files.
        """
        archive = open_archive(path)
        try:
            names = archive.names()
            prefix = _prefix(names)
            parts = [] if prefix is None else [name for name in names if _in_channel(name, prefix)]
            if prefix is None or not parts:
                message = "holds no day files such as general/2024-01-31.json; export it again, or point at the folder that holds channels.json"
                raise SourceError(path, "no_messages", message)
            directory = load_directory(archive, names, prefix)
            yield from directory.warnings
            for folder, files in groupby(parts, key=lambda name: name.rpartition("/")[0]):
                yield from _Channel(archive, directory, folder, folder[len(prefix) :]).items(files)
        finally:
            archive.close()


def _prefix(names: list[str]) -> str | None:
    """The path in front of channel folders and metadata files: "" or one enclosing folder with its slash."""
    marked = [name.rpartition("/") for name in names if name.rpartition("/")[2] in _METADATA]
    prefixes = [head + slash for head, slash, _ in marked] or [m.group(1) or "" for m in map(_DAY_FILE.match, names) if m]
    return min((prefix for prefix in prefixes if prefix.count("/") <= 1), key=len, default=None)


def _in_channel(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.endswith(".json") and name.count("/", len(prefix)) == 1


def _metadata_count(names: list[str], prefix: str) -> int:
    return sum(name.startswith(prefix) and name[len(prefix) :] in _METADATA for name in names)


def _is_list(archive: Archive, name: str) -> bool:
    try:
        return archive.read(name).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except MemberError:
        return False


class _Channel:
    """The day files of one folder, and what is known of its threads so far."""

    def __init__(self, archive: Archive, directory: Directory, path: str, folder: str) -> None:
        self._archive = archive
        self._users = directory.users
        self._bots = directory.bots
        self._channels = directory.channels
        self._path = path
        self._place: Place = directory.place(folder)
        self._seen: set[str] = set()
        self._threads: set[str] = set()

    def items(self, files: Iterator[str]) -> Iterator[Item]:
        for name in files:
            yield from self._day(name)
        if missing := len(self._threads - self._seen):
            message = f"{missing} threads lack their first message (it lies outside this export); their replies are kept together"
            yield ReadError(self._path, "thread_root_missing", message, warning=True)

    def _day(self, name: str) -> Iterator[Item]:
        try:
            content = self._archive.read(name)
        except MemberError as error:
            yield ReadError(name, error.code, error.message)
            return
        try:
            rows = _decode_day(content)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            yield from self._piecewise(name, content)
            return
        message = self._message
        for index, row in enumerate(rows):
            try:
                record = message(row)
            except (ValueError, OverflowError):
                yield _undated(f"{name}[{index}]", row.text or "")
                continue
            yield record

    def _piecewise(self, name: str, content: bytes) -> Iterator[Item]:
        if not content.strip(b" \t\r\n\0"):
            yield ReadError(name, "empty_file", "is empty")
            return
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("utf-8-sig", "replace")
            yield ReadError(name, "invalid_utf8", "holds bytes that are not UTF-8; they were replaced", warning=True)
        try:
            for index, raw in elements(text):
                yield self._element(f"{name}[{index}]", raw)
        except ValueError:
            yield ReadError(name, "not_a_list", "is not a JSON list of messages", redacted(excerpt(text)))

    def _element(self, locator: str, raw: bytes | None) -> Item:
        if raw is None:
            return ReadError(locator, "bad_json", "is broken JSON from here on; the messages before it are kept")
        shown = redacted(excerpt(raw))
        try:
            return self._message(_decode_row(raw))
        except msgspec.ValidationError as error:
            code, message = fault(error)
            return _undated(locator, shown) if "required field `ts`" in message else ReadError(locator, code, message, shown)
        except (msgspec.DecodeError, RecursionError):
            return ReadError(locator, "bad_json", "is nested too deeply or is no valid JSON", shown)
        except (ValueError, OverflowError):
            return _undated(locator, shown)

    def _message(self, row: _Row) -> MessageRecord:
        """One row as a record.

        Raises:
            ValueError, OverflowError: when `ts` is no time.
        """
        ts = row.ts if isinstance(row.ts, str) else f"{row.ts:.6f}"
        sent_at = _micros(ts)
        thread = row.thread_ts
        if thread is not None and not isinstance(thread, str):
            thread = f"{thread:.6f}"
        text, kind, subtype = row.text or "", "text", row.subtype
        if subtype in _DELETED:
            text, kind = "", "deleted"
        elif not text:
            text = rich(row.blocks, row.attachments)
        if "<" in text or "&" in text or "xox" in text or "\0" in text:
            text = plain(text.replace("\0", ""), self._users, self._channels)
        if subtype in _SYSTEM or (row.type is not None and row.type != "message"):
            kind = "system"
        elif subtype in _CALL:
            kind = "call"
        elif not text and kind == "text" and (_filled(row.files) or _filled(row.file)):
            kind = "media"
        user = row.user
        self._seen.add(ts)
        if thread:
            self._threads.add(thread)
        return MessageRecord(
            source_ref=self._place.ref,
            sent_at=sent_at,
            text=text,
            native_id=ts,
            thread_id=thread or None,
            author=self._author(row),
            author_id=user or row.bot_id,
            is_bot=user in self._bots or subtype == "bot_message" or (row.bot_id is not None and user not in self._users),
            kind=kind,
            tz_source="unixtime",
            edited_at=None if row.edited is None else _edited(row.edited),
            title=self._place.title,
        )

    def _author(self, row: _Row) -> str | None:
        user = row.user
        if user is not None and (name := self._users.get(user)) is not None and row.subtype != "bot_message":
            return name
        if row.username or row.bot_profile is not None:
            return row.username or (row.bot_profile and row.bot_profile.name) or user or row.bot_id
        if user is None:
            return row.bot_id
        if row.user_profile is not None and row.bot_id is None and (name := shown_name(row.user_profile)):
            self._users[user] = name
            return name
        return self._users.get(user, user)


def _micros(ts: str) -> int:
    if len(ts) == 17 and ts[10] == ".":
        micros = int(ts[:10] + ts[11:])
    else:
        seconds, _, fraction = ts.partition(".")
        micros = int(seconds) * 1_000_000 + int((fraction + "000000")[:6])
    if not 0 < micros <= _LAST_MICROS:
        raise ValueError("no time of this era")
    return micros


def _edited(edited: _Edited) -> int | None:
    if edited.ts is None:
        return None
    try:
        return _micros(edited.ts if isinstance(edited.ts, str) else f"{edited.ts:.6f}")
    except (ValueError, OverflowError):
        return None  # the edit's time is decoration; the message stays


def _filled(raw: msgspec.Raw) -> bool:
    return bytes(raw).strip() not in (b"", b"[]", b"null", b"{}")


def _undated(locator: str, shown: str) -> ReadError:
    return ReadError(locator, "no_timestamp", "has no usable `ts`, so it is no message", redacted(excerpt(shown)))


READER: Reader = SlackReader()
