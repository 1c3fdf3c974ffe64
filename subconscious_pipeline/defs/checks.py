"""Asset checks: they report what the transactions already enforce, so that a person sees it in the UI."""

import dagster as dg

from subconscious_pipeline import duck
from subconscious_pipeline.defs.publish import keyword_snapshot
from subconscious_pipeline.defs.resources import Clock, HomeResource
from subconscious_pipeline.errors import without_content
from subconscious_pipeline.memory import audit, store
from subconscious_pipeline.publish.overview import overview
from subconscious_pipeline.warehouse.read import doubled_rows
from subconscious_pipeline.warehouse.schema import MIGRATIONS


@dg.asset_check(asset="concepts", description="Keywords and pointers belong to concepts, and every concept has both.")
def no_orphans(home: HomeResource) -> dg.AssetCheckResult:
    """The invariants of the index."""
    with without_content(), store.reading(home.open(), home.settings()) as con:
        broken = store.broken_invariants(con)
    return dg.AssetCheckResult(passed=not broken, metadata=dict(broken))


@dg.asset_check(asset="sources", description="Behind every pointer lies at least one row of the warehouse.")
def pointers_resolve(home: HomeResource) -> dg.AssetCheckResult:
    """Every span starts and ends at a row that its window rendered."""
    place, settings = home.open(), home.settings()
    with without_content():
        with store.reading(place, settings) as con:
            spans = audit.spans(con)
        with duck.reading(place.warehouse, MIGRATIONS, settings.lock_seconds) as con:
            dangling = audit.dangling(con, spans)
    return dg.AssetCheckResult(passed=not dangling, metadata={"spans": len(spans), "dangling": dangling})


@dg.asset_check(asset="keywords", description="Every keyword is one short lowercase word: nothing else can reach an agent.")
def words_are_words(home: HomeResource) -> dg.AssetCheckResult:
    """The barrier, looked at from behind."""
    with without_content(), store.reading(home.open(), home.settings()) as con:
        odd = audit.odd_words(con)
    return dg.AssetCheckResult(passed=not odd, metadata={"odd_words": odd})


@dg.asset_check(asset=keyword_snapshot, description="The index holds words, references and times, and no text of any message.")
def no_content_in_index(home: HomeResource) -> dg.AssetCheckResult:
    """No value outside the reference columns of memory.duckdb reads like prose."""
    place, settings = home.open(), home.settings()
    with without_content(), store.reading(place, settings) as con:
        suspicious = audit.sentences(con)
    return dg.AssetCheckResult(passed=not suspicious, metadata={"values_that_read_like_text": suspicious})


@dg.asset_check(asset=keyword_snapshot, description="No window failed and no source is down.")
def nothing_missing(context: dg.AssetCheckExecutionContext, home: HomeResource, clock: Clock) -> dg.AssetCheckResult:
    """Warns while the index is degraded."""
    with without_content():
        state = overview(home.open(), home.settings(), clock.as_of(context))
    return dg.AssetCheckResult(
        passed=not state.reasons, severity=dg.AssetCheckSeverity.WARN, metadata={"reasons": dg.MetadataValue.json(list(state.reasons))}
    )


@dg.asset_check(asset="conversations", description="Every row of the warehouse is there once.")
def rows_are_unique(home: HomeResource) -> dg.AssetCheckResult:
    """What a primary key would say; see `warehouse.schema`."""
    with without_content(), duck.reading(home.open().warehouse, MIGRATIONS, home.settings().lock_seconds) as con:
        doubled = doubled_rows(con)
    return dg.AssetCheckResult(passed=not doubled, metadata={"doubled_rows": doubled})


CHECKS = [rows_are_unique, no_orphans, pointers_resolve, words_are_words, no_content_in_index, nothing_missing]
