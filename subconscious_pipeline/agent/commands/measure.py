"""`eval …` and `bench …`: quality and speed, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.options import JsonOption
from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.home import sample_dir

PANEL = "Measurements"


def register(app: typer.Typer) -> None:
    """Add the command groups of this module."""
    bench = typer.Typer(no_args_is_help=True, help="How fast it is on this machine.")
    bench.command("ingest")(bench_ingest)
    bench.command("backfill")(bench_backfill)
    bench.command("caretaker")(bench_caretaker)
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
    from subconscious_pipeline.evals.bench import bench_backfill as measure

    folder = sample_dir()
    if folder is None:
        raise ConfigError("the sample is not installed here; clone the repository to measure with it")
    done = measure(folder, windows)
    if json:
        show.as_json({"windows": done.windows, "index_seconds": done.seconds, "publish_seconds": done.published_seconds})
    else:
        show.line(f"{done.windows} windows in one run: {done.seconds:.1f} s, publication: {done.published_seconds:.1f} s")


def bench_caretaker(json: JsonOption = False) -> None:
    """Sweep and consolidation at 100,000 concepts, ticks over 100,000 events, eight writers at once. Exit code 1 when a limit is not kept."""
    import os

    from subconscious_pipeline.evals.bench_caretaker import bench_caretaker as measure

    done = []
    for one in measure(show.note):
        done.append(one)
        if not json:
            limit = "" if one.limit_seconds is None else f" (limit {one.limit_seconds:g} s)"
            memory = "" if one.peak_mb is None else f", {one.peak_mb:,.0f} MB" + ("" if one.limit_mb is None else f" (limit {one.limit_mb:,.0f} MB)")
            mark, colour = show.MARKS["ok" if one.kept else "fail"]
            show.line(f"{show.style(mark, colour, bold=True)} {one.what}: {one.seconds:.2f} s{limit}{memory}")
            show.line(show.style(f"  {one.detail}", dim=True))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    if json:
        show.as_json({"measures": [one.as_json() for one in done], "load": load, "cpus": os.cpu_count()})
    elif load is not None:
        show.line(f"load of the machine afterwards: {load:.1f} on {os.cpu_count()} cores")
    if not all(one.kept for one in done):
        raise typer.Exit(1)


def eval_labelled(
    path: Annotated[Path, typer.Argument(exists=True, help="Labelled windows (JSON).")],
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="Model, instead of SUBCONSCIOUS_MODEL.", show_default=False)] = None,
    json: JsonOption = False,
) -> None:
    """Precision and recall of concepts, keywords and cited lines on labelled windows."""
    from subconscious_pipeline.evals.labelled import Score, evaluate
    from subconscious_pipeline.extraction.models import make_extractor
    from subconscious_pipeline.settings import load_settings

    extractor = make_extractor(load_settings(model=model))
    try:
        report = evaluate(path, extractor, lambda done: None if json else show.note(f"{done.window}: {done.seconds:.0f} s"))
    finally:
        extractor.close()

    def figures(score: Score) -> dict[str, tuple[float, float]]:
        return {name: (tally.precision, tally.recall) for name, tally in score.tallies().items()}

    total = figures(report.total)
    if json:
        windows = [{"window": each.window, "status": each.result.status, "seconds": each.seconds, **figures(each.score)} for each in report.windows]
        show.as_json({"model": report.model, **total, "seconds_a_window": report.seconds_a_window, "failed": list(report.failed), "windows": windows})
    else:
        lines = [(each.window, figures(each.score), f"{each.seconds:.1f}") for each in report.windows]
        lines.append(("all", total, f"{report.seconds_a_window:.1f}"))
        columns = ["window", *total, "seconds"]
        rows = [[name, *(f"{p:.2f} / {r:.2f}" for p, r in found.values()), seconds] for name, found, seconds in lines]
        show.table(columns, rows, right=columns[1:], title=f"{report.model}: precision / recall")
    if report.failed:
        raise typer.Exit(1)
