"""Concepts that belong together become one by redirects: bounded, repeatable, and taken back without a trace."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from place import AS_OF, Place, at, result, said, span

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.types import Observation
from subconscious_pipeline.memory import consolidate, observe, project, store

W1, W2 = "2026-03-30T06:00Z", "2026-03-31T06:00Z"


def put(place: Place, concept: int, *observations: Observation) -> None:
    """Observations that count for a concept, whatever projection would have made of them."""
    with store.writing(place.home, place.settings) as con:
        (known,) = con.execute("SELECT count(*) FROM observations").fetchall()[0]
        for number, one in enumerate(observations):
            start = one.observed_at.replace(hour=one.observed_at.hour // 6 * 6, minute=0)
            observe.insert(con, [one], "extraction", start, [concept], first_ordinal=known + number)
        project.project(con, AS_OF)


def plan(place: Place, how: consolidate.Strategy = "COMBINE", **more: Any) -> consolidate.Consolidation:
    with store.reading(place.home, place.settings) as con:
        return consolidate.plan(con, how, **more)


def merges(place: Place) -> list[tuple[int, int]]:
    return [(merge.from_id, merge.into_id) for merge in plan(place).merges]


def apply(place: Place, planned: consolidate.Consolidation, transaction_id: str = "t1") -> project.Projection | None:
    with store.writing(place.home, place.settings) as con:
        return consolidate.apply(con, planned, transaction_id, AS_OF)


def undo(place: Place, transaction_id: str = "t1") -> int:
    with store.writing(place.home, place.settings) as con:
        return consolidate.undo(con, transaction_id, AS_OF)


def index(place: Place) -> dict[str, list[tuple[Any, ...]]]:
    return {table: place.memory(f"FROM {table} ORDER BY ALL") for table in ("concepts", "keywords", "sources")}


def two(place: Place) -> None:
    """Concept 1 (two observations) and concept 2 (one, newer) that share three words and a chat."""
    put(
        place, 1,
        said("door entrance lock key", span("flat", "2026-03-30T07:00Z"), ttl=9),
        said("door entrance lock", span("flat", "2026-03-30T08:00Z"), span("work", "2026-03-30T08:10Z"), ttl=5),
    )  # fmt: skip
    put(place, 2, said("door entrance lock quote", span("flat", "2026-03-31T07:00Z"), span("a@x", "2026-03-31T07:30Z", kind="email"), ttl=20))


def test_combining_keeps_every_word_every_pointer_and_the_latest_expiry(place: Place) -> None:
    two(place)
    assert merges(place) == [(2, 1)]
    apply(place, plan(place))
    assert place.concepts() == {1: {"door", "entrance", "lock", "key", "quote"}}
    assert place.memory("SELECT expires FROM concepts") == [(date(2026, 4, 20),)]
    assert place.memory("SELECT concept_id, source_type, source_ref, time_start, time_end FROM sources ORDER BY ALL") == [
        (1, "email", "a@x", at("2026-03-31T07:30Z"), at("2026-03-31T07:30Z")),
        (1, "messaging", "flat", at("2026-03-30T07:00Z"), at("2026-03-31T07:00Z")),
        (1, "messaging", "work", at("2026-03-30T08:10Z"), at("2026-03-30T08:10Z")),
    ]
    assert place.memory("SELECT id, concept_id FROM observations ORDER BY id") == [(1, 1), (2, 1), (3, 2)]  # never rewritten
    assert place.memory("SELECT count(*) FROM tombstones") == [(0,)]


def test_keeping_the_newest_keeps_its_words_and_all_pointers(place: Place) -> None:
    two(place)
    apply(place, plan(place, "KEEP_NEWEST"))
    assert place.concepts() == {1: {"door", "entrance", "lock", "quote"}}
    assert place.memory("SELECT source_ref FROM sources ORDER BY 1") == [("a@x",), ("flat",), ("work",)]


def test_summarizing_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="SUMMARIZE is refused: the index holds words and pointers, there is nothing to summarize"):
        consolidate.strategy("summarize")
    with pytest.raises(ConfigError, match="no strategy 'MAGIC'"):
        consolidate.strategy("MAGIC")
    assert (consolidate.strategy("keep-newest"), consolidate.strategy("combine")) == ("KEEP_NEWEST", "COMBINE")


@pytest.mark.parametrize(
    ("words", "ref", "moment", "merged"),
    [
        ("door entrance lock quote", "flat", "2026-03-20T07:00Z", True),  # the same chat, ten days apart
        ("door entrance lock quote", "work", "2026-03-25T07:00Z", True),  # another chat, five days apart
        ("door entrance lock quote", "work", "2026-03-20T07:00Z", False),  # neither
        ("door garden tulip quote", "flat", "2026-03-30T07:00Z", False),  # one word in common
        ("garden tulip hedge", "flat", "2026-03-30T07:00Z", False),
    ],
)
def test_concepts_belong_together_by_words_and_by_place_or_time(place: Place, words: str, ref: str, moment: str, merged: bool) -> None:
    put(place, 1, said("door entrance lock key", span("flat", "2026-03-30T07:00Z"), ttl=60))
    put(place, 2, said(words, span(ref, moment), ttl=60))
    assert bool(merges(place)) is merged


@pytest.mark.parametrize(("observations", "merged"), [(11, True), (12, False)])
def test_a_result_never_has_more_than_twelve_observations(place: Place, observations: int, merged: bool) -> None:
    put(place, 1, *(said("door entrance lock", span("flat", f"2026-03-30T{hour:02}:00Z"), ttl=60) for hour in range(observations)))
    put(place, 2, said("door entrance lock", span("flat", "2026-03-31T07:00Z"), ttl=60))
    assert bool(merges(place)) is merged


def test_a_run_merges_the_strongest_pairs_first_up_to_its_cap_and_each_concept_once(place: Place) -> None:
    for concept in range(1, 5):
        put(place, concept, said("door entrance lock key", span("flat", f"2026-03-30T0{concept + 1}:00Z"), ttl=60))
    put(place, 5, said("door entrance garden tulip hedge", span("flat", "2026-03-30T10:00Z"), ttl=60))
    planned = plan(place).merges
    assert len({merge.from_id for merge in planned} | {merge.into_id for merge in planned}) == 2 * len(planned)
    assert [merge.overlap for merge in planned] == sorted((merge.overlap for merge in planned), reverse=True)
    assert plan(place, most=1).merges == planned[:1]


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        (("ARCHIVE", "ACTIVE_CONTEXT"), [(2, 1)]),
        (("LONG_TERM", "IDENTITY_CORE"), [(1, 2)]),  # identity stays where it is
        (("IDENTITY_CORE", "ARCHIVE"), [(2, 1)]),
        (("IDENTITY_CORE", "IDENTITY_CORE"), []),  # two parts of an identity are never made one
    ],
)
def test_the_more_protected_tier_wins(place: Place, tiers: tuple[str, str], expected: list[tuple[int, int]]) -> None:
    two(place)
    place.write_memory(*(f"UPDATE concept_state SET tier = '{tier}' WHERE concept_id = {number}" for number, tier in enumerate(tiers, 1)))
    assert merges(place) == expected
    apply(place, plan(place))
    if expected:
        order = ["IDENTITY_CORE", "ACTIVE_CONTEXT", "LONG_TERM", "ARCHIVE"]
        assert place.memory("SELECT tier FROM concept_state WHERE concept_id = ?", expected[0][1]) == [(min(tiers, key=order.index),)]


def test_what_is_claimed_absorbs_what_is_not(place: Place) -> None:
    two(place)
    place.write_memory("UPDATE concept_state SET claimed = true WHERE concept_id = 2")
    assert merges(place) == [(1, 2)]


def test_a_transaction_is_carried_out_once(place: Place) -> None:
    two(place)
    planned = plan(place)
    assert apply(place, planned) is not None
    before = index(place), place.memory("FROM merges"), place.memory("FROM meta ORDER BY 1")
    assert apply(place, planned) is None
    assert (index(place), place.memory("FROM merges"), place.memory("FROM meta ORDER BY 1")) == before


def test_planning_changes_nothing(place: Place) -> None:
    two(place)
    before = place.home.memory.read_bytes()
    assert plan(place).merges
    assert place.home.memory.read_bytes() == before


def test_a_plan_that_was_overtaken_is_carried_out_in_part(place: Place) -> None:
    two(place)
    planned = plan(place)
    apply(place, planned, "somebody-else")
    with store.reading(place.home, place.settings) as con:
        assert consolidate.still_valid(con, planned).merges == ()


@pytest.mark.parametrize("how", ["COMBINE", "KEEP_NEWEST"])
def test_undo_brings_back_words_pointers_and_ids_exactly(place: Place, how: consolidate.Strategy) -> None:
    two(place)
    before = index(place)
    apply(place, plan(place, how))
    assert index(place) != before
    with store.reading(place.home, place.settings) as con:
        assert consolidate.transactions(con) == [("t1", AS_OF, 1)]
    assert undo(place) == 1
    assert index(place) == before
    assert place.memory("SELECT concept_id, tier, claimed FROM concept_state ORDER BY 1") == [
        (1, "ACTIVE_CONTEXT", False),
        (2, "ACTIVE_CONTEXT", False),
    ]


def test_undoing_one_of_two_merges_in_a_chain_leaves_the_other(place: Place) -> None:
    two(place)
    put(place, 3, said("door entrance lock chain", span("flat", "2026-03-31T09:00Z"), ttl=9))
    apply(place, consolidate.Consolidation("COMBINE", (consolidate.Merge(3, 2, 0.5, 2),)), "first")
    apply(place, consolidate.Consolidation("COMBINE", (consolidate.Merge(2, 1, 0.5, 4),)), "second")
    assert set(place.concepts()) == {1}
    undo(place, "second")
    assert place.concepts() == {1: {"door", "entrance", "lock", "key"}, 2: {"door", "entrance", "lock", "quote", "chain"}}


def test_undoing_what_was_never_done_is_refused(place: Place) -> None:
    two(place)
    with pytest.raises(ConfigError, match="no consolidation 't9' to undo"):
        undo(place, "t9")


@pytest.mark.parametrize("window", [W1, W2])
def test_a_merged_concept_survives_the_re_run_of_any_of_its_windows(place: Place, window: str) -> None:
    said_there = {
        W1: said("door entrance lock key", span("flat", "2026-03-30T07:00Z"), ttl=9),
        W2: said("lock quote invoice fitter door", span("flat", "2026-03-31T07:00Z"), ttl=9),
    }
    place.persist(*(result(start, one) for start, one in said_there.items()))
    with store.writing(place.home, place.settings) as con:
        con.execute("UPDATE observations SET concept_id = id")
        project.project(con, AS_OF)
    assert merges(place) == [(2, 1)]
    apply(place, plan(place))
    merged = index(place)
    place.persist(result(window, said_there[window], input_hash="again"))
    place.project()
    assert index(place) == merged
    place.persist(result(window, said("cylinder fitting appointment", *said_there[window].spans, ttl=9), input_hash="anew"))
    place.project()
    assert set(place.concepts()) == {1}
    assert "cylinder" in place.concepts()[1]


def test_what_comes_later_joins_the_merged_concept(place: Place) -> None:
    two(place)
    apply(place, plan(place))
    place.persist(result("2026-04-01T06:00Z", said("quote lock door", span("flat", "2026-04-01T07:00Z"), ttl=9)))
    place.project()
    assert set(place.concepts()) == {1}


def test_no_two_concepts_are_compared_for_a_word_that_all_have(place: Place) -> None:
    count = consolidate.MOST_HOLDERS + 200
    moments = [at("2026-03-30T00:00Z") + timedelta(minutes=n) for n in range(count)]
    with store.writing(place.home, place.settings) as con:
        said_there = [
            Observation(("house", "common", f"w{number}"), "ongoing", 60, moment, date(2026, 6, 1), (span("flat", "2026-03-30T00:00Z"),))
            for number, moment in enumerate(moments)
        ]
        observe.insert(con, said_there, "extraction", at("2026-03-30T00:00Z"), list(range(1, count + 1)))
        project.project(con, AS_OF)
    with store.reading(place.home, place.settings) as con:
        assert consolidate.candidates(con) == []
        assert con.execute("SELECT count(*) FROM meetings").fetchall() == [(0,)]
