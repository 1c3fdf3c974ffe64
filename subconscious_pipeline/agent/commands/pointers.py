"""`keywords`, `lookup`, `read`: the agent's three steps."""

from __future__ import annotations

from typing import Annotated

import typer

from subconscious_pipeline.agent import show, steps
from subconscious_pipeline.agent.client import Subconscious
from subconscious_pipeline.agent.options import AsOfOption, HomeOption, JsonOption, instant, now
from subconscious_pipeline.instants import iso_z

PANEL = "The agent's three steps"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("keywords", rich_help_panel=PANEL)(keywords)
    app.command("lookup", rich_help_panel=PANEL)(lookup)
    app.command("read", rich_help_panel=PANEL)(read)


def keywords(as_of: AsOfOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """What is alive: the published keywords."""
    steps.keywords(home, now(as_of, home), json)


def lookup(
    words: Annotated[list[str] | None, typer.Argument(help="Words, phrases or concept ids.", metavar="WORD", show_default=False)] = None,
    task: Annotated[str | None, typer.Option(help="Free text; every word of it that the index knows counts.", show_default=False)] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Who looks: what is found is remembered as looked up, and fades slower.", show_default=False)
    ] = None,
    as_of: AsOfOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Where it lies: concepts that carry a word, and pointers to the raw data."""
    if bool(words) == (task is not None):
        raise typer.BadParameter("give either words or --task TEXT", param_hint="WORD")
    steps.lookup(home, words or (), task, now(as_of, home), json, session)


def read(
    source_type: Annotated[str, typer.Argument(metavar="TYPE", help="Source type, as `lookup` gives it: messaging, email, calendar…")],
    source_ref: Annotated[str, typer.Argument(metavar="REF", help="Source ref, as `lookup` gives it.")],
    time_from: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="First instant, such as 2026-04-03T12:00Z.", show_default=False)
    ] = None,
    time_to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Last instant (included); a date means all of it.", show_default=False)
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """What was said: the raw messages, mails or events behind a pointer."""
    start, end = instant(time_from, "--from"), instant(time_to, "--to", last=True)
    if start and end and start > end:
        raise typer.BadParameter(f"{iso_z(start)} is after {iso_z(end)}", param_hint="--from")
    found = Subconscious(home).read(source_type, source_ref, start, end)
    if found.note:
        show.note(found.note)
    if json:
        show.as_json(found.as_json())
    else:
        steps.show_reading(found)
