from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from typer.testing import CliRunner, Result

from subconscious_pipeline.agent import cli
from subconscious_pipeline.agent.app import app
from subconscious_pipeline.errors import ExtractionError
from subconscious_pipeline.home import Home
from tests.agent import homes
from tests.extraction.fake_server import FakeServer, good

AS_OF = "2026-04-01T12:30Z"


@pytest.fixture(autouse=True)
def _a_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "FORCE_COLOR", "PY_COLORS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def typed(*arguments: str) -> Result:
    """Run the Typer application, as for a command that Typer parses."""
    return CliRunner().invoke(app, list(arguments))


def entered(home: Home | Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the real command in a process of its own."""
    code = "from subconscious_pipeline.agent.cli import main; main()"
    root = home.root if isinstance(home, Home) else home
    given = {**os.environ, "SUBCONSCIOUS_HOME": str(root), **environment}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, encoding="utf-8", env=given)


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


# --- keywords, lookup, read


def test_both_ways_to_keywords_print_the_snapshot(published: Home) -> None:
    snapshot = json.loads((published.published / "snapshot.json").read_text(encoding="utf-8"))
    direct = entered(published, "keywords", "--json", "--as-of", AS_OF)
    assert (direct.returncode, json.loads(direct.stdout), direct.stderr) == (0, snapshot, "")
    assert as_json(typed("keywords", "--json", "--as-of", AS_OF, "--home", str(published.root))) == snapshot


def test_keywords_for_people_name_words_cost_and_reach(published: Home) -> None:
    shown = typed("keywords", "--as-of", AS_OF, "--home", str(published.root))
    assert shown.exit_code == 0
    first, _, *words = shown.stdout.splitlines()
    assert first == "12 keywords · 25 tokens · read up to 2026-04-01 12:00 UTC, 30 min ago"
    assert " ".join(words) == "checkup, contract, delivery, dentist, deposit, door, entrance, friday, invoice, landlord, repair, washing-machine"


def test_a_lookup_for_people_gives_commands_that_can_be_typed(published: Home) -> None:
    shown = entered(published, "lookup", "doors", "--as-of", AS_OF)
    read = "      subconscious read messaging house --from 2026-03-30T08:10:00Z --to 2026-03-30T08:10:00Z"
    assert shown.stdout.splitlines()[:6] == [
        "1 concept · matched door",
        "",
        "#1  door, entrance, landlord, repair",
        "    active context, expires 2026-04-05",
        "    messaging house  2026-03-30 08:10 to 2026-03-31 09:00 UTC",
        read,
    ]
    followed = entered(published, *read.split()[1:])
    assert followed.stdout.splitlines() == ["2026-03-30 Mon (UTC)", "  08:10  Nora  the entrance door is broken"]


def test_a_degraded_lookup_says_so_beside_its_json(published: Home) -> None:
    late = entered(published, "lookup", "contract", "--json", "--as-of", "2026-05-01")
    assert [concept["id"] for concept in json.loads(late.stdout)["concepts"]] == [4]
    assert late.stderr.startswith("degraded: stale: nothing after 2026-04-01T12:00:00Z has been read")


def test_a_lookup_without_a_hit_points_to_the_words(published: Home) -> None:
    shown = entered(published, "lookup", "garden", "--as-of", AS_OF)
    assert (shown.returncode, shown.stdout) == (0, "Nothing alive carries garden. All words: subconscious keywords\n")


def test_a_failure_is_one_line_and_an_error_object_for_json(home: Home) -> None:
    message = f"nothing has been published in {home.root} yet; run `subconscious run`"
    for arguments in (["keywords"], ["lookup", "door"]):
        plain = entered(home, *arguments)
        assert (plain.returncode, plain.stdout, plain.stderr) == (1, "", f"error: {message}\n")
        told = entered(home, *arguments, "--json")
        assert (told.returncode, json.loads(told.stdout)) == (1, {"error": {"type": "NotPublished", "message": message}})
        assert told.stderr == f"error: {message}\n"


def test_a_failure_behind_typer_is_told_in_the_same_way(published: Home) -> None:
    failed = typed("read", "messaging", "garage", "--json", "--home", str(published.root))
    assert failed.exit_code == 1
    assert as_json(failed)["error"]["type"] == "UnknownPointer"
    assert failed.stderr.startswith("error: nothing is known of messaging 'garage'")


@pytest.mark.parametrize(
    "arguments",
    [
        ["lookup"],
        ["lookup", "door", "--task", "the door"],
        ["lookup", "door", "--as-of", "yesterday"],
        ["keywords", "door"],
        ["keywords", "--colour"],
        ["read", "messaging"],
        ["read", "messaging", "house", "--from", "2026-04-02", "--to", "2026-04-01"],
        ["read", "messaging", "house", "--from", "2026-04-02T10:00"],
        ["inspect", "x", "--date-order", "ydm"],
        ["inspect", "x", "--reader", "telex"],
        ["frobnicate"],
    ],
)
def test_bad_usage_ends_with_2_and_prints_no_result(published: Home, arguments: list[str]) -> None:
    if cli.plain(arguments) is not None:
        pytest.fail("taken past Typer, which is to explain it")
    failed = typed(*arguments, *(["--home", str(published.root)] if arguments[0] != "frobnicate" else []))
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert failed.stderr


def test_plain_arguments_go_past_typer() -> None:
    asked = cli.plain(["lookup", "door", "washing machine", "--home=x y", "--as-of", "2026-04-01", "--json"])
    assert asked is not None
    assert (asked.verb, asked.words, asked.task, asked.home, asked.json) == ("lookup", ("door", "washing machine"), None, "x y", True)
    assert asked.now.isoformat() == "2026-04-01T00:00:00+00:00"
    task = cli.plain(["lookup", "--task", "message the landlord"])
    assert task is not None
    assert task.task == "message the landlord"
    for left_to_typer in (["lookup", "--help"], ["keywords", "--home"], ["lookup", "--home", "--json", "door"], ["status"], []):
        assert cli.plain(left_to_typer) is None


def test_a_reading_as_json(published: Home) -> None:
    found = as_json(typed("read", "messaging", "family", "--to", "2026-03-31", "--json", "--home", str(published.root)))
    assert [(item["at"], item["text"]) for item in found["items"]] == [
        ("2026-03-31T10:00:00Z", "washing machine arrives on friday"),
        ("2026-03-31T20:00:00Z", "dentist moved to the tenth"),
    ]


def test_an_empty_range_is_said_beside_an_empty_list(published: Home) -> None:
    found = typed("read", "messaging", "family", "--from", "2026-04-02", "--json", "--home", str(published.root))
    assert (found.exit_code, as_json(found)) == (0, {"items": []})
    assert "holds nothing in this range; it has 2 in all" in found.stderr


def test_message_text_cannot_move_the_cursor_but_stays_whole_in_json(home: Home) -> None:
    text = "red \x1b[31malert\x1b]0;title\x07\nsecond line \u202ereversed \x9bK"
    homes.write_rows(home, [homes.message("2026-03-30T08:10:00Z", text, author="\x1b[2JNora")])
    homes.run(home)
    shown = typed("read", "messaging", "house", "--home", str(home.root)).stdout
    assert shown.splitlines() == ["2026-03-30 Mon (UTC)", "  08:10  [2JNora  red [31malert]0;title", "         second line reversed K"]
    raw = typed("read", "messaging", "house", "--json", "--home", str(home.root)).stdout_bytes
    assert b"\x1b" not in raw
    assert b"\xc2\x9b" not in raw
    assert json.loads(raw)["items"][0]["text"] == text


def test_output_that_is_piped_has_no_colours(published: Home) -> None:
    for arguments in (["keywords"], ["lookup", "door"], ["status"], ["read", "messaging", "house"]):
        assert "\x1b" not in entered(published, *arguments).stdout


def test_a_reader_that_hangs_up_is_no_accident(published: Home) -> None:
    code = "from subconscious_pipeline.agent.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "keywords", "--home", str(published.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# --- inspect


def test_inspect_shows_what_ingest_would_make_of_a_file_and_stores_nothing(home: Home) -> None:
    rows = [homes.message("2026-03-30T08:10:00Z", "the door", native_id="m1"), homes.message("2026-03-30T09:00:00+02:00", "", author="Ben")]
    path = homes.write_rows(home, rows, tail="not json\n")
    found = as_json(typed("inspect", str(path), "--json", "--home", str(home.root)))
    assert found["reader"] == "jsonl"
    first, second = found["records"]
    expected = {
        "source_type": "messaging", "source_ref": "house", "native_id": "m1", "author": "Nora", "kind": "text", "at": "2026-03-30T08:10:00Z",
        "text": "the door", "noise": [], "thread_id": None, "is_bot": False, "tz_source": "explicit", "edited_at": None, "end_at": None,
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert (second["at"], second["author"], second["noise"] != []) == ("2026-03-30T07:00:00Z", "Ben", True)
    assert [(error["locator"], error["code"]) for error in found["errors"]] == [("line 3", "bad_json")]
    assert not home.warehouse.exists()


MAIL = (
    "From: Nora Example <nora@example.org>\nTo: ben@example.org\nSubject: the lift\nMessage-ID: <a1@example.org>\n"
    "{date}Content-Type: text/plain; charset=utf-8\n\nIt is stuck.\n\nOn Monday Ben wrote:\n> is it?\n"
)


def test_inspect_of_a_mail_gives_its_new_text_and_null_when_undated(tmp_path: Path) -> None:
    path = tmp_path / "mail.eml"
    path.write_text(MAIL.format(date="Date: Mon, 30 Mar 2026 10:10:00 +0200\n"), encoding="utf-8")
    (dated,) = as_json(typed("inspect", str(path), "--json"))["records"]
    assert {name: dated[name] for name in ("source_type", "source_ref", "at", "author", "text", "subject", "body_new", "date_source")} == {
        "source_type": "email", "source_ref": "a1@example.org", "at": "2026-03-30T08:10:00Z", "author": "Nora Example <nora@example.org>",
        "text": "It is stuck.", "subject": "the lift", "body_new": "It is stuck.", "date_source": "header",
    }  # fmt: skip
    path.write_text(MAIL.format(date=""), encoding="utf-8")
    (undated,) = as_json(typed("inspect", str(path), "--json"))["records"]
    assert (undated["at"], undated["date_source"]) == (None, "none")
    assert "undated" in typed("inspect", str(path)).stdout


def test_inspect_of_an_event_gives_its_start_and_summary(tmp_path: Path) -> None:
    path = tmp_path / "calendar.ics"
    path.write_text(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\nBEGIN:VEVENT\r\nUID:e1\r\nDTSTAMP:20260301T000000Z\r\n"
        "DTSTART:20260403T080000Z\r\nDTEND:20260403T090000Z\r\nSUMMARY:Dentist\r\nSTATUS:TENTATIVE\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
        encoding="utf-8",
    )
    (event,) = as_json(typed("inspect", str(path), "--json"))["records"]
    expected = {
        "source_type": "calendar", "source_ref": "e1", "kind": "event", "at": "2026-04-03T08:00:00Z", "end_at": "2026-04-03T09:00:00Z",
        "text": "Dentist", "summary": "Dentist", "all_day": False, "start_date": "2026-04-03", "end_date": "2026-04-03", "status": "tentative",
        "rrule": None,
    }  # fmt: skip
    assert {name: event[name] for name in expected} == expected


WHATSAPP = "03/04/2026, 21:12 - Nora: the door\n03/04/2026, 21:13 - Ben: which one\n"


def test_inspect_takes_zone_and_date_order_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat with house.txt"
    path.write_text(WHATSAPP, encoding="utf-8")
    arguments = ["inspect", str(path), "--json", "--timezone", "Europe/Madrid", "--date-order"]
    assert as_json(typed(*arguments, "dmy"))["records"][0]["at"] == "2026-04-03T19:12:00Z"
    assert as_json(typed(*arguments, "mdy"))["records"][0]["at"] == "2026-03-04T20:12:00Z"


def test_inspect_reads_a_source_as_its_sources_yaml_says(home: Home) -> None:
    path = home.sources / "chat.txt"
    path.write_text(WHATSAPP, encoding="utf-8")
    home.sources_yaml.write_text(
        "sources: [{id: house, path: chat.txt, timezone: Europe/Madrid, date_order: dmy, ignored_authors: [Ben]}]", encoding="utf-8"
    )
    records = as_json(typed("inspect", str(path), "--json", "--home", str(home.root)))["records"]
    assert [(record["at"], bool(record["noise"])) for record in records] == [("2026-04-03T19:12:00Z", False), ("2026-04-03T19:13:00Z", True)]


def test_inspect_of_a_file_that_cannot_be_read_fails_in_its_own_shape(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.touch()
    failed = typed("inspect", str(path), "--json")
    assert failed.exit_code == 1
    assert as_json(failed)["records"] == []
    assert [error["code"] for error in as_json(failed)["errors"]] == ["empty_file"]
    assert "is empty; export it again or remove it" in typed("inspect", str(path)).stdout


# --- status


def test_status_has_the_documented_shape(published: Home) -> None:
    found = as_json(typed("status", "--json", "--as-of", AS_OF, "--home", str(published.root)))
    assert found["windows"] == {"ok": 4, "empty": 0, "failed": 0, "quarantined": 0, "due": 0, "running": 0}
    assert found["watermark"] == "2026-04-01T12:00:00Z"
    assert found["tokens"] == {"prompt": 400, "completion": 80, "calls": 4}
    assert found["sources"] == [{"source_id": "chat.jsonl", "reader": "jsonl", "rows": 6, "errors": 1}]
    assert found["failed"] == []
    assert [(error["path"], error["locator"], error["code"]) for error in found["errors"]] == [("chat.jsonl", "line 7", "bad_json")]
    assert (found["status"], found["errors_in_all"], found["beyond_lookback"], found["rows_before_start"]) == ("ok", 1, None, 0)
    assert (found["published"]["revision"], found["published"]["status"]) == (6, "ok")


def test_status_names_a_failed_window_its_reason_and_its_next_try(home: Home) -> None:
    homes.write_rows(home, homes.ROWS)
    homes.run(home, failing=frozenset({"still no repair of the door"}))
    found = as_json(typed("status", "--json", "--as-of", AS_OF, "--home", str(home.root)))
    assert found["failed"] == [
        {"window": "2026-03-31T06:00Z", "status": "failed", "error_code": "timeout", "tries": 1, "next_try_at": "2026-04-01T12:40:00Z"}
    ]
    assert (found["status"], found["watermark"]) == ("degraded", "2026-03-31T06:00:00Z")
    shown = typed("status", "--as-of", AS_OF, "--home", str(home.root)).stdout
    assert "window 2026-03-31T06:00Z failed (timeout), missing since 2026-03-31T06:00:00Z" in shown
    assert "after 2026-04-01 12:40 UTC" in shown
    assert "still no repair" not in shown


def test_status_of_a_given_up_window_shows_the_command_that_tries_again(home: Home) -> None:
    homes.write_rows(home, homes.ROWS[:1])
    for tries in range(3):
        homes.run(home, homes.AS_OF + timedelta(hours=tries), failing=frozenset({"the entrance door is broken"}))
    at = ("--as-of", "2026-04-01T15:00Z", "--home", str(home.root))
    assert [(item["status"], item["tries"]) for item in as_json(typed("status", "--json", *at))["failed"]] == [("quarantined", 3)]
    shown = " ".join(entered(home, "status", *at[:2], COLUMNS="200").stdout.split())
    assert "given up; subconscious run --window 2026-03-30T06:00Z" in shown


def test_status_counts_windows_beyond_the_lookback_and_rows_before_the_start(home: Home) -> None:
    old = ["2026-01-05T08:00:00Z", "2026-01-06T08:00:00Z", "2019-05-01T08:00:00Z"]
    homes.write_rows(home, homes.ROWS + [homes.message(at, f"an old matter of {at}") for at in old])
    homes.run(home)
    found = as_json(typed("status", "--json", "--as-of", AS_OF, "--home", str(home.root)))
    assert found["beyond_lookback"] == {
        "windows": 2, "first": "2026-01-05T06:00Z", "last": "2026-01-06T06:00Z",
        "command": f"subconscious run --home {home.root} --window 2026-01-05T06:00Z..2026-01-06T06:00Z",
    }  # fmt: skip
    assert found["rows_before_start"] == 1


def test_status_shows_the_first_errors_and_how_many_more(home: Home) -> None:
    homes.write_rows(home, homes.ROWS, tail="not json\n" * 25)
    homes.run(home)
    shown = typed("status", "--as-of", AS_OF, "--home", str(home.root)).stdout
    assert shown.count("is not one JSON object a line") == 20
    assert "… and 5 more" in shown


def test_status_of_an_empty_home_says_how_to_begin(home: Home, tmp_path: Path) -> None:
    empty = typed("status", "--as-of", AS_OF, "--home", str(home.root))
    assert empty.exit_code == 0
    assert "Put exports under" in empty.stdout
    missing = typed("status", "--home", str(tmp_path / "nowhere"))
    assert missing.exit_code == 1
    assert "there is no home at" in missing.stderr


# --- doctor


def checks(result: Result) -> dict[str, tuple[str, str]]:
    return {check["name"]: (check["state"], check["finding"]) for check in as_json(result)["checks"]}


def doctor(home: Home, *arguments: str, model: str = "openai/gpt-test", key: str = "k") -> Result:
    return CliRunner().invoke(
        app, ["doctor", "--json", "--as-of", AS_OF, "--home", str(home.root), *arguments], env={"SUBCONSCIOUS_MODEL": model, "OPENAI_API_KEY": key}
    )  # fmt: skip


def test_doctor_finds_a_sound_home_sound(published: Home) -> None:
    result = doctor(published)
    found = checks(result)
    assert result.exit_code == 0
    sound = ("python", "home", "settings", "sources", "locks", "warehouse", "memory", "events", "windows", "snapshot", "model")
    assert {name: found[name][0] for name in sound} == dict.fromkeys(sound, "ok")
    assert found["model"][1] == "openai/gpt-test is set up; message text goes to openai"
    assert found["daemon"] == ("warn", "nothing is ticking: Dagster has not been at work in this home")


def test_doctor_leaves_no_trace(home: Home) -> None:
    before = sorted(home.root.rglob("*"))
    doctor(home)
    assert sorted(home.root.rglob("*")) == before


def test_doctor_fails_without_a_key_and_names_it(published: Home) -> None:
    result = doctor(published, key="")
    assert result.exit_code == 1
    assert checks(result)["model"][0] == "fail"
    assert "OPENAI_API_KEY" in checks(result)["model"][1]


def test_doctor_names_a_held_lock_and_goes_on(published: Home) -> None:
    with FileLock(published.lock("memory")):
        found = checks(doctor(published))
    assert found["locks"][0] == "warn"
    assert ".memory.lock" in found["locks"][1]
    if sys.platform == "linux":
        assert f"process {os.getpid()}" in found["locks"][1]
    assert found["snapshot"][0] == "ok"


def test_doctor_reports_damaged_stores_each_for_itself(home: Home) -> None:
    for path in (home.warehouse, home.events, home.index):
        path.write_bytes(b"no database" * 400)
    result = doctor(home)
    found = checks(result)
    assert result.exit_code == 1
    assert {name: found[name][0] for name in ("warehouse", "events", "snapshot")} == dict.fromkeys(("warehouse", "events", "snapshot"), "fail")
    assert found["memory"][0] == "warn"


def test_doctor_reports_a_bad_setting_and_a_bad_sources_file(home: Home) -> None:
    home.sources_yaml.write_text("sources: [{id: a}]", encoding="utf-8")
    assert checks(doctor(home))["sources"][0] == "fail"
    bad = CliRunner().invoke(app, ["doctor", "--json", "--home", str(home.root)], env={"SUBCONSCIOUS_WINDOW_HOURS": "7"})
    assert bad.exit_code == 1
    assert checks(bad)["settings"] == ("fail", "bad setting: SUBCONSCIOUS_WINDOW_HOURS: Value error, must be one of 1, 2, 3, 4, 6, 8, 12, 24")


def test_doctor_warns_of_missing_sources_and_failed_windows(home: Home) -> None:
    homes.write_rows(home, homes.ROWS)
    homes.run(home, failing=frozenset({"the entrance door is broken"}))
    home.sources_yaml.write_text("sources: [{id: gone, path: gone.jsonl}]", encoding="utf-8")
    found = checks(doctor(home))
    assert found["sources"] == ("warn", "sources.yaml: missing gone.jsonl")
    assert found["windows"][0] == "warn"
    assert "window 2026-03-30T06:00Z failed (timeout)" in found["windows"][1]


# --- model, help, version


def test_model_check_has_nothing_to_ask_recorded_replies() -> None:
    failed = typed("model", "check", "--model", "replay", "--json")
    assert failed.exit_code == 1
    assert as_json(failed)["error"]["type"] == "ConfigError"


def test_model_check_of_a_server_that_is_not_there_says_what_to_do() -> None:
    environment = {"SUBCONSCIOUS_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "k", "SUBCONSCIOUS_HTTP_RETRIES": "0"}
    failed = CliRunner().invoke(app, ["model", "check", "--model", "openai/some", "--json"], env=environment)
    found = as_json(failed)
    assert (failed.exit_code, found["ok"], found["error_code"], found["concepts"]) == (1, False, "unreachable", [])
    assert "SUBCONSCIOUS_BASE_URL" in found["reason"]


def test_model_check_shows_what_the_model_named_and_what_it_cost() -> None:
    concept = {"topic": "A lift is stuck.", "lines": [1, 2, 3], "keywords": ["lift", "repair", "technician"], "kind": "incident", "ttl_days": 5}
    with FakeServer([good({"concepts": [concept]}, prompt_tokens=900, completion_tokens=40)]) as server:
        environment = {"SUBCONSCIOUS_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        found = as_json(CliRunner().invoke(app, ["model", "check", "--model", "openai/some", "--json"], env=environment))
        shown = CliRunner().invoke(app, ["model", "check", "--model", "openai/some"], env=environment)
    assert found["concepts"] == [["lift", "repair", "technician"]]
    assert (found["ok"], found["remote"], found["tokens"]) == (True, False, {"prompt": 900, "completion": 40, "calls": 1})
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[:3] == ["✓ openai/some", "  message text stays on this machine", "  named: lift, repair, technician"]
    assert "A lift is stuck" not in shown.output


def test_model_check_fails_when_the_model_sees_nothing() -> None:
    with FakeServer([good({"concepts": []})]) as server:
        environment = {"SUBCONSCIOUS_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        failed = CliRunner().invoke(app, ["model", "check", "--model", "openai/some"], env=environment)
    assert failed.exit_code == 1
    assert failed.stderr == "error: it named no concept in a chat that holds one; use a more able model\n"


def pulls(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let the download of the local model be a few reports and a small file."""

    def pull(progress: Callable[[int, int, str], None]) -> Path:
        for done in range(0, 1001, 10):
            progress(done * 10**6, 10**9, f"part {done // 10} of 100")
        progress(10**9, 10**9, "the publisher's server cannot be reached; going on with a third party's upload of the same bytes")
        for done in (0, 1000):
            progress(done * 10**6, 10**9, "verifying the hash")
        path.write_bytes(b"GGUF")
        return path

    monkeypatch.setattr("subconscious_pipeline.extraction.gguf.pull", pull)


def test_model_pull_tells_each_step_and_tenth_when_piped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pulls(monkeypatch, tmp_path / "model.gguf")
    lines = typed("model", "pull").stdout.splitlines()
    assert lines[:2] == ["part 0 of 100: 0 of 1,000 MB", "part 10 of 100: 100 of 1,000 MB"]
    assert lines[11:] == [
        "the publisher's server cannot be reached; going on with a third party's upload of the same bytes",
        "verifying the hash: 0 of 1,000 MB",
        "verifying the hash: 1,000 of 1,000 MB",
        f"✓ {tmp_path / 'model.gguf'}: complete, hash verified",
    ]
    assert as_json(typed("model", "pull", "--json")) == {"path": str(tmp_path / "model.gguf"), "bytes": 4}


def test_a_pull_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(_progress: object) -> Path:
        raise ExtractionError("not enough room")

    monkeypatch.setattr("subconscious_pipeline.extraction.gguf.pull", pull)
    failed = typed("model", "pull")
    assert (failed.exit_code, failed.stdout, failed.stderr) == (1, "", "error: not enough room\n")


@pytest.mark.skipif(find_spec("xllamacpp") is None or find_spec("wordfreq") is None, reason="the extra `local` is not installed")
def test_model_check_without_the_local_model_names_the_command_that_fetches_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("subconscious_pipeline.extraction.gguf.models_dir", lambda: tmp_path)
    failed = typed("model", "check", "--model", "local")
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: ")
    assert "subconscious model pull" in failed.stderr


def test_help_lists_every_command_without_importing_what_they_need() -> None:
    code = (
        "import sys\nfrom subconscious_pipeline.agent.app import app\n"
        "try:\n    app(['--help'], prog_name='subconscious')\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'polars', 'duckdb', 'dagster', 'openai', 'instructor', 'pydantic_settings'}))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True).stdout
    for name in ("keywords", "lookup", "read", "inspect", "status", "doctor", "model"):
        assert f" {name} " in shown
    assert shown.splitlines()[-1] == "[]"


def test_version_is_printed() -> None:
    assert typed("--version").stdout == "subconscious 0.1.0\n"
