"""The event log: append-only, many writers, nothing lost and nothing doubled."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest

from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.events import Interaction, InvalidEvent, Mode, SessionEnded, TransactionContext
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.errors import StoreError, StoreLocked

from .world import NOON

WRITERS, EACH = 8, 1_000


def interaction(session: str = "s", uid: str = "", second: int = 0) -> NewEvent:
    at = NOON + timedelta(seconds=second)
    return NewEvent(Interaction(mode=Mode.TASK), at, TransactionContext(transaction_id="t", trigger="agent", session_id=session, at=at), uid)


def write_many(path: Path, writer: int) -> None:
    with EventLog(path) as log:
        for n in range(EACH):
            log.append(interaction(f"w{writer}", f"w{writer}-{n}", n), durable=n % 50 == 0)


def write_for_ever(path: Path, told: Path) -> None:
    with EventLog(path) as log, told.open("w") as out:
        for n in range(1_000_000):
            log.append(interaction("w", f"w-{n}"), interaction("w", f"w-{n}-twin"))
            out.write(f"{n}\n")
            out.flush()


def test_eight_processes_at_once_lose_nothing_double_nothing_and_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "events.db"  # does not exist yet: all eight also create it at once
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=write_many, args=(path, writer)) for writer in range(WRITERS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * WRITERS
    with EventLog(path) as log:
        events = log.read()
    assert [event.id for event in events] == list(range(1, WRITERS * EACH + 1))
    order = defaultdict(list)
    for event in events:
        order[event.session_id].append(event.uid)
    assert order == {f"w{writer}": [f"w{writer}-{n}" for n in range(EACH)] for writer in range(WRITERS)}


def test_a_writer_killed_in_the_middle_leaves_all_it_was_told_and_no_half_append(tmp_path: Path) -> None:
    path, told = tmp_path / "events.db", tmp_path / "told"
    process = multiprocessing.get_context("spawn").Process(target=write_for_ever, args=(path, told))
    process.start()
    while not told.exists() or told.read_text().count("\n") < 50:
        process.join(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    confirmed = told.read_text().count("\n")
    with EventLog(path) as log:
        uids = [event.uid for event in log.read()]
        log.append(interaction("next"))
    assert len(uids) % 2 == 0
    assert len(uids) // 2 in (confirmed, confirmed + 1)


def test_a_uid_is_written_once(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.db") as log:
        assert log.append(interaction(uid="a"), interaction(uid="b")) == [1, 2]
        assert log.append(interaction(uid="b"), interaction(uid="c")) == [2, 3]
        assert [event.uid for event in log.read()] == ["a", "b", "c"]


def test_an_append_is_all_or_none(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.db") as log:
        nobody = NewEvent(SessionEnded(cause="CRASH"), NOON, TransactionContext(transaction_id="t", trigger="agent", at=NOON))
        with pytest.raises(InvalidEvent, match="must name its session"):
            log.append(interaction(), nobody)
        assert log.last_id() == 0


@pytest.mark.parametrize("statement", ["DELETE FROM events", "UPDATE events SET payload = '{}'"])
def test_nothing_written_can_be_changed(tmp_path: Path, statement: str) -> None:
    with EventLog(tmp_path / "events.db") as log:
        log.append(interaction())
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        sqlite3.connect(tmp_path / "events.db").execute(statement)


def test_reading_by_cursor_kind_and_limit(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.db") as log:
        client.session_start(log, "s", NOON, instance_id="desk")
        client.activity(log, "s", NOON, "TASK")
        client.activity(log, "s", NOON, "IDLE")
        assert [e.id for e in log.read(after=1)] == [2, 3]
        assert [e.id for e in log.read(kinds=["Interaction"], limit=1)] == [2]
        assert [e.id for e in log.read(upto=2)] == [1, 2]
        assert [e.id for e in log.get([3, 1, 99])] == [1, 3]
        event = log.read(limit=1)[0]
        assert (event.at, event.session_id, event.transaction.trigger) == (NOON, "s", "agent")


def test_a_log_of_a_newer_version_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    EventLog(tmp_path / "events.db").close()
    with sqlite3.connect(tmp_path / "events.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="schema version 99"):
        EventLog(tmp_path / "events.db")
    (tmp_path / "other.db").write_bytes(b"no database at all, but long enough to look like one" * 40)
    with pytest.raises(StoreError, match=r"other\.db cannot be used"):
        EventLog(tmp_path / "other.db")


def test_a_writer_that_waits_too_long_says_who_holds_the_log(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.db", lock_seconds=0.05) as log:
        holder = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked, match="held by another process"):
            log.append(interaction())
        holder.execute("ROLLBACK")
        assert log.append(interaction()) == [1]


def test_the_write_side_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys, subconscious_pipeline.caretaker.client, subconscious_pipeline.caretaker.notifications, subconscious_pipeline.caretaker.tick;"
        "print([m for m in ('duckdb', 'polars', 'pyarrow', 'dagster', 'openai', 'instructor') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
