"""Dates and clock times as WhatsApp prints them in the phone's own locale: finding them, their order, and their instants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from subconscious_pipeline.settings import DateOrder

MARKS = "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_FIRST_YEAR, _LAST_YEAR = 2009, 2099  # WhatsApp began in 2009

_DATE = r"(\d{1,4})(?:([./-])\s?|年|년\s?)(\d{1,2})(?:[./-]\s?|月|월\s?)(\d{1,4})(?:\.(?!\d)|日|일)?"
_JOINT = r"(?:[,،]\s?|\s)(?:(?:à|às|um|at|kl\.?|klo|a las|alle|ore|в|la)\s)?\s?"
_MERIDIEM = r"[^\d\s\[\]:,،-](?:[^\d\[\]:,،-]{0,14}[^\d\s\[\]:,،-])?"
_TIME = rf"(?:({_MERIDIEM})\s?)?(\d{{1,2}}[:.]\d{{2}}(?:[:.]\d{{2}})?)(?:\s?Uhr)?(?:\s?({_MERIDIEM}))?"

# Groups: bracket, date's three numbers with the separator second, meridiem before, clock, meridiem after, the rest.
HEADER = re.compile(rf"[{MARKS}]*(\[)?{_DATE}{_JOINT}{_TIME}(?(1)\s?\]\s?|\s[-–]\s?)(.*)", re.DOTALL)

_AM = [
    "am", "a.m", "π.μ", "上午", "凌晨", "早上", "清晨", "午前", "오전", "ص", "ق.ظ", "पूर्वाह्न", "öö", "de", "d.e", "dop", "fm", "f.m", "sa",
    "ap", "a.p",
    "дп", "пр.об",
]  # fmt: skip
_PM = [
    "pm", "p.m", "μ.μ", "下午", "晚上", "中午", "傍晚", "午後", "오후", "م", "ب.ظ", "अपराह्न", "ös", "du", "d.u", "odp", "em", "e.m", "ch",
    "ip", "i.p",
    "пп", "сл.об",
]  # fmt: skip
_HALF = {word.replace(".", ""): half for half, words in (("am", _AM), ("pm", _PM)) for word in words}

Triple = tuple[str, str | None, str, str]  # the date's numbers as printed, the separator second: ("20", "/", "6", "24")


class BadTime(ValueError):
    """A line looks like the start of a message, but its date or time does not exist."""


@dataclass(frozen=True)
class Order:
    """What the dates of one file say about the order of day and month."""

    order: DateOrder | None  # None: undecidable
    contradicts: bool = False  # the configured order is at odds with the file


def decide_order(triples: Iterable[Triple], configured: DateOrder | None) -> Order:
    """The order of a file's dates, from the dates themselves.

    In turn: the order in which most dates exist (a day above 12 decides); dots between the numbers, which no locale of the CLDR
    uses month first; the one order in which the file runs forward in time; the configured order.

    Args:
        triples: dates in the order of the file. Dates with the year first decide themselves and are left out.
    """
    told = [triple for triple in triples if len(triple[0]) < 3]
    if not told:
        return Order("ymd", contradicts=configured not in (None, "ymd"))
    distinct = set(told)
    fitting: dict[DateOrder, int] = {order: sum(_exists(triple, order) for triple in distinct) for order in ("dmy", "mdy")}
    short_years = all(len(triple[3]) < 3 for triple in distinct)
    year_first = sum(_exists(triple, "ymd") for triple in distinct) if short_years else 0
    most = max(fitting.values())
    if year_first > most or (year_first and year_first == most and configured == "ymd"):
        return Order("ymd", contradicts=configured not in (None, "ymd"))
    candidates: list[DateOrder] = [order for order in ("dmy", "mdy") if fitting[order] == most]
    if len(candidates) > 1 and all(triple[1] == "." for triple in distinct):
        candidates = ["dmy"]
    if len(candidates) > 1:
        forward = [order for order in candidates if _runs_forward(told, order)]
        candidates = forward if len(forward) == 1 else candidates
    if len(candidates) == 1:
        return Order(candidates[0], contradicts=configured not in (None, candidates[0]))
    return Order(configured if configured in candidates else None)


def _date(triple: Triple, order: DateOrder) -> date:
    first, second, third = int(triple[0]), int(triple[2]), int(triple[3])
    if len(triple[0]) > 2 or order == "ymd":
        year, month, day = first, second, third
    elif order == "dmy":
        day, month, year = first, second, third
    else:
        month, day, year = first, second, third
    year += 2000 if year < 100 else 0
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        raise BadTime(f"the year is not between {_FIRST_YEAR} and {_LAST_YEAR}")
    try:
        return date(year, month, day)
    except ValueError:
        raise BadTime(f"there is no such date when read as {order}") from None


def _exists(triple: Triple, order: DateOrder) -> bool:
    try:
        _date(triple, order)
    except BadTime:
        return False
    return True


def _runs_forward(triples: list[Triple], order: DateOrder) -> bool:
    dates = [_date(triple, order) for triple in triples if _exists(triple, order)]
    return all(before <= after for before, after in pairwise(dates))


class Calendar:
    """Instants of printed dates and times in one zone; every date and every clock time is worked out once.

    Local times that a zone skips or repeats are read with the offset before the change (PEP 495, fold=0).
    """

    def __init__(self, order: DateOrder, zone: ZoneInfo) -> None:
        self._order = order
        self._zone = zone
        self._days: dict[Triple, tuple[date, int | None]] = {}
        self._clocks: dict[tuple[str | None, str, str | None], int] = {}

    def micros(self, triple: Triple, before: str | None, clock: str, after: str | None) -> int:
        """Microseconds since the epoch of a local date and time.

        Raises:
            BadTime: when either does not exist.
        """
        known = self._days.get(triple)
        if known is None:
            known = self._days[triple] = self._day(triple)
        seconds = self._clocks.get((before, clock, after))
        if seconds is None:
            seconds = self._clocks[before, clock, after] = _seconds(clock, before or after)
        day, start = known
        if start is not None:
            return (start + seconds) * 1_000_000
        local = datetime.combine(day, time(0), tzinfo=self._zone) + timedelta(seconds=seconds)
        return int(local.timestamp()) * 1_000_000

    def _day(self, triple: Triple) -> tuple[date, int | None]:
        """The date, and its midnight in unix seconds unless the zone's offset changes on that day."""
        day = _date(triple, self._order)
        midnight = datetime.combine(day, time(0), tzinfo=self._zone)
        offset = midnight.utcoffset()
        if offset != (midnight + timedelta(days=1)).utcoffset() or offset is None:
            return day, None
        return day, int(datetime.combine(day, time(0), tzinfo=UTC).timestamp() - offset.total_seconds())


def _seconds(clock: str, meridiem: str | None) -> int:
    parts = [int(part) for part in re.split("[:.]", clock)]
    hour, minute, second = (*parts, 0)[:3]
    if meridiem is not None:
        half = half_of(meridiem)
        if half is None:
            raise BadTime("the word beside the time is not a known AM or PM")
        if hour == 12:
            hour = 0
        if half == "pm" and hour < 12:
            hour += 12
    if hour > 23 or minute > 59 or second > 59:
        raise BadTime("there is no such time of day")
    return hour * 3600 + minute * 60 + second


def half_of(meridiem: str) -> str | None:
    """``am`` or ``pm`` of a localized word, whatever dots, spaces and invisible marks it is printed with."""
    return _HALF.get("".join(c for c in meridiem.casefold() if not c.isspace() and c != "." and c not in MARKS))
