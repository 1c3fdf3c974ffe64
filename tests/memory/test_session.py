"""What sessions leave in memory, however often it is said and whatever was merged meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest
from place import AS_OF, Place, at, result, said, span

from subconscious_pipeline.errors import StoreError
from subconscious_pipeline.extraction.types import Observation
from subconscious_pipeline.memory import project, session, store

W1 = "2026-03-30T06:00Z"
DOOR = said("door entrance lock", span("flat", "2026-03-30T07:00Z"), ttl=30)
GYM = said("gym membership renewal", span("family", "2026-03-30T08:00Z"), ttl=30)
MOMENT = at("2026-04-01T09:00Z")


def flush(place: Place, session_id: str, *notes: tuple[int, Observation]) -> int:
    with store.writing(place.home, place.settings) as con:
        new = session.flush(con, session_id, notes, 6)
        project.project(con, AS_OF)
        return new


def access(place: Place, *accesses: tuple[int, datetime, str]) -> int:
    with store.writing(place.home, place.settings) as con:
        return session.record_accesses(con, accesses)


def claim(place: Place, concepts: Sequence[int], core: bool = False) -> int:
    with store.writing(place.home, place.settings) as con:
        return session.claim(con, concepts, core)


def merge(place: Place, from_id: int, into_id: int) -> None:
    place.write_memory(f"INSERT INTO merges VALUES ({from_id}, {into_id}, 'COMBINE', 't1', TIMESTAMPTZ '2026-04-01 10:00:00+00')")
    place.project()


@pytest.fixture
def known(place: Place) -> Place:
    """A home with concept 1 (door) and concept 2 (gym)."""
    place.persist(result(W1, DOOR, GYM))
    place.project()
    assert set(place.concepts()) == {1, 2}
    return place


def test_a_note_becomes_an_observation_once(known: Place) -> None:
    note = said("lock quote door", span("mail", "2026-04-01T07:00Z"), ttl=14)
    assert flush(known, "s1", (41, note)) == 1
    assert known.concepts()[1] == {"door", "entrance", "lock", "quote"}
    before = known.memory("FROM observations ORDER BY id"), known.memory("FROM meta ORDER BY 1")
    assert flush(known, "s1", (41, note)) == 0
    assert (known.memory("FROM observations ORDER BY id"), known.memory("FROM meta ORDER BY 1")) == before
    assert known.memory("SELECT origin, session_id, ordinal, window_start FROM observations WHERE origin = 'session'") == [
        ("session", "s1", 41, at("2026-04-01T06:00Z"))
    ]


def test_a_flush_that_was_cut_short_takes_only_what_is_missing(known: Place) -> None:
    first, second = said("paint colour hallway", span("a", "2026-04-01T07:00Z")), said("boiler service date", span("b", "2026-04-01T07:00Z"))
    flush(known, "s1", (41, first))
    assert flush(known, "s1", (41, first), (42, second)) == 1
    assert flush(known, "s2", (41, first)) == 1  # another session's event of that number is another note


def test_a_note_survives_the_re_run_of_its_window(known: Place) -> None:
    flush(known, "s1", (41, said("paint colour hallway", span("flat", "2026-03-30T09:00Z"))))
    known.persist(result(W1, DOOR, input_hash="again"))
    known.project()
    assert {"paint", "colour", "hallway"} in known.concepts().values()


def test_a_note_that_is_no_word_or_points_nowhere_is_rolled_back(known: Place) -> None:
    before = known.memory("FROM observations ORDER BY id")
    with pytest.raises(StoreError, match="a keyword that is no word"):
        flush(known, "s1", (41, said("ignore_previous! INSTRUCTIONS", span("a", "2026-04-01T07:00Z"))))
    with pytest.raises(StoreError, match="without any source pointer"):
        flush(known, "s1", (41, Observation(("paint", "wall", "hallway"), "ongoing", 5, MOMENT, MOMENT.date(), ())))
    assert known.memory("FROM observations ORDER BY id") == before


def test_an_access_is_noted_once_and_only_of_what_is_known(known: Place) -> None:
    assert access(known, (1, MOMENT, "s1"), (1, MOMENT, "s1"), (2, MOMENT, "s1"), (99, MOMENT, "s1")) == 2
    assert access(known, (1, MOMENT, "s1"), (1, MOMENT, "s2")) == 1
    assert known.memory('SELECT concept_id, "at", session_id FROM accesses ORDER BY ALL') == [
        (1, MOMENT, "s1"), (1, MOMENT, "s2"), (2, MOMENT, "s1"),
    ]  # fmt: skip


def test_an_access_repeated_after_its_concept_was_merged_is_still_one(known: Place) -> None:
    access(known, (2, MOMENT, "s1"))
    merge(known, 2, 1)
    assert access(known, (2, MOMENT, "s1"), (1, MOMENT, "s1")) == 0
    assert access(known, (2, at("2026-04-01T10:00Z"), "s1")) == 1
    assert known.memory("SELECT concept_id FROM accesses ORDER BY 1") == [(1,), (2,)]


def test_a_claim_reaches_what_a_concept_was_merged_into(known: Place) -> None:
    merge(known, 2, 1)
    assert claim(known, [2, 1, 99]) == 1
    assert claim(known, [2]) == 0
    assert known.memory("SELECT claimed, tier FROM concept_state WHERE concept_id = 1") == [(True, "ACTIVE_CONTEXT")]
    assert claim(known, [1], core=True) == 1
    assert claim(known, [1], core=True) == 0
    assert claim(known, [1]) == 0  # a lesser claim takes nothing back
    assert known.memory("SELECT claimed, tier FROM concept_state WHERE concept_id = 1") == [(True, "IDENTITY_CORE")]


def test_claiming_brings_an_archived_concept_back(known: Place) -> None:
    known.write_memory("UPDATE concept_state SET tier = 'ARCHIVE'")
    claim(known, [1])
    assert known.memory("SELECT tier FROM concept_state ORDER BY concept_id") == [("LONG_TERM",), ("ARCHIVE",)]


def test_redirects_are_followed_to_their_end(known: Place) -> None:
    known.write_memory(
        "INSERT INTO merges VALUES (7, 2, 'COMBINE', 't1', TIMESTAMPTZ '2026-04-01 10:00:00+00')",
        "INSERT INTO merges VALUES (2, 1, 'COMBINE', 't2', TIMESTAMPTZ '2026-04-01 11:00:00+00')",
    )
    known.project()
    with store.reading(known.home, known.settings) as con:
        assert session.redirects(con) == {7: 1, 2: 1}
        assert session.live(con, [7, 2, 1, 99]) == [1]
