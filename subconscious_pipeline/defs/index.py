"""Job `index`: source files → rows of each window → conversations → observations."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from subconscious_pipeline import duck
from subconscious_pipeline.caretaker.shutdown import ShutdownWatch
from subconscious_pipeline.defs.metadata import columns, errors_table, files_table, table
from subconscious_pipeline.defs.partitions import windows, windows_of
from subconscious_pipeline.defs.resources import Clock, HomeResource, Model, Progress
from subconscious_pipeline.errors import without_content
from subconscious_pipeline.memory.extract import extract
from subconscious_pipeline.memory.plan import windows_to_extract
from subconscious_pipeline.publish.overview import overview
from subconscious_pipeline.publish.state import write_state
from subconscious_pipeline.warehouse.ingest import ingest
from subconscious_pipeline.warehouse.schema import MIGRATIONS
from subconscious_pipeline.warehouse.windows import rows_by_window, window_inputs

OWNER = "team:subconscious"
_WINDOWED: dict[str, Any] = {
    "partitions_def": windows,
    "backfill_policy": dg.BackfillPolicy.single_run(),
    "owners": [OWNER],
}


@dg.asset(group_name="warehouse", kinds={"duckdb", "python"}, owners=[OWNER])
def source_files(context: dg.AssetExecutionContext, home: HomeResource, clock: Clock, progress: Progress) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Everything new under `sources/`, read once into warehouse.duckdb; bad items are set aside with their place and reason."""
    with without_content():
        place, settings, as_of = home.open(), home.settings(), clock.as_of(context)
        report = ingest(place, settings, as_of, progress.reading)
        write_state(place, settings, overview(place, settings, as_of))
    return dg.MaterializeResult(
        metadata={
            "files_read": sum(not file.skipped for file in report.files),
            "files_unchanged": sum(file.skipped for file in report.files),
            "rows_new": report.new,
            "rows_changed": report.updated,
            "windows_touched": report.windows,
            "errors": sum(file.lost for file in report.files),
            "files": files_table(report.files),
            "errors_by_file": errors_table(report.files),
        }
    )


_ROWS = {
    "messages": (
        "Chat messages (and rows of sources without a reader of their own) sent in the window, noise marked with its reason.",
        columns(message_key="string", source_type="string", source_ref="string", author="string", text="string", sent_at="timestamp", noise="list"),
    ),
    "emails": (
        "E-mails sent in the window, threaded, noise marked with its reason.",
        columns(email_key="string", source_ref="string", thread_id="string", from_addr="string", subject="string", sent_at="timestamp", noise="list"),
    ),
    "calendar_events": (
        "Calendar events that start in the window, noise marked with its reason.",
        columns(event_key="string", source_ref="string", summary="string", start_at="timestamp", end_at="timestamp", rrule="string", noise="list"),
    ),
}


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            name,
            deps=[source_files],
            group_name="warehouse",
            kinds={"duckdb"},
            owners=[OWNER],
            description=text,
            metadata=schema,
            partitions_def=windows,
        )
        for name, (text, schema) in _ROWS.items()
    ],
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def rows_of_windows(context: dg.AssetExecutionContext, home: HomeResource) -> Iterator[dg.MaterializeResult]:  # type: ignore[type-arg]
    """What each window holds, table by table. One step: three would cost three times Dagster's bookkeeping."""
    with without_content():
        chosen, settings = windows_of(context), home.settings()
        with duck.reading(home.open().warehouse, MIGRATIONS, settings.lock_seconds) as con:
            counted = {name: rows_by_window(con, name, settings.window_hours, chosen[0].start, chosen[-1].end) for name in _ROWS}
    for name, rows in counted.items():
        yield dg.MaterializeResult(
            asset_key=name,
            metadata={
                "rows": sum(row.rows for row in rows),
                "noise": sum(row.noise for row in rows),
                "by_window": table({"window": row.window, "rows": row.rows, "noise": row.noise, "why": row.reasons} for row in rows),
            },
        )


@dg.asset(
    deps=list(_ROWS),
    group_name="warehouse",
    kinds={"duckdb"},
    metadata=columns(window_start="timestamp", source_type="string", source_ref="string", rows="int", noise="int", input_hash="string"),
    **_WINDOWED,
)
def conversations(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """What was said in the window, by conversation; its hash tells whether the window has to be read again."""
    with without_content():
        chosen = windows_of(context)
        with duck.reading(home.open().warehouse, MIGRATIONS, home.settings().lock_seconds) as con:
            inputs = window_inputs(con, chosen[0].start, chosen[-1].start)
    return dg.MaterializeResult(
        metadata={
            "conversations": sum(row.conversations for row in inputs),
            "rows": sum(row.rows for row in inputs),
            "noise": sum(row.noise for row in inputs),
            "windows": table(
                {"window": f"{row.start:%Y-%m-%dT%H:%MZ}", "conversations": row.conversations, "rows": row.rows, "noise": row.noise} for row in inputs
            ),
        }
    )


class ExtractConfig(dg.Config):
    """How windows that have been extracted already are treated."""

    again: bool = False  # ask the model again even when a window's content has not changed


@dg.asset(
    deps=[conversations],
    group_name="extraction",
    kinds={"llm", "duckdb"},
    output_required=False,
    metadata=columns(
        window_start="timestamp", words="list", kind="string", ttl_days="int", observed_at="timestamp", expires="date", concept_id="int"
    ),
    **_WINDOWED,
)
def observations(
    context: dg.AssetExecutionContext, config: ExtractConfig, home: HomeResource, clock: Clock, model: Model, progress: Progress
) -> Iterator[dg.Output[None]]:
    """What an LLM says each window is about: words, lines cited, how long to keep. Each window is materialized as it finishes."""
    with without_content():
        place, settings, as_of = home.open(), home.settings(), clock.as_of(context)
        chosen = windows_of(context)
        plan = windows_to_extract(place, settings, chosen, as_of, config.again)
        progress.planned(len(plan.windows))

        def done(result, status) -> None:  # type: ignore[no-untyped-def]
            progress.finished(result.window.key, status, len(result.observations), result.error_code)
            if result.status != "failed":
                context.log_event(_materialization(result.window.key, result))

        if plan.windows:
            with model.open(settings) as extractor:
                outcome = extract(place, settings, extractor, plan.windows, as_of, done, ShutdownWatch(place.events), config.again)
            failed = [f"{key} ({outcome.error_codes[key]})" for key in outcome.failed]
        else:
            failed = []
        asked = {item.window.key for item in plan.windows}
        for window in chosen:
            if window.key not in asked and window.start not in plan.unfinished:
                context.log_event(_materialization(window.key))
        write_state(place, settings, overview(place, settings, as_of))
    if failed:
        raise dg.Failure(
            f"{len(failed)} of {len(asked)} windows failed: {', '.join(failed)}. The others are kept; the next run tries again.", allow_retries=False
        )
    yield from ()


def _materialization(key: str, result: Any = None) -> dg.AssetMaterialization:
    if result is None:
        return dg.AssetMaterialization("observations", partition=key, metadata={"status": "nothing new to read"})
    usage = result.usage
    return dg.AssetMaterialization(
        "observations",
        partition=key,
        metadata={
            "status": result.status, "concepts": len(result.observations), "model": result.model, "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "seconds": round(usage.seconds, 2),
            "words": ", ".join(dict.fromkeys(word for o in result.observations for word in o.words)),
        },
    )  # fmt: skip
