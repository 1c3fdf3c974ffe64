"""Token counts of keyword lists, against literal counts of the cl100k_base encoder."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.publish.tokens import count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 1),
        (" ", 1),
        ("door", 1),
        ("entrance", 2),
        ("entrance, door, lock", 6),
        ("deposit, landlord, inventory, parquet, scratch", 10),
        ("audioguide", 3),
        ("hazelnut, allergy, epinephrine, mother", 13),
        ("itv", 2),
        ("locksmith, cylinder, key", 6),
        ("permutations", 2),
        ("masons-ridding", 4),
        ("check-in", 2),
        ("covid-19", 4),
        ("b12", 2),
        ("h264-codec", 4),
        ("2fa", 2),
        ("word, 3d-printer", 7),
        ("20260414", 3),
        ("x1234y", 4),
        ("qzxvkwj", 5),
        ("zqxjkvbpwm", 6),
        ("pgbouncer, postgres, migration", 7),
        ("a,b,c", 3),
        ("a,-b", 3),
        ("door  lock", 3),
        (" door ", 2),
        ("--", 1),
        ("well-being, e-mail, t-shirt", 8),
        ("internationalization", 2),
    ],
)
def test_counts_of_lowercase_words_are_exact(text: str, expected: int) -> None:
    assert count(text) == expected


@pytest.mark.parametrize(
    ("text", "true_count", "upper_bound"),
    [("café", 2, 5), ("Entrance, door", 4, 10), ("# Awareness\n", 3, 12), ("<!-- subconscious:begin -->", 5, 27), ("lock door Ana", 3, 6)],
)
def test_other_characters_are_counted_by_their_bytes(text: str, true_count: int, upper_bound: int) -> None:
    assert true_count <= count(text) == upper_bound


@settings(max_examples=50, deadline=None)
@given(st.lists(st.from_regex(r"[a-z][a-z0-9]{1,15}(-[a-z0-9]{1,15})?", fullmatch=True), min_size=1, max_size=20))
def test_each_further_word_costs_the_same_wherever_it_stands(words: list[str]) -> None:
    separators = len(words) - 1
    assert count(", ".join(words)) == count(words[0]) + sum(count(" " + word) for word in words[1:]) + separators


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40))
def test_no_count_exceeds_the_bytes(text: str) -> None:
    assert (count(text) > 0) == bool(text)
    assert count(text) <= len(text.encode("utf-8"))
