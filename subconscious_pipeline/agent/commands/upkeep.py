"""What the caretaker does unasked, done by hand: `consolidate`, `tick`, `shutdown`."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.client import command
from subconscious_pipeline.agent.commands.caretaking import PANEL
from subconscious_pipeline.agent.options import AsOfOption, HomeOption, JsonOption, now
from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.home import Home, resolve_home

if TYPE_CHECKING:
    from subconscious_pipeline.agent.consolidating import Shown
    from subconscious_pipeline.caretaker.log import EventLog
    from subconscious_pipeline.caretaker.tick import Caretaker, Clock

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0}
_SLICE_SECONDS = 0.2  # a signal is noticed this late


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("consolidate", rich_help_panel=PANEL)(consolidate)
    app.command("tick", rich_help_panel=PANEL)(tick)
    app.command("shutdown", rich_help_panel=PANEL)(shutdown)


def consolidate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be merged; change nothing.")] = False,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="COMBINE keeps all words; KEEP_NEWEST those of the newest member. Pointers are kept by both.")
    ] = "COMBINE",
    undo: Annotated[str | None, typer.Option(metavar="TRANSACTION", help="Take this consolidation back.", show_default=False)] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show the consolidations that can be taken back.")] = False,
    as_of: AsOfOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Merge concepts that belong together, and publish. No model is asked; nothing is deleted; every consolidation can be undone."""
    if dry_run + listed + (undo is not None) > 1:
        raise typer.BadParameter("give one of --dry-run, --undo, --list", param_hint="--dry-run")
    from subconscious_pipeline.agent import consolidating as doing
    from subconscious_pipeline.memory.consolidate import strategy as strategy_of
    from subconscious_pipeline.settings import load_settings

    try:
        how = strategy_of(strategy)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--strategy") from None
    place, settings, at = resolve_home(home), load_settings(), now(as_of, home)
    if listed:
        done = doing.transactions(place, settings)
        if json:
            show.as_json({"transactions": [entry.as_json() for entry in done]})
        elif done:
            show.table(
                ["transaction", "at (UTC)", "merges"], [[d.transaction_id, show.minute(d.at), d.merges] for d in done], right=["at (UTC)", "merges"]
            )
        else:
            show.line("Nothing has been consolidated.")
    elif undo is not None:
        count = doing.undo(place, settings, undo, at)
        if json:
            show.as_json({"transaction_id": undo, "undone": count})
        else:
            show.line(f"{show.counted(count, 'merge')} taken back, published")
    elif dry_run:
        _show_consolidation(doing.plan(place, settings, how), None, place, json)
    else:
        _show_consolidation(*doing.consolidate(place, settings, how, at), place, json)


def _show_consolidation(shown: Shown, transaction_id: str | None, place: Home, json: bool) -> None:
    if json:
        show.as_json(shown.as_json() | {"transaction_id": transaction_id})
        return
    if not shown.pairs:
        show.line("No two concepts belong together.")
        return
    rows = [
        [
            f"#{p.merge.from_id}",
            ", ".join(p.from_words),
            f"#{p.merge.into_id}",
            ", ".join(p.into_words),
            f"{p.merge.overlap:.2f}",
            p.merge.observations,
        ]
        for p in shown.pairs
    ]
    show.table(["from", "its words", "into", "words there", "overlap", "observations"], rows, right=["from", "into", "overlap", "observations"])
    if transaction_id is None:
        show.line(f"{show.counted(len(rows), 'merge')} would be made ({shown.strategy}); nothing was changed")
    else:
        show.line(f"{show.counted(len(rows), 'merge')} made ({shown.strategy}), published. To take them back:")
        show.line(f"  {command(place, 'consolidate')} --undo {transaction_id}")


def tick(
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go on, with this pause between two looks: 30s, 5m, 1h.", show_default=False)
    ] = None,
    home: HomeOption = None,
) -> None:
    """Do what the caretaker has to do now: sweep, consolidate, watch sessions, recall, publish. With --every, until it is interrupted.

    It does not read sources or ask a model: that is `run`, or Dagster.
    """
    pause = None if every is None else _seconds(every)
    place = resolve_home(home)
    with _caretaker(place) as (caretaker, log):
        if pause is not None:
            _keep_ticking(caretaker, log, place.now, pause)
        elif not _look(caretaker, log, place.now, caretaker.start("tick", place.now), stop=_never):
            show.line("Nothing was due.")


def _keep_ticking(caretaker: Caretaker, log: EventLog, clock: Clock, pause: float) -> None:
    ended: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: ended.append(number)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        started = False
        while not ended:
            started = started or caretaker.start("tick", clock)
            _look(caretaker, log, clock, started, lambda: bool(ended))
            if started and caretaker.state().phase == "down":
                show.line("shut down; a new start goes on from here")
                return
            until = time.monotonic() + pause
            while not ended and (left := until - time.monotonic()) > 0:
                time.sleep(min(left, _SLICE_SECONDS))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _never() -> bool:
    return False


def _look(caretaker: Caretaker, log: EventLog, clock: Clock, started: bool, stop: Callable[[], bool]) -> bool:
    """One step, told line by line; returns whether there was anything to tell."""
    from subconscious_pipeline.agent import deeds

    if not started:
        show.note("another caretaker is at work in this home; it is left to that one")
        return True
    after = log.last_id()
    report = caretaker.step(clock, stop=stop)
    if report.busy:
        return False  # a job of the daemon has the lock for a moment
    told = [line for event in log.read(after) if (line := deeds.told(event))]
    for line in told:
        show.line(line)
    return bool(told)


def shutdown(
    timeout: Annotated[float | None, typer.Option(min=0.1, metavar="SECONDS", help="Time for everything. [default: 30]", show_default=False)] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Stop background work, save what sessions noted, publish a last time. Exit code 1 when the time-out cut something off."""
    from subconscious_pipeline.caretaker.shutdown import shut_down

    place = resolve_home(home)
    with _caretaker(place) as (caretaker, _log):
        seconds = timeout or caretaker.settings.shutdown_seconds
        done = shut_down(caretaker, seconds, place.now, time.sleep)
    if json:
        show.as_json(done.model_dump(mode="json"))
    else:
        mark, colour = show.MARKS["fail" if done.timed_out else "ok"]
        saved = f"saved {show.counted(done.saved_contexts, 'note')} of {show.counted(len(done.saved_sessions), 'session')}"
        published = "published" if done.published else "not published"
        show.line(f"{show.style(mark, colour, bold=True)} {saved}; {published}")
        if done.cut_off_contexts:
            of = ", ".join(done.cut_off_sessions)
            show.line(f"  cut off by the time-out: {show.counted(done.cut_off_contexts, 'note')} of {of}; they are saved after the next start")
        if done.cut_off_feedback:
            show.line("  cut off by the time-out: what was looked up and claimed; it is taken in after the next start")
    if done.timed_out:
        raise typer.Exit(1)


@contextmanager
def _caretaker(place: Home) -> Iterator[tuple[Caretaker, EventLog]]:
    """The caretaker of a home over its real stores, with its open log."""
    from subconscious_pipeline.caretaker.bridge import caretaker_of
    from subconscious_pipeline.settings import load_settings

    with caretaker_of(place, load_settings()) as caretaker:
        yield caretaker, caretaker.log


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|)", text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is not a time such as 30s, 5m or 1h", param_hint="--every")
    return seconds
