"""What a window said, as the model will see it: conversations of numbered lines, and their rendering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime

from subconscious_pipeline.instants import Window

CHANNELS = {"messaging": "chat", "email": "email", "calendar": "calendar"}


@dataclass(frozen=True)
class Line:
    """One citable row. `n` counts from 1 through the whole window, whatever is put in one call."""

    n: int
    key: str  # the row's primary key in the warehouse
    source_type: str
    source_ref: str  # what a pointer to this row carries
    at: datetime  # aware UTC; for a calendar event its start
    ends: datetime  # aware UTC; equal to `at` for messages
    local: str  # the same instant in the source's zone, "2026-03-30 Mon 21:12 +02:00"; all-day events "2026-03-30 Mon all day"
    last_date: date  # local date of `ends` in the row's own zone
    author: str
    text: str  # one paragraph: line breaks are spaces


@dataclass(frozen=True)
class Conversation:
    """One chat, one e-mail thread, one calendar event, one document: what is read together."""

    source_type: str
    title: str
    lines: tuple[Line, ...]

    @property
    def channel(self) -> str:
        """`chat`, `email`, `calendar`, or the source type itself."""
        return CHANNELS.get(self.source_type, self.source_type)


@dataclass(frozen=True)
class Transcript:
    """Everything of one window that is not noise."""

    window: Window
    conversations: tuple[Conversation, ...]
    input_hash: str  # over keys and content hashes of the rows, not over their rendering

    @property
    def lines(self) -> Iterator[Line]:
        """All lines in order of their numbers."""
        return (line for conversation in self.conversations for line in conversation.lines)


def render(conversations: Iterable[Conversation]) -> str:
    """Transcript text: a heading a conversation, then ``[m12] 2026-03-30 Mon 21:12 +02:00 Ana: text`` lines.

    Byte-identical for equal input: replies are keyed by the hash of the prompt that holds it.
    """
    blocks = []
    for conversation in conversations:
        heading = f"## {conversation.channel}: {conversation.title}"
        rows = [f"[m{line.n}] {line.local} {line.author}: {line.text}" for line in conversation.lines]
        blocks.append("\n".join([heading, *rows]))
    return "\n\n".join(blocks)
