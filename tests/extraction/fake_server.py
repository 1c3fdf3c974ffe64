"""An OpenAI-compatible chat server on loopback that answers as a test scripts it and records what it was asked.

    with FakeServer([good(REPLY), status(429, retry_after="0")]) as server:
        ... base_url=server.url ...

Steps are used up in order, one a request; the last one is repeated. A script may also be a function from request to step.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]

    @property
    def text(self) -> str:
        """The user's first message: the transcript."""
        return next(message["content"] for message in self.messages if message["role"] == "user")


@dataclass(frozen=True)
class Step:
    """One answer. `body` None closes the connection without a word."""

    code: int = 200
    body: str | None = "{}"
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    hold: bool = False  # answer only when the test calls `release()` (or leaves the server)


def _completion(message: dict[str, Any], finish: str, prompt_tokens: int, completion_tokens: int) -> str:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": prompt_tokens + completion_tokens}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({"id": "c1", "object": "chat.completion", "created": 1, "model": "fake", "choices": [choice], "usage": usage})


def says(content: str | None, finish: str = "stop", prompt_tokens: int = 100, completion_tokens: int = 10, hold: bool = False) -> Step:
    """The model's own text, whatever it is."""
    return Step(body=_completion({"content": content}, finish, prompt_tokens, completion_tokens), hold=hold)


def good(reply: object, prompt_tokens: int = 100, completion_tokens: int = 10, hold: bool = False) -> Step:
    """A reply as JSON."""
    return says(json.dumps(reply), prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, hold=hold)


def truncated() -> Step:
    """A reply that hit the output limit."""
    return says('{"concepts": [{"topic": "The', finish="length", completion_tokens=50)


def refuses() -> Step:
    """A structured refusal."""
    return Step(body=_completion({"content": None, "refusal": "I cannot help with that."}, "stop", 100, 5))


def status(code: int, retry_after: str | None = None, message: str = "no") -> Step:
    """An HTTP error."""
    return Step(code, json.dumps({"error": {"message": message}}), {"Retry-After": retry_after} if retry_after is not None else {})


def closes() -> Step:
    """The connection ends before any answer."""
    return Step(body=None)


Script = Sequence[Step] | Callable[[Request], Step]


class FakeServer:
    """See the module. Attributes: `requests` in order of arrival, `most_at_once`."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._script = script
        self._lock = threading.Lock()
        self._busy = 0
        self._arrived = threading.Condition(self._lock)
        self._released = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                fake._serve(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def release(self) -> None:
        """Let all answers on hold go."""
        self._released.set()

    def wait_for(self, count: int, seconds: float = 10.0) -> None:
        """Until that many requests have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, seconds), f"only {len(self.requests)} requests arrived"

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        request = Request(handler.path, {name.lower(): value for name, value in handler.headers.items()}, body)
        with self._arrived:
            index = len(self.requests)
            self.requests.append(request)
            self._busy += 1
            self.most_at_once = max(self.most_at_once, self._busy)
            self._arrived.notify_all()
        step = self._script(request) if callable(self._script) else self._script[min(index, len(self._script) - 1)]
        if step.hold:
            self._released.wait(30)
        with self._lock:
            self._busy -= 1
        if step.body is None:
            handler.close_connection = True
            return
        data = step.body.encode()
        try:
            handler.send_response(step.code)
            for name, value in {"Content-Type": step.content_type, "Content-Length": str(len(data)), **step.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)
        except OSError:
            handler.close_connection = True  # the client has gone: it timed out
