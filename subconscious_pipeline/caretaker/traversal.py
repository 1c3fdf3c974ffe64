"""Total Recall's walk over associations: breadth first, strongest first, bounded. Pure; reads a view and nothing else.

Two concepts are associated by words they share (rare ones tell more), by conversations they share, and by nearness in time.
Each depth is yielded as it is done, so the caller can stop between two; tiers do not matter: archived neighbours are found too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from subconscious_pipeline.extraction.types import Span
from subconscious_pipeline.words import stem

WORDS_WEIGHT = 0.8
SOURCES_WEIGHT = 0.4
TIME_WEIGHT = 0.15
NEAR_HOURS = 24.0  # nearness halves with each
WEAKEST = 0.05  # a link below this is none
COMMON = 1_000  # a word or conversation with more concepts leads nowhere in particular: it is not followed

Ref = tuple[str, str]  # source_type, source_ref


@dataclass(frozen=True)
class AssociationConcept:
    """What a traversal needs to know of one live concept."""

    id: int
    words: tuple[str, ...]
    rarity: Mapping[str, float]  # by stem, > 0; the index's own rarity of its words
    tier: str
    pointers: tuple[Span, ...]

    @property
    def refs(self) -> set[Ref]:
        """The conversations, messages and events it points to."""
        return {(p.source_type, p.source_ref) for p in self.pointers}

    @property
    def last_at(self) -> datetime | None:
        """When it was last spoken of (UTC), None without pointers."""
        return max((p.time_end for p in self.pointers), default=None)


class AssociationView(Protocol):
    """A read-only view of live concepts of every tier, ARCHIVE included. Consistent as long as a traversal lasts."""

    def resolve(self, concept_ids: Iterable[int]) -> tuple[int, ...]:
        """The live concepts these ids stand for now, through merges; unknown and expired ones are left out, order is kept."""
        ...

    def concept(self, concept_id: int) -> AssociationConcept:
        """One concept. Raises KeyError when it is not live."""
        ...

    def with_stem(self, stem: str) -> Collection[int]:
        """Concepts with a word of this stem."""
        ...

    def with_ref(self, ref: Ref) -> Collection[int]:
        """Concepts with a pointer to this source."""
        ...

    def near(self, at: datetime, most: int) -> Sequence[int]:
        """At most `most` concepts last spoken of nearest to this instant."""
        ...


@dataclass(frozen=True)
class Limits:
    """Bounds of one traversal."""

    depth: int  # 0: the roots alone
    fan_out: int  # neighbours followed from one concept, and roots found by words
    total: int  # concepts recalled, roots included


@dataclass(frozen=True)
class Found:
    """A recalled concept: the strength (0 to 1) of the path to it, its depth, and the concept it was reached from."""

    concept: AssociationConcept
    strength: float
    depth: int
    via: int | None


@dataclass(frozen=True)
class Depth:
    """All that one depth brought, strongest first."""

    depth: int
    found: tuple[Found, ...]


def traverse(view: AssociationView, concept_ids: Sequence[int], words: Sequence[str], limits: Limits) -> Iterator[Depth]:
    """Depths 0, 1, 2, … of a recall from concepts and words, until a bound is met or nothing new is found.

    Always yields depth 0, even when it is empty. The same view and arguments give the same depths.
    """
    frontier = [Found(view.concept(root), 1.0, 0, None) for root in _roots(view, concept_ids, words, limits)]
    seen = {found.concept.id for found in frontier}
    yield Depth(0, tuple(frontier))
    for depth in range(1, limits.depth + 1):
        best: dict[int, Found] = {}
        for origin in frontier:
            for strength, neighbour in _neighbours(view, origin.concept, seen)[: limits.fan_out]:
                found = Found(neighbour, strength * origin.strength, depth, origin.concept.id)
                known = best.get(neighbour.id)
                if known is None or found.strength > known.strength:
                    best[neighbour.id] = found
        room = limits.total - len(seen)
        frontier = sorted(best.values(), key=lambda found: (-found.strength, found.concept.id))[:room]
        if not frontier:
            return
        seen.update(found.concept.id for found in frontier)
        yield Depth(depth, tuple(frontier))


def strength(a: AssociationConcept, b: AssociationConcept, holders: Mapping[Ref, int]) -> float:
    """How strongly two concepts are associated, 0 to 1: independent evidence combined as ``1 - Π(1 - weight · evidence)``.

    Words: the rarity they share, over that of the side with less. Sources: the best shared conversation, less the more
    concepts it `holders`. Time: halves with every day between their last mentions.
    """
    shared = sum(weight for s, weight in a.rarity.items() if s in b.rarity)
    less = min(sum(a.rarity.values()), sum(b.rarity.values()))
    by_words = min(1.0, shared / less) if less > 0 else 0.0
    by_sources = max((1.0 / math.log2(max(2, holders.get(ref, 2))) for ref in a.refs & b.refs), default=0.0)
    by_time = 0.0
    if a.last_at is not None and b.last_at is not None:
        by_time = 0.5 ** (abs((a.last_at - b.last_at).total_seconds()) / 3600 / NEAR_HOURS)
    return 1 - (1 - WORDS_WEIGHT * by_words) * (1 - SOURCES_WEIGHT * by_sources) * (1 - TIME_WEIGHT * by_time)


def _roots(view: AssociationView, concept_ids: Sequence[int], words: Sequence[str], limits: Limits) -> list[int]:
    roots = list(dict.fromkeys(view.resolve(concept_ids)))
    matched: dict[int, float] = defaultdict(float)
    for word_stem in dict.fromkeys(stem(word) for word in words):
        for concept_id in view.with_stem(word_stem):
            matched[concept_id] += view.concept(concept_id).rarity.get(word_stem, 0.0)
    ranked = sorted(matched, key=lambda concept_id: (-matched[concept_id], concept_id))[: limits.fan_out]
    return list(dict.fromkeys([*roots, *ranked]))[: limits.total]


def _neighbours(view: AssociationView, origin: AssociationConcept, seen: set[int]) -> list[tuple[float, AssociationConcept]]:
    candidates: set[int] = set()
    for word_stem in origin.rarity:
        holding = view.with_stem(word_stem)
        if len(holding) <= COMMON:
            candidates.update(holding)
    holders: dict[Ref, int] = {}
    for ref in origin.refs:
        pointing = view.with_ref(ref)
        holders[ref] = len(pointing)
        if len(pointing) <= COMMON:
            candidates.update(pointing)
    if origin.last_at is not None:
        candidates.update(view.near(origin.last_at, 50))
    scored = [(strength(origin, concept, holders), concept) for concept in map(view.concept, candidates - seen)]
    return sorted(((s, c) for s, c in scored if s >= WEAKEST), key=lambda pair: (-pair[0], pair[1].id))


class AssociationGraph:
    """An `AssociationView` held in memory, built from plain rows.

    Args:
        concepts: the live concepts.
        redirects: merged concept id → the id it went into (chains are followed).
    """

    def __init__(self, concepts: Iterable[AssociationConcept], redirects: Mapping[int, int] | None = None) -> None:
        self._concepts = {concept.id: concept for concept in concepts}
        self._redirects = dict(redirects or {})
        self._stems: dict[str, list[int]] = defaultdict(list)
        self._refs: dict[Ref, list[int]] = defaultdict(list)
        timed: list[tuple[datetime, int]] = []
        for concept in self._concepts.values():
            for word_stem in concept.rarity:
                self._stems[word_stem].append(concept.id)
            for ref in concept.refs:
                self._refs[ref].append(concept.id)
            if concept.last_at is not None:
                timed.append((concept.last_at, concept.id))
        self._timed = sorted(timed)

    def resolve(self, concept_ids: Iterable[int]) -> tuple[int, ...]:
        """The live concepts these ids stand for now."""
        live: list[int] = []
        for concept_id in concept_ids:
            passed: set[int] = set()
            while concept_id in self._redirects and concept_id not in passed:
                passed.add(concept_id)
                concept_id = self._redirects[concept_id]
            if concept_id in self._concepts:
                live.append(concept_id)
        return tuple(live)

    def concept(self, concept_id: int) -> AssociationConcept:
        """One concept. Raises KeyError when it is not live."""
        return self._concepts[concept_id]

    def with_stem(self, stem: str) -> Collection[int]:
        """Concepts with a word of this stem."""
        return self._stems.get(stem, ())

    def with_ref(self, ref: Ref) -> Collection[int]:
        """Concepts with a pointer to this source."""
        return self._refs.get(ref, ())

    def near(self, at: datetime, most: int) -> Sequence[int]:
        """At most `most` concepts last spoken of nearest to this instant; ties by id."""
        middle = bisect_left(self._timed, (at, 0))
        window = self._timed[max(0, middle - most) : middle + most]
        nearest = sorted(window, key=lambda entry: (abs((entry[0] - at).total_seconds()), entry[1]))
        return [concept_id for _, concept_id in nearest[:most]]
