"""Speed, measured against what the machine allows: how fast sources go into the warehouse, how long a backfill takes."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from subconscious_pipeline.home import Home
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.ingest import ingest


@dataclass(frozen=True)
class IngestBench:
    """Reading one corpus into a fresh warehouse, and the fastest DuckDB could store the same rows."""

    messages: int
    errors: int
    seconds: float
    peak_mb: float
    limit_seconds: float

    @property
    def rate(self) -> float:
        """Messages a second, everything included."""
        return self.messages / self.seconds

    @property
    def limit_rate(self) -> float:
        """Messages a second of DuckDB reading JSON lines into a sorted table of a file."""
        return self.messages / self.limit_seconds


def isolated(work: Callable[..., Any], *arguments: object) -> Any:
    """The result of `work` in a process of its own, so that memory and caches are its own too."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(work, arguments)


def peak_mb() -> float:
    """Largest resident size of this process so far, in MB (ru_maxrss is kilobytes on Linux, bytes on macOS)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def _ingest(corpus: str, root: str) -> tuple[int, int, float, float]:
    home = Home(Path(root)).create()
    (home.sources / Path(corpus).name).symlink_to(Path(corpus).resolve())
    started = time.perf_counter()
    report = ingest(home, Settings(timezone="UTC"), datetime.now(UTC) + timedelta(seconds=1))
    seconds = time.perf_counter() - started
    return sum(file.records for file in report.files), sum(file.lost for file in report.files), seconds, peak_mb()


def _limit(warehouse: str, scratch: str) -> float:
    lines, target = f"{scratch}/rows.jsonl", f"{scratch}/limit.duckdb"
    con = duckdb.connect(warehouse, read_only=True)
    con.execute(
        f"COPY (SELECT message_key AS id, source_ref AS conv, source_type, sent_at AS ts, author, text FROM messages) TO '{lines}' (FORMAT json)"
    )
    con.close()
    started = time.perf_counter()
    con = duckdb.connect(target)
    con.execute(f"CREATE TABLE messages AS SELECT * FROM read_json('{lines}', format = 'newline_delimited') ORDER BY ts")
    con.close()
    return time.perf_counter() - started


def bench_ingest(corpus: Path) -> IngestBench:
    """Measure ingest of one source (file or export folder), each part in a process of its own.

    Args:
        corpus: what would lie under `sources/`: a Slack export folder, a jsonl file, a chat.
    """
    with TemporaryDirectory() as scratch:
        root = f"{scratch}/home"
        messages, errors, seconds, peak = isolated(_ingest, str(corpus), root)
        limit = isolated(_limit, f"{root}/warehouse.duckdb", scratch) if messages else float("nan")
    return IngestBench(messages, errors, seconds, peak, limit)


@dataclass(frozen=True)
class BackfillBench:
    """One Dagster run over a range of windows of the sample, with the reference replies."""

    windows: int
    seconds: float
    published_seconds: float


def bench_backfill(sample_folder: Path, windows: int = 30) -> BackfillBench:
    """Measure one single-run backfill of `windows` windows that cover the sample, and the publication after it."""
    from subconscious_pipeline.defs.automation import range_tags
    from subconscious_pipeline.defs.instance import instance
    from subconscious_pipeline.defs.resources import AS_OF_TAG, Clock, HomeResource, Model
    from subconscious_pipeline.defs.runner import definitions
    from subconscious_pipeline.evals.reference import copy_sample, load_sample
    from subconscious_pipeline.instants import Window, iso_z, window_at

    sample = load_sample(sample_folder)
    last = window_at(sample.as_of, 6).start - timedelta(hours=6)
    first = last - timedelta(hours=6 * (windows - 1))
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with TemporaryDirectory() as scratch:
        home = Home(Path(scratch))
        copy_sample(sample, home)
        with instance(home) as dagster_instance:
            took = []
            for job, tags in (
                ("index", range_tags(Window(first, first + timedelta(hours=6)), Window(last, last + timedelta(hours=6)))),
                ("publish", {}),
            ):
                started = time.perf_counter()
                definitions().resolve_job_def(job).execute_in_process(
                    instance=dagster_instance,
                    tags={**tags, AS_OF_TAG: iso_z(sample.as_of)},
                    resources={"home": HomeResource(root=str(home.root)), "clock": Clock(root=str(home.root)), "model": Model(name="replay")},
                    run_config=quiet,
                )
                took.append(time.perf_counter() - started)
    return BackfillBench(windows, took[0], took[1])
