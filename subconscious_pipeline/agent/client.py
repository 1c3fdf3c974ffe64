"""The agent's three steps in Python: what is alive (`keywords`), where it lies (`lookup`), what was said (`read`).

Reads published files without any lock; only `read` opens the warehouse. Imports the standard library and `words` alone, so that an
agent can afford it at every start. Writes nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from subconscious_pipeline.agent.index import Index, open_index, wanted_stems
from subconscious_pipeline.agent.shapes import Concept, Item, Keywords, Lookup, Reading
from subconscious_pipeline.errors import SubconsciousError
from subconscious_pipeline.home import Home, resolve_home
from subconscious_pipeline.instants import iso_z

LOCK_SECONDS = 30.0


class NotPublished(SubconsciousError):
    """There is no published index in this home."""


class UnknownPointer(SubconsciousError):
    """No raw row lies behind a source type and ref."""


class UnknownConcept(SubconsciousError):
    """No live concept has this id."""


def command(home: Home, verb: str) -> str:
    """How to type a command so that it works on this home."""
    explicit = "" if home == resolve_home() else f" --home {shlex.quote(str(home.root))}"
    return f"subconscious {verb}{explicit}"


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
        now: the clock (aware); None for the home's own.
    """

    def __init__(self, home: Home | Path | str | None = None, now: Callable[[], datetime] | None = None) -> None:
        self.home = home if isinstance(home, Home) else resolve_home(home)
        self._now = now or self.home.now

    def keywords(self) -> Keywords:
        """The published words that still open a live concept. Degraded also when the snapshot has grown old.

        Raises:
            NotPublished: when nothing has been published here yet.
            StoreError: when the index is damaged or of another version.
        """
        with self._open() as index:
            keywords, all_of_them = index.keywords()
            reasons = index.reasons(command(self.home, "run"))
            return Keywords(
                status="degraded" if reasons else "ok",
                reasons=reasons,
                as_of=index.as_of,
                watermark=index.watermark,
                revision=index.revision,
                tokens=index.published_tokens if all_of_them else _tokens_of(item.word for item in keywords),
                keywords=keywords,
            )

    def lookup(self, *words: str, task: str | None = None) -> Lookup:
        """The live concepts that carry some words, published or not, with their pointers.

        Words match by stem; a phrase or a hyphenated word also by its parts. A number is the id of a concept; one that was merged away
        leads to the concept it is in now.

        Args:
            words: what to look for.
            task: instead of words: free text, of which every word counts that the index knows.

        Raises:
            ValueError: when neither or both are given.
            NotPublished, StoreError: as `keywords`.
        """
        if (not words) == (task is None):
            raise ValueError("give either words or a task")
        texts = words if task is None else (task,)
        with self._open() as index:
            hits = index.hits(wanted_stems(texts, drop_filler=task is not None))
            named = {index.resolved(int(word)): float("inf") for word in words if word.isascii() and word.isdigit()}
            return Lookup(hits.words, tuple(index.concepts({**hits.relevance, **named})), index.reasons(command(self.home, "run")))

    def concept(self, concept_id: int) -> Concept:
        """One live concept by its id, or by the id of one that was merged into it.

        Raises:
            UnknownConcept: when it never lived, or has expired.
            NotPublished, StoreError: as `keywords`.
        """
        with self._open() as index:
            found = index.concepts({index.resolved(concept_id): 0.0})
        if not found:
            raise UnknownConcept(
                f"there is no live concept {concept_id}; it may have expired: look for a word with `{command(self.home, 'lookup WORD')}`"
            )
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
            raise UnknownPointer(
                f"{self.home.root} holds no messages yet; put exports under {self.home.sources} and run `{command(self.home, 'run')}`"
            )
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
        if self.home.index.is_file():
            with self._open() as index:
                types = index.source_types()
            if types and source_type not in types:
                message += f"; the index points into {', '.join(types)}"
        return f"{message}; take type and ref as `{command(self.home, 'lookup WORD')}` gives them"

    @contextmanager
    def _open(self) -> Iterator[Index]:
        if not self.home.index.is_file():
            raise NotPublished(f"nothing has been published in {self.home.root} yet; run `{command(self.home, 'run')}`")
        with open_index(self.home.index, self._now()) as index:
            yield index


def _tokens_of(words: Iterable[str]) -> int:
    from subconscious_pipeline.publish.choose import SEPARATOR
    from subconscious_pipeline.publish.tokens import count

    return count(SEPARATOR.join(words))
