"""Which conversation speaks in which window, and the hash that tells a changed window."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from place import AS_OF, Place, at, message

from subconscious_pipeline.instants import iso_z


def hashes(place: Place) -> dict[str, str]:
    return {iso_z(row.start)[:16]: row.input_hash for row in place.inputs()}


def starts(place: Place) -> list[str]:
    return [iso_z(row.start)[:16] for row in place.inputs() if row.rows]


def event(uid: str, start: str, more: str = "", summary: str = "dentist") -> str:
    end = (datetime.strptime(start, "%Y%m%dT%H%M%SZ") + timedelta(hours=1)).strftime("%Y%m%dT%H%M%SZ")  # noqa: DTZ007
    return f"BEGIN:VEVENT\r\nUID:{uid}\r\nDTSTART:{start}\r\nDTEND:{end}\r\nSUMMARY:{summary}\r\n{more}END:VEVENT\r\n"


def calendar(*events: str) -> str:
    return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//\r\n" + "".join(events) + "END:VCALENDAR\r\n"


STAMP = "DTSTAMP:20260330T080000Z\r\n"


def test_conversations_count_rows_and_noise_per_window(place: Place) -> None:
    place.jsonl(
        "a.jsonl",
        message("door", "2026-03-30T05:59:59.999999Z", title="Our flat"),
        message("lock", "2026-03-30T06:00:00Z", title="Our flat"),
        message("", "2026-03-30T07:00:00Z", kind="sticker", title="Our flat"),
        message("key", "2026-03-30T08:00:00Z", ref="work"),
        message("joined", "2026-03-30T09:00:00Z", ref="noisy", kind="system"),
    )
    place.ingest()
    assert place.warehouse('SELECT strftime(window_start, \'%H\'), source_type, source_ref, title, "rows", noise, first_at, last_at FROM conversations ORDER BY 1, 3') == [
        ("00", "messaging", "flat", "Our flat", 1, 0, at("2026-03-30T05:59:59.999999Z"), at("2026-03-30T05:59:59.999999Z")),
        ("06", "messaging", "flat", "Our flat", 2, 1, at("2026-03-30T06:00Z"), at("2026-03-30T07:00Z")),
        ("06", "messaging", "noisy", "noisy", 1, 1, at("2026-03-30T09:00Z"), at("2026-03-30T09:00Z")),
        ("06", "messaging", "work", "work", 1, 0, at("2026-03-30T08:00Z"), at("2026-03-30T08:00Z")),
    ]  # fmt: skip
    assert [(row.rows, row.noise, row.conversations) for row in place.inputs()] == [(1, 0, 1), (2, 2, 2)]


def test_windows_before_1970_are_half_open_too(place: Place) -> None:
    place.jsonl("a.jsonl", message("x", "1969-12-31T23:59:59Z"), message("y", "1970-01-01T00:00:00Z"))
    place.ingest()
    assert starts(place) == ["1969-12-31T18:00", "1970-01-01T00:00"]


BASE = [message("door", "2026-03-30T07:00:00Z", native_id="1"), message("lock", "2026-03-30T08:00:00Z", native_id="2")]
OTHER = message("elsewhere", "2026-03-30T13:00:00Z", native_id="9")


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([*BASE, message("key", "2026-03-30T09:00:00Z", native_id="3")], True),
        ([BASE[0], {**BASE[1], "text": "locks"}], True),
        ([BASE[0], {**BASE[1], "at": "2026-03-30T08:00:01Z"}], True),
        ([BASE[0], {**BASE[1], "at": "2026-03-30T14:00:00Z"}], True),
        ([BASE[0], {**BASE[1], "kind": "system"}], True),
        ([BASE[0], {**BASE[1], "author": "Ben"}], True),
        ([*BASE, message("", "2026-03-30T09:00:00Z", native_id="3", kind="sticker")], False),
        ([*reversed(BASE)], False),
        ([*BASE, message("late", "2026-03-30T15:00:00Z", native_id="3")], False),
        ([{**row, "title": "New name"} for row in BASE], False),
    ],
)
def test_the_hash_changes_when_and_only_when_a_row_that_speaks_does(place: Place, rows: list[dict[str, str]], changes: bool) -> None:
    place.jsonl("a.jsonl", *BASE, OTHER)
    place.ingest()
    before = hashes(place)["2026-03-30T06:00"]
    place.jsonl("a.jsonl", *rows, OTHER, "")
    place.ingest()
    assert (hashes(place)["2026-03-30T06:00"] != before) == changes


def test_a_late_message_changes_the_hash_of_its_window_alone(place: Place) -> None:
    place.jsonl("a.jsonl", *BASE, OTHER)
    place.ingest()
    before = hashes(place)
    place.jsonl("b.jsonl", message("late", "2026-03-30T07:30:00Z", native_id="4"))
    assert place.ingest().windows == 1
    assert {key for key, value in hashes(place).items() if before[key] != value} == {"2026-03-30T06:00"}


def test_equal_content_in_two_homes_has_equal_hashes(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Place(tmp_path_factory.mktemp("other"), place.settings)
    place.jsonl("a.jsonl", *BASE, OTHER)
    other.jsonl("x.jsonl", OTHER)
    other.ingest()
    other.jsonl("y.jsonl", *reversed(BASE))
    place.ingest()
    other.ingest()
    assert hashes(place) == hashes(other)


def test_an_event_speaks_where_it_was_made_and_where_it_starts(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", STAMP)))
    place.ingest()
    assert starts(place) == ["2026-03-30T06:00", "2026-04-03T06:00"]
    for key in starts(place):
        (line,) = place.transcript(key + "Z").lines
        assert (line.source_type, line.source_ref, line.at, line.text) == ("calendar", "e1", at("2026-04-03T09:00Z"), "dentist")


def test_an_event_that_starts_in_the_window_it_was_made_in_counts_once(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260330T090000Z", STAMP)))
    place.ingest()
    assert [(iso_z(row.start)[:16], row.rows) for row in place.inputs()] == [("2026-03-30T06:00", 1)]


def test_an_event_without_a_stamp_of_its_own_speaks_when_it_was_first_seen(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260410T090000Z")))
    place.ingest(at("2026-04-01T14:00Z"))
    assert starts(place) == ["2026-04-01T12:00", "2026-04-10T06:00"]


def test_a_new_stamp_alone_is_no_change(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", STAMP + "SEQUENCE:1\r\n")))
    place.ingest()
    before = hashes(place)
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", "DTSTAMP:20260401T080000Z\r\nSEQUENCE:2\r\n")))
    report = place.ingest()
    assert (report.new, report.updated, report.windows) == (0, 0, 0)
    assert hashes(place) == before
    assert place.warehouse("SELECT count(*) FROM calendar_changes") == [(1,)]


def test_a_moved_event_leaves_its_old_window_and_speaks_where_it_was_moved(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", STAMP)))
    place.ingest()
    place.source("c.ics", calendar(event("e1", "20260407T150000Z", "DTSTAMP:20260401T080000Z\r\n")))
    assert place.ingest().updated == 1
    assert starts(place) == ["2026-03-30T06:00", "2026-04-01T06:00", "2026-04-07T12:00"]
    assert place.warehouse("SELECT changed_at FROM calendar_changes ORDER BY 1") == [(at("2026-03-30T08:00Z"),), (at("2026-04-01T08:00Z"),)]


def test_a_cancelled_event_no_longer_speaks(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", STAMP)))
    place.ingest()
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", STAMP + "STATUS:CANCELLED\r\n")))
    place.ingest()
    assert starts(place) == []
    assert [row.noise for row in place.inputs()] == [1, 1, 1]


WEEKLY = STAMP + "RRULE:FREQ=WEEKLY;COUNT=5\r\n"


def test_an_unchanged_recurring_event_speaks_once_and_not_every_week(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", WEEKLY)))
    place.ingest()
    assert place.warehouse("SELECT count(*) FROM calendar_events") == [(5,)]
    assert starts(place) == ["2026-03-30T06:00", "2026-04-03T06:00"]
    (line,) = place.transcript("2026-04-03T06:00Z").lines
    assert line.text == "dentist (repeats)"


def test_one_occurrence_that_is_moved_speaks_for_itself(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", WEEKLY)))
    place.ingest()
    moved = event("e1", "20260411T150000Z", "DTSTAMP:20260401T080000Z\r\nRECURRENCE-ID:20260410T090000Z\r\n")
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", WEEKLY), moved))
    place.ingest()
    assert starts(place) == ["2026-03-30T06:00", "2026-04-01T06:00", "2026-04-03T06:00", "2026-04-11T12:00"]


def test_a_series_that_moves_leaves_no_ghosts(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", WEEKLY)))
    place.ingest()
    place.source("c.ics", calendar(event("e1", "20260404T150000Z", "DTSTAMP:20260401T080000Z\r\nRRULE:FREQ=WEEKLY;COUNT=5\r\n")))
    place.ingest()
    assert place.warehouse("SELECT count(*), min(start_at) FROM calendar_events") == [(5, at("2026-04-04T15:00Z"))]
    assert starts(place) == ["2026-04-01T06:00", "2026-04-04T12:00"]


def test_a_change_is_never_dated_after_the_run(place: Place) -> None:
    place.source("c.ics", calendar(event("e1", "20260403T090000Z", "DTSTAMP:20270101T000000Z\r\n")))
    place.ingest()
    assert place.warehouse("SELECT changed_at FROM calendar_changes") == [(AS_OF,)]
