"""The published files: written under one lock, each replaced atomically, the same bytes for the same memory, watermark and date."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from subconscious_pipeline.errors import StoreLocked
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import iso_z
from subconscious_pipeline.memory import store
from subconscious_pipeline.publish.choose import SEPARATOR
from subconscious_pipeline.publish.overview import Overview, overview
from subconscious_pipeline.publish.schema import DDL, SCHEMA_VERSION
from subconscious_pipeline.publish.snapshot import Snapshot, take
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.noise import BEGIN_MARK, END_MARK, HEADER_MARK
from subconscious_pipeline.words import stem


@dataclass(frozen=True)
class Published:
    """What a publication did."""

    snapshot: Snapshot
    state: Overview
    changed: tuple[str, ...]  # names of the files whose bytes are new


def awareness(snapshot: Snapshot) -> str:
    """The block for an agent's instructions. Dated only when degraded, so that prompt caches stay warm."""
    note = f" (degraded: complete only up to {snapshot.watermark:%Y-%m-%d %H:%M} UTC)" if snapshot.status == "degraded" else ""
    body = SEPARATOR.join(snapshot.words) or "(nothing at the moment)"
    return (
        f"{BEGIN_MARK}\n{HEADER_MARK}: topics alive in recent messages, mail and calendar{note}\n{body}\n"
        "When a task touches one of these words, run `subconscious lookup WORD`, then read the sources it names before you act.\n"
        f"{END_MARK}\n"
    )


def as_json(snapshot: Snapshot) -> str:
    """`snapshot.json`: the shape of `subconscious keywords --json`."""
    holders: dict[str, list[int]] = {word: [] for word in snapshot.words}
    for keyword in snapshot.keywords:
        if keyword.word in holders:
            holders[keyword.word].append(keyword.concept_id)
    return (
        json.dumps(
            {
                "schema": SCHEMA_VERSION,
                "status": snapshot.status,
                "reasons": list(snapshot.reasons),
                "as_of": iso_z(snapshot.as_of),
                "watermark": iso_z(snapshot.watermark),
                "revision": snapshot.revision,
                "tokens": snapshot.tokens,
                "keywords": [{"word": word, "concepts": concepts} for word, concepts in holders.items()],
            },
            indent=1,
        )
        + "\n"
    )


def _write_index(path: Path, snapshot: Snapshot, settings: Settings) -> None:
    con = sqlite3.connect(path, isolation_level=None)
    try:
        con.execute("PRAGMA journal_mode=OFF")
        con.execute("PRAGMA synchronous=OFF")
        con.execute("BEGIN")
        for statement in DDL.split(";"):
            if statement.strip():
                con.execute(statement)
        meta = {
            "schema": SCHEMA_VERSION, "revision": snapshot.revision, "status": snapshot.status, "reasons": json.dumps(list(snapshot.reasons)),
            "as_of": iso_z(snapshot.as_of), "watermark": iso_z(snapshot.watermark), "tokens": snapshot.tokens,
            "window_hours": settings.window_hours, "stale_hours": settings.stale_hours,
        }  # fmt: skip
        con.executemany("INSERT INTO meta VALUES (?, ?)", sorted((key, str(value)) for key, value in meta.items()))
        con.executemany("INSERT INTO words VALUES (?, ?)", [(word, stem(word)) for word in snapshot.words])
        con.executemany("INSERT INTO concepts VALUES (?, ?, ?, ?)", [(c.id, c.expires.isoformat(), c.tier, c.score) for c in snapshot.concepts])
        con.executemany("INSERT INTO keywords VALUES (?, ?, ?, ?)", [(k.concept_id, k.word, stem(k.word), k.rarity) for k in snapshot.keywords])
        for table, pointers in (("sources", snapshot.sources), ("spans", snapshot.spans)):
            con.executemany(
                f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)",
                [(p.concept_id, p.source_type, p.source_ref, iso_z(p.time_start), iso_z(p.time_end)) for p in pointers],
            )
        con.executemany("INSERT INTO redirects VALUES (?, ?)", snapshot.redirects)
        con.execute("COMMIT")
    finally:
        con.close()


def _replace(path: Path, write: Callable[[Path], None]) -> bool:
    """Write to a neighbour and move it over `path`; leave `path` alone when the bytes are the same. Returns whether it changed."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    write(fresh)
    if path.exists() and path.read_bytes() == fresh.read_bytes():
        fresh.unlink()
        return False
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    fresh.replace(path)
    return True


def publish(home: Home, settings: Settings, as_of: datetime) -> Published:
    """Publish what memory holds now.

    Memory is read inside the publication lock: whoever comes later has read something at least as new, so an older revision can
    never replace a newer one.

    Raises:
        StoreLocked: when another publication, or a writer of the stores, does not finish in time.
    """
    home.published.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home.lock("published"), timeout=settings.lock_seconds):
            state = overview(home, settings, as_of)
            with store.reading(home, settings) as con:
                snapshot = take(con, state, settings)
            texts = {
                "awareness.md": awareness(snapshot),
                "keywords.txt": "".join(f"{word}\n" for word in snapshot.words),
                "snapshot.json": as_json(snapshot),
            }
            changed = [name for name, text in texts.items() if _replace(home.published / name, partial(_text, text))]
            if _replace(home.index, lambda path: _write_index(path, snapshot, settings)):
                changed.append(home.index.name)
    except Timeout:
        raise StoreLocked(f"{home.published} is being published by another process; try again") from None
    return Published(snapshot, state, tuple(changed))


def _text(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")
