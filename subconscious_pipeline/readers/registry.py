"""Which reader a path is for, judged by its content."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from subconscious_pipeline.errors import ConfigError, SourceError
from subconscious_pipeline.readers.base import Item, Reader, ReadError, ReadOptions

# Most telling format first: the last ones accept the most.
NAMES = ("slack", "ics", "mbox", "jsonl", "whatsapp", "eml")
HEAD_BYTES = 65_536


@cache
def reader(name: str) -> Reader:
    """The reader of that name.

    Raises:
        ConfigError: when there is none.
    """
    if name not in NAMES:
        raise ConfigError(f"there is no reader {name!r}; choose one of {', '.join(NAMES)}")
    found: Reader = import_module(f"subconscious_pipeline.readers.{name}").READER
    return found


def choose(path: Path, name: str | None = None) -> Reader:
    """The reader for a path: the named one, else the first that recognizes the content.

    Raises:
        SourceError: missing, unreadable, empty, or of no known format.
        ConfigError: unknown reader name.
    """
    try:
        if not path.exists():
            raise SourceError(path, "missing", "does not exist; correct the path or remove the source")
        head = b"" if path.is_dir() else _head(path)
        empty = not any(path.iterdir()) if path.is_dir() else path.stat().st_size == 0
    except OSError as error:
        raise SourceError(path, "unreadable", f"cannot be read ({error.strerror}); check its permissions") from None
    if empty:
        raise SourceError(path, "empty_file", "is empty; export it again or remove it")
    if name:
        return reader(name)
    for candidate in NAMES:
        if reader(candidate).identify(path, head):
            return reader(candidate)
    raise SourceError(path, *_unknown(path, head))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _unknown(path: Path, head: bytes) -> tuple[str, str]:
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                archive.namelist()
        except (zipfile.BadZipFile, OSError):
            return "truncated_archive", "is a damaged or cut-off zip archive; download or copy it again"
        return "unknown_format", "is a zip archive, but no export that any reader knows; unpack it and point at the file inside"
    if b"\0" in head:
        return "binary", "is a binary file that no reader knows; remove it, or convert it to jsonl"
    known = ", ".join(NAMES)
    return "unknown_format", f"is in no format that a reader knows ({known}); name the reader in sources.yaml or convert it to jsonl"


def read(path: Path, options: ReadOptions, name: str | None = None) -> tuple[str, Iterator[Item]]:
    """The chosen reader's name and its stream of items. A stream without any record or bad item is an error.

    Raises:
        SourceError: as `choose`; while iterating also what the reader raises, and ``no_records`` when nothing came out.
    """
    chosen = choose(path, name)
    return chosen.name, _not_silent(path, chosen.read(path, options))


def _not_silent(path: Path, items: Iterator[Item]) -> Iterator[Item]:
    anything = False
    try:
        for item in items:
            yield item
            if not (isinstance(item, ReadError) and item.warning):
                anything = True
                yield from items
    except OSError as error:
        raise SourceError(path, "unreadable", f"cannot be read to its end ({error.strerror}); check the disk and its permissions") from None
    if not anything:
        raise SourceError(path, "no_records", "holds no record at all; check that the export is complete")
