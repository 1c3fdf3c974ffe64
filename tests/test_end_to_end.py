"""Promises about the whole: no text leaves the warehouse, two runs at once do each other no harm, a killed one leaves nothing to clean up."""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import duckdb
import pytest
from defs.conftest import finished, own_process_state  # noqa: F401
from defs.leaks import leaks, runs
from defs.world import AS_OF, KEYS, Done, answer, ask, asked, cli, concepts, copied, hosted, memory, published, row, small, start
from extraction.fake_server import FakeServer, Request, Step, good, says, status

from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import store
from subconscious_pipeline.settings import load_settings

TIMEOUT_SECONDS = 120


# ---- two runs at once ----


def finish(process: object, seconds: int = TIMEOUT_SECONDS) -> Done:
    out, err = process.communicate(timeout=seconds)  # type: ignore[attr-defined]
    return Done(process.returncode, out, err)  # type: ignore[attr-defined]


def test_two_runs_started_at_once_ask_about_each_window_once(finished: Path, tmp_path: Path) -> None:  # noqa: F811
    home = small(tmp_path / "home")
    both = threading.Barrier(2)

    def script(request: Request) -> Step:
        # With one window in flight a process, the second question can only come from the other run.
        if len(server.requests) <= 2:
            both.wait(TIMEOUT_SECONDS)
        return answer(request)

    with FakeServer(script) as server:
        environment = {**hosted(server), "SUBCONSCIOUS_CONCURRENCY": "1"}
        processes = [start("run", "--home", home.root, "--as-of", AS_OF, environment=environment) for _ in range(2)]
        try:
            ended = [finish(process) for process in processes]
        finally:
            for process in processes:
                process.kill()
        assert [done.code for done in ended] == [0, 0], [done.text for done in ended]
        assert sorted(asked(server)) == list(KEYS)
    with store.reading(home, load_settings()) as con:
        assert store.broken_invariants(con) == {}
    assert concepts(home) == concepts(copied(finished, tmp_path / "undisturbed"))
    assert json.loads(published(home)["snapshot.json"])["status"] == "ok"
    sound = sqlite3.connect(home.index)
    assert sound.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    sound.close()


# ---- kill -9 ----


class NoWaiting:
    """Stands in for the module `time`: whoever sleeps fails."""

    @staticmethod
    def sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s for something that nobody holds")

    @staticmethod
    def monotonic() -> float:
        return 0.0


def test_after_kill_9_a_plain_run_goes_on_at_once_where_it_stopped(
    finished: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = small(tmp_path / "home")
    killed = threading.Event()

    def script(request: Request) -> Step:
        if len(server.requests) == 3 and not killed.is_set():
            killed.wait(TIMEOUT_SECONDS)
        return answer(request)

    with FakeServer(script) as server:
        process = start("run", "--home", home.root, "--as-of", AS_OF, environment={**hosted(server), "SUBCONSCIOUS_CONCURRENCY": "1"})
        try:
            server.wait_for(3, TIMEOUT_SECONDS)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            killed.set()
        assert process.returncode == -signal.SIGKILL
        assert asked(server) == list(KEYS[:3])
        assert memory(home, "SELECT status, count(*) FROM extractions GROUP BY 1 ORDER BY 1") == [("ok", 2), ("running", 2)]

        server.requests.clear()
        ask(monkeypatch, server, concurrency="1", lock_seconds="2")
        monkeypatch.setattr("subconscious_pipeline.memory.extract.time", NoWaiting)
        monkeypatch.setattr("subconscious_pipeline.duck.time", NoWaiting)
        done = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert done.code == 0, done.text
        assert asked(server) == list(KEYS[2:])
    assert concepts(home) == concepts(copied(finished, tmp_path / "undisturbed"))
    assert json.loads(published(home)["snapshot.json"])["status"] == "ok"


# ---- privacy ----

SAID = {
    "good": "purple elephants juggle seventeen lanterns beneath the observatory roof",
    "bad json": "the cañería rota del sótano floods Wilhelmina's accordion collection nightly",
    "http 500": "grandfather hides antique silver coins behind the loose kitchen tile",
    "http 400": "the safe combination starts with her birthday and ends in thunder",
    "time-out": "nobody else may learn about the adoption papers until midsummer",
    "refused": "seven forged passports lie inside the hollow piano leg downstairs",
}
AUTHOR = "Filomena Quintanilla Oberholzer Wetherby"
SUBJECT = "confidential merger of the three lighthouse companies"
BODY = "our lawyers will never accept that clause about penguins and patents"
SUMMARY = "secret rehearsal of the surprise symphony for Leopold"
DESCRIPTION = "bring velvet curtains and tell absolutely no living soul beforehand"
LOCATION = "abandoned greenhouse beyond the second rusty railway bridge"
BROKEN = "unfinished sentence about Theodora's hidden vineyard near the monastery"
SECRET = runs([*SAID.values(), AUTHOR, SUBJECT, BODY, SUMMARY, DESCRIPTION, LOCATION, BROKEN])
DEFECT = SAID["good"] + " " + BODY


def talkative(root: Path) -> Home:
    """A home with a planted text in every place where a person can write."""
    home = Home(root).create()
    hours = range(0, 36, 6)
    chat = [
        row(f"2026-03-{30 + hour // 24}T{hour % 24 + 1:02d}:00:00Z", "house", text, author=AUTHOR)
        for hour, text in zip(hours, SAID.values(), strict=True)
    ]
    (home.sources / "chat.jsonl").write_text("".join(chat) + '{"text": "' + BROKEN + "\n", encoding="utf-8")
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = f"{AUTHOR} <f@example.org>", "b@example.org", SUBJECT
    mail["Date"], mail["Message-ID"] = "Mon, 30 Mar 2026 02:00:00 +0000", "<m1@example.org>"
    mail.set_content(BODY + "\n")
    (home.sources / "letter.eml").write_bytes(mail.as_bytes())
    event = [
        "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//x//y//EN", "BEGIN:VEVENT", "UID:e1@example.org", "DTSTAMP:20260330T020000Z",
        "DTSTART:20260330T030000Z", "DTEND:20260330T040000Z", f"SUMMARY:{SUMMARY}", f"DESCRIPTION:{DESCRIPTION}", f"LOCATION:{LOCATION}",
        f"ORGANIZER;CN={AUTHOR}:mailto:f@example.org", "END:VEVENT", "END:VCALENDAR",
    ]  # fmt: skip
    (home.sources / "dates.ics").write_text("\r\n".join(event) + "\r\n", encoding="utf-8")
    return home


def indiscreet(release: threading.Event) -> Callable[[Request], Step]:
    """A server that quotes what it was told in every way a server can."""

    def script(request: Request) -> Step:
        kind = next(kind for kind, text in SAID.items() if text in request.text)
        if kind == "time-out":
            release.wait(20)
        if kind == "bad json":
            return says('{"concepts": [{"topic": "' + request.text)
        if kind == "refused":
            reply = {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": None, "refusal": "I will not discuss " + request.text},
            }
            return Step(body=json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [reply]}))
        if kind.startswith("http"):
            return status(int(kind[-3:]), message=f"cannot process: {request.text}")
        concept = {"lines": [1, 2, 3], "keywords": ["elephant", "lantern", "observatory"], "kind": "ongoing", "ttl_days": 40}
        return good({"concepts": [{"topic": request.text, **concept}]})

    return script


@pytest.fixture
def heard(capfd: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Everything logged in this process, at every level."""
    records: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(self.format(record))

    root, handler = logging.getLogger(), Keep(logging.DEBUG)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield records
    root.removeHandler(handler)
    root.setLevel(level)


def defect(*_args: object, **_more: object) -> None:
    raise ValueError(DEFECT)


def test_no_text_leaves_the_warehouse_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], heard: list[str]
) -> None:
    home = talkative(tmp_path / "home")
    release = threading.Event()
    printed = []
    with FakeServer(indiscreet(release)) as server:
        ask(monkeypatch, server, timeout_seconds="2", reasks="1")
        first = cli("run", "--home", home.root, "--as-of", AS_OF)
        release.set()
        assert first.code == 1
        printed.append(first.text)
        codes = memory(home, "SELECT error_code FROM extractions WHERE status = 'failed' ORDER BY window_start")
        assert [code for (code,) in codes] == ["invalid", "http_5xx", "http_4xx", "timeout", "refused"]
        assert memory(home, "SELECT list_contains(words, 'elephant') FROM observations") == [(True,)]

        with monkeypatch.context() as patch:
            patch.setattr("subconscious_pipeline.memory.extract.transcript", defect)
            done = cli("run", "--home", home.root, "--as-of", AS_OF, "--window", "2026-03-30T00:00Z")
            assert done.code == 1
            assert "(internal)" in done.text
            printed.append(done.text)
    for place in ("subconscious_pipeline.defs.index.ingest", "subconscious_pipeline.defs.publish.publish"):
        with monkeypatch.context() as patch:
            patch.setattr(place, defect)
            done = cli("run", "--home", home.root, "--as-of", AS_OF)
            assert done.code == 1, place
            assert "ValueError" in done.text
            printed.append(done.text)
    printed.append(cli("status", "--home", home.root, "--as-of", AS_OF).text)
    printed.append(cli("status", "--home", home.root, "--as-of", AS_OF, "--json").text)
    out, err = capfd.readouterr()
    spoken = {"commands": "\n".join(printed), "stdout": out, "stderr": err, "logging": "\n".join(heard)}
    assert len(spoken["logging"]) > 1_000
    assert leaks(home, SECRET, spoken) == []


def leak_into_memory(home: Home) -> None:
    with duckdb.connect(str(home.memory)) as con:
        con.execute("INSERT INTO tombstones VALUES (1, ?, now(), NULL)", [SAID["good"]])


def leak_into_words(home: Home) -> None:
    with duckdb.connect(str(home.memory)) as con:
        con.execute("UPDATE observations SET words = ? WHERE id = 1", [["purple", "elephants", "juggle", "seventeen"]])


def leak_into_the_index(home: Home) -> None:
    con = sqlite3.connect(home.index)
    con.execute("UPDATE meta SET value = ? WHERE key = 'reasons'", [json.dumps([SAID["bad json"]])])
    con.commit()
    con.close()


def leak_into_the_event_log(home: Home) -> None:
    con = sqlite3.connect(home.dagster / "event_log.db")
    con.execute("UPDATE event_logs SET event = ? WHERE id = (SELECT min(id) FROM event_logs)", [json.dumps({"message": "x\n" + SAID["bad json"]})])
    con.commit()
    con.close()


def leak_into_a_compute_log(home: Home) -> None:
    path = home.dagster / "storage" / "run" / "compute_logs" / "step.err"
    path.parent.mkdir(parents=True)
    path.write_text(f"Traceback\nValueError: {BODY}", encoding="utf-8")


def leak_into_the_awareness_block(home: Home) -> None:
    with (home.published / "awareness.md").open("a", encoding="utf-8") as file:
        file.write(SUMMARY)


def test_the_search_for_leaks_finds_planted_ones(finished: Path, tmp_path: Path) -> None:  # noqa: F811
    home = copied(finished, tmp_path / "home")
    assert leaks(home, SECRET) == []
    for leak in (
        leak_into_memory, leak_into_words, leak_into_the_index, leak_into_the_event_log, leak_into_a_compute_log, leak_into_the_awareness_block,
    ):  # fmt: skip
        leak(home)
    places = {place for place, _ in leaks(home, SECRET) if not place.endswith(" bytes") or "compute_logs" in place or "awareness" in place}
    assert places >= {
        "memory.duckdb tombstones", "memory.duckdb observations", "published/index.sqlite meta", "published/awareness.md bytes",
        "dagster/storage/run/compute_logs/step.err bytes",
    }  # fmt: skip
    assert any(place.endswith(" event_logs") for place in places)


def test_the_search_for_leaks_listens_to_what_is_said() -> None:
    assert leaks(Home(Path("nowhere")), SECRET, {"stderr": f"ValueError: {AUTHOR.upper()}!"}) == [
        ("stderr", "filomena quintanilla oberholzer wetherby")
    ]
