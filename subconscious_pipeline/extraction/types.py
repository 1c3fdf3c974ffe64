"""What extraction hands to its caller. No topic sentences, no message text: words, numbers and pointers only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Literal, Protocol

from subconscious_pipeline.instants import Window
from subconscious_pipeline.warehouse.transcript import Transcript

Kind = Literal["incident", "appointment", "ongoing", "lasting"]

TTL_DAYS: dict[Kind, tuple[int, int]] = {"incident": (3, 7), "appointment": (14, 30), "ongoing": (30, 60), "lasting": (60, 365)}


class ErrorCode(StrEnum):
    """Why a window failed. Never free text: exceptions of providers quote prompts."""

    TIMEOUT = "timeout"
    HTTP_429 = "http_429"
    HTTP_4XX = "http_4xx"  # wrong key, unknown model, bad request: a person must act
    HTTP_5XX = "http_5xx"
    UNREACHABLE = "unreachable"  # no connection
    REFUSED = "refused"  # the model declined
    TRUNCATED = "truncated"  # the reply hit the output limit
    INVALID = "invalid"  # the reply broke the rules after every re-ask
    BUDGET = "budget"  # the token budget of the run is spent: not tried
    UNSEEN = "unseen"  # replay: no reply is recorded for this prompt
    CANCELLED = "cancelled"  # shutdown came first: not tried
    INTERNAL = "internal"  # a defect of ours


NOT_TRIED = frozenset({ErrorCode.BUDGET, ErrorCode.CANCELLED})  # do not count as a try


@dataclass(frozen=True, order=True)
class Span:
    """A tight cited run inside one conversation."""

    source_type: str
    source_ref: str
    time_start: datetime
    time_end: datetime


@dataclass(frozen=True)
class Observation:
    """What one window said about one matter."""

    words: tuple[str, ...]  # most telling first, all `words.is_word`
    kind: Kind
    ttl_days: int
    observed_at: datetime  # the last cited instant, aware UTC
    expires: date
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Usage:
    """What asking cost, over all calls and re-asks of a window."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.seconds + other.seconds,
        )

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class WindowResult:
    """The outcome of one window. `empty` (nothing worth a concept) and `failed` are never the same."""

    window: Window
    status: Literal["ok", "empty", "failed"]
    input_hash: str
    model: str
    prompt_version: str
    usage: Usage = field(default_factory=Usage)
    observations: tuple[Observation, ...] = ()
    error_code: ErrorCode | None = None

    @classmethod
    def of(
        cls,
        transcript: Transcript,
        extractor: Extractor,
        usage: Usage,
        observations: tuple[Observation, ...] = (),
        error_code: ErrorCode | None = None,
    ) -> WindowResult:
        """What an extractor found out about a window: failed with an error code, else ok with observations, else empty."""
        return cls(
            window=transcript.window,
            status="failed" if error_code else "ok" if observations else "empty",
            input_hash=transcript.input_hash,
            model=extractor.model,
            prompt_version=extractor.prompt_version,
            usage=usage,
            observations=observations,
            error_code=error_code,
        )


class Extractor(Protocol):
    """A model together with the strategy that suits it."""

    model: str  # as configured, e.g. "openai/gpt-5-mini"
    prompt_version: str
    concurrency: int  # how many windows it takes at the same time
    remote: bool  # whether message text leaves this machine

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        """Ask about one window. Model failures come back as a `failed` result; `stop` is polled between calls.

        Raises:
            ExtractionError: when no window can be asked at all.
        """
        ...

    def close(self) -> None:
        """Release what was started (a server, a connection pool)."""
        ...
