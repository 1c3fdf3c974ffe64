"""The whole pipeline from the command line, as Dagster runs that the UI shows: ingest, index what is due, publish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from subconscious_pipeline.caretaker.shutdown import phase
from subconscious_pipeline.defs import automation
from subconscious_pipeline.defs.caretaker import wake
from subconscious_pipeline.defs.instance import instance
from subconscious_pipeline.defs.resources import AS_OF_TAG, Clock, HomeResource, Model, Progress
from subconscious_pipeline.errors import SubconsciousError
from subconscious_pipeline.extraction.types import NOT_TRIED
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import Window, iso_z
from subconscious_pipeline.memory.ledger import DueWindow, needs, ranges
from subconscious_pipeline.publish.overview import Overview, overview
from subconscious_pipeline.settings import Settings


@dataclass(frozen=True)
class Planned:
    """What a run is about to ask a model."""

    windows: tuple[DueWindow, ...]
    rows: int


@dataclass(frozen=True)
class RunReport:
    """What a run did."""

    before: Overview  # after ingest, before extraction
    after: Overview
    failures: tuple[str, ...]  # one line a failed Dagster run, as it describes itself
    asked: int  # windows a model was asked about
    waiting: int = 0  # windows it was not asked about because the token budget was spent or a shutdown came first
    declined: bool = False  # the user did not want to ask the model


class RunError(SubconsciousError):
    """A step failed that the rest needs (reading, publishing)."""


def _describe(result: dg.ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_step_failure or event.is_failure:
            data = event.event_specific_data
            error = getattr(data, "error", None)
            deepest = error
            while deepest is not None and deepest.cause is not None:
                deepest = deepest.cause
            description = getattr(getattr(data, "user_failure_data", None), "description", None)
            if description:
                return str(description)
            if deepest is not None:
                return str(deepest.message).strip().split(": ", 1)[-1]
    return "failed"


def run_pipeline(
    home: Home,
    settings: Settings,
    as_of: datetime,
    confirm: Callable[[Planned], bool],
    progress: Progress,
    chosen: Sequence[Window] = (),
    model: str | None = None,
) -> RunReport:
    """Ingest everything new, extract every due window (or the chosen ones, again), project and publish.

    Args:
        as_of: the instant of this run; recorded as the run tag ``subconscious/as_of``.
        confirm: asked once before a model is; False skips extraction (publication still happens).
        chosen: windows to extract again, whether due or not.
        model: overrides the configured model.

    Raises:
        RunError: when reading or publishing failed; a failed window is a report, not an exception.
    """
    tags = {AS_OF_TAG: iso_z(as_of)}
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}  # the terminal has a progress bar; the UI has the log
    resources: dict[str, object] = {
        "home": HomeResource(root=str(home.root)),
        "clock": Clock(root=str(home.root)),
        "model": Model(name=model or ""),
        "progress": progress,
    }

    if phase(home.events) == "down":
        wake(home, settings, "run")  # whoever runs the pipeline by hand has ended the shutdown

    with instance(home) as dagster_instance:

        def execute(name: str, more: dict[str, str] | None = None, config: Mapping[str, object] | None = None) -> str | None:
            job = definitions().resolve_job_def(name)
            result = job.execute_in_process(
                instance=dagster_instance,
                tags={**tags, **(more or {})},
                resources=resources,
                run_config={**quiet, **(config or {})},
                raise_on_error=False,
            )
            return None if result.success else _describe(result)

        if error := execute("ingest"):
            raise RunError(f"reading the sources failed: {error}")
        before = overview(home, settings, as_of)
        wanted = _wanted(before, chosen)
        plan = Planned(tuple(wanted), sum(item.rows for item in wanted))
        failures: list[str] = []
        declined = bool(wanted) and not confirm(plan)
        if wanted and not declined:
            config = {"ops": {"observations": {"config": {"again": True}}}} if chosen else None
            for first, last in ranges(wanted, barriers=_barriers(before, wanted)):
                if error := execute("index", automation.range_tags(first, last), config):
                    failures.append(error)
        if error := execute("publish"):
            raise RunError(f"publishing failed: {error}")
        after = overview(home, settings, as_of)
        outcomes = [] if declined else [after.entries.get(item.window.start) for item in wanted]
        waiting = sum(entry is not None and entry.error_code in NOT_TRIED for entry in outcomes)
        asked = sum(_asked(item, before, after, bool(chosen)) for item in wanted) if not declined else 0
        return RunReport(before, after, tuple(failures), asked, waiting, declined)


def _asked(item: DueWindow, before: Overview, after: Overview, again: bool) -> bool:
    """Whether a model answered or failed about this window, as the ledger tells."""
    former, entry = before.entries.get(item.window.start), after.entries.get(item.window.start)
    if entry is None or entry.status == "running" or entry.error_code in NOT_TRIED:
        return False
    return entry.input_hash == item.input_hash and (again or entry != former)


def _wanted(state: Overview, chosen: Sequence[Window]) -> list[DueWindow]:
    if not chosen:
        return list(state.due)
    starts = {window.start: window for window in chosen}
    return [
        DueWindow(starts[row.start], row.input_hash, row.rows, 0)
        for row in state.inputs
        if row.start in starts and starts[row.start].closed(state.as_of) and (row.rows or needs(row, state.entries.get(row.start)))
    ]


def _barriers(state: Overview, wanted: Sequence[DueWindow]) -> list[datetime]:
    """Windows with content that this run does not mean to touch: a range must not reach over them."""
    meant = {item.window.start for item in wanted}
    return [row.start for row in state.inputs if row.rows and row.start not in meant]


def definitions() -> dg.Definitions:
    """The code location, imported when a run needs it."""
    from subconscious_pipeline.definitions import defs

    return defs
