from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from subconscious_pipeline.agent.client import NotPublished, Subconscious, UnknownConcept, UnknownPointer
from subconscious_pipeline.errors import StoreError
from subconscious_pipeline.home import Home
from tests.agent import homes
from tests.agent.homes import AS_OF

DOOR, MACHINE, DENTIST, CONTRACT = 1, 2, 3, 4  # ids in the published home


def client(home: Home, now: datetime = AS_OF) -> Subconscious:
    return Subconscious(home, now=lambda: now)


def edited(home: Home, tmp_path: Path, *statements: str) -> Home:
    """A copy of a home's published index with some SQL applied."""
    copy = Home(tmp_path / "copy").create()
    shutil.copy(home.index, copy.index)
    con = sqlite3.connect(copy.index)
    with con:
        for statement in statements:
            con.execute(statement)
    con.close()
    return copy


def test_keywords_are_what_the_snapshot_file_says(published: Home) -> None:
    assert client(published).keywords().as_json() == json.loads((published.published / "snapshot.json").read_text(encoding="utf-8"))


def test_a_word_names_every_live_concept_that_holds_it(published: Home) -> None:
    words = {item.word: item.concepts for item in client(published).keywords().keywords}
    assert words["door"] == (DOOR,)
    assert words["invoice"] == (DENTIST, CONTRACT)
    assert list(words) == sorted(words)


def test_expired_concepts_take_their_words_and_tokens_with_them(published: Home) -> None:
    now = datetime(2026, 4, 6, tzinfo=UTC)  # the door's last day was 5 April
    found = client(published, now).keywords()
    assert "door" not in [item.word for item in found.keywords]
    assert {"invoice", "dentist", "washing-machine"} <= {item.word for item in found.keywords}
    assert 0 < found.tokens < client(published).keywords().tokens


def test_a_concept_lives_through_the_whole_of_its_last_day(published: Home) -> None:
    last = datetime(2026, 4, 5, 23, 59, 59, tzinfo=UTC)
    assert client(published, last).lookup("door").concepts[0].expires == date(2026, 4, 5)
    assert client(published, last + timedelta(seconds=1)).lookup("door").concepts == ()


def test_a_word_shared_with_an_expired_concept_still_opens_the_other(published: Home) -> None:
    now = datetime(2026, 4, 20, tzinfo=UTC)  # the dentist's last day was 14 April
    words = {item.word: item.concepts for item in client(published, now).keywords().keywords}
    assert words["invoice"] == (CONTRACT,)


def test_an_identity_core_concept_outlives_its_date(published: Home, tmp_path: Path) -> None:
    core = edited(published, tmp_path, f"UPDATE concepts SET tier = 'IDENTITY_CORE' WHERE id = {DOOR}")
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert [item.word for item in client(core, now).keywords().keywords] == ["door", "entrance", "landlord", "repair"]
    assert client(core, now).lookup("door").concepts[0].id == DOOR


def test_an_old_snapshot_says_that_it_is_stale(published: Home) -> None:
    watermark = datetime(2026, 4, 1, 12, tzinfo=UTC)
    assert client(published, watermark + timedelta(hours=30)).keywords().status == "ok"
    found = client(published, watermark + timedelta(hours=30, minutes=1)).keywords()
    assert found.status == "degraded"
    assert found.reasons == (f"stale: nothing after 2026-04-01T12:00:00Z has been read; run `subconscious run --home {published.root}`",)


def test_a_stale_snapshot_keeps_the_reasons_it_was_published_with(published: Home, tmp_path: Path) -> None:
    copy = edited(published, tmp_path, """UPDATE meta SET value = '["source x cannot be read"]' WHERE key = 'reasons'""")
    assert client(copy).keywords().reasons == ("source x cannot be read",)
    assert [reason[:8] for reason in client(copy, AS_OF + timedelta(days=2)).lookup("contract").reasons] == ["source x", "stale: n"]


@pytest.mark.parametrize(
    ("asked", "matched", "concepts"),
    [
        ("doors", ["door"], [DOOR]),
        ("Repairing", ["repair"], [DOOR]),
        ("washing machines", ["washing-machine"], [MACHINE]),
        ("washing-machine", ["washing-machine"], [MACHINE]),
        ("machine", ["washing-machine"], [MACHINE]),
        ("dentist-invoices", ["dentist", "invoice"], [DENTIST, CONTRACT]),
        ("the door of the dentist", ["dentist", "door"], [DOOR, DENTIST]),
        ("dentíst", ["dentist"], [DENTIST]),
        ("garden", [], []),
        ("", [], []),
        ("%' OR 1=1 --", [], []),
    ],
)
def test_words_match_by_stem_and_by_part(published: Home, asked: str, matched: list[str], concepts: list[int]) -> None:
    found = client(published).lookup(asked)
    assert list(found.matched) == matched
    assert sorted(concept.id for concept in found.concepts) == sorted(concepts)


def test_a_lookup_has_the_documented_shape(published: Home) -> None:
    assert client(published).lookup("doors").as_json() == {
        "matched": ["door"],
        "concepts": [
            {
                "id": DOOR,
                "expires": "2026-04-05",
                "tier": "ACTIVE_CONTEXT",
                "keywords": ["door", "entrance", "landlord", "repair"],
                "sources": [
                    {
                        "source_type": "messaging",
                        "source_ref": "house",
                        "time_start": "2026-03-30T08:10:00Z",
                        "time_end": "2026-03-31T09:00:00Z",
                        "spans": [["2026-03-30T08:10:00Z", "2026-03-30T08:10:00Z"], ["2026-03-31T09:00:00Z", "2026-03-31T09:00:00Z"]],
                    }
                ],
            }
        ],
    }


def test_the_concept_with_the_rarer_and_the_more_words_comes_first(published: Home) -> None:
    assert [concept.id for concept in client(published).lookup("invoice", "dentist").concepts] == [DENTIST, CONTRACT]
    assert [concept.id for concept in client(published).lookup("invoice", "contract", "deposit").concepts] == [CONTRACT, DENTIST]


def test_equally_relevant_concepts_come_by_id(published: Home, tmp_path: Path) -> None:
    level = edited(published, tmp_path, "UPDATE concepts SET score = 0.5")
    assert [concept.id for concept in client(level).lookup("invoice").concepts] == [DENTIST, CONTRACT]


def test_relevance_is_summed_rarity_times_half_plus_salience(published: Home, tmp_path: Path) -> None:
    known = edited(
        published, tmp_path, "UPDATE concepts SET score = 0.25", "UPDATE keywords SET rarity = 2.0 WHERE word = 'invoice'",
        "UPDATE keywords SET rarity = 3.0 WHERE word = 'dentist'",
    )  # fmt: skip
    assert {concept.id: concept.relevance for concept in client(known).lookup("invoice", "dentist").concepts} == {DENTIST: 3.75, CONTRACT: 1.5}


def test_archived_and_unpublished_words_can_be_looked_up(published: Home, tmp_path: Path) -> None:
    copy = edited(published, tmp_path, "DELETE FROM words", f"UPDATE concepts SET tier = 'ARCHIVE' WHERE id = {DOOR}")
    assert client(copy).keywords().keywords == ()
    assert client(copy).lookup("entrance").concepts[0].tier == "ARCHIVE"


def test_a_task_finds_the_words_it_holds_and_no_filler(published: Home, tmp_path: Path) -> None:
    copy = edited(published, tmp_path, f"INSERT INTO keywords VALUES ({DOOR}, 'please', 'pleas', 1.0)")
    found = client(copy).lookup(task="Please ask the landlord: when do the washing machines come? It is 2026!")
    assert list(found.matched) == ["landlord", "washing-machine"]
    assert {concept.id for concept in found.concepts} == {DOOR, MACHINE}
    assert all(source.spans for concept in found.concepts for source in concept.sources)


def test_a_long_task_is_no_trouble(published: Home) -> None:
    words = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}x" for n in range(3_000))
    assert list(client(published).lookup(task=f"{words} door").matched) == ["door"]


def test_words_and_task_exclude_each_other(published: Home) -> None:
    with pytest.raises(ValueError, match="either words or a task"):
        client(published).lookup("door", task="the door")
    with pytest.raises(ValueError, match="either words or a task"):
        client(published).lookup()


def test_a_merged_id_leads_to_the_concept_it_is_in(published: Home, tmp_path: Path) -> None:
    copy = edited(published, tmp_path, f"INSERT INTO redirects VALUES (91, 90), (90, {DENTIST})")
    assert client(copy).concept(91).id == DENTIST
    assert [concept.id for concept in client(copy).lookup("91", "door").concepts] == [DENTIST, DOOR]


def test_an_unknown_or_expired_id_is_an_error(published: Home) -> None:
    with pytest.raises(UnknownConcept, match="no live concept 77"):
        client(published).concept(77)
    with pytest.raises(UnknownConcept):
        client(published, datetime(2026, 4, 6, tzinfo=UTC)).concept(DOOR)


def test_without_a_published_index_the_next_step_is_said(home: Home) -> None:
    for ask in (lambda: client(home).keywords(), lambda: client(home).lookup("door"), lambda: client(home).concept(1)):
        with pytest.raises(NotPublished, match=r"nothing has been published .* run `subconscious run --home "):
            ask()


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be looked at", b"SQLite format 3\x00" + b"\0" * 500])
def test_a_damaged_index_is_an_error_that_says_what_to_do(home: Home, content: bytes) -> None:
    home.index.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        client(home).keywords()


def test_an_index_of_another_schema_is_refused(published: Home, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="schema 2"):
        client(edited(published, tmp_path, "UPDATE meta SET value = '2' WHERE key = 'schema'")).keywords()


def test_paths_with_odd_characters_are_opened(published: Home, tmp_path: Path) -> None:
    odd = Home(tmp_path / "a b?c#d%20é").create()
    shutil.copy(published.index, odd.index)
    assert client(odd).keywords().keywords


def test_reading_a_published_index_needs_no_write_access(published: Home, tmp_path: Path) -> None:
    copy = edited(published, tmp_path)
    copy.published.chmod(0o500)
    try:
        assert client(copy).lookup("door").concepts
        assert sorted(path.name for path in copy.published.iterdir()) == ["index.sqlite"]
    finally:
        copy.published.chmod(0o700)


def test_every_pointer_and_span_of_a_lookup_can_be_read(published: Home) -> None:
    mind = client(published)
    source = mind.lookup("door").concepts[0].sources[0]
    whole = mind.read(source.source_type, source.source_ref, source.time_start, source.time_end)
    assert [item.text for item in whole.items] == ["the entrance door is broken", "ok", "still no repair of the door"]
    assert [[item.text for item in mind.read("messaging", "house", *span).items] for span in source.spans] == [
        ["the entrance door is broken"],
        ["still no repair of the door"],
    ]


def test_a_reading_has_the_documented_shape(published: Home) -> None:
    found = client(published).read("messaging", "house", None, datetime(2026, 3, 30, 8, 10, tzinfo=UTC))
    assert found.as_json() == {
        "items": [
            {
                "at": "2026-03-30T08:10:00Z",
                "author": "Nora",
                "text": "the entrance door is broken",
                "source_type": "messaging",
                "source_ref": "house",
                "native_id": "m1",
            }
        ]
    }


def test_a_known_ref_with_nothing_in_range_says_what_there_is(published: Home) -> None:
    found = client(published).read("messaging", "family", datetime(2027, 1, 1, tzinfo=UTC))
    assert found.items == ()
    assert found.note == "messaging 'family' holds nothing in this range; it has 2 in all, from 2026-03-31T10:00:00Z to 2026-03-31T20:00:00Z"


def test_an_unknown_type_or_ref_is_an_error(published: Home, home: Home) -> None:
    with pytest.raises(UnknownPointer, match=r"'garage'; take type and ref as `subconscious lookup WORD"):
        client(published).read("messaging", "garage")
    with pytest.raises(UnknownPointer, match="the index points into messaging"):
        client(published).read("chat", "house")
    with pytest.raises(UnknownPointer, match="holds no messages yet"):
        client(home).read("messaging", "house")


def test_a_publication_meanwhile_is_seen_by_the_next_call(home: Home) -> None:
    homes.write_rows(home, homes.ROWS[:1])
    homes.run(home)
    mind = client(home)
    before = mind.keywords()
    homes.write_rows(home, homes.ROWS)
    homes.run(home)
    assert "dentist" not in [item.word for item in before.keywords]
    assert "dentist" in [item.word for item in mind.keywords().keywords]


def test_importing_the_client_costs_nothing_heavy() -> None:
    code = (
        "import sys; import subconscious_pipeline.agent.client, subconscious_pipeline.agent.cli; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'pydantic', 'pydantic_settings', 'polars', 'duckdb', 'dagster', 'openai', 'instructor', 'typer', 'rich', 'msgspec'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
