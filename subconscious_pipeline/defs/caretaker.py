"""The caretaker in Dagster: four sensors that look at the event log, and the jobs they launch.

A sensor opens `events.db` alone and decides with the same pure functions as `subconscious tick`; the job does the work under the
caretaker's lock. Run keys hold the ids of the events that led to them and the number of the try. No retry policy: a traversal
that was cancelled must stay cancelled.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from subconscious_pipeline.caretaker.bridge import caretaker_of
from subconscious_pipeline.caretaker.events import Command
from subconscious_pipeline.caretaker.plan import Plan, record_key, run_key
from subconscious_pipeline.caretaker.tick import StepReport
from subconscious_pipeline.defs.metadata import salience_picture
from subconscious_pipeline.defs.partitions import SETTINGS
from subconscious_pipeline.defs.resources import HomeResource
from subconscious_pipeline.errors import SubconsciousError, without_content
from subconscious_pipeline.home import Home, resolve_home
from subconscious_pipeline.memory import salience, store
from subconscious_pipeline.settings import Settings, load_settings

# What each job does beside writing the events that are due (breaks, prompts, drops): see `caretaker.plan`.
SWEEP = (Command.SWEEP, Command.PUBLISH)
CONSOLIDATE = (Command.CONSOLIDATE, Command.PUBLISH)
SESSIONS = (Command.FEEDBACK, Command.FLUSH, Command.PUBLISH)
RECALL = (Command.TRAVERSAL, Command.FEEDBACK)


def _step(home: Home, settings: Settings, commands: tuple[Command, ...]) -> StepReport:
    with caretaker_of(home, settings) as caretaker:
        # Jobs start at the same moment; one that found another at work and gave up would be asked for again minutes later.
        return caretaker.step(home.now, only=commands, lock_seconds=settings.lock_seconds)


def _caretaker_job(name: str, commands: tuple[Command, ...], description: str) -> dg.JobDefinition:
    @dg.op(name=f"{name}_step", description=description)
    def step(context: dg.OpExecutionContext, home: HomeResource) -> None:
        with without_content():
            place, settings = home.open(), home.settings()
            report = _step(place, settings, commands)
            context.add_output_metadata(
                {"busy": report.busy, "recorded": ", ".join(report.recorded), "ran": ", ".join(report.ran), "failed": ", ".join(report.failed)}
            )
            if any(key.startswith(f"{Command.SWEEP.value.lower()}-") for key in set(report.ran) - set(report.failed)):
                context.log_event(_swept(place, settings))
        if report.failed:
            raise dg.Failure(f"{len(report.failed)} of {len(report.ran)} commands failed and are tried again later: {', '.join(report.failed)}")

    @dg.job(name=name, description=description, executor_def=dg.in_process_executor)
    def job() -> None:
        step()

    return job


def _swept(home: Home, settings: Settings) -> dg.AssetObservation:
    """Scores and tiers after a sweep. An observation: a materialization would have Dagster publish again what this job has published."""
    with store.reading(home, settings) as con:
        picture = salience_picture(salience.distribution(con))
        tiers = salience.tier_counts(con)
    return dg.AssetObservation(
        "salience", metadata={"scores": dg.MetadataValue.md(picture), **{f"tier_{tier}": count for tier, count in tiers.items()}}
    )


decay_job = _caretaker_job("decay_sweep", SWEEP, "Forget what is past its date, score every concept anew, move tiers, publish.")
consolidation_job = _caretaker_job("consolidate", CONSOLIDATE, "Merge concepts that belong together; every merge can be undone.")
sessions_job = _caretaker_job("session_care", SESSIONS, "Break reminders, audit prompts, saving what sessions noted, shutdown.")
recall_job = _caretaker_job("recall", RECALL, "Total Recall: one traversal at a time, depth by depth, delivered as a Recollection.")


def wake(home: Home, settings: Settings, instance_id: str) -> None:
    """Start the caretaker of a home: what a dead one was doing is freed, a completed shutdown is over."""
    with caretaker_of(home, settings) as caretaker:
        caretaker.start(instance_id, home.now)


def _due(home: Home) -> tuple[Plan, list[str], list[str]]:
    """What the caretaker has to do now, and run keys of its commands and of its records in the same order."""
    now = home.now()
    with caretaker_of(home, load_settings()) as caretaker:
        todo, knobs = caretaker.due(now), caretaker.settings
    return todo, [run_key(run, now, knobs) for run in todo.runs], [record_key(record, now, knobs) for record in todo.records]


def _joined(keys: Sequence[str]) -> str:
    """One key for several: the first as it is, all of them as a hash."""
    return keys[0] if len(keys) == 1 else f"{keys[0]}+{hashlib.blake2b(' '.join(keys).encode(), digest_size=6).hexdigest()}"


def _sensor(name: str, job: dg.JobDefinition, leading: tuple[Command, ...], records: bool, description: str) -> dg.SensorDefinition:
    running = dg.DefaultSensorStatus.RUNNING

    @dg.sensor(name=name, job=job, minimum_interval_seconds=SETTINGS.sensor_seconds, default_status=running, description=description)
    def evaluate() -> Iterator[dg.RunRequest | dg.SkipReason]:
        home = resolve_home()
        if not home.memory.exists() and not home.events.exists():
            yield dg.SkipReason("this home has no index yet")
            return
        try:
            with without_content():
                todo, keys, record_keys = _due(home)
        except SubconsciousError as error:
            yield dg.SkipReason(str(error))
            return
        wanted = [key for run, key in zip(todo.runs, keys, strict=True) if run.command in leading]
        if records:
            wanted += record_keys
        if wanted:
            yield dg.RunRequest(run_key=f"{name}:{_joined(wanted)}")
        else:
            yield dg.SkipReason("nothing is due")

    made: dg.SensorDefinition = evaluate
    return made


SENSORS: list[dg.SensorDefinition] = [
    _sensor("decay", decay_job, (Command.SWEEP,), False, "Decay sweeps, at the interval of SUBCONSCIOUS_SWEEP_MINUTES."),
    _sensor("consolidation", consolidation_job, (Command.CONSOLIDATE,), False, "Consolidation, at the interval of SUBCONSCIOUS_CONSOLIDATE_MINUTES."),
    _sensor("session_monitor", sessions_job, SESSIONS, True, "Sessions: breaks, lost heartbeats, audit prompts, unsaved notes, shutdown."),
    _sensor("total_recall", recall_job, (Command.TRAVERSAL,), False, "Recalls whose debounce is over and that the gate lets through."),
]
JOBS: list[Any] = [decay_job, consolidation_job, sessions_job, recall_job]
