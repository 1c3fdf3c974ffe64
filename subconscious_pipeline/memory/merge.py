"""Which concept an observation belongs to. Pure: words in, concept ids out.

An observation joins at most one concept and never pulls two together; overlap is measured against a concept's core, the words
observed most, because a concept that may be joined through any of its words snowballs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from subconscious_pipeline.words import stem

JOIN_OVERLAP = 0.40
CORE_SIZE = 8


@dataclass(frozen=True)
class Sighting:
    """The part of an observation that merging looks at."""

    id: int
    words: tuple[str, ...]
    concept_id: int | None  # None: not assigned yet


def rarity(frequency: int, observations: int) -> float:
    """Weight of a word that `frequency` of `observations` observations hold: ln(1 + N/n), the inverse document frequency."""
    return math.log(1.0 + observations / max(frequency, 1))


def overlap(left: AbstractSet[str], right: AbstractSet[str], weight: Mapping[str, float]) -> float:
    """Σ rarity(shared) / min(Σ rarity(left), Σ rarity(right)) over stems, 0..1.

    Zero unless two stems are shared (one, when the smaller side has fewer than three).
    """
    shared = left & right
    if len(shared) < (2 if min(len(left), len(right)) >= 3 else 1):
        return 0.0
    smaller = min(sum(weight[s] for s in left), sum(weight[s] for s in right))
    return sum(weight[s] for s in shared) / smaller if smaller else 0.0


def core(counts: Mapping[str, int]) -> frozenset[str]:
    """The stems observed most in a concept, ties alphabetically (so that no order of arrival shows)."""
    return frozenset(sorted(counts, key=lambda s: (-counts[s], s))[:CORE_SIZE])


def assign(sightings: Iterable[Sighting], next_id: int) -> dict[int, int]:
    """Concept ids for the observations that have none.

    Args:
        sightings: all live observations; the unassigned ones in (window_start, ordinal) order.
        next_id: the first id that is free for a new concept.

    Returns:
        observation id → concept id, for the unassigned ones.
    """
    everything = [(sighting, {stem(word) for word in sighting.words}) for sighting in sightings]
    frequency = Counter(s for _, found in everything for s in found)
    weight = {s: rarity(count, len(everything)) for s, count in frequency.items()}
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for sighting, found in everything:
        if sighting.concept_id is not None:
            counts[sighting.concept_id].update(found)
    cores = {concept: core(seen) for concept, seen in counts.items()}
    holders: dict[str, set[int]] = defaultdict(set)
    for concept, members in cores.items():
        for s in members:
            holders[s].add(concept)
    assigned: dict[int, int] = {}
    for sighting, found in everything:
        if sighting.concept_id is not None:
            continue
        candidates = {concept for s in found for concept in holders[s]}
        best = max(((overlap(found, cores[c], weight), -c) for c in candidates), default=(0.0, 0))
        if best[0] >= JOIN_OVERLAP:
            concept = -best[1]
        else:
            concept, next_id = next_id, next_id + 1
        assigned[sighting.id] = concept
        counts[concept].update(found)
        for s in cores.get(concept, frozenset()):
            holders[s].discard(concept)
        cores[concept] = core(counts[concept])
        for s in cores[concept]:
            holders[s].add(concept)
    return assigned


Interval = tuple[str, str, float, float]  # source type, source ref, start and end in seconds


def _disjoint(spans: Sequence[Interval]) -> list[Interval]:
    """The same spans with those that overlap joined."""
    joined: list[Interval] = []
    for span in sorted(spans):
        if joined and joined[-1][:2] == span[:2] and span[2] <= joined[-1][3]:
            joined[-1] = (*span[:2], joined[-1][2], max(joined[-1][3], span[3]))
        else:
            joined.append(span)
    return joined


def span_overlap(left: Sequence[Interval], right: Sequence[Interval]) -> float:
    """Share of the larger of two sets of spans that the other covers, 0..1. A single message counts as one second."""

    left, right = _disjoint(left), _disjoint(right)

    def length(spans: Sequence[Interval]) -> float:
        return sum(end - start + 1 for _, _, start, end in spans)

    common = sum(min(a[3], b[3]) - max(a[2], b[2]) + 1 for a in left for b in right if a[:2] == b[:2] and a[2] <= b[3] and b[2] <= a[3])
    larger = max(length(left), length(right))
    return common / larger if larger else 0.0


@dataclass(frozen=True)
class Trace:
    """What inheritance looks at: the words and the spans of one observation of a window."""

    words: tuple[str, ...]
    spans: tuple[Interval, ...]


INHERIT_OVERLAP = 0.50


def inherit(old: Sequence[Trace], new: Sequence[Trace]) -> dict[int, int]:
    """Which old observation each new one of the same window replaces: index of new → index of old.

    One to one, best span overlap first (at least half), then most shared words: a concept that is split by a re-run goes on
    in the part that is most like it.
    """
    pairs = []
    for n, fresh in enumerate(new):
        for o, former in enumerate(old):
            covered = span_overlap(fresh.spans, former.spans)
            if covered >= INHERIT_OVERLAP:
                shared = len({stem(w) for w in fresh.words} & {stem(w) for w in former.words})
                pairs.append((-covered, -shared, n, o))
    taken_new: dict[int, int] = {}
    taken_old: set[int] = set()
    for _, _, n, o in sorted(pairs):
        if n not in taken_new and o not in taken_old:
            taken_new[n] = o
            taken_old.add(o)
    return taken_new
