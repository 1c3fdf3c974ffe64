"""Builds small homes with the project's own functions: literal rows, a scripted model, a real publication."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from subconscious_pipeline.extraction.types import ErrorCode, Kind, Observation, Span, Usage, WindowResult
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import project, salience, store
from subconscious_pipeline.memory.extract import extract
from subconscious_pipeline.publish.files import publish
from subconscious_pipeline.publish.overview import overview
from subconscious_pipeline.settings import Settings, load_settings
from subconscious_pipeline.warehouse.ingest import ingest
from subconscious_pipeline.warehouse.transcript import Line, Transcript

AS_OF = datetime(2026, 4, 1, 12, 30, tzinfo=UTC)
SETTINGS = load_settings(timezone="UTC")
DAYS: dict[Kind, int] = {"incident": 5, "appointment": 14, "ongoing": 40, "lasting": 300}

# text → kind and words: what the scripted model says about a message of exactly this text
SAID: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "the entrance door is broken": ("incident", ("entrance", "door", "repair")),
    "still no repair of the door": ("incident", ("door", "repair", "landlord")),
    "washing machine arrives on friday": ("ongoing", ("washing-machine", "delivery", "friday")),
    "dentist moved to the tenth": ("appointment", ("dentist", "checkup", "invoice")),
    "the invoice of the landlord": ("lasting", ("invoice", "contract", "deposit")),
}


class ScriptedModel:
    """Says of each known text what `SAID` says; windows that hold a text of `failing` fail."""

    model = "scripted"
    prompt_version = "1"
    concurrency = 1
    remote = False

    def __init__(self, failing: frozenset[str] = frozenset()) -> None:
        self._failing = failing

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        lines = list(transcript.lines)
        if any(line.text in self._failing for line in lines):
            return WindowResult(transcript.window, "failed", transcript.input_hash, self.model, "1", Usage(1, 100, 0, 1.5), (), ErrorCode.TIMEOUT)
        observations = tuple(_observation(line) for line in lines if line.text in SAID)
        status = "ok" if observations else "empty"
        return WindowResult(transcript.window, status, transcript.input_hash, self.model, "1", Usage(1, 100, 20, 1.5), observations)

    def close(self) -> None:
        return None


def _observation(line: Line) -> Observation:
    kind, words = SAID[line.text]
    span = Span(line.source_type, line.source_ref, line.at, line.ends)
    return Observation(words, kind, DAYS[kind], line.at, (line.at + timedelta(days=DAYS[kind])).date(), (span,))


def message(at: str, text: str, ref: str = "house", author: str = "Nora", native_id: str | None = None) -> dict[str, str]:
    """One line of a jsonl source."""
    row = {"source_type": "messaging", "source_ref": ref, "at": at, "text": text, "author": author}
    return row | ({"native_id": native_id} if native_id else {})


ROWS = [
    message("2026-03-30T08:10:00Z", "the entrance door is broken", native_id="m1"),
    message("2026-03-30T08:12:00Z", "ok", author="Ben", native_id="m2"),
    message("2026-03-31T09:00:00Z", "still no repair of the door", author="Ben", native_id="m3"),
    message("2026-03-31T10:00:00Z", "washing machine arrives on friday", ref="family"),
    message("2026-03-31T20:00:00Z", "dentist moved to the tenth", ref="family"),
    message("2026-04-01T03:00:00Z", "the invoice of the landlord", ref="house"),
]


def write_rows(home: Home, rows: list[dict[str, str]], name: str = "chat.jsonl", tail: str = "") -> Path:
    """Write rows as a source file of a home."""
    home.create()
    path = home.sources / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail, encoding="utf-8")
    return path


def run(home: Home, as_of: datetime = AS_OF, settings: Settings = SETTINGS, failing: frozenset[str] = frozenset()) -> None:
    """Ingest, extract, project and publish what is due, as a run does."""
    ingest(home, settings, as_of)
    extract(home, settings, ScriptedModel(failing), overview(home, settings, as_of).due, as_of)
    with store.writing(home, settings) as con:
        project.project(con, as_of)
        salience.sweep(con, overview_at(as_of))
    publish(home, settings, as_of)


def overview_at(as_of: datetime) -> datetime:
    """The instant salience is computed for: the start of the window that holds `as_of`."""
    return as_of.replace(hour=as_of.hour // 6 * 6, minute=0)
