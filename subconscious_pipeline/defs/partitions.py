"""Windows as Dagster partitions."""

from __future__ import annotations

import dagster as dg

from subconscious_pipeline.instants import KEY_FORMAT, Window, window_from_key
from subconscious_pipeline.settings import Settings, load_settings

SETTINGS: Settings = load_settings()

windows = dg.TimeWindowPartitionsDefinition(
    start=SETTINGS.start_at.strftime(KEY_FORMAT),
    cron_schedule=f"0 */{SETTINGS.window_hours} * * *" if SETTINGS.window_hours < 24 else "0 0 * * *",
    fmt=KEY_FORMAT,
    timezone="UTC",
)


def windows_of(context: dg.AssetExecutionContext) -> list[Window]:
    """The windows of this run's partition or partition range, in order."""
    return [window_from_key(key, SETTINGS.window_hours) for key in context.partition_keys]
