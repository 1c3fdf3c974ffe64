"""How present a concept is, and which tier follows. Recomputed from timestamps alone."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from place import AS_OF, Place, result, said, span

from subconscious_pipeline.instants import iso_z

W1, W2 = "2026-03-30T06:00Z", "2026-03-30T12:00Z"


def observed(place: Place, *hours_ago: float, words: str = "door entrance lock") -> None:
    """One concept, observed that many hours before AS_OF, alive for years."""
    for number, hours in enumerate(hours_ago):
        start = AS_OF.replace(hour=0) - timedelta(days=10 * number)
        moment = iso_z(AS_OF - timedelta(hours=hours))
        place.persist(result(iso_z(start), said(words, span("flat", moment), ttl=2_000)))
    place.project(AS_OF)


def state(place: Place) -> tuple[Any, ...]:
    (row,) = place.memory("SELECT tier, score FROM concept_state")
    return row


def score(*hours: float, decay: float = 0.5) -> float:
    """The formula, written out."""
    activation = math.log(sum(t**-decay for t in hours))
    return 1 / (1 + math.exp(-(activation + 3.0) / 0.5))


@pytest.mark.parametrize(
    ("hours_ago", "expected"),
    [
        ((1,), 0.997527377),  # ln 1 = 0
        ((0.2,), 0.997527377),  # never less than an hour
        ((-300,), 0.997527377),  # an appointment still to come
        ((100,), 0.801362176),  # e^6 / (e^6 + 100)
        ((403.428793,), 0.5),  # e^6 hours: the threshold
        ((100, 100), score(100, 100)),
        ((24, 48, 400), score(24, 48, 400)),
    ],
)
def test_the_score_is_the_logistic_of_base_level_activation(place: Place, hours_ago: tuple[float, ...], expected: float) -> None:
    observed(place, *hours_ago)
    place.sweep()
    assert state(place)[1] == pytest.approx(expected, abs=2e-6)


def test_a_sweep_done_twice_equals_one(place: Place) -> None:
    observed(place, 100)
    assert place.sweep().changed is True
    before = place.memory("FROM concept_state"), place.memory("FROM meta ORDER BY 1")
    assert place.sweep().changed is False
    assert (place.memory("FROM concept_state"), place.memory("FROM meta ORDER BY 1")) == before


@pytest.mark.parametrize(
    ("hours", "tier"),
    [(1, "ACTIVE_CONTEXT"), (740, "ACTIVE_CONTEXT"), (760, "LONG_TERM"), (2_900, "LONG_TERM"), (3_000, "ARCHIVE"), (9_000, "ARCHIVE")],
)
def test_concepts_fade_through_the_tiers_and_a_missed_sweep_is_caught_up_by_the_next(place: Place, hours: float, tier: str) -> None:
    observed(place, hours)
    place.sweep()
    assert state(place)[0] == tier


def test_sweeping_every_day_ends_where_one_sweep_ends(place: Place) -> None:
    observed(place, 1)
    for days in (10, 33, 60, 100, 140):
        place.sweep(AS_OF + timedelta(days=days))
    stepwise = state(place)
    place.write_memory("UPDATE concept_state SET tier = 'ACTIVE_CONTEXT', score = 1")
    place.sweep(AS_OF + timedelta(days=140))
    assert state(place) == stepwise
    assert stepwise[0] == "ARCHIVE"


@pytest.mark.parametrize(
    ("before", "hours", "after"),
    [
        ("ACTIVE_CONTEXT", 600, "ACTIVE_CONTEXT"),  # score .40: between demotion (.35) and promotion (.45) nothing moves
        ("LONG_TERM", 600, "LONG_TERM"),
        ("LONG_TERM", 450, "ACTIVE_CONTEXT"),
        ("LONG_TERM", 2_200, "LONG_TERM"),  # score .155: between .12 and .20
        ("ARCHIVE", 2_200, "ARCHIVE"),
        ("ARCHIVE", 1_500, "LONG_TERM"),
        ("ARCHIVE", 24, "ACTIVE_CONTEXT"),
    ],
)
def test_promotion_stands_above_demotion(place: Place, before: str, hours: float, after: str) -> None:
    observed(place, hours)
    place.write_memory(f"UPDATE concept_state SET tier = '{before}'")
    moved = place.sweep()
    assert state(place)[0] == after
    assert moved.promoted + moved.demoted == (before != after)


def test_a_claimed_concept_fades_slower_and_never_below_long_term(place: Place) -> None:
    observed(place, 1_000)
    place.write_memory("UPDATE concept_state SET claimed = true")
    place.sweep()
    assert state(place) == ("ACTIVE_CONTEXT", pytest.approx(score(1_000, decay=0.35), abs=1e-6))
    place.sweep(AS_OF + timedelta(days=1_500))
    assert state(place)[0] == "LONG_TERM"
    place.write_memory("UPDATE concept_state SET tier = 'ARCHIVE'")
    place.sweep(AS_OF + timedelta(days=1_500))
    assert state(place)[0] == "LONG_TERM"


def test_identity_neither_fades_nor_moves(place: Place) -> None:
    observed(place, 9_000)
    place.write_memory("UPDATE concept_state SET tier = 'IDENTITY_CORE'")
    sweep = place.sweep()
    assert state(place) == ("IDENTITY_CORE", 1.0)
    assert (sweep.promoted, sweep.demoted) == (0, 0)


def test_looking_a_concept_up_keeps_it_present(place: Place) -> None:
    observed(place, 2_000)
    place.sweep()
    assert state(place)[0] == "LONG_TERM"
    place.write_memory("INSERT INTO accesses VALUES (1, TIMESTAMPTZ '2026-04-01 02:00:00+00', 's1')")
    place.sweep()
    assert state(place) == ("ACTIVE_CONTEXT", pytest.approx(score(2_000, 10), abs=1e-6))


def test_an_access_counts_for_what_the_concept_was_merged_into(place: Place) -> None:
    observed(place, 2_000)
    place.write_memory(
        "INSERT INTO merges VALUES (77, 1, 'COMBINE', 't', TIMESTAMPTZ '2026-03-01 00:00:00+00')",
        "INSERT INTO accesses VALUES (77, TIMESTAMPTZ '2026-04-01 02:00:00+00', 's1')",
    )
    place.sweep()
    assert state(place)[1] == pytest.approx(score(2_000, 10), abs=1e-6)


def test_decay_deletes_nothing(place: Place) -> None:
    observed(place, 1)
    place.sweep(AS_OF + timedelta(days=1_900))
    assert place.concepts() == {1: {"door", "entrance", "lock"}}
    assert state(place)[0] == "ARCHIVE"
