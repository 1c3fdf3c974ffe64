"""Which files a home has to read: `sources.yaml` where there is one, else everything under `sources/`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.home import Home
from subconscious_pipeline.readers.registry import NAMES
from subconscious_pipeline.settings import DateOrder, Settings, known_zone


class SourceConfig(BaseModel):
    """One entry of `sources.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[\w.-]+$")
    path: str  # file, folder or glob, relative to `sources/`
    reader: str | None = None
    timezone: str = ""
    date_order: DateOrder | None = None
    ignored_authors: tuple[str, ...] = ()
    own_addresses: tuple[str, ...] = ()

    @field_validator("reader")
    @classmethod
    def _known_reader(cls, value: str | None) -> str | None:
        if value is not None and value not in NAMES:
            raise ValueError(f"no reader {value!r}; choose one of {', '.join(NAMES)}")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        return known_zone(value) if value else value


@dataclass(frozen=True)
class SourceFile:
    """One path to read, with the configuration it falls under."""

    config: SourceConfig
    path: Path
    shown: str  # the path as the user knows it: relative to `sources/`

    @property
    def file_id(self) -> str:
        """Stable id of this path in the ledger."""
        return hashlib.blake2b(f"{self.config.id}\0{self.shown}".encode(), digest_size=10).hexdigest()


def load_sources(home: Home) -> list[SourceConfig] | None:
    """The entries of `sources.yaml`, or None when there is no such file.

    Raises:
        ConfigError: naming the entry and the field that is wrong.
    """
    if not home.sources_yaml.exists():
        return None
    try:
        loaded = yaml.safe_load(home.sources_yaml.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{home.sources_yaml}{where}: not valid YAML") from None
    if isinstance(loaded, dict) and (unknown := [str(key) for key in loaded if key != "sources"]):
        raise ConfigError(f"{home.sources_yaml}: unknown key {', '.join(unknown)}; the file holds one list named `sources`")
    entries = loaded.get("sources") or [] if isinstance(loaded, dict) else loaded
    if not isinstance(entries, list):
        raise ConfigError(f"{home.sources_yaml}: `sources` must be a list of entries with id and path")
    configs = []
    for number, entry in enumerate(entries, start=1):
        try:
            configs.append(SourceConfig.model_validate(entry))
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False, include_url=False))
            raise ConfigError(f"{home.sources_yaml}: entry {number}: {faults}") from None
    doubled = {config.id for config in configs if [c.id for c in configs].count(config.id) > 1}
    if doubled:
        raise ConfigError(f"{home.sources_yaml}: these ids stand twice: {', '.join(sorted(doubled))}")
    return configs


def _is_unit(folder: Path) -> bool:
    """Whether a folder is one source (a Slack export, a Maildir, something unreadable) rather than a place where files lie."""
    try:
        entries = list(folder.iterdir())
        names = {entry.name for entry in entries}
        return {"users.json", "channels.json"} & names != set() or {"cur", "new"} <= names or any(
            entry.is_dir() and any(entry.glob("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].json")) for entry in entries
        )  # fmt: skip
    except OSError:
        return True


def _unlisted(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name.startswith("~$"):
            continue
        if entry.is_dir() and entry.resolve() in (above.resolve() for above in entry.parents):
            continue  # a link back to a folder it lies in
        if entry.is_dir() and not _is_unit(entry):
            yield from _unlisted(entry)
        else:
            yield entry


def source_files(home: Home, settings: Settings) -> list[SourceFile]:  # noqa: ARG001 (part of the seam)
    """Every path to read, in a stable order. A listed path that matches nothing is returned as it stands, to be reported missing.

    Raises:
        ConfigError: when `sources.yaml` is wrong.
    """
    configs = load_sources(home)
    if configs is None:
        if not home.sources.is_dir():
            return []
        return [
            SourceFile(SourceConfig(id=_source_id(path, home), path=str(path.relative_to(home.sources))), path, str(path.relative_to(home.sources)))
            for path in _unlisted(home.sources)
        ]
    files = []
    for config in configs:
        pattern = Path(config.path).expanduser()
        base = home.sources if not pattern.is_absolute() else Path(pattern.anchor)
        relative = config.path if not pattern.is_absolute() else str(pattern.relative_to(pattern.anchor))
        globbed = any(mark in relative for mark in "*?[")
        for path in sorted(base.glob(relative)) if globbed else [base / relative]:
            shown = str(path.relative_to(home.sources)) if path.is_relative_to(home.sources) else str(path)
            files.append(SourceFile(config, path, shown))
        if globbed and not any(file.config.id == config.id for file in files):
            files.append(SourceFile(config, base / relative, config.path))
    return files


def _source_id(path: Path, home: Home) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in str(path.relative_to(home.sources)))
