"""`status`: windows, sources, errors, tokens spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.client import command
from subconscious_pipeline.agent.options import AsOfOption, HomeOption, JsonOption, now
from subconscious_pipeline.home import resolve_home

if TYPE_CHECKING:
    from subconscious_pipeline.agent.report import Report

SHOWN_ERRORS = 20
SHOWN_WINDOWS = 20


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("status", rich_help_panel="The pipeline")(status)


def status(as_of: AsOfOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Where things stand: windows, sources, errors, tokens spent, and how far the index has read."""
    from subconscious_pipeline.agent.report import report
    from subconscious_pipeline.settings import load_settings

    found = report(resolve_home(home), load_settings(), now(as_of, home))
    if json:
        show.as_json(found.as_json())
    else:
        _show(found)


def _show(found: Report) -> None:
    state, windows = found.state, found.windows
    colour = "green" if state.status == "ok" else "yellow"
    show.line(f"{show.style(state.status, colour, bold=True)}  {found.home.root}")
    for reason in state.reasons:
        show.line(show.style(f"  {reason}", "yellow"))
    show.line()
    _fact("read up to", f"{show.minute(state.watermark)} UTC ({show.age(state.watermark, state.as_of)})")
    _fact("windows", ", ".join(f"{count:,} {name}" for name, count in windows.items() if count or name in ("ok", "due")))
    spent = found.spent
    tokens = f"{spent.prompt_tokens:,} prompt and {spent.completion_tokens:,} completion tokens"
    _fact("spent", f"{tokens} in {show.counted(spent.calls, 'call')}, {spent.seconds:,.0f} s")
    if found.published:
        published = found.published
        words = f"{show.counted(len(published.keywords), 'keyword')}, {show.counted(published.tokens, 'token')}"
        _fact("published", f"{words}, complete up to {show.minute(published.watermark)} UTC ({show.age(published.watermark, state.as_of)})")
    else:
        _fact("published", f"nothing yet; run `{command(found.home, 'run')}`")
    _sources(found)
    _failed(found)
    _errors(found)
    if found.older_command:
        older = state.beyond_lookback
        show.line()
        show.line(f"{show.counted(len(older), 'older window')} ({older[0].key} to {older[-1].key}) lie beyond the lookback. Extract them with")
        show.line(f"  {found.older_command}")
    if found.too_old:
        show.line()
        show.line(f"{show.counted(found.too_old, 'row')} lie before SUBCONSCIOUS_START and have no window.")


def _fact(name: str, value: str) -> None:
    show.line(f"  {show.style(f'{name:<11}', dim=True)}{value}")


def _sources(found: Report) -> None:
    if not found.sources:
        show.line()
        show.line(f"No source has been read. Put exports under {found.home.sources} and run `{command(found.home, 'run')}`.")
        return
    rows = [[source.source_id, source.reader or "none", f"{source.rows:,}", f"{source.errors:,}"] for source in found.sources]
    show.table(["source", "reader", "rows", "errors"], rows, right=["rows", "errors"])


def _failed(found: Report) -> None:
    if not found.state.failing:
        return
    rows = []
    for entry in found.state.failing[:SHOWN_WINDOWS]:
        window = found.window(entry.start)
        if entry.status == "quarantined":
            again = f"given up; {command(found.home, 'run')} --window {window.key}"
        elif entry.next_try_at and entry.next_try_at > found.state.as_of:
            again = f"after {show.minute(entry.next_try_at)} UTC"
        else:
            again = "at the next run"
        rows.append([window.key, entry.error_code or "", str(entry.tries), again])
    show.table(["failed window", "reason", "tries", "next try"], rows, right=["tries"])
    if len(found.state.failing) > SHOWN_WINDOWS:
        show.line(f"… and {len(found.state.failing) - SHOWN_WINDOWS:,} more; --json prints all")


def _errors(found: Report) -> None:
    if not found.errors:
        return
    rows = [[error.path, error.locator, f"{'warning: ' if error.warning else ''}{error.message}"] for error in found.errors[:SHOWN_ERRORS]]
    show.table(["file", "place", "what"], rows)
    if found.errors_in_all > SHOWN_ERRORS:
        show.line(f"… and {found.errors_in_all - SHOWN_ERRORS:,} more; `subconscious inspect FILE` shows all of one file")
