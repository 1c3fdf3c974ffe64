"""The local model with the strategy that suits a small one: filter, judge, one small question a conversation, join, clean."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from subconscious_pipeline.errors import ConfigError, ExtractionError
from subconscious_pipeline.extraction import local_prompt as prompt
from subconscious_pipeline.extraction.assemble import observations_from
from subconscious_pipeline.extraction.gguf import find_model
from subconscious_pipeline.extraction.local_server import MISSING_EXTRA, CallFailed, LlamaClient, Message, connect
from subconscious_pipeline.extraction.local_steps import Context, Draft, Piece, clean, finish, join, pieces, read_reply, tie, unclear
from subconscious_pipeline.extraction.reply import ReplyConcept, reply_model
from subconscious_pipeline.extraction.types import TTL_DAYS, ErrorCode, Usage, WindowResult
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.transcript import Transcript

log = logging.getLogger(__name__)

ASK_SLOT, JUDGE_SLOT, COMPARE_SLOT = 0, 1, 2
REPLY_TOKENS = 240

S = TypeVar("S")
T = TypeVar("T")
Connect = Callable[[Path], tuple[LlamaClient, Callable[[], None]]]


def _prompt_version() -> str:
    constant = repr((prompt.SYSTEM, prompt.EXAMPLES, prompt.JUDGE_SYSTEM, prompt.JUDGE_EXAMPLES, prompt.SAME_SYSTEM, prompt.SAME_EXAMPLES))
    return "local-" + hashlib.sha256(constant.encode()).hexdigest()[:8]


PATIENCE = 4  # a busy laptop may be slow; that is no reason to give a window up


class LocalExtractor:
    """Extracts with a GGUF file on this machine; nothing leaves it. The server starts with the first call and ends with `close`.

    Args:
        settings: `gguf` and `timeout_seconds` (of one call, times `PATIENCE`) are used.
        connect: how a file becomes a client; for tests.

    Raises:
        ConfigError: the extra `local` is not installed.
    """

    model = "local"
    concurrency = 1
    remote = False

    def __init__(self, settings: Settings, connect: Connect = connect) -> None:
        if any(find_spec(name) is None for name in ("xllamacpp", "wordfreq")):
            raise ConfigError(MISSING_EXTRA)
        self.prompt_version = _prompt_version()
        self._settings = settings
        self._connect = connect
        self._client: LlamaClient | None = None
        self._release: Callable[[], None] | None = None

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        """Ask about one window in as many small calls as it has conversations.

        Raises:
            ExtractionError: there is no model file, or it cannot be loaded.
        """
        usage = Usage()
        asked = drafted = 0

        def call(step: Callable[[LlamaClient, S, float], tuple[T, Usage]], subject: S) -> T:
            nonlocal usage
            if stop():
                raise CallFailed(ErrorCode.CANCELLED)
            answer, cost = step(self._server(), subject, self._settings.timeout_seconds * PATIENCE)
            usage += cost
            return answer

        context = Context.of(transcript)
        drafts: list[Draft] = []
        try:
            for piece in pieces(transcript):
                if piece.needs_judge and not call(_judge, piece):
                    continue
                asked += 1
                drafts += call(_ask, piece)
            drafted = len(drafts)
            drafts = join(clean(drafts, context), context)
            same = [(one, other) for one, other in unclear(drafts, context) if call(_compare, (drafts[one], drafts[other]))]
        except CallFailed as failure:
            return WindowResult.of(transcript, self, usage, error_code=failure.code)
        concepts = finish(tie(drafts, same), context)
        observations = observations_from(transcript, _validated(concepts, transcript))
        log.info("window %s: %d pieces asked, %d matters drafted, %d kept", transcript.window.key, asked, drafted, len(observations))
        return WindowResult.of(transcript, self, usage, observations)

    def _server(self) -> LlamaClient:
        if self._client is None:
            gguf = find_model(self._settings)
            if gguf is None and self._settings.gguf is not None:
                raise ExtractionError(
                    f"there is no model file {self._settings.gguf}; correct SUBCONSCIOUS_GGUF, or unset it and run: subconscious model pull"
                )
            if gguf is None:
                raise ExtractionError("there is no local model yet; run: subconscious model pull")
            self._client, self._release = self._connect(gguf)
        return self._client

    def close(self) -> None:
        """Let go of the server; the last one to let go ends it. The next `extract` starts it again."""
        if self._release is not None:
            self._release()
        self._client = self._release = None


def _messages(system: str, examples: Sequence[tuple[str, str]], text: str) -> list[Message]:
    shown = [{"role": role, "content": content} for pair in examples for role, content in zip(("user", "assistant"), pair, strict=True)]
    return [{"role": "system", "content": system}, *shown, {"role": "user", "content": text}]


def _judge(client: LlamaClient, piece: Piece, timeout: float) -> tuple[bool, Usage]:
    messages = _messages(prompt.JUDGE_SYSTEM, prompt.JUDGE_EXAMPLES, piece.sample)
    weights, usage = client.weigh(messages, (prompt.CONCRETE, prompt.SMALL_TALK), slot=JUDGE_SLOT, timeout=timeout)
    return weights[prompt.CONCRETE] > prompt.CONCRETE_SHARE * sum(weights.values()), usage


def _ask(client: LlamaClient, piece: Piece, timeout: float) -> tuple[list[Draft], Usage]:
    grammar = prompt.reply_grammar(len(piece.shown), piece.most)
    reply = client.complete(
        _messages(prompt.SYSTEM, prompt.EXAMPLES, piece.text), grammar=grammar, slot=ASK_SLOT, max_tokens=REPLY_TOKENS, timeout=timeout
    )
    try:
        return read_reply(reply.text, piece), reply.usage
    except ValueError:
        raise CallFailed(ErrorCode.INVALID) from None


def _compare(client: LlamaClient, pair: tuple[Draft, Draft], timeout: float) -> tuple[bool, Usage]:
    # Asked both ways round: the model prefers an answer by the order of the two.
    total, share = Usage(), 0.0
    for first, second in (pair, pair[::-1]):
        text = f"{', '.join(first.words[:5])} | {', '.join(second.words[:5])}"
        messages = _messages(prompt.SAME_SYSTEM, prompt.SAME_EXAMPLES, text)
        weights, usage = client.weigh(messages, (prompt.SAME, prompt.DIFFERENT), slot=COMPARE_SLOT, timeout=timeout)
        total += usage
        share += weights[prompt.SAME] / (sum(weights.values()) or 1.0)
    return share / 2 > 0.5, total


def _validated(drafts: Sequence[Draft], transcript: Transcript) -> list[ReplyConcept]:
    # The same barrier as for every other model; days are the middle of the kind's range.
    reply = reply_model([line.n for line in transcript.lines])
    kept: list[ReplyConcept] = []
    for draft in drafts:
        entry = {"lines": sorted(draft.lines), "keywords": list(draft.words), "kind": draft.kind, "ttl_days": sum(TTL_DAYS[draft.kind]) // 2}
        try:
            kept += reply.model_validate({"concepts": [entry]}).concepts
        except ValidationError:
            log.info("window %s: one matter had too few usable words", transcript.window.key)
    return kept
