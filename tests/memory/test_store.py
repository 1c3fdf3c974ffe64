"""Two processes, one file: writers wait for each other, readers wait for writers, and a killed writer blocks nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from place import Place

from subconscious_pipeline import duck
from subconscious_pipeline.errors import StoreError, StoreLocked
from subconscious_pipeline.memory import store
from subconscious_pipeline.settings import load_settings

# Says "in" inside its transaction, and goes on when it is told to.
WRITER = """
import sys
from pathlib import Path
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import store
from subconscious_pipeline.settings import load_settings
with store.writing(Home(Path(sys.argv[1])), load_settings(lock_seconds=60.0)) as con:
    con.execute("INSERT INTO accesses VALUES (?, TIMESTAMPTZ '2026-04-01 00:00:00+00', NULL)", [int(sys.argv[2])])
    print("in", flush=True)
    sys.stdin.readline()
"""


def writer(place: Place, number: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(place.home.root), str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def let_go(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


def accesses(place: Place) -> list[int]:
    return [row[0] for row in place.memory("SELECT concept_id FROM accesses ORDER BY 1")]


def test_two_processes_that_write_at_the_same_time_both_succeed(place: Place) -> None:
    first, second = writer(place, 1), writer(place, 2)
    for process in (first, second):
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert accesses(place) == [1, 2]


def test_a_reader_during_a_write_waits_and_sees_all_of_it(place: Place) -> None:
    process = writer(place, 1)
    assert process.stdout
    assert process.stdout.readline() == "in\n"
    reader = subprocess.Popen(
        [sys.executable, "-c", "import sys; from place import *\nprint(Place(Path(sys.argv[1]), Settings()).memory('SELECT count(*) FROM accesses'))",
         str(place.home.root)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with pytest.raises(StoreLocked, match="in use by another process"), duck.reading(place.home.memory, store.MIGRATIONS, 0.05):
        pass
    assert reader.poll() is None
    let_go(process)
    assert reader.communicate(timeout=60)[0] == "[(1,)]\n"


def test_a_writer_that_cannot_get_the_lock_says_so(place: Place) -> None:
    place.settings = load_settings(lock_seconds=0.05)
    process = writer(place, 1)
    assert process.stdout
    process.stdout.readline()
    with pytest.raises(StoreLocked, match="still writing"):
        place.write_memory("SELECT 1")
    let_go(process)


def test_a_killed_writer_leaves_the_lock_free_and_nothing_half_done(place: Place) -> None:
    process = writer(place, 1)
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert accesses(place) == []
    place.write_memory("INSERT INTO accesses VALUES (2, TIMESTAMPTZ '2026-04-01 00:00:00+00', NULL)")
    assert accesses(place) == [2]


def test_an_exception_rolls_everything_back_and_comes_through_as_it_is(place: Place) -> None:
    place.write_memory("SELECT 1")
    with pytest.raises(duckdb.ConstraintException):
        place.write_memory("INSERT INTO accesses VALUES (1, TIMESTAMPTZ '2026-04-01 00:00:00+00', NULL)", "INSERT INTO concepts VALUES (1, NULL)")
    assert accesses(place) == []


def test_a_file_that_is_no_database_is_named_and_left_alone(place: Place) -> None:
    place.home.memory.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"memory\.duckdb"):
        place.memory("SELECT 1")
    with pytest.raises(StoreError, match="move it away"):
        place.write_memory("SELECT 1")
    assert place.home.memory.read_bytes() == b"not a database" * 100


def test_a_store_that_is_not_there_yet_reads_as_empty_and_is_not_made(place: Place) -> None:
    assert place.memory("SELECT count(*) FROM concepts") == [(0,)]
    assert not place.home.memory.exists()


def test_a_blank_file_that_a_killed_first_write_left_reads_as_empty(place: Place) -> None:
    duckdb.connect(str(place.home.memory)).close()
    assert place.memory("SELECT count(*) FROM concepts") == [(0,)]
    place.write_memory("INSERT INTO accesses VALUES (2, TIMESTAMPTZ '2026-04-01 00:00:00+00', NULL)")
    assert accesses(place) == [2]


FIRST = ("CREATE TABLE a (x INTEGER)",)
SECOND = (*FIRST, "ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 7")


def test_an_older_store_is_migrated_by_whoever_opens_it_first_and_keeps_its_rows(tmp_path: Path) -> None:
    path, lock = tmp_path / "some.duckdb", tmp_path / ".some.lock"
    with duck.writing(path, lock, FIRST) as con:
        con.execute("INSERT INTO a VALUES (1)")
    with duck.reading(path, SECOND) as con:
        assert con.execute("FROM a").fetchall() == [(1, 7)]


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    path, lock = tmp_path / "some.duckdb", tmp_path / ".some.lock"
    with duck.writing(path, lock, SECOND):
        pass
    with pytest.raises(StoreError, match="update the program"), duck.reading(path, FIRST):
        pass
    with pytest.raises(StoreError, match="update the program"), duck.writing(path, lock, FIRST):
        pass


def test_every_instant_in_memory_keeps_its_zone(place: Place) -> None:
    place.write_memory("SELECT 1")
    kinds = place.memory("SELECT DISTINCT data_type FROM duckdb_columns() WHERE data_type LIKE 'TIMESTAMP%'")
    assert kinds == [("TIMESTAMP WITH TIME ZONE",)]
    assert place.memory("SELECT current_setting('TimeZone')") == [("UTC",)]
