"""Large models over HTTP, through instructor: one question a window. Message text may go to the model's server and nowhere else.

Providers' exceptions and log records quote prompts and replies: none of them leaves this module, only an `ErrorCode` does.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction import prompt
from subconscious_pipeline.extraction.assemble import observations_from
from subconscious_pipeline.extraction.calling import Policy, silence_libraries
from subconscious_pipeline.extraction.reply import ReplyConcept, reply_model
from subconscious_pipeline.extraction.types import ErrorCode, Usage, WindowResult
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.transcript import Conversation, Transcript, render

OLLAMA_URL = "http://localhost:11434/v1"

# provider: package it needs, environment variables of which one must hold its key
_REQUIRED = {
    "openai": ("openai", ("OPENAI_API_KEY",)),
    "anthropic": ("anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
    "ollama": ("openai", ()),
}

logger = logging.getLogger(__name__)


class _Failed(Exception):
    """Carries an error code out of nested calls, and nothing else."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        super().__init__(code.value)


class HostedExtractor:
    """An `Extractor` for `openai/…`, `anthropic/…`, `ollama/…` and whatever else instructor's `from_provider` knows.

    OpenAI-compatible servers are asked in JSON-schema mode: llama.cpp, vLLM, LM Studio and Ollama keep to the schema with any model,
    while tools need a model trained for them. Servers that ignore the schema still find its shape in the prompt. Other providers are asked
    in the mode instructor holds best for them.
    """

    prompt_version = prompt.PROMPT_VERSION

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        """Set up the client; nothing is contacted.

        Args:
            settings: model, base URL and limits.
            clock: seconds that only ever grow.
            sleep: waits some seconds; waits between retries are made of pieces of at most half a second.

        Raises:
            ConfigError: when the provider is unknown, or its package or key is missing.
        """
        self.model = settings.model
        self.concurrency = settings.concurrency
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._client, self._options, self.remote = _connect(settings)

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        """Ask about one window: in one call when it fits `context_tokens`, else in as few as hold it. A failed part fails the window."""
        policy = Policy(self._settings.http_retries, self._settings.reasks, self._sleep, stop)
        begun = self._clock()
        concepts: list[ReplyConcept] = []
        code = None
        try:
            for part in prompt.calls(transcript, self._settings.context_tokens):
                concepts += self._ask_or_halve(part, policy)
        except _Failed as failure:
            code = failure.code
        usage = Usage(policy.calls, policy.prompt_tokens, policy.completion_tokens, self._clock() - begun)
        return WindowResult.of(transcript, self, usage, () if code else observations_from(transcript, concepts), code)

    def close(self) -> None:
        """Close the connection pool."""
        close = getattr(self._client.client, "close", None)
        if callable(close):
            close()

    def _ask_or_halve(self, part: tuple[Conversation, ...], policy: Policy) -> list[ReplyConcept]:
        try:
            return self._ask(part, policy)
        except _Failed as failure:
            both = prompt.halves(part) if failure.code is ErrorCode.TRUNCATED else None
            if both is None:
                raise
        return [concept for half in both for concept in self._ask(half, policy)]

    def _ask(self, part: tuple[Conversation, ...], policy: Policy) -> list[ReplyConcept]:
        if policy.stop():
            raise _Failed(ErrorCode.CANCELLED)
        code = ErrorCode.INTERNAL
        try:
            reply = self._client.create(
                response_model=reply_model({line.n for conversation in part for line in conversation.lines}),
                messages=prompt.build(render(part)),  # and never `context=`: instructor would render them as templates
                max_retries=policy.begin(),
                hooks=policy.hooks(),
                strict=False,
                **self._options,
            )
        except Exception as error:  # noqa: BLE001 - every provider has its own exceptions, and all may quote the prompt
            code = policy.code_of(error)
            if code is ErrorCode.INTERNAL:
                logger.error("a model call failed in an unknown way: %s", type(policy.cause(error)).__name__)
        else:
            return list(reply.concepts)
        raise _Failed(code)


def is_loopback(url: str) -> bool:
    """Whether a URL points to this very machine."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _connect(settings: Settings) -> tuple[Any, dict[str, Any], bool]:
    """An instructor client, the options of every call, and whether message text leaves this machine."""
    provider, _, name = settings.model.partition("/")
    if not provider or not name:
        raise ConfigError(f"{settings.model!r} is not a model; write provider/name, such as ollama/qwen3 or openai/gpt-5-mini")
    if settings.base_url and provider not in ("openai", "ollama"):
        raise ConfigError(f"SUBCONSCIOUS_BASE_URL is for openai/… and ollama/… models, not for {provider}/…; unset it")
    _require(provider, keyless=bool(settings.base_url))

    import instructor

    silence_libraries()
    client: Any
    options: dict[str, Any]
    try:
        if provider in ("openai", "ollama"):
            client, options, remote = _openai_client(settings, provider, name)
        else:
            options, remote = {"max_tokens": settings.max_output_tokens} if provider == "anthropic" else {}, True
            client = instructor.from_provider(settings.model, **options)
    except Exception as error:  # noqa: BLE001 - any library may be behind a provider string
        reason = type(error).__name__
        raise ConfigError(
            f"cannot set up the model {settings.model} ({reason}); check that the provider is one instructor supports, that its package is "
            f'installed (pip install "instructor[{provider}]") and that its API key is set in the environment'
        ) from None
    finally:
        silence_libraries()  # again: a library imported just now may have set its own level
    sdk = client.client
    # Retries are ours: the SDK's would neither be counted nor stop for a shutdown. A time-out given with the call instead
    # would make instructor count all re-asks against it.
    if hasattr(sdk, "max_retries"):
        sdk.max_retries = 0
    if hasattr(sdk, "timeout"):
        sdk.timeout = settings.timeout_seconds
    return client, options, remote


def _openai_client(settings: Settings, provider: str, name: str) -> tuple[Any, dict[str, Any], bool]:
    import instructor
    import openai

    url = settings.base_url or (OLLAMA_URL if provider == "ollama" else os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
    local = is_loopback(url)
    key = os.environ.get("OPENAI_API_KEY") if provider == "openai" else None
    client = instructor.from_provider(
        f"openai/{name}",
        mode=instructor.Mode.JSON_SCHEMA,
        base_url=url,
        api_key=key or "none",
        # What is said to stay on this machine must not pass through a proxy or follow a redirect to elsewhere.
        http_client=openai.DefaultHttpxClient(trust_env=not local, follow_redirects=not local),
    )
    official = urlsplit(url).hostname == "api.openai.com"
    options: dict[str, Any] = {"max_completion_tokens" if official else "max_tokens": settings.max_output_tokens}
    if provider == "ollama":
        options["temperature"] = 0
    return client, options, not local


def _require(provider: str, keyless: bool) -> None:
    if provider not in _REQUIRED:
        return
    package, variables = _REQUIRED[provider]
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f"{provider}/… models need the package {package}: pip install {package}")
    if variables and not keyless and not any(os.environ.get(variable) for variable in variables):
        raise ConfigError(f"{provider}/… models need an API key: set {variables[0]} in the environment")
