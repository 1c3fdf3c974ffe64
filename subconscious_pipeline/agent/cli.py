"""The entry point `subconscious`. `keywords` and `lookup` run at every prompt of an agent and go past Typer, which takes a quarter of a second.

Their arguments are parsed here only in the plain form; whatever else is typed (help, mistakes) is left to Typer, so that there is one
place that explains.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from subconscious_pipeline.agent import show, steps
from subconscious_pipeline.errors import ConfigError, SubconsciousError
from subconscious_pipeline.home import resolve_home
from subconscious_pipeline.instants import parse_instant

_VALUES = {"keywords": ("--home", "--as-of"), "lookup": ("--home", "--as-of", "--task", "--session")}


@dataclass(frozen=True)
class Plain:
    """The arguments of a `keywords` or `lookup` that needs no explaining."""

    verb: str
    words: tuple[str, ...]
    task: str | None
    session: str | None
    home: str | None
    now: datetime
    json: bool


def plain(arguments: Sequence[str]) -> Plain | None:
    """The arguments (without the program's name) of a hot command in plain form, or None: Typer is to have them."""
    if not arguments or arguments[0] not in _VALUES:
        return None
    verb, rest = arguments[0], iter(arguments[1:])
    words: list[str] = []
    values: dict[str, str] = {}
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument == "--json":
            values["--json"] = ""
        elif name in _VALUES[verb]:
            taken = value if equals else next(rest, "")
            if not taken or (taken.startswith("-") and not equals):
                return None
            values[name] = taken
        elif argument.startswith("-") or verb == "keywords":
            return None
        else:
            words.append(argument)
    if verb == "lookup" and bool(words) == ("--task" in values):
        return None
    try:
        now = parse_instant(values["--as-of"]) if "--as-of" in values else resolve_home(values.get("--home")).now()
    except ConfigError:
        return None
    return Plain(verb, tuple(words), values.get("--task"), values.get("--session"), values.get("--home"), now, "--json" in values)


def main() -> None:
    """Run the command line with the arguments of the process; ends the process with 0, 1 or 2."""
    asked = plain(sys.argv[1:])
    if asked is None:
        from subconscious_pipeline.agent.app import app

        app(prog_name="subconscious")
        return
    try:
        if asked.verb == "keywords":
            steps.keywords(asked.home, asked.now, asked.json)
        else:
            steps.lookup(asked.home, asked.words, asked.task, asked.now, asked.json, asked.session)
    except SubconsciousError as error:
        show.failure(str(error), type(error).__name__, asked.json)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains when it flushes at its end
        sys.exit(1)
