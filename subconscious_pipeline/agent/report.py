"""`status` as data: one look at warehouse, ledger and published index. Reads only."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from subconscious_pipeline import duck
from subconscious_pipeline.agent.client import NotPublished, Subconscious, command
from subconscious_pipeline.agent.shapes import Keywords
from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import Window, iso_z, window_at
from subconscious_pipeline.memory import ledger, store
from subconscious_pipeline.publish.overview import Overview, overview
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse import read
from subconscious_pipeline.warehouse.schema import MIGRATIONS

MOST_ERRORS = 1_000


@dataclass(frozen=True)
class Report:
    """The state of one home."""

    home: Home
    state: Overview
    spent: ledger.Spent
    sources: tuple[read.SourceFacts, ...]
    errors: tuple[read.FileError, ...]  # at most MOST_ERRORS; what lost something first
    published: Keywords | None
    window_hours: int
    too_old: int  # rows of windows before SUBCONSCIOUS_START, which never become windows of the index

    @property
    def errors_in_all(self) -> int:
        """Quarantined items, whether listed in `errors` or not, and the warnings listed."""
        return max(sum(source.errors for source in self.sources) + sum(error.warning for error in self.errors), len(self.errors))

    @property
    def windows(self) -> dict[str, int]:
        """Windows by status, with `due` and `running`."""
        statuses = Counter(entry.status for entry in self.state.entries.values())
        return {**self.state.counts(), "running": statuses["running"]}

    def window(self, start: datetime) -> Window:
        """The window that starts at an instant of the ledger."""
        return window_at(start, self.window_hours)

    @property
    def older_command(self) -> str | None:
        """How to extract the windows that no run touches unless they are named."""
        older = self.state.beyond_lookback
        if not older:
            return None
        keys = older[0].key if len(older) == 1 else f"{older[0].key}..{older[-1].key}"
        return f"{command(self.home, 'run')} --window {keys}"

    def as_json(self) -> dict[str, Any]:
        """The shape of `subconscious status --json`."""
        state, older = self.state, self.state.beyond_lookback
        return {
            "home": str(self.home.root),
            "status": state.status,
            "reasons": list(state.reasons),
            "as_of": iso_z(state.as_of),
            "windows": self.windows,
            "watermark": iso_z(state.watermark),
            "tokens": {"prompt": self.spent.prompt_tokens, "completion": self.spent.completion_tokens, "calls": self.spent.calls},
            "model_seconds": round(self.spent.seconds, 3),
            "sources": [asdict(source) for source in self.sources],
            "sources_down": list(state.sources_down),
            "errors": [asdict(error) for error in self.errors],
            "errors_in_all": self.errors_in_all,
            "due": [{"window": item.window.key, "rows": item.rows, "tries": item.tries} for item in state.due],
            "failed": [
                {
                    "window": self.window(entry.start).key,
                    "status": entry.status,
                    "error_code": entry.error_code,
                    "tries": entry.tries,
                    "next_try_at": iso_z(entry.next_try_at) if entry.next_try_at else None,
                }
                for entry in state.failing
            ],
            "beyond_lookback": {"windows": len(older), "first": older[0].key, "last": older[-1].key, "command": self.older_command}
            if older
            else None,
            "rows_before_start": self.too_old,
            "published": {name: value for name, value in self.published.as_json().items() if name != "keywords"} if self.published else None,
        }


def report(home: Home, settings: Settings, as_of: datetime) -> Report:
    """Look at a home.

    Raises:
        ConfigError: when there is no home, or its windows have another size.
        StoreError, StoreLocked: as the stores.
    """
    if not home.root.is_dir():
        raise ConfigError(
            f"there is no home at {home.root}; `{command(home, 'demo')}` makes one with sample data, `{command(home, 'run')}` an empty one"
        )
    state = overview(home, settings, as_of)
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds) as con:
        sources = read.source_facts(con)
        errors = read.file_errors(con, MOST_ERRORS)
    with store.reading(home, settings) as con:
        spent = ledger.spent(con)
    try:
        published = Subconscious(home, now=lambda: as_of).keywords()
    except NotPublished:
        published = None
    too_old = sum(row.rows for row in state.inputs if row.start < settings.start_at)
    return Report(home, state, spent, tuple(sources), tuple(errors), published, settings.window_hours, too_old)
