"""Instants and windows. Everything inside the project is aware UTC, or whole microseconds since the epoch (UTC)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from subconscious_pipeline.errors import ConfigError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEY_FORMAT = "%Y-%m-%dT%H:%MZ"


def to_micros(at: datetime) -> int:
    """Whole microseconds since the epoch of an aware datetime."""
    return (at - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The aware UTC datetime of microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=micros)


def iso_z(at: datetime) -> str:
    """ISO 8601 in UTC with ``Z``; fractions of a second only when there are any."""
    text = at.astimezone(UTC).isoformat()
    return text.removesuffix("+00:00") + "Z"


def parse_instant(text: str) -> datetime:
    """An aware UTC datetime from ISO 8601. A date alone is its midnight UTC; a time without offset is refused.

    Raises:
        ConfigError: when the text is not such an instant.
    """
    try:
        at = datetime.fromisoformat(text.strip())
        if at.tzinfo is None:
            if len(text.strip()) > 10:
                raise ConfigError(f"{text!r} has no time zone; write it as 2026-04-03T12:00Z")
            at = at.replace(tzinfo=UTC)
        return at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError(f"{text!r} is not a time; write it as 2026-04-03T12:00Z") from None


@dataclass(frozen=True, order=True)
class Window:
    """A half-open UTC interval [start, end)."""

    start: datetime
    end: datetime

    @property
    def key(self) -> str:
        """The partition key, such as ``2026-04-03T06:00Z``."""
        return self.start.strftime(KEY_FORMAT)

    def closed(self, as_of: datetime) -> bool:
        """Whether nothing can be written into this window any more at `as_of`."""
        return self.end <= as_of


def window_at(at: datetime, hours: int) -> Window:
    """The window of `hours` hours (a divisor of 24) that holds the instant `at`."""
    length = timedelta(hours=hours)
    start = EPOCH + ((at - EPOCH) // length) * length
    return Window(start, start + length)


def window_from_key(key: str, hours: int) -> Window:
    """The window named by a partition key.

    Raises:
        ConfigError: when the key is not the start of a window of this size.
    """
    at = parse_instant(key)
    window = window_at(at, hours)
    if window.start != at:
        raise ConfigError(f"{key} is not the start of a {hours}-hour window; the one that holds it is {window.key}")
    return window


def windows_between(first: datetime, last: datetime, hours: int) -> Iterator[Window]:
    """Every window from the one that holds `first` to the one that holds `last`, in order."""
    window = window_at(first, hours)
    while window.start <= last:
        yield window
        window = Window(window.end, window.end + timedelta(hours=hours))
