"""What the client hands out: frozen values, each with `as_json()` in the documented shape. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from subconscious_pipeline.instants import iso_z
from subconscious_pipeline.publish.schema import SCHEMA_VERSION


@dataclass(frozen=True)
class Keyword:
    """One published word and the ids of the live concepts it opens, ascending."""

    word: str
    concepts: tuple[int, ...]


@dataclass(frozen=True)
class Keywords:
    """What an agent carries passively."""

    status: str  # ok, degraded
    reasons: tuple[str, ...]
    as_of: datetime  # the instant the snapshot stands for, aware UTC
    watermark: datetime  # everything said before it has been read, aware UTC
    revision: int
    tokens: int  # of the words joined by ", "
    keywords: tuple[Keyword, ...]  # alphabetical

    def as_json(self) -> dict[str, Any]:
        """The shape of `subconscious keywords --json` and of `snapshot.json`."""
        return {
            "schema": SCHEMA_VERSION,
            "status": self.status,
            "reasons": list(self.reasons),
            "as_of": iso_z(self.as_of),
            "watermark": iso_z(self.watermark),
            "revision": self.revision,
            "tokens": self.tokens,
            "keywords": [{"word": item.word, "concepts": list(item.concepts)} for item in self.keywords],
        }


@dataclass(frozen=True)
class Source:
    """A pointer, and the tight cited runs inside it; all instants aware UTC, both ends included."""

    source_type: str
    source_ref: str
    time_start: datetime
    time_end: datetime
    spans: tuple[tuple[datetime, datetime], ...]

    def as_json(self) -> dict[str, Any]:
        """One entry of a concept's `sources`."""
        return {
            "source_type": self.source_type,
            "source_ref": self.source_ref,
            "time_start": iso_z(self.time_start),
            "time_end": iso_z(self.time_end),
            "spans": [[iso_z(start), iso_z(end)] for start, end in self.spans],
        }


@dataclass(frozen=True)
class Concept:
    """One live concept."""

    id: int
    expires: date
    tier: str
    keywords: tuple[str, ...]  # alphabetical
    sources: tuple[Source, ...]  # latest first
    relevance: float = 0.0  # summed rarity of the matched stems × (0.5 + salience)

    def as_json(self) -> dict[str, Any]:
        """One entry of a lookup's `concepts`."""
        return {
            "id": self.id,
            "expires": self.expires.isoformat(),
            "tier": self.tier,
            "keywords": list(self.keywords),
            "sources": [source.as_json() for source in self.sources],
        }


@dataclass(frozen=True)
class Lookup:
    """What some words open."""

    matched: tuple[str, ...]  # words of the index, alphabetical
    concepts: tuple[Concept, ...]  # most relevant first
    reasons: tuple[str, ...] = ()  # why the index may miss something; empty when it is complete up to its watermark

    def as_json(self) -> dict[str, Any]:
        """The shape of `subconscious lookup --json`."""
        return {"matched": list(self.matched), "concepts": [concept.as_json() for concept in self.concepts]}


@dataclass(frozen=True)
class Item:
    """One raw row: a message, a mail, an event."""

    at: datetime | None  # aware UTC; None for a mail without any date
    author: str
    text: str
    source_type: str
    source_ref: str
    native_id: str

    def as_json(self) -> dict[str, Any]:
        """One entry of a reading's `items`."""
        return {
            "at": iso_z(self.at) if self.at else None,
            "author": self.author,
            "text": self.text,
            "source_type": self.source_type,
            "source_ref": self.source_ref,
            "native_id": self.native_id,
        }


@dataclass(frozen=True)
class Reading:
    """The raw rows behind a pointer, oldest first. `note` says why there are none."""

    items: tuple[Item, ...]
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """The shape of `subconscious read --json`."""
        return {"items": [item.as_json() for item in self.items]}
