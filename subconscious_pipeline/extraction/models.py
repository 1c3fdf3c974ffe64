"""From the configured model name to an extractor. Client libraries are imported only when their kind of model is asked for."""

from __future__ import annotations

from pathlib import Path

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.types import Extractor
from subconscious_pipeline.settings import Settings


def make_extractor(settings: Settings, sample_replies: Path | None = None) -> Extractor:
    """The extractor that ``settings.model`` names; nothing is contacted yet.

    Args:
        settings: `model` is `local`, `replay`, `replay:PATH` or an instructor provider string such as `openai/gpt-5-mini`.
        sample_replies: the recorded replies that `replay` alone means.

    Raises:
        ConfigError: when the name, a package, a key or a file is missing, with what to do.
    """
    kind, _, path = settings.model.partition(":")
    if kind == "replay":
        from subconscious_pipeline.extraction.replay import ReplayExtractor

        if path:
            return ReplayExtractor(Path(path).expanduser(), settings.model, settings.context_tokens)
        if sample_replies is None:
            raise ConfigError("SUBCONSCIOUS_MODEL=replay needs the bundled sample; name a file of recorded replies with replay:PATH")
        return ReplayExtractor(sample_replies, settings.model, settings.context_tokens)
    if settings.model == "local":
        from subconscious_pipeline.extraction.local import LocalExtractor

        return LocalExtractor(settings)
    if "/" not in settings.model:
        raise ConfigError(f"{settings.model!r} is not a model; use local, replay:PATH or provider/name such as ollama/qwen3 or openai/gpt-5-mini")
    if settings.strategy == "by_conversation":
        raise ConfigError("SUBCONSCIOUS_STRATEGY=by_conversation goes with SUBCONSCIOUS_MODEL=local; leave it unset for other models")
    from subconscious_pipeline.extraction.hosted import HostedExtractor

    return HostedExtractor(settings)
