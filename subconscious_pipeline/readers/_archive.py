"""Read-only access to the files of a folder or of a zip archive, by name. Nothing is ever unpacked to disk."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from subconscious_pipeline.errors import SourceError

MAX_MEMBER_BYTES = 1 << 30  # a text member that unpacks to more than this is a trap, not a chat
_LOCAL_HEADER = b"PK\x03\x04"
_IGNORED = ("__MACOSX/", ".")


class MemberError(Exception):
    """One file inside a folder or archive cannot be read; carries a code and a message fit for a quarantined item."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


class Archive(Protocol):
    """Named bytes."""

    def names(self) -> list[str]:
        """Paths of all files with forward slashes, sorted; system litter left out."""
        ...

    def read(self, name: str) -> bytes:
        """The content of one file.

        Raises:
            MemberError: when it cannot be read.
        """
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Folder:
    """A directory and at most two levels below it."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def names(self) -> list[str]:
        return sorted(_below(self._root, "", 3))

    def read(self, name: str) -> bytes:
        # os.open and one os.read: day files are small and many, and file objects cost more than their content.
        try:
            handle = os.open(f"{self._root}/{name}", os.O_RDONLY | getattr(os, "O_BINARY", 0))
            try:
                content = os.read(handle, 1 << 16)
                if len(content) < 1 << 16:
                    return content
                parts = [content]
                while part := os.read(handle, 1 << 20):
                    parts.append(part)
                return b"".join(parts)
            finally:
                os.close(handle)
        except OSError as error:
            raise MemberError("unreadable", f"cannot be read ({error.strerror}); check its permissions") from None

    def close(self) -> None:
        return None


class Zip:
    """A zip archive.

    Raises:
        SourceError: ``truncated_archive`` when its directory cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError):
            raise SourceError(path, "truncated_archive", "is a damaged or cut-off zip archive; download or copy it again") from None
        self._members = {_tidy(info.filename): info for info in self._zip.infolist() if not info.is_dir()}

    def names(self) -> list[str]:
        return sorted(name for name in self._members if not _litter(name))

    def read(self, name: str) -> bytes:
        member = self._members[name]
        if member.file_size > MAX_MEMBER_BYTES:
            raise MemberError("too_large", f"unpacks to more than {MAX_MEMBER_BYTES >> 20} MiB; unpack it yourself and point at the folder")
        if member.flag_bits & 1:
            raise MemberError("encrypted", "is protected by a password; unpack it yourself and point at the folder")
        try:
            return self._zip.read(member)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, struct.error):
            raise MemberError("damaged_member", "is damaged inside the archive; download or copy the archive again") from None

    def close(self) -> None:
        self._zip.close()


def open_archive(path: Path) -> Archive:
    """The files of a folder or a zip.

    Raises:
        SourceError: when the zip is damaged.
    """
    return Folder(path) if path.is_dir() else Zip(path)


def zip_names(path: Path, head: bytes) -> list[str]:
    """Member names of a zip; of a damaged one those that its first bytes `head` still tell. Empty for anything else."""
    if not head.startswith(_LOCAL_HEADER):
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            return [name for info in archive.infolist() if not info.is_dir() and not _litter(name := _tidy(info.filename))]
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError):
        return [name for name in _names_in(head) if not name.endswith("/") and not _litter(name)]


def _names_in(head: bytes) -> Iterator[str]:
    at = head.find(_LOCAL_HEADER)
    while at >= 0 and at + 30 <= len(head):
        length = int.from_bytes(head[at + 26 : at + 28], "little")
        yield _tidy(head[at + 30 : at + 30 + length].decode("utf-8", "replace"))
        at = head.find(_LOCAL_HEADER, at + 30 + length)


def _below(root: str, prefix: str, levels: int) -> Iterator[str]:
    try:
        entries = list(os.scandir(f"{root}/{prefix}"))
    except OSError as error:
        raise SourceError(f"{root}/{prefix}", "unreadable", f"cannot be listed ({error.strerror}); check its permissions") from None
    for entry in entries:
        if _litter(entry.name):
            continue
        if entry.is_dir():
            if levels > 1:
                yield from _below(root, f"{prefix}{entry.name}/", levels - 1)
        else:
            yield prefix + entry.name


def _tidy(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./")


def _litter(name: str) -> bool:
    return name.startswith(_IGNORED) or "/." in name or name.startswith("__MACOSX")
