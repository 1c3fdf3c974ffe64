"""Tiny transcripts for the tests of this room."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from subconscious_pipeline.instants import Window
from subconscious_pipeline.warehouse.transcript import Conversation, Line, Transcript

START = datetime(2026, 3, 30, 18, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(hours=6))


def line(n: int, text: str = "text", ref: str = "family", minute: int | None = None, source_type: str = "messaging", ends: datetime | None = None,
         last_date: date | None = None, at: datetime | None = None) -> Line:  # fmt: skip
    """Line `n`, sent `minute` (default `n`) minutes after the start of the window."""
    at = at or START + timedelta(minutes=n if minute is None else minute)
    ends = ends or at
    return Line(n, f"k{n}", source_type, ref, at, ends, at.strftime("%Y-%m-%d %a %H:%M +00:00"), last_date or ends.date(), "Ana", text)


def conversation(*lines: Line, title: str = "Family") -> Conversation:
    return Conversation(lines[0].source_type, title, lines)


def transcript(*conversations: Conversation, window: Window = WINDOW) -> Transcript:
    return Transcript(window, conversations, f"hash-{window.key}")


def small(*texts: str, window: Window = WINDOW) -> Transcript:
    """One chat with these messages."""
    return transcript(conversation(*(line(n, text) for n, text in enumerate(texts, 1))), window=window)


def concept(lines: list[int], words: str = "boiler leak plumber", kind: str = "incident", ttl_days: int = 5) -> dict[str, object]:
    return {"topic": "The boiler leaks.", "lines": lines, "keywords": words.split(), "kind": kind, "ttl_days": ttl_days}


def reply(*concepts: dict[str, object]) -> dict[str, object]:
    return {"concepts": list(concepts)}
