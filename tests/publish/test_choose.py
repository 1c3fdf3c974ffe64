"""Which words are published: under a hard budget, those that open the most of what is alive."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.publish import tokens
from subconscious_pipeline.publish.choose import SEPARATOR, Candidate, choose, standing


def cost_of_one(text: str) -> int:
    """Every word costs one token, separators nothing."""
    return len(text.replace(",", " ").split())


def concept(number: int, words: str, salience: float = 1.0) -> list[Candidate]:
    return [Candidate(number, word, rank, salience) for rank, word in enumerate(words.split())]


def test_each_concept_is_opened_before_any_is_opened_twice() -> None:
    candidates = [*concept(1, "door lock key"), *concept(2, "dentist crown molar"), *concept(3, "tram ticket fine")]
    assert choose(candidates, 3, cost_of_one) == ["dentist", "door", "tram"]


def test_a_word_that_opens_two_concepts_is_worth_both() -> None:
    candidates = [*concept(1, "door landlord"), *concept(2, "boiler landlord")]
    assert choose(candidates, 1, cost_of_one) == ["landlord"]


def test_the_more_present_concept_comes_first_and_a_faded_one_is_not_forgotten() -> None:
    candidates = [*concept(1, "door lock", 0.2), *concept(2, "dentist crown", 0.9), *concept(3, "tram ticket", 0.0)]
    assert choose(candidates, 1, cost_of_one) == ["dentist"]
    assert choose(candidates, 2, cost_of_one) == ["crown", "dentist"]
    assert choose(candidates, 6, cost_of_one) == ["crown", "dentist", "door", "lock", "ticket", "tram"]


def test_of_two_words_with_equal_worth_the_cheaper_one_is_taken() -> None:
    assert choose([Candidate(1, "internationalization", 0, 1.0), Candidate(1, "door", 0, 1.0)], 2, tokens.count) == ["door"]


def test_a_word_stands_for_its_concept_by_its_place() -> None:
    assert [standing(rank) for rank in (0, 5, 10)] == pytest.approx([1.0, 1 / 3, 0.2])


def test_nothing_to_choose_from_is_nothing() -> None:
    assert choose([], 100, tokens.count) == []
    assert choose(concept(1, "internationalization"), 1, tokens.count) == []


WORDS = st.from_regex(r"[a-z][a-z0-9]{1,9}(-[a-z]{1,5})?", fullmatch=True)
CANDIDATES = st.lists(
    st.builds(Candidate, st.integers(1, 9), WORDS, st.integers(0, 7), st.floats(0, 1)), max_size=40, unique_by=lambda c: (c.concept_id, c.word)
)


@given(CANDIDATES, st.integers(1, 60), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_budget_is_hard_the_order_alphabetical_and_the_choice_the_same_for_any_order(
    candidates: list[Candidate], budget: int, random: object
) -> None:
    chosen = choose(candidates, budget, tokens.count)
    assert tokens.count(SEPARATOR.join(chosen)) <= budget
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= {candidate.word for candidate in candidates}
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose(shuffled, budget, tokens.count) == chosen
    if not chosen:
        assert all(tokens.count(SEPARATOR + candidate.word) > budget for candidate in candidates)
