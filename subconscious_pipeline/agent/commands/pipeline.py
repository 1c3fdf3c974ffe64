"""`run`, `demo`, `dev`: the commands that launch Dagster. It is imported when they run, never before."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.client import command
from subconscious_pipeline.agent.options import HomeOption, JsonOption, instant
from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.home import Home, checkout, resolve_home, sample_dir

if TYPE_CHECKING:
    from subconscious_pipeline.defs.runner import Planned, RunReport
    from subconscious_pipeline.instants import Window

PANEL = "The pipeline"
MANY_WINDOWS = 40  # above this a run asks before it asks a model
TOKENS_A_ROW, TOKENS_A_CALL = 30, 1_100  # what a line of a chat and the constant part of a prompt come to
SHOWN_ERRORS = 10

ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="M", help="Model for this run, instead of SUBCONSCIOUS_MODEL.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("demo", rich_help_panel=PANEL)(demo)
    app.command("run", rich_help_panel=PANEL)(run)
    app.command("dev", rich_help_panel=PANEL)(dev)


def run(
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="Run as at this past instant.", show_default=False)] = None,
    window: Annotated[
        list[str] | None,
        typer.Option("--window", metavar="K", help="Extract this window again (2026-04-03T06:00Z), or a range FIRST..LAST.", show_default=False),
    ] = None,
    model: ModelOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before asking a model about many windows.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Read what is new, ask the model about every due window, publish the keywords."""
    from subconscious_pipeline.settings import load_settings

    place = resolve_home(home)
    settings = load_settings(model=model)
    now = place.now()
    at = instant(as_of, "--as-of") or now
    if at > now:
        raise typer.BadParameter(f"{as_of} lies in the future", param_hint="--as-of")
    chosen = _windows(window or (), settings.window_hours)
    report = _run(place, at, chosen, model, yes=yes, quiet=json)
    if json:
        show.as_json(_as_json(report))
    else:
        _summary(place, report)
    if report.failures:
        raise typer.Exit(1)


def _windows(keys: tuple[str, ...] | list[str], hours: int) -> list[Window]:
    from subconscious_pipeline.instants import window_from_key, windows_between

    found = {}
    for key in keys:
        first, dots, last = key.partition("..")
        start = window_from_key(first, hours)
        end = window_from_key(last, hours) if dots else start
        if end < start:
            raise ConfigError(f"the range {key} ends before it begins; write it as FIRST..LAST")
        for window in windows_between(start.start, end.start, hours):
            found[window.start] = window
    return [found[start] for start in sorted(found)]


def _run(place: Home, at: datetime, chosen: list[Window], model: str | None, yes: bool, quiet: bool) -> RunReport:
    from subconscious_pipeline.agent.progress import progress
    from subconscious_pipeline.defs.runner import run_pipeline
    from subconscious_pipeline.settings import load_settings

    settings = load_settings(model=model)
    with progress(quiet) as shown:
        return run_pipeline(place, settings, at, lambda plan: yes or _confirm(plan, settings.model), shown, chosen, settings.model)


def _confirm(plan: Planned, model: str) -> bool:
    if len(plan.windows) <= MANY_WINDOWS:
        return True
    about = plan.rows * TOKENS_A_ROW + len(plan.windows) * TOKENS_A_CALL
    question = f"{len(plan.windows):,} windows with {plan.rows:,} rows are due: about {about:,} prompt tokens for {model}."
    if not show.interactive():
        raise ConfigError(f"{question} Run again with --yes to go ahead, or set SUBCONSCIOUS_TOKEN_BUDGET")
    return typer.confirm(f"{question} Go ahead?")


def _as_json(report: RunReport) -> dict[str, object]:
    from subconscious_pipeline.instants import iso_z

    state = report.after
    return {
        "status": state.status, "reasons": list(state.reasons), "as_of": iso_z(state.as_of), "watermark": iso_z(state.watermark),
        "windows": state.counts(), "asked": report.asked, "waiting": report.waiting, "failures": list(report.failures),
    }  # fmt: skip


def _summary(place: Home, report: RunReport) -> None:
    from subconscious_pipeline import duck
    from subconscious_pipeline.settings import load_settings
    from subconscious_pipeline.warehouse.read import file_errors
    from subconscious_pipeline.warehouse.schema import MIGRATIONS

    state = report.after
    with duck.reading(place.warehouse, MIGRATIONS, load_settings().lock_seconds) as con:
        errors = [error for error in file_errors(con) if not error.warning]
    if not state.inputs and not errors:
        show.line(f"Nothing to read: put exports under {place.sources} and run `{command(place, 'run')}` again.")
        return
    show.line()
    colour = "green" if state.status == "ok" and not report.failures else "yellow"
    done = "declined" if report.declined else show.counted(report.asked, "window") + " asked about"
    show.line(f"{show.style(state.status, colour, bold=True)} · {done} · read up to {show.minute(state.watermark)} UTC")
    if report.waiting:
        wait = show.counted(report.waiting, "window waits", "windows wait")
        show.line(show.style(f"  {wait} for the next run: the token budget (SUBCONSCIOUS_TOKEN_BUDGET) is spent", "yellow"))
    for failure in report.failures:
        show.line(show.style(f"  {failure}", "red"))
    for reason in state.reasons:
        show.line(show.style(f"  {reason}", "yellow"))
    for error in errors[:SHOWN_ERRORS]:
        show.line(show.style(f"  {error.path} ({error.locator}): {error.message}", "yellow"))
    if len(errors) > SHOWN_ERRORS:
        show.line(f"  and {show.counted(len(errors) - SHOWN_ERRORS, 'more bad item')}: {command(place, 'status')}")
    if older := state.beyond_lookback:
        show.line(
            f"  {show.counted(len(older), 'older window')} not read (beyond SUBCONSCIOUS_LOOKBACK_DAYS): "
            f"{command(place, f'run --window {older[0].key}..{older[-1].key}')}"
        )
    show.line()
    show.line((place.published / "awareness.md").read_text(encoding="utf-8").rstrip())


def demo(model: ModelOption = None, home: HomeOption = None) -> None:
    """The whole pipeline on the bundled sample, at the sample's own date, in a fresh home."""
    for variable in [name for name in os.environ if name.startswith("SUBCONSCIOUS_") and name not in _DEMO_KEEPS]:
        del os.environ[variable]  # the sample's windows and zones are its own
    from subconscious_pipeline.evals.reference import copy_sample, load_sample
    from subconscious_pipeline.settings import load_settings

    folder = sample_dir()
    if folder is None:
        raise ConfigError("the sample is missing from this installation; install the package again, or clone the repository and run `make demo`")
    sample = load_sample(folder)
    place = _fresh(home)
    copy_sample(sample, place)
    place.clock.write_text(sample.as_of.isoformat(), encoding="ascii")
    named = load_settings(model=model).model
    if named == "local":
        named = _local_or_reference()
    show.line(show.style(f"{sample.title}: read as at {show.minute(sample.as_of)} UTC, with {_label(named)}", bold=True))
    report = _run(place, sample.as_of, [], named, yes=True, quiet=False)
    _summary(place, report)
    _follow(place, sample.task)
    show.line()
    show.line(f"See it in Dagster:  {command(place, 'dev')}")
    if report.failures:
        raise typer.Exit(1)


_DEMO_KEEPS = {
    "SUBCONSCIOUS_MODEL", "SUBCONSCIOUS_BASE_URL", "SUBCONSCIOUS_GGUF", "SUBCONSCIOUS_HOME", "SUBCONSCIOUS_TIMEOUT_SECONDS",
    "SUBCONSCIOUS_MAX_OUTPUT_TOKENS", "SUBCONSCIOUS_CONTEXT_TOKENS",
}  # fmt: skip


def _label(model: str) -> str:
    if model == "local":
        return "the local model (nothing leaves this machine)"
    if model == "replay":
        return "the reference replies (what a good model should answer; no model is asked)"
    return model


def _fresh(home: Path | None) -> Home:
    """An empty home for the demo. A folder that an earlier demo made is replaced; any other must be empty."""
    root = checkout()
    place = resolve_home(home) if home else Home(root / "data" / "demo" if root else Path.cwd() / "subconscious-demo")
    if place.root.exists() and any(place.root.iterdir()):
        if not place.clock.exists():
            raise ConfigError(f"{place.root} is not empty and no earlier demo made it; name another folder with --home")
        shutil.rmtree(place.root)
    return place.create()


def _local_or_reference() -> str:
    """`local` once the model file is here; the reference replies, said aloud, when it cannot be had."""
    from subconscious_pipeline.agent.commands.models import pull_with_progress
    from subconscious_pipeline.errors import SubconsciousError
    from subconscious_pipeline.extraction.gguf import find_model
    from subconscious_pipeline.settings import load_settings

    try:
        if find_model(load_settings()) is None:
            pull_with_progress()
    except SubconsciousError as error:
        show.note(f"The local model cannot be used: {error}")
        show.note("Going on with the reference replies that come with the sample; they were written by hand, no model is asked.")
        return "replay"
    return "local"


def _follow(place: Home, task: str) -> None:
    """One lookup followed down to raw messages."""
    from subconscious_pipeline.agent.client import Subconscious
    from subconscious_pipeline.agent.steps import show_reading

    mind = Subconscious(place)
    show.line()
    show.line(show.style(f'An agent is asked: "{task}"', bold=True))
    found = mind.lookup(task=task)
    if not found.concepts:
        show.line("None of its words is known. (A small model may have named the matter differently: see the words above.)")
        return
    concept = found.concepts[0]
    show.line(f"It knows {', '.join(found.matched)}, looks up concept #{concept.id} ({', '.join(concept.keywords)}), and reads:")
    for source in concept.sources:
        show.line()
        show.line(show.style(f"{source.source_type} {show.safe(source.source_ref)}", "cyan"))
        for start, end in source.spans[-1:]:
            show_reading(mind.read(source.source_type, source.source_ref, start, end))


def dev(
    port: Annotated[int, typer.Option(help="Port of the web interface.")] = 3000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    home: HomeOption = None,
) -> None:
    """The Dagster UI and daemon on a home: lineage, backfills, schedules, sensors."""
    from subconscious_pipeline.defs.caretaker import wake
    from subconscious_pipeline.defs.instance import environment, prepare
    from subconscious_pipeline.settings import load_settings

    place = prepare(resolve_home(home))
    wake(place, load_settings(), "dev")
    show.line(f"http://{host}:{port}  ·  {place.root}")
    arguments = ["dagster", "dev", "-m", "subconscious_pipeline.definitions", "-h", host, "-p", str(port)]
    os.execvpe(_beside_python("dagster"), arguments, environment(place))


def _beside_python(name: str) -> str:
    import sys

    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name
