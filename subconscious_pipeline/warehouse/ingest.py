"""Everything new into the warehouse: find the files, skip the unchanged ones, read, mark noise, load in batches, keep the ledger.

Files are parsed before the warehouse is opened, so that the store is held only for the moment of writing.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import polars as pl

from subconscious_pipeline import duck
from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import to_micros
from subconscious_pipeline.readers import registry
from subconscious_pipeline.readers.base import EXCERPT_CHARS, EmailRecord, EventRecord, Item, MessageRecord, ReadError, ReadOptions, Record
from subconscious_pipeline.readers.sources import SourceFile, source_files
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse import load, windows
from subconscious_pipeline.warehouse.frames import frame
from subconscious_pipeline.warehouse.noise import NoiseRules, mark_emails, mark_events, mark_messages
from subconscious_pipeline.warehouse.schema import MIGRATIONS

logger = logging.getLogger(__name__)

CHUNK_ITEMS = 50_000
BATCH_RECORDS = 100_000
BATCH_FILES = 500
SOURCE_DOWN = frozenset({"missing", "unreadable"})  # may be back next time: tried again at every run
_MARKERS: dict[type[Record], Callable[[pl.DataFrame, NoiseRules], pl.DataFrame]] = {
    MessageRecord: mark_messages,
    EmailRecord: mark_emails,
    EventRecord: mark_events,
}


@dataclass(frozen=True)
class FileReport:
    """What became of one file."""

    source_id: str
    path: str
    reader: str
    records: int = 0
    errors: tuple[ReadError, ...] = ()
    skipped: bool = False  # unchanged since the last time

    @property
    def lost(self) -> int:
        """Items that were quarantined (warnings lose nothing)."""
        return sum(not error.warning for error in self.errors)


@dataclass(frozen=True)
class IngestReport:
    """What one ingest did."""

    files: tuple[FileReport, ...]
    new: int
    updated: int
    windows: int  # windows whose content may have changed


Progress = Callable[[str, int], None]  # (path as shown, records read from it so far)


@dataclass
class _Parsed:
    """One file, read and shaped, waiting to be loaded."""

    file: SourceFile
    fingerprint: str
    reader: str = ""
    frames: dict[type[Record], list[pl.DataFrame]] = field(default_factory=dict)
    errors: list[ReadError] = field(default_factory=list)
    records: int = 0
    whole: bool = False  # read to its end
    reconfigured: bool = False  # read before under another zone, date order or reader

    def report(self) -> FileReport:
        return FileReport(self.file.config.id, self.file.shown, self.reader, self.records, tuple(self.errors))


def read_options(file: SourceFile, settings: Settings, as_of: datetime) -> ReadOptions:
    """What a reader is told about this file: its own configuration first, the home's second."""
    config = file.config
    return ReadOptions(
        zone=ZoneInfo(config.timezone) if config.timezone else settings.zone,
        zone_configured=bool(config.timezone or settings.timezone),
        date_order=config.date_order or settings.date_order,
        own_addresses=frozenset(a.casefold() for a in (*settings.own_addresses, *config.own_addresses)),
        expand_until=to_micros(as_of + timedelta(days=settings.calendar_horizon_days)),
    )


def noise_rules(file: SourceFile, settings: Settings) -> NoiseRules:
    """Whose rows of this file are noise."""
    return NoiseRules(
        ignored_authors=frozenset((*settings.ignored_authors, *file.config.ignored_authors)),
        agent_names=frozenset(settings.agent_names),
        own_addresses=frozenset((*settings.own_addresses, *file.config.own_addresses)),
    )


def fingerprint(file: SourceFile, settings: Settings) -> str:
    """Changes when the file's bytes may have changed (sizes and modification times) or when it would be read differently.

    Two parts with a dash between: how the file is read, and what it is.
    """
    config = file.config
    how = hashlib.blake2b(digest_size=8)
    how.update(repr((config.reader, config.timezone or settings.timezone, config.date_order or settings.date_order)).encode())
    what = hashlib.blake2b(digest_size=16)
    for name, size, modified in sorted(_stats(file.path)):
        what.update(f"{name}\0{size}\0{modified}\n".encode("utf-8", "surrogateescape"))
    return f"{how.hexdigest()}-{what.hexdigest()}"


def _stats(path: Path) -> Iterator[tuple[str, int, int]]:
    stack = [str(path)]
    base = len(stack[0])  # names inside it only: a home that was moved is not read again
    while stack:
        at = stack.pop()
        try:
            if Path(at).is_dir():
                with os.scandir(at) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            stack.append(entry.path)
                        else:
                            stat = entry.stat()
                            yield entry.path[base:], stat.st_size, stat.st_mtime_ns
            else:
                stat = Path(at).stat()
                yield at[base:], stat.st_size, stat.st_mtime_ns
        except OSError as error:
            yield at[base:], -1, error.errno or -1  # the reader will say what is wrong with it


def parse(
    path: Path, options: ReadOptions, rules: NoiseRules, reader: str | None = None
) -> Iterator[tuple[str, list[Item], dict[type[Record], pl.DataFrame]]]:
    """A file in chunks: the reader's name, the items as read, and their records as frames with noise marked.

    Raises:
        SourceError: when the file as a whole cannot be read.
    """
    name, items = registry.read(path, options, reader)
    ordinal = 0
    while chunk := _take(items):
        frames = {}
        for kind, marker in _MARKERS.items():
            records = [item for item in chunk if type(item) is kind]
            if records:
                marked = marker(frame(kind, records), rules)
                frames[kind] = marked.with_columns(pl.int_range(ordinal, ordinal + len(records), dtype=pl.Int64).alias("ordinal"))
                ordinal += len(records)
        yield name, chunk, frames


def _take(items: Iterator[Item]) -> list[Item]:
    """The next chunk. Records hold no references to each other, so the cyclic garbage collector could only cost time here (a third)."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return list(islice(items, CHUNK_ITEMS))
    finally:
        if collecting:
            gc.enable()


def _parse_file(file: SourceFile, mark: str, settings: Settings, as_of: datetime, progress: Progress) -> _Parsed:
    parsed = _Parsed(file, mark, file.config.reader or "")
    try:
        options = read_options(file, settings, as_of)
        for name, items, frames in parse(file.path, options, noise_rules(file, settings), file.config.reader):
            parsed.reader = name
            parsed.errors.extend(item for item in items if isinstance(item, ReadError))
            for kind, records in frames.items():
                labelled = records.with_columns(
                    pl.lit(file.config.id).alias("source_id"), pl.lit(file.file_id).alias("file_id"), pl.lit(options.zone.key).alias("zone")
                )
                parsed.frames.setdefault(kind, []).append(labelled)
                parsed.records += len(records)
            progress(file.shown, parsed.records)
        parsed.whole = True
    except SourceError as error:
        parsed.errors.append(ReadError(error.locator, error.code, error.message))
        if error.code in SOURCE_DOWN:
            parsed.fingerprint = ""
    except Exception as error:  # noqa: BLE001 - a defect met in one file must not cost the others
        logger.error("%s could not be read: %s", file.shown, type(error).__name__)
        message = f"could not be read because of a defect in this program ({type(error).__name__}); what came before it is kept, please report it"
        parsed.errors.append(ReadError("file", "internal", message))
    return parsed


def ingest(home: Home, settings: Settings, as_of: datetime, progress: Progress = lambda _path, _records: None) -> IngestReport:
    """Read every new or changed source file into the warehouse. Idempotent.

    Args:
        as_of: the instant of this run; dates nothing but the ledger, and calendar changes that carry no stamp of their own.
        progress: called while reading, with the path and the number of its records so far.

    Raises:
        ConfigError: when `sources.yaml` is wrong, or the home has windows of another size.
        StoreLocked: when the warehouse stays in use.
    """
    files = source_files(home, settings)
    known = _ledger(home, settings)
    reports: list[FileReport] = []
    batch: list[_Parsed] = []
    totals = [0, 0, 0]

    def flush() -> None:
        if batch:
            for position, value in enumerate(_write(home, settings, as_of, batch)):
                totals[position] += value
            reports.extend(parsed.report() for parsed in batch)
            batch.clear()

    for file in files:
        mark = fingerprint(file, settings)
        former = known.get(file.file_id, "")
        if former == mark:
            reports.append(FileReport(file.config.id, file.shown, "", skipped=True))
            continue
        progress(file.shown, 0)
        parsed = _parse_file(file, mark, settings, as_of, progress)
        parsed.reconfigured = former != "" and former.partition("-")[0] != mark.partition("-")[0]
        batch.append(parsed)
        if len(batch) >= BATCH_FILES or sum(parsed.records for parsed in batch) >= BATCH_RECORDS:
            flush()
    flush()
    _forget_lost(home, settings, files)
    return IngestReport(tuple(reports), *totals)


def _ledger(home: Home, settings: Settings) -> dict[str, str]:
    if not home.warehouse.exists():
        return {}
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds) as con:
        duck.check_window_hours(con, settings.window_hours)
        return dict(con.execute("SELECT file_id, fingerprint FROM ingested_files").fetchall())


def _forget_lost(home: Home, settings: Settings, files: Sequence[SourceFile]) -> None:
    """Drop the complaint that a file is missing or unreadable once nobody asks for that file any more."""
    if not home.warehouse.exists():
        return
    asked = {file.file_id for file in files}
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds) as con:
        down = {row[0] for row in con.execute("SELECT file_id FROM ingested_files WHERE fingerprint = ''").fetchall()}
    if lost := sorted(down - asked):
        with duck.writing(home.warehouse, home.lock("warehouse"), MIGRATIONS, settings.lock_seconds) as con:
            con.execute("DELETE FROM ingest_errors WHERE file_id IN (SELECT unnest(?))", [lost])


def _write(home: Home, settings: Settings, as_of: datetime, batch: list[_Parsed]) -> tuple[int, int, int]:
    with duck.writing(home.warehouse, home.lock("warehouse"), MIGRATIONS, settings.lock_seconds) as con:
        duck.check_window_hours(con, settings.window_hours, keep=True)
        load.begin(con)
        load.withdraw(con, [parsed.file.file_id for parsed in batch if parsed.reconfigured and parsed.whole])
        by_kind: dict[type[Record], list[pl.DataFrame]] = {}
        for parsed in batch:
            for kind, frames in parsed.frames.items():
                by_kind.setdefault(kind, []).extend(frames)
        loaded = []
        if MessageRecord in by_kind:
            loaded.append(load.load_messages(con, by_kind[MessageRecord]))
        if EmailRecord in by_kind:
            loaded.append(load.load_emails(con, by_kind[EmailRecord]))
        if EventRecord in by_kind:
            loaded.append(load.load_events(con, by_kind[EventRecord], as_of))
        touched = windows.refresh(con, settings.window_hours)
        _keep_ledger(con, batch, as_of)
        return sum(item.new for item in loaded), sum(item.updated for item in loaded), touched


def _keep_ledger(con: duckdb.DuckDBPyConnection, batch: list[_Parsed], as_of: datetime) -> None:
    files = pl.DataFrame(
        {
            "file_id": [parsed.file.file_id for parsed in batch],
            "source_id": [parsed.file.config.id for parsed in batch],
            "path": [parsed.file.shown for parsed in batch],
            "fingerprint": [parsed.fingerprint for parsed in batch],
            "reader": [parsed.reader for parsed in batch],
            "rows": [parsed.records for parsed in batch],
            "errors": [sum(not error.warning for error in parsed.errors) for parsed in batch],
        }
    )
    errors = frame(ReadError, [error for parsed in batch for error in parsed.errors]).with_columns(
        pl.Series("file_id", [parsed.file.file_id for parsed in batch for _ in parsed.errors], dtype=pl.String),
        pl.col("excerpt").str.slice(0, EXCERPT_CHARS),
    )
    con.register("read_files", files.to_arrow())
    con.register("read_errors", errors.to_arrow())
    # Of a source that is down, the count of what it once gave stands.
    con.execute(
        """
        INSERT INTO ingested_files SELECT *, ?::TIMESTAMPTZ FROM read_files
        ON CONFLICT DO UPDATE SET fingerprint = excluded.fingerprint, ingested_at = excluded.ingested_at, errors = excluded.errors,
            reader = CASE WHEN excluded.reader = '' THEN ingested_files.reader ELSE excluded.reader END,
            "rows" = CASE WHEN excluded.fingerprint = '' THEN ingested_files."rows" ELSE excluded."rows" END""",
        [as_of],
    )
    con.execute("DELETE FROM ingest_errors WHERE file_id IN (SELECT file_id FROM read_files)")
    con.execute("INSERT INTO ingest_errors SELECT file_id, locator, code, message, excerpt, warning FROM read_errors")
    con.unregister("read_files")
    con.unregister("read_errors")
