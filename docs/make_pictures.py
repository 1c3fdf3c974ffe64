"""Writes the generated parts of the documentation: `python docs/make_pictures.py` (two pictures, the schemas, the tables).

Everything comes from the program's own constants and models; a test checks that what lies in `docs/` is in step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from subconscious_pipeline.caretaker.events import KINDS
from subconscious_pipeline.caretaker.schemas import event_schemas, transaction_schema
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.memory import salience
from subconscious_pipeline.settings import Settings

DOCS = Path(__file__).parent
BEGIN, END = "<!-- thresholds: written by make_pictures.py -->", "<!-- end of thresholds -->"

INK, SOFT, FAINT = "#1f2933", "#5b6876", "#d5dbe1"
BLUE, ORANGE, GREEN, VIOLET, RED = "#2563a8", "#c2610c", "#2f7d4f", "#7048a8", "#b3372f"
HALO = 'paint-order="stroke" stroke="#ffffff" stroke-width="4" stroke-linejoin="round"'  # so that no line runs through words
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


# ---- drawing ----


def picture(width: int, height: int, title: str, *parts: str) -> str:
    """An SVG on a white card, so that it reads the same on a light and on a dark page."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="{FONT}">\n'
        f"<title>{title}</title>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="#ffffff" stroke="{FAINT}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def text(x: float, y: float, words: str, size: int = 13, colour: str = INK, anchor: str = "start", weight: int = 400, halo: bool = True) -> str:
    """A line of text; `<`, `>` and `&` are escaped."""
    safe = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}" {HALO if halo else ""}>{safe}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str = FAINT, width: float = 1, dash: str = "") -> str:
    """A straight line."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width:g}"{dashes}/>'


def bar(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1) -> str:
    """A rectangle with soft corners."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{colour}" fill-opacity="{opacity:g}"/>'


def dot(x: float, y: float, colour: str, radius: float = 5) -> str:
    """A filled circle with a white rim."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{colour}" stroke="#ffffff" stroke-width="1.5"/>'


def curve(points: Sequence[tuple[float, float]], colour: str, dash: str = "") -> str:
    """A line through many points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-linejoin="round"{dashes}/>'


# ---- how a concept fades ----


def score(hours: Sequence[float], decay: float) -> float:
    """The score of a concept last seen these hours ago, as `memory/salience.py` computes it."""
    activation = math.log(sum(max(hour, 1.0) ** -decay for hour in hours))
    return 1 / (1 + math.exp(-(activation - salience.THRESHOLD) / salience.NOISE))


def fading() -> str:
    """Scores over half a year: seen once; seen again after two months; seen once and claimed. With the edges of the tiers."""
    left, right, top, bottom, days, again = 64, 690, 56, 360, 180, 60

    def x(day: float) -> float:
        return left + day / days * (right - left)

    def y(value: float) -> float:
        return bottom - value * (bottom - top)

    def drawn(value: Callable[[float], float]) -> list[tuple[float, float]]:
        return [(x(step / 4), y(value(step / 4))) for step in range(days * 4 + 1)]

    def twice(day: float) -> float:
        return score([day * 24] if day < again else [day * 24, (day - again) * 24], salience.DECAY)

    edges = (
        (salience.PROMOTE_ACTIVE, salience.DEMOTE_ACTIVE, BLUE, "ACTIVE_CONTEXT"),
        (salience.PROMOTE_LONG_TERM, salience.DEMOTE_LONG_TERM, VIOLET, "LONG_TERM"),
    )
    parts = [text(left, 32, "How present a concept is, in days after it was seen", 15, weight=600)]
    for value in (0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts += [line(left, y(value), right, y(value)), text(left - 10, y(value) + 4, f"{value:.1f}", 12, SOFT, "end")]
    for day in range(0, days + 1, 30):
        parts += [line(x(day), bottom, x(day), bottom + 5, SOFT), text(x(day), bottom + 21, str(day), 12, SOFT, "middle")]
    for promote, demote, colour, tier in edges:
        parts.append(bar(left, y(promote), right - left, y(demote) - y(promote), colour, 0.10))
        parts += [line(left, y(promote), right, y(promote), colour, 1.2, "5 4"), line(left, y(demote), right, y(demote), colour, 1.2, "2 3")]
        parts.append(text(right + 12, y(promote) + 3, f"up to {tier} at {promote:.2f}", 12, colour))
        parts.append(text(right + 12, y(demote) + 9, f"down from {tier} below {demote:.2f}", 12, colour))
    parts += [
        curve(drawn(lambda day: score([day * 24], salience.CLAIMED_DECAY)), GREEN),
        curve(drawn(twice), ORANGE, "7 4"),
        curve(drawn(lambda day: score([day * 24], salience.DECAY)), BLUE),
        dot(x(again), y(twice(again)), ORANGE),
        text(x(again) + 10, y(twice(again)) + 16, f"seen again on day {again}", 12, ORANGE),
        text(right + 12, y(score([days * 24], salience.CLAIMED_DECAY)) + 4, "seen once, claimed", 12, GREEN, weight=600),
        text(x(64), y(0.52), "seen twice", 12, ORANGE, weight=600),
        text(x(150), y(0.045), "seen once", 12, BLUE, weight=600),
        text((left + right) / 2, bottom + 42, "days", 12, SOFT, "middle"),
    ]
    return picture(964, 420, "How the salience of a concept fades, comes back when it is seen again, and fades slower once claimed", *parts)


# ---- a morning of the caretaker ----


def timeline() -> str:
    """Two sessions, one recall, a sweep each hour, a consolidation and a shutdown, on one axis of time."""
    knobs = CaretakerSettings()
    left, right, first = 168, 900, 9 * 60

    def x(minute: float) -> float:
        return left + (minute - first) / (4 * 60) * (right - left)

    def lane(row: int) -> float:
        return 92 + row * 62

    names = ("a mind at its desk", "a mind that crashes", "Total Recall", "what minds are told", "background work", "the index")
    parts = [text(24, 34, "One morning: what minds write, and what the caretaker does unasked", 15, weight=600)]
    for row, name in enumerate(names):
        parts += [text(24, lane(row) + 5, name, 13, SOFT), line(left, lane(row), right, lane(row))]
    for hour in range(9, 14):
        parts += [
            line(x(hour * 60), 58, x(hour * 60), lane(5) + 22, FAINT, 1, "2 4"),
            text(x(hour * 60), lane(5) + 44, f"{hour}:00", 12, SOFT, "middle"),
        ]

    stop = 12 * 60 + 40
    talk, start, rest = 11 * 60 + 20, 9 * 60 + 10, 11 * 60 + 35
    nudge = start + knobs.break_minutes
    parts += [
        bar(x(start), lane(0) - 9, x(talk) - x(start), 18, BLUE, 0.85), text(x(start) + 8, lane(0) + 4, "TASK", 11, "#ffffff", weight=600, halo=False),
        bar(x(talk), lane(0) - 9, x(rest) - x(talk), 18, GREEN, 0.85), text(x(talk) + 2, lane(0) - 14, "CONVERSATION", 11, GREEN, weight=600),
        bar(x(rest), lane(0) - 9, x(stop) - x(rest), 18, BLUE, 0.85), text(x(rest) + 8, lane(0) + 4, "TASK", 11, "#ffffff", weight=600, halo=False),
        dot(x(nudge), lane(3), ORANGE), text(x(nudge), lane(3) - 13, f"break, after {knobs.break_minutes:g} min of TASK", 12, ORANGE, "middle"),
    ]  # fmt: skip
    crash = 9 * 60 + 55
    parts += [
        bar(x(9 * 60 + 20), lane(1) - 9, x(crash) - x(9 * 60 + 20), 18, VIOLET, 0.85), text(x(crash) + 8, lane(1) + 5, "× crash: its notes are flushed into memory", 12, RED),
        dot(x(9 * 60 + 40), lane(1), "#ffffff", 3.5), line(x(crash), lane(1) + 10, x(crash), lane(5) - 7, RED, 1, "3 3"), dot(x(crash), lane(5), GREEN),
    ]  # fmt: skip
    asked = 11 * 60 + 45
    begun = asked + 14  # drawn wider than the minutes that the debounce takes
    done = begun + 16
    parts += [
        dot(x(asked - 8), lane(2), FAINT), dot(x(asked), lane(2), VIOLET), bar(x(asked) + 5, lane(2) - 4, x(begun) - x(asked) - 5, 8, VIOLET, 0.25),
        bar(x(begun), lane(2) - 9, x(done) - x(begun), 18, VIOLET, 0.85),
        text(x(asked) - 14, lane(2) - 15, f"asked twice in {knobs.debounce_seconds:g} s: the last one counts", 12, VIOLET, "middle"),
        text(x(done) + 6, lane(2) + 4, f"≤ {knobs.recall_depth} depths", 12, VIOLET), line(x(done), lane(2) + 10, x(done), lane(3) - 6, VIOLET, 1, "3 3"),
        dot(x(done), lane(3), VIOLET), text(x(done), lane(3) + 20, "recollection", 12, VIOLET, "middle"),
    ]  # fmt: skip
    for hour in range(9, 13):
        parts += [dot(x(hour * 60 + 5), lane(4), BLUE), line(x(hour * 60 + 5), lane(4) + 6, x(hour * 60 + 5), lane(5) - 7, BLUE, 1, "3 3")]
        parts.append(dot(x(hour * 60 + 5), lane(5), BLUE))
    parts += [
        text(x(10 * 60 + 5) + 10, lane(4) - 10, f"a decay sweep every {knobs.sweep_minutes:g} min", 12, BLUE),
        dot(x(9 * 60 + 15), lane(4), GREEN), text(x(9 * 60 + 15) + 10, lane(4) + 17, "consolidation daily", 12, GREEN),
        text(x(10 * 60 + 5) + 10, lane(5) + 18, "published anew whenever it changed", 12, SOFT),
    ]  # fmt: skip
    parts += [
        line(x(stop), 58, x(stop), lane(5) + 22, RED, 1.5), text(x(stop), 53, "shutdown", 12, RED, "middle", 600),
        text(x(stop) + 7, lane(4) - 10, "no new work", 12, RED), dot(x(stop), lane(5), RED), text(x(stop) + 8, lane(5) + 18, "notes saved,", 12, RED),
        text(x(stop) + 8, lane(5) + 32, "last snapshot", 12, RED),
    ]  # fmt: skip
    return picture(940, 470, "A morning of the caretaker: sessions, a recall, sweeps, a consolidation, a shutdown", *parts)


# ---- tables and schemas ----


def thresholds() -> str:
    """Every threshold of the caretaker as a Markdown table."""
    rows = ["| environment variable | default | what it is |", "|---|---|---|"]
    fields = [*CaretakerSettings.model_fields.items(), ("sensor_seconds", Settings.model_fields["sensor_seconds"])]
    for name, field in fields:
        rows.append(f"| `SUBCONSCIOUS_{name.upper()}` | {field.default:g} | {field.description} |")
    return "\n".join(rows)


def with_thresholds(page: str) -> str:
    """The page with its table between the marks renewed."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{thresholds()}\n\n{END}{after}"


def events_page() -> str:
    """Every event with its JSON Schema, for those who write or read `events.db` in another language."""
    schemas = event_schemas()
    parts = [
        "# Events",
        "",
        "Everything the caretaker knows is in `events.db`, an append-only log. Agents write some kinds of events, the caretaker the others.",
        "The payload of each kind is described by a JSON Schema below. This page is written by `python docs/make_pictures.py`.",
        "",
        "| kind | written by | what it says |",
        "|---|---|---|",
    ]
    for kind, schema in schemas.items():
        said = " ".join(str(schema.get("description", "")).split())
        by = "the caretaker, for a mind to read" if schema["x-notification"] else "agents" if schema["x-written-by"] == "agent" else "the caretaker"
        parts.append(f"| [{kind}](#{kind.lower()}) | {by} | {said} |")
    parts += ["", "## What every event carries", "", *_code(transaction_schema())]
    for kind, schema in schemas.items():
        session = "names its session" if KINDS[kind].of_session else "may name a session"
        parts += [f"## {kind}", "", f"Version {schema['x-version']}; {session}.", "", *_code(schema)]
    return "\n".join(parts).rstrip() + "\n"


def _code(schema: dict[str, Any]) -> list[str]:
    return ["```json", json.dumps(schema, indent=2, ensure_ascii=False), "```", ""]


def generated() -> dict[str, str]:
    """File name → content of everything generated here."""
    return {
        "pictures/caretaker-timeline.svg": timeline(),
        "pictures/salience.svg": fading(),
        "events.md": events_page(),
        "caretaker.md": with_thresholds((DOCS / "caretaker.md").read_text(encoding="utf-8")),
    }


def main() -> None:
    """Write all of it."""
    for name, content in generated().items():
        (DOCS / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
