"""Where a run's `as_of` comes from."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from subconscious_pipeline.defs.resources import Clock
from subconscious_pipeline.errors import ConfigError


@dg.asset
def early(context: dg.AssetExecutionContext, clock: Clock) -> str:
    return clock.as_of(context).isoformat()


@dg.asset(deps=[early])
def late(context: dg.AssetExecutionContext, clock: Clock) -> str:
    return clock.as_of(context).isoformat()


def seen(**tags: str) -> tuple[datetime, datetime]:
    """What the clock says at two places of one run."""
    with dg.DagsterInstance.ephemeral() as storage:
        result = dg.materialize([early, late], instance=storage, resources={"clock": Clock()}, tags=tags)
        return tuple(datetime.fromisoformat(result.output_for_node(name)) for name in ("early", "late"))  # type: ignore[return-value]


@pytest.mark.parametrize("tag", ["2026-04-01T12:10Z", "2026-04-01T14:10+02:00"])
def test_the_run_tag_is_the_clock(tag: str) -> None:
    assert seen(**{"subconscious/as_of": tag}) == (datetime(2026, 4, 1, 12, 10, tzinfo=UTC),) * 2


def test_without_a_tag_the_clock_stands_at_the_start_of_the_run() -> None:
    before = datetime.now(UTC)
    first, second = seen()
    assert first == second
    assert before - timedelta(seconds=1) <= first <= datetime.now(UTC)
    assert first.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("tag", "reason"), [("2999-01-01T00:00Z", "lies in the future"), ("yesterday", "is not a time"), ("2026-04-01T12:10", "no time zone")]
)
def test_an_instant_to_come_or_none_at_all_is_refused(tag: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        seen(**{"subconscious/as_of": tag})
