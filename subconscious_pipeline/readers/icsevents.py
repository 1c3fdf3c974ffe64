"""Event blocks -> EventRecords: dates, zones, series with their overrides. Structure comes from `icslines`, rules from `icsrules`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from icalendar import vDuration

from subconscious_pipeline.instants import from_micros, to_micros
from subconscious_pipeline.readers.base import EXCERPT_CHARS, EventRecord, Item, ReadError, ReadOptions
from subconscious_pipeline.readers.icsdates import Moment, Undated, parse_wall
from subconscious_pipeline.readers.icslines import Block, Calendar, Property
from subconscious_pipeline.readers.icsrules import MOST_OCCURRENCES, RuleFault, Shift, end_of_day, expand, parse_rule, set_until
from subconscious_pipeline.readers.icszones import Zone, defined_zone, named_zone
from subconscious_pipeline.readers.mailtext import html_text

DEFAULT_HORIZON = timedelta(days=400)
_HTML = re.compile(r"<(?:br|p|div|html|a|b|ul|ol|span|table)\b[^>]*>", re.IGNORECASE)
_STATUS = {"TENTATIVE": "tentative", "CANCELLED": "cancelled"}


@dataclass
class Event:
    """One VEVENT, dated."""

    block: Block
    uid: str
    start: Moment
    end: datetime  # wall clock in start's zone; for all-day events the midnight after the last day
    recurrence: Moment | None
    sequence: int
    stamp: int

    @property
    def all_day(self) -> bool:
        return self.start.is_date


@dataclass
class Series:
    """Everything of one UID."""

    master: Event | None = None
    overrides: dict[str, Event] = field(default_factory=dict)


class EventReader:
    """Reads the blocks of one file; collects what the user should know on the way."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.default_zone = Zone(options.zone, str(options.zone))
        self.unknown_zones: dict[str, int] = {}
        self.floating = 0
        self.superseded = 0
        self._defined: dict[str, Zone | None] = {}

    def read(self, blocks: list[Block]) -> Iterator[Item]:
        """Records and what was set aside, series by series in the order of the file, then the warnings of the whole file."""
        masters: dict[str, list[Event]] = {}
        for block in blocks:
            try:
                event = self.event(block)
            except Undated as fault:
                yield ReadError(f"line {block.line}", fault.code, fault.message, block.text("SUMMARY")[:EXCERPT_CHARS])
                continue
            except OverflowError:
                yield ReadError(f"line {block.line}", "bad_date", "a date of this event lies outside the calendar", "")
                continue
            masters.setdefault(event.uid, []).append(event)
        for events in masters.values():
            if len(events) == 1 and events[0].recurrence is None and not _recurs(events[0].block):
                yield self.record(events[0], events[0].uid, events[0].start.wall, events[0].end)
            else:
                yield from self.series(self.collect(events))
        yield from self.warnings()

    def warnings(self) -> Iterator[ReadError]:
        """What the user should know about zones and duplicates."""
        for tzid, line in self.unknown_zones.items():
            message = f"unknown time zone, first used by the event on line {line}: its times are taken as {self.options.zone}; set this source's zone"
            yield ReadError(f"line {line}", "unknown_zone", message, tzid[:EXCERPT_CHARS], warning=True)
        if self.floating and not self.options.zone_configured:
            message = f"{self.floating} events carry no time zone and are taken as {self.options.zone}; set the time zone of this source"
            yield ReadError("file", "floating_times", message, warning=True)
        if self.superseded:
            yield ReadError("file", "superseded", f"{self.superseded} older versions of events in the file were left out", warning=True)

    # --- one block

    def event(self, block: Block) -> Event:
        """The dated event of a block.

        Raises:
            Undated: without a start that can be read.
        """
        calendar = block.calendar
        recurrence_property = block.first("RECURRENCE-ID")
        recurrence = self.moment(recurrence_property, calendar, block.line) if recurrence_property else None
        start_property = block.first("DTSTART")
        if start_property:
            start = self.moment(start_property, calendar, block.line)
        elif recurrence:
            start = recurrence
        else:
            raise Undated("undated", "the event has no DTSTART")
        if start.tz_source == "floating" and not start.is_date:
            self.floating += 1
        sequence = block.text("SEQUENCE")
        return Event(
            block=block,
            uid=block.text("UID") or _content_uid(block),
            start=start,
            end=self.end(block, start),
            recurrence=recurrence,
            sequence=int(sequence) if sequence.isdecimal() else 0,
            stamp=self.instant(block, "DTSTAMP") or 0,
        )

    def moment(self, prop: Property, calendar: Calendar, line: int, value: str | None = None) -> Moment:
        """A date property in its zone.

        Raises:
            Undated: when it is no date.
        """
        wall, is_date, utc = parse_wall(prop.value if value is None else value)
        if utc:
            return Moment(wall, False, Zone(UTC, "UTC"), "explicit")
        tzid = prop.params.get("TZID", "")
        if tzid and not is_date:
            if zone := self.zone(tzid, calendar):
                return Moment(wall, False, zone, "explicit")
            self.unknown_zones.setdefault(tzid, line)
            return Moment(wall, False, self.default_zone, "floating")
        if calendar.zone_name and (zone := self.zone(calendar.zone_name, calendar)):
            return Moment(wall, is_date, zone, "explicit")
        return Moment(wall, is_date, self.default_zone, self.options.naive_tz_source)

    def zone(self, tzid: str, calendar: Calendar) -> Zone | None:
        """The zone a TZID names, by itself or through the calendar's VTIMEZONE."""
        if known := named_zone(tzid):
            return known
        source = calendar.zones.get(tzid)
        if source is None:
            return None
        if source not in self._defined:
            self._defined[source] = defined_zone(source)
        return self._defined[source]

    def end(self, block: Block, start: Moment) -> datetime:
        """Wall clock at which an event ends, in its start's zone: DTEND, else DURATION, else a day for dates and no time otherwise."""
        least = start.wall + timedelta(days=1) if start.is_date else start.wall
        if prop := block.first("DTEND"):
            try:
                end = self.moment(prop, block.calendar, block.line)
            except Undated:
                return least
            wall = end.wall_in(start.zone)
            if start.is_date and wall != (midnight := wall.replace(hour=0, minute=0, second=0)):
                wall = midnight + timedelta(days=1)
            return max(wall, least)
        if prop := block.first("DURATION"):
            try:
                length: timedelta = vDuration.from_ical(prop.value.strip())  # type: ignore[no-untyped-call]
                return max(start.wall + length, least)
            except (ValueError, TypeError, AttributeError):
                return least
        return least

    def instant(self, block: Block, name: str) -> int | None:
        """Microseconds of a time-stamp property, or None when it is missing or unreadable."""
        prop = block.first(name)
        if not prop:
            return None
        try:
            return self.moment(prop, block.calendar, block.line).micros
        except (Undated, OverflowError):
            return None

    def changed(self, block: Block) -> int | None:
        """When an event was last changed: LAST-MODIFIED, else CREATED, else DTSTAMP."""
        for name in ("LAST-MODIFIED", "CREATED", "DTSTAMP"):
            if (at := self.instant(block, name)) is not None:
                return at
        return None

    # --- series

    def collect(self, events: list[Event]) -> Series:
        """Master and overrides of one UID. Of two versions the higher SEQUENCE wins, then the later DTSTAMP, then the later line."""
        series = Series()
        for event in events:
            if event.recurrence is None:
                self.superseded += series.master is not None
                series.master = _newer(series.master, event)
        for event in events:
            if event.recurrence is not None:
                key = _key(_original(event.recurrence, series.master), series.master or event)
                self.superseded += key in series.overrides
                series.overrides[key] = _newer(series.overrides.get(key), event)
        return series

    def series(self, series: Series) -> Iterator[Item]:
        """Every occurrence of a series, then its overrides. An override without its master is kept."""
        excluded: set[datetime] = set()
        if series.master:
            if _recurs(series.master.block):
                excluded = set(self.dates(series.master, "EXDATE"))
                yield from self.generated(series.master, series.overrides, sorted(excluded))
            else:
                yield self.record(series.master, series.master.uid, series.master.start.wall, series.master.end)
        for key, override in series.overrides.items():
            original = _original(override.recurrence, series.master) if override.recurrence else override.start.wall
            if original not in excluded or _status(override.block) == "cancelled":
                yield self.record(override, f"{override.uid}/{key}", override.start.wall, override.end)

    def generated(self, master: Event, overrides: dict[str, Event], exdates: list[datetime]) -> Iterator[Item]:
        """The occurrences the rules of a master give, without those that an override replaces."""
        block, rows = master.block, list(overrides.values())
        shifts = [
            Shift(_original(one.recurrence, master), one.start.wall_in(master.start.zone), number)
            for number, one in enumerate(rows, 1)
            if one.recurrence and (prop := one.block.first("RECURRENCE-ID")) and prop.params.get("RANGE", "").upper() == "THISANDFUTURE"
        ]
        texts = [prop.value.strip() for prop in block.properties.get("RRULE", [])]
        rule_text = "\n".join(texts) or "RDATE:" + ",".join(prop.value.strip() for prop in block.properties["RDATE"])
        until = self.horizon(master)
        try:
            rules = [parse_rule(text) for text in texts]
            for rule, text in zip(rules, texts, strict=True):
                if match := re.search(r"UNTIL=([^;]+)", text, re.IGNORECASE):
                    set_until(rule, self.until(match.group(1), master))
            found, capped = expand(master.start.wall, rules, self.dates(master, "RDATE"), exdates, shifts, until)
            if capped:
                message = f"more than {MOST_OCCURRENCES} occurrences; only the latest are kept"
                yield ReadError(f"line {block.line}", "too_many_occurrences", message, warning=True)
        except (RuleFault, Undated) as fault:
            yield ReadError(f"line {block.line}", fault.code, fault.message, warning=True)
            yield self.record(master, f"{master.uid}/{_key(master.start.wall, master)}", master.start.wall, master.end, rule_text)
            return
        for one in found:
            key = _key(one.original, master)
            if key not in overrides:
                event = rows[one.row - 1] if one.row else master
                length = event.end - event.start.wall
                yield self.record(event, f"{master.uid}/{key}", one.start, one.start + length, rule_text, zone=master.start)

    def horizon(self, master: Event) -> datetime:
        """Wall clock in the master's zone up to which it is expanded, never before its first occurrence."""
        if self.options.expand_until is None:
            return master.start.wall + DEFAULT_HORIZON
        until = from_micros(self.options.expand_until).astimezone(master.start.zone.info).replace(tzinfo=None)
        return max(until, master.start.wall)

    def until(self, text: str, master: Event) -> datetime:
        """UNTIL as wall clock of the master's zone: UTC is converted, a local time is meant there, a date includes its day."""
        wall, is_date, utc = parse_wall(text)
        if is_date or master.all_day:
            return end_of_day(wall)
        return Moment(wall, False, Zone(UTC, "UTC"), "explicit").wall_in(master.start.zone) if utc else wall

    def dates(self, master: Event, name: str) -> list[datetime]:
        """EXDATE or RDATE as wall clock of the master's zone; a date means the occurrence of that day; of a period its start."""
        found = []
        for prop in master.block.properties.get(name, []):
            for value in prop.value.split(","):
                try:
                    moment = self.moment(prop, master.block.calendar, master.block.line, value.partition("/")[0])
                except Undated:
                    continue
                found.append(_original(moment, master))
        return found

    # --- records

    def record(self, event: Event, ref: str, start: datetime, end: datetime, rrule: str | None = None, zone: Moment | None = None) -> EventRecord:
        """The record of an event at the given wall-clock times (in its own zone, or that of `zone`)."""
        block, at = event.block, (zone or event.start)
        tz = at.zone.info
        last = end - timedelta(microseconds=1) if end > start else end
        description = block.text("DESCRIPTION")
        return EventRecord(
            source_ref=ref,
            series=event.uid,
            start_at=to_micros(start.replace(tzinfo=tz)),
            end_at=max(to_micros(end.replace(tzinfo=tz)), to_micros(start.replace(tzinfo=tz))),
            all_day=event.all_day,
            start_date=start.date().isoformat(),
            end_date=last.date().isoformat(),
            summary=" ".join(block.text("SUMMARY").split()),
            description=html_text(description) if "<" in description and _HTML.search(description) else description,
            location=" ".join(block.text("LOCATION").split()),
            organizer=_person(block.first("ORGANIZER")),
            attendees=tuple(_person(prop) for prop in block.properties.get("ATTENDEE", ())),
            tz_name=at.zone.name,
            tz_source=at.tz_source,
            rrule=rrule,
            status=_status(block),
            changed_at=self.changed(block),
        )


def _original(recurrence: Moment | None, master: Event | None) -> datetime:
    """A RECURRENCE-ID, EXDATE or RDATE as wall clock of the master's zone, mended where its type differs from DTSTART's."""
    assert recurrence is not None
    if master is None:
        return recurrence.wall
    if master.all_day:
        return recurrence.wall.replace(hour=0, minute=0, second=0)
    if recurrence.is_date:
        return datetime.combine(recurrence.wall.date(), master.start.wall.time())
    return recurrence.wall_in(master.start.zone)


def _key(original: datetime, event: Event) -> str:
    """How an occurrence is named: its original start in UTC, or its date."""
    if event.all_day or (event.recurrence is not None and event.recurrence.is_date):
        return original.strftime("%Y%m%d")
    zone = event.start.zone if event.recurrence is None else event.recurrence.zone
    return original.replace(tzinfo=zone.info).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _newer(old: Event | None, new: Event) -> Event:
    return new if old is None or (new.sequence, new.stamp) >= (old.sequence, old.stamp) else old


def _recurs(block: Block) -> bool:
    return "RRULE" in block.properties or "RDATE" in block.properties


def _status(block: Block) -> str:
    return "cancelled" if block.calendar.method == "CANCEL" else _STATUS.get(block.text("STATUS").upper(), "confirmed")


def _person(prop: Property | None) -> str:
    """A display name, else an address."""
    if prop is None:
        return ""
    return prop.params.get("CN", "").strip() or re.sub(r"^mailto:", "", prop.value.strip(), flags=re.IGNORECASE)


def _content_uid(block: Block) -> str:
    parts = [f"{name}={prop.value}" for name in ("DTSTART", "SUMMARY", "LOCATION") if (prop := block.first(name))]
    return "sha256-" + hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()
