"""Which concept an observation joins, and which old one it replaces. Pure."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.memory.merge import CORE_SIZE, Sighting, Trace, assign, core, inherit, overlap, rarity, span_overlap
from subconscious_pipeline.words import stem

ONE = dict.fromkeys("abcdefghij", 1.0)


def test_rarity_falls_with_the_number_of_observations_that_hold_a_word() -> None:
    assert rarity(1, 1) == pytest.approx(math.log(2))
    assert rarity(1, 99) == pytest.approx(4.60517, abs=1e-5)
    assert rarity(99, 99) == pytest.approx(math.log(2))
    assert rarity(0, 4) == rarity(1, 4)


@pytest.mark.parametrize(
    ("left", "right", "weight", "expected"),
    [
        ("abcd", "abxy", {**ONE, "x": 1.0, "y": 1.0}, 0.5),
        ("abc", "abcdef", ONE, 1.0),
        ("abc", "axy", {**ONE, "x": 1.0, "y": 1.0}, 0.0),  # one shared word does not do
        ("ab", "axy", {**ONE, "x": 1.0, "y": 1.0}, 0.5),  # unless the smaller side has fewer than three
        ("abc", "def", ONE, 0.0),
        ("", "abc", ONE, 0.0),
        ("abc", "abd", {"a": 3.0, "b": 1.0, "c": 4.0, "d": 2.0}, 4 / 6),
    ],
)
def test_overlap_is_the_shared_rarity_over_that_of_the_smaller_side(left: str, right: str, weight: dict[str, float], expected: float) -> None:
    assert overlap(set(left), set(right), weight) == pytest.approx(expected)
    assert overlap(set(right), set(left), weight) == pytest.approx(expected)


def test_the_core_is_what_was_observed_most_then_alphabetical() -> None:
    counts = Counter({"zebra": 3, "apple": 1, "berry": 1, "cherry": 2, **dict.fromkeys("mnopqrs", 1)})
    assert core(counts) == {"zebra", "cherry", "apple", "berry", "m", "n", "o", "p"}
    assert len(core(counts)) == CORE_SIZE == 8


def grouped(*words: str, known: dict[int, str] | None = None) -> list[int]:
    """Concept ids of unassigned observations of these words, after known concepts."""
    sightings = [Sighting(1000 + concept, tuple(text.split()), concept) for concept, text in (known or {}).items()]
    sightings += [Sighting(number, tuple(text.split()), None) for number, text in enumerate(words)]
    found = assign(sightings, 1 + max(known or {0: ""}))
    return [found[number] for number in range(len(words))]


def test_matters_with_shared_words_join_and_others_found_concepts() -> None:
    assert grouped("door entrance lock", "entrance lock key", "dentist crown molar", "lock door cylinder") == [1, 1, 2, 1]


def test_words_are_compared_by_stem() -> None:
    assert grouped("repair elevator invoice", "repairing elevators quote") == [1, 1]


def test_an_observation_joins_the_concept_with_the_highest_overlap() -> None:
    assert grouped("door lock key handle", known={1: "door lock paint colour", 2: "door lock key locksmith"}) == [2]


def test_the_older_concept_wins_a_tie() -> None:
    assert grouped("door lock", known={1: "door paint colour", 2: "lock paper moon"}) == [1]


def test_an_observation_that_fits_two_concepts_joins_one_and_leaves_both_apart() -> None:
    both, first, second = grouped(
        "door lock crown molar", "door lock entrance", "dentist crown molar", known={1: "door lock entrance", 2: "dentist crown molar"}
    )
    assert both in (1, 2)
    assert (first, second) == (1, 2)


def test_words_outside_the_core_do_not_draw_others_in() -> None:
    core_words = "door lock key handle hinge frame glass bell".split()
    known = [Sighting(number, (*core_words, f"fringe{number}a", f"fringe{number}b", f"fringe{number}c"), 1) for number in range(5)]
    assert assign([*known, Sighting(9, ("fringe0a", "fringe0b", "fringe0c"), None)], 2) == {9: 2}
    assert assign([*known, Sighting(9, ("hinge", "bell", "fringe0a"), None)], 2) == {9: 1}


CLUSTERS = [tuple(f"{name}{letter}" for letter in "abcde") for name in ("alpha", "bravo", "charlie", "delta")]


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 4), min_size=4, max_size=5)), min_size=1, max_size=14), st.randoms())
@settings(max_examples=100, deadline=None)
def test_any_order_gives_the_same_grouping_when_no_merge_is_ambiguous(picks: list[tuple[int, set[int]]], random: object) -> None:
    observations = [(number, cluster, tuple(CLUSTERS[cluster][word] for word in sorted(chosen))) for number, (cluster, chosen) in enumerate(picks)]
    shuffled = list(observations)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def partition(order: list[tuple[int, int, tuple[str, ...]]]) -> set[frozenset[int]]:
        found = assign((Sighting(number, words, None) for number, _, words in order), 1)
        return {frozenset(number for number in found if found[number] == concept) for concept in found.values()}

    truth = {frozenset(number for number, cluster, _ in observations if cluster == which) for which in range(4)} - {frozenset()}
    assert partition(observations) == partition(shuffled) == truth


@given(st.lists(st.lists(st.sampled_from("door lock key dentist crown molar tram ticket".split()), min_size=1, max_size=5, unique=True), max_size=12))
@settings(max_examples=100, deadline=None)
def test_every_observation_joins_exactly_one_concept_and_known_ones_stay(all_words: list[list[str]]) -> None:
    sightings = [Sighting(number, tuple(words), 7 if number == 0 else None) for number, words in enumerate(all_words)]
    found = assign(sightings, 8)
    assert set(found) == set(range(1, len(all_words)))
    assert set(found.values()) <= {7, *range(8, 8 + len(all_words))}
    for number, concept in found.items():
        others = [words for other, words in enumerate(all_words) if other < number and (found.get(other, 7) == concept)]
        assert not others or {stem(word) for word in all_words[number]} & {stem(word) for words in others for word in words}


def at(start: float, end: float, ref: str = "flat") -> tuple[str, str, float, float]:
    return ("messaging", ref, start, end)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([at(0, 9)], [at(0, 9)], 1.0),
        ([at(0, 9)], [at(5, 14)], 0.5),
        ([at(0, 9)], [at(0, 99)], 0.1),
        ([at(0, 9)], [at(10, 19)], 0.0),
        ([at(0, 9)], [at(0, 9, "other")], 0.0),
        ([at(5, 5)], [at(5, 5)], 1.0),
        ([at(0, 9), at(20, 29)], [at(0, 9)], 0.5),
        ([at(0, 9), at(0, 9)], [at(0, 9), at(5, 19)], 0.5),
        ([], [at(0, 9)], 0.0),
        ([], [], 0.0),
    ],
)
def test_span_overlap_is_the_share_of_the_larger_side(
    left: list[tuple[str, str, float, float]], right: list[tuple[str, str, float, float]], expected: float
) -> None:
    assert span_overlap(left, right) == pytest.approx(expected)
    assert span_overlap(right, left) == pytest.approx(expected)


def trace(words: str, *spans: tuple[str, str, float, float]) -> Trace:
    return Trace(tuple(words.split()), spans)


def test_a_new_observation_replaces_the_old_one_whose_spans_it_covers_best() -> None:
    old = [trace("door", at(0, 9)), trace("lock", at(10, 19)), trace("key", at(100, 109))]
    new = [trace("other", at(12, 19)), trace("words", at(0, 9)), trace("else", at(104, 120))]
    assert inherit(old, new) == {0: 1, 1: 0}


def test_one_old_observation_is_replaced_by_one_new_one_the_one_most_like_it() -> None:
    old = [trace("door lock key", at(0, 9))]
    new = [trace("paint", at(0, 9)), trace("doors locks", at(0, 9)), trace("door", at(0, 4))]
    assert inherit(old, new) == {1: 0}


def test_two_old_observations_are_not_both_replaced_by_one() -> None:
    assert inherit([trace("door", at(0, 9)), trace("lock", at(0, 9))], [trace("lock", at(0, 9))]) == {0: 1}
