"""The ledger of windows: which are due, which failed, how far the index has seen. Decisions are pure functions of rows and `as_of`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import duckdb
import polars as pl

from subconscious_pipeline.extraction.types import NOT_TRIED, ErrorCode, WindowResult
from subconscious_pipeline.instants import Window, window_at
from subconscious_pipeline.memory.store import raise_revision
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.windows import WindowInput

Status = Literal["running", "ok", "empty", "failed", "quarantined"]
LEASE = timedelta(hours=1)
_ENTRIES = "SELECT window_start, status, lease_until, tries, next_try_at, input_hash, error_code FROM extractions"


@dataclass(frozen=True)
class Entry:
    """One window in the ledger."""

    start: datetime
    status: Status
    lease_until: datetime | None
    tries: int
    next_try_at: datetime | None
    input_hash: str
    error_code: str | None


@dataclass(frozen=True)
class DueWindow:
    """A window that wants to be extracted. `tries` and `input_hash` go into run keys."""

    window: Window
    input_hash: str
    rows: int
    tries: int


def entries(con: duckdb.DuckDBPyConnection) -> dict[datetime, Entry]:
    """The whole ledger by window start."""
    rows = con.execute(_ENTRIES).fetchall()
    return {row[0]: Entry(*row) for row in rows}


def entry(con: duckdb.DuckDBPyConnection, start: datetime) -> Entry | None:
    """One window's row in the ledger."""
    row = con.execute(f"{_ENTRIES} WHERE window_start = ?", [start]).fetchone()
    return Entry(*row) if row else None


def needs(row: WindowInput, entry: Entry | None) -> bool:
    """Whether a window's present content has not been extracted, whatever its age or backoff."""
    if row.rows == 0:
        # Nothing speaks any more: only a window that has been asked about has to be looked at again.
        return entry is not None and entry.status != "empty" and entry.input_hash != row.input_hash
    return entry is None or entry.status in ("running", "failed", "quarantined") or entry.input_hash != row.input_hash


def due(
    inputs: Iterable[WindowInput], ledger: Mapping[datetime, Entry], as_of: datetime, settings: Settings, honour_leases: bool = False
) -> list[DueWindow]:
    """The windows to extract at `as_of`, in order.

    Closed, with content that has not been extracted, within the lookback, and not waiting out a backoff or quarantined.

    Args:
        honour_leases: leave out windows that a run has claimed and may still be working on. A run itself does not: the window's
            lock file tells whether the claimer is alive.
    """
    hours = settings.window_hours
    oldest = as_of - timedelta(days=settings.lookback_days)
    found = []
    for row in _with_vanished(inputs, ledger):
        if row.start >= as_of:
            continue
        window, entry = window_at(row.start, hours), ledger.get(row.start)
        if not window.closed(as_of) or window.start < max(oldest, settings.start_at) or not needs(row, entry):
            continue
        tries = 0
        if entry and entry.input_hash == row.input_hash:
            tries = entry.tries
            if entry.status == "quarantined":
                continue
            if entry.status == "failed" and entry.next_try_at and entry.next_try_at > as_of:
                continue
        if honour_leases and entry and entry.status == "running" and entry.lease_until and entry.lease_until > as_of:
            continue
        found.append(DueWindow(window, row.input_hash, row.rows, tries))
    return found


def _with_vanished(inputs: Iterable[WindowInput], ledger: Mapping[datetime, Entry]) -> list[WindowInput]:
    """The windows of the warehouse and, as empty ones, those that the ledger knows but of which no row is left.

    A warehouse without any row is one that has been lost, and says nothing about what memory holds.
    """
    rows = list(inputs)
    gone = ledger.keys() - {row.start for row in rows} if rows else ()
    return sorted([*rows, *(WindowInput(start, 0, 0, 0, "") for start in gone)], key=lambda row: row.start)


def older_than_lookback(inputs: Iterable[WindowInput], ledger: Mapping[datetime, Entry], as_of: datetime, settings: Settings) -> list[Window]:
    """Windows with content that no run will touch unless they are named: older than the lookback, not extracted."""
    oldest = as_of - timedelta(days=settings.lookback_days)
    return [
        window_at(row.start, settings.window_hours)
        for row in inputs
        if settings.start_at <= row.start < oldest and row.rows and row.start not in ledger
    ]


def failing(ledger: Mapping[datetime, Entry]) -> list[Entry]:
    """Failed and quarantined windows, in order."""
    return sorted((entry for entry in ledger.values() if entry.status in ("failed", "quarantined")), key=lambda entry: entry.start)


def watermark(inputs: Sequence[WindowInput], ledger: Mapping[datetime, Entry], as_of: datetime, settings: Settings) -> datetime:
    """The end of the last closed window before the first one that is due or failed. Quarantined windows are passed."""
    now = window_at(as_of, settings.window_hours).start
    open_starts = [item.window.start for item in due(inputs, ledger, as_of, settings)]
    oldest = as_of - timedelta(days=settings.lookback_days)
    open_starts += [entry.start for entry in ledger.values() if entry.status == "failed" and entry.start >= oldest]
    return min([now, *open_starts])


def ranges(windows: Sequence[DueWindow], barriers: Iterable[datetime] | None = None) -> list[tuple[Window, Window]]:
    """Due windows as contiguous ranges (first, last), in order.

    Args:
        windows: in order of time.
        barriers: None: only directly adjacent windows make a range. Else the starts of windows that stand in the way; gaps that
            hold none of them (quiet times) are bridged.
    """
    blocking = sorted(barriers) if barriers is not None else None
    found: list[tuple[Window, Window]] = []
    for item in windows:
        window = item.window
        if found:
            first, last = found[-1]
            adjacent = last.end == window.start
            bridged = blocking is not None and not any(last.start < barrier < window.start for barrier in blocking)
            if adjacent or bridged:
                found[-1] = (first, window)
                continue
        found.append((window, window))
    return found


def claim(con: duckdb.DuckDBPyConnection, windows: Iterable[tuple[Window, str]], model: str, as_of: datetime) -> None:
    """Mark windows (with their input hashes) as running, so that a look at the ledger tells what is going on.

    A window whose present content has been extracted (by another run, a moment ago) keeps its outcome.
    """
    rows = [(window.start, window.end, input_hash) for window, input_hash in windows]
    schema: pl.Schema = pl.Schema({"window_start": pl.Datetime("us", "UTC"), "window_end": pl.Datetime("us", "UTC"), "input_hash": pl.String()})
    con.register("claimed_windows", pl.DataFrame(rows, schema=schema, orient="row").to_arrow())
    con.execute(
        """
        INSERT INTO extractions
        SELECT window_start, window_end, 'running', $lease::TIMESTAMPTZ, 0, NULL, input_hash, $model, '', 0, 0, 0, 0, NULL, $now::TIMESTAMPTZ
        FROM claimed_windows
        ON CONFLICT (window_start) DO UPDATE SET status = 'running', lease_until = excluded.lease_until, model = excluded.model,
            tries = CASE WHEN input_hash = excluded.input_hash THEN tries ELSE 0 END, input_hash = excluded.input_hash
        WHERE status NOT IN ('ok', 'empty') OR input_hash <> excluded.input_hash""",
        {"lease": as_of + LEASE, "model": model, "now": as_of},
    )
    con.unregister("claimed_windows")


def backoff(tries: int, settings: Settings) -> timedelta:
    """How long to wait after the `tries`-th failure: doubles each time."""
    return timedelta(minutes=settings.retry_minutes * 2 ** max(tries - 1, 0))


def record(con: duckdb.DuckDBPyConnection, result: WindowResult, as_of: datetime, settings: Settings) -> Status:
    """Write the outcome of a window into the ledger; returns the status it now has."""
    row = con.execute("SELECT tries, input_hash FROM extractions WHERE window_start = ?", [result.window.start]).fetchone()
    tries = int(row[0]) if row and row[1] == result.input_hash else 0
    status: Status = result.status
    next_try: datetime | None = None
    if result.status == "failed":
        if result.error_code in NOT_TRIED:
            next_try = as_of
        else:
            tries += 1
            next_try = as_of + backoff(tries, settings)
            if tries >= settings.max_tries:
                status, next_try = "quarantined", None
    else:
        tries = 0
    usage = result.usage
    con.execute(
        "INSERT OR REPLACE INTO extractions VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            result.window.start, result.window.end, status, tries, next_try, result.input_hash, result.model, result.prompt_version,
            usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.seconds,
            (result.error_code or ErrorCode.INTERNAL).value if result.status == "failed" else None, as_of,
        ],
    )  # fmt: skip
    raise_revision(con)
    return status


@dataclass(frozen=True)
class Spent:
    """What all extractions in the ledger cost together."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float


def spent(con: duckdb.DuckDBPyConnection) -> Spent:
    """Calls, tokens and model seconds over the whole ledger (the last extraction of each window)."""
    row = con.execute(
        "SELECT coalesce(sum(calls), 0)::BIGINT, coalesce(sum(prompt_tokens), 0)::BIGINT, coalesce(sum(completion_tokens), 0)::BIGINT, "
        "coalesce(sum(seconds), 0) FROM extractions"
    ).fetchone()
    assert row is not None
    return Spent(*row)
