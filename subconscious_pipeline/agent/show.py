"""What commands print: JSON, plain lines with colours where a terminal takes them, tables.

The agent's commands start at every prompt: nothing but the standard library is imported before a table is drawn.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 120
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}
MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}

# Message text is foreign: what moves a terminal's cursor, rings, recolours or reverses the reading order does not get through.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def as_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output, in UTF-8 wherever it goes."""
    _as_json(value, indent=1)


def as_json_line(value: dict[str, Any]) -> None:
    """One JSON object on one line of standard output: for streams of them."""
    _as_json(value, indent=None)


def _as_json(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    text = re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match.group()):04x}", text)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")  # a lone surrogate becomes \udc80, which is JSON, too
    sys.stdout.buffer.flush()


def safe(text: str) -> str:
    """Foreign text made harmless for a terminal; line breaks and tabs stay."""
    return _UNPRINTABLE.sub("", text)


def style(text: str, colour: str | None = None, bold: bool = False, dim: bool = False, stream: TextIO | None = None) -> str:
    """Text with colours, where the stream it is meant for (standard output) shows them."""
    out = stream or sys.stdout
    if not text or not out.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    codes = [code for code, wanted in ((_COLOURS.get(colour or ""), colour), (1, bold), (2, dim)) if wanted and code]
    return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if codes else text


def line(text: str = "", stream: TextIO | None = None) -> None:
    """One line on standard output; what the stream's encoding lacks is replaced."""
    out = stream or sys.stdout
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    out.flush()


def note(text: str) -> None:
    """A remark beside the result, on standard error."""
    line(style(safe(text), "yellow", stream=sys.stderr), sys.stderr)


def failure(message: str, kind: str, json_too: bool) -> None:
    """A failure: one red line on standard error and, for those who asked for JSON, an `error` object on standard output."""
    if json_too:
        as_json({"error": {"type": kind, "message": message}})
    line(style(f"error: {safe(message)}", "red", stream=sys.stderr), sys.stderr)


def interactive() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def width() -> int:
    """Columns to print in."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def paragraph(text: str, indent: str = "") -> None:
    """Text filled to the width."""
    line(textwrap.fill(text, width(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))


def console() -> Console:
    """A Rich console on standard output that leaves the text as it is."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if interactive() else width())


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = (), title: str = "") -> None:
    """A table; cells wrap, and columns named in `right` are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", header_style="bold", pad_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", no_wrap=column in right, overflow="fold")
    for row in rows:
        drawn.add_row(*(cell if isinstance(cell, Text) else Text(safe(str(cell))) for cell in row))
    console().print(drawn)


def minute(at: datetime | None) -> str:
    """An instant to the minute, UTC: ``2026-04-03 06:00``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}" if at else ""


def age(at: datetime, now: datetime) -> str:
    """How long ago an instant was, in the unit a person would say."""
    seconds = (now - at).total_seconds()
    if seconds < 0:
        return "in the future"
    for unit, length in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now"


def counted(count: int, singular: str, plural: str = "") -> str:
    """``1 word``, ``2 words``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
