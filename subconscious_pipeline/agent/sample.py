"""Where the bundled sample lies, and the tiny transcript that `model check` asks about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from subconscious_pipeline.home import sample_dir
from subconscious_pipeline.instants import Window
from subconscious_pipeline.warehouse.transcript import Conversation, Line, Transcript

_START = datetime(2026, 3, 30, 6, tzinfo=UTC)
_SAID = (
    ("Nora", "The lift in our building is stuck again, third floor, doors will not open"),
    ("Ben", "I called the repair company, the technician comes tomorrow morning"),
    ("Nora", "Good. Someone should tell the building manager, the last repair did not hold"),
)


def sample_replies() -> Path | None:
    """The recorded replies that the model `replay` alone means."""
    folder = sample_dir()
    return folder / "replies.jsonl" if folder else None


def tiny_transcript() -> Transcript:
    """One window with one chat of three invented lines."""
    lines = []
    for number, (author, text) in enumerate(_SAID, start=1):
        at = _START + timedelta(minutes=10 * number)
        local = f"{at:%Y-%m-%d %a %H:%M} +00:00"
        lines.append(Line(number, f"check-{number}", "messaging", "check", at, at, local, at.date(), author, text))
    chat = Conversation("messaging", "neighbours", tuple(lines))
    return Transcript(Window(_START, _START + timedelta(hours=6)), (chat,), "check")
