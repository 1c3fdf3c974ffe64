"""A llama.cpp server of our own on a loopback port: one a process, started on first use, gone with the process. Knows no prompts.

It runs on threads of this process, so nothing outlives a crash or a kill. A random key guards the port; nothing is logged.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from subconscious_pipeline.errors import ConfigError, ExtractionError
from subconscious_pipeline.extraction.types import ErrorCode, Usage

log = logging.getLogger(__name__)

SLOTS = 3  # each keeps the cache of one constant prefix
SLOT_TOKENS = 3072
MISSING_EXTRA = "the local model needs two more packages; run: pip install 'subconscious-pipeline[local]'"

Message = dict[str, str]


class CallFailed(Exception):
    """One call failed; carries a code and nothing else."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        super().__init__(code.value)


@dataclass(frozen=True)
class Completion:
    """The text of one reply and what it cost."""

    text: str
    usage: Usage


@dataclass(frozen=True)
class _Reply:
    data: Any
    usage: Usage


# "Don't repeat yourself": a sequence that has just been written becomes less likely. Without it short replies loop over one word.
_NO_REPEATS = {"dry_multiplier": 0.8, "dry_allowed_length": 2, "dry_penalty_last_n": 48}


class LlamaClient:
    """Asks a llama.cpp HTTP server, one call at a time.

    Args:
        url: base URL of the server.
        key: its bearer token.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False)
        self._one_at_a_time = threading.Lock()

    def complete(self, messages: Sequence[Message], *, grammar: str, slot: int, max_tokens: int, timeout: float) -> Completion:
        """The most probable reply under a GBNF grammar.

        Args:
            messages: chat messages; equal beginnings are computed once a slot.
            slot: which cache to use, below `SLOTS`.
            timeout: seconds the call may take.

        Raises:
            CallFailed: with the reason as a code; the server's own words are dropped, since they may quote the prompt.
        """
        reply = self._post({"messages": list(messages), "grammar": grammar, "id_slot": slot, "max_tokens": max_tokens, **_NO_REPEATS}, timeout)
        try:
            choice = reply.data["choices"][0]
            text, finish = str(choice["message"]["content"]), choice["finish_reason"]
        except (KeyError, IndexError, TypeError):
            raise CallFailed(ErrorCode.INVALID) from None
        if finish == "length":
            raise CallFailed(ErrorCode.TRUNCATED)
        return Completion(text, reply.usage)

    def weigh(self, messages: Sequence[Message], options: Sequence[str], *, slot: int, timeout: float) -> tuple[dict[str, float], Usage]:
        """How probable it is that the reply begins like each of some words that differ in their first letters.

        Raises:
            CallFailed: as `complete`.
        """
        reply = self._post({"messages": list(messages), "id_slot": slot, "max_tokens": 1, "logprobs": True, "top_logprobs": 20}, timeout)
        weights = dict.fromkeys(options, 0.0)
        try:
            for candidate in reply.data["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
                token = str(candidate["token"]).strip().lower()
                for option in options:
                    if token and option.startswith(token):
                        weights[option] += math.exp(float(candidate["logprob"]))
        except (KeyError, IndexError, TypeError, ValueError):
            raise CallFailed(ErrorCode.INVALID) from None
        return weights, reply.usage

    def _post(self, body: dict[str, Any], timeout: float) -> _Reply:
        with self._one_at_a_time:
            began = time.monotonic()
            try:
                response = self._http.post("/v1/chat/completions", json=body | {"temperature": 0, "seed": 0, "cache_prompt": True}, timeout=timeout)
            except httpx.TimeoutException:
                raise CallFailed(ErrorCode.TIMEOUT) from None
            except httpx.TransportError:
                raise CallFailed(ErrorCode.UNREACHABLE) from None
            seconds = time.monotonic() - began
        if response.status_code != 200:
            raise CallFailed(_status_code(response.status_code))
        try:
            data = response.json()
            counts = data["usage"]
            return _Reply(data, Usage(1, int(counts["prompt_tokens"]), int(counts["completion_tokens"]), seconds))
        except (ValueError, KeyError, TypeError):
            raise CallFailed(ErrorCode.INVALID) from None

    def close(self) -> None:
        """Close the connections; the server goes on."""
        self._http.close()


def _status_code(status: int) -> ErrorCode:
    if status == 429:
        return ErrorCode.HTTP_429
    return ErrorCode.HTTP_5XX if status >= 500 else ErrorCode.HTTP_4XX


def threads_for(cores: int, busy: float | None) -> int:
    """How many threads to compute with.

    Half the cores, since threads that wait for each other spin, and a core taken by another process then costs more than it
    brings. On a machine of two or three cores half is little: when hardly anything else runs, all compute (measured on two: 12
    instead of 7 tokens a second; with one core taken, 4 instead of 7).

    Args:
        cores: of this machine.
        busy: how many of them others keep busy; None when that is unknown.
    """
    return cores if cores <= 3 and busy is not None and busy < 0.3 else max(1, cores // 2)


def busy_cores(seconds: float = 0.3, stat: Path = Path("/proc/stat")) -> float | None:
    """How many cores' worth of work was done in the next `seconds`; None where the system has no /proc/stat."""
    try:
        before = _busy_seconds(stat)
        time.sleep(seconds)
        return (_busy_seconds(stat) - before) / seconds
    except OSError:
        return None


def _busy_seconds(stat: Path) -> float:
    # First line: "cpu user nice system idle iowait irq softirq …", in clock ticks since boot.
    ticks = [int(value) for value in stat.read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / float(os.sysconf("SC_CLK_TCK"))


class _Running:
    """A started server and how many use it."""

    def __init__(self, gguf: Path) -> None:
        try:
            import xllamacpp
        except ImportError:
            raise ConfigError(MISSING_EXTRA) from None
        key = secrets.token_urlsafe(24)
        params = xllamacpp.CommonParams()
        params.model.path = str(gguf)
        params.n_parallel = SLOTS
        params.n_ctx = SLOTS * SLOT_TOKENS
        params.cache_ram_mib = 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads_for(os.cpu_count() or 1, busy_cores())
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [key]
        params.endpoint_slots = False  # it would show prompts
        params.ui = False
        params.offline = True
        params.warmup = False
        params.verbosity = -1  # llama.cpp writes straight to standard error
        began = time.monotonic()
        try:
            self.server = xllamacpp.Server(params)
        except RuntimeError:
            raise ExtractionError(
                f"{gguf} could not be loaded as a model (damaged, or not enough memory); delete it and run: subconscious model pull"
            ) from None
        log.info("local model %s ready after %.1f s", gguf.name, time.monotonic() - began)
        self.url, self.key, self.users = self.server.listening_address, key, 0

    def end(self) -> None:
        """Stop the server's threads and free the model: that is what dropping its last reference does."""
        del self.server


_running: dict[Path, _Running] = {}
_guard = threading.Lock()


def connect(gguf: Path) -> tuple[LlamaClient, Callable[[], None]]:
    """A client of this process's server for a GGUF file, and what to call when done with it; started when there is none yet.

    Raises:
        ConfigError: the extra `local` is not installed.
        ExtractionError: the file is missing or cannot be loaded.
    """
    gguf = gguf.resolve()
    if not gguf.is_file():
        raise ExtractionError(f"there is no model file {gguf}; run: subconscious model pull")
    with _guard:
        running = _running.get(gguf)
        if running is None:
            running = _running[gguf] = _Running(gguf)
        running.users += 1
    client = LlamaClient(running.url, running.key)
    released = threading.Event()

    def release() -> None:
        client.close()
        with _guard:
            if released.is_set():
                return
            released.set()
            running.users -= 1
            if running.users == 0:
                _running.pop(gguf, None)
                running.end()

    return client, release


@atexit.register
def _end_all() -> None:
    # Before the interpreter is taken down: native threads must not outlive it.
    with _guard:
        while _running:
            _running.popitem()[1].end()
