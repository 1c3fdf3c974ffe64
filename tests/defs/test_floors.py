"""The rules of the house that no linter knows, read from the source: floors, where Dagster may be, what an import may cost."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "subconscious_pipeline"
FLOORS = (
    "errors",
    "instants",
    "words",
    "home",
    "settings",
    "duck",
    "readers",
    "warehouse",
    "extraction",
    "memory",
    "publish",
    "caretaker",
    "agent",
    "evals",
    "defs",
)
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

# Commands that start Dagster or measure reach up on purpose, when they run; the progress display is loaded by them alone.
LAZY_UPWARDS = {("agent", "defs"), ("agent", "evals"), ("evals", "defs")}
LOADED_LAZILY = {Path("agent/progress.py")}


def room(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module of a file, and whether it is imported only when a function runs (or for type checkers)."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))

    def walk(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((name.name, lazy) for name in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: relative import"
                yield from ((f"{child.module}.{name.name}", lazy) for name in child.names)
            typing_only = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
            yield from walk(child, lazy or typing_only or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    return walk(tree, False)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_room_imports_only_from_floors_below(path: Path) -> None:
    here = room(path)
    if here in ("__init__", "__main__", "definitions"):
        pytest.skip("the top of the house")
    assert here in FLOORS, f"{here} has no floor"

    def reach(lazy: bool) -> set[tuple[str, str]]:
        return LAZY_UPWARDS if lazy or path in LOADED_LAZILY else set()

    above = []
    for name, lazy in imports(path):
        package, _, rest = name.partition(".")
        there = rest.split(".")[0] if package == "subconscious_pipeline" else ""
        if there in FLOORS and there != here and FLOORS.index(there) > FLOORS.index(here) and (here, there) not in reach(lazy):
            above.append(name)
    assert above == []


@pytest.mark.parametrize("path", [path for path in MODULES if room(path) not in ("defs", "definitions")], ids=str)
def test_dagster_is_imported_in_the_shell_alone(path: Path) -> None:
    found = [lazy for name, lazy in imports(path) if name.split(".")[0] in ("dagster", "dagster_shared")]
    allowed = room(path) == "agent"
    assert [lazy for lazy in found if not (lazy and allowed)] == []


@pytest.mark.parametrize("path", [path for path in MODULES if room(path) not in ("defs", "definitions", "agent", "evals", "home")], ids=str)
def test_nothing_below_the_commands_reads_the_clock(path: Path) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))) if isinstance(node, ast.Call)}
    assert calls & {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time"} == set()


def test_the_progress_display_is_loaded_by_running_commands_alone() -> None:
    eager = [str(path) for path in MODULES for name, lazy in imports(path) if name.startswith("subconscious_pipeline.agent.progress") and not lazy]
    assert eager == []


def test_the_code_location_loads_without_home_key_or_network(tmp_path: Path) -> None:
    program = """
import socket
def refuse(*_args, **_more): raise AssertionError("connects at import")
socket.socket.connect = refuse
from subconscious_pipeline.definitions import defs
from dagster import Definitions
Definitions.validate_loadable(defs)
import sys
print(sorted({"duckdb", "openai", "instructor", "xllamacpp"} & set(sys.modules)))
"""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SUBCONSCIOUS_", "DAGSTER_")) and not name.endswith("_API_KEY")
    } | {"HOME": str(tmp_path), "SUBCONSCIOUS_HOME": str(tmp_path / "none")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "openai" not in done.stdout
    assert "instructor" not in done.stdout
    assert "xllamacpp" not in done.stdout
    assert list(tmp_path.iterdir()) == []
