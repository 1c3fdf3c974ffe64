"""What `keywords` and `lookup` print, and how a reading is shown. Light: these run at every prompt of an agent."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.client import Subconscious, command
from subconscious_pipeline.agent.shapes import Concept, Lookup, Reading, Source
from subconscious_pipeline.errors import SubconsciousError
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import iso_z

SHOWN_SPANS = 3
MOST_ACCESSED = 1_000  # concepts of one event


def keywords(home: Path | str | None, now: datetime, json: bool) -> None:
    """Print the published keywords as they are alive at `now`.

    Raises:
        NotPublished, StoreError: as `Subconscious.keywords`.
    """
    mind = Subconscious(home, now=lambda: now)
    found = mind.keywords()
    if json:
        show.as_json(found.as_json())
        return
    reach = f"read up to {show.minute(found.watermark)} UTC, {show.age(found.watermark, now)}"
    show.line(show.style(f"{show.counted(len(found.keywords), 'keyword')} · {show.counted(found.tokens, 'token')} · {reach}", bold=True))
    for reason in found.reasons:
        show.line(show.style(f"degraded: {reason}", "yellow"))
    show.line()
    show.paragraph(", ".join(item.word for item in found.keywords) or "(nothing at the moment)")
    if show.interactive() and found.keywords:
        show.line()
        show.line(show.style(f"Where one was said: {command(mind.home, 'lookup WORD')}", dim=True))


def lookup(home: Path | str | None, words: Sequence[str], task: str | None, now: datetime, json: bool, session: str | None = None) -> None:
    """Print the concepts that carry some words, or words of a task, as they are alive at `now`. Why the index may miss some is a note.

    Args:
        session: who looks; what was found is logged as accessed by it.

    Raises:
        NotPublished, StoreError: as `Subconscious.lookup`.
    """
    mind = Subconscious(home, now=lambda: now)
    found = mind.lookup(*words, task=task)
    for reason in found.reasons:
        show.note(f"degraded: {reason}")
    if json:
        show.as_json(found.as_json())
    else:
        _show_lookup(mind, found, words, task)
    if session is not None and found.concepts:
        _accessed(mind.home, session, now, [concept.id for concept in found.concepts])


def _accessed(home: Home, session: str, now: datetime, concepts: Sequence[int]) -> None:
    """Log an access. The answer has been given; that it could not be logged is a remark."""
    from subconscious_pipeline.caretaker import client
    from subconscious_pipeline.caretaker.log import EventLog

    try:
        with EventLog(home.events) as log:
            for first in range(0, len(concepts), MOST_ACCESSED):
                client.accessed(log, session, now, concepts[first : first + MOST_ACCESSED])
    except SubconsciousError as error:
        show.note(f"not noted as looked up: {error}")


def _show_lookup(mind: Subconscious, found: Lookup, words: Sequence[str], task: str | None) -> None:
    if not found.concepts:
        asked = "any word of this" if task is not None else " or ".join(words)
        show.line(f"Nothing alive carries {show.safe(asked)}. All words: {command(mind.home, 'keywords')}")
        return
    matched = f" · matched {', '.join(found.matched)}" if found.matched else ""
    show.line(show.style(f"{show.counted(len(found.concepts), 'concept')}{matched}", bold=True))
    for concept in found.concepts:
        show.line()
        _show_concept(concept, set(found.matched), mind.home)


def _show_concept(concept: Concept, matched: set[str], home: Home) -> None:
    words = ", ".join(show.style(word, "cyan", bold=True) if word in matched else word for word in concept.keywords)
    show.line(f"{show.style(f'#{concept.id}', bold=True)}  {words}")
    show.line(show.style(f"    {concept.tier.lower().replace('_', ' ')}, expires {concept.expires}", dim=True))
    for source in concept.sources:
        show.line(f"    {source.source_type} {show.safe(source.source_ref)}  {_range(source)}")
        for start, end in source.spans[:SHOWN_SPANS]:
            arguments = f"{shlex.quote(source.source_type)} {shlex.quote(show.safe(source.source_ref))} --from {iso_z(start)} --to {iso_z(end)}"
            show.line(show.style(f"      {command(home, 'read')} {arguments}", dim=True))
        if len(source.spans) > SHOWN_SPANS:
            show.line(show.style(f"      and {show.counted(len(source.spans) - SHOWN_SPANS, 'more passage')}; --json shows all", dim=True))


def _range(source: Source) -> str:
    start, end = show.minute(source.time_start), show.minute(source.time_end)
    if start == end:
        return f"{start} UTC"
    return f"{start} to {end[11:] if start[:10] == end[:10] else end} UTC"


def show_reading(found: Reading) -> None:
    """Print raw rows by day."""
    day = ""
    for item in found.items:
        today = f"{item.at:%Y-%m-%d %a}" if item.at else "without a date"
        if today != day:
            show.line(show.style(f"{today} (UTC)" if item.at else today, bold=True))
            day = today
        time = f"{item.at:%H:%M}" if item.at else "     "
        first, *rest = (show.safe(item.text).strip() or show.style("(no text: media, call or the like)", dim=True)).split("\n")
        author = show.style(show.safe(" ".join(item.author.split())), "cyan")
        show.line(f"  {show.style(time, dim=True)}  {author}{'  ' if item.author else ''}{first}")
        for text in rest:
            show.line(f"         {text}".rstrip())
