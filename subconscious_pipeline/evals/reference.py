"""From the sample's reference answers, written against pieces of text, to recorded replies keyed by prompt hash."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from subconscious_pipeline import duck
from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.replay import reply_line
from subconscious_pipeline.extraction.reply import Reply
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import window_from_key
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.ingest import ingest
from subconscious_pipeline.warehouse.read import transcript
from subconscious_pipeline.warehouse.schema import MIGRATIONS
from subconscious_pipeline.warehouse.transcript import Transcript
from subconscious_pipeline.warehouse.windows import window_inputs


@dataclass(frozen=True)
class Sample:
    """The bundled sample."""

    folder: Path
    title: str
    as_of: datetime
    task: str

    @property
    def replies(self) -> Path:
        return self.folder / "replies.jsonl"


def load_sample(folder: Path) -> Sample:
    """Read `sample.yaml`."""
    loaded = yaml.safe_load((folder / "sample.yaml").read_text(encoding="utf-8"))
    at = loaded["as_of"]
    return Sample(folder, loaded["title"], at if isinstance(at, datetime) else datetime.fromisoformat(at), loaded["task"])


def copy_sample(sample: Sample, home: Home) -> None:
    """Put the sample's sources and `sources.yaml` into a home."""
    home.create()
    for path in sorted((sample.folder / "sources").rglob("*")):
        target = home.sources / path.relative_to(sample.folder / "sources")
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    home.sources_yaml.write_bytes((sample.folder / "sources.yaml").read_bytes())


def reply_for(window: Transcript, concepts: list[dict[str, Any]]) -> Reply:
    """The reference answer of one window as a reply to its prompt.

    Raises:
        ConfigError: when a cited piece of text is not in exactly one line.
    """
    made = []
    for concept in concepts:
        numbers = []
        for cite in concept["cites"]:
            found = [line.n for line in window.lines if cite in line.text]
            if len(found) != 1:
                word = concept["keywords"][0]
                raise ConfigError(f"reference.yaml, window {window.window.key}: {len(found)} lines hold one of the cites of {word!r}")
            numbers.append(found[0])
        made.append({**{key: concept[key] for key in ("topic", "keywords", "kind", "ttl_days")}, "lines": sorted(set(numbers))})
    return Reply.model_validate({"concepts": made})


def build_replies(folder: Path) -> str:
    """The text of `replies.jsonl` for the sample in `folder`: one line for each window that speaks.

    Raises:
        ConfigError: when `reference.yaml` and the sample do not fit together.
    """
    sample, settings = load_sample(folder), Settings()
    answers = yaml.safe_load((folder / "reference.yaml").read_text(encoding="utf-8"))["windows"]
    lines = []
    with TemporaryDirectory() as scratch:
        home = Home(Path(scratch))
        copy_sample(sample, home)
        ingest(home, settings, sample.as_of)
        with duck.reading(home.warehouse, MIGRATIONS) as con:
            for row in window_inputs(con):
                window = window_from_key(f"{row.start:%Y-%m-%dT%H:%MZ}", settings.window_hours)
                if row.rows and window.closed(sample.as_of):
                    if window.key not in answers:
                        raise ConfigError(f"reference.yaml has no answer for window {window.key}, which holds {row.rows} rows")
                    said = transcript(con, window)
                    lines.append(json.dumps(reply_line(said, reply_for(said, answers[window.key])), ensure_ascii=False))
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    """Write `replies.jsonl` beside the reference answers."""
    (folder / "replies.jsonl").write_text(build_replies(folder), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
