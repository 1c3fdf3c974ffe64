"""From due windows to persisted observations: claim, ask, write each outcome as it comes.

A window is worked on under its own lock file, which the operating system frees when a process dies: two runs never ask about
the same window, and what a killed run had claimed can be taken up at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from filelock import FileLock, Timeout

from subconscious_pipeline import duck
from subconscious_pipeline.extraction.engine import PendingWindow, extract_windows
from subconscious_pipeline.extraction.types import NOT_TRIED, Extractor, Usage, WindowResult
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import Window
from subconscious_pipeline.memory import ledger, observe, store
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.read import transcript
from subconscious_pipeline.warehouse.schema import MIGRATIONS
from subconscious_pipeline.warehouse.transcript import Transcript

BUSY_POLL_SECONDS = 0.2


@dataclass
class Outcome:
    """What an extraction did, window by window."""

    statuses: dict[str, ledger.Status] = field(default_factory=dict)  # window key → status in the ledger
    error_codes: dict[str, str] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)  # keys of windows that another run had done when their turn came
    observations: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def failed(self) -> list[str]:
        """Keys of windows that were asked about and failed, or are given up."""
        return sorted(key for key, status in self.statuses.items() if status in ("failed", "quarantined") and key not in self.postponed)

    @property
    def postponed(self) -> list[str]:
        """Keys of windows that were not tried: the token budget was spent, or a shutdown came first."""
        return sorted(key for key, code in self.error_codes.items() if code in NOT_TRIED)


OnWindow = Callable[[WindowResult, ledger.Status], None]


def _ignore(_result: WindowResult, _status: ledger.Status) -> None:
    return None


class _Locks:
    """The lock files of the windows this process is working on."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._held: dict[datetime, FileLock] = {}

    def try_take(self, window: Window) -> bool:
        lock = FileLock(self._home.locks / f"window-{window.start:%Y%m%dT%H%MZ}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        self._held[window.start] = lock
        return True

    def release(self, window: Window) -> None:
        if lock := self._held.pop(window.start, None):
            lock.release()

    def release_all(self) -> None:
        for lock in self._held.values():
            lock.release()
        self._held.clear()


def extract(
    home: Home,
    settings: Settings,
    extractor: Extractor,
    windows: Sequence[ledger.DueWindow],
    as_of: datetime,
    on_window: OnWindow = _ignore,
    stop: Callable[[], bool] = lambda: False,
    again: bool = False,
) -> Outcome:
    """Ask about these windows and persist each outcome in its own transaction as it finishes.

    Args:
        windows: what to extract; windows that another run finishes first are left to it.
        on_window: called after a window is persisted, with its result and its status in the ledger.
        stop: polled between windows and calls; what was not begun stays due.
        again: extract also windows whose content has been extracted already.

    Raises:
        ExtractionError: when no window can be asked at all (windows in flight are persisted first).
        StoreLocked: when a store stays in use.
    """
    home.locks.mkdir(parents=True, exist_ok=True)
    outcome = Outcome()
    locks = _Locks(home)
    if windows:
        with store.writing(home, settings) as con:
            ledger.claim(con, [(item.window, item.input_hash) for item in windows], extractor.model, as_of)

    def keep(result: WindowResult) -> None:
        with store.writing(home, settings) as con:
            status = observe.persist(con, result, as_of, settings)
        locks.release(result.window)
        outcome.statuses[result.window.key] = status
        if result.error_code:
            outcome.error_codes[result.window.key] = result.error_code.value
        outcome.observations += len(result.observations)
        outcome.usage += result.usage
        on_window(result, status)

    waiting = list(windows)
    try:
        while waiting:
            budget = None if settings.token_budget is None else max(0, settings.token_budget - outcome.usage.tokens)
            busy: list[ledger.DueWindow] = []
            extract_windows(_pending(home, settings, waiting, busy, locks, outcome, again), extractor, keep, stop, budget)
            waiting = busy
            if busy and stop():
                break
            if busy:
                # All of our own windows are persisted and let go by now: two runs that wait for each other's would wait for ever.
                time.sleep(BUSY_POLL_SECONDS)
    finally:
        locks.release_all()
    return outcome


def _pending(
    home: Home,
    settings: Settings,
    windows: Sequence[ledger.DueWindow],
    busy: list[ledger.DueWindow],
    locks: _Locks,
    outcome: Outcome,
    again: bool,
) -> Iterator[PendingWindow]:
    """The windows that are free, each under its lock; those that other runs hold go to `busy`."""
    for item in windows:
        if not locks.try_take(item.window):
            busy.append(item)
            continue
        if not again and _done(home, settings, item):
            locks.release(item.window)
            outcome.elsewhere.append(item.window.key)
            continue
        yield PendingWindow(item.window, item.input_hash, partial(_load, home, settings, item))


def _load(home: Home, settings: Settings, item: ledger.DueWindow) -> Transcript:
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds) as con:
        return transcript(con, item.window)


def _done(home: Home, settings: Settings, item: ledger.DueWindow) -> bool:
    """Whether another run has had an outcome for this content since the window was found due."""
    with store.reading(home, settings) as con:
        entry = ledger.entry(con, item.window.start)
    return entry is not None and entry.input_hash == item.input_hash and (entry.status in ("ok", "empty") or entry.tries > item.tries)
