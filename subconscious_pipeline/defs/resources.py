"""What assets get handed: the home, the clock, the model, and somewhere to show progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import dagster as dg

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.models import make_extractor
from subconscious_pipeline.extraction.types import Extractor
from subconscious_pipeline.home import Home, resolve_home, sample_dir
from subconscious_pipeline.instants import iso_z, parse_instant
from subconscious_pipeline.settings import Settings, load_settings

AS_OF_TAG = "subconscious/as_of"


class HomeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The home directory and its settings. Empty `root`: as `SUBCONSCIOUS_HOME` and the defaults say."""

    root: str = ""

    def open(self) -> Home:
        """The home, with its directories made."""
        return resolve_home(self.root or None).create()

    def settings(self) -> Settings:
        """The settings, read when the run needs them."""
        return load_settings()


class Clock(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The one place where a run's `as_of` comes from. Empty `root`: the home is the one `SUBCONSCIOUS_HOME` and the defaults say."""

    root: str = ""

    def as_of(self, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> datetime:
        """The run tag ``subconscious/as_of`` where it is set, else the moment the run was created; fixed for the whole run.

        Raises:
            ConfigError: when the tag is no instant, or lies in the future.
        """
        home = resolve_home(self.root or None)
        now = home.now()
        if tag := context.run.tags.get(AS_OF_TAG):
            at = parse_instant(tag)
            if at > now:
                raise ConfigError(f"the run tag {AS_OF_TAG}={iso_z(at)} lies in the future; leave it out or name a past instant")
            return at
        if home.clock.exists():
            return now
        record = context.instance.get_run_record_by_id(context.run.run_id)
        return record.create_timestamp.astimezone(UTC) if record else now


class Model(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the configured model for the length of a run. Empty `name`: as `SUBCONSCIOUS_MODEL` says."""

    name: str = ""

    @contextmanager
    def open(self, settings: Settings) -> Iterator[Extractor]:
        """The extractor, closed again at the end.

        Raises:
            ConfigError, ExtractionError: when the model cannot be used, with what to do.
        """
        sample = sample_dir()
        named = settings.model_copy(update={"model": self.name}) if self.name else settings
        extractor = make_extractor(named, sample / "replies.jsonl" if sample else None)
        try:
            yield extractor
        finally:
            extractor.close()


class Progress(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where long work says how far it is. This one says nothing; a terminal hands in one that draws."""

    def reading(self, path: str, records: int) -> None:
        """A source file is being read and has given this many records so far."""

    def planned(self, windows: int) -> None:
        """So many windows will be asked about."""

    def finished(self, window: str, status: str, concepts: int, error_code: str | None) -> None:
        """One window has been asked about and persisted."""
