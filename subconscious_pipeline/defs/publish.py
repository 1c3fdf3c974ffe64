"""Job `publish`: observations → concepts, keywords, pointers → salience → the snapshot that agents carry.

Not partitioned: a window rewrites rows that others brought. `AutomationCondition.eager()` never fires below partitioned assets,
so the condition is spelled out.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dagster as dg

from subconscious_pipeline.defs.index import OWNER, observations
from subconscious_pipeline.defs.metadata import columns, salience_picture, snapshot_preview
from subconscious_pipeline.defs.partitions import SETTINGS
from subconscious_pipeline.defs.resources import Clock, HomeResource
from subconscious_pipeline.errors import without_content
from subconscious_pipeline.memory import project, salience, store
from subconscious_pipeline.publish.files import publish
from subconscious_pipeline.publish.overview import overview
from subconscious_pipeline.publish.state import write_state

WHEN_UPDATED = dg.AutomationCondition.any_deps_updated() & ~dg.AutomationCondition.in_progress()
_SHARED: dict[str, Any] = {"group_name": "memory", "owners": [OWNER], "automation_condition": WHEN_UPDATED}

# Half an hour after a window closes, its run and the publication after it should be through.
FRESH = dg.FreshnessPolicy.cron(
    deadline_cron=f"30 */{SETTINGS.window_hours} * * *" if SETTINGS.window_hours < 24 else "30 0 * * *",
    lower_bound_delta=timedelta(minutes=35),
)


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "concepts", deps=[observations], kinds={"duckdb"}, description="What is alive, and until when.",
            metadata=columns(id="int", expires="date"), **_SHARED,
        ),
        dg.AssetSpec(
            "keywords", deps=[observations], kinds={"duckdb"}, description="The words of each concept.",
            metadata=columns(id="int", concept_id="int", word="string"), **_SHARED,
        ),
        dg.AssetSpec(
            "sources", deps=[observations], kinds={"duckdb"}, description="Where to read: type, reference, from when to when.",
            metadata=columns(id="int", concept_id="int", source_type="string", source_ref="string", time_start="timestamp", time_end="timestamp"),
            **_SHARED,
        ),
    ],
)  # fmt: skip
def concepts_keywords_sources(context: dg.AssetExecutionContext, home: HomeResource, clock: Clock) -> Iterator[dg.MaterializeResult]:  # type: ignore[type-arg]
    """Forget what is past its date, give new observations their concept, rewrite the projection; one transaction."""
    with without_content(), store.writing(home.open(), home.settings()) as con:
        done = project.project(con, clock.as_of(context), transaction_id=context.run.run_id)
    counts = {"concepts": done.concepts, "keywords": done.keywords, "sources": done.sources}
    changes = {"founded": done.founded, "joined": done.joined, "expired": done.expired, "gone": done.tombstoned, "revision": done.revision}
    for name, rows in counts.items():
        yield dg.MaterializeResult(asset_key=name, metadata={"dagster/row_count": rows, **changes})


@dg.asset(
    name="salience", deps=["concepts", "keywords", "sources"], kinds={"duckdb"},
    metadata=columns(concept_id="int", tier="string", claimed="bool", score="float", scored_at="timestamp"), **_SHARED,
)  # fmt: skip
def salience_asset(context: dg.AssetExecutionContext, home: HomeResource, clock: Clock) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """How present each concept is at the watermark, from the times it was seen and asked for; tiers follow, with hysteresis."""
    with without_content():
        place, settings = home.open(), home.settings()
        state = overview(place, settings, clock.as_of(context))
        with store.writing(place, settings) as con:
            swept = salience.sweep(con, state.published_at)
            tiers, scores = salience.tier_counts(con), salience.distribution(con)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": swept.concepts,
            "promoted": swept.promoted,
            "demoted": swept.demoted,
            "scores": dg.MetadataValue.md(salience_picture(scores)),
            **{f"tier_{k}": v for k, v in tiers.items()},
        }
    )


@dg.asset(deps=[salience_asset], kinds={"sqlite", "markdown"}, freshness_policy=FRESH, **{**_SHARED, "group_name": "published"})
def keyword_snapshot(context: dg.AssetExecutionContext, home: HomeResource, clock: Clock) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """The published files: index.sqlite, awareness.md, keywords.txt, snapshot.json."""
    with without_content():
        place, settings = home.open(), home.settings()
        published = publish(place, settings, clock.as_of(context))
        write_state(place, settings, published.state)
    snapshot = published.snapshot
    return dg.MaterializeResult(
        metadata={
            "snapshot": dg.MetadataValue.md(snapshot_preview(snapshot)),
            "words": len(snapshot.words),
            "tokens": snapshot.tokens,
            "status": snapshot.status,
            "watermark": dg.MetadataValue.timestamp(snapshot.watermark),
            "revision": snapshot.revision,
            "concepts": len(snapshot.concepts),
            "files_changed": ", ".join(published.changed) or "none",
            "folder": dg.MetadataValue.path(place.published),
        }
    )
