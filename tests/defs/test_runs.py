"""`subconscious run` on small homes: failure and repair, chosen windows, budgets, backfills, bad files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from extraction.fake_server import FakeServer, Request, Step, status

from subconscious_pipeline import duck
from subconscious_pipeline.defs.automation import range_tags
from subconscious_pipeline.defs.resources import Model
from subconscious_pipeline.extraction.replay import reply_line
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import window_from_key
from subconscious_pipeline.settings import load_settings
from subconscious_pipeline.warehouse.ingest import ingest
from subconscious_pipeline.warehouse.read import transcript
from subconscious_pipeline.warehouse.schema import MIGRATIONS

from .world import AS_OF, KEYS, ROWS, answer, ask, asked, cli, concepts, copied, execute, instant, materializations, memory, published, row, small


def test_a_window_that_fails_degrades_the_snapshot_until_the_next_run_repairs_it(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = small(tmp_path / "home")
    broken = [True]

    def script(request: Request) -> Step:
        return status(500) if broken and ROWS[1][2] in request.text else answer(request)

    with FakeServer(script) as server:
        ask(monkeypatch, server)
        first = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert first.code == 1
        assert "1 of 4 windows failed: 2026-03-31T06:00Z (http_5xx). The others are kept; the next run tries again." in first.out
        snapshot = json.loads(published(home)["snapshot.json"])
        assert snapshot["status"] == "degraded"
        assert snapshot["reasons"] == ["window 2026-03-31T06:00Z failed (http_5xx), missing since 2026-03-31T06:00:00Z"]
        assert snapshot["watermark"] == "2026-03-31T06:00:00Z"
        assert "degraded: complete only up to 2026-03-31 06:00 UTC" in published(home)["awareness.md"].decode()
        assert {word["word"] for word in snapshot["keywords"]} == {
            "entrance",
            "door",
            "lock",
            "dentist",
            "checkup",
            "clinic",
            "landlord",
            "invoice",
            "plumber",
        }
        state = cli("status", "--home", home.root, "--as-of", AS_OF)
        assert "2026-03-31T06:00Z" in state.out
        assert "http_5xx" in state.out
        failed = cli("status", "--home", home.root, "--as-of", AS_OF, "--json").json["failed"]
        assert [(item["window"], item["error_code"], item["tries"]) for item in failed] == [("2026-03-31T06:00Z", "http_5xx", 1)]
        assert failed[0]["next_try_at"] == "2026-04-01T12:20:00Z"
        assert sorted(key for key, _ in materializations(home, "observations") if key in KEYS) == [KEYS[0], *KEYS[2:]]

        broken.clear()
        server.requests.clear()
        second = cli("run", "--home", home.root, "--as-of", "2026-04-01T12:30Z")
        assert second.code == 0
        assert asked(server) == [KEYS[1]]
    snapshot = json.loads(published(home)["snapshot.json"])
    assert (snapshot["status"], snapshot["reasons"], snapshot["watermark"]) == ("ok", [], "2026-04-01T12:00:00Z")
    assert "degraded" not in published(home)["awareness.md"].decode()
    assert concepts(home) == concepts(copied(finished, tmp_path / "undisturbed"))


def test_a_spent_token_budget_ends_the_run_cleanly_and_the_next_goes_on(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = small(tmp_path / "home")
    with FakeServer(answer) as server:
        ask(monkeypatch, server, concurrency="1", token_budget="200")  # a call costs 110
        first = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert first.code == 0, first.text
        assert asked(server) == list(KEYS[:2])
        assert "2 windows asked about" in first.out
        assert "token budget" in first.out
        assert "2 windows wait" in first.out
        state = cli("status", "--home", home.root, "--as-of", AS_OF, "--json").json
        assert [(item["window"], item["tries"]) for item in state["due"]] == [(KEYS[2], 0), (KEYS[3], 0)]
        assert (state["status"], state["watermark"]) == ("degraded", "2026-03-31T18:00:00Z")
        second = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert second.code == 0
        assert asked(server) == list(KEYS)
    assert concepts(home) == concepts(copied(finished, tmp_path / "undisturbed"))
    assert json.loads(published(home)["snapshot.json"])["status"] == "ok"


def test_a_chosen_window_or_range_is_asked_about_again(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = copied(finished, tmp_path / "home")
    before = concepts(home), memory(home, "SELECT id FROM concepts ORDER BY 1")
    with FakeServer(answer) as server:
        ask(monkeypatch, server)
        assert cli("run", "--home", home.root, "--as-of", AS_OF, "--window", "2026-03-31T00:00Z..2026-03-31T18:00Z").code == 0
        assert sorted(asked(server)) == [KEYS[1], KEYS[2]]
    assert (concepts(home), memory(home, "SELECT id FROM concepts ORDER BY 1")) == before


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("2026-03-31T07:00Z", "is not the start of a 6-hour window; the one that holds it is 2026-03-31T06:00Z"),
        ("tuesday", "is not a time"),
        ("2026-03-31T06:00Z..", "is not a time"),
        ("2026-03-31T06:00Z..2026-03-30T06:00Z", "ends before it begins"),
    ],
)
def test_a_window_that_is_none_is_refused_before_anything_is_done(finished: Path, tmp_path: Path, key: str, reason: str) -> None:
    home = Home(tmp_path / "home")
    done = cli("run", "--home", home.root, "--as-of", AS_OF, "--window", key)
    assert done.code in (1, 2)
    assert reason in " ".join(done.err.split())
    assert not home.root.exists()


def test_many_windows_are_not_asked_about_without_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"2026-03-{1 + n // 4:02d}T{6 * (n % 4) + 1:02d}:00:00Z", "house", "the entrance door cannot be locked any more") for n in range(41)]
    home = small(tmp_path / "home", rows)
    with FakeServer(answer) as server:
        ask(monkeypatch, server)
        done = cli("run", "--home", home.root, "--as-of", "2026-03-20T00:00Z")
        assert done.code == 1
        assert "41 windows with 41 rows are due" in done.err
        assert "--yes" in done.err
        assert server.requests == []


def month(home: Home) -> list[str]:
    """Thirty windows, one message each, all read; returns their keys."""
    rows = [(f"2026-03-{1 + n // 4:02d}T{6 * (n % 4) + 1:02d}:00:00Z", f"room-{n}", f"matter number {n} is being talked about") for n in range(30)]
    small(home.root, rows)
    ingest(home, load_settings(), instant(AS_OF))
    return [f"2026-03-{1 + n // 4:02d}T{6 * (n % 4):02d}:00Z" for n in range(30)]


def record(home: Home, keys: list[str]) -> Model:
    """A model that repeats one recorded reply for each of these windows."""
    lines = []
    with duck.reading(home.warehouse, MIGRATIONS) as con:
        for number, key in enumerate(keys):
            word = chr(ord("a") + number % 26) * 2 + chr(ord("a") + number // 26)
            concept = {"lines": [1], "keywords": [f"ba{word}", f"co{word}", f"di{word}"], "kind": "ongoing", "ttl_days": 40}
            lines.append(json.dumps(reply_line(transcript(con, window_from_key(key, 6)), {"concepts": [concept]})))
    path = home.root / "replies.jsonl"
    path.write_text("\n".join(lines))
    return Model(name=f"replay:{path}")


def test_a_backfill_of_thirty_windows_is_one_run_and_keeps_what_succeeds(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    keys = month(home)

    def backfill(chosen: list[str], model: Model) -> bool:
        tags = {"subconscious/as_of": AS_OF, **range_tags(window_from_key(chosen[0], 6), window_from_key(chosen[-1], 6))}
        return execute(home, "index", tags, model=model).success

    assert not backfill(keys[5:10], record(home, [key for key in keys if key != keys[7]]))
    kept = [keys[5], keys[6], keys[8], keys[9]]
    assert sorted(key or "" for key, _ in materializations(home, "observations")) == kept
    assert memory(home, "SELECT status, count(*) FROM extractions GROUP BY 1 ORDER BY 1") == [("failed", 1), ("ok", 4)]

    assert backfill(keys, record(home, keys))
    made = materializations(home, "observations")[4:]
    assert sorted(key or "" for key, _ in made) == keys
    assert sorted(key or "" for key, metadata in made if metadata["status"] == "nothing new to read") == kept
    assert memory(home, "SELECT status, count(*) FROM extractions GROUP BY 1") == [("ok", 30)]


def test_each_bad_file_has_its_line_and_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = small(tmp_path / "home")
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("users.json", "[]" * 2_000)
    for name, content in {
        "empty.jsonl": b"",
        "binary.jsonl": bytes(range(256)) * 40,
        "export.zip": whole.getvalue()[: len(whole.getvalue()) // 2],
        "notes.xyz": b"just some words\nof no format\n",
        "garbage.jsonl": "".join(
            "%% no json %%\n" if n % 10 == 3 else row(f"2026-03-30T09:{n:02d}:00Z", "house", f"good line {n}") for n in range(50)
        ).encode(),
    }.items():
        (home.sources / name).write_bytes(content)
    home.sources_yaml.write_text(
        "sources:\n" + "".join(f"  - {{id: s{n}, path: {name!r}}}\n" for n, name in enumerate(
            ["chat.jsonl", "empty.jsonl", "binary.jsonl", "export.zip", "notes.xyz", "garbage.jsonl", "lost.mbox"]))
    )  # fmt: skip
    with FakeServer(answer) as server:
        ask(monkeypatch, server)
        done = cli("run", "--home", home.root, "--as-of", AS_OF)
    assert done.code == 0, done.text
    state = cli("status", "--home", home.root, "--as-of", AS_OF)
    summary, shown = " ".join(done.out.split()), " ".join(state.out.split())
    for name in ("empty.jsonl", "binary.jsonl", "export.zip", "notes.xyz", "lost.mbox"):
        assert f"{name} (file): " in summary, name
        assert f"{name} file " in shown, name
    assert "garbage.jsonl (line 4): " in summary
    assert "source s6 cannot be read" in summary
    assert "source s6 cannot be read" in shown
    facts = {
        item["source_id"]: (item["rows"], item["errors"]) for item in cli("status", "--home", home.root, "--as-of", AS_OF, "--json").json["sources"]
    }
    assert facts == {"s0": (4, 0), "s1": (0, 1), "s2": (0, facts["s2"][1]), "s3": (0, 1), "s4": (0, facts["s4"][1]), "s5": (45, 5), "s6": (0, 1)}
    assert facts["s2"][1] > 0
    assert facts["s4"][1] > 0
    assert len(concepts(home)) == 4
