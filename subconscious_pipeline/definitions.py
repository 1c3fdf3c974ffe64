"""The Dagster code location: assembly, nothing else. Importing it connects to nothing and reads no secret."""

from __future__ import annotations

import dagster as dg

from subconscious_pipeline.defs import automation, caretaker, checks, index, publish
from subconscious_pipeline.defs.resources import Clock, HomeResource, Model, Progress

defs = dg.Definitions(
    assets=[
        index.source_files,
        index.rows_of_windows,
        index.conversations,
        index.observations,
        publish.concepts_keywords_sources,
        publish.salience_asset,
        publish.keyword_snapshot,
    ],
    asset_checks=checks.CHECKS,
    jobs=[*automation.JOBS, *caretaker.JOBS],
    schedules=automation.SCHEDULES,
    sensors=[*automation.SENSORS, *caretaker.SENSORS],
    resources={"home": HomeResource(), "clock": Clock(), "model": Model(), "progress": Progress()},
    executor=dg.in_process_executor,
)
