"""Every knob, with its default. Environment variables carry the prefix ``SUBCONSCIOUS_``; secrets stay with the providers' own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from subconscious_pipeline.errors import ConfigError

DateOrder = Literal["dmy", "mdy", "ymd"]


def known_zone(name: str) -> str:
    """The name of an IANA time zone, as given.

    Raises:
        ValueError: when there is no such zone.
    """
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not an IANA time zone such as Europe/Madrid") from None
    return name


class Settings(BaseSettings):
    """The settings of one home. Immutable; pass it down, never read the environment below the shell."""

    model_config = SettingsConfigDict(env_prefix="SUBCONSCIOUS_", frozen=True, extra="ignore")

    # windows
    window_hours: int = Field(6, description="Length of a window in hours; divides 24. 24 is the nightly variant.")
    start: date = Field(date(2020, 1, 1), description="First day that has windows; older rows are only counted.")
    lookback_days: int = Field(30, ge=1, description="Windows older than this need an explicit backfill.")

    # reading
    timezone: str = Field("", description="IANA zone of naive times and of rendered transcripts; empty: this machine's.")
    date_order: DateOrder | None = Field(None, description="Order of numeric dates where a file does not decide it.")
    own_addresses: Annotated[tuple[str, ...], NoDecode] = Field((), description="The user's own mail addresses.")
    ignored_authors: Annotated[tuple[str, ...], NoDecode] = Field((), description="Authors whose rows are noise.")
    agent_names: Annotated[tuple[str, ...], NoDecode] = Field((), description="Authors that are agents: rows are noise (feedback guard).")
    calendar_horizon_days: int = Field(400, ge=1, description="How far past as_of recurring events are expanded.")

    # extraction
    model: str = Field("local", description="Instructor provider string, `local`, `replay` or `replay:PATH`.")
    base_url: str | None = Field(None, description="Base URL of an OpenAI-compatible server for openai/… and ollama/… models.")
    gguf: Path | None = Field(None, description="A GGUF file to use instead of the default local model.")
    strategy: Literal["whole_window", "by_conversation"] | None = Field(None, description="None: the one that goes with the model.")
    context_tokens: int = Field(24_000, ge=2_000, description="Most transcript tokens in one call.")
    max_output_tokens: int = Field(4_000, ge=256, description="Most tokens a reply may have.")
    concurrency: int = Field(4, ge=1, le=64, description="Windows asked at the same time (local model: always 1).")
    timeout_seconds: float = Field(120.0, gt=0, description="Time-out of one model call.")
    http_retries: int = Field(2, ge=0, description="Retries of one call after 429, 5xx or a broken connection.")
    reasks: int = Field(2, ge=0, description="How often a reply that breaks the rules is asked again.")
    max_tries: int = Field(3, ge=1, description="Runs that may fail on a window before it is quarantined.")
    retry_minutes: float = Field(10.0, ge=0, description="Backoff after the first failure; doubles with each.")
    token_budget: int | None = Field(None, ge=1, description="Most prompt and completion tokens one run may spend.")

    # publishing
    awareness_tokens: int = Field(100, ge=10, description="Most tokens of the published keyword list.")
    stale_hours: float = Field(24.0, gt=0, description="A snapshot whose watermark is older than this plus a window is called stale.")

    # Dagster
    sensor_seconds: int = Field(30, ge=1, description="Time between two looks of a Dagster sensor.")

    # storage
    lock_seconds: float = Field(60.0, gt=0, description="How long a writer waits for a store lock.")

    @field_validator("own_addresses", "ignored_authors", "agent_names", mode="before")
    @classmethod
    def _comma_list(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("window_hours")
    @classmethod
    def _divides_a_day(cls, value: int) -> int:
        if value < 1 or 24 % value:
            raise ValueError("must be one of 1, 2, 3, 4, 6, 8, 12, 24")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        return known_zone(value) if value else value

    @property
    def zone(self) -> ZoneInfo:
        """The configured zone, or this machine's when none is configured."""
        if self.timezone:
            return ZoneInfo(self.timezone)
        from tzlocal import get_localzone_name

        return ZoneInfo(get_localzone_name() or "UTC")

    @property
    def start_at(self) -> datetime:
        """Midnight UTC of the first day that has windows."""
        return datetime(self.start.year, self.start.month, self.start.day, tzinfo=UTC)


_Knobs = TypeVar("_Knobs", bound=BaseSettings)


def load_knobs(kind: type[_Knobs], overrides: Mapping[str, object]) -> _Knobs:
    """Settings of one class from the environment, with overrides on top (None means: not given).

    Raises:
        ConfigError: naming each bad variable and what it should be.
    """
    try:
        given: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
        return kind(**given)
    except ValidationError as error:
        lines = [f"SUBCONSCIOUS_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors(include_input=False, include_url=False)]
        raise ConfigError("bad setting: " + "; ".join(lines)) from None


def load_settings(**overrides: object) -> Settings:
    """The home's settings; see `load_knobs`."""
    return load_knobs(Settings, overrides)
