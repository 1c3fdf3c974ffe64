"""A date or time of a calendar as it is written: wall clock, zone, and who says which zone that is."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from subconscious_pipeline.instants import to_micros
from subconscious_pipeline.readers.icszones import Zone

_DATE = re.compile(r"^(\d{4})-?(\d\d)-?(\d\d)(?:[T ](\d\d):?(\d\d):?(\d\d)?(?:\.\d+)?(Z)?)?$", re.IGNORECASE)


class Moment(NamedTuple):
    """A date or time of an event: wall clock in `zone`, and who says which zone that is."""

    wall: datetime  # without zone; midnight for a date
    is_date: bool
    zone: Zone
    tz_source: str

    @property
    def micros(self) -> int:
        """Microseconds since the epoch, UTC."""
        return to_micros(self.wall.replace(tzinfo=self.zone.info))

    def wall_in(self, zone: Zone) -> datetime:
        """The wall clock of another zone at this instant; a date stays that date."""
        if self.is_date or self.zone is zone:
            return self.wall
        return self.wall.replace(tzinfo=self.zone.info).astimezone(zone.info).replace(tzinfo=None)


class Undated(ValueError):
    """A date that is missing or cannot be read; `code` says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def parse_wall(text: str) -> tuple[datetime, bool, bool]:
    """(wall clock, is a date, is UTC) of a DATE or DATE-TIME value."""
    match = _DATE.match(text.strip())
    if not match:
        raise Undated("bad_date", "a date of this event cannot be read")
    year, month, day, hour, minute, second, utc = match.groups()
    try:
        at = datetime(int(year), int(month), int(day))  # noqa: DTZ001 (wall clock by design)
        if hour is None:
            return at, True, False
        if hour == "24":
            return at + timedelta(days=1), False, bool(utc)
        return at.replace(hour=int(hour), minute=int(minute), second=min(int(second or 0), 59)), False, bool(utc)
    except ValueError:
        raise Undated("bad_date", "a date of this event does not exist") from None
