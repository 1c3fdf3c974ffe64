"""The caretaker's thresholds, with their defaults. Environment variables carry the prefix ``SUBCONSCIOUS_``."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from subconscious_pipeline.settings import load_knobs


class CaretakerSettings(BaseSettings):
    """Every threshold of sessions, gate, traversal, sweeps and shutdown. `SessionRules` may override some for one session."""

    model_config = SettingsConfigDict(env_prefix="SUBCONSCIOUS_", frozen=True, extra="ignore")

    # sessions
    break_minutes: float = Field(90.0, gt=0, description="Task mode without a conversation after which a break is suggested, once a stretch.")
    heartbeat_minutes: float = Field(30.0, gt=0, description="Silence after which an open session counts as ended by TIMEOUT.")

    # background work
    sweep_minutes: float = Field(60.0, gt=0, description="Time between decay sweeps.")
    consolidate_minutes: float = Field(24 * 60.0, gt=0, description="Time between consolidations.")

    # Total Recall
    debounce_seconds: float = Field(90.0, ge=0, description="Delay before a recall starts, in which it can be cancelled or superseded.")
    recall_depth: int = Field(3, ge=0, le=10, description="Most depths of a traversal; an advisory may ask for fewer.")
    recall_fan_out: int = Field(5, ge=1, le=100, description="Most neighbours followed from one concept.")
    recall_total: int = Field(40, ge=1, le=1_000, description="Most concepts of one recollection, roots included.")
    recall_tries: int = Field(3, ge=1, description="Traversals begun for one advisory before it is dropped as failed.")

    # commands
    lease_seconds: float = Field(120.0, gt=0, description="How long a started command is taken to be alive without a sign of life.")
    retry_seconds: float = Field(60.0, gt=0, description="Wait after a command failed; doubles with each failure, up to an hour.")
    shutdown_seconds: float = Field(30.0, gt=0, description="Time a shutdown has when it names none.")


def load_caretaker_settings(**overrides: object) -> CaretakerSettings:
    """The caretaker's settings; see `load_knobs`."""
    return load_knobs(CaretakerSettings, overrides)
