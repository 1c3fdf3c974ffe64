"""The bundled sample keeps its promises: reference replies that are valid, and sources that hold what they cite."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from subconscious_pipeline.extraction.types import TTL_DAYS
from subconscious_pipeline.instants import parse_instant, window_at, window_from_key
from subconscious_pipeline.words import FILLER, is_word, normalize, singular, stems

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample"
REFERENCE: dict[str, list[dict[str, Any]]] = yaml.safe_load((SAMPLE / "reference.yaml").read_text("utf-8"))["windows"]
SOURCES: list[dict[str, Any]] = yaml.safe_load((SAMPLE / "sources.yaml").read_text("utf-8"))["sources"]
STORY: dict[str, str] = yaml.safe_load((SAMPLE / "sample.yaml").read_text("utf-8"))
AS_OF = parse_instant(STORY["as_of"])
CONCEPTS = [pytest.param(concept, id=f"{key}-{concept['keywords'][0]}") for key, found in REFERENCE.items() for concept in found]


def matters(first_word: str) -> list[tuple[str, dict[str, Any]]]:
    return [(key, concept) for key, found in REFERENCE.items() for concept in found if concept["keywords"][0] == first_word]


def raw_text() -> str:
    files = sorted(path for path in (SAMPLE / "sources").rglob("*") if path.is_file())
    return "\n".join(path.read_text("utf-8") for path in files)


@pytest.mark.parametrize("concept", CONCEPTS)
def test_keywords_of_reference_replies_are_valid(concept: dict[str, Any]) -> None:
    keywords = concept["keywords"]
    assert 3 <= len(keywords) <= 8
    assert [word for word in keywords if not is_word(word)] == []
    assert [word for word in keywords if word in FILLER] == []
    assert keywords == [singular(word) for word in keywords] == [normalize(word) for word in keywords]
    assert len(stems(keywords)) == len(keywords)


@pytest.mark.parametrize("concept", CONCEPTS)
def test_reference_replies_expire_within_their_kind(concept: dict[str, Any]) -> None:
    shortest, longest = TTL_DAYS[concept["kind"]]
    assert shortest <= concept["ttl_days"] <= longest
    assert concept["topic"].endswith(".")


@pytest.mark.parametrize("concept", CONCEPTS)
def test_each_cite_occurs_exactly_once_in_the_sources(concept: dict[str, Any]) -> None:
    text = raw_text()
    assert concept["cites"]
    assert {cite: text.count(cite) for cite in concept["cites"]} == dict.fromkeys(concept["cites"], 1)


def test_windows_are_in_order_closed_and_at_most_eight() -> None:
    windows = [window_from_key(key, 6) for key in REFERENCE]
    assert windows == sorted(windows)
    assert len(windows) == 8
    assert all(window.closed(AS_OF) for window in windows)
    assert window_at(AS_OF, 6).start == windows[-1].end, "the sample's clock stands in the window after the last one"


def test_one_window_is_small_talk_only() -> None:
    assert [key for key, found in REFERENCE.items() if not found] == ["2026-04-15T18:00Z"]


def test_a_matter_that_returns_keeps_its_telling_words_and_gains_others() -> None:
    for first_word, days in (("entrance", 3), ("deposit", 3)):
        replies = matters(first_word)
        assert len({key[:10] for key, _ in replies}) >= days
        for (_, one), (_, other) in combinations(replies, 2):
            assert len(stems(one["keywords"]) & stems(other["keywords"])) >= 3
        assert len(stems(word for _, concept in replies for word in concept["keywords"])) > 5


def test_different_matters_share_no_word() -> None:
    by_matter: dict[str, set[str]] = {}
    for found in REFERENCE.values():
        for concept in found:
            by_matter.setdefault(concept["keywords"][0], set()).update(stems(concept["keywords"]))
    assert len(by_matter) == 7
    assert [(a, b) for a, b in combinations(by_matter, 2) if by_matter[a] & by_matter[b]] == []


def test_only_the_one_off_has_expired_on_the_samples_date() -> None:
    expired = set()
    for key, found in REFERENCE.items():
        for concept in found:
            # The day of the window's start is the local and UTC day of every line cited in it.
            if date.fromisoformat(key[:10]) + timedelta(days=concept["ttl_days"]) < AS_OF.date():
                expired.add(concept["keywords"][0])
    assert expired == {"water"}


def test_no_reference_word_comes_from_the_planted_orders() -> None:
    planted = {"casino", "jackpot", "voucher", "wallet"}
    text = raw_text()
    assert all(text.count(word) == 1 for word in planted)
    words = {word for found in REFERENCE.values() for concept in found for word in concept["keywords"]}
    assert stems(words) & stems(planted) == set()


def test_every_source_exists_and_names_its_zone() -> None:
    listed = {source["path"] for source in SOURCES}
    assert listed == {path.name for path in (SAMPLE / "sources").iterdir()}
    assert len({source["id"] for source in SOURCES}) == len(SOURCES)
    assert {source["timezone"] for source in SOURCES} == {"Europe/Madrid"}
    assert {source.get("date_order") for source in SOURCES if source["reader"] == "whatsapp"} == {"dmy"}
    assert len({source["reader"] for source in SOURCES}) == 5


def test_events_speak_in_windows_that_hold_other_lines() -> None:
    changes = [
        line.partition(":")[2] for line in (SAMPLE / "sources" / "alba.ics").read_text("utf-8").splitlines() if line.startswith("LAST-MODIFIED")
    ]
    keys = [window_at(datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC), 6).key for at in changes]
    assert keys == ["2026-04-14T06:00Z", "2026-04-13T06:00Z", "2026-04-15T06:00Z"]
