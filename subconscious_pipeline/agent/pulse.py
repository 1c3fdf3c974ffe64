"""Whether anybody does the caretaker's work on a home, and what is waiting for it. Changes nothing in the log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.client import command
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.state import State, fold
from subconscious_pipeline.home import Home

RECENT = timedelta(minutes=10)
SHOWN_SESSIONS = 5


def look(home: Home, now: datetime, daemon_alive: Callable[[], bool]) -> tuple[Literal["ok", "warn"], str, str]:
    """State, finding and remedy.

    Args:
        now: aware UTC.
        daemon_alive: whether Dagster's daemon, whose sensors do the same, is at work; asked only when it matters.
    """
    if not home.events.exists():
        if not home.memory.exists() or daemon_alive():
            return "ok", "nothing waits for it", ""
        return "warn", "nothing is ticking: the caretaker has never looked at this home", _start(home)
    with EventLog(home.events) as log:
        last = log.last_tick()
        waiting = _waiting(fold(log.stream()))
    if last is not None and now - last <= RECENT:
        return "ok", f"looked {show.age(last, now)}; {waiting or 'nothing waits for it'}", ""
    if daemon_alive():
        return "ok", f"the Dagster daemon's sensors do its work; {waiting or 'nothing waits for it'}", ""
    looked = "has never looked at this home" if last is None else f"last looked {show.age(last, now)}"
    return "warn", f"nothing is ticking: the caretaker {looked}{f'; {waiting}' if waiting else ''}", _start(home)


def _start(home: Home) -> str:
    return f"start `{command(home, 'dev')}` (everything), or `{command(home, 'tick')} --every 30s` (the caretaker alone)"


def _waiting(state: State) -> str:
    """Unfinished business, in words; empty when there is none."""
    parts = []
    if state.unsaved:
        notes = show.counted(sum(map(len, state.unsaved.values())), "unsaved note")
        named = ", ".join(list(state.unsaved)[:SHOWN_SESSIONS]) + (", …" if len(state.unsaved) > SHOWN_SESSIONS else "")
        parts.append(f"{notes} of {'session' if len(state.unsaved) == 1 else 'sessions'} {named}")
    if state.advisories:
        parts.append(f"{show.counted(len(state.advisories), 'recall')} waiting")
    if state.ended:
        parts.append(f"{show.counted(len(state.ended), 'session')} to close")
    return "; ".join(parts)
