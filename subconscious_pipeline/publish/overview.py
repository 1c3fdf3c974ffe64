"""Where things stand: windows, watermark, what is degraded and since when. Shared by publishing, `status`, sensors and doctor."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from subconscious_pipeline import duck
from subconscious_pipeline.extraction.types import NOT_TRIED
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import Window, iso_z, window_at
from subconscious_pipeline.memory import ledger, store
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse import read
from subconscious_pipeline.warehouse.schema import MIGRATIONS
from subconscious_pipeline.warehouse.windows import WindowInput, window_inputs


@dataclass(frozen=True)
class Overview:
    """The state of one home at `as_of`."""

    as_of: datetime
    watermark: datetime
    inputs: tuple[WindowInput, ...]
    entries: dict[datetime, ledger.Entry]
    due: tuple[ledger.DueWindow, ...]
    failing: tuple[ledger.Entry, ...]
    beyond_lookback: tuple[Window, ...]
    sources_down: tuple[str, ...]
    reasons: tuple[str, ...]  # why the index is degraded; empty when it is not

    @property
    def status(self) -> str:
        """`ok` or `degraded`."""
        return "degraded" if self.reasons else "ok"

    @property
    def published_at(self) -> datetime:
        """The instant a snapshot stands for: the watermark, or midnight UTC of the day when that is later.

        It depends on watermark and date alone, so that publishing twice on one day writes the same bytes.
        """
        return max(self.watermark, datetime.combine(self.as_of.date(), time(), UTC))

    def counts(self) -> dict[str, int]:
        """Windows by status, with `due`."""
        by_status = Counter(entry.status for entry in self.entries.values())
        return {**{name: by_status[name] for name in ("ok", "empty", "failed", "quarantined")}, "due": len(self.due)}


MOST_REASONS = 10  # windows that are named one by one


def _reasons(failing: list[ledger.Entry], down: list[str], hours: int) -> list[str]:
    reasons = []
    waiting = [entry for entry in failing if entry.error_code in NOT_TRIED]
    failed = [entry for entry in failing if entry.error_code not in NOT_TRIED]
    if waiting:
        since = iso_z(waiting[0].start)
        reasons.append(f"{len(waiting)} windows were not tried (token budget spent or run cancelled), missing since {since}")
    if len(failed) > MOST_REASONS:
        reasons.append(f"{len(failed) - MOST_REASONS} more windows failed, up to {window_at(failed[-1].start, hours).key}")
    for entry in failed[:MOST_REASONS]:
        window = window_at(entry.start, hours)
        word = "given up" if entry.status == "quarantined" else "failed"
        reasons.append(f"window {window.key} {word} ({entry.error_code}), missing since {iso_z(window.start)}")
    return reasons + [f"source {source} cannot be read" for source in down]


def overview(home: Home, settings: Settings, as_of: datetime) -> Overview:
    """Read warehouse and ledger once each and derive everything else.

    Raises:
        StoreLocked, StoreError, ConfigError: as the stores.
    """
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds) as con:
        inputs = window_inputs(con)
        down = read.sources_down(con)
    with store.reading(home, settings) as con:
        entries = ledger.entries(con)
    failing = ledger.failing(entries)
    oldest = as_of - timedelta(days=settings.lookback_days)
    return Overview(
        as_of=as_of,
        watermark=ledger.watermark(inputs, entries, as_of, settings),
        inputs=tuple(inputs),
        entries=entries,
        due=tuple(ledger.due(inputs, entries, as_of, settings)),
        failing=tuple(failing),
        beyond_lookback=tuple(ledger.older_than_lookback(inputs, entries, as_of, settings)),
        sources_down=tuple(down),
        reasons=tuple(_reasons([entry for entry in failing if entry.start >= oldest], down, settings.window_hours)),
    )
