"""What a reader makes of one path: records with the noise that ingest would mark, and what it would set aside. Stores nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import from_micros, iso_z
from subconscious_pipeline.readers.base import EmailRecord, EventRecord, Item, MessageRecord, ReadError, Record
from subconscious_pipeline.readers.sources import SourceConfig, SourceFile, load_sources, source_files
from subconscious_pipeline.settings import DateOrder, Settings
from subconscious_pipeline.warehouse.ingest import noise_rules, parse, read_options

_INSTANTS = frozenset({"sent_at", "edited_at", "end_at", "start_at", "changed_at"})
_SAID_OTHERWISE = {
    MessageRecord: frozenset({"sent_at"}),
    EmailRecord: frozenset({"sent_at"}),
    EventRecord: frozenset({"start_at"}),
}


@dataclass(frozen=True)
class Inspection:
    """The outcome for one path."""

    reader: str  # "" when no reader took it
    records: tuple[dict[str, Any], ...]  # see `as_record`
    errors: tuple[ReadError, ...]
    unreadable: bool  # the file as a whole could not be read (to its end)

    @property
    def noise(self) -> Counter[str]:
        """How many records each reason marks as noise."""
        return Counter(reason for record in self.records for reason in record["noise"])

    def as_json(self) -> dict[str, Any]:
        """The shape of `subconscious inspect --json`."""
        return {"reader": self.reader, "records": list(self.records), "errors": [msgspec.structs.asdict(error) for error in self.errors]}


def as_record(item: Record, noise: list[str]) -> dict[str, Any]:
    """One record in the common shape (source_type, source_ref, native_id, author, kind, at, text, noise), then every field of its own.

    `at` is the start of an event, and None for a mail without any date. Instants are ISO 8601 UTC with Z.
    """
    shared: tuple[str, str | None, str | None, str, int | None, str]
    match item:
        case MessageRecord():
            shared = (item.source_type, item.native_id, item.author or item.author_id, item.kind, item.sent_at, item.text)
        case EmailRecord():
            author = f"{item.from_name} <{item.from_addr}>" if item.from_name else item.from_addr
            shared = ("email", item.source_ref, author, item.kind, item.sent_at, item.body_new)
        case EventRecord():
            shared = ("calendar", item.source_ref, item.organizer, "event", item.start_at, item.summary)
    source_type, native_id, author_shown, kind, at, text = shared
    common = {
        "source_type": source_type,
        "source_ref": item.source_ref,
        "native_id": native_id,
        "author": author_shown,
        "kind": kind,
        "at": None if at is None else iso_z(from_micros(at)),
        "text": text,
        "noise": noise,
    }
    own = {
        name: iso_z(from_micros(value)) if name in _INSTANTS and value is not None else value
        for name, value in msgspec.structs.asdict(item).items()
        if name not in common and name not in _SAID_OTHERWISE[type(item)]
    }
    return {**common, **own}


def source_file(home: Home, settings: Settings, path: Path, reader: str | None, timezone: str | None, date_order: DateOrder | None) -> SourceFile:
    """A path as a source: under the entry of the home's `sources.yaml` that names it, if any does; what is given here comes first.

    Raises:
        ConfigError: when `sources.yaml` is wrong.
    """
    wanted = path.resolve()
    configs = load_sources(home) and [file.config for file in source_files(home, settings) if file.path.resolve() == wanted]
    config = configs[0] if configs else SourceConfig(id="inspected", path=str(path))
    told = {"reader": reader, "timezone": timezone, "date_order": date_order}
    return SourceFile(config.model_copy(update={name: value for name, value in told.items() if value}), path, str(path))


def inspect(file: SourceFile, settings: Settings, as_of: datetime) -> Inspection:
    """Read one path as ingest would.

    Args:
        file: from `source_file`.
        settings: zone, date order and noise where the source says nothing.
        as_of: how far recurring events are expanded depends on it.

    Raises:
        ConfigError: when there is no such reader.
    """
    reader = file.config.reader
    chosen = reader or ""
    records: list[dict[str, Any]] = []
    errors: list[ReadError] = []
    unreadable = False
    try:
        for name, items, frames in parse(file.path, read_options(file, settings, as_of), noise_rules(file, settings), reader):
            chosen = name
            marks = {kind: iter(frame["noise"].to_list()) for kind, frame in frames.items()}
            errors.extend(item for item in items if isinstance(item, ReadError))
            records.extend(as_record(item, next(marks[type(item)])) for item in _records(items))
    except SourceError as error:
        unreadable = True
        errors.append(ReadError(error.locator, error.code, error.message))
    return Inspection(chosen, tuple(records), tuple(errors), unreadable)


def _records(items: list[Item]) -> Iterator[Record]:
    return (item for item in items if not isinstance(item, ReadError))
