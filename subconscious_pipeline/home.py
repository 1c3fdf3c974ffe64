"""Where everything lies. Standard library only: the agent path (`keywords`, `lookup`) imports this and little else."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HOME_VARIABLE = "SUBCONSCIOUS_HOME"


def checkout() -> Path | None:
    """The root of the source checkout this package runs from, or None when it is installed."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() and (root / "data").is_dir() else None


def sample_dir() -> Path | None:
    """The bundled sample: in a checkout under `data/`, in an installed package beside the code."""
    root = checkout()
    place = root / "data" / "sample" if root else Path(__file__).resolve().parent / "_sample"
    return place if (place / "sample.yaml").is_file() else None


def user_data_dir() -> Path:
    """The platform's data directory for this application (XDG, macOS Library, Windows LOCALAPPDATA)."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "subconscious"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "subconscious"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "subconscious"


@dataclass(frozen=True)
class Home:
    """One home directory: sources, stores, published files, Dagster's own storage."""

    root: Path

    @property
    def sources(self) -> Path:
        return self.root / "sources"

    @property
    def sources_yaml(self) -> Path:
        return self.root / "sources.yaml"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse.duckdb"

    @property
    def memory(self) -> Path:
        return self.root / "memory.duckdb"

    @property
    def events(self) -> Path:
        return self.root / "events.db"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def published(self) -> Path:
        return self.root / "published"

    @property
    def index(self) -> Path:
        return self.published / "index.sqlite"

    @property
    def dagster(self) -> Path:
        return self.root / "dagster"

    @property
    def locks(self) -> Path:
        return self.root / "locks"

    def lock(self, store: str) -> Path:
        """The lock file of a store (`warehouse`, `memory`, `published`)."""
        return self.root / f".{store}.lock"

    @property
    def clock(self) -> Path:
        """Where a home whose clock stands still says at which instant."""
        return self.root / "clock.txt"

    def now(self) -> datetime:
        """The present instant (aware UTC): the real clock's, or the one at which this home's clock stands still.

        The demo's home stands at the date of its sample: by the real clock everything in it would be forgotten at once.
        """
        try:
            return datetime.fromisoformat(self.clock.read_text(encoding="ascii").strip())
        except (FileNotFoundError, NotADirectoryError):
            return datetime.now(UTC)

    def create(self) -> Home:
        """Make the directories that must exist before anything is written; returns self."""
        for path in (self.root, self.sources, self.published, self.dagster, self.locks):
            path.mkdir(parents=True, exist_ok=True)
        return self


def resolve_home(explicit: str | Path | None = None) -> Home:
    """The home to use: the argument, else ``SUBCONSCIOUS_HOME``, else ``data/home`` of a checkout or the data directory."""
    if explicit:
        return Home(Path(explicit).expanduser().resolve())
    if variable := os.environ.get(HOME_VARIABLE):
        return Home(Path(variable).expanduser().resolve())
    root = checkout()
    return Home(root / "data" / "home" if root else user_data_dir())
