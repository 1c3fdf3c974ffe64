"""Dagster's own storage inside a home: `<home>/dagster` is DAGSTER_HOME for every command and for `make dev`."""

from __future__ import annotations

import os

import dagster as dg

from subconscious_pipeline.home import HOME_VARIABLE, Home

_CONFIG = """\
# Written once; yours to change. Pools are not used: a killed run would keep its slot, lock files in the home do that job.
telemetry:
  enabled: false
nux:
  enabled: false
run_monitoring:
  enabled: true
  start_timeout_seconds: 180
  poll_interval_seconds: 30
concurrency:
  runs:
    max_concurrent_runs: 4
# One event log for all runs: a database of its own for each, with its migrations, takes longer than most runs do.
run_storage:
  module: dagster._core.storage.runs
  class: SqliteRunStorage
  config:
    base_dir:
      env: DAGSTER_HOME
event_log_storage:
  module: dagster._core.storage.event_log
  class: ConsolidatedSqliteEventLogStorage
  config:
    base_dir:
      env: DAGSTER_HOME
schedule_storage:
  module: dagster._core.storage.schedules
  class: SqliteScheduleStorage
  config:
    base_dir:
      env: DAGSTER_HOME
"""


def prepare(home: Home) -> Home:
    """Make the home and its `dagster.yaml`."""
    home.create()
    config = home.dagster / "dagster.yaml"
    if not config.exists():
        config.write_text(_CONFIG, encoding="utf-8")
    return home


def environment(home: Home) -> dict[str, str]:
    """The environment that points a Dagster process (and what it starts) at a home."""
    return {**os.environ, "DAGSTER_HOME": str(home.dagster), HOME_VARIABLE: str(home.root)}


def instance(home: Home) -> dg.DagsterInstance:
    """The Dagster instance of a home; its runs are what the UI shows. Close it with ``with``."""
    prepare(home)
    os.environ["DAGSTER_HOME"] = str(home.dagster)  # dagster.yaml names its storage by it, so that a home can be moved
    return dg.DagsterInstance.from_config(str(home.dagster))
