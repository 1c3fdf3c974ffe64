"""A home in a temporary directory, and the few things one does with it. Shared by the tests of warehouse, memory and publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from subconscious_pipeline import duck
from subconscious_pipeline.extraction.types import ErrorCode, Observation, Span, Usage, WindowResult
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import Window, parse_instant, window_at
from subconscious_pipeline.memory import observe, project, salience, store
from subconscious_pipeline.memory.extract import Outcome, extract
from subconscious_pipeline.publish.files import Published, publish
from subconscious_pipeline.publish.overview import Overview, overview
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse import read, schema
from subconscious_pipeline.warehouse.ingest import IngestReport, ingest
from subconscious_pipeline.warehouse.transcript import Transcript
from subconscious_pipeline.warehouse.windows import WindowInput, window_inputs

AS_OF = datetime(2026, 4, 1, 12, 0, tzinfo=UTC)


def at(text: str) -> datetime:
    """An instant, written short."""
    return parse_instant(text)


def window(text: str) -> Window:
    """The six-hour window that starts there."""
    return window_at(at(text), 6)


def span(ref: str, start: str, end: str | None = None, kind: str = "messaging") -> Span:
    return Span(kind, ref, at(start), at(end or start))


def said(words: str, *spans: Span, ttl: int = 5, expires: date | None = None) -> Observation:
    """An observation of these words (blank-separated), seen at the end of its last span."""
    last = max(one.time_end for one in spans)
    return Observation(tuple(words.split()), "incident", ttl, last, expires or (last + timedelta(days=ttl)).date(), spans)


def result(start: str, *observations: Observation, input_hash: str = "h1", error: ErrorCode | None = None) -> WindowResult:
    """The outcome of the window that starts there."""
    status = "failed" if error else "ok" if observations else "empty"
    return WindowResult(window(start), status, input_hash, "fake", "1", Usage(1, 100, 10, 0.5), observations, error)  # type: ignore[arg-type]


def message(text: str, when: str, ref: str = "flat", author: str | None = "Ana", **more: Any) -> dict[str, Any]:
    """A row of the jsonl reader."""
    return {"source_type": "messaging", "source_ref": ref, "at": when, "text": text, "author": author, **more}


@dataclass
class FakeExtractor:
    """Says of each window what the script says: observations, an error code, or whatever it raises."""

    script: Callable[[Transcript], Sequence[Observation] | ErrorCode]
    model: str = "fake"
    prompt_version: str = "1"
    concurrency: int = 1
    remote: bool = False
    asked: list[str] = field(default_factory=list)

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        self.asked.append(transcript.window.key)
        answer = self.script(transcript)
        usage = Usage(1, 100, 10, 0.5)
        if isinstance(answer, ErrorCode):
            return WindowResult(transcript.window, "failed", transcript.input_hash, self.model, "1", usage, error_code=answer)
        return WindowResult(transcript.window, "ok" if answer else "empty", transcript.input_hash, self.model, "1", usage, tuple(answer))

    def close(self) -> None:
        return None


def first_words(transcript: Transcript) -> list[Observation]:
    """A script: each conversation is one matter, named by the first three words of its first line."""
    found = []
    for conversation in transcript.conversations:
        first, last = conversation.lines[0], conversation.lines[-1]
        spans = Span(first.source_type, first.source_ref, first.at, last.ends)
        found.append(Observation(tuple(first.text.split()[:3]), "incident", 5, last.at, (last.at + timedelta(days=5)).date(), (spans,)))
    return found


class Place:
    """One home."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.home = Home(root).create()
        self.settings = settings

    def source(self, name: str, content: str | bytes) -> Path:
        path = self.home.sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def jsonl(self, name: str, *rows: dict[str, Any] | str) -> Path:
        return self.source(name, "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))

    def ingest(self, as_of: datetime = AS_OF) -> IngestReport:
        return ingest(self.home, self.settings, as_of)

    def warehouse(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with duck.reading(self.home.warehouse, schema.MIGRATIONS, 5) as con:
            return con.execute(query, list(parameters)).fetchall()

    def memory(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with store.reading(self.home, self.settings) as con:
            return con.execute(query, list(parameters)).fetchall()

    def write_memory(self, *statements: str) -> None:
        with store.writing(self.home, self.settings) as con:
            for statement in statements:
                con.execute(statement)

    def inputs(self) -> list[WindowInput]:
        with duck.reading(self.home.warehouse, schema.MIGRATIONS, 5) as con:
            return window_inputs(con)

    def transcript(self, start: str) -> Transcript:
        with duck.reading(self.home.warehouse, schema.MIGRATIONS, 5) as con:
            return read.transcript(con, window(start))

    def pointer(self, *args: Any) -> list[read.RawItem]:
        with duck.reading(self.home.warehouse, schema.MIGRATIONS, 5) as con:
            return read.read_pointer(con, *args)

    def persist(self, *results: WindowResult, as_of: datetime = AS_OF) -> list[str]:
        """Each outcome in a transaction of its own; returns the statuses."""
        statuses = []
        for one in results:
            with store.writing(self.home, self.settings) as con:
                statuses.append(observe.persist(con, one, as_of, self.settings))
        return statuses

    def project(self, as_of: datetime = AS_OF) -> project.Projection:
        with store.writing(self.home, self.settings) as con:
            return project.project(con, as_of)

    def sweep(self, as_of: datetime = AS_OF) -> salience.Sweep:
        with store.writing(self.home, self.settings) as con:
            return salience.sweep(con, as_of)

    def overview(self, as_of: datetime = AS_OF) -> Overview:
        return overview(self.home, self.settings, as_of)

    def extract(self, extractor: FakeExtractor, as_of: datetime = AS_OF, **more: Any) -> Outcome:
        return extract(self.home, self.settings, extractor, self.overview(as_of).due, as_of, **more)

    def publish(self, as_of: datetime = AS_OF) -> Published:
        """Projection, sweep and publication, as a run does them."""
        self.project(as_of)
        self.sweep(self.overview(as_of).published_at)
        return publish(self.home, self.settings, as_of)

    def concepts(self) -> dict[int, set[str]]:
        """Concept id → its words."""
        found: dict[int, set[str]] = {row[0]: set() for row in self.memory("SELECT id FROM concepts")}
        for concept, word in self.memory("SELECT concept_id, word FROM keywords"):
            found[concept].add(word)
        return found
