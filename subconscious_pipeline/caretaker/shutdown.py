"""A shutdown from the caller's side: ask for it, carry it out (or watch another caretaker do so), and tell how it went."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from subconscious_pipeline.caretaker import client, monitor, state
from subconscious_pipeline.caretaker.events import ShutdownCompleted
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.tick import Caretaker

POLL_SECONDS = 0.2


def shut_down(caretaker: Caretaker, timeout_seconds: float, clock: Callable[[], datetime], wait: Callable[[float], None]) -> ShutdownCompleted:
    """Save everything within `timeout_seconds`, publish, and stop; `timed_out` in the report says whether something was cut off.

    While another process is at work (a sweep, a traversal that halts at its next depth) it waits, but never past the time-out.
    Nothing cut off is lost: it stays in the log and is saved after the next start.
    """
    asked = clock()
    deadline = asked + timedelta(seconds=timeout_seconds)
    after = client.shutdown(caretaker.log, asked, timeout_seconds)
    while True:
        report = caretaker.step(clock)
        completed = caretaker.log.read(after, (ShutdownCompleted.__name__,))
        if completed:
            payload = completed[0].payload()
            if isinstance(payload, ShutdownCompleted):
                return payload
        if report.busy and clock() >= deadline:
            return monitor.shutdown_report(caretaker.state())
        wait(POLL_SECONDS)


class ShutdownWatch:
    """Whether a home is shutting down or has been shut down, for long work that polls. Safe to call from any thread.

    Args:
        path: `Home.events`.
        seconds: how long an answer is good for.
    """

    def __init__(self, path: Path, seconds: float = 1.0) -> None:
        self._path = path
        self._seconds = seconds
        self._asked = float("-inf")
        self._answer = False
        self._lock = threading.Lock()

    def __call__(self) -> bool:
        with self._lock:
            if time.monotonic() - self._asked >= self._seconds:
                self._answer = phase(self._path) != "running"
                self._asked = time.monotonic()
            return self._answer


def phase(path: Path) -> str:
    """`running`, `stopping` or `down`; a home without an event log is running."""
    if not path.exists():
        return "running"
    with EventLog(path) as log:
        return state.current(log).phase
