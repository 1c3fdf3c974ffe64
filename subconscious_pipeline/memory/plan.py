"""Which windows of an explicitly chosen set a run has to ask about. Unlike `ledger.due`, neither age nor backoff holds it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from subconscious_pipeline import duck
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import Window, window_at
from subconscious_pipeline.memory import ledger, store
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.schema import MIGRATIONS
from subconscious_pipeline.warehouse.windows import window_inputs


@dataclass(frozen=True)
class Plan:
    """What a run over chosen windows has to do."""

    windows: tuple[ledger.DueWindow, ...]
    unfinished: frozenset[datetime]  # starts of chosen windows that will not be complete afterwards: not closed yet


def windows_to_extract(home: Home, settings: Settings, chosen: Sequence[Window], as_of: datetime, again: bool = False) -> Plan:
    """The chosen windows that hold content which has not been extracted (or all that hold content, with `again`).

    A window that is not closed at `as_of` is left alone: it would have to be read twice.
    """
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds) as con:
        inputs = {row.start: row for row in window_inputs(con, chosen[0].start, chosen[-1].start)}
    with store.reading(home, settings) as con:
        entries = ledger.entries(con)
    wanted = {window.start for window in chosen if window.closed(as_of)}
    found = []
    for start, row in inputs.items():
        entry = entries.get(start)
        if start in wanted and (ledger.needs(row, entry) or (again and row.rows)):
            tries = entry.tries if entry and entry.input_hash == row.input_hash else 0
            found.append(ledger.DueWindow(window_at(start, settings.window_hours), row.input_hash, row.rows, tries))
    return Plan(tuple(found), frozenset(window.start for window in chosen if window.start not in wanted))
