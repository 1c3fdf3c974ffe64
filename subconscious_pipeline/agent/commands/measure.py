"""`eval …` and `bench …`: quality and speed, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.options import JsonOption
from subconscious_pipeline.errors import ConfigError

PANEL = "Measurements"


def register(app: typer.Typer) -> None:
    """Add the command groups of this module."""
    bench = typer.Typer(no_args_is_help=True, help="How fast it is on this machine.")
    bench.command("ingest")(bench_ingest)
    bench.command("backfill")(bench_backfill)
    app.add_typer(bench, name="bench", rich_help_panel=PANEL)
    evaluate = typer.Typer(no_args_is_help=True, help="How well a model names what is talked about.")
    evaluate.callback()(_group)
    evaluate.command("labelled")(eval_labelled)
    app.add_typer(evaluate, name="eval", rich_help_panel=PANEL)


def _group() -> None:
    """How well a model names what is talked about."""


def bench_ingest(
    corpus: Annotated[Path, typer.Argument(exists=True, help="A source: an export folder or file, large enough to be timed.")],
    json: JsonOption = False,
) -> None:
    """Read a corpus into a fresh warehouse; compare with DuckDB's own speed on the same rows."""
    from subconscious_pipeline.evals.bench import bench_ingest as measure

    done = measure(corpus)
    if json:
        show.as_json(
            {
                "messages": done.messages, "errors": done.errors, "seconds": done.seconds, "per_second": done.rate, "peak_mb": done.peak_mb,
                "duckdb_per_second": done.limit_rate, "ratio": done.rate / done.limit_rate,
            }
        )  # fmt: skip
        return
    show.table(
        ["what", "messages/s", "seconds"],
        [
            ["ingest: read, mark noise, load, group by window", f"{done.rate:,.0f}", f"{done.seconds:.2f}"],
            ["limit: DuckDB, JSON lines to a sorted table in a file", f"{done.limit_rate:,.0f}", f"{done.limit_seconds:.2f}"],
        ],
        right=["messages/s", "seconds"],
        title=f"{done.messages:,} messages, {done.errors:,} bad items",
    )
    show.line(f"{done.rate / done.limit_rate:.0%} of the limit, {done.peak_mb:,.0f} MB at the most")


def bench_backfill(windows: Annotated[int, typer.Option(min=1, help="Windows of the range.")] = 30, json: JsonOption = False) -> None:
    """One Dagster run over many windows of the sample, with the reference replies."""
    from subconscious_pipeline.defs.resources import sample_dir
    from subconscious_pipeline.evals.bench import bench_backfill as measure

    folder = sample_dir()
    if folder is None:
        raise ConfigError("the sample is not installed here; clone the repository to measure with it")
    done = measure(folder, windows)
    if json:
        show.as_json({"windows": done.windows, "index_seconds": done.seconds, "publish_seconds": done.published_seconds})
    else:
        show.line(f"{done.windows} windows in one run: {done.seconds:.1f} s, publication: {done.published_seconds:.1f} s")


def eval_labelled(
    path: Annotated[Path, typer.Argument(exists=True, help="Labelled windows (JSON).")],
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="Model, instead of SUBCONSCIOUS_MODEL.", show_default=False)] = None,
    json: JsonOption = False,
) -> None:
    """Precision and recall of concepts, keywords and cited lines on labelled windows."""
    from subconscious_pipeline.evals.labelled import as_json, evaluate, rows
    from subconscious_pipeline.extraction.models import make_extractor
    from subconscious_pipeline.settings import load_settings

    extractor = make_extractor(load_settings(model=model))
    try:
        report = evaluate(path, extractor, lambda window: None if json else show.note(f"asking about {window}"))
    finally:
        extractor.close()
    if json:
        show.as_json(as_json(report))
    else:
        columns, lines = rows(report)
        show.table(columns, lines, right=columns[1:])
