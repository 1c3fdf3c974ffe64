"""Showing a long download: a bar on a terminal, a line every tenth elsewhere, nothing when asked for JSON. Knows no sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from subconscious_pipeline.agent import show

Report = Callable[[int, int, str], None]  # bytes there, bytes in all, what is going on

REMARK_CHARACTERS = 60  # a longer text is a remark to be kept, not the name of a step


@contextmanager
def shown(quiet: bool = False) -> Iterator[Report]:
    """What to call with the progress of a download, for as long as it lasts."""
    if quiet:
        yield lambda _done, _total, _text: None
    elif show.interactive():
        with _bar() as report:
            yield report
    else:
        yield _lines()


def _lines() -> Report:
    last: tuple[str, int] = ("", -1)

    def report(done: int, total: int, text: str) -> None:
        nonlocal last
        if len(text) > REMARK_CHARACTERS:
            show.line(text)
            return
        now = (re.sub(r"\d+", "", text), 10 * done // total)
        if now != last:
            show.line(f"{text}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB")
            last = now

    return report


@contextmanager
def _bar() -> Iterator[Report]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("looking", total=None)

        def report(done: int, total: int, text: str) -> None:
            if len(text) > REMARK_CHARACTERS:
                progress.console.print(text, markup=False, highlight=False)
                return
            if done < progress.tasks[0].completed:
                progress.reset(task)  # the next step begins anew
            progress.update(task, completed=done, total=total, description=text)

        yield report
