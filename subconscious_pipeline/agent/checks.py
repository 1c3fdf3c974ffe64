"""What `doctor` looks at: each check says what it found and what to do. Repairs nothing, asks no model, and leaves no trace in a home."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from subconscious_pipeline import duck
from subconscious_pipeline.agent import daemon, pulse
from subconscious_pipeline.agent.client import NotPublished, Subconscious, command
from subconscious_pipeline.agent.sample import sample_replies
from subconscious_pipeline.agent.trial import destination
from subconscious_pipeline.errors import ConfigError, StoreLocked, SubconsciousError
from subconscious_pipeline.extraction.gguf import find_model
from subconscious_pipeline.extraction.models import make_extractor
from subconscious_pipeline.home import Home
from subconscious_pipeline.memory import store
from subconscious_pipeline.publish.overview import overview
from subconscious_pipeline.readers.sources import load_sources, source_files
from subconscious_pipeline.settings import Settings, load_settings
from subconscious_pipeline.warehouse.schema import MIGRATIONS

PYTHON = (3, 11)
LITTLE_SPACE = 2 * 1024**3
NO_SPACE = 200 * 1024**2
PATIENCE_SECONDS = 2.0  # a store that is busy longer than this is reported, not waited for

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """One finding."""

    name: str
    state: State
    finding: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """One entry of `checks` of `subconscious doctor --json`."""
        return asdict(self)


def all_checks(home: Home, now: datetime) -> Iterator[Check]:
    """Every check in order, each made when it is asked for. A check that raises is a failed check, not the end of the others.

    Args:
        now: aware UTC.
    """
    yield _python()
    yield _home(home)
    yield _space(home)
    try:
        settings = load_settings()
    except ConfigError as error:
        yield Check("settings", "fail", str(error), "correct these variables; the checks that need settings were left out")
        return
    patient = settings.model_copy(update={"lock_seconds": min(settings.lock_seconds, PATIENCE_SECONDS)})
    yield Check("settings", "ok", "every SUBCONSCIOUS_ variable is valid")
    looks: dict[str, Callable[[], Check]] = {
        "sources": lambda: _sources(home, settings),
        "locks": lambda: _locks(home),
        "warehouse": lambda: _warehouse(home, patient),
        "memory": lambda: _memory(home, patient),
        "events": lambda: _events(home),
        "windows": lambda: _windows(home, patient, now),
        "snapshot": lambda: _snapshot(home, now),
        "model": lambda: _model(settings),
        "daemon": lambda: Check("daemon", *daemon.look(home, now)),
        "caretaker": lambda: Check("caretaker", *pulse.look(home, now, lambda: daemon.alive(home, now))),
    }
    for name, look in looks.items():
        yield _guarded(name, look)


def _guarded(name: str, look: Callable[[], Check]) -> Check:
    try:
        return look()
    except StoreLocked as error:
        return Check(name, "warn", str(error), "if no run is at work, see the check `locks` for the process that holds it")
    except (SubconsciousError, OSError) as error:
        return Check(name, "fail", str(error))


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON:
        return Check("python", "fail", f"Python {version}", f"use Python {'.'.join(map(str, PYTHON))} or newer")
    return Check("python", "ok", f"Python {version}")


def _home(home: Home) -> Check:
    if not home.root.is_dir():
        return Check("home", "warn", f"{home.root} does not exist yet", f"`{command(home, 'run')}` makes it")
    try:
        with tempfile.TemporaryFile(dir=home.root):
            return Check("home", "ok", f"{home.root} is writable")
    except OSError as error:
        return Check(
            "home", "fail", f"{home.root} cannot be written ({error.strerror})", "correct its owner or permissions, or name another with --home"
        )


def _space(home: Home) -> Check:
    place = next(path for path in (home.root, *home.root.parents) if path.exists())
    free = shutil.disk_usage(place).free
    state: State = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    remedy = "" if state == "ok" else "make room: the stores need about the size of the sources, the local model 1.1 GB"
    return Check("disk space", state, f"{free / 1024**3:.1f} GB free", remedy)


def _sources(home: Home, settings: Settings) -> Check:
    configured = load_sources(home)
    files = source_files(home, settings)
    missing = [file.shown for file in files if not file.path.exists()]
    where = "sources.yaml" if configured is not None else "everything under sources/"
    if missing:
        return Check("sources", "warn", f"{where}: missing {', '.join(missing)}", f"correct the paths in {home.sources_yaml}")
    if not files:
        return Check(
            "sources", "warn", f"{where}: no files", f"put exports under {home.sources}; `subconscious inspect FILE` shows what becomes of one"
        )
    return Check("sources", "ok", f"{where}: {len(files)} to read")


def _locks(home: Home) -> Check:
    held = []
    for path in [home.lock(name) for name in ("warehouse", "memory", "published", "events")] + sorted(home.locks.glob("*.lock")):
        if path.exists() and not _free(path):
            holder = _holder(path)
            held.append(f"{path.name} by {holder}" if holder else path.name)
    if held:
        return Check("locks", "warn", f"held: {'; '.join(held)}", "a run is at work; wait for it, or end that process: its locks go with it")
    return Check("locks", "ok", "none is held")


def _free(path: Path) -> bool:
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    lock.release()
    return True


def _holder(path: Path) -> str:
    """The process that holds a lock file, where the kernel says so (Linux)."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        inode = str(path.stat().st_ino)
        for fields in (line.split() for line in lines):
            if "->" not in fields and fields[5].rpartition(":")[2] == inode:
                name = Path("/proc", fields[4], "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"process {fields[4]} ({name})"
    except (OSError, IndexError):
        return ""
    return ""


def _warehouse(home: Home, settings: Settings) -> Check:
    if not home.warehouse.exists():
        return Check("warehouse", "warn", "nothing has been read yet", f"run `{command(home, 'run')}`")
    with duck.reading(home.warehouse, MIGRATIONS, settings.lock_seconds):
        return Check("warehouse", "ok", f"opens, schema {len(MIGRATIONS)}, {home.warehouse.stat().st_size / 1024**2:.1f} MB")


def _memory(home: Home, settings: Settings) -> Check:
    if not home.memory.exists():
        return Check("memory", "warn", "nothing has been extracted yet", f"run `{command(home, 'run')}`")
    with store.reading(home, settings) as con:
        broken = store.broken_invariants(con)
        revision = store.revision(con)
    if broken:
        found = ", ".join(f"{name} ({count})" for name, count in broken.items())
        return Check("memory", "fail", f"the index is not sound: {found}", f"move {home.memory.name} away and extract again; nothing else is lost")
    return Check("memory", "ok", f"sound, revision {revision}, {home.memory.stat().st_size / 1024**2:.1f} MB")


def _events(home: Home) -> Check:
    if not home.events.exists():
        return Check("events", "ok", "no agent has written an event yet")
    try:
        con = sqlite3.connect(f"{home.events.resolve().as_uri()}?mode=ro", uri=True, timeout=PATIENCE_SECONDS)
        try:
            (verdict,) = con.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            con.close()
    except sqlite3.Error as error:
        verdict = error.sqlite_errorname
    if verdict != "ok":
        return Check("events", "fail", f"{home.events} is damaged ({verdict})", "move it away; sessions start afresh, the index is not concerned")
    return Check("events", "ok", "the event log is whole")


def _windows(home: Home, settings: Settings, now: datetime) -> Check:
    state = overview(home, settings, now)
    given_up = [entry for entry in state.failing if entry.status == "quarantined"]
    if state.reasons:
        remedy = f"`{command(home, 'status')}` names them; `{command(home, 'run')} --window KEY` tries one that was given up" if given_up else ""
        return Check(
            "windows", "warn", "; ".join(state.reasons), remedy or f"`{command(home, 'run')}` tries again; `{command(home, 'status')}` shows when"
        )
    if state.due:
        return Check("windows", "warn", f"{len(state.due)} are due", f"run `{command(home, 'run')}`")
    return Check("windows", "ok", "none is due or failed")


def _snapshot(home: Home, now: datetime) -> Check:
    try:
        found = Subconscious(home, now=lambda: now).keywords()
    except NotPublished:
        return Check("snapshot", "warn", "nothing has been published yet", f"run `{command(home, 'run')}`")
    if found.reasons:
        said = "; ".join(found.reasons)
        run = command(home, "run")
        return Check("snapshot", "warn", f"degraded: {said}", "" if run in said else f"run `{run}`")
    return Check("snapshot", "ok", f"{len(found.keywords)} keywords, revision {found.revision}")


def _model(settings: Settings) -> Check:
    extractor = make_extractor(settings, sample_replies())
    remote = extractor.remote
    extractor.close()
    if settings.model == "local" and find_model(settings) is None:
        return Check("model", "fail", "the local model's file is not here", "`subconscious model pull` fetches it (1.1 GB)")
    place = f"message text goes to {destination(settings, remote)}" if remote else "message text stays on this machine"
    return Check(
        "model", "ok", f"{settings.model} is set up; {place}", "" if settings.model.startswith("replay") else "`subconscious model check` asks it"
    )
