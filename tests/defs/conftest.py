from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from extraction.fake_server import FakeServer

from .world import AS_OF, answer, cli, hosted, made_once, small


@pytest.fixture(autouse=True)
def own_process_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """UTC, no Dagster home from outside, and log levels as they were: a hosted model silences libraries for the whole process."""
    for name in list(os.environ):
        if name.startswith(("SUBCONSCIOUS_", "DAGSTER_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SUBCONSCIOUS_TIMEZONE", "UTC")
    before = {name: logging.getLogger(name).level for name in list(logging.root.manager.loggerDict)}
    yield
    for name in list(logging.root.manager.loggerDict):
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home after `subconscious demo --model replay`, and what the command printed."""

    def build(folder: Path) -> None:
        done = cli("demo", "--model", "replay", "--home", folder / "home")
        assert done.code == 0, done.text
        (folder / "printed").write_text(done.out, encoding="utf-8")

    folder = made_once(tmp_path_factory, "demo", build)
    return folder / "home", (folder / "printed").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small home after one undisturbed run."""

    def build(folder: Path) -> None:
        home = small(folder / "home")
        with FakeServer(answer) as server, pytest.MonkeyPatch.context() as patch:
            for name, value in hosted(server).items():
                patch.setenv(name, value)
            done = cli("run", "--home", home.root, "--as-of", AS_OF)
        assert done.code == 0, done.text

    return made_once(tmp_path_factory, "finished", build) / "home"
