"""A shutdown from the caller's side: ask for it, carry it out (or watch another caretaker do so), and tell how it went."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from subconscious_pipeline.caretaker import client, monitor
from subconscious_pipeline.caretaker.events import ShutdownCompleted
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
