"""How fast the caretaker is at a size that few homes will reach: sweep, consolidation candidates, ticks, many writers at once.

The data are made up: words by Zipf's law, as they are in life. Making them is not measured; each measure has a process of its own.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.bridge import FilePublisher, StoreMemory
from subconscious_pipeline.caretaker.events import Accessed, Interaction, Mode, SessionStarted, TransactionContext
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import current
from subconscious_pipeline.caretaker.tick import Caretaker
from subconscious_pipeline.evals.bench import isolated, peak_mb
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import consolidate, project, store
from subconscious_pipeline.settings import Settings

CONCEPTS = 100_000
TIMESTAMPS = 5 * CONCEPTS
EVENTS = 100_000
WRITERS, APPENDS = 8, 1_000

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SETTINGS = Settings(timezone="UTC")
_BATCH = 1_000
_SESSIONS = 500


@dataclass(frozen=True)
class Measure:
    """One figure and what it must not exceed (None: no limit). `sound` is false when the result itself was wrong."""

    what: str
    seconds: float
    limit_seconds: float | None
    peak_mb: float | None = None
    limit_mb: float | None = None
    detail: str = ""
    sound: bool = True

    @property
    def kept(self) -> bool:
        """Whether the result was right and within its limits."""
        quick = self.limit_seconds is None or self.seconds <= self.limit_seconds
        small = self.limit_mb is None or self.peak_mb is None or self.peak_mb <= self.limit_mb
        return self.sound and quick and small

    def as_json(self) -> dict[str, Any]:
        """One entry of `subconscious bench caretaker --json`."""
        return asdict(self) | {"kept": self.kept}


def bench_caretaker(said: Callable[[str], None] = lambda _: None) -> Iterator[Measure]:
    """Measure one thing after the other; each is yielded as it is done.

    Args:
        said: told what is being done, as it takes a minute.
    """
    with TemporaryDirectory() as scratch:
        root = f"{scratch}/home"
        said(f"making a memory of {CONCEPTS:,} concepts")
        observations = isolated(_make_memory, root)
        size = f"{CONCEPTS:,} concepts, {TIMESTAMPS:,} timestamps ({observations:,} of observations)"
        said("consolidation candidates")
        yield Measure("consolidation candidates", *_timed(isolated(_candidates, root), 10.0, None, size))
        said("decay sweep")
        yield Measure("decay sweep, every score new", *_timed(isolated(_sweep, root, 0), 3.0, 1_024.0, size))
        yield Measure("decay sweep of a day on which concepts expire", *_timed(isolated(_sweep, root, 2), 3.0, 1_024.0, size))
        said(f"writing {EVENTS:,} events")
        log = f"{scratch}/log/events.db"
        isolated(_make_log, log)
        said("ticks")
        yield Measure("tick, fold saved by the writers on the way", *_timed(isolated(_tick, log, False), 0.2, None, f"{EVENTS:,} events"))
        yield Measure("tick, nothing folded before (a foreign writer)", *_timed(isolated(_tick, log, True), None, None, f"{EVENTS:,} events"))
        said(f"{WRITERS} processes append")
        yield _many_writers(Path(scratch) / "many" / "events.db")


def _timed(done: tuple[float, float, str], limit: float | None, limit_mb: float | None, size: str) -> tuple[Any, ...]:
    seconds, peak, detail = done
    return seconds, limit, peak, limit_mb, f"{size}; {detail}" if detail else size


def _measured(work: Callable[[], str]) -> tuple[float, float, str]:
    """Seconds, largest memory of this process, and what `work` says with the processor time it took (which other load leaves alone)."""
    started, spent = time.perf_counter(), time.process_time()
    detail = work()
    return time.perf_counter() - started, peak_mb(), f"{detail}; {time.process_time() - spent:.2f} s of processor time"


# --- memory


def _vocabulary(dice: random.Random) -> list[str]:
    parts = ("bdfgklmnprstvz", ("ana", "elo", "iri", "otu", "umi", "abe", "eko", "isa"), ("ba", "de", "ki", "lo", "mu", "na", "re", "si", "to", "vu"))
    words = ["".join(syllables) for syllables in product(*parts, ("", "x", "ndo", "rk", "lt", "m", "p"))]
    dice.shuffle(words)
    return words


def _make_memory(root: str) -> int:
    dice = random.Random(1)
    words = _vocabulary(dice)
    zipf = list(accumulate(1 / (rank + 1) ** 0.7 for rank in range(len(words))))
    instant = pl.Datetime("us", "UTC")
    observed: list[tuple[Any, ...]] = []
    spans: list[tuple[Any, ...]] = []
    for concept in range(1, CONCEPTS + 1):
        core = list(dict.fromkeys(dice.choices(words, cum_weights=zipf, k=6)))
        day = dice.uniform(0, 360)
        expires = (NOW + timedelta(days=dice.randrange(1, 60))).date()
        for number in range(dice.choice((1, 1, 2, 3, 5, 9))):
            at = NOW - timedelta(days=max(0.0, day - number / 2))
            observed.append((len(observed) + 1, at, number, core, expires, concept))
            spans.append((len(observed), f"c{dice.randrange(3_000)}", at))
    missing = TIMESTAMPS - len(observed)
    accesses = [(dice.randrange(1, CONCEPTS + 1), NOW - timedelta(days=dice.uniform(0, 360))) for _ in range(missing)]
    frames: dict[str, tuple[list[tuple[Any, ...]], dict[str, Any]]] = {
        "made": (
            observed,
            {"id": pl.Int64, "moment": instant, "ordinal": pl.Int64, "words": pl.List(pl.String), "expires": pl.Date, "concept": pl.Int64},
        ),
        "made_spans": (spans, {"id": pl.Int64, "ref": pl.String, "moment": instant}),
        "made_accesses": (accesses, {"concept": pl.Int64, "moment": instant}),
    }
    with store.writing(Home(Path(root)).create(), SETTINGS) as con:
        for name, (rows, schema) in frames.items():
            con.register(name, pl.DataFrame(rows, schema=schema, orient="row").to_arrow())
        con.execute(
            "INSERT INTO observations SELECT id, 'extraction', moment, ordinal, NULL, words, 'ongoing', 30, moment, expires, concept FROM made"
        )
        con.execute("INSERT INTO observation_spans SELECT id, 'messaging', ref, moment, moment FROM made_spans")
        con.execute("INSERT INTO accesses SELECT concept, moment, 's' FROM made_accesses")
        project.project(con, NOW)
    return len(observed)


def _sweep(root: str, days: int) -> tuple[float, float, str]:
    memory = StoreMemory(Home(Path(root)), SETTINGS)

    def work() -> str:
        counts = memory.sweep(_transaction(""), NOW + timedelta(days=days)).counts
        return ", ".join(f"{count:,} {name}" for name, count in counts.items() if name != "concepts")

    return _measured(work)


def _candidates(root: str) -> tuple[float, float, str]:
    def work() -> str:
        with store.reading(Home(Path(root)), SETTINGS) as con:
            return f"{len(consolidate.candidates(con)):,} pairs"

    return _measured(work)


# --- events


def _transaction(session: str) -> TransactionContext:
    return TransactionContext(transaction_id="bench", trigger="bench", session_id=session or None, at=NOW)


def _make_log(path: str) -> None:
    """A log as agents leave it: `client.FOLD_EVERY` − 1 events after the last fold that a writer saved; nothing is due."""
    modes = tuple(Mode)
    with EventLog(Path(path)) as log:
        _caretaker(log).step(lambda: NOW)
        for number in range(_SESSIONS):
            log.append(NewEvent(SessionStarted(instance_id="bench"), NOW, _transaction(f"s{number}")), durable=False)
        left = EVENTS - log.last_id()
        for first in range(0, left, _BATCH):
            numbers = range(first, min(first + _BATCH, left))
            batch = [NewEvent(Interaction(mode=modes[number % 3]), NOW, _transaction(f"s{number * 7 % _SESSIONS}")) for number in numbers]
            log.append(*batch, durable=False)
            if first + _BATCH <= left - client.FOLD_EVERY:
                current(log)


def _caretaker(log: EventLog) -> Caretaker:
    home = Home(log.path.parent)
    return Caretaker(log, StoreMemory(home, SETTINGS), FilePublisher(home, SETTINGS), CaretakerSettings())


def _tick(path: str, unfolded: bool) -> tuple[float, float, str]:
    with EventLog(Path(path)) as log:
        if unfolded:
            log.drop_fold()
        caretaker = _caretaker(log)
        return _measured(lambda: f"{len(caretaker.step(lambda: NOW).ran)} commands due")


def _append(path: str, writer: int) -> tuple[float, float]:
    with EventLog(Path(path)) as log:
        started = time.time()
        for number in range(1, APPENDS + 1):
            client.accessed(log, f"writer-{writer}", NOW, [number])
        return started, time.time()


def _many_writers(path: Path) -> Measure:
    with multiprocessing.get_context("spawn").Pool(WRITERS) as pool:
        spans = pool.starmap(_append, [(str(path), writer) for writer in range(WRITERS)], chunksize=1)
    seconds = max(end for _, end in spans) - min(start for start, _ in spans)
    by_writer: dict[str, list[int]] = {}
    with EventLog(path) as log:
        for event in log.read():
            payload = event.payload()
            if isinstance(payload, Accessed) and event.session_id:
                by_writer.setdefault(event.session_id, []).extend(payload.concept_ids)
    sound = len(by_writer) == WRITERS and all(numbers == list(range(1, APPENDS + 1)) for numbers in by_writer.values())
    kept = "none lost, none doubled, order kept" if sound else "EVENTS LOST, DOUBLED OR OUT OF ORDER"
    rate = f"{WRITERS * APPENDS / seconds:,.0f} a second"
    return Measure(f"{WRITERS} processes × {APPENDS:,} appends", seconds, None, detail=f"{kept}; {rate}", sound=sound)
