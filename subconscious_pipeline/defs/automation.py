"""Jobs, the schedule and the sensors: what makes the pipeline run without being asked.

Sensors open no DuckDB file: they list and hash files and read `state.json`. A run key is remembered for ever, so it always holds
what was to be done (range, content hashes, number of the try).
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from subconscious_pipeline.caretaker.shutdown import phase
from subconscious_pipeline.defs.index import source_files
from subconscious_pipeline.defs.partitions import SETTINGS
from subconscious_pipeline.errors import SubconsciousError
from subconscious_pipeline.home import Home, resolve_home
from subconscious_pipeline.instants import Window, window_from_key
from subconscious_pipeline.memory.ledger import DueWindow, ranges
from subconscious_pipeline.publish.state import State, read_state
from subconscious_pipeline.readers.sources import source_files as listed_files
from subconscious_pipeline.settings import Settings, load_settings
from subconscious_pipeline.warehouse.ingest import fingerprint

ingest_job = dg.define_asset_job("ingest", selection=[source_files], description="Read everything new under sources/ into the warehouse.")
index_job = dg.define_asset_job(
    "index",
    selection=dg.AssetSelection.assets("source_files", "messages", "emails", "calendar_events", "conversations", "observations"),
    description="Read what is new, then have a model say what each window of the partition range is about.",
)
PUBLISHING = dg.AssetSelection.assets("concepts", "keywords", "sources", "salience", "keyword_snapshot")
publish_job = dg.define_asset_job(
    "publish",
    selection=PUBLISHING,
    description="Project observations into concepts, score them, publish the list that agents carry.",
)

closed_window = dg.build_schedule_from_partitioned_job(
    index_job,
    name="closed_window",
    description="The window that has just closed.",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)

publication = dg.AutomationConditionSensorDefinition(
    "publication",
    target=PUBLISHING,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=SETTINGS.sensor_seconds,
    description="Publishes whenever observations have changed.",
)


def changed_files(home: Home, settings: Settings, state: State | None) -> str | None:
    """A hash over the files that are new or changed since they were last read, or None when there are none."""
    known = state.fingerprints if state else {}
    marks = sorted(
        f"{file.file_id}:{mark}"
        for file in listed_files(home, settings)
        if file.path.exists() and known.get(file.file_id) != (mark := fingerprint(file, settings))
    )
    return _digest(marks) if marks else None


def _digest(marks: list[str]) -> str:
    return hashlib.blake2b("\n".join(marks).encode(), digest_size=12).hexdigest()


def due_now(state: State, now: datetime, settings: Settings) -> list[DueWindow]:
    """Windows that were due when the last run ended, and failed ones whose wait is over."""
    waiting = {item.window: item for item in state.due}
    found = {key: DueWindow(window_from_key(key, settings.window_hours), item.input_hash, 0, item.tries) for key, item in waiting.items()}
    for item in state.failed:
        if item.status == "failed" and item.next_try_at and item.next_try_at <= now:
            found.setdefault(item.window, DueWindow(window_from_key(item.window, settings.window_hours), item.input_hash, 0, item.tries))
    return sorted(found.values(), key=lambda due: due.window)


def range_tags(first: Window, last: Window) -> dict[str, str]:
    """The run tags that make one run of a partition range."""
    return {ASSET_PARTITION_RANGE_START_TAG: first.key, ASSET_PARTITION_RANGE_END_TAG: last.key}


@dg.sensor(
    jobs=[ingest_job, index_job],
    minimum_interval_seconds=SETTINGS.sensor_seconds,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reads files that are new or have changed, and asks again about windows that got late messages or failed.",
)
def late_data() -> Iterator[dg.RunRequest | dg.SkipReason]:
    """One run to read changed files; one run per contiguous range of due windows."""
    home = resolve_home()
    try:
        if phase(home.events) != "running":
            yield dg.SkipReason("this home was shut down; `subconscious dev` or `subconscious tick` starts it again")
            return
        settings = load_settings()
        state = read_state(home)
        changed = changed_files(home, settings, state)
        due = due_now(state, home.now(), settings) if state else []
    except SubconsciousError as error:
        yield dg.SkipReason(str(error))
        return
    if changed:
        yield dg.RunRequest(run_key=f"ingest:{changed}", job_name="ingest")
    for first, last in ranges(due):
        marks = [f"{d.window.key}:{d.input_hash}:{d.tries}" for d in due if first.start <= d.window.start <= last.start]
        yield dg.RunRequest(run_key=f"{first.key}..{last.key}:{_digest(marks)}", job_name="index", tags=range_tags(first, last))
    if not changed and not due:
        age = f"; last run {home.now() - state.as_of} ago" if state else "; no run yet"
        yield dg.SkipReason(f"nothing new{age.split('.')[0]}")


JOBS = [ingest_job, index_job, publish_job]
SCHEDULES = [closed_window]
SENSORS: list[dg.SensorDefinition] = [late_data, publication]
