import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from subconscious_pipeline.extraction.reply import Reply, ReplyConcept, clean_keyword, reply_model
from subconscious_pipeline.words import FILLER, WORD_PATTERN, stem

from .windows import concept, reply


def keywords(*words: str) -> list[str]:
    return Reply.model_validate(reply({**concept([1]), "keywords": list(words)})).concepts[0].keywords


def problem(data: object, model: type[Reply] = Reply) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("boiler", ["boiler"]),
        ("Boilers", ["boiler"]),
        ("building manager", ["building", "manager"]),
        ("parking_permit", ["parking", "permit"]),
        ("Building-Managers", ["building-manager"]),
        ("out-of-warranty repair", ["warranty", "repair"]),
        ("driver's license", ["driver", "license"]),
        ("façade", ["facade"]),
        ("x-ray", ["xray"]),
        ("PostgreSQL", ["postgresql"]),
        ("covid19", ["covid19"]),
        ("k8s", ["k8s"]),
        ("wi–fi", ["wi-fi"]),
    ],
)
def test_a_keyword_is_brought_into_its_one_form(written, kept):
    assert list(clean_keyword(written)) == kept


@pytest.mark.parametrize(
    "written",
    [
        "tomorrow",
        "Messages",
        "check-in",
        "e-mail",
        "2026",
        "4821",
        "12:30",
        "+34 600 123 456",
        "555-123-4567",
        "GB29 NWBK 6016 1331",
        "ana@example.com",
        "https://example.com/pay",
        "example.com",
        "www.example",
        "hunter2x9",
        "x7f9k2m",
        "deadbeef12",
        "a3f5c9",
        "pin4821",
        "AbCdEfGhIj",
        "xkcdqwrt",
        "sk-proj-AbCdEfGhIj",
        "кухня",
        "pаssport",  # Cyrillic а
        "会議",
        "a",
        "",
        "   ",
        "supercalifragilistic",
        "<script>",
    ],
)
def test_what_is_no_word_does_not_pass(written):
    assert [word for word in clean_keyword(written) if word != "script"] == []


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.from_regex(r"[A-Za-z0-9@.:/\-_ \n\u200b]{1,40}", fullmatch=True)))
def test_nothing_but_words_ever_passes(text):
    for word in clean_keyword(text):
        assert re.fullmatch(WORD_PATTERN, word, re.ASCII)
        assert word not in FILLER
        assert not re.search(r"\d{4}", word)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=20))
def test_a_concept_has_three_to_eight_different_words_or_is_refused(texts):
    try:
        kept = keywords(*texts)
    except ValidationError:
        return
    assert 3 <= len(kept) <= 8
    assert len({stem(word) for word in kept}) == len(kept)


def test_repeats_by_stem_count_once_and_the_order_stays():
    assert keywords("plumber", "repairs", "repair", "Repairing", "boiler") == ["plumber", "repair", "boiler"]


def test_more_than_eight_keywords_are_cut_from_the_end():
    words = ["boiler", "plumber", "leak", "kitchen", "invoice", "landlord", "warranty", "radiator", "valve", "copper"]
    assert keywords(*words) == words[:8]


def test_keywords_in_one_string_are_accepted():
    assert Reply.model_validate(reply({**concept([1]), "keywords": "boiler, leak; plumber"})).concepts[0].keywords == ["boiler", "leak", "plumber"]


def test_too_few_words_are_asked_again_by_place_and_without_the_words():
    message = problem(reply({**concept([1]), "keywords": ["boiler", "s3cr3tpassw0rd", "leak", "+34 600 123 456"]}))
    assert "only 2 usable and different keywords (no use: number 2, 4)" in message
    assert "s3cr3tpassw0rd" not in message
    assert "600" not in message


@pytest.mark.parametrize(
    ("kind", "days", "kept"),
    [("incident", 1, 3), ("incident", 90, 7), ("appointment", 14, 14), ("ongoing", 0, 30), ("lasting", 10_000, 365), (" Lasting ", 200, 200)],
)
def test_days_are_brought_into_the_range_of_the_kind(kind, days, kept):
    assert Reply.model_validate(reply(concept([1], kind=kind, ttl_days=days))).concepts[0].ttl_days == kept


@pytest.mark.parametrize("missing", ["lines", "keywords", "kind", "ttl_days"])
def test_a_missing_field_is_asked_again(missing):
    entry = concept([1])
    del entry[missing]
    assert missing in problem(reply(entry))


def test_an_unknown_kind_is_asked_again():
    assert "'incident', 'appointment', 'ongoing' or 'lasting'" in problem(reply(concept([1], kind="secret plan")))
    assert "secret plan" not in problem(reply(concept([1], kind="secret plan")))


def test_lines_are_sorted_numbers_even_when_written_as_marks():
    assert Reply.model_validate(reply({**concept([1]), "lines": ["[m7]", 3, "m3", "12"]})).concepts[0].lines == [3, 7, 12]


def test_a_concept_without_lines_is_asked_again():
    assert "cite at least one line" in problem(reply(concept([])))


def test_lines_that_are_not_in_the_call_are_asked_again():
    message = problem(reply(concept([1, 2]), concept([2, 9, -1])), reply_model({1, 2, 3}))
    assert "concept 2: -1, 9" in message


def test_two_calls_do_not_share_their_lines():
    first, second = reply_model({1}), reply_model({2})
    assert first.model_validate(reply(concept([1]))).concepts[0].lines == [1]
    problem(reply(concept([1])), second)
    assert Reply.known_lines is None


def test_no_concepts_is_a_valid_reply():
    assert reply_model({1}).model_validate({"concepts": []}).concepts == []


def test_the_topic_is_forgotten():
    read = Reply.model_validate(reply(concept([1])))
    assert "boiler leaks" not in repr(read) + str(read.model_dump()) + str(vars(read.concepts[0]))


def test_the_schema_asks_for_every_field_with_the_topic_first():
    schema = reply_model({1}).model_json_schema()["$defs"]["ReplyConcept"]
    assert schema["required"] == ["topic", "lines", "keywords", "kind", "ttl_days"]
    assert schema["additionalProperties"] is False
    assert list(ReplyConcept.model_fields) == schema["required"]
