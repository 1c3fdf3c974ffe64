"""Whether Dagster's daemon ticks on a home: it runs schedules and sensors. Dagster is imported only where it has already been at work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

from subconscious_pipeline.agent.client import command
from subconscious_pipeline.agent.show import age
from subconscious_pipeline.home import Home

NOTHING = "nothing is ticking"
ALIVE = timedelta(minutes=3)  # a daemon writes a heartbeat every 30 s


def look(home: Home, now: datetime) -> tuple[Literal["ok", "warn"], str, str]:
    """State, finding and remedy.

    Args:
        now: aware UTC.
    """
    start = f"start `make dev` in a checkout, or have a timer call `{command(home, 'run')}`"
    if not (home.dagster / "history" / "runs.db").exists():
        return "warn", f"{NOTHING}: Dagster has not been at work in this home", start
    from dagster import DagsterInstance

    with DagsterInstance.from_config(str(home.dagster)) as instance:
        beats = instance.get_daemon_heartbeats()
        stopped = sorted(state.instigator_name for state in instance.all_instigator_state() if state.status.value == "STOPPED")
    if not beats:
        return "warn", f"{NOTHING}: no Dagster daemon has ever run on this home", start
    last = datetime.fromtimestamp(max(beat.timestamp for beat in beats.values()), UTC)
    if now - last > ALIVE:
        return "warn", f"{NOTHING}: the Dagster daemon's last heartbeat was {age(last, now)}", start
    failing = sorted(name.lower() for name, beat in beats.items() if beat.errors)
    if failing:
        return "warn", f"the Dagster daemon runs with errors in {', '.join(failing)}", "see the Deployment page of the Dagster UI"
    if stopped:
        return "warn", f"the Dagster daemon ticks, but these are switched off: {', '.join(stopped)}", "switch them on in the Dagster UI"
    return "ok", f"the Dagster daemon ticks, last heartbeat {age(last, now)}", ""


def alive(home: Home, now: datetime) -> bool:
    """Whether a daemon gave a sign of life lately, well or not."""
    return not look(home, now)[1].startswith(NOTHING)
