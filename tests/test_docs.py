"""The generated parts of the documentation are what the program would write today, and its commands exist."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import click
import pytest
import typer

from subconscious_pipeline.agent.app import app
from subconscious_pipeline.caretaker.events import KINDS
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.memory import salience

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "caretaker.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_generated_is_in_step_with_the_program(maker: ModuleType) -> None:
    stale = [name for name, content in maker.generated().items() if (DOCS / name).read_text(encoding="utf-8") != content]
    assert stale == [], "run `python docs/make_pictures.py`"


def test_every_threshold_stands_in_the_page_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(SUBCONSCIOUS_\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    knobs = CaretakerSettings.model_fields
    assert set(rows) == {f"SUBCONSCIOUS_{name.upper()}" for name in knobs} | {"SUBCONSCIOUS_SENSOR_SECONDS"}
    assert {name: float(rows[f"SUBCONSCIOUS_{name.upper()}"]) for name in knobs} == {name: field.default for name, field in knobs.items()}


def test_the_numbers_in_the_text_are_the_defaults() -> None:
    knobs = CaretakerSettings()
    assert f"after {knobs.break_minutes:g} minutes of task mode" in PAGE
    assert f"after {knobs.heartbeat_minutes:g} minutes without a sign of life" in PAGE
    assert f"For {knobs.debounce_seconds:g} seconds the agent can cancel" in PAGE
    assert (knobs.sweep_minutes, knobs.consolidate_minutes, knobs.lease_seconds, knobs.recall_tries) == (60, 1440, 120, 3)
    constants = (salience.DECAY, salience.CLAIMED_DECAY, -salience.THRESHOLD, salience.NOISE)
    assert "`d` is {:g} ({:g} once claimed), `τ` is −{:g} and `s` is {:g}".format(*constants) in PAGE


def test_every_kind_of_event_has_its_schema() -> None:
    page = (DOCS / "events.md").read_text(encoding="utf-8")
    found = {name: json.loads(code) for name, code in re.findall(r"^## (\w+)\n\nVersion .*?```json\n(.*?)\n```", page, re.MULTILINE | re.DOTALL)}
    assert set(found) == set(KINDS)
    assert all(schema["title"] == name and schema["additionalProperties"] is False for name, schema in found.items())


@pytest.mark.parametrize("name", re.findall(r"\((pictures/[\w-]+\.svg)\)", PAGE))
def test_pictures_are_whole_and_on_white(name: str) -> None:
    root = ET.fromstring((DOCS / name).read_text(encoding="utf-8"))
    [card] = [child for child in root if child.tag.endswith("rect")][:1]
    assert card.get("fill") == "#ffffff"
    assert root.find("{http://www.w3.org/2000/svg}title") is not None


def printed() -> list[str]:
    """Every command line of the page."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [found for block in blocks for line in block.splitlines() if (found := re.sub(r"^.*?(?=subconscious )", "", line).rstrip(")"))]


@pytest.mark.parametrize("line", printed())
def test_every_printed_command_is_one_the_program_takes(line: str) -> None:
    context = click.Context(typer.main.get_command(app), info_name="subconscious")
    command, arguments = context.command, shlex.split(line)[1:]
    while isinstance(command, click.Group):
        _, command, arguments = command.resolve_command(context, arguments)
        assert command is not None
    command.make_context(line, arguments, parent=context)
