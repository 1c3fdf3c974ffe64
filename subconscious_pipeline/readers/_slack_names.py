"""Who and where in a Slack export: users.json, channels.json, groups.json, dms.json, mpims.json, all of them optional."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from subconscious_pipeline.readers._archive import Archive, MemberError
from subconscious_pipeline.readers._json import repaired
from subconscious_pipeline.readers.base import ReadError

USERS = "users.json"
CHANNEL_FILES = ("channels.json", "groups.json", "dms.json", "mpims.json")
_WRAPPERS = {USERS: "members", "channels.json": "channels", "groups.json": "groups", "dms.json": "ims", "mpims.json": "groups"}


class Profile(msgspec.Struct):
    """The parts of a Slack profile that name a person."""

    display_name: str | None = None
    real_name: str | None = None
    name: str | None = None


class _User(msgspec.Struct):
    id: str
    name: str | None = None
    real_name: str | None = None
    is_bot: bool | None = False
    profile: Profile | None = None


class _Channel(msgspec.Struct):
    id: str
    name: str | None = None
    members: list[str] | None = None


@dataclass(frozen=True)
class Place:
    """A channel, group or direct message."""

    ref: str
    title: str


@dataclass
class Directory:
    """Names by id, and places by the name of their folder."""

    users: dict[str, str] = field(default_factory=dict)
    bots: set[str] = field(default_factory=lambda: {"USLACKBOT"})
    channels: dict[str, str] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    warnings: list[ReadError] = field(default_factory=list)

    def place(self, folder: str) -> Place:
        """The place whose messages lie in this folder; the folder's name stands in for what no file tells."""
        return self.places.get(folder) or Place(folder, folder)


def shown_name(profile: Profile) -> str | None:
    """Display name, else real name, else user name."""
    return profile.display_name or profile.real_name or profile.name or None


def load_directory(archive: Archive, names: list[str], prefix: str) -> Directory:
    """Everything the metadata files tell. A file of the wrong shape becomes a warning: the messages can be read without it."""
    directory = Directory()
    present = set(names)
    if prefix + USERS in present:
        for user in _entries(archive, prefix, USERS, _User, directory):
            profile = user.profile or Profile()
            name = profile.display_name or profile.real_name or user.real_name or user.name
            if name:
                directory.users[user.id] = name
            if user.is_bot:
                directory.bots.add(user.id)
    for file in CHANNEL_FILES:
        if prefix + file not in present:
            continue
        direct = file in ("dms.json", "mpims.json")
        for channel in _entries(archive, prefix, file, _Channel, directory):
            title = channel.name or channel.id
            if direct and channel.members:
                title = ", ".join(directory.users.get(member, member) for member in channel.members)
            elif channel.name:
                directory.channels[channel.id] = channel.name
            place = Place(channel.id, title)
            directory.places[channel.id] = place
            if channel.name:
                directory.places[channel.name] = place
    return directory


def _entries(archive: Archive, prefix: str, file: str, shape: type[Any], directory: Directory) -> Iterator[Any]:
    wanted = f'a list of objects with "id" and "name", or {{"{_WRAPPERS[file]}": [...]}} around it'

    def warn(found: str) -> None:
        message = f"{file}: found {found}, wanted {wanted}; messages are read, but ids may stand in for names"
        directory.warnings.append(ReadError(prefix + file, "bad_metadata", message, warning=True))

    try:
        content = archive.read(prefix + file)
        value = _loaded(content)
    except MemberError as error:
        warn(f"a file that {error.message}")
        return
    except msgspec.DecodeError:
        warn("something that is not valid JSON")
        return
    where = "a list"
    if isinstance(value, dict):
        key = _WRAPPERS[file]
        if not isinstance(value.get(key), list):
            warn(f'an object without a list "{key}"')
            return
        value, where = value[key], f'an object whose list "{key}"'
    if not isinstance(value, list):
        warn(f"a single value ({type(value).__name__})")
        return
    if not value:
        if file == USERS or where != "a list":
            warn("an empty list" if where == "a list" else where + " is empty")
        return
    bad = 0
    for item in value:
        try:
            entry = msgspec.convert(item, shape)
        except msgspec.ValidationError:
            bad += 1
            continue
        yield entry
    if bad:
        warn(f"{bad} of {len(value)} entries without a usable id")


def _loaded(content: bytes) -> Any:
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        again = repaired(content)
        if again is None:
            raise msgspec.DecodeError("not valid JSON") from None
        return msgspec.json.decode(again)
