"""The sample through all of Dagster with the reference replies, and what a second run does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import dagster as dg
import pytest
from extraction.fake_server import FakeServer

from subconscious_pipeline.defs.instance import instance
from subconscious_pipeline.publish.state import read_state

from .world import AS_OF, KEYS, SAMPLE_AS_OF, answer, ask, asked, cli, concepts, copied, execute, materializations, memory, published, row


def test_the_sample_ends_as_the_concepts_a_reader_would_name(demo: tuple[Path, str], tmp_path: Path) -> None:
    home = copied(demo[0], tmp_path / "home")
    found = concepts(home)
    by_word = {word: (words, expires, {span[0:2] for span in spans}, spans) for words, expires, spans in found for word in words}
    assert len(found) == 6

    words, _, sources, _ = by_word["entrance"]
    assert {"entrance", "door", "lock", "locksmith", "cylinder", "theft", "parcel"} <= set(words)
    assert {kind for kind, _ in sources} == {"messaging", "email"}
    assert len([ref for kind, ref in sources if kind == "messaging"]) >= 2, "the group chat and the direct message"

    words, _, _, spans = by_word["deposit"]
    assert {"landlord", "court", "parquet", "refund"} <= set(words)
    assert {start[:10] for _, _, start, _ in spans} == {"2026-04-13", "2026-04-15", "2026-04-16"}

    assert {kind for kind, _ in by_word["inspection"][2]} == {"email", "calendar"}
    assert by_word["allergy"][1] == "2027-04-16"

    assert "outage" not in by_word
    assert {"casino", "jackpot", "voucher", "wallet"} & set(by_word) == set()
    assert [word for word in ("casino", "jackpot", "voucher", "wallet") if any(word.encode() in data for data in published(home).values())] == []


def test_the_window_of_small_talk_is_empty_and_the_one_off_is_gone(demo: tuple[Path, str], tmp_path: Path) -> None:
    home = copied(demo[0], tmp_path / "home")
    statuses = memory(home, "SELECT strftime(window_start, '%Y-%m-%dT%H:%MZ'), status FROM extractions ORDER BY 1")
    assert [key for key, status in statuses if status == "empty"] == ["2026-04-15T18:00Z"]
    assert {status for _, status in statuses} == {"ok", "empty"}
    assert len(statuses) == 8
    assert memory(home, "SELECT reason FROM tombstones") == []  # it never became a concept: it had expired before the first projection
    assert memory(home, "SELECT count(*) FROM observations WHERE list_contains(words, 'outage')") == [(0,)]


def test_observations_are_materialized_once_a_window(demo: tuple[Path, str], tmp_path: Path) -> None:
    home = copied(demo[0], tmp_path / "home")
    made = materializations(home, "observations")
    asked_about = {key: metadata for key, metadata in made if metadata["status"] != "nothing new to read"}
    assert len(made) == len({key for key, _ in made})
    assert sorted(asked_about) == [
        "2026-04-13T06:00Z", "2026-04-13T18:00Z", "2026-04-14T06:00Z", "2026-04-14T12:00Z", "2026-04-15T06:00Z", "2026-04-15T12:00Z",
        "2026-04-15T18:00Z", "2026-04-16T18:00Z",
    ]  # fmt: skip
    assert asked_about["2026-04-15T18:00Z"]["status"] == "empty"
    first = asked_about["2026-04-13T06:00Z"]
    assert (first["status"], first["concepts"], first["model"], first["calls"]) == ("ok", 3, "replay", 1)
    assert first["words"].startswith("entrance, door, lock, building, manager, water")
    # The range reaches from the first due window to the last: the quiet ones between are done, too.
    assert len(made) == 15
    assert (min(key for key, _ in made), max(key for key, _ in made)) == ("2026-04-13T06:00Z", "2026-04-16T18:00Z")


def test_assets_say_what_they_did(demo: tuple[Path, str], tmp_path: Path) -> None:
    home = copied(demo[0], tmp_path / "home")
    (_, files), (_, again) = materializations(home, "source_files")
    assert (again["files_read"], again["files_unchanged"]) == (0, 6), "job `index` looks once more, and reads nothing twice"
    assert (files["files_read"], files["files_unchanged"], files["errors"], files["rows_new"]) == (6, 0, 0, 87)
    assert [record.data["reader"] for record in files["files"].records] == ["whatsapp", "whatsapp", "slack", "mbox", "ics", "jsonl"]
    [(_, chosen)] = materializations(home, "keyword_snapshot")
    words = (home.published / "keywords.txt").read_text().split()
    assert chosen["words"] == len(words)
    assert 0 < chosen["tokens"] <= 100
    assert chosen["status"] == "ok"
    assert all(f"**{word}**" in chosen["snapshot"] for word in words)
    for asset in ("concepts", "keywords", "sources"):
        [(_, projected)] = materializations(home, asset)
        assert projected["dagster/row_count"] == memory(home, f"SELECT count(*) FROM {asset}")[0][0]
    [(_, swept)] = materializations(home, "salience")
    assert swept["tier_ACTIVE_CONTEXT"] == 6
    rows = materializations(home, "messages")
    assert rows
    assert max(metadata["rows"] for _, metadata in rows) == 73


def test_every_asset_check_passed(demo: tuple[Path, str], tmp_path: Path) -> None:
    home = copied(demo[0], tmp_path / "home")
    names = {
        ("concepts", "no_orphans"), ("sources", "pointers_resolve"), ("keywords", "words_are_words"), ("keyword_snapshot", "no_content_in_index"),
        ("keyword_snapshot", "nothing_missing"),
    }  # fmt: skip
    with instance(home) as storage:
        for asset, name in sorted(names):
            [record] = storage.event_log_storage.get_asset_check_execution_history(dg.AssetCheckKey(dg.AssetKey(asset), name), limit=10)
            assert record.event is not None
            assert record.event.dagster_event is not None
            assert record.event.dagster_event.asset_check_evaluation_data.passed, name


def test_asset_checks_notice_a_pointer_into_nothing_and_text_in_the_index(finished: Path, tmp_path: Path) -> None:
    from subconscious_pipeline.memory import store
    from subconscious_pipeline.settings import load_settings

    home = copied(finished, tmp_path / "home")
    with store.writing(home, load_settings()) as con:
        con.execute("UPDATE observation_spans SET time_end = time_end + INTERVAL 1 MINUTE WHERE observation_id = 1")
        con.execute("INSERT INTO tombstones VALUES (90, 'told in confidence', now(), NULL)")
    result = execute(home, "publish", {"subconscious/as_of": AS_OF})
    assert result.success
    passed = {evaluation.check_name: evaluation.passed for evaluation in result.get_asset_check_evaluations()}
    assert passed == {
        "no_orphans": True, "pointers_resolve": False, "words_are_words": True, "no_content_in_index": False, "nothing_missing": True,
    }  # fmt: skip


def test_a_second_run_changes_nothing_and_a_late_message_makes_only_its_window_due(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied(finished, tmp_path / "home")
    before, revision = published(home), memory(home, "SELECT value FROM meta WHERE key = 'revision'")
    with FakeServer(answer) as server:
        ask(monkeypatch, server)
        again = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert again.code == 0
        assert "0 windows asked about" in again.out
        assert server.requests == []
        assert published(home) == before
        assert memory(home, "SELECT value FROM meta WHERE key = 'revision'") == revision

        with (home.sources / "chat.jsonl").open("a", encoding="utf-8") as file:
            file.write(row("2026-03-31T10:30:00Z", "house", "a parcel was left at the gate"))
        assert execute(home, "ingest", {"subconscious/as_of": AS_OF}).success
        state = read_state(home)
        assert state is not None
        assert [item.window for item in state.due] == ["2026-03-31T06:00Z"]
        status = cli("status", "--home", home.root, "--as-of", AS_OF, "--json").json
        assert [item["window"] for item in status["due"]] == ["2026-03-31T06:00Z"]
        assert status["windows"]["ok"] == 4
        assert status["watermark"] == "2026-03-31T06:00:00Z"

        third = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert third.code == 0
        assert asked(server) == [KEYS[1]]
        assert len(server.requests) == 1
        assert "parcel" in json.loads(published(home)["snapshot.json"])["keywords"][-1]["word"] or b"parcel" in published(home)["keywords.txt"]


def test_demo_prints_the_snapshot_a_lookup_and_raw_messages(demo: tuple[Path, str]) -> None:
    home, printed = demo
    assert (home / "published" / "awareness.md").read_text(encoding="utf-8").strip() in printed
    assert "the reference replies" in printed
    assert "asking about 8 windows" in printed
    assert 'An agent is asked: "ask the building manager about the lock of the entrance"' in printed
    assert re.search(r"It knows building, entrance, lock, manager, looks up concept #1 ", printed)
    assert "entrance" in printed.split("looks up concept")[1]
    assert printed.count("messaging ") >= 2
    assert "Las llaves están en mi buzón" in printed


def test_demo_keeps_out_of_a_folder_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    done = cli("demo", "--model", "replay", "--home", tmp_path)
    assert done.code == 1
    assert "is not empty and no earlier demo made it" in done.text
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_the_recorded_replies_are_in_step_with_sample_prompt_and_reference() -> None:
    from subconscious_pipeline.evals.reference import build_replies

    folder = Path(__file__).parents[2] / "data" / "sample"
    assert build_replies(folder) == (folder / "replies.jsonl").read_text(encoding="utf-8"), "run `make replies`"


def test_the_sample_is_read_at_its_own_date(demo: tuple[Path, str]) -> None:
    snapshot = json.loads((demo[0] / "published" / "snapshot.json").read_text())
    assert snapshot["watermark"] == "2026-04-17T00:00:00Z"
    assert snapshot["as_of"] == SAMPLE_AS_OF.replace("00:10Z", "00:00:00Z")
