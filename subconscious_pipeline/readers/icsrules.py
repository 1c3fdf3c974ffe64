"""Recurrence: the local start times a series has. Works on wall-clock times without zone; who knows the zone converts afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from icalendar import Calendar, Event, vRecur
from recurring_ical_events import of

MOST_OCCURRENCES = 1_000
_FIRST_REACH = 1_100  # occurrences asked for at first; more only while there are too few
_MOST_STEPS = 20_000  # of a rule without COUNT, counted back from the end
_MOST_COUNTED_STEPS = 200_000  # of a rule with COUNT, which must be followed from its start
_STEP = {"HOURLY": timedelta(hours=1), "DAILY": timedelta(days=1), "WEEKLY": timedelta(weeks=1)}
_MOST_A_DAY = 48
_LAST_DAY = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_RANGES = {"BYMONTH": 12, "BYMONTHDAY": 31, "BYYEARDAY": 366, "BYWEEKNO": 53, "BYSETPOS": 366}


class RuleFault(ValueError):
    """A rule that cannot or must not be followed; `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Shift:
    """RANGE=THISANDFUTURE: from `original` on, every later occurrence moves as this one did and takes its content."""

    original: datetime
    start: datetime
    row: int  # the caller's number of the override


@dataclass(frozen=True)
class Occurrence:
    """One generated occurrence, in wall-clock time of the series."""

    original: datetime
    start: datetime
    row: int  # 0: the master; else the row of the Shift it follows


def parse_rule(text: str) -> vRecur:
    """A rule that is safe to follow.

    Raises:
        RuleFault: "bad_rrule" (unreadable, or can never match), "rule_too_fine" (SECONDLY, MINUTELY, more than 48 a day).
    """
    try:
        rule: vRecur = vRecur.from_ical(text.strip().upper())
    except (ValueError, TypeError, LookupError, AttributeError):
        raise RuleFault("bad_rrule", "the recurrence rule cannot be read; only the first occurrence is kept") from None
    frequency = str(_only(rule, "FREQ", "")).upper()
    if frequency in ("SECONDLY", "MINUTELY"):
        raise RuleFault("rule_too_fine", "an event that repeats every minute or second is not expanded; only the first occurrence is kept")
    numbers = {name: [_number(value) for value in rule.get(name, [])] for name in _RANGES}
    wrong = any(not 1 <= abs(value) <= _RANGES[name] for name, values in numbers.items() for value in values)
    months = [month for month in numbers["BYMONTH"] if 1 <= month <= 12] or list(range(1, 13))
    days = numbers["BYMONTHDAY"]
    never = bool(days) and not any(abs(day) <= _LAST_DAY[month - 1] for day in days for month in months)
    # The library never ends on rules that match nothing; RFC 5545, 3.3.10, forbids most of those combinations.
    yearly = bool(numbers["BYWEEKNO"] or numbers["BYYEARDAY"]) and frequency != "YEARLY"
    most = {"HOURLY": 0, "DAILY": per_day(rule)}.get(frequency, 366)
    positions = any(abs(position) > most for position in numbers["BYSETPOS"])
    known = frequency in ("HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY")
    if not known or _interval(rule) < 1 or wrong or never or yearly or positions:
        raise RuleFault("bad_rrule", "the recurrence rule makes no sense; only the first occurrence is kept")
    if per_day(rule) > _MOST_A_DAY:
        raise RuleFault("rule_too_fine", f"an event that repeats more than {_MOST_A_DAY} times a day is not expanded; only the first is kept")
    return rule


def _only(rule: vRecur, name: str, default: object) -> object:
    values = rule.get(name, default)
    return (values[0] if values else default) if isinstance(values, list) else values


def _number(value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        return 0


def _interval(rule: vRecur) -> int:
    return _number(_only(rule, "INTERVAL", 1))


def _late_start(start: datetime, rules: Sequence[vRecur], until: datetime) -> datetime:
    """A later start in step with a rule that has run very long, else `start` itself.

    Raises:
        RuleFault: "rule_too_long" when such a rule counts, or is one of several, and so must be followed from its beginning.
    """
    late = start
    for rule in rules:
        step = _STEP.get(str(_only(rule, "FREQ", "")).upper())
        if step is None:
            continue
        steps = (until - start) // (step * _interval(rule))
        alone = "COUNT" not in rule and len(rules) == 1
        if steps > _MOST_COUNTED_STEPS and not alone:
            raise RuleFault("rule_too_long", "the recurrence is too long to follow; only the first occurrence is kept")
        if steps > _MOST_STEPS and alone:
            late = start + (steps - _MOST_STEPS) * step * _interval(rule)
    return late


def per_day(rule: vRecur) -> int:
    """The most occurrences a rule can have on one day."""
    count = max(1, len(rule.get("BYHOUR", []))) if rule.get("BYHOUR") else (24 if str(_only(rule, "FREQ", "")).upper() == "HOURLY" else 1)
    for name in ("BYMINUTE", "BYSECOND"):
        count *= max(1, len(rule.get(name, [])))
    return count


def set_until(rule: vRecur, until: datetime) -> None:
    """Replace UNTIL by a wall-clock time of the series' zone."""
    rule["UNTIL"] = [until]


def end_of_day(at: datetime) -> datetime:
    """The last second of a day: an UNTIL that is only a date includes that day."""
    return datetime.combine(at.date(), time(23, 59, 59))


def expand(
    start: datetime,
    rules: Sequence[vRecur],
    rdates: Sequence[datetime],
    exdates: Sequence[datetime],
    shifts: Sequence[Shift],
    until: datetime,
) -> tuple[list[Occurrence], bool]:
    """Occurrences of a series that start up to `until`, by time, and whether there were more than MOST_OCCURRENCES.

    The start itself is always one (RFC 5545: DTSTART is the first instance) unless it is excluded. All times are wall-clock, without
    zone. Of too many occurrences the latest are kept: a daily meeting of many years matters today.

    Raises:
        RuleFault: when the rules contradict each other.
    """
    late = _late_start(start, rules, until)
    calendar = Calendar()
    calendar.add_component(_event(late, 0, rules=rules, rdates=rdates, exdates=exdates))
    moves = {shift.row: shift.start - shift.original for shift in shifts}
    for shift in shifts:
        event = _event(shift.start, shift.row)
        event.add("RECURRENCE-ID", shift.original, parameters={"RANGE": "THISANDFUTURE"})
        calendar.add_component(event)
    first = min([late, *rdates, *(shift.start for shift in shifts)])
    reach = timedelta(days=_FIRST_REACH // max([per_day(rule) for rule in rules], default=1))
    occurrences: dict[datetime, Occurrence] = {}
    try:
        query = of(calendar)
        while len(occurrences) <= MOST_OCCURRENCES:  # backwards from the end: an old hourly series has more than anyone can use
            since = until - reach if until - first > reach else first
            for event in query.between(since, until + timedelta(seconds=1)):
                begins, row = event["DTSTART"].dt, int(event["X-ROW"])
                original = begins - moves.get(row, timedelta(0))
                if begins <= until and (late == start or original != late):  # a later start is in step, but may not match the rule
                    occurrences[original] = Occurrence(original, begins, row)
            if since == first:
                break
            reach *= 4
    except (ValueError, TypeError, OverflowError, LookupError, AttributeError):
        raise RuleFault("bad_rrule", "the recurrence cannot be followed; only the first occurrence is kept") from None
    ordered = sorted(occurrences.values(), key=lambda one: one.start)
    return ordered[-MOST_OCCURRENCES:], late > start or len(ordered) > MOST_OCCURRENCES


def _event(start: datetime, row: int, rules: Sequence[vRecur] = (), rdates: Sequence[datetime] = (), exdates: Sequence[datetime] = ()) -> Event:
    event = Event()
    event.add("UID", "series")
    event.add("DTSTART", start)
    event.add("X-ROW", str(row))
    for rule in rules:
        event.add("RRULE", rule)
    if rdates:
        event.add("RDATE", list(rdates))
    if exdates:
        event.add("EXDATE", list(exdates))
    return event
