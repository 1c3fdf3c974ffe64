"""`model check` as data: one tiny window asked of whatever model is configured. Stores nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from subconscious_pipeline.agent.sample import sample_replies, tiny_transcript
from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.models import make_extractor
from subconscious_pipeline.extraction.types import ErrorCode, WindowResult
from subconscious_pipeline.settings import Settings

_REMEDY = {
    ErrorCode.TIMEOUT: "raise SUBCONSCIOUS_TIMEOUT_SECONDS, or use a faster model",
    ErrorCode.HTTP_429: "the provider limits the rate; try again later, or lower SUBCONSCIOUS_CONCURRENCY",
    ErrorCode.HTTP_4XX: "the provider refuses: check the key and the name of the model",
    ErrorCode.HTTP_5XX: "the provider has trouble; try again later",
    ErrorCode.UNREACHABLE: "no connection: is the server running, and SUBCONSCIOUS_BASE_URL right?",
    ErrorCode.REFUSED: "the model declined a harmless question; use another one",
    ErrorCode.TRUNCATED: "raise SUBCONSCIOUS_MAX_OUTPUT_TOKENS",
    ErrorCode.INVALID: "the model does not keep to the form of the answer; use a more able one",
    ErrorCode.INTERNAL: "a defect of this program; please report it",
}


@dataclass(frozen=True)
class Trial:
    """What a model made of the tiny window."""

    model: str
    remote: bool  # whether message text would leave this machine
    destination: str  # where it would go; "" when it stays
    result: WindowResult

    @property
    def words(self) -> list[list[str]]:
        """The keywords of each concept it named."""
        return [list(observation.words) for observation in self.result.observations]

    @property
    def reason(self) -> str:
        """Why the model cannot be used as it is, with what to do; "" when it can."""
        code = self.result.error_code
        if code:
            remedy = _REMEDY.get(code)
            return f"{code.value}: {remedy}" if remedy else code.value
        return "" if self.words else "it named no concept in a chat that holds one; use a more able model"

    def as_json(self) -> dict[str, Any]:
        """The shape of `subconscious model check --json`."""
        usage = self.result.usage
        return {
            "ok": not self.reason,
            "model": self.model,
            "remote": self.remote,
            "destination": self.destination,
            "status": self.result.status,
            "error_code": self.result.error_code.value if self.result.error_code else None,
            "reason": self.reason,
            "concepts": self.words,
            "tokens": {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "calls": usage.calls},
            "seconds": round(usage.seconds, 3),
        }


def destination(settings: Settings, remote: bool) -> str:
    """Where message text goes with these settings: a base URL or a provider's name; "" when it stays on this machine."""
    return (settings.base_url or settings.model.partition("/")[0]) if remote else ""


def try_model(settings: Settings) -> Trial:
    """Ask the configured model about three invented lines of chat.

    Raises:
        ConfigError: when the model is not set up, or has only recorded replies.
        ExtractionError: when it cannot be asked at all.
    """
    if settings.model.partition(":")[0] == "replay":
        raise ConfigError(f"SUBCONSCIOUS_MODEL={settings.model} answers from recorded replies: there is no model to check")
    extractor = make_extractor(settings, sample_replies())
    try:
        result = extractor.extract(tiny_transcript(), lambda: False)
        return Trial(extractor.model, extractor.remote, destination(settings, extractor.remote), result)
    finally:
        extractor.close()
