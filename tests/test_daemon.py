"""The promise that nobody has to ask: a real Dagster daemon on a home, and a mind in another process that only writes events."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from place import Place, said

from subconscious_pipeline.caretaker.events import Payload, Recollection, ShutdownCompleted
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.defs.instance import environment, prepare
from subconscious_pipeline.extraction.types import Span, Usage, WindowResult
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import window_at

SECONDS = 120.0  # the daemon looks every 5 s and launches each run in a process of its own: about 30 s on an idle machine
FAST = {
    "SUBCONSCIOUS_SENSOR_SECONDS": "1", "SUBCONSCIOUS_DEBOUNCE_SECONDS": "1", "SUBCONSCIOUS_BREAK_MINUTES": "0.02",
    "SUBCONSCIOUS_TIMEZONE": "UTC",
}  # fmt: skip

# A mind: it knows the home and the verbs, nothing of Dagster.
MIND = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.home import Home

now = datetime.now(UTC)
with EventLog(Home(Path(sys.argv[1])).events) as log:
    if sys.argv[2] == "work":
        client.session_start(log, "mind", now, instance_id="desk")
        client.activity(log, "mind", now, "TASK")
        client.recall(log, "mind", now, words=["entrance"], request_id="dig")
    else:
        client.note(log, "mind", now, ["heron", "paperwork"])
        client.shutdown(log, now, 600)
"""


def mind(home: Home, verb: str, variables: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", MIND, str(home.root), verb], env=variables, check=True, timeout=60)


@contextmanager
def daemon(home: Home, variables: dict[str, str]) -> Iterator[int]:
    """A Dagster daemon with its code server and runs in a process group of its own; gone at the end, with all of them."""
    with (home.root / "daemon.log").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster._daemon", "run", "-m", "subconscious_pipeline.definitions"],
            env=variables, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGINT)  # it tells its code server, which lets the runs it has begun come to their end
            try:
                process.wait(30)
                deadline = time.monotonic() + 30
                while members(process.pid) and time.monotonic() < deadline:
                    time.sleep(0.2)
                assert members(process.pid) == []
            finally:
                if members(process.pid):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(30)


def members(group: int) -> list[str]:
    """Commands of the living processes of a group."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split(maxsplit=2) for line in listed]
    return [row[2] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def strays(home: Home) -> list[str]:
    """Process ids of whoever still has this home in its environment, of whatever group (where there is a /proc to tell)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"DAGSTER_HOME={home.dagster}\0".encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue  # it has ended meanwhile, or is somebody else's
    return found


def until(what: Callable[[], Any], deadline: float, home: Home) -> Any:
    """Wait for something to be there."""
    while not (found := what()):
        if time.monotonic() > deadline:
            pytest.fail(f"it did not come; the daemon said:\n{(home.root / 'daemon.log').read_text()[-4000:]}")
        time.sleep(0.2)
    return found


def first(log: EventLog, kind: str) -> Payload | None:
    return next((event.payload() for event in log.read(kinds=[kind])), None)


def commands(log: EventLog) -> set[str]:
    """What the caretaker has carried out."""
    return {str(payload.command) for event in log.read(kinds=["CommandFinished"]) if (payload := event.payload()).ok}  # type: ignore[attr-defined]


def remembered(place: Place, now: datetime) -> None:
    """Two concepts that belong together, one that has not been seen for long, and one that hangs on a shared conversation."""
    for words, ref, days in (
        ("entrance lock key door cylinder", "house", 2),
        ("entrance lock parcel courier theft", "house", 1),
        ("piano lesson recital", "music", 60),
        ("plumber invoice deposit", "house", 3),
    ):
        at = now - timedelta(days=days)
        seen = said(words, Span("messaging", ref, at, at), ttl=365)
        place.persist(WindowResult(window_at(at, 6), "ok", "h", "fake", "1", Usage(), (seen,), None), as_of=now)
    place.project(now)


@pytest.mark.timeout(240)
def test_a_daemon_takes_care_of_a_mind_that_only_writes_events(tmp_path: Path, place: Place) -> None:
    now = datetime.now(UTC)
    remembered(place, now)
    assert len(place.concepts()) == 4
    home = prepare(place.home)
    variables = {**environment(home), **FAST}
    deadline = time.monotonic() + SECONDS
    with EventLog(home.events) as log:
        with daemon(home, variables) as group:
            mind(home, "work", variables)
            until(lambda: first(log, "BreakNotification"), deadline, home)
            until(lambda: {"DecaySweep", "Consolidate"} <= commands(log), deadline, home)
            recollection = until(lambda: first(log, "Recollection"), deadline, home)
            mind(home, "shutdown", variables)
            shutdown = until(lambda: first(log, "ShutdownCompleted"), deadline, home)
            assert members(group)
            assert strays(home) or not Path("/proc").exists()
        assert strays(home) == []
        assert isinstance(recollection, Recollection)
        assert {"plumber", "theft"} <= {word for concept in recollection.concepts for word in concept.words}
        assert isinstance(shutdown, ShutdownCompleted)
        assert (shutdown.saved_contexts, shutdown.saved_sessions, shutdown.published, shutdown.timed_out) == (1, ("mind",), True, False)
        assert [event.session_id for event in log.read(kinds=["BreakNotification", "Recollection"])] == ["mind", "mind"]

    words = {frozenset(words): concept for concept, words in place.concepts().items()}
    assert frozenset({"entrance", "lock", "key", "door", "cylinder", "parcel", "courier", "theft"}) in words
    assert frozenset({"heron", "paperwork"}) in words
    [(tier,)] = place.memory("SELECT tier FROM concept_state WHERE concept_id = ?", words[frozenset({"piano", "lesson", "recital"})])
    assert tier == "LONG_TERM"
    assert b"heron" in home.index.read_bytes()
