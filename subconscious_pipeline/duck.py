"""Opening the two DuckDB files: one writer at a time behind a lock file, readers that wait their turn, UTC everywhere.

DuckDB lets no second process even read a file that is open for writing, so everything here opens late and closes early.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
from filelock import FileLock, Timeout

from subconscious_pipeline.errors import ConfigError, StoreError, StoreLocked

_LOCKED = ("Could not set lock", "different configuration", "Conflicting lock", "being used by another process")


def _open(path: Path, read_only: bool, seconds: float) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + seconds
    pause = 0.01
    while True:
        try:
            con = duckdb.connect(str(path), read_only=read_only)
        except duckdb.Error as error:
            if not any(mark in str(error) for mark in _LOCKED):
                raise StoreError(f"{path} cannot be opened as a DuckDB file; move it away and run again, it will be rebuilt") from None
            if time.monotonic() > deadline:
                raise StoreLocked(f"{path} is in use by another process and was not released within {seconds:g} s; try again") from None
            time.sleep(pause)
            pause = min(pause * 2, 0.5)
        else:
            # A progress bar would be drawn on standard output, in the midst of JSON.
            con.execute("SET TimeZone='UTC'; SET preserve_insertion_order=true; SET enable_progress_bar=false")
            if not read_only:
                con.execute("SET checkpoint_threshold='1MB'")  # a large commit goes to the file at once, not to the log and then to the file
            return con


def _migrate(con: duckdb.DuckDBPyConnection, path: Path, migrations: Sequence[str]) -> None:
    con.execute("CREATE TABLE IF NOT EXISTS meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)")
    version = _version(con)
    if version > len(migrations):
        raise _too_new(path, version, migrations)
    for script in migrations[version:]:
        con.execute(script)
    if version < len(migrations):
        con.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", [str(len(migrations))])


@contextmanager
def writing(path: Path, lock: Path, migrations: Sequence[str], seconds: float = 60.0) -> Iterator[duckdb.DuckDBPyConnection]:
    """One write transaction: lock, open, migrate, yield; commit at the end, roll back on any exception, close.

    Raises:
        StoreLocked: when the lock or the file is not free within `seconds`.
        StoreError: when the file is no database or was written by a newer version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=seconds):
            con = _open(path, read_only=False, seconds=seconds)
            try:
                # Closing rolls back whatever has not been committed.
                con.execute("BEGIN")
                _migrate(con, path, migrations)
                yield con
                con.execute("COMMIT")
            finally:
                con.close()
    except Timeout:
        raise StoreLocked(f"{lock} was not released within {seconds:g} s; is another run still writing? try again") from None


@contextmanager
def reading(path: Path, migrations: Sequence[str], seconds: float = 30.0) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection. A file that does not exist yet (or that a killed first write left blank) reads as an empty store.

    A store of an older schema is migrated first.

    Raises:
        StoreLocked: when a writer keeps the file longer than `seconds`.
        StoreError: when the file is no database, or was written by a newer version.
    """
    con = _open(path, read_only=True, seconds=seconds) if path.exists() else None
    version = _version(con) if con else 0
    if con and 0 < version < len(migrations):
        con.close()
        with writing(path, path.with_name(f".{path.stem}.lock"), migrations, seconds):
            pass
        con = _open(path, read_only=True, seconds=seconds)
    elif con is None or version == 0:
        if con:
            con.close()
        con = duckdb.connect(":memory:")
        con.execute("SET TimeZone='UTC'")
        _migrate(con, path, migrations)
    try:
        if version > len(migrations):
            raise _too_new(path, version, migrations)
        yield con
    finally:
        con.close()


def _version(con: duckdb.DuckDBPyConnection) -> int:
    if con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'meta'").fetchone() != (1,):
        return 0
    row = con.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    return int(row[0]) if row else 0


def _too_new(path: Path, version: int, migrations: Sequence[str]) -> StoreError:
    return StoreError(f"{path} has schema version {version}, newer than this program knows ({len(migrations)}); update the program")


def check_window_hours(con: duckdb.DuckDBPyConnection, hours: int, keep: bool = False) -> None:
    """Refuse a store whose windows have another size than the settings ask for; with `keep`, record the size where none is yet.

    Raises:
        ConfigError: says how to go on.
    """
    row = con.execute("SELECT value FROM meta WHERE key = 'window_hours'").fetchone()
    if row and int(row[0]) != hours:
        raise ConfigError(
            f"this home has windows of {row[0]} hours, the settings ask for {hours}: set SUBCONSCIOUS_WINDOW_HOURS={row[0]}, "
            "or index anew in a fresh home (copy sources/ and sources.yaml there and run `subconscious run --home NEW`)"
        )
    if keep and not row:
        con.execute("INSERT INTO meta VALUES ('window_hours', ?)", [str(hours)])
