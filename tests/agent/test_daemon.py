from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dagster import DagsterInstance
from dagster._core.utils import make_new_run_id
from dagster._daemon.types import DaemonHeartbeat

from subconscious_pipeline.agent.daemon import look
from subconscious_pipeline.home import Home

BEAT = datetime(2026, 4, 1, 12, tzinfo=UTC)


def beat(home: Home, at: datetime) -> None:
    """One heartbeat of a daemon on this home."""
    (home.dagster / "dagster.yaml").write_text("telemetry: {enabled: false}\n", encoding="utf-8")
    with DagsterInstance.from_config(str(home.dagster)) as instance:
        instance.add_daemon_heartbeat(DaemonHeartbeat(at.timestamp(), "SENSOR", make_new_run_id(), []))


def test_a_home_where_dagster_never_ran_has_nothing_that_ticks(home: Home) -> None:
    assert look(home, BEAT)[:2] == ("warn", "nothing is ticking: Dagster has not been at work in this home")
    assert list(home.dagster.iterdir()) == []


def test_a_recent_heartbeat_is_life_and_an_old_one_is_not(home: Home) -> None:
    beat(home, BEAT)
    assert look(home, BEAT + timedelta(seconds=170)) == ("ok", "the Dagster daemon ticks, last heartbeat 3 min ago", "")
    state, finding, remedy = look(home, BEAT + timedelta(hours=5))
    assert (state, finding) == ("warn", "nothing is ticking: the Dagster daemon's last heartbeat was 5 h ago")
    assert "make dev" in remedy
