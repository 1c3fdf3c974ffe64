"""What a run shows while it works: a bar on a terminal, lines elsewhere, nothing when asked for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import PrivateAttr

from subconscious_pipeline.agent import show
from subconscious_pipeline.defs.resources import Progress

_MARK = {"ok": "ok", "empty": "ok", "failed": "fail", "quarantined": "fail"}


def _line(window: str, status: str, concepts: int, error_code: str | None) -> str:
    mark, colour = show.MARKS[_MARK[status]]
    said = show.counted(concepts, "concept") if status == "ok" else "nothing worth a concept" if status == "empty" else f"{status}: {error_code}"
    return f"{show.style(mark, colour)} {window}  {said}"


class Lines(Progress):
    """One line an event."""

    _paths: set[str] = PrivateAttr(default_factory=set)

    def reading(self, path: str, records: int) -> None:
        if path not in self._paths:
            self._paths.add(path)
            show.line(f"reading {show.safe(path)}")

    def planned(self, windows: int) -> None:
        if windows:
            show.line(f"asking about {show.counted(windows, 'window')}")

    def finished(self, window: str, status: str, concepts: int, error_code: str | None) -> None:
        show.line(_line(window, status, concepts, error_code))


class Bar(Progress):
    """A live bar with the time that has passed."""

    _bar: Any = PrivateAttr()
    _task: Any = PrivateAttr(default=None)

    def reading(self, path: str, records: int) -> None:
        self._bar.update(self._task, description=f"reading {show.safe(path)[-50:]}" + (f" ({records:,})" if records else ""))

    def planned(self, windows: int) -> None:
        if windows:
            done = self._bar.tasks[0].completed
            self._bar.update(self._task, description="asking the model", total=done + windows)

    def finished(self, window: str, status: str, concepts: int, error_code: str | None) -> None:
        from rich.text import Text

        self._bar.console.print(Text.from_ansi(_line(window, status, concepts, error_code)))
        self._bar.advance(self._task)


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """The progress display that fits where standard output goes."""
    if quiet:
        yield Progress()
    elif not show.interactive():
        yield Lines()
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with RichProgress(*columns, transient=True) as drawn:
            bar = Bar()
            bar._bar, bar._task = drawn, drawn.add_task("starting", total=None)
            yield bar
