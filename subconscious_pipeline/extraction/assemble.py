"""From a validated reply to observations: times and references come from the cited rows, never from what the model wrote. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, timedelta
from itertools import groupby

from subconscious_pipeline.extraction.reply import ReplyConcept
from subconscious_pipeline.extraction.types import Observation, Span
from subconscious_pipeline.warehouse.transcript import Line, Transcript

MAX_GAP = 4  # uncited lines inside a span


def observations_from(transcript: Transcript, concepts: Iterable[ReplyConcept]) -> tuple[Observation, ...]:
    """One observation a concept, in the order of the reply; exact repeats (same words and lines) count once.

    `observed_at` is the latest instant of a cited row (UTC); `expires` its UTC date plus the concept's days, and not before
    the last local date of a cited row that ends later (an event still to come).

    Args:
        transcript: the whole window, of which the concepts may cite any line.
        concepts: validated entries of one or several replies about this window.

    Raises:
        ValueError: when a concept cites a line the transcript does not have.
    """
    by_number = {line.n: line for line in transcript.lines}
    places = _places(transcript)
    seen = set()
    observations = []
    for concept in concepts:
        words, numbers = tuple(concept.keywords), tuple(sorted(set(concept.lines)))
        if (words, numbers) in seen:
            continue
        seen.add((words, numbers))
        if unknown := [n for n in numbers if n not in by_number]:
            raise ValueError(f"cited lines are not in the transcript: {unknown}")
        cited = [by_number[n] for n in numbers]
        observed_at = max(line.at for line in cited).astimezone(UTC)
        observations.append(
            Observation(
                words=words,
                kind=concept.kind,
                ttl_days=concept.ttl_days,
                observed_at=observed_at,
                expires=max([_later(observed_at.date(), concept.ttl_days), *(line.last_date for line in cited if line.ends > observed_at)]),
                spans=_spans(cited, places),
            )
        )
    return tuple(observations)


def _places(transcript: Transcript) -> dict[int, int]:
    """Of each line number, its place among the lines of the same source."""
    counts: dict[tuple[str, str], int] = {}
    places = {}
    for line in sorted(transcript.lines, key=lambda line: line.n):
        source = (line.source_type, line.source_ref)
        places[line.n] = counts.get(source, 0)
        counts[source] = places[line.n] + 1
    return places


def _spans(cited: list[Line], places: dict[int, int]) -> tuple[Span, ...]:
    spans = set()
    by_source = sorted(cited, key=lambda line: (line.source_type, line.source_ref, places[line.n]))
    for (source_type, source_ref), lines in groupby(by_source, key=lambda line: (line.source_type, line.source_ref)):
        runs: list[list[Line]] = []
        for line in lines:
            if runs and places[line.n] - places[runs[-1][-1].n] <= MAX_GAP + 1:
                runs[-1].append(line)
            else:
                runs.append([line])
        for run in runs:
            start, end = min(line.at for line in run), max(max(line.at, line.ends) for line in run)
            spans.add(Span(source_type, source_ref, start.astimezone(UTC), end.astimezone(UTC)))
    return tuple(sorted(spans))


def _later(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return date.max
