"""What a mind says to the caretaker and hears from it: `session`, `recall`, `claim`, `notifications`. Opens `events.db` alone.

Every command that says something appends one event; what comes of it is the caretaker's business.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.client import Subconscious, command
from subconscious_pipeline.agent.options import HomeOption, JsonOption, instant
from subconscious_pipeline.errors import SubconsciousError
from subconscious_pipeline.home import Home, resolve_home

if TYPE_CHECKING:
    from subconscious_pipeline.caretaker.events import Pointer
    from subconscious_pipeline.caretaker.log import EventLog

PANEL = "The caretaker"
POLL_SECONDS = 1.0
_PARTS_OF_A_POINTER = 4
_JOIN = "\x1f"


class NotConnected(SubconsciousError):
    """A session that has not started here, or is over."""


class _NoteCommand(TyperCommand):
    """Lets `--pointer` take four values and be repeated, which Typer has no type for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = iter(args)
        joined = []
        for argument in rest:
            joined.append(argument)
            if argument == "--pointer":
                joined.append(_JOIN.join(islice(rest, _PARTS_OF_A_POINTER)))
        return super().parse_args(ctx, joined)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(no_args_is_help=True, help="Say that a mind is at work, what it does and what it wants kept.")
    group.command("start")(start)
    group.command("note", cls=_NoteCommand)(note)
    group.command("activity")(activity)
    group.command("end")(end)
    app.add_typer(group, name="session", rich_help_panel=PANEL)
    app.command("recall", rich_help_panel=PANEL)(recall)
    app.command("claim", rich_help_panel=PANEL)(claim)
    app.command("notifications", rich_help_panel=PANEL)(notifications)


@contextmanager
def _log(home: Home) -> Iterator[EventLog]:
    """The home's event log; a value that the log refuses is bad usage."""
    from subconscious_pipeline.caretaker.events import InvalidEvent
    from subconscious_pipeline.caretaker.log import EventLog

    with EventLog(home.events) as log:
        try:
            yield log
        except InvalidEvent as error:
            raise typer.BadParameter(str(error)) from None


def _connected(log: EventLog, home: Home, session_id: str) -> None:
    """Refuse what would have no effect."""
    from subconscious_pipeline.caretaker.state import current

    if session_id not in current(log).sessions:
        again = command(home, "session start")
        raise NotConnected(f"session {session_id!r} is not connected: it has ended, was silent for too long, or never started; `{again}` starts one")


# --- sessions


def start(
    session_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Its id. Default: a new one.", show_default=False)] = None,
    instance: Annotated[str, typer.Option(metavar="NAME", help="Which instance of the mind this is.")] = "shell",
    mind_type: Annotated[str, typer.Option("--mind-type", metavar="TYPE", help="What kind of mind it is.")] = "agent",
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME=NUMBER", help="A threshold for this session alone, such as break_minutes=60.", show_default=False),
    ] = None,
    home: HomeOption = None,
) -> None:
    """A session begins; prints its id."""
    from uuid import uuid4

    rules = dict(_rule(text) for text in rule or ())
    chosen = session_id or f"s-{uuid4().hex[:12]}"
    with _log(resolve_home(home)) as log:
        from subconscious_pipeline.caretaker import client

        client.session_start(log, chosen, resolve_home(home).now(), instance_id=instance, mind_type=mind_type, rules=rules)
    show.line(chosen)


def _rule(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        if equals:
            return name.strip(), float(number)
    except ValueError:
        pass  # explained below, like a missing number
    raise typer.BadParameter(f"{text!r} is not of the form break_minutes=60", param_hint="--rule")


SessionArgument = Annotated[str, typer.Argument(metavar="ID", help="The session.", show_default=False)]
SessionOption = Annotated[str, typer.Option("--session", metavar="ID", help="The session.", show_default=False)]


def note(
    session_id: SessionArgument,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Up to 8 keywords, most telling first.", show_default=False)],
    pointer: Annotated[
        list[str] | None,
        typer.Option("--pointer", metavar="TYPE REF FROM TO", help="Where the raw data lies, as `lookup` gives it.", show_default=False),
    ] = None,
    ttl_days: Annotated[int, typer.Option("--ttl-days", min=3, max=365, help="How long it should be remembered.")] = 14,
    home: HomeOption = None,
) -> None:
    """Write down what must not be lost: keywords and where it was said. Kept until memory has it, whatever becomes of the session."""
    with _log(resolve_home(home)) as log:
        from subconscious_pipeline.caretaker import client

        client.note(log, session_id, resolve_home(home).now(), words, [_pointer(text) for text in pointer or ()], ttl_days)


def _pointer(joined: str) -> Pointer:
    from subconscious_pipeline.caretaker import client

    parts = joined.split(_JOIN)
    if len(parts) == _PARTS_OF_A_POINTER:
        time_from, time_to = instant(parts[2], "--pointer"), instant(parts[3], "--pointer", last=True)
        if time_from and time_to:
            return client.pointer(parts[0], parts[1], time_from, time_to)
    raise typer.BadParameter("a pointer has four parts: TYPE REF FROM TO", param_hint="--pointer")


def activity(
    session_id: SessionArgument,
    mode: Annotated[
        Literal["TASK", "CONVERSATION", "IDLE"], typer.Argument(case_sensitive=False, help="What the mind is doing.", show_default=False)
    ],
    home: HomeOption = None,
) -> None:
    """What the mind is doing now; also its sign of life."""
    place = resolve_home(home)
    with _log(place) as log:
        from subconscious_pipeline.caretaker import client

        _connected(log, place, session_id)
        client.activity(log, session_id, resolve_home(home).now(), mode)


def end(
    session_id: SessionArgument,
    cause: Annotated[
        Literal["EXPLICIT", "TIMEOUT", "CRASH"], typer.Option(case_sensitive=False, help="Why it ends. EXPLICIT brings an audit prompt first.")
    ] = "EXPLICIT",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="A label of at most 80 plain characters.", show_default=False)] = "",
    home: HomeOption = None,
) -> None:
    """The session ends; what it noted is saved."""
    place = resolve_home(home)
    with _log(place) as log:
        from subconscious_pipeline.caretaker import client

        _connected(log, place, session_id)
        client.session_end(log, session_id, resolve_home(home).now(), cause, reason)


# --- recall, claim


def recall(
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="Words to begin at.", show_default=False)] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Who asks, and will get the recollection.", show_default=False)
    ] = None,
    concept: Annotated[list[int] | None, typer.Option("--concept", metavar="ID", min=1, help="A concept to begin at.", show_default=False)] = None,
    depth: Annotated[int | None, typer.Option(min=0, max=10, help="Go no deeper than this.", show_default=False)] = None,
    cancel: Annotated[str | None, typer.Option(metavar="REQUEST", help="Take this recall back instead.", show_default=False)] = None,
    home: HomeOption = None,
) -> None:
    """Ask for all that is associated with some words or concepts; prints the request's id. The answer is a notification."""
    place = resolve_home(home)
    if cancel is not None:
        if words or concept:
            raise typer.BadParameter("give either words or --cancel REQUEST", param_hint="WORD")
        with _log(place) as log:
            from subconscious_pipeline.caretaker import client

            client.recall_cancel(log, resolve_home(home).now(), cancel, session)
        return
    if session is None:
        raise typer.BadParameter("say who asks with --session ID", param_hint="--session")
    if not words and not concept:
        raise typer.BadParameter("give words or --concept ID to begin at", param_hint="WORD")
    with _log(place) as log:
        from subconscious_pipeline.caretaker import client

        _connected(log, place, session)
        show.line(client.recall(log, session, resolve_home(home).now(), words=words or (), concept_ids=concept or (), max_depth=depth))


def claim(
    concepts: Annotated[list[int], typer.Argument(metavar="ID", min=1, help="Concepts, as `lookup` numbers them.", show_default=False)],
    session: SessionOption,
    core: Annotated[bool, typer.Option("--core", help="They are part of who the mind is: they never fade or expire.")] = False,
    home: HomeOption = None,
) -> None:
    """Make concepts one's own: they fade slower."""
    place = resolve_home(home)
    mind = Subconscious(place)
    for concept in concepts:
        mind.concept(concept)  # memory leaves out what it does not know: a slip of the finger must not go unnoticed
    with _log(place) as log:
        from subconscious_pipeline.caretaker import client

        client.claim(log, session, resolve_home(home).now(), concepts, core=core)


# --- notifications


def notifications(
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Of this session only.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those already acknowledged, too.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Stay, and print each as it comes (with --json: one object a line).")] = False,
    ack: Annotated[
        list[int] | None, typer.Option("--ack", metavar="ID", min=1, help="Say that this one was seen; can be repeated.", show_default=False)
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """What the caretaker has to say: break reminders, audit prompts, recollections."""
    if ack and (follow or everything):
        raise typer.BadParameter("goes without --follow and --all", param_hint="--ack")
    place = resolve_home(home)
    with _log(place) as log:
        from subconscious_pipeline.agent import notices
        from subconscious_pipeline.caretaker import notifications as outbound

        if ack:
            outbound.acknowledge(log, ack, resolve_home(home).now(), session)
        elif follow:
            try:
                for notice in outbound.follow(log, _wait, session_id=session):
                    if json:
                        show.as_json_line(notices.as_json(notice))
                    else:
                        notices.show_notice(notice, place)
            except KeyboardInterrupt:
                return  # how following ends
        else:
            found = outbound.list_notices(log, session_id=session, acknowledged=everything)
            if json:
                show.as_json({"notifications": [notices.as_json(notice) for notice in found]})
            else:
                notices.show_all(found, place)


def _wait() -> bool:
    time.sleep(POLL_SECONDS)
    return True
