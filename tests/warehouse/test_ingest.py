"""Files into the warehouse: nothing twice, nothing lost, and every file that is wrong gets a line of its own."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from place import AS_OF, Place, at, message

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.instants import iso_z
from subconscious_pipeline.readers import jsonl
from subconscious_pipeline.readers.sources import source_files
from subconscious_pipeline.settings import load_settings
from subconscious_pipeline.warehouse.ingest import fingerprint


def texts(place: Place) -> list[str]:
    return [row[0] for row in place.warehouse("SELECT text FROM messages ORDER BY sent_at, author, ordinal, text")]


def errors(place: Place) -> list[tuple[str, str, str]]:
    return place.warehouse("SELECT f.path, e.locator, e.code FROM ingest_errors e JOIN ingested_files f USING (file_id) ORDER BY ALL")


CHAT = """\
30/03/2026, 21:12 - Ana: the entrance door is broken
30/03/2026, 21:12 - Ana: again
30/03/2026, 21:12 - Ben: I call the locksmith
30/03/2026, 21:15 - Ana: thanks
"""


def test_an_unchanged_file_is_not_read_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.jsonl("a.jsonl", message("door", "2026-03-30T10:00:00Z"))
    first = place.ingest()
    assert (first.new, first.updated, first.windows, [file.skipped for file in first.files]) == (1, 0, 1, [False])

    def refuse(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(jsonl.JsonlReader, "read", refuse)
    second = place.ingest()
    assert (second.new, second.updated, second.windows, [file.skipped for file in second.files]) == (0, 0, 0, [True])


def test_the_same_content_read_again_adds_and_touches_nothing(place: Place) -> None:
    place.source("chat.txt", CHAT)
    place.jsonl("a.jsonl", message("door", "2026-03-30T10:00:00Z", native_id="1"), message("lock", "2026-03-30T10:00:00Z"))
    assert place.ingest().new == 6
    before = place.warehouse("FROM messages ORDER BY message_key"), place.inputs()
    for name in ("chat.txt", "a.jsonl"):
        path = place.home.sources / name
        path.write_bytes(path.read_bytes() + b"\n")
    again = place.ingest()
    assert (again.new, again.updated, again.windows) == (0, 0, 0)
    assert not any(file.skipped for file in again.files)
    assert (place.warehouse("FROM messages ORDER BY message_key"), place.inputs()) == before


def test_a_longer_re_export_of_a_chat_without_ids_adds_only_what_is_new(place: Place) -> None:
    place.source("chat.txt", CHAT)
    place.ingest()
    place.source("chat.txt", CHAT + "30/03/2026, 21:15 - Ana: one more\n31/03/2026, 08:00 - Ben: done\n")
    report = place.ingest()
    assert (report.new, report.updated, report.windows) == (2, 0, 2)
    assert texts(place) == ["the entrance door is broken", "again", "I call the locksmith", "thanks", "one more", "done"]


def test_equal_messages_of_one_author_in_one_minute_are_all_kept(place: Place) -> None:
    place.source("chat.txt", "30/03/2026, 21:12 - Ana: ok\n30/03/2026, 21:12 - Ana: ok\n31/03/2026, 21:12 - Ana: ok\n")
    assert place.ingest().new == 3
    assert texts(place) == ["ok", "ok", "ok"]


@pytest.mark.parametrize("together", [True, False])
def test_an_export_that_begins_in_mid_minute_overwrites_and_doubles_nothing(place: Place, together: bool) -> None:
    later = "".join(CHAT.splitlines(keepends=True)[1:]) + "31/03/2026, 08:00 - Ben: done\n"
    place.source("1/flat.txt", CHAT)
    if not together:
        place.ingest()
    place.source("2/flat.txt", later)
    place.ingest()
    assert texts(place) == ["the entrance door is broken", "again", "I call the locksmith", "thanks", "done"]


def test_an_export_that_begins_in_the_minute_in_which_the_last_one_ended_loses_nothing(place: Place) -> None:
    place.source("1/flat.txt", "30/03/2026, 21:12 - Ana: one\n30/03/2026, 21:12 - Ana: two\n")
    place.ingest()
    place.source("2/flat.txt", "30/03/2026, 21:12 - Ana: three\n30/03/2026, 21:12 - Ana: four\n30/03/2026, 21:13 - Ana: five\n")
    place.ingest()
    assert sorted(texts(place)) == ["five", "four", "one", "three", "two"]
    (place.home.sources / "2/flat.txt").write_bytes((place.home.sources / "2/flat.txt").read_bytes() + b"\n")
    assert place.ingest().new == 0


def test_a_message_missing_from_a_later_export_stays_and_its_neighbours_are_not_shifted(place: Place) -> None:
    place.source("chat.txt", "29/03/2026, 10:00 - Ben: hello\n" + CHAT)
    place.ingest()
    place.source("chat.txt", "29/03/2026, 10:00 - Ben: hello\n" + CHAT.replace("30/03/2026, 21:12 - Ana: again\n", ""))
    report = place.ingest()
    assert (report.new, report.updated) == (0, 0)
    assert texts(place) == ["hello", "the entrance door is broken", "again", "I call the locksmith", "thanks"]


def test_an_edit_changes_the_row_it_edits_where_no_id_says_so(place: Place) -> None:
    place.source("chat.txt", "29/03/2026, 10:00 - Ben: hello\n" + CHAT)
    place.ingest()
    place.source("chat.txt", "29/03/2026, 10:00 - Ben: hello\n" + CHAT.replace("Ana: again", "Ana: This message was deleted"))
    report = place.ingest()
    assert (report.new, report.updated, report.windows) == (0, 1, 1)
    assert place.warehouse("SELECT count(*), count(*) FILTER (kind = 'deleted') FROM messages") == [(5, 1)]


def test_edits_update_in_place_by_native_id_and_move_the_row_to_its_new_window(place: Place) -> None:
    place.jsonl("a.jsonl", message("door", "2026-03-30T10:00:00Z", native_id="7"), message("key", "2026-03-30T11:00:00Z", native_id="8"))
    place.ingest()
    place.jsonl("a.jsonl", message("the door", "2026-03-30T14:00:00Z", native_id="7"), message("key", "2026-03-30T11:00:00Z", native_id="8"))
    report = place.ingest()
    assert (report.new, report.updated, report.windows) == (0, 1, 2)
    assert texts(place) == ["key", "the door"]
    assert [(iso_z(row.start), row.rows) for row in place.inputs()] == [("2026-03-30T06:00:00Z", 1), ("2026-03-30T12:00:00Z", 1)]


@pytest.mark.parametrize("together", [True, False])
def test_the_same_messages_through_two_files_are_there_once(place: Place, together: bool) -> None:
    rows = [message("door", "2026-03-30T10:00:00Z", native_id="7"), message("lock", "2026-03-30T10:00:00Z"), message("lock", "2026-03-30T10:00:00Z")]
    place.jsonl("a.jsonl", *rows)
    place.source("1/flat.txt", CHAT)
    if not together:
        place.ingest()
    place.jsonl("b.jsonl", *rows, message("key", "2026-03-30T10:05:00Z"))
    place.source("2/flat.txt", CHAT + "31/03/2026, 08:00 - Ben: done\n")
    place.ingest()
    assert texts(place) == ["door", "lock", "lock", "key", "the entrance door is broken", "again", "I call the locksmith", "thanks", "done"]


def test_one_file_may_repeat_an_id_the_last_one_stands(place: Place) -> None:
    place.jsonl("a.jsonl", message("dor", "2026-03-30T10:00:00Z", native_id="7"), message("door", "2026-03-30T10:00:00Z", native_id="7"))
    assert place.ingest().new == 1
    assert texts(place) == ["door"]


def test_a_corrected_zone_dates_rows_anew_instead_of_doubling_them(place: Place) -> None:
    place.source("chat.txt", CHAT)
    place.jsonl(
        "a.jsonl",
        message("door", "2026-03-30T10:00:00"),
        message("key", "2026-03-30T10:00:00", native_id="7"),
        message("lock", "2026-03-30T10:00:00Z"),
    )
    place.ingest()
    place.settings = load_settings(timezone="America/New_York", lock_seconds=20.0)
    place.ingest()
    assert [(iso_z(when), text) for when, text in place.warehouse("SELECT sent_at, text FROM messages WHERE source_ref = 'flat' ORDER BY 1, 2")] == [
        ("2026-03-30T10:00:00Z", "lock"), ("2026-03-30T14:00:00Z", "door"), ("2026-03-30T14:00:00Z", "key"),
    ]  # fmt: skip
    assert place.warehouse("SELECT count(*), min(sent_at) FROM messages WHERE source_ref <> 'flat'") == [(4, at("2026-03-31T01:12Z"))]
    assert [iso_z(row.start) for row in place.inputs()] == ["2026-03-30T06:00:00Z", "2026-03-30T12:00:00Z", "2026-03-31T00:00:00Z"]


def test_parsed_and_quarantined_together_are_the_input(place: Place) -> None:
    lines = [message(f"line {n}", f"2026-03-30T10:{n:02}:00Z") if n % 10 else f"garbage {n}" for n in range(60)]
    place.jsonl("a.jsonl", *lines)
    (report,) = place.ingest().files
    assert (report.records, report.lost, report.records + report.lost) == (54, 6, 60)
    assert place.warehouse('SELECT "rows", errors, reader FROM ingested_files') == [(54, 6, "jsonl")]
    assert errors(place) == sorted(("a.jsonl", f"line {n}", "bad_json") for n in (1, 11, 21, 31, 41, 51))


def test_files_that_fail_each_get_a_line_and_cost_nothing_else(place: Place) -> None:
    place.jsonl("good.jsonl", message("door", "2026-03-30T10:00:00Z"))
    place.source("empty.txt", b"")
    place.source("binary.bin", bytes(range(256)) * 20)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("WhatsApp Chat with Ana.txt", CHAT * 50)
    place.source("cut.zip", whole.getvalue()[:-40])
    place.source("notes.txt", "just some notes\nof no format\n")
    place.source("web.ics", "<html><body>Not found</body></html>")
    report = place.ingest()
    assert report.new == 1
    assert {file.path: [error.code for error in file.errors] for file in report.files} == {
        "good.jsonl": [], "empty.txt": ["empty_file"], "binary.bin": ["binary"], "cut.zip": ["truncated_archive"],
        "notes.txt": ["unknown_format"], "web.ics": ["not_a_calendar"],
    }  # fmt: skip
    assert place.warehouse('SELECT path, "rows", errors FROM ingested_files ORDER BY path') == [
        ("binary.bin", 0, 1), ("cut.zip", 0, 1), ("empty.txt", 0, 1), ("good.jsonl", 1, 0), ("notes.txt", 0, 1), ("web.ics", 0, 1),
    ]  # fmt: skip
    assert all(file.skipped for file in place.ingest().files)


def test_a_defect_in_a_reader_costs_the_file_not_the_run(place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    place.jsonl("a.jsonl", message("secret plan", "2026-03-30T10:00:00Z"))
    place.source("chat.txt", CHAT)

    def explode(*_: object) -> None:
        raise IndexError("secret plan")

    monkeypatch.setattr(jsonl.JsonlReader, "read", explode)
    assert place.ingest().new == 4
    assert errors(place) == [("a.jsonl", "file", "internal")]
    assert "secret" not in caplog.text
    assert "secret" not in str(place.warehouse("FROM ingest_errors"))


def test_a_missing_source_is_down_until_it_is_back_or_no_longer_asked_for(place: Place) -> None:
    place.jsonl("here.jsonl", message("door", "2026-03-30T10:00:00Z"))
    place.home.sources_yaml.write_text("sources:\n- {id: here, path: here.jsonl}\n- {id: gone, path: gone.jsonl}\n- {id: none, path: 'x/*.jsonl'}\n")
    report = place.ingest()
    assert report.new == 1
    assert errors(place) == [("gone.jsonl", "file", "missing"), ("x/*.jsonl", "file", "missing")]
    assert place.overview().sources_down == ("gone", "none")
    place.jsonl("gone.jsonl", message("key", "2026-03-30T11:00:00Z"))
    assert place.ingest().new == 1
    assert place.overview().sources_down == ("none",)
    place.jsonl("x/a.jsonl", message("lock", "2026-03-30T12:00:00Z"))
    assert place.ingest().new == 1
    assert place.overview().sources_down == ()


def test_what_a_source_gave_stands_while_it_is_down(place: Place) -> None:
    path = place.jsonl("a.jsonl", message("door", "2026-03-30T10:00:00Z"))
    place.home.sources_yaml.write_text("sources:\n- {id: a, path: a.jsonl}\n")
    place.ingest()
    content = path.read_bytes()
    path.unlink()
    place.ingest()
    assert place.overview().sources_down == ("a",)
    assert texts(place) == ["door"]
    assert place.warehouse('SELECT reader, "rows", errors FROM ingested_files') == [("jsonl", 1, 1)]
    path.write_bytes(content)
    report = place.ingest()
    assert (report.new, place.overview().sources_down) == (0, ())


def test_a_source_may_have_its_own_zone_authors_and_reader(place: Place) -> None:
    place.source("odd.dat", CHAT)
    place.home.sources_yaml.write_text(
        "sources:\n- {id: tokyo, path: odd.dat, reader: whatsapp, timezone: Asia/Tokyo, date_order: dmy, ignored_authors: [BEN]}\n"
    )
    place.ingest()
    assert place.warehouse("SELECT DISTINCT source_id, tz_source FROM messages") == [("tokyo", "config")]
    assert place.warehouse("SELECT author, min(sent_at), min(noise) FROM messages GROUP BY author ORDER BY author") == [
        ("Ana", at("2026-03-30T12:12Z"), []), ("Ben", at("2026-03-30T12:12Z"), ["ignored_author"]),
    ]  # fmt: skip


def test_the_fingerprint_follows_content_and_reading_but_not_noise_settings(place: Place) -> None:
    path = place.source("chat.txt", CHAT)
    (file,) = source_files(place.home, place.settings)
    first = fingerprint(file, place.settings)
    assert fingerprint(file, load_settings(timezone="Europe/Madrid", ignored_authors="Ben")) == first
    other_zone = fingerprint(file, load_settings(timezone="Asia/Tokyo"))
    path.write_bytes(CHAT.encode() + b"\n")
    longer = fingerprint(file, place.settings)
    assert len({first, other_zone, longer}) == 3


def test_another_window_size_is_refused_before_anything_is_read(place: Place) -> None:
    place.jsonl("a.jsonl", message("door", "2026-03-30T10:00:00Z"))
    place.ingest()
    before = place.inputs()
    place.settings = load_settings(timezone="Europe/Madrid", window_hours=24)
    place.jsonl("b.jsonl", message("key", "2026-03-30T11:00:00Z"))
    with pytest.raises(ConfigError, match="SUBCONSCIOUS_WINDOW_HOURS=6"):
        place.ingest()
    assert place.inputs() == before


def test_a_thousand_year_old_or_future_row_does_not_stop_the_rest(place: Place) -> None:
    place.jsonl(
        "a.jsonl",
        message("old", "0001-01-01T00:00:00Z"),
        message("far", "9999-12-31T23:59:59Z"),
        message("stay until doomsday", "2026-03-30T10:00:00Z", end_at="9999-12-31T23:59:59Z"),
    )
    assert place.ingest().new == 3
    assert [item.window.key for item in place.overview().due] == ["2026-03-30T06:00Z"]
    (line,) = place.transcript("2026-03-30T06:00Z").lines
    assert line.last_date.year == 9999


def test_progress_tells_path_and_records(place: Place) -> None:
    from subconscious_pipeline.warehouse.ingest import ingest

    place.jsonl("a.jsonl", message("door", "2026-03-30T10:00:00Z"))
    told: list[tuple[str, int]] = []
    ingest(place.home, place.settings, AS_OF, lambda path, records: told.append((path, records)))
    assert told == [("a.jsonl", 0), ("a.jsonl", 1)]


def test_every_instant_column_keeps_its_zone(place: Place) -> None:
    place.jsonl("a.jsonl", message("door", "2026-03-30T23:30:00-10:00"))
    place.ingest()
    columns = place.warehouse(
        "SELECT DISTINCT data_type FROM duckdb_columns() WHERE column_name LIKE '%\\_at' ESCAPE '\\' OR column_name = 'window_start'"
    )
    assert columns == [("TIMESTAMP WITH TIME ZONE",)]
    assert place.warehouse("SELECT current_setting('TimeZone'), sent_at::VARCHAR FROM messages") == [("UTC", "2026-03-31 09:30:00+00")]
    assert place.warehouse("SELECT sent_at FROM messages") == [(datetime(2026, 3, 31, 9, 30, tzinfo=UTC),)]


def test_a_slack_export_is_one_source_wherever_its_messages_lie(place: Place) -> None:
    place.source("team/users.json", json.dumps([{"id": "U1", "name": "ana"}]))
    place.source("team/general/2026-03-30.json", json.dumps([{"type": "message", "user": "U1", "text": "door", "ts": "1774864800.000100"}]))
    report = place.ingest()
    assert [(file.path, file.reader, file.records) for file in report.files] == [("team", "slack", 1)]
    place.source("team/general/2026-03-31.json", json.dumps([{"type": "message", "user": "U1", "text": "lock", "ts": "1774951200.000100"}]))
    assert place.ingest().new == 1


def test_unreadable_things_inside_a_folder_do_not_stop_the_run(place: Place) -> None:
    place.source("team/users.json", "[]")
    Path(place.home.sources / "team" / "dangling").symlink_to("nowhere")
    Path(place.home.sources / "loop").symlink_to(".")
    place.jsonl("a.jsonl", message("door", "2026-03-30T10:00:00Z"))
    report = place.ingest()
    assert report.new == 1
    assert [file.path for file in report.files] == ["a.jsonl", "team"]


def test_every_row_is_there_once_whatever_is_read_again(place: Place) -> None:
    rows = [{"source_type": "messaging", "source_ref": "flat", "at": f"2026-03-30T07:{m:02}:00Z", "text": "x", "native_id": str(m)} for m in range(9)]
    (place.home.sources / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place.home.sources / "two.jsonl").write_text("".join(json.dumps({**row, "text": "edited"}) + "\n" for row in rows * 2))
    place.ingest()
    (place.home.sources / "one.jsonl").write_text("".join(json.dumps({**row, "text": "again"}) + "\n" for row in rows))
    place.ingest()
    assert place.warehouse("SELECT count(*), count(DISTINCT message_key), any_value(text) FROM messages") == [(9, 9, "again")]
