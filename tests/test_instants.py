"""Instants, windows and their keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.instants import Window, from_micros, iso_z, parse_instant, to_micros, window_at, window_from_key, windows_between


def test_instants_and_microseconds_are_the_same_thing() -> None:
    assert to_micros(datetime(2024, 6, 3, 23, 1, 59, 5, tzinfo=timezone(timedelta(hours=2)))) == 1_717_448_519_000_005
    assert from_micros(1_717_448_519_000_005) == datetime(2024, 6, 3, 21, 1, 59, 5, tzinfo=UTC)
    assert from_micros(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-04-03T12:00Z", "2026-04-03T12:00:00Z"),
        ("2026-04-03", "2026-04-03T00:00:00Z"),
        (" 2026-04-03T12:00:00.25+05:30 ", "2026-04-03T06:30:00.250000Z"),
        ("2026-04-03T23:00-03:00", "2026-04-04T02:00:00Z"),
    ],
)
def test_times_are_shown_in_utc(text: str, shown: str) -> None:
    assert iso_z(parse_instant(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-04-03T12:00", "2026-04-03 12:00:00", "2026-13-01", "0001-01-01T00:00+10:00", "9999-12-31T23:00-10:00"]
)
def test_what_is_no_instant_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="2026-04-03T12:00Z"):
        parse_instant(text)


def test_a_window_is_half_open_and_closes_at_its_end() -> None:
    window = window_at(datetime(2026, 4, 3, 6, tzinfo=UTC), 6)
    assert window == Window(datetime(2026, 4, 3, 6, tzinfo=UTC), datetime(2026, 4, 3, 12, tzinfo=UTC))
    assert window_at(datetime(2026, 4, 3, 5, 59, 59, 999_999, tzinfo=UTC), 6).key == "2026-04-03T00:00Z"
    assert not window.closed(datetime(2026, 4, 3, 11, 59, tzinfo=UTC))
    assert window.closed(datetime(2026, 4, 3, 12, tzinfo=UTC))


@given(
    st.datetimes(timezones=st.just(UTC), allow_imaginary=False).filter(lambda at: 1900 < at.year < 2100), st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24])
)
@settings(max_examples=100, deadline=None)
def test_every_instant_lies_in_exactly_one_window_which_its_key_names(at: datetime, hours: int) -> None:
    window = window_at(at, hours)
    assert window.start <= at < window.end
    assert window.end - window.start == timedelta(hours=hours)
    assert window.start.hour % hours == 0
    assert window_from_key(window.key, hours) == window


def test_a_key_that_starts_no_window_names_the_one_that_does() -> None:
    with pytest.raises(ConfigError, match="2026-04-03T06:00Z"):
        window_from_key("2026-04-03T07:00Z", 6)


def test_windows_between_two_instants_include_both_ends() -> None:
    found = windows_between(datetime(2026, 4, 3, 5, 59, tzinfo=UTC), datetime(2026, 4, 3, 18, 0, tzinfo=UTC), 6)
    assert [window.key for window in found] == ["2026-04-03T00:00Z", "2026-04-03T06:00Z", "2026-04-03T12:00Z", "2026-04-03T18:00Z"]
