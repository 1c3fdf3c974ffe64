"""What a window says replaces what it said before, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from place import AS_OF, Place, result, said, span

from subconscious_pipeline.errors import StoreError
from subconscious_pipeline.extraction.types import ErrorCode
from subconscious_pipeline.memory import observe, store

W1, W2 = "2026-03-30T06:00Z", "2026-03-30T12:00Z"
DOOR = said("door entrance lock", span("flat", "2026-03-30T07:00Z", "2026-03-30T07:30Z"))
DENTIST = said("dentist crown molar", span("ana", "2026-03-30T08:00Z"))
QUOTE = said("quote locksmith invoice", span("flat", "2026-03-30T13:00Z"))


def everything(place: Place) -> list[list[tuple[Any, ...]]]:
    """All of memory but the ledger and the revision."""
    tables = ("concepts", "keywords", "sources", "observations", "observation_spans", "concept_state", "tombstones", "merges")
    return [place.memory(f"FROM {table} ORDER BY ALL") for table in tables]


@pytest.fixture
def filled(place: Place) -> Place:
    place.persist(result(W1, DOOR, DENTIST), result(W2, QUOTE))
    place.project()
    return place


def test_the_same_reply_once_more_changes_nothing_and_keeps_all_ids(filled: Place) -> None:
    before = everything(filled)
    filled.persist(result(W1, DOOR, DENTIST))
    assert filled.project().changed is False
    assert everything(filled) == before


def test_another_reply_inherits_the_concepts_whose_spans_it_covers(filled: Place) -> None:
    assert filled.concepts() == {1: {"door", "entrance", "lock"}, 2: {"dentist", "crown", "molar"}, 3: {"quote", "locksmith", "invoice"}}
    changed = said("repair cylinder key", span("flat", "2026-03-30T07:00Z", "2026-03-30T07:20Z"))
    filled.persist(result(W1, DENTIST, changed))
    filled.project()
    assert filled.concepts() == {1: {"repair", "cylinder", "key"}, 2: {"dentist", "crown", "molar"}, 3: {"quote", "locksmith", "invoice"}}


def test_what_covers_less_than_half_is_observed_afresh(filled: Place) -> None:
    elsewhere = said("repair cylinder key", span("flat", "2026-03-30T07:20Z", "2026-03-30T07:59Z"))
    filled.persist(result(W1, elsewhere, DENTIST))
    filled.project()
    assert filled.concepts() == {2: {"dentist", "crown", "molar"}, 3: {"quote", "locksmith", "invoice"}, 4: {"repair", "cylinder", "key"}}
    assert filled.memory("SELECT concept_id, reason FROM tombstones") == [(1, "superseded")]


def test_claims_and_tiers_survive_a_re_run(filled: Place) -> None:
    filled.write_memory("UPDATE concept_state SET claimed = true, tier = 'LONG_TERM', score = 0.25 WHERE concept_id = 1")
    filled.persist(result(W1, replace(DOOR, words=("gate", "fence", "hinge"))))
    filled.project()
    assert filled.memory("SELECT claimed, tier, score FROM concept_state WHERE concept_id = 1") == [(True, "LONG_TERM", 0.25)]


def test_a_failure_keeps_what_the_window_said_before(filled: Place) -> None:
    before = everything(filled)
    assert filled.persist(result(W1, error=ErrorCode.INVALID, input_hash="h2")) == ["failed"]
    filled.project()
    assert everything(filled) == before


def test_nothing_left_to_say_takes_the_windows_concepts_away(filled: Place) -> None:
    assert filled.persist(result(W1)) == ["empty"]
    assert filled.project().tombstoned == 2
    assert filled.concepts() == {3: {"quote", "locksmith", "invoice"}}
    assert filled.memory("SELECT concept_id, reason FROM tombstones ORDER BY 1") == [(1, "superseded"), (2, "superseded")]


def test_a_re_run_leaves_what_sessions_said(filled: Place) -> None:
    with store.writing(filled.home, filled.settings) as con:
        observe.insert(
            con,
            [said("parking permit fee", span("s1", "2026-03-30T07:10Z", kind="session"))],
            "session",
            AS_OF.replace(day=30, month=3, hour=6),
            [None],
            "s1",
        )
    filled.persist(result(W1))
    filled.project()
    assert set(map(frozenset, filled.concepts().values())) == {frozenset({"quote", "locksmith", "invoice"}), frozenset({"parking", "permit", "fee"})}


def test_identity_is_kept_even_when_a_re_run_no_longer_says_it(filled: Place) -> None:
    filled.write_memory("UPDATE concept_state SET tier = 'IDENTITY_CORE' WHERE concept_id = 2")
    filled.persist(result(W1, DOOR))
    filled.project()
    assert filled.concepts()[2] == {"dentist", "crown", "molar"}
    filled.persist(result(W1, DOOR, replace(DENTIST, words=("dentist", "bridge", "molar"))))
    filled.project()
    assert filled.concepts()[2] == {"dentist", "bridge", "molar"}


def test_an_observation_that_points_nowhere_is_refused_and_nothing_of_it_stays(place: Place) -> None:
    with pytest.raises(StoreError, match="without any source pointer"):
        place.persist(result(W1, DOOR, replace(DENTIST, spans=())))
    assert place.memory("SELECT count(*) FROM observations") == [(0,)]
    assert place.memory("SELECT count(*) FROM extractions") == [(0,)]
