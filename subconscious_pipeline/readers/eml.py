"""Single messages: an RFC 5322 file, a folder of .eml files, or a Maildir. Parsing is `mail`'s."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.readers.base import Item, ReadError, ReadOptions
from subconscious_pipeline.readers.mail import read_mail

_HEADER = re.compile(rb"^([!-9;-~]+)[ \t]*:")
_KNOWN = frozenset(
    b"from to cc date subject message-id received return-path mime-version content-type delivered-to reply-to sender in-reply-to "
    b"references list-id dkim-signature x-mailer".split()
)
_SENDING = frozenset((b"from", b"date", b"message-id", b"received", b"return-path", b"subject"))
_BOM = b"\xef\xbb\xbf"


def _is_maildir(path: Path) -> bool:
    return (path / "cur").is_dir() and (path / "new").is_dir()


def _messages_of(path: Path) -> Iterator[Path]:
    """The message files of a Maildir (with its Maildir++ subfolders) or of a folder of .eml files, in a stable order."""
    maildirs = [folder for folder in (path, *sorted(path.glob(".*"))) if folder.is_dir() and _is_maildir(folder)]
    if maildirs:
        for folder in maildirs:
            for box in ("cur", "new"):
                yield from sorted(one for one in (folder / box).iterdir() if one.is_file() and not one.name.startswith("."))
    else:
        yield from sorted(one for one in path.rglob("*") if one.suffix.lower() == ".eml" and one.is_file())


class EmlReader:
    """One mail a file."""

    name = "eml"

    def identify(self, path: Path, head: bytes) -> bool:
        """Whether a file begins with a header block of a mail, or a directory is a Maildir or holds .eml files."""
        if path.is_dir():
            return _is_maildir(path) or any(one.suffix.lower() == ".eml" for one in path.rglob("*"))
        names = set()
        for line in head.removeprefix(_BOM).lstrip(b"\r\n").splitlines():
            if not line.strip():
                break
            if line[:1] in b" \t" or line.startswith(b">From "):
                continue
            match = _HEADER.match(line)
            if not match:
                return False
            names.add(match.group(1).lower())
        return len(names & _KNOWN) >= 2 and bool(names & _SENDING)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Every message as an EmailRecord, or a ReadError located by the file's path inside the directory.

        Raises:
            SourceError: when a single file is unreadable or no mail, or a directory holds no message at all.
        """
        if not path.is_dir():
            item = _read_file(path, "file", options)
            if isinstance(item, ReadError):
                raise SourceError(path, item.code, item.message)
            yield item
            return
        try:
            files = list(_messages_of(path))
        except OSError as error:
            raise SourceError(path, "unreadable", f"a folder cannot be listed ({error.strerror}); check its permissions") from error
        for one in files:
            yield _read_file(one, one.relative_to(path).as_posix(), options)
        if not files:
            raise SourceError(path, "no_messages", "the folder holds no message; expected .eml files, or cur/ and new/ of a Maildir")


def _read_file(path: Path, locator: str, options: ReadOptions) -> Item:
    try:
        raw = path.read_bytes()
    except OSError as error:
        return ReadError(locator, "unreadable", f"cannot be read ({error.strerror}); check its permissions")
    if not raw.strip():
        return ReadError(locator, "empty_file", "the file is empty")
    return read_mail(raw.removeprefix(_BOM).lstrip(b"\r\n"), options.own_addresses, locator)


READER = EmlReader()
