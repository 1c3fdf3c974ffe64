from __future__ import annotations

from pathlib import Path

import pytest

from subconscious_pipeline.home import Home
from tests.agent import homes


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home after one run; tests only read it."""
    home = Home(tmp_path_factory.mktemp("published") / "home")
    homes.write_rows(home, homes.ROWS, tail="not json\n")
    homes.run(home)
    return home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home of a test's own."""
    return Home(tmp_path / "home").create()
