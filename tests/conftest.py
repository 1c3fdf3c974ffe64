"""Fixtures for every room: a home of one's own, and an environment without anybody's settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from place import Place

from subconscious_pipeline.settings import load_settings


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("SUBCONSCIOUS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A fresh home whose user lives in Madrid."""
    return Place(tmp_path / "home", load_settings(timezone="Europe/Madrid", lock_seconds=20.0))
