"""Dagster's own storage inside a home: `<home>/dagster` is DAGSTER_HOME for every command and for `make dev`."""

from __future__ import annotations

import os

import dagster as dg

from subconscious_pipeline.home import HOME_VARIABLE, Home

_CONFIG = """\
# Written once; yours to change. Pools are not used: a killed run would keep its slot, lock files in the home do that job.
telemetry:
  enabled: false
run_monitoring:
  enabled: true
  start_timeout_seconds: 180
  poll_interval_seconds: 30
concurrency:
  runs:
    max_concurrent_runs: 4
"""


def prepare(home: Home) -> Home:
    """Make the home and its `dagster.yaml`, and point this process (and what it starts) at both."""
    home.create()
    config = home.dagster / "dagster.yaml"
    if not config.exists():
        config.write_text(_CONFIG, encoding="utf-8")
    os.environ["DAGSTER_HOME"] = str(home.dagster)
    os.environ[HOME_VARIABLE] = str(home.root)
    return home


def instance(home: Home) -> dg.DagsterInstance:
    """The Dagster instance of a home; its runs are what the UI shows. Close it with ``with``."""
    prepare(home)
    return dg.DagsterInstance.from_config(str(home.dagster))
