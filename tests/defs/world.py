"""Homes for whole runs: four windows of literal messages, a scripted server that answers by what it reads, the command line, Dagster's storage."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from extraction.fake_server import FakeServer, Request, Step, good
from filelock import FileLock
from typer.testing import CliRunner

from subconscious_pipeline.agent.app import app
from subconscious_pipeline.defs.instance import instance
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import store
from subconscious_pipeline.settings import load_settings

AS_OF = "2026-04-01T12:10Z"
SAMPLE_AS_OF = "2026-04-17T00:10Z"

KEYS = ("2026-03-30T06:00Z", "2026-03-31T06:00Z", "2026-03-31T18:00Z", "2026-04-01T00:00Z")
ROWS = (
    ("2026-03-30T08:10:00Z", "house", "the entrance door cannot be locked any more"),
    ("2026-03-31T09:00:00Z", "family", "the washing machine will be delivered by noon"),
    ("2026-03-31T20:00:00Z", "family", "our dentist moved the checkup to the tenth"),
    ("2026-04-01T03:00:00Z", "house", "the landlord wants the invoice of the plumber"),
)
WORDS = {
    ROWS[0][2]: ["entrance", "door", "lock"],
    ROWS[1][2]: ["washing-machine", "delivery", "household"],
    ROWS[2][2]: ["dentist", "checkup", "clinic"],
    ROWS[3][2]: ["landlord", "invoice", "plumber"],
    "a parcel was left at the gate": ["parcel", "gate", "courier"],
}


def row(at: str, ref: str, text: str, **more: str) -> str:
    """One line of a jsonl source."""
    return json.dumps({"source_type": "messaging", "source_ref": ref, "at": at, "text": text, "author": "Nora", **more}) + "\n"


def small(root: Path, rows: Iterable[tuple[str, str, str]] = ROWS) -> Home:
    """A home with these messages in it, not run yet."""
    home = Home(root).create()
    (home.sources / "chat.jsonl").write_text("".join(row(*one) for one in rows), encoding="utf-8")
    return home


def answer(request: Request) -> Step:
    """A good reply: one concept a known text, citing the line that holds it."""
    concepts = []
    for line in re.findall(r"^\[m(\d+)\].*$", request.text, re.MULTILINE):
        said = next(text for text in request.text.splitlines() if text.startswith(f"[m{line}]"))
        words = next((words for text, words in WORDS.items() if text in said), None)
        if words:
            concepts.append({"topic": said, "lines": [int(line)], "keywords": words, "kind": "ongoing", "ttl_days": 40})
    return good({"concepts": concepts})


def asked(server: FakeServer) -> list[str]:
    """The keys of the windows that a server was asked about, in order of arrival."""
    by_text = {text: key for (_, _, text), key in zip(ROWS, KEYS, strict=True)}
    return [key for request in server.requests for text, key in by_text.items() if text in request.text]


def ask(monkeypatch: pytest.MonkeyPatch, server: FakeServer, **settings: str) -> None:
    """Configure this process to ask a server."""
    for name, value in {**hosted(server), **{f"SUBCONSCIOUS_{name.upper()}": value for name, value in settings.items()}}.items():
        monkeypatch.setenv(name, value)


def hosted(server: FakeServer) -> dict[str, str]:
    """The environment that makes a run ask a server."""
    return {
        "SUBCONSCIOUS_MODEL": "openai/test", "SUBCONSCIOUS_BASE_URL": server.url, "OPENAI_API_KEY": "x", "SUBCONSCIOUS_HTTP_RETRIES": "0",
        "SUBCONSCIOUS_TIMEZONE": "UTC",
    }  # fmt: skip


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        return self.out + self.err


def cli(*arguments: str | Path) -> Done:
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def start(*arguments: str | Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    program = [sys.executable, "-c", "from subconscious_pipeline.agent.cli import main; main()"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SUBCONSCIOUS_")}
    return subprocess.Popen(
        [*program, *(str(argument) for argument in arguments)],
        env={**clean, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def made_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]) -> Path:
    """A folder built by the first test, of whatever worker process, that needs it. To be copied, never changed."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    place = root / name
    with FileLock(root / f"{name}.lock"):
        if not place.exists():
            fresh = root / f"{name}-new"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            build(fresh)
            fresh.rename(place)
    return place


def copied(source: Path, target: Path) -> Home:
    """A copy of a home, times of files kept."""
    shutil.copytree(source, target)
    return Home(target)


def execute(home: Home, job: str, tags: dict[str, str] | None = None, **resources: object) -> dg.ExecuteInProcessResult:
    """Run one Dagster job on a home."""
    from subconscious_pipeline.definitions import defs
    from subconscious_pipeline.defs.resources import HomeResource

    with instance(home) as storage:
        return defs.resolve_job_def(job).execute_in_process(
            instance=storage, tags=tags or {}, resources={"home": HomeResource(root=str(home.root)), **resources}, raise_on_error=False
        )


def materializations(home: Home, asset: str) -> list[tuple[str | None, dict[str, Any]]]:
    """Partition and metadata of every materialization of an asset, oldest first."""
    with instance(home) as storage:
        records = storage.fetch_materializations(dg.AssetKey(asset), limit=1_000).records
    made = [record.asset_materialization for record in records]
    return [(one.partition, {name: value.value for name, value in one.metadata.items()}) for one in reversed(made) if one]


def published(home: Home) -> dict[str, bytes]:
    """The bytes of every published file."""
    return {path.name: path.read_bytes() for path in sorted(home.published.iterdir())}


def memory(home: Home, query: str) -> list[tuple[Any, ...]]:
    """Rows of memory.duckdb."""
    with store.reading(home, load_settings()) as con:
        return con.execute(query).fetchall()


def concepts(home: Home) -> list[tuple[list[str], str, list[tuple[str, ...]]]]:
    """What is published of each concept but its number: words, expiry, spans."""
    con = sqlite3.connect(home.index)
    try:
        found = []
        for identity, expires in con.execute("SELECT id, expires FROM concepts").fetchall():
            words = [word for (word,) in con.execute("SELECT word FROM keywords WHERE concept_id = ? ORDER BY word", [identity])]
            spans = con.execute("SELECT source_type, source_ref, time_start, time_end FROM spans WHERE concept_id = ? ORDER BY 1, 2, 3", [identity])
            found.append((words, expires, spans.fetchall()))
    finally:
        con.close()
    return sorted(found)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
