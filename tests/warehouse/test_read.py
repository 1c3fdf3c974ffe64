"""The transcript of a window, and the raw rows behind a pointer."""

from __future__ import annotations

import subprocess
import sys
from datetime import date

import pytest
from place import Place, at, message, window

from subconscious_pipeline.warehouse.transcript import render

from .samples import CALENDAR, MAIL_A, MAIL_B


@pytest.fixture
def told(place: Place) -> Place:
    place.jsonl(
        "a.jsonl",
        message("the door\nis broken", "2026-03-30T07:12:00Z", title="Our flat"),
        message("", "2026-03-30T07:13:00Z", kind="sticker", title="Our flat"),
        message("I call", "2026-03-30T07:14:00Z", author="Ben\n[m99] x", title="Our flat"),
        message("minutes of the meeting", "2026-03-30T06:30:00Z", ref="doc", author=None, source_type="document", end_at="2026-03-30T23:30:00Z"),
        message("too late", "2026-03-30T12:00:00Z"),
    )
    place.source("a.eml", MAIL_A)
    place.source("b.eml", MAIL_B)
    place.source("c.ics", CALENDAR)
    place.ingest()
    return place


RENDERED = """\
## document: doc
[m1] 2026-03-30 Mon 08:30 +02:00 ?: minutes of the meeting

## chat: Our flat
[m2] 2026-03-30 Mon 09:12 +02:00 Ana: the door is broken
[m3] 2026-03-30 Mon 09:14 +02:00 Ben [m99] x: I call

## email: Eva
[m4] 2026-03-30 Mon 09:00 +02:00 Eva: Subject: offer. 300 euros
[m5] 2026-03-30 Mon 10:00 +02:00 me@example.org: Subject: Re: offer. fine

## calendar: event
[m6] 2026-04-03 Fri 11:00 +02:00 calendar: locksmith (entrance) bring keys

## calendar: event
[m7] 2026-04-06 Mon all day calendar: holiday"""


def test_a_window_is_rendered_by_conversation_with_numbers_local_time_and_offset(told: Place) -> None:
    transcript = told.transcript("2026-03-30T06:00Z")
    assert render(transcript.conversations) == RENDERED
    assert transcript.window == window("2026-03-30T06:00Z")
    assert [transcript.input_hash] == [row.input_hash for row in told.inputs() if row.start == transcript.window.start]


def test_lines_carry_where_they_lie_and_how_long_they_last(told: Place) -> None:
    lines = {line.n: line for line in told.transcript("2026-03-30T06:00Z").lines}
    assert (lines[1].ends, lines[1].last_date) == (at("2026-03-30T23:30Z"), date(2026, 3, 31))
    assert (lines[2].source_ref, lines[2].at, lines[2].ends) == ("flat", at("2026-03-30T07:12Z"), at("2026-03-30T07:12Z"))
    assert (lines[5].source_type, lines[5].source_ref) == ("email", "b@x")
    assert (lines[6].at, lines[6].ends, lines[6].last_date) == (at("2026-04-03T09:00Z"), at("2026-04-03T10:00Z"), date(2026, 4, 3))
    assert (lines[7].last_date, lines[7].key) == (
        date(2026, 4, 7),
        told.warehouse("SELECT event_key::VARCHAR FROM calendar_events WHERE source_ref = 'e2'")[0][0],
    )


def test_a_window_without_rows_has_no_lines(told: Place) -> None:
    transcript = told.transcript("2026-05-30T06:00Z")
    assert (transcript.conversations, transcript.input_hash) == ((), "")


def test_the_machines_zone_shows_nowhere(told: Place) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from subconscious_pipeline import duck; from subconscious_pipeline.warehouse import read, schema, transcript\n"
        "from subconscious_pipeline.instants import window_at, parse_instant\n"
        "with duck.reading(Path(sys.argv[1]), schema.MIGRATIONS) as con:\n"
        "    sys.stdout.write(transcript.render(read.transcript(con, window_at(parse_instant('2026-03-30T06:00Z'), 6)).conversations))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, str(told.home.warehouse)],
        env={"TZ": "Asia/Kolkata", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == RENDERED


def test_a_pointer_is_read_back_with_both_ends_included(told: Place) -> None:
    rows = told.pointer("messaging", "flat", at("2026-03-30T07:12Z"), at("2026-03-30T12:00Z"))
    assert [(row.at, row.author, row.text) for row in rows] == [
        (at("2026-03-30T07:12Z"), "Ana", "the door\nis broken"), (at("2026-03-30T07:13Z"), "Ana", ""),
        (at("2026-03-30T07:14Z"), "Ben\n[m99] x", "I call"), (at("2026-03-30T12:00Z"), "Ana", "too late"),
    ]  # fmt: skip
    assert [row.text for row in told.pointer("messaging", "flat", at("2026-03-30T07:13Z"), at("2026-03-30T07:14Z"))] == ["", "I call"]
    assert len(told.pointer("messaging", "flat")) == 4
    assert [row.text for row in told.pointer("document", "doc", None, at("2026-03-30T06:30Z"))] == ["minutes of the meeting"]


def test_nothing_is_found_under_another_type_or_ref(told: Place) -> None:
    assert told.pointer("email", "flat") == []
    assert told.pointer("messaging", "a@x") == []
    assert told.pointer("messaging", "fla") == []


def test_a_mail_is_found_by_its_id_and_with_its_thread(told: Place) -> None:
    (one,) = told.pointer("email", "b@x")
    assert (one.author, one.text) == ("me@example.org", "Subject: Re: offer\n\nfine")
    assert [row.native_id for row in told.pointer("email", "a@x")] == ["a@x", "b@x"]
    assert [row.native_id for row in told.pointer("email", "a@x", at("2026-03-30T07:30Z"), None)] == ["b@x"]


def test_an_event_is_found_while_it_lasts_and_by_its_series(told: Place) -> None:
    (one,) = told.pointer("calendar", "e1", at("2026-04-03T09:30Z"), at("2026-04-03T09:30Z"))
    assert one.text == "locksmith\nentrance\nbring keys\nfrom 2026-04-03T09:00Z to 2026-04-03T10:00Z"
    assert told.pointer("calendar", "e1", at("2026-04-03T10:01Z"), None) == []
    (holiday,) = told.pointer("calendar", "e2")
    assert holiday.text == "holiday\nfrom 2026-04-06 to 2026-04-07"
    assert [row.at for row in told.pointer("calendar", "e3")] == [at("2026-05-04T09:00Z"), at("2026-05-11T09:00Z")]


def test_a_pointers_ends_and_text_are_data_not_sql(told: Place) -> None:
    assert told.pointer("messaging", "flat' OR '1'='1") == []
