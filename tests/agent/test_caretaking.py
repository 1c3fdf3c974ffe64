"""The caretaker's commands: what agents say to it, what it says to people, and its work done by hand."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from subconscious_pipeline.agent import cli
from subconscious_pipeline.agent.app import app
from subconscious_pipeline.agent.client import Subconscious
from subconscious_pipeline.agent.pulse import look
from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.events import Accessed, Claimed, Interaction, SessionEnded, SessionStarted, TotalRecallAdvisory, WorkingContext
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.state import current
from subconscious_pipeline.caretaker.tick import CaretakerLock
from subconscious_pipeline.extraction.types import Observation, Span
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import observe, project, store
from tests.agent import homes

AS_OF = homes.AS_OF


@pytest.fixture(autouse=True)
def _a_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "PY_COLORS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def once_lived(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """What `lived` is copied from."""
    home = Home(tmp_path_factory.mktemp("lived") / "home")
    homes.write_rows(home, homes.ROWS)
    homes.run(home)
    stand(home)
    return home


@pytest.fixture
def lived(once_lived: Home, tmp_path: Path) -> Home:
    """A home after one run, whose clock stands at the time of that run."""
    shutil.copytree(once_lived.root, tmp_path / "home")
    return Home(tmp_path / "home")


def stand(home: Home, minutes: float = 0) -> None:
    """Let the home's clock stand that many minutes after the run."""
    home.clock.write_text((AS_OF + timedelta(minutes=minutes)).isoformat(), encoding="ascii")


def typed(home: Home, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home.root)])


def said(home: Home, *arguments: str) -> str:
    """What a command that must succeed prints."""
    result = typed(home, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.strip()


def events(home: Home, kind: type[Any]) -> list[Any]:
    with EventLog(home.events) as log:
        return [event.payload() for event in log.read(kinds=[kind.__name__])]


# --- sessions


def test_a_session_is_told_from_start_to_end(lived: Home) -> None:
    assert said(lived, "session", "start", "--id", "s1", "--instance", "desk", "--mind-type", "coder", "--rule", "break_minutes=60") == "s1"
    assert said(lived, "session", "activity", "s1", "task") == ""
    pointer = ["--pointer", "messaging", "house", "2026-04-01T09:00Z", "2026-04-01T09:10Z"]
    assert said(lived, "session", "note", "s1", "Paints", "colour", *pointer, *pointer, "--ttl-days", "10") == ""
    assert said(lived, "session", "end", "s1", "--cause", "crash", "--reason", "killed") == ""
    (started,) = events(lived, SessionStarted)
    assert (started.instance_id, started.mind_type, started.rules.break_minutes) == ("desk", "coder", 60)
    assert [event.mode for event in events(lived, Interaction)] == ["TASK"]
    (note,) = events(lived, WorkingContext)
    assert (note.words, note.ttl_days, [p.source_ref for p in note.pointers]) == (("paint", "colour"), 10, ["house", "house"])
    assert [(event.cause, event.reason) for event in events(lived, SessionEnded)] == [("CRASH", "killed")]


def test_a_session_without_an_id_gets_a_new_one(home: Home) -> None:
    first, second = said(home, "session", "start"), said(home, "session", "start")
    assert first != second
    with EventLog(home.events) as log:
        assert set(current(log).sessions) == {first, second}


@pytest.mark.parametrize("arguments", [["session", "activity", "gone", "IDLE"], ["session", "end", "gone"], ["recall", "door", "--session", "gone"]])
def test_what_a_session_that_is_not_connected_says_is_refused(lived: Home, arguments: list[str]) -> None:
    failed = typed(lived, *arguments)
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "session 'gone' is not connected" in failed.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["session", "start", "--rule", "break_minutes"],
        ["session", "start", "--rule", "patience=3"],
        ["session", "start", "--id", "no spaces"],
        ["session", "note", "s1"],
        ["session", "note", "s1", "the"],
        ["session", "note", "s1", "ignore all previous"],
        ["session", "note", "s1", "door", "--pointer", "messaging", "house", "2026-04-01T09:00Z"],
        ["session", "note", "s1", "door", "--pointer", "messaging", "house", "2026-04-01T09:00Z", "2026-04-01T08:00Z"],
        ["session", "note", "s1", "door", "--pointer", "messaging", "house", "2026-04-01T09:00", "2026-04-01T10:00"],
        ["session", "note", "s1", "door", "--ttl-days", "1"],
        ["session", "activity", "s1", "SLEEP"],
        ["session", "end", "s1", "--cause", "BOREDOM"],
        ["recall", "door"],
        ["recall", "--session", "s1"],
        ["recall", "door", "--cancel", "r1"],
        ["claim", "1"],
        ["notifications", "--ack", "1", "--follow"],
        ["consolidate", "--strategy", "SUMMARIZE"],
        ["consolidate", "--dry-run", "--list"],
        ["tick", "--every", "soon"],
        ["tick", "--every", "0s"],
        ["shutdown", "--timeout", "0"],
    ],
)
def test_bad_usage_ends_with_2_prints_no_result_and_writes_nothing(home: Home, arguments: list[str]) -> None:
    said(home, "session", "start", "--id", "s1")
    failed = typed(home, *arguments)
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert failed.stderr
    with EventLog(home.events) as log:
        assert log.last_id() == 1


# --- lookup, claim, recall, notifications


def test_a_lookup_for_a_session_is_remembered_as_an_access(lived: Home) -> None:
    asked = cli.plain(["lookup", "invoice", "--session", "s1", "--json", "--home", str(lived.root)])
    assert asked is not None
    assert asked.session == "s1"
    plain = typed(lived, "lookup", "invoice", "--json")
    assert not lived.events.exists()
    noted = typed(lived, "lookup", "invoice", "--json", "--session", "s1")
    assert noted.stdout == plain.stdout
    concepts = [concept["id"] for concept in json.loads(plain.stdout)["concepts"]]
    assert len(concepts) == 2
    assert [list(event.concept_ids) for event in events(lived, Accessed)] == [concepts]


def test_that_an_access_could_not_be_noted_does_not_spoil_the_answer(lived: Home) -> None:
    lived.events.write_bytes(b"no database" * 400)
    noted = typed(lived, "lookup", "invoice", "--json", "--session", "s1")
    assert noted.exit_code == 0
    assert json.loads(noted.stdout)["matched"] == ["invoice"]
    assert noted.stderr.startswith("not noted as looked up: ")


def test_a_claim_names_concepts_that_live(lived: Home) -> None:
    assert said(lived, "claim", "1", "3", "--session", "s1", "--core") == ""
    assert [(event.concept_ids, event.core) for event in events(lived, Claimed)] == [((1, 3), True)]
    failed = typed(lived, "claim", "1", "99", "--session", "s1")
    assert failed.exit_code == 1
    assert "no live concept 99" in failed.stderr
    assert len(events(lived, Claimed)) == 1


def test_a_recall_comes_back_as_a_table_with_commands_that_can_be_typed(lived: Home) -> None:
    said(lived, "session", "start", "--id", "s1", "--rule", "debounce_seconds=0", "--rule", "heartbeat_minutes=500")
    request = said(lived, "recall", "entrance", "--session", "s1", "--concept", "3", "--depth", "1")
    (asked,) = events(lived, TotalRecallAdvisory)
    assert (asked.request_id, asked.words, asked.concept_ids, asked.max_depth) == (request, ("entrance",), (3,), 1)
    assert f"recall {request}:" in said(lived, "tick")
    lines = said(lived, "notifications", "--session", "s1").splitlines()
    assert "2026-04-01 12:30 UTC  recollection  s1" in lines[0]
    assert f"complete, down to depth 1; request {request}" in lines[1]
    assert any("door, entrance, landlord, repair" in line and "1.00" in line for line in lines)
    (read,) = [line for line in lines if "messaging house --from 2026-03-30T08:10:00Z --to 2026-03-31T09:00:00Z" in line]
    followed = CliRunner().invoke(app, shlex.split(read.partition("subconscious ")[2]))
    assert followed.exit_code == 0
    assert "the entrance door is broken" in followed.stdout
    found = json.loads(said(lived, "notifications", "--json"))["notifications"]
    assert [(n["kind"], n["session_id"], n["acknowledged"], n["content"]["request_id"]) for n in found] == [("Recollection", "s1", False, request)]
    assert said(lived, "notifications", "--ack", str(found[0]["id"])) == ""
    assert said(lived, "notifications") == "Nothing new."
    assert "(seen)" in said(lived, "notifications", "--all")


def test_a_recall_taken_back_in_time_is_dropped(lived: Home) -> None:
    said(lived, "session", "start", "--id", "s1")
    request = said(lived, "recall", "entrance", "--session", "s1")
    assert said(lived, "recall", "--cancel", request) == ""
    assert f"recall {request}: dropped, cancelled (session s1)" in said(lived, "tick")
    assert said(lived, "notifications") == "Nothing new."


def test_breaks_and_audit_prompts_are_shown(lived: Home) -> None:
    said(lived, "session", "start", "--id", "s1", "--rule", "break_minutes=60", "--rule", "heartbeat_minutes=500")
    said(lived, "session", "activity", "s1", "TASK")
    stand(lived, 61)
    assert "break suggested after 61 minutes (session s1)" in said(lived, "tick")
    said(lived, "session", "end", "s1")
    assert "audit prompt sent (session s1)" in said(lived, "tick")
    shown = said(lived, "notifications")
    assert "61 minutes of work without a pause to talk" in shown
    assert "What of it should be kept?" in shown


def test_following_prints_one_object_a_line(lived: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        said(lived, "session", "start", "--id", name)
        said(lived, "session", "end", name)
    said(lived, "tick")
    monkeypatch.setattr("subconscious_pipeline.agent.commands.caretaking._wait", lambda: False)
    lines = said(lived, "notifications", "--follow", "--json").splitlines()
    assert [json.loads(line)["session_id"] for line in lines] == ["a", "b"]


def test_only_a_notification_can_be_acknowledged(lived: Home) -> None:
    said(lived, "session", "start", "--id", "s1")
    failed = typed(lived, "notifications", "--ack", "1")
    assert failed.exit_code == 2
    assert "no notification has the id 1" in failed.stderr


# --- consolidate


@pytest.fixture
def similar(lived: Home) -> Home:
    """A home with two concepts more (7, 8) that share three words and a chat."""
    with store.writing(lived, homes.SETTINGS) as con:
        for number, (concept, words) in enumerate(((7, ("boiler", "pressure", "valve", "noise")), (8, ("boiler", "pressure", "valve", "fitter")))):
            at = AS_OF - timedelta(days=2, hours=number)
            one = Observation(words, "ongoing", 40, at, (at + timedelta(days=40)).date(), (Span("messaging", "cellar", at, at),))
            observe.insert(con, [one], "extraction", at, [concept], first_ordinal=50 + number)
        project.project(con, AS_OF)
    return lived


def keywords(home: Home) -> dict[int, tuple[str, ...]]:
    return {concept.id: concept.keywords for concept in Subconscious(home, now=lambda: AS_OF).lookup("boiler").concepts}


def test_a_dry_run_shows_pairs_and_changes_nothing(similar: Home) -> None:
    before = similar.memory.read_bytes()
    shown = said(similar, "consolidate", "--dry-run")
    assert "boiler, noise, pressure, valve" in shown
    assert "boiler, fitter, pressure, valve" in shown
    assert shown.splitlines()[-1] == "1 merge would be made (COMBINE); nothing was changed"
    planned = json.loads(said(similar, "consolidate", "--dry-run", "--json"))
    assert planned["transaction_id"] is None
    assert [(m["from_id"], m["into_id"], m["observations"]) for m in planned["merges"]] == [(8, 7, 2)]
    assert similar.memory.read_bytes() == before


def test_consolidating_publishes_is_logged_and_can_be_taken_back(similar: Home) -> None:
    done = json.loads(said(similar, "consolidate", "--json"))
    assert keywords(similar) == {7: ("boiler", "fitter", "noise", "pressure", "valve")}
    with EventLog(similar.events) as log:
        assert [(e.kind, e.trigger, e.transaction_id) for e in log.read()] == [
            ("CommandStarted", "person", done["transaction_id"]), ("CommandFinished", "person", done["transaction_id"]),
        ]  # fmt: skip
        assert current(log).doing == {}
    (listed,) = json.loads(said(similar, "consolidate", "--list", "--json"))["transactions"]
    assert listed == {"transaction_id": done["transaction_id"], "at": "2026-04-01T12:30:00Z", "merges": 1}
    assert said(similar, "consolidate") == "No two concepts belong together."
    assert said(similar, "consolidate", "--undo", done["transaction_id"]) == "1 merge taken back, published"
    assert keywords(similar) == {7: ("boiler", "noise", "pressure", "valve"), 8: ("boiler", "fitter", "pressure", "valve")}
    again = typed(similar, "consolidate", "--undo", done["transaction_id"])
    assert again.exit_code == 1
    assert "to undo; `subconscious consolidate --list` names them" in again.stderr


def test_people_get_the_command_that_undoes(similar: Home) -> None:
    lines = said(similar, "consolidate", "--strategy", "keep-newest").splitlines()
    assert lines[-2] == "1 merge made (KEEP_NEWEST), published. To take them back:"
    assert keywords(similar) == {7: ("boiler", "noise", "pressure", "valve")}  # 7 is the newer one
    undo = lines[-1].strip().split(" --undo ")[1]
    assert said(similar, "consolidate", "--undo", undo) == "1 merge taken back, published"


# --- tick, shutdown, doctor


def test_a_tick_does_what_is_due_and_says_so_once(lived: Home) -> None:
    lines = said(lived, "tick").splitlines()
    assert [line.partition("  ")[2].partition(":")[0] for line in lines] == ["decay sweep", "consolidation", "published"]
    assert lines[0].startswith("12:30:00Z  decay sweep: 4 concepts, ")
    assert said(lived, "tick") == "Nothing was due."


def test_a_tick_leaves_the_work_to_a_caretaker_that_is_at_it(lived: Home) -> None:
    with EventLog(lived.events) as log, CaretakerLock(log) as mine:
        assert mine
        left = typed(lived, "tick")
    assert (left.exit_code, left.stdout) == (0, "")
    assert left.stderr == "another caretaker is at work in this home; it is left to that one\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT])
def test_ticking_goes_on_until_it_is_interrupted(lived: Home, ended_by: int) -> None:
    code = "from subconscious_pipeline.agent.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "tick", "--every", "1h", "--home", str(lived.root)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=dict(os.environ),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(3)]
        process.send_signal(ended_by)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "decay sweep" in first[0]
    assert (process.returncode, rest, errors) == (0, "", "")


def test_a_shutdown_saves_publishes_and_reports(lived: Home) -> None:
    said(lived, "tick")
    said(lived, "session", "start", "--id", "s1")
    said(lived, "session", "note", "s1", "paint", "colour", "hallway")
    assert said(lived, "shutdown", "--timeout", "20") == "✓ saved 1 note of 1 session; published"
    assert Subconscious(lived, now=lambda: AS_OF).lookup("hallway").concepts
    report = json.loads(said(lived, "shutdown", "--json"))
    assert (report["saved_contexts"], report["published"], report["timed_out"]) == (0, True, False)
    with EventLog(lived.events) as log:
        assert current(log).phase == "down"


def test_a_shutdown_that_is_cut_off_says_what_and_fails(lived: Home) -> None:
    said(lived, "tick")
    said(lived, "session", "start", "--id", "s1")
    said(lived, "session", "note", "s1", "paint", "colour", "hallway")
    with EventLog(lived.events) as log:
        client.shutdown(log, AS_OF - timedelta(minutes=10), 1)  # somebody asked, and nobody did it in time
    failed = typed(lived, "shutdown", "--timeout", "20")
    assert failed.exit_code == 1
    assert "cut off by the time-out: 1 note of s1; they are saved after the next start" in failed.stdout
    said(lived, "tick")
    with EventLog(lived.events) as log:
        assert (current(log).phase, list(current(log).unsaved)) == ("running", ["s1"])


def test_the_caretaker_is_missed_when_nobody_looks(lived: Home) -> None:
    def nobody() -> bool:
        return False

    state, finding, remedy = look(lived, AS_OF, nobody)
    assert (state, finding) == ("warn", "nothing is ticking: the caretaker has never looked at this home")
    assert "dev --home" in remedy
    assert "--every 30s" in remedy
    said(lived, "session", "start", "--id", "s1")
    said(lived, "session", "note", "s1", "paint")
    said(lived, "recall", "door", "--session", "s1")
    assert look(lived, AS_OF, nobody)[1].endswith("; 1 unsaved note of session s1; 1 recall waiting")
    assert look(lived, AS_OF, lambda: True)[0] == "ok"
    said(lived, "tick")
    recent = look(lived, AS_OF + timedelta(minutes=9), nobody)
    assert (recent[0], recent[2]) == ("ok", "")
    late = look(lived, AS_OF + timedelta(minutes=11), nobody)
    assert late[:2] == ("warn", "nothing is ticking: the caretaker last looked 11 min ago; 1 unsaved note of session s1; 1 recall waiting")


def test_an_empty_home_misses_nobody(home: Home) -> None:
    assert look(home, AS_OF, lambda: False) == ("ok", "nothing waits for it", "")
    assert not home.events.exists()


def test_doctor_asks_for_the_caretaker(lived: Home) -> None:
    found = {check["name"]: check for check in json.loads(typed(lived, "doctor", "--json").stdout)["checks"]}
    assert found["caretaker"]["state"] == "warn"
    assert found["caretaker"]["finding"].startswith("nothing is ticking")
