"""`state.json`: what sensors may know without opening a DuckDB file. Rewritten at the end of every run."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from subconscious_pipeline import duck
from subconscious_pipeline.home import Home
from subconscious_pipeline.publish.overview import Overview
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.schema import MIGRATIONS


class DueState(BaseModel):
    """One due window."""

    model_config = ConfigDict(frozen=True)
    window: str
    input_hash: str
    tries: int


class FailedState(BaseModel):
    """One failed or quarantined window."""

    model_config = ConfigDict(frozen=True)
    window: str
    status: Literal["failed", "quarantined"]
    error_code: str
    tries: int
    input_hash: str
    next_try_at: AwareDatetime | None


class State(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True)
    version: Literal[1] = 1
    as_of: AwareDatetime
    window_hours: int
    status: str
    watermark: AwareDatetime
    fingerprints: dict[str, str]  # file id → fingerprint when last read
    due: list[DueState]
    failed: list[FailedState]
    counts: dict[str, int]


def write_state(home: Home, settings: Settings, state: Overview) -> State:
    """Write `state.json` from an overview; returns what was written."""
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds) as con:
        fingerprints = dict(con.execute("SELECT file_id, fingerprint FROM ingested_files ORDER BY 1").fetchall())
    made = State(
        as_of=state.as_of,
        window_hours=settings.window_hours,
        status=state.status,
        watermark=state.watermark,
        fingerprints=fingerprints,
        due=[DueState(window=item.window.key, input_hash=item.input_hash, tries=item.tries) for item in state.due],
        failed=[
            FailedState(
                window=entry.start.strftime("%Y-%m-%dT%H:%MZ"), status=entry.status, error_code=entry.error_code or "",
                tries=entry.tries, input_hash=entry.input_hash, next_try_at=entry.next_try_at,
            )
            for entry in state.failing
        ],
        counts=state.counts(),
    )  # fmt: skip
    fresh = home.state.with_name(f".state.{os.getpid()}.new")
    fresh.write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
    fresh.replace(home.state)
    return made


def read_state(home: Home) -> State | None:
    """What the last run left, or None when there was none (or it is of another version: the next run writes it anew)."""
    try:
        return State.model_validate_json(home.state.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def state_age(state: State, now: datetime) -> float:
    """Hours since the last run."""
    return (now - state.as_of).total_seconds() / 3600
