"""The agent's three steps in Python: what is alive (`keywords`), where it lies (`lookup`), what was said (`read`).

Reads published files without any lock; only `read` opens the warehouse. Imports the standard library and `words` alone, so that an
agent can afford it at every start. Writes nothing.
"""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from subconscious_pipeline.errors import StoreError, SubconsciousError
from subconscious_pipeline.home import Home, resolve_home
from subconscious_pipeline.instants import iso_z
from subconscious_pipeline.publish.schema import SCHEMA_VERSION
from subconscious_pipeline.words import FILLER, singular, stem, tokens

NEVER_EXPIRES = "IDENTITY_CORE"
LOCK_SECONDS = 30.0
_MOST_PARAMETERS = 500


class NotPublished(SubconsciousError):
    """There is no published index in this home."""


class UnknownPointer(SubconsciousError):
    """No raw row lies behind a source type and ref."""


class UnknownConcept(SubconsciousError):
    """No live concept has this id."""


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


def _now() -> datetime:
    return datetime.now(UTC)


class Subconscious:
    """The published subconscious of one home.

    ```python
    mind = Subconscious()
    words = [item.word for item in mind.keywords().keywords]
    source = mind.lookup("entrance").concepts[0].sources[0]
    mind.read(source.source_type, source.source_ref, source.time_start, source.time_end)
    ```

    Args:
        home: the home directory; None for `SUBCONSCIOUS_HOME` or the default.
        now: the clock (aware); only tests and replays set it.
    """

    def __init__(self, home: Home | Path | str | None = None, now: Callable[[], datetime] = _now) -> None:
        self.home = home if isinstance(home, Home) else resolve_home(home)
        self._now = now

    def keywords(self) -> Keywords:
        """The published words that still open a live concept. Degraded also when the snapshot has grown old.

        Raises:
            NotPublished: when nothing has been published here yet.
            StoreError: when the index is damaged or of a newer version.
        """
        with self._open() as con:
            meta = _meta(con)
            published = con.execute("SELECT count(*) FROM words").fetchone()[0]
            rows = con.execute(
                "SELECT w.word, k.concept_id FROM words w JOIN keywords k ON k.word = w.word JOIN concepts c ON c.id = k.concept_id "
                "WHERE c.expires >= ? OR c.tier = ? ORDER BY w.word, k.concept_id",
                self._live(),
            ).fetchall()
        holders: dict[str, list[int]] = {}
        for word, concept in rows:
            holders.setdefault(word, []).append(concept)
        reasons = self._reasons(meta)
        return Keywords(
            status="degraded" if reasons else "ok",
            reasons=reasons,
            as_of=datetime.fromisoformat(meta["as_of"]),
            watermark=datetime.fromisoformat(meta["watermark"]),
            revision=int(meta["revision"]),
            tokens=int(meta["tokens"]) if len(holders) == published else _tokens_of(holders),
            keywords=tuple(Keyword(word, tuple(ids)) for word, ids in holders.items()),
        )

    def lookup(self, *words: str, task: str | None = None) -> Lookup:
        """The live concepts that carry some words, also words that are not published, with their pointers.

        Words match by stem; a phrase or a hyphenated word also by its parts. A number is the id of a concept; one that was merged away
        leads to the concept it is in now.

        Args:
            words: what to look for.
            task: instead of words, free text of which every word counts that the index knows.

        Raises:
            ValueError: when neither or both are given.
            NotPublished, StoreError: as `keywords`.
        """
        if bool(words) == bool(task):
            raise ValueError("give either words or a task")
        asked = (task,) if task else words
        ids = [int(word) for word in words if word.isascii() and word.isdigit()]
        with self._open() as con:
            hits = _hits(con, _wanted(asked, drop_filler=task is not None), self._live())
            relevance: dict[int, float] = {}
            for (concept, _stem), (rarity, score) in hits.by_concept.items():
                relevance[concept] = relevance.get(concept, 0.0) + rarity * (0.5 + score)
            for concept in _resolved(con, ids):
                relevance[concept] = float("inf")
            found = _concepts(con, relevance, self._live())
            reasons = self._reasons(_meta(con))
        return Lookup(tuple(sorted(hits.words)), tuple(sorted(found, key=lambda concept: (-concept.relevance, concept.id))), reasons)

    def concept(self, concept_id: int) -> Concept:
        """One live concept by its id, or by the id of one that was merged into it.

        Raises:
            UnknownConcept: when it never lived, or has expired.
            NotPublished, StoreError: as `keywords`.
        """
        with self._open() as con:
            found = list(_concepts(con, dict.fromkeys(_resolved(con, [concept_id]), 0.0), self._live()))
        if not found:
            raise UnknownConcept(f"there is no live concept {concept_id}; it may have expired: look for a word with `subconscious lookup WORD`")
        return found[0]

    def read(self, source_type: str, source_ref: str, time_from: datetime | None = None, time_to: datetime | None = None) -> Reading:
        """The raw rows behind a pointer, oldest first.

        Args:
            source_type, source_ref: as `lookup` gives them; the thread of a mail and the series of an event work too.
            time_from, time_to: aware; both ends included; None is open.

        Raises:
            UnknownPointer: when nothing is known of this type and ref.
            StoreLocked: when a run keeps the warehouse for more than half a minute.
        """
        from subconscious_pipeline import duck
        from subconscious_pipeline.warehouse.read import read_pointer
        from subconscious_pipeline.warehouse.schema import MIGRATIONS

        if not self.home.warehouse.exists():
            raise UnknownPointer(f"{self.home.root} holds no messages yet; put exports under {self.home.sources} and run `{self._command('run')}`")
        with duck.reading(self.home.warehouse, MIGRATIONS, LOCK_SECONDS) as con:
            rows = read_pointer(con, source_type, source_ref, time_from, time_to)
            whole = rows or read_pointer(con, source_type, source_ref)
        if not whole:
            raise UnknownPointer(self._unknown(source_type, source_ref))
        note = ""
        if not rows:
            dates = sorted(row.at for row in whole if row.at)
            reach = f", from {iso_z(dates[0])} to {iso_z(dates[-1])}" if dates else ", without a date"
            note = f"{source_type} {source_ref!r} holds nothing in this range; it has {len(whole)} in all{reach}"
        return Reading(tuple(Item(row.at, row.author, row.text, row.source_type, row.source_ref, row.native_id) for row in rows), note)

    def _unknown(self, source_type: str, source_ref: str) -> str:
        message = f"nothing is known of {source_type} {source_ref!r}"
        try:
            with self._open() as con:
                types = [row[0] for row in con.execute("SELECT DISTINCT source_type FROM sources ORDER BY 1")]
        except (NotPublished, StoreError):
            types = []
        if types and source_type not in types:
            message += f"; the index points into {', '.join(types)}"
        return f"{message}; take type and ref as `{self._command('lookup')} WORD` gives them"

    def _command(self, verb: str) -> str:
        """A command that works on this home wherever it is typed."""
        explicit = "" if self.home == resolve_home() else f" --home {shlex.quote(str(self.home.root))}"
        return f"subconscious {verb}{explicit}"

    def _live(self) -> tuple[str, str]:
        return self._now().astimezone(UTC).date().isoformat(), NEVER_EXPIRES

    def _reasons(self, meta: dict[str, str]) -> tuple[str, ...]:
        reasons = list(json.loads(meta["reasons"]))
        watermark = datetime.fromisoformat(meta["watermark"])
        if self._now() - watermark > timedelta(hours=float(meta["stale_hours"]) + float(meta["window_hours"])):
            reasons.append(f"stale: nothing after {iso_z(watermark)} has been read; run `{self._command('run')}`")
        return tuple(reasons)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        path = self.home.index
        if not path.is_file():
            raise NotPublished(f"nothing has been published in {self.home.root} yet; run `{self._command('run')}`")
        try:
            con = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=0", uri=True)
            try:
                version = int(_meta(con)["schema"])
                if version != SCHEMA_VERSION:
                    raise StoreError(f"{path} has schema {version}, this program reads {SCHEMA_VERSION}; use the version that published it")
                yield con
            finally:
                con.close()
        except (sqlite3.Error, KeyError):
            raise StoreError(f"{path} is no usable index; delete it and run `{self._command('run')}`, it will be written anew") from None


def _meta(con: sqlite3.Connection) -> dict[str, str]:
    return dict(con.execute("SELECT key, value FROM meta").fetchall())


def _tokens_of(words: Iterable[str]) -> int:
    from subconscious_pipeline.publish.choose import SEPARATOR
    from subconscious_pipeline.publish.tokens import count

    return count(SEPARATOR.join(words))


def _wanted(texts: Iterable[str], drop_filler: bool) -> dict[str, str]:
    """The stems to look for, each with a plain word it comes from; neighbours also joined by a hyphen ("washing machine")."""
    wanted: dict[str, str] = {}
    for text in texts:
        before = ""
        for token in tokens(text):
            filler = drop_filler and (token in FILLER or singular(token) in FILLER or len(token) < 2)
            if not filler and not token.isdigit():
                wanted.setdefault(stem(token), token)
                wanted.setdefault(stem(singular(token)), token)
                if before and "-" not in token:
                    wanted.setdefault(stem(f"{before}-{singular(token)}"), "")
            before = "" if filler or "-" in token else token
    return wanted


@dataclass(frozen=True)
class _Hits:
    words: set[str]
    by_concept: dict[tuple[int, str], tuple[float, float]]  # (concept, stem) → rarity, salience


def _hits(con: sqlite3.Connection, wanted: dict[str, str], live: tuple[str, str]) -> _Hits:
    hits = _Hits(set(), {})
    for part in _in_parts([*wanted, *_compounds(con, wanted)]):
        rows = con.execute(
            "SELECT k.concept_id, k.stem, k.word, k.rarity, c.score FROM keywords k JOIN concepts c ON c.id = k.concept_id "
            f"WHERE k.stem IN ({_marks(part)}) AND (c.expires >= ? OR c.tier = ?)",
            (*part, *live),
        )
        for concept, found, word, rarity, score in rows:
            hits.words.add(word)
            known = hits.by_concept.get((concept, found), (0.0, score))
            hits.by_concept[concept, found] = (max(known[0], rarity), score)
    return hits


def _compounds(con: sqlite3.Connection, wanted: dict[str, str]) -> set[str]:
    """Stems of hyphenated words of the index that have a wanted word as a part."""
    beginnings = {word[:3] for word in wanted.values() if word}  # stemming keeps them; it is what takes the time
    found = set()
    for word, whole in con.execute("SELECT DISTINCT word, stem FROM keywords WHERE word LIKE '%-%'"):
        if any(part[:3] in beginnings and stem(part) in wanted for part in word.split("-")):
            found.add(whole)
    return found - wanted.keys()


def _resolved(con: sqlite3.Connection, ids: Iterable[int]) -> list[int]:
    resolved = []
    for concept in ids:
        seen = set()
        while concept not in seen:
            seen.add(concept)
            row = con.execute("SELECT into_id FROM redirects WHERE from_id = ?", (concept,)).fetchone()
            concept = row[0] if row else concept
        resolved.append(concept)
    return resolved


def _concepts(con: sqlite3.Connection, relevance: dict[int, float], live: tuple[str, str]) -> Iterator[Concept]:
    for part in _in_parts(list(relevance)):
        marks = _marks(part)
        words: dict[int, list[str]] = {}
        for concept, word in con.execute(f"SELECT concept_id, word FROM keywords WHERE concept_id IN ({marks}) ORDER BY word", part):
            words.setdefault(concept, []).append(word)
        spans: dict[tuple[int, str, str], list[tuple[datetime, datetime]]] = {}
        for concept, kind, ref, start, end in con.execute(
            f"SELECT concept_id, source_type, source_ref, time_start, time_end FROM spans WHERE concept_id IN ({marks}) ORDER BY time_start, time_end",
            part,
        ):
            spans.setdefault((concept, kind, ref), []).append((datetime.fromisoformat(start), datetime.fromisoformat(end)))
        sources: dict[int, list[Source]] = {}
        for concept, kind, ref, start, end in con.execute(
            f"SELECT concept_id, source_type, source_ref, time_start, time_end FROM sources WHERE concept_id IN ({marks}) "
            "ORDER BY time_end DESC, source_type, source_ref",
            part,
        ):
            cited = tuple(spans.get((concept, kind, ref), ()))
            sources.setdefault(concept, []).append(Source(kind, ref, datetime.fromisoformat(start), datetime.fromisoformat(end), cited))
        for concept, expires, tier in con.execute(
            f"SELECT id, expires, tier FROM concepts WHERE id IN ({marks}) AND (expires >= ? OR tier = ?)", (*part, *live)
        ):
            yield Concept(
                concept, date.fromisoformat(expires), tier, tuple(words.get(concept, ())), tuple(sources.get(concept, ())), relevance[concept]
            )


def _in_parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _MOST_PARAMETERS):
        yield values[start : start + _MOST_PARAMETERS]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
