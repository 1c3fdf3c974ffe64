"""The Typer application: puts the command modules together and turns our exceptions into one line. Holds no logic.

A command module is light to import: what its commands need is imported when they run, so that `--help` and the agent's commands start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from subconscious_pipeline import __version__
from subconscious_pipeline.agent import show
from subconscious_pipeline.errors import SubconsciousError

# Modules under `agent/commands/`, in the order of the help; each has `register(app)`.
COMMANDS = ("pointers", "pipeline", "inspecting", "state", "health", "caretaking", "upkeep", "models", "measure")

_EPILOG = "Exit codes: 0 done, 1 failed, 2 bad usage. With --json a failure also prints an error object (type, message) on standard output."


class _Commands(TyperGroup):
    """Says what went wrong in one line, with what to do next; defects keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        json_too = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except SubconsciousError as error:
            show.failure(str(error), type(error).__name__, json_too)
            raise typer.Exit(1) from None


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=_EPILOG)


def _print_version(wanted: bool) -> None:
    if wanted:
        show.line(f"subconscious {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")] = False,
) -> None:
    """A subconscious for AI agents: a few keywords for what is alive in messages, mail and calendar, and pointers to where it was said."""


for _name in COMMANDS:
    import_module(f"subconscious_pipeline.agent.commands.{_name}").register(app)
