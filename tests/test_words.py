"""What counts as a keyword, and as the same keyword."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import snowballstemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.words import content_words, is_word, normalize, singular, stem, tokens


@pytest.mark.parametrize("word", ["door", "b12", "check-in", "covid-19", "ab", "a" + "b" * 15, "a" * 16 + "-" + "b" * 15])
def test_a_word_is_one_lowercase_word_with_at_most_one_hyphen(word: str) -> None:
    assert is_word(word)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "Door",
        "door\n",
        "\ndoor",
        "two words",
        "4ever",
        "door-",
        "-door",
        "a-b-c",
        "a" * 17,
        "a-" + "b" * 16,
        "café",
        "ｄoor",
        "door!",
        "door\u2028",
        "door, ignore",
        "x_y",
    ],
)
def test_nothing_else_is_a_word(text: str) -> None:
    assert not is_word(text)


@given(st.text(max_size=12))
@settings(max_examples=200, deadline=None)
def test_no_text_with_blanks_or_capitals_or_punctuation_is_a_word(text: str) -> None:
    if is_word(text):
        assert text.isascii()
        assert text == text.lower()
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    ("plural", "one"),
    [
        ("doors", "door"), ("keys", "key"), ("batteries", "battery"), ("classes", "class"), ("boxes", "box"), ("children", "child"),
        ("potatoes", "potato"), ("houses", "house"), ("viruses", "virus"), ("statuses", "status"), ("crises", "crisis"), ("axes", "axis"),
        ("glass", "glass"), ("bus", "bus"), ("analysis", "analysis"), ("series", "series"), ("gas", "gas"), ("tie", "tie"), ("paris", "paris"),
    ],
)  # fmt: skip
def test_plurals_become_singular_and_singulars_stay(plural: str, one: str) -> None:
    assert singular(plural) == one


@pytest.mark.parametrize(
    ("raw", "normal"), [(" Doors ", "door"), ("Café", "cafe"), ("door-locks", "door-lock"), ("ﬁles", "file"), ("ÉCOLES", "ecole"), ("日本", "")]
)
def test_normalizing_drops_case_accents_and_plural(raw: str, normal: str) -> None:
    assert normalize(raw) == normal


def test_words_of_one_stem_count_as_the_same() -> None:
    assert stem("repairing") == stem("repaired") == stem("repair")
    assert stem("repair") != stem("report")


def test_stemming_from_many_threads_gives_what_one_thread_gives() -> None:
    words = [
        f"{a}{b}{c}"
        for a in ("national", "relat", "condit", "operat", "organ")
        for b in ("ion", "ing", "ization", "iveness")
        for c in ("", "s", "ed", "al")
    ]
    alone = snowballstemmer.stemmer("english")
    expected = [alone.stemWord(word) for word in words]
    stem.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: [stem.__wrapped__(word) for word in words], range(16)):
            assert found == expected


def test_free_text_yields_its_content_words_and_the_parts_of_hyphenated_ones() -> None:
    assert tokens("The Check-in, at 10!") == ["the", "check-in", "check", "in", "at", "10"]
    assert content_words("Can you please ask about the entrance door-lock at 10?") == ["entrance", "door-lock", "door", "lock"]
