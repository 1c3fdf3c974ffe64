"""Fixtures for every room: a home of one's own, and an environment without anybody's settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from place import Place

from subconscious_pipeline.settings import load_settings

# What takes longest begins first, so that no worker is left alone with it at the end.
_LONGEST = ("test_daemon.py", "test_kill.py", "test_end_to_end.py", "test_runs.py", "test_pipeline.py", "defs/test_caretaker.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((n for n, name in enumerate(_LONGEST) if str(item.path).endswith(name)), len(_LONGEST)))


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("SUBCONSCIOUS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A fresh home whose user lives in Madrid."""
    return Place(tmp_path / "home", load_settings(timezone="Europe/Madrid", lock_seconds=20.0))
