"""A model that only repeats recorded replies, found by the hash of the prompt. An unseen prompt fails; it never counts as empty."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction import prompt
from subconscious_pipeline.extraction.assemble import observations_from
from subconscious_pipeline.extraction.reply import Reply, ReplyConcept, reply_model
from subconscious_pipeline.extraction.types import ErrorCode, Usage, WindowResult
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.transcript import Conversation, Transcript, render

DEFAULT_CONTEXT_TOKENS: int = Settings.model_fields["context_tokens"].default


class _RecordedUsage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    calls: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


class _Recorded(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt_hash: str
    window: str  # for people who read the file
    reply: dict[str, JsonValue]
    usage: _RecordedUsage = _RecordedUsage()


class ReplayExtractor:
    """An `Extractor` over a JSONL file of ``{"prompt_hash", "window", "reply", "usage"}``, one line a call (`usage` optional)."""

    prompt_version = prompt.PROMPT_VERSION
    concurrency = 4
    remote = False

    def __init__(self, path: Path, model: str = "replay", context_tokens: int = DEFAULT_CONTEXT_TOKENS) -> None:
        """Read the file.

        Raises:
            ConfigError: when it cannot be read or a line is not a recorded reply.
        """
        self.model = model
        self._context_tokens = context_tokens
        self._replies = _load(path)

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        """The recorded outcome of this window."""
        usage = Usage()
        concepts: list[ReplyConcept] = []
        for part in prompt.calls(transcript, self._context_tokens):
            if stop():
                return WindowResult.of(transcript, self, usage, error_code=ErrorCode.CANCELLED)
            recorded = self._replies.get(prompt.prompt_hash(prompt.build(render(part))))
            if recorded is None:
                return WindowResult.of(transcript, self, usage, error_code=ErrorCode.UNSEEN)
            usage += Usage(**recorded.usage.model_dump())
            try:
                concepts += _reply_for(part, recorded.reply).concepts
            except ValidationError:
                return WindowResult.of(transcript, self, usage, error_code=ErrorCode.INVALID)
        return WindowResult.of(transcript, self, usage, observations_from(transcript, concepts))

    def close(self) -> None:
        """Nothing is held open."""


def reply_line(transcript: Transcript, reply: Reply | Mapping[str, Any], context_tokens: int = DEFAULT_CONTEXT_TOKENS) -> dict[str, Any]:
    """The line to record for a window that fits one call; topic sentences are left out.

    Raises:
        ValueError: when the window needs more than one call.
        pydantic.ValidationError: when the reply breaks the rules of `Reply` or cites lines the window does not have.
    """
    parts = prompt.calls(transcript, context_tokens)
    if len(parts) != 1:
        raise ValueError(f"window {transcript.window.key} takes {len(parts)} calls, not one")
    data = reply.model_dump() if isinstance(reply, Reply) else dict(reply)
    return {
        "prompt_hash": prompt.prompt_hash(prompt.build(render(parts[0]))),
        "window": transcript.window.key,
        "reply": _reply_for(parts[0], data).model_dump(),
    }


def _reply_for(part: tuple[Conversation, ...], data: Mapping[str, Any]) -> Reply:
    return reply_model({line.n for conversation in part for line in conversation.lines}).model_validate(data)


def _load(path: Path) -> dict[str, _Recorded]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read recorded replies from {path} ({type(error).__name__}); SUBCONSCIOUS_MODEL=replay:PATH names a JSONL file"
        ) from None
    replies = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            recorded = _Recorded.model_validate(json.loads(line))
        except (ValueError, RecursionError):
            raise ConfigError(f'{path} line {number} is not a recorded reply: {{"prompt_hash", "window", "reply"}} in one line of JSON') from None
        replies[recorded.prompt_hash] = recorded
    return replies
