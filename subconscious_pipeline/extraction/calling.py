"""How often a model is asked again and what a failure is called: one retry policy for HTTP errors and for replies that break the rules."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from tenacity import RetryCallState, Retrying

from subconscious_pipeline.extraction.types import ErrorCode

MAX_WAIT_SECONDS = 60.0
_SLICE_SECONDS = 0.5

# Debug records of these carry request bodies, error records carry replies.
LIBRARIES = ("instructor", "openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2", "tenacity")

_TRANSIENT = frozenset({ErrorCode.HTTP_429, ErrorCode.HTTP_5XX, ErrorCode.TIMEOUT, ErrorCode.UNREACHABLE})
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation"})


def silence_libraries() -> None:
    """Keep client libraries from logging anything, whatever level the process logs at."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in LIBRARIES:
            logging.getLogger(name).setLevel(logging.NOTSET)
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def failure_code(error: BaseException) -> ErrorCode | None:
    """What an exception of a client library or of the connection is called; None for one that is neither.

    Decided by status and class names, so that no provider's package has to be imported.
    """
    if getattr(error, "code", None) in _FILTER_CODES:
        return ErrorCode.REFUSED
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        if status == 429:
            return ErrorCode.HTTP_429
        if status == 408:
            return ErrorCode.TIMEOUT
        return ErrorCode.HTTP_5XX if status >= 500 else ErrorCode.HTTP_4XX
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, TimeoutError) or names & {"APITimeoutError", "TimeoutException"}:
        return ErrorCode.TIMEOUT
    if isinstance(error, OSError) or names & {"APIConnectionError", "TransportError"}:
        return ErrorCode.UNREACHABLE
    if "IncompleteOutputException" in names:
        return ErrorCode.TRUNCATED
    return None


class Policy:
    """The retries, the count of calls and tokens, and the last failure of one window. Not shared between threads."""

    def __init__(self, http_retries: int, reasks: int, sleep: Callable[[float], None], stop: Callable[[], bool]) -> None:
        self.calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.stop = stop
        self._http_retries = http_retries
        self._reasks = reasks
        self._sleep = sleep
        self._start()

    def _start(self) -> None:
        self._http_failures = 0
        self._bad_replies = 0
        self._verdict: ErrorCode | None = None  # what the reply itself says: refused, or no chat completion at all
        self._last: BaseException | None = None

    def begin(self) -> Retrying:
        """A tenacity policy for one question, which instructor runs around each call and its validation.

        A reply that breaks the rules is asked again at once, at most `reasks` times a question; HTTP failures that may pass are retried
        after a wait, at most `http_retries` times a call.
        """
        self._start()
        return Retrying(retry=self._again, wait=self._seconds, sleep=self._wait, reraise=True)

    def hooks(self) -> Any:
        """instructor hooks that count every call and the tokens of every response.

        instructor adds usage up over re-asks and writes the sum into each response, but the hook sees it before that.
        """
        from instructor.core.hooks import Hooks

        hooks = Hooks()
        hooks.on("completion:kwargs", self._on_call)
        hooks.on("completion:response", self._on_response)
        return hooks

    def cause(self, error: BaseException) -> BaseException:
        """The failure itself, without the wrapping of instructor."""
        return self._last or error

    def code_of(self, error: BaseException) -> ErrorCode:
        """What a question that ended with `error` failed of."""
        if self._verdict is not None:
            return self._verdict
        cause = self.cause(error)
        if _is_bad_reply(cause):
            return ErrorCode.INVALID
        code = failure_code(cause)
        if code is None:
            return ErrorCode.INTERNAL
        return ErrorCode.CANCELLED if code in _TRANSIENT and self.stop() else code

    def _on_call(self, **_: object) -> None:
        self.calls += 1

    def _on_response(self, response: Any) -> None:
        self._http_failures = 0
        usage = getattr(response, "usage", None)
        self.prompt_tokens += _count(usage, "prompt_tokens") or _count(
            usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"
        )
        self.completion_tokens += _count(usage, "completion_tokens") or _count(usage, "output_tokens")
        if getattr(response, "stop_reason", None) == "refusal":
            self._verdict = ErrorCode.REFUSED
        if isinstance(response, str) or getattr(response, "choices", True) in (None, []):
            self._verdict = ErrorCode.INVALID
            return
        for choice in getattr(response, "choices", ()):
            if getattr(choice, "finish_reason", None) == "content_filter" or getattr(getattr(choice, "message", None), "refusal", None):
                self._verdict = ErrorCode.REFUSED

    def _again(self, state: RetryCallState) -> bool:
        self._last = state.outcome.exception() if state.outcome else None
        if self._last is None or self._verdict is not None or self.stop():
            return False
        if _is_bad_reply(self._last):
            self._bad_replies += 1
            return self._bad_replies <= self._reasks
        if failure_code(self._last) in _TRANSIENT:
            self._http_failures += 1
            return self._http_failures <= self._http_retries
        return False

    def _seconds(self, _: RetryCallState) -> float:
        if self._last is None or _is_bad_reply(self._last):
            return 0.0
        asked = _retry_after(self._last)
        return min(MAX_WAIT_SECONDS, 2.0 ** (self._http_failures - 1) if asked is None else asked)

    def _wait(self, seconds: float) -> None:
        while seconds > 0:
            piece = min(seconds, _SLICE_SECONDS)
            self._sleep(piece)
            seconds -= piece
            if self.stop():
                raise InterruptedError


def _is_bad_reply(error: BaseException) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return isinstance(error, ValidationError | json.JSONDecodeError) or "ResponseParsingError" in names


def _count(usage: object, *names: str) -> int:
    values = (getattr(usage, name, None) for name in names)
    return sum(value for value in values if isinstance(value, int) and value > 0)


def _retry_after(error: BaseException) -> float | None:
    """Seconds a server asks to wait (Retry-After, RFC 9110 §10.2.3), None when it says nothing or names a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None
