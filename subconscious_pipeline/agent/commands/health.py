"""`doctor`: what is wrong and what to do."""

from __future__ import annotations

from collections import Counter

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.options import AsOfOption, HomeOption, JsonOption, now
from subconscious_pipeline.home import resolve_home


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("doctor", rich_help_panel="The pipeline")(doctor)


def doctor(as_of: AsOfOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """What is wrong and what to do: home, stores, locks, sources, snapshot, model, daemon. Exit code 1 when a check fails."""
    from subconscious_pipeline.agent.checks import all_checks

    checks = []
    for check in all_checks(resolve_home(home), now(as_of, home)):
        checks.append(check)
        if not json:
            mark, colour = show.MARKS[check.state]
            show.line(f"{show.style(mark, colour, bold=True)} {show.style(f'{check.name:<11}', bold=True)} {show.safe(check.finding)}")
            if check.remedy:
                show.line(show.style(f"{'':<13} {show.safe(check.remedy)}", dim=True))
    failed = any(check.state == "fail" for check in checks)
    if json:
        show.as_json({"ok": not failed, "checks": [check.as_json() for check in checks]})
    else:
        counts = Counter(check.state for check in checks)
        show.line()
        show.line(f"{counts['ok']} ok, {show.counted(counts['warn'], 'warning')}, {counts['fail']} failed")
    if failed:
        raise typer.Exit(1)
