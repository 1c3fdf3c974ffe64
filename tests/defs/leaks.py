"""Looks for text in everything a home holds outside its warehouse and sources: values of every table, bytes of every file."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from subconscious_pipeline.home import Home

RUN = 4  # words in a row that give a text away
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")


def words(text: str) -> list[str]:
    """The words of a text, lowercase, with the escapes of JSON undone."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return _WORD.findall(re.sub(r"\\+[nrt]", " ", plain).lower())


def runs(texts: Iterable[str]) -> set[str]:
    """Every run of four words of these texts."""
    found = set()
    for text in texts:
        said = words(text)
        found |= {" ".join(said[at : at + RUN]) for at in range(len(said) - RUN + 1)}
    return found


def leaks(home: Home, secret: set[str], more: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """(place, run of words) for every secret run found in the home's files, or in the further texts by name."""
    found = []
    for place, text in [*_everything(home), *(more or {}).items()]:
        said = words(text)
        here = {" ".join(said[at : at + RUN]) for at in range(len(said) - RUN + 1)}
        found += [(place, run) for run in sorted(here & secret)]
    return found


def _everything(home: Home) -> Iterator[tuple[str, str]]:
    for path in sorted(home.root.rglob("*")):
        inside = path.relative_to(home.root)
        if not path.is_file() or inside.parts[0] == "sources" or inside.name.startswith(home.warehouse.name):
            continue
        data = path.read_bytes()
        yield from ((f"{inside} bytes", text) for text in _decoded(data))
        if path == home.memory:
            yield from ((f"{inside} {place}", text) for place, text in _duckdb(path))
        elif data.startswith(b"SQLite format 3"):
            yield from ((f"{inside} {place}", text) for place, text in _sqlite(path))


def _decoded(data: bytes) -> Iterator[str]:
    """Bytes as text, and unpacked where they are packed (Dagster packs what it knows of jobs)."""
    yield data.decode("utf-8", "replace")
    try:
        yield zlib.decompress(data).decode("utf-8", "replace")
    except zlib.error:
        return


def _text(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        yield from _decoded(value)
    elif isinstance(value, str):
        yield value
        try:
            yield from (zlib.decompress(bytes.fromhex(value)).decode("utf-8", "replace"),)
        except (ValueError, zlib.error):
            return
    elif value is not None:
        yield json.dumps(value, default=str, ensure_ascii=False)


def _duckdb(path: Path) -> Iterator[tuple[str, str]]:
    with duckdb.connect(str(path), read_only=True) as con:
        for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            for values in con.execute(f'SELECT * FROM "{table}"').fetchall():
                yield from ((table, text) for value in values for text in _text(value))


def _sqlite(path: Path) -> Iterator[tuple[str, str]]:
    con = sqlite3.connect(path)
    try:
        for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for values in con.execute(f'SELECT * FROM "{table}"').fetchall():
                yield from ((table, text) for value in values for text in _text(value))
    finally:
        con.close()
