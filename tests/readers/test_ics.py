"""Calendars: damaged files, zones, all-day events, recurrence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.instants import from_micros, to_micros
from subconscious_pipeline.readers.base import EventRecord, Item, ReadError, ReadOptions
from subconscious_pipeline.readers.ics import READER

BERLIN = ReadOptions(zone=ZoneInfo("Europe/Berlin"), zone_configured=True)


def calendar(*events: str, head: str = "") -> str:
    """A calendar of events given by their inner lines."""
    blocks = "".join(f"BEGIN:VEVENT\n{event.strip()}\nEND:VEVENT\n" for event in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{head}{blocks}END:VCALENDAR\n"


def read(path: Path, content: str | bytes, options: ReadOptions = BERLIN) -> list[Item]:
    raw = content.encode() if isinstance(content, str) else content
    (path / "a.ics").write_bytes(raw)
    return list(READER.read(path / "a.ics", options))


def events(items: list[Item]) -> list[EventRecord]:
    return [item for item in items if isinstance(item, EventRecord)]


def errors(items: list[Item]) -> list[tuple[str, str]]:
    return [(item.locator, item.code) for item in items if isinstance(item, ReadError)]


def starts(items: list[Item]) -> list[str]:
    return [from_micros(event.start_at).strftime("%Y-%m-%dT%H:%MZ") for event in events(items)]


# --- damaged files


def test_a_stray_line_costs_only_itself_and_is_reported_with_its_number(tmp_path: Path) -> None:
    good = "BEGIN:VEVENT\nUID:{}\nDTSTART:20240101T100000Z\n{}END:VEVENT\n"
    content = (
        "BEGIN:VCALENDAR\n" + good.format("a", "") + "X\n" + good.format("b", "X-APPLE-RADIUS=49.9\n") + good.format("c", "") + "END:VCALENDAR\n"
    )
    items = read(tmp_path, content.replace("\n", "\r\n"))
    assert [event.source_ref for event in events(items)] == ["a", "b", "c"]
    assert errors(items) == [("line 6", "bad_line"), ("line 10", "bad_line")]


def test_a_feed_may_begin_with_a_comment(tmp_path: Path) -> None:
    content = "<!-- Copyright -->\r\n" + calendar("UID:a\nDTSTART:20240101T100000Z\nSUMMARY:Dinner")
    assert READER.identify(tmp_path / "feed", content.encode())
    assert [event.summary for event in events(read(tmp_path, content))] == ["Dinner"]


def test_a_web_page_is_not_a_calendar(tmp_path: Path) -> None:
    page = "<!DOCTYPE html><html><body>Please sign in</body></html>"
    assert READER.identify(tmp_path / "a.ics", page.encode())
    with pytest.raises(SourceError, match="not a calendar"):
        read(tmp_path, page)


def test_mails_that_carry_a_calendar_are_not_calendars(tmp_path: Path) -> None:
    assert not READER.identify(tmp_path / "a", b"Subject: s\nFrom: a@x\n\nBEGIN:VCALENDAR\n")
    assert not READER.identify(tmp_path / "a", b"From a@x Mon Jan  1 10:00:00 2024\nSubject: s\n\nBEGIN:VCALENDAR\n")
    assert not READER.identify(tmp_path / "a", b"see BEGIN:VCALENDAR\n")
    assert not READER.identify(tmp_path, b"")


def test_broken_events_cost_only_themselves(tmp_path: Path) -> None:
    content = (
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:open\nDTSTART:20240101T100000Z\n"
        "BEGIN:VEVENT\nUID:good\nDTSTART:20240101T100000Z\nEND:VEVENT\n"
        "BEGIN:VEVENT\nUID:undated\nSUMMARY:some day\nEND:VEVENT\n"
        "BEGIN:VEVENT\nUID:wrong\nDTSTART:20240231T100000Z\nEND:VEVENT\n"
        "BEGIN:VEVENT\nUID:cut\nDTSTART:2024"
    )
    items = read(tmp_path, content)
    assert [event.source_ref for event in events(items)] == ["good"]
    assert errors(items) == [("line 2", "broken_component"), ("line 17", "broken_component"), ("line 9", "undated"), ("line 13", "bad_date")]


def test_calendars_that_follow_one_another_keep_their_own_defaults(tmp_path: Path) -> None:
    event = "UID:{}\nDTSTART:20240115T100000"
    content = calendar(event.format("a"), head="X-WR-TIMEZONE:Asia/Tokyo\n") + "\n" + calendar(event.format("b"))
    items = read(tmp_path, content)
    assert starts(items) == ["2024-01-15T01:00Z", "2024-01-15T09:00Z"]
    assert [event.tz_source for event in events(items)] == ["explicit", "config"]


def test_text_is_unfolded_before_it_is_decoded_and_escapes_are_resolved(tmp_path: Path) -> None:
    body = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART:20240101T100000Z\r\nSUMMARY:caf" + b"\xc3\r\n \xa9\\, 9\r\n"
    items = read(tmp_path, body + b"DESCRIPTION:one\\ntwo \\; three\r\nLOCATION:Z\xfcrich\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")
    (event,) = events(items)
    assert (event.summary, event.description, event.location) == ("café, 9", "one\ntwo ; three", "Zürich")


def test_alarms_do_not_leak_into_events_and_other_components_are_counted(tmp_path: Path) -> None:
    alarm = "UID:a\nSUMMARY:Dentist\nDTSTART:20240101T100000Z\nBEGIN:VALARM\nDESCRIPTION:Reminder\nTRIGGER:-PT5M\nEND:VALARM"
    todo = "BEGIN:VTODO\nUID:t\nSUMMARY:buy\nEND:VTODO\nBEGIN:VJOURNAL\nUID:j\nEND:VJOURNAL\n"
    items = read(tmp_path, calendar(alarm, head=todo))
    assert [(event.summary, event.description) for event in events(items)] == [("Dentist", "")]
    assert [item.message for item in items if isinstance(item, ReadError) and item.warning] == [
        "2 to-dos, journals or free/busy entries were ignored"
    ]


def test_people_status_and_change_dates_are_read(tmp_path: Path) -> None:
    (event,) = events(
        read(
            tmp_path,
            calendar(
                "UID:a\nDTSTART:20240101T100000Z\nDURATION:PT90M\nSTATUS:TENTATIVE\nDTSTAMP:20231201T000000Z\nCREATED:20231202T000000Z\n"
                'ORGANIZER;CN="Lee, Ida":mailto:ida@x.example\nATTENDEE:MAILTO:jo@x.example\nATTENDEE;CN=Kai:mailto:kai@x.example\n'
                "DESCRIPTION:<p>Bring <b>keys</b></p>"
            ),
        )
    )
    assert (event.organizer, event.attendees, event.status, event.description) == ("Lee, Ida", ("jo@x.example", "Kai"), "tentative", "Bring keys")
    assert event.end_at - event.start_at == 90 * 60 * 1_000_000
    assert event.changed_at == to_micros(datetime(2023, 12, 2, tzinfo=UTC))


def test_of_two_versions_the_higher_sequence_then_the_later_stamp_wins(tmp_path: Path) -> None:
    version = "UID:a\nSUMMARY:{}\nDTSTART:20240101T100000Z\nSEQUENCE:{}\nDTSTAMP:2023120{}T000000Z"
    items = read(tmp_path, calendar(version.format("new", 2, 1), version.format("newest", 2, 2), version.format("old", 1, 3)))
    assert [event.summary for event in events(items)] == ["newest"]
    assert errors(items) == [("file", "superseded")]


# --- zones


@pytest.mark.parametrize(
    ("prop", "at", "tz_name"),
    [
        ("DTSTART;TZID=W. Europe Standard Time:20260917T130000", "2026-09-17T11:00Z", "Europe/Berlin"),
        ('DTSTART;TZID="(UTC-05:00) Eastern Time (US & Canada)":20260917T130000', "2026-09-17T17:00Z", "America/New_York"),
        ("DTSTART;TZID=(UTC-05:00) Eastern Time (US & Canada):20260917T130000", "2026-09-17T17:00Z", "America/New_York"),
        ("DTSTART;TZID=Pacific Time:20260917T130000", "2026-09-17T20:00Z", "America/Los_Angeles"),
        ("DTSTART;TZID=/vendor.example/2024/Asia/Tokyo:20260917T130000", "2026-09-17T04:00Z", "Asia/Tokyo"),
        ("DTSTART;TZID=GMT+0200:20260917T130000", "2026-09-17T11:00Z", ""),
        ("DTSTART;TZID=UTC:20260917T130000", "2026-09-17T13:00Z", "UTC"),
        ("DTSTART:20260917T130000Z", "2026-09-17T13:00Z", "UTC"),
    ],
)
def test_zone_names_of_the_wild_are_known(tmp_path: Path, prop: str, at: str, tz_name: str) -> None:
    items = read(tmp_path, calendar(f"UID:a\n{prop}"))
    assert starts(items) == [at]
    assert [(event.tz_name, event.tz_source) for event in events(items)] == [(tz_name, "explicit")]
    assert errors(items) == []


def test_an_unknown_zone_is_flagged_and_taken_as_the_configured_one(tmp_path: Path) -> None:
    items = read(tmp_path, calendar("UID:a\nDTSTART;TZID=Nowhere:20240115T100000", "UID:b\nDTSTART;TZID=Nowhere:20240115T110000"))
    assert starts(items) == ["2024-01-15T09:00Z", "2024-01-15T10:00Z"]
    assert {event.tz_source for event in events(items)} == {"floating"}
    assert errors(items) == [("line 3", "unknown_zone")]


def test_a_zone_the_file_defines_is_used_in_that_file_only(tmp_path: Path) -> None:
    standard = "BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0545\nTZOFFSETTO:+0545\nEND:STANDARD\n"
    zone = f"BEGIN:VTIMEZONE\nTZID:Our Office\n{standard}END:VTIMEZONE\n"
    event = "UID:a\nDTSTART;TZID=Our Office:20240115T100000"
    assert starts(read(tmp_path, calendar(event, head=zone))) == ["2024-01-15T04:15Z"]
    assert errors(read(tmp_path, calendar(event))) == [("line 3", "unknown_zone")]


def test_times_without_a_zone_are_said_to_be_assumed(tmp_path: Path) -> None:
    items = read(tmp_path, calendar("UID:a\nDTSTART:20240115T100000"), ReadOptions(zone=ZoneInfo("Asia/Tokyo")))
    assert starts(items) == ["2024-01-15T01:00Z"]
    assert [event.tz_source for event in events(items)] == ["floating"]
    assert errors(items) == [("file", "floating_times")]


# --- all-day events and ends


def test_all_day_events_keep_their_local_dates(tmp_path: Path) -> None:
    options = ReadOptions(zone=ZoneInfo("America/New_York"), zone_configured=True, expand_until=to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    items = read(tmp_path, calendar("UID:a\nDTSTART;VALUE=DATE:20240314\nRRULE:FREQ=YEARLY"), options)
    assert [(event.start_date, event.end_date, event.source_ref) for event in events(items)] == [
        ("2024-03-14", "2024-03-14", "a/20240314"),
        ("2025-03-14", "2025-03-14", "a/20250314"),
    ]
    assert starts(items) == ["2024-03-14T04:00Z", "2025-03-14T04:00Z"]
    assert all(event.all_day and event.rrule == "FREQ=YEARLY" for event in events(items))


@pytest.mark.parametrize(
    ("lines", "last", "hours"),
    [
        ("DTSTART;VALUE=DATE:20240105", "2024-01-05", 24),
        ("DTSTART;VALUE=DATE:20240105\nDTEND;VALUE=DATE:20240105", "2024-01-05", 24),
        ("DTSTART;VALUE=DATE:20240105\nDTEND;VALUE=DATE:20240108", "2024-01-07", 72),
        ("DTSTART;VALUE=DATE:20240105\nDURATION:P2D", "2024-01-06", 48),
        ("DTSTART:20240105T100000", "2024-01-05", 0),
        ("DTSTART:20240105T100000\nDTEND:20240106T000000", "2024-01-05", 14),
        ("DTSTART:20240105T100000\nDTEND:20240104T000000", "2024-01-05", 0),
        ("DTSTART:20240105T100000\nDTEND;TZID=Asia/Tokyo:20240105T200000", "2024-01-05", 2),
        ("DTSTART:20240105T100000\nDURATION:nonsense", "2024-01-05", 0),
    ],
)
def test_ends_are_found_whatever_is_missing(tmp_path: Path, lines: str, last: str, hours: int) -> None:
    (event,) = events(read(tmp_path, calendar(f"UID:a\n{lines}")))
    assert (event.start_date, event.end_date) == ("2024-01-05", last)
    assert event.end_at - event.start_at == hours * 3600 * 1_000_000


# --- recurrence


def test_until_as_a_date_counts_that_day_in_the_zone_of_the_event(tmp_path: Path) -> None:
    event = "UID:a\nDTSTART;TZID=Asia/Tokyo:20240610T103000\nRRULE:FREQ=WEEKLY;UNTIL={};BYDAY=MO"
    expected = ["2024-06-10T01:30Z", "2024-06-17T01:30Z", "2024-06-24T01:30Z", "2024-07-01T01:30Z"]
    for until in ("20240703", "20240701", "20240701T103000", "20240701T013000Z"):
        assert starts(read(tmp_path, calendar(event.format(until)))) == expected
    assert starts(read(tmp_path, calendar(event.format("20240701T012959Z")))) == expected[:3]


def test_an_excluded_date_in_utc_hits_its_occurrence_over_a_clock_change(tmp_path: Path) -> None:
    items = read(tmp_path, calendar("UID:a\nDTSTART;TZID=America/Chicago:20240306T190000\nRRULE:FREQ=WEEKLY;COUNT=3\nEXDATE:20240314T000000Z"))
    assert [event.source_ref for event in events(items)] == ["a/20240307T010000Z", "a/20240321T000000Z"]


@pytest.mark.parametrize("exdate", ["EXDATE;VALUE=DATE:20240108", "EXDATE:20240108T090000Z", "EXDATE;TZID=Asia/Tokyo:20240108T180000"])
def test_excluded_dates_of_any_form_are_understood(tmp_path: Path, exdate: str) -> None:
    items = read(tmp_path, calendar(f"UID:a\nDTSTART;TZID=Europe/Berlin:20240101T100000\nRRULE:FREQ=WEEKLY;COUNT=3\n{exdate}"))
    assert starts(items) == ["2024-01-01T09:00Z", "2024-01-15T09:00Z"]


def test_a_moved_occurrence_stands_only_at_its_new_time_and_a_cancelled_one_is_marked(tmp_path: Path) -> None:
    master = "UID:a\nSUMMARY:Choir\nDTSTART;TZID=Europe/Berlin:20240101T100000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=4"
    cancelled = "UID:a\nRECURRENCE-ID;TZID=Europe/Berlin:20240108T100000\nDTSTART;TZID=Europe/Berlin:20240108T100000\nSTATUS:CANCELLED"
    moved = "UID:a\nSUMMARY:Choir elsewhere\nRECURRENCE-ID:20240115T090000Z\nDTSTART;TZID=Europe/Berlin:20240116T180000"
    items = read(tmp_path, calendar(cancelled, master, moved))
    assert [(event.source_ref, event.start_date, event.status, event.rrule) for event in events(items)] == [
        ("a/20240101T090000Z", "2024-01-01", "confirmed", "FREQ=WEEKLY;COUNT=4"),
        ("a/20240122T090000Z", "2024-01-22", "confirmed", "FREQ=WEEKLY;COUNT=4"),
        ("a/20240108T090000Z", "2024-01-08", "cancelled", None),
        ("a/20240115T090000Z", "2024-01-16", "confirmed", None),
    ]
    assert {event.series for event in events(items)} == {"a"}


def test_an_override_without_its_master_is_kept(tmp_path: Path) -> None:
    (event,) = events(read(tmp_path, calendar("UID:a\nRECURRENCE-ID:20240115T090000Z\nDTSTART:20240116T180000Z")))
    assert (event.source_ref, event.series, event.rrule) == ("a/20240115T090000Z", "a", None)


def test_an_all_day_series_accepts_overrides_named_by_a_time(tmp_path: Path) -> None:
    master = "UID:a\nDTSTART;VALUE=DATE:20240314\nRRULE:FREQ=DAILY;COUNT=2"
    override = "UID:a\nRECURRENCE-ID:20240315T000000Z\nDTSTART;VALUE=DATE:20240320"
    assert [(event.source_ref, event.start_date) for event in events(read(tmp_path, calendar(master, override)))] == [
        ("a/20240314", "2024-03-14"),
        ("a/20240315", "2024-03-20"),
    ]


def test_this_and_future_moves_all_later_occurrences(tmp_path: Path) -> None:
    master = "UID:a\nSUMMARY:old\nDTSTART:20240101T100000Z\nRRULE:FREQ=WEEKLY;COUNT=4"
    change = "UID:a\nSUMMARY:new\nRECURRENCE-ID;RANGE=THISANDFUTURE:20240115T100000Z\nDTSTART:20240115T120000Z"
    assert [(event.source_ref, event.summary) for event in events(read(tmp_path, calendar(master, change)))] == [
        ("a/20240101T100000Z", "old"),
        ("a/20240108T100000Z", "old"),
        ("a/20240122T100000Z", "new"),
        ("a/20240115T100000Z", "new"),
    ]
    assert starts(read(tmp_path, calendar(master, change)))[2] == "2024-01-22T12:00Z"


def test_extra_dates_alone_make_a_series(tmp_path: Path) -> None:
    items = read(tmp_path, calendar("UID:a\nDTSTART:20240101T100000Z\nRDATE:20240105T100000Z,20240103T100000Z"))
    assert starts(items) == ["2024-01-01T10:00Z", "2024-01-03T10:00Z", "2024-01-05T10:00Z"]
    assert all(event.rrule for event in events(items))


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("FREQ=SECONDLY", "rule_too_fine"),
        ("FREQ=MINUTELY;INTERVAL=5", "rule_too_fine"),
        ("FREQ=DAILY;BYHOUR=0,1,2;BYMINUTE=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "rule_too_fine"),
        ("FREQ=DAILY;INTERVAL=0", "bad_rrule"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "bad_rrule"),
        ("FREQ=DAILY;BYMONTH=1;BYYEARDAY=200", "bad_rrule"),
        ("FREQ=DAILY;BYSETPOS=5", "bad_rrule"),
        ("FREQ=WEEKLY;UNTIL=soon", "bad_rrule"),
        ("often", "bad_rrule"),
    ],
)
def test_rules_that_cannot_be_followed_keep_the_first_occurrence(tmp_path: Path, rule: str, code: str) -> None:
    items = read(tmp_path, calendar(f"UID:a\nDTSTART:20240101T100000Z\nRRULE:{rule}"))
    assert starts(items) == ["2024-01-01T10:00Z"]
    assert [(item.code, item.warning) for item in items if isinstance(item, ReadError)] == [(code, True)]


def test_a_long_series_keeps_its_latest_thousand(tmp_path: Path) -> None:
    options = ReadOptions(expand_until=to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    items = read(tmp_path, calendar("UID:a\nDTSTART:20200101T100000Z\nRRULE:FREQ=DAILY"), options)
    assert len(events(items)) == 1_000
    assert starts(items)[-1] == "2025-12-31T10:00Z"
    assert errors(items) == [("line 3", "too_many_occurrences")]


@pytest.mark.timeout(30)
def test_rules_that_have_run_for_centuries_are_followed_from_their_end(tmp_path: Path) -> None:
    options = ReadOptions(expand_until=to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    items = read(tmp_path, calendar("UID:a\nDTSTART:02000101T103000Z\nRRULE:FREQ=HOURLY;INTERVAL=5"), options)
    hours = (datetime(2026, 1, 1, tzinfo=UTC) - datetime(200, 1, 1, 10, 30, tzinfo=UTC)) // timedelta(hours=5) * 5
    assert starts(items)[-1] == (datetime(200, 1, 1, 10, 30, tzinfo=UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%MZ")
    counted = read(tmp_path, calendar("UID:a\nDTSTART:02000101T103000Z\nRRULE:FREQ=HOURLY;COUNT=90000000"), options)
    assert (len(events(counted)), errors(counted)) == (1, [("line 3", "rule_too_long")])


def test_a_series_is_expanded_400_days_when_no_horizon_is_given(tmp_path: Path) -> None:
    items = read(tmp_path, calendar("UID:a\nDTSTART:20240101T100000Z\nRRULE:FREQ=DAILY"))
    assert (len(events(items)), starts(items)[-1]) == (401, "2025-02-04T10:00Z")


def test_a_series_that_begins_beyond_the_horizon_keeps_its_first_occurrence(tmp_path: Path) -> None:
    options = ReadOptions(expand_until=to_micros(datetime(2024, 1, 1, tzinfo=UTC)))
    assert starts(read(tmp_path, calendar("UID:a\nDTSTART:20250101T100000Z\nRRULE:FREQ=DAILY"), options)) == ["2025-01-01T10:00Z"]


RULES = st.builds(
    lambda freq, interval, end, by: f"FREQ={freq};INTERVAL={interval}{end}{by if freq not in ('YEARLY', 'HOURLY') else ''}",
    st.sampled_from(["HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"]),
    st.integers(1, 5),
    st.sampled_from(["", ";COUNT=1", ";COUNT=7", ";UNTIL=20240401T060000Z"]),
    st.sampled_from(["", ";BYDAY=MO,FR", ";BYMONTHDAY=1,15", ";BYMONTH=3,4", ";BYHOUR=6,18"]),
)


@settings(max_examples=60, deadline=None)
@given(RULES, st.integers(0, 90), st.sampled_from(["UTC", "America/Chicago", "Asia/Kolkata"]))
def test_occurrences_are_those_of_the_rule(tmp_path_factory: pytest.TempPathFactory, rule: str, day: int, zone: str) -> None:
    if "WEEKLY" in rule and "BYMONTHDAY" in rule:
        return
    wall = datetime(2024, 1, 1, 12) + timedelta(days=day)  # noqa: DTZ001 (wall clock)
    until = datetime(2024, 7, 1, tzinfo=UTC)
    content = calendar(f"UID:a\nDTSTART;TZID={zone}:{wall:%Y%m%dT%H%M%S}\nRRULE:{rule}")
    items = read(tmp_path_factory.mktemp("ics"), content, ReadOptions(expand_until=to_micros(until)))
    start = wall.replace(tzinfo=ZoneInfo(zone))
    expected = {start, *rrulestr(rule, dtstart=start).between(start, until.astimezone(ZoneInfo(zone)), inc=True)}
    wanted = sorted(to_micros(at) for at in expected)[-1_000:]
    assert sorted({event.start_at for event in events(items)}) == sorted(set(wanted))


SCRAPS = [
    "BEGIN:VEVENT", "END:VEVENT", "UID:a", "DTSTART:20240101", 'DTSTART;TZID="x:2024', "RRULE:FREQ=DAILY;COUNT=2", " fold", "X",
    "BEGIN:VALARM", "END:VALARM", "BEGIN:VTIMEZONE", "TZID:x", "END:VTIMEZONE", "END:VCALENDAR", "BEGIN:VCALENDAR", "RECURRENCE-ID:20240102",
    "RDATE:x",
]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(SCRAPS), max_size=25))
def test_no_order_of_lines_makes_the_reader_fail(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    for item in read(tmp_path_factory.mktemp("ics"), "BEGIN:VCALENDAR\n" + "\n".join(lines)):
        assert isinstance(item, EventRecord | ReadError)
