"""The walk over associations: order, bounds, strengths."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.caretaker.traversal import AssociationConcept, AssociationGraph, Limits, strength, traverse
from subconscious_pipeline.words import stem

from .world import CHAIN, NOON, concept

WIDE = Limits(depth=5, fan_out=10, total=100)


def walk(graph: AssociationGraph, roots: list[int], words: tuple[str, ...] = (), limits: Limits = WIDE) -> list[list[int]]:
    return [[found.concept.id for found in depth.found] for depth in traverse(graph, roots, words, limits)]


def test_a_chain_is_followed_depth_by_depth_into_the_archive_and_not_to_strangers() -> None:
    far_apart = [AssociationConcept(c.id, c.words, c.rarity, c.tier, ()) for c in CHAIN]
    assert walk(AssociationGraph(far_apart), [1]) == [[1], [2], [3], [4]]


def test_depth_fan_out_and_total_are_bounds() -> None:
    star = [concept(1, "hub alpha beta gamma delta"), *(concept(n, f"hub spoke{n}") for n in range(2, 12))]
    graph = AssociationGraph(star)
    assert walk(graph, [1], limits=Limits(0, 10, 100)) == [[1]]
    assert walk(graph, [1], limits=Limits(1, 3, 100)) == [[1], [2, 3, 4]]
    assert walk(graph, [1], limits=Limits(5, 10, 5)) == [[1], [2, 3, 4, 5]]
    assert walk(graph, list(range(1, 12)), limits=Limits(5, 10, 5)) == [[1, 2, 3, 4, 5]]


def test_rare_words_tell_more_than_common_ones() -> None:
    origin = AssociationConcept(1, (), {"rare": 5.0, "common": 0.5}, "ACTIVE_CONTEXT", ())
    by_rare = AssociationConcept(2, (), {"rare": 5.0, "x": 1.0}, "ACTIVE_CONTEXT", ())
    by_common = AssociationConcept(3, (), {"common": 0.5, "y": 5.0}, "ACTIVE_CONTEXT", ())
    assert walk(AssociationGraph([origin, by_common, by_rare]), [1])[1] == [2, 3]


def test_a_shared_conversation_links_and_a_quiet_one_links_more_than_a_busy_one() -> None:
    busy = [concept(n, f"talk{n}", ["general"], hours_ago=24 * n) for n in range(10, 40)]
    origin = concept(1, "boiler", ["general", "dm-ana"], hours_ago=24 * 400)
    quiet = concept(2, "leak", ["dm-ana"], hours_ago=24 * 100)
    graph = AssociationGraph([origin, quiet, *busy])
    assert walk(graph, [1], limits=Limits(1, 1, 10)) == [[1], [2]]


def test_nearness_in_time_alone_links_weakly_and_only_when_near() -> None:
    graph = AssociationGraph([concept(1, "boiler", ["a"]), concept(2, "gym", ["b"], hours_ago=1), concept(3, "tax", ["c"], hours_ago=24 * 5)])
    (_, near) = traverse(graph, [1], (), Limits(1, 10, 10))
    assert [(f.concept.id, f.via, round(f.strength, 3)) for f in near.found] == [(2, 1, 0.146)]


def test_the_strongest_path_counts_and_strengths_fall_with_depth() -> None:
    # 4 is reached from 2 (both words shared) and from 3 (one of three).
    graph = AssociationGraph(
        AssociationConcept(n, (), dict.fromkeys(stems.split(), 1.0), "LONG_TERM", ())
        for n, stems in ((1, "a b c d"), (2, "a b e f"), (3, "c d g"), (4, "e f g"))
    )
    depths = list(traverse(graph, [1], (), WIDE))
    (last,) = depths[2].found
    assert (last.concept.id, last.via) == (4, 2)
    assert last.strength < depths[1].found[-1].strength


def test_roots_come_from_ids_through_merges_and_from_words_by_stem() -> None:
    graph = AssociationGraph(CHAIN, redirects={90: 91, 91: 2, 80: 81, 81: 80})
    assert walk(graph, [90, 2, 80, 777], limits=Limits(0, 5, 5)) == [[2]]
    assert walk(graph, [], ("locks",), Limits(0, 5, 5)) == [[2, 3]]
    assert walk(graph, [], ("unknown",)) == [[]]
    assert stem("locks") == stem("lock")


def test_a_concept_without_words_or_pointers_is_no_trouble() -> None:
    empty = AssociationConcept(1, (), {}, "ARCHIVE", ())
    assert walk(AssociationGraph([empty, concept(2, "lock")]), [1]) == [[1]]
    assert strength(empty, empty, {}) == 0


@st.composite
def graphs(draw: st.DrawFn) -> list[AssociationConcept]:
    words = st.lists(st.sampled_from("lock key door gym tax boiler leak".split()), min_size=1, max_size=4, unique=True)
    made = draw(st.lists(st.tuples(words, st.lists(st.sampled_from("abc"), max_size=2), st.integers(0, 400)), min_size=1, max_size=12))
    return [concept(n, " ".join(w), refs, hours) for n, (w, refs, hours) in enumerate(made, start=1)]


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 4), st.integers(1, 4), st.integers(1, 8))
def test_any_walk_keeps_its_bounds_visits_once_and_depends_on_nothing_but_its_arguments(
    concepts: list[AssociationConcept], depth: int, fan_out: int, total: int
) -> None:
    limits = Limits(depth, fan_out, total)
    depths = list(traverse(AssociationGraph(concepts), [1], (), limits))
    ids = [f.concept.id for d in depths for f in d.found]
    assert len(ids) == len(set(ids)) <= total
    assert [d.depth for d in depths] == list(range(len(depths)))
    assert len(depths) <= depth + 1
    strength_of = {f.concept.id: f.strength for d in depths for f in d.found}
    for before, d in pairwise(depths):
        assert [f.strength for f in d.found] == sorted((f.strength for f in d.found), reverse=True)
        for f in d.found:
            assert f.via in [g.concept.id for g in before.found]
            assert 0 < f.strength <= strength_of[f.via or 0] <= 1
            assert sum(g.via == f.via for g in d.found) <= fan_out
    assert list(traverse(AssociationGraph(reversed(concepts)), [1], (), limits)) == depths


def test_strength_is_the_same_both_ways() -> None:
    a, b = concept(1, "lock key", ["x"]), concept(2, "key door", ["x"], hours_ago=30)
    assert strength(a, b, {("messaging", "x"): 7}) == strength(b, a, {("messaging", "x"): 7})
    assert a.last_at == NOON
    assert b.last_at == NOON - timedelta(hours=30)
