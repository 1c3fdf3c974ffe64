"""`model pull`, `model check`: the local model's file, and a test of whatever model is configured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.options import HomeOption, JsonOption


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="The model: fetch the local one, test whatever is configured.")
    group.command("pull")(pull)
    group.command("check")(check)
    app.add_typer(group, name="model", rich_help_panel="The pipeline")


def pull_with_progress(quiet: bool = False) -> Path:
    """Fetch the default local model unless it is there, and show how far it is; returns its path.

    Raises:
        ExtractionError: it cannot be had, or the disk is too full.
    """
    from subconscious_pipeline.agent.download import shown
    from subconscious_pipeline.extraction import gguf

    with shown(quiet) as report:
        return gguf.pull(report)


def pull(
    home: HomeOption = None,  # noqa: ARG001 - every command takes it; model files are shared by all homes
    json: JsonOption = False,
) -> None:
    """Fetch the local model (1.1 GB, Apache-2.0) unless it is there, and verify its hash. An interrupted pull is continued."""
    path = pull_with_progress(quiet=json)
    if json:
        show.as_json({"path": str(path), "bytes": path.stat().st_size})
    else:
        mark, colour = show.MARKS["ok"]
        show.line(f"{show.style(mark, colour, bold=True)} {path}: complete, hash verified")


def check(
    model: Annotated[str | None, typer.Option(metavar="M", help="Test this model instead of SUBCONSCIOUS_MODEL.", show_default=False)] = None,
    home: HomeOption = None,  # noqa: ARG001 - every command takes it; a model belongs to no home
    json: JsonOption = False,
) -> None:
    """Ask the configured model about one tiny window, and say what it costs and where text goes. Exit code 1 when it cannot be used."""
    from subconscious_pipeline.agent.trial import try_model
    from subconscious_pipeline.settings import load_settings

    trial = try_model(load_settings(model=model))
    if json:
        show.as_json(trial.as_json())
    else:
        mark, colour = show.MARKS["fail" if trial.reason else "ok"]
        show.line(f"{show.style(mark, colour, bold=True)} {show.style(trial.model, bold=True)}")
        place = f"goes to {trial.destination}" if trial.remote else "stays on this machine"
        show.line(f"  message text {place}")
        for words in trial.words:
            show.line(f"  named: {', '.join(words)}")
        usage = trial.result.usage
        tokens = f"{usage.prompt_tokens:,} prompt and {usage.completion_tokens:,} completion tokens"
        show.line(f"  {tokens} in {show.counted(usage.calls, 'call')}, {usage.seconds:.1f} s")
    if trial.reason:
        if not json:
            show.failure(trial.reason, "ModelFailed", json_too=False)
        raise typer.Exit(1)
