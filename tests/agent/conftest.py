from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.testing

from subconscious_pipeline.home import Home
from tests.agent import homes


@pytest.fixture(scope="session", autouse=True)
def _commands_built_once() -> Iterator[None]:
    """Typer builds all commands anew at every call of a runner, which takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


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
