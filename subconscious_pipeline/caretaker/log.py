"""The event log, `events.db`: append-only, any number of writing processes, ids in the order of arrival.

SQLite in WAL mode, every append one transaction. It knows nothing of what events mean; the saved fold is a cache that
may be thrown away at any time. Standard library and pydantic only.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from uuid import uuid4

from filelock import FileLock
from pydantic import ValidationError

from subconscious_pipeline.caretaker.events import KINDS, InvalidEvent, Payload, TransactionContext
from subconscious_pipeline.errors import StoreError, StoreLocked
from subconscious_pipeline.instants import from_micros, to_micros

SCHEMA_VERSION = 1
_DDL = f"""
BEGIN IMMEDIATE;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL,
    session_id TEXT, transaction_id TEXT NOT NULL, causation_id INTEGER, trigger TEXT NOT NULL, begun_at INTEGER NOT NULL, payload TEXT NOT NULL);
CREATE INDEX events_by_kind ON events (kind, id);
CREATE TRIGGER events_keep_rows BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER events_keep_values BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TABLE saved_fold (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), version INTEGER NOT NULL, last_id INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE last_tick (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), at INTEGER NOT NULL);
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_COLUMNS = "id, uid, at, kind, version, session_id, transaction_id, causation_id, trigger, begun_at, payload"
_INSERT = f"INSERT INTO events ({_COLUMNS.removeprefix('id, ')}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uid) DO NOTHING"


@dataclass(frozen=True)
class NewEvent:
    """An event to append. `uid` is the writer's own key: an event with a uid the log already holds is not written again."""

    payload: Payload
    at: datetime  # aware
    transaction: TransactionContext  # its session is the event's
    uid: str = ""  # empty: a fresh one


class Event(NamedTuple):
    """One row of the log. `micros` and `begun_micros` count from the epoch, UTC; `body` is the payload's JSON."""

    id: int
    uid: str
    micros: int
    kind: str
    version: int
    session_id: str | None
    transaction_id: str
    causation_id: int | None
    trigger: str
    begun_micros: int
    body: str

    @property
    def at(self) -> datetime:
        """When it happened, by its writer's clock (aware UTC)."""
        return from_micros(self.micros)

    @property
    def transaction(self) -> TransactionContext:
        """The transaction it belongs to."""
        return TransactionContext(
            transaction_id=self.transaction_id,
            causation_id=self.causation_id,
            trigger=self.trigger,
            session_id=self.session_id,
            at=from_micros(self.begun_micros),
        )

    def payload(self) -> Payload:
        """The typed payload.

        Raises:
            InvalidEvent: when another program wrote what this version cannot read.
        """
        try:
            if not self.session_id and KINDS[self.kind].of_session:
                raise InvalidEvent(f"event {self.id}: a {self.kind} must name its session")
            return _parsed(self.kind, self.version, self.body)
        except KeyError:
            raise InvalidEvent(f"event {self.id}: kind {self.kind} version {self.version} is unknown here; a newer writer was at work") from None
        except ValidationError:
            raise InvalidEvent(f"event {self.id}: the payload is no valid {self.kind}") from None


@lru_cache(maxsize=64)
def _parsed(kind: str, version: int, body: str) -> Payload:
    # Payloads are immutable, and the bulk of a log is heartbeats with three different bodies.
    model = KINDS[kind]
    if version > model.version:
        raise KeyError(kind)
    return model.model_validate_json(body)


class EventLog:
    """One connection to a home's log; open one a process, use it in the thread that opened it, close it.

    Args:
        path: `Home.events`; made with its schema when it does not exist.
        lock_seconds: how long a writer waits for the others.

    Raises:
        StoreError: when the file is no event log, or one of a newer version.
        StoreLocked: when the others do not let go.
    """

    def __init__(self, path: Path, lock_seconds: float = 60.0) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=lock_seconds, isolation_level=None)
        try:
            with self._translated():
                self._prepare(lock_seconds)
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, lock_seconds: float) -> None:
        version = self._user_version()
        if version == 0:
            # Only one process may switch a new file to WAL: SQLite does not wait for others there.
            with FileLock(self.path.with_name(f".{self.path.stem}.lock"), timeout=lock_seconds):
                version = self._user_version()
                if version == 0:
                    self._db.execute("PRAGMA journal_mode = WAL")
                    self._db.executescript(_DDL)
                    version = SCHEMA_VERSION
        if version != SCHEMA_VERSION:
            raise StoreError(f"{self.path.name} has schema version {version}, this program knows {SCHEMA_VERSION}; update subconscious-pipeline")

    def _user_version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise StoreLocked(f"{self.path.name} is being created by another process that does not finish; see `subconscious doctor`") from None
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreLocked(f"{self.path.name} is held by another process; try again, or see `subconscious doctor`") from None
            raise StoreError(f"{self.path.name}: {error.sqlite_errorname}; see `subconscious doctor`") from None
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path.name} cannot be used as an event log ({error.sqlite_errorname}); see `subconscious doctor`") from None

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def append(self, *events: NewEvent, durable: bool = True) -> list[int]:
        """Write events in one transaction, all or none; returns their ids in order.

        An event whose uid is already in the log is left as it stands, and its id is returned: appending again after an
        uncertain end doubles nothing. No death of a process loses what was appended. `durable` makes it, and all before it,
        outlast a power cut too, for the price of a disk flush; do without for heartbeats only.

        Raises:
            StoreLocked: nothing was written.
        """
        rows = [_row(event) for event in events]
        ids: list[int] = []
        with self._translated():
            self._db.execute("PRAGMA synchronous = FULL" if durable else "PRAGMA synchronous = NORMAL")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    cursor = self._db.execute(_INSERT, row)
                    if cursor.rowcount == 1 and cursor.lastrowid is not None:
                        ids.append(cursor.lastrowid)
                    else:
                        ids.append(int(self._db.execute("SELECT id FROM events WHERE uid = ?", row[:1]).fetchone()[0]))
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        return ids

    def read(self, after: int = 0, kinds: Sequence[str] = (), limit: int | None = None, upto: int | None = None) -> list[Event]:
        """Events with an id above `after` (and at most `upto`), in order; of some kinds only; at most `limit`."""
        conditions, values = ["id > ?"], [after]
        if upto is not None:
            conditions.append("id <= ?")
            values.append(upto)
        if kinds:
            conditions.append("kind IN (SELECT value FROM json_each(?))")
        query = f"SELECT {_COLUMNS} FROM events WHERE {' AND '.join(conditions)} ORDER BY id LIMIT ?"
        with self._translated():
            rows = self._db.execute(query, [*values, *([json.dumps(list(kinds))] if kinds else []), -1 if limit is None else limit]).fetchall()
        return list(map(Event._make, rows))

    def stream(self, after: int = 0) -> Iterator[Event]:
        """All events with an id above `after`, in order, one at a time: for reading a long log without holding it in memory."""
        with self._translated():
            yield from map(Event._make, self._db.execute(f"SELECT {_COLUMNS} FROM events WHERE id > ? ORDER BY id", [after]))

    def get(self, ids: Iterable[int]) -> list[Event]:
        """The events with these ids, in order; ids the log does not hold are left out."""
        query = f"SELECT {_COLUMNS} FROM events WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        with self._translated():
            return list(map(Event._make, self._db.execute(query, [json.dumps(list(ids))]).fetchall()))

    def last_id(self) -> int:
        """The id of the newest event, 0 for an empty log; a cursor for `read`."""
        with self._translated():
            return int(self._db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])

    def load_fold(self, version: int) -> bytes | None:
        """The saved fold of this version, if there is one."""
        with self._translated():
            row = self._db.execute("SELECT state FROM saved_fold WHERE version = ?", [version]).fetchone()
        return None if row is None else bytes(row[0])

    def save_fold(self, version: int, last_id: int, state: bytes) -> None:
        """Keep the fold of all events up to `last_id`; an older one never replaces a newer one of the same version."""
        query = """INSERT INTO saved_fold VALUES (1, ?, ?, ?) ON CONFLICT (only_row) DO UPDATE
                   SET version = excluded.version, last_id = excluded.last_id, state = excluded.state
                   WHERE saved_fold.version <> excluded.version OR saved_fold.last_id < excluded.last_id"""
        with self._translated():
            self._db.execute(query, [version, last_id, state])

    def mark_tick(self, at: datetime) -> None:
        """Remember that the caretaker looked at `at` (aware UTC); no event, as most looks find nothing to do."""
        with self._translated():
            self._db.execute("INSERT INTO last_tick VALUES (1, ?) ON CONFLICT (only_row) DO UPDATE SET at = excluded.at", [to_micros(at)])

    def last_tick(self) -> datetime | None:
        """When the caretaker last looked, None when it never did."""
        with self._translated():
            row = self._db.execute("SELECT at FROM last_tick").fetchone()
        return None if row is None else from_micros(row[0])

    def drop_fold(self) -> None:
        """Throw the saved fold away; the next reader rebuilds it from the events."""
        with self._translated():
            self._db.execute("DELETE FROM saved_fold")


def _row(event: NewEvent) -> tuple[str | int | None, ...]:
    kind = type(event.payload).__name__
    if kind not in KINDS:
        raise InvalidEvent(f"{kind} is no kind of event")
    if event.payload.of_session and not event.transaction.session_id:
        raise InvalidEvent(f"a {kind} must name its session")
    t = event.transaction
    return (
        event.uid or uuid4().hex,
        to_micros(event.at),
        kind,
        event.payload.version,
        t.session_id,
        t.transaction_id,
        t.causation_id,
        t.trigger,
        to_micros(t.at),
        event.payload.model_dump_json(),
    )
