"""SQL on the published `index.sqlite`, read-only and without a lock. Standard library and `words` only; knows no files but the one it opens."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from subconscious_pipeline.agent.shapes import Concept, Keyword, Source
from subconscious_pipeline.errors import StoreError
from subconscious_pipeline.instants import iso_z
from subconscious_pipeline.publish.schema import SCHEMA_VERSION
from subconscious_pipeline.words import content_words, singular, stem, tokens

NEVER_EXPIRES = "IDENTITY_CORE"
_MOST_PARAMETERS = 500  # older SQLite takes 999 in a statement
_LIVE = "(c.expires >= ? OR c.tier = ?)"


def wanted_stems(texts: Iterable[str], drop_filler: bool) -> dict[str, str]:
    """The stems to look for, each with the word it comes from; hyphenated words also in their parts, bare numbers never."""
    wanted: dict[str, str] = {}
    for text in texts:
        for token in content_words(text) if drop_filler else tokens(text):
            if not token.isdigit():
                wanted.setdefault(stem(token), token)
                wanted.setdefault(stem(singular(token)), token)
    return wanted


@dataclass(frozen=True)
class Hits:
    """Which words of the index match, and how relevant that makes each concept."""

    words: tuple[str, ...]  # alphabetical
    relevance: dict[int, float]  # concept id → summed rarity of its matched stems × (0.5 + salience)


class Index:
    """An open index at one instant.

    Args:
        con: the database.
        meta: its `meta` table.
        now: aware; concepts that have expired by then are not seen.
    """

    def __init__(self, con: sqlite3.Connection, meta: dict[str, str], now: datetime) -> None:
        self._con = con
        self._meta = meta
        self._now = now
        self._live = (now.astimezone(UTC).date().isoformat(), NEVER_EXPIRES)
        self.as_of = datetime.fromisoformat(meta["as_of"])
        self.watermark = datetime.fromisoformat(meta["watermark"])
        self.revision = int(meta["revision"])

    @property
    def published_tokens(self) -> int:
        """Tokens of all words as they were published."""
        return int(self._meta["tokens"])

    def reasons(self, remedy: str) -> tuple[str, ...]:
        """Why the index is degraded: what was published, and that it has grown old.

        Args:
            remedy: the command that reads what is new.
        """
        reasons = list(json.loads(self._meta["reasons"]))
        fresh = timedelta(hours=float(self._meta["stale_hours"]) + float(self._meta["window_hours"]))
        if self._now - self.watermark > fresh:
            reasons.append(f"stale: nothing after {iso_z(self.watermark)} has been read; run `{remedy}`")
        return tuple(reasons)

    def keywords(self) -> tuple[tuple[Keyword, ...], bool]:
        """The published words that open a live concept, alphabetical, and whether these are all that were published."""
        rows = self._con.execute(
            "SELECT w.word, c.id FROM words w LEFT JOIN keywords k ON k.stem = w.stem AND k.word = w.word "
            f"LEFT JOIN concepts c ON c.id = k.concept_id AND {_LIVE} ORDER BY w.word, c.id",
            self._live,
        )
        holders: dict[str, list[int]] = {}
        for word, concept in rows:
            holders.setdefault(word, []).extend([] if concept is None else [concept])
        opening = tuple(Keyword(word, tuple(ids)) for word, ids in holders.items() if ids)
        return opening, len(opening) == len(holders)

    def hits(self, wanted: dict[str, str]) -> Hits:
        """What the stems of `wanted_stems` meet among the words of live concepts, whether published or not."""
        words: set[str] = set()
        best: dict[tuple[int, str], float] = {}
        salience: dict[int, float] = {}
        for part in _in_parts([*wanted, *self._compounds(wanted)]):
            rows = self._con.execute(
                "SELECT k.concept_id, k.stem, k.word, k.rarity, c.score FROM keywords k JOIN concepts c ON c.id = k.concept_id "
                f"WHERE k.stem IN ({_marks(part)}) AND {_LIVE}",
                (*part, *self._live),
            )
            for concept, found, word, rarity, score in rows:
                words.add(word)
                salience[concept] = score
                best[concept, found] = max(best.get((concept, found), 0.0), rarity)
        relevance: dict[int, float] = {}
        for (concept, _stem), rarity in best.items():
            relevance[concept] = relevance.get(concept, 0.0) + rarity * (0.5 + salience[concept])
        return Hits(tuple(sorted(words)), relevance)

    def _compounds(self, wanted: dict[str, str]) -> set[str]:
        """Stems of hyphenated words of the index that have a wanted word as a part."""
        beginnings = {word[:3] for word in wanted.values()}  # stemming keeps them, and is what takes the time
        found = set()
        for word, whole in self._con.execute("SELECT DISTINCT word, stem FROM keywords WHERE word LIKE '%-%'"):
            if any(part[:3] in beginnings and stem(part) in wanted for part in word.split("-")):
                found.add(whole)
        return found - wanted.keys()

    def resolved(self, concept: int) -> int:
        """The id of the concept that an id means today, after merges."""
        seen = set()
        while concept not in seen:
            seen.add(concept)
            row = self._con.execute("SELECT into_id FROM redirects WHERE from_id = ?", (concept,)).fetchone()
            concept = row[0] if row else concept
        return concept

    def concepts(self, relevance: dict[int, float]) -> list[Concept]:
        """The live ones among these concepts, most relevant first, then by id."""
        found = [concept for part in _in_parts(list(relevance)) for concept in self._some_concepts(part, relevance)]
        return sorted(found, key=lambda concept: (-concept.relevance, concept.id))

    def _some_concepts(self, ids: Sequence[int], relevance: dict[int, float]) -> Iterator[Concept]:
        among = f"concept_id IN ({_marks(ids)})"
        words: dict[int, list[str]] = {}
        for concept, word in self._con.execute(f"SELECT concept_id, word FROM keywords WHERE {among} ORDER BY word", ids):
            words.setdefault(concept, []).append(word)
        spans: dict[tuple[int, str, str], list[tuple[datetime, datetime]]] = {}
        query = f"SELECT concept_id, source_type, source_ref, time_start, time_end FROM spans WHERE {among} ORDER BY time_start, time_end"
        for concept, kind, ref, start, end in self._con.execute(query, ids):
            spans.setdefault((concept, kind, ref), []).append((datetime.fromisoformat(start), datetime.fromisoformat(end)))
        sources: dict[int, list[Source]] = {}
        query = f"SELECT concept_id, source_type, source_ref, time_start, time_end FROM sources WHERE {among} ORDER BY time_end DESC, 2, 3"
        for concept, kind, ref, start, end in self._con.execute(query, ids):
            cited = tuple(spans.get((concept, kind, ref), ()))
            sources.setdefault(concept, []).append(Source(kind, ref, datetime.fromisoformat(start), datetime.fromisoformat(end), cited))
        query = f"SELECT c.id, c.expires, c.tier FROM concepts c WHERE c.id IN ({_marks(ids)}) AND {_LIVE}"
        for concept, expires, tier in self._con.execute(query, (*ids, *self._live)):
            yield Concept(
                concept, date.fromisoformat(expires), tier, tuple(words.get(concept, ())), tuple(sources.get(concept, ())), relevance[concept]
            )

    def source_types(self) -> list[str]:
        """The source types that any pointer names."""
        return [row[0] for row in self._con.execute("SELECT DISTINCT source_type FROM sources ORDER BY 1")]


@contextmanager
def open_index(path: Path, now: datetime) -> Iterator[Index]:
    """Open an index that exists. A publication meanwhile replaces the file; what is open stays as it was.

    Raises:
        StoreError: when the file is no index, or one of another schema.
    """
    try:
        con = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=0", uri=True)
        try:
            meta = dict(con.execute("SELECT key, value FROM meta").fetchall())
            if meta.get("schema") != str(SCHEMA_VERSION):
                raise StoreError(f"{path} has schema {meta.get('schema')}, this program reads {SCHEMA_VERSION}; use the version that published it")
            yield Index(con, meta, now)
        finally:
            con.close()
    except sqlite3.Error:
        raise StoreError(f"{path} is damaged or cannot be read; delete it and run `subconscious run`, it will be written anew") from None


def _in_parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _MOST_PARAMETERS):
        yield values[start : start + _MOST_PARAMETERS]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
