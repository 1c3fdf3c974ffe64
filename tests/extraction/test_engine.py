import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from subconscious_pipeline.errors import ExtractionError, StoreLocked
from subconscious_pipeline.extraction.engine import PendingWindow, extract_windows
from subconscious_pipeline.extraction.hosted import HostedExtractor
from subconscious_pipeline.extraction.types import ErrorCode, Usage, WindowResult
from subconscious_pipeline.instants import Window
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.transcript import Transcript

from .fake_server import FakeServer, good, says, status
from .windows import START, concept, reply, small, transcript

GOOD = reply(concept([1]))


def windows(count: int) -> list[Window]:
    return [Window(START + timedelta(hours=6 * n), START + timedelta(hours=6 * n + 6)) for n in range(count)]


def pending(count: int) -> list[PendingWindow]:
    return [
        PendingWindow(window, f"hash-{window.key}", lambda window=window: small(f"window {window.key}", window=window)) for window in windows(count)
    ]


class Scripted:
    """An extractor that runs a function."""

    model, prompt_version, remote = "scripted", "1", False

    def __init__(self, answer: Callable[[Transcript], WindowResult], concurrency: int = 1) -> None:
        self.concurrency = concurrency
        self.asked: list[str] = []
        self._answer = answer

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        self.asked.append(transcript.window.key)
        return self._answer(transcript)

    def close(self) -> None: ...


def empty(transcript: Transcript) -> WindowResult:
    return WindowResult(transcript.window, "empty", transcript.input_hash, "scripted", "1", Usage(1, 90, 10))


def never() -> bool:
    return False


def run(items, extractor, stop=never, token_budget=None) -> list[WindowResult]:
    results: list[WindowResult] = []
    extract_windows(items, extractor, results.append, stop, token_budget)
    return results


def codes(results: list[WindowResult]) -> list[tuple[str, str]]:
    return sorted((result.window.key, str(result.error_code or result.status)) for result in results)


def test_one_bad_window_does_not_take_the_others_along():
    keys = [window.key for window in windows(5)]
    with FakeServer(lambda request: status(500) if keys[2] in request.text else good(GOOD)) as server:
        extractor = HostedExtractor(Settings(model="openai/fake", base_url=server.url, http_retries=0))
        results = run(pending(5), extractor)
        extractor.close()
    assert codes(results) == [(key, "http_5xx" if key == keys[2] else "ok") for key in keys]


def test_as_many_windows_as_the_extractor_takes_are_asked_at_once():
    with FakeServer(lambda _: good(GOOD, hold=True)) as server:
        extractor = HostedExtractor(Settings(model="openai/fake", base_url=server.url, concurrency=3))
        results: list[WindowResult] = []
        loaded: list[str] = []

        def load(item: PendingWindow) -> Transcript:
            loaded.append(item.window.key)
            return item.load()

        lazy = [PendingWindow(item.window, item.input_hash, lambda item=item: load(item)) for item in pending(8)]
        running = threading.Thread(target=extract_windows, args=(lazy, extractor, results.append, never))
        running.start()
        server.wait_for(3)
        assert (len(loaded), len(results)) == (3, 0)
        server.release()
        running.join(20)
        extractor.close()
        assert len(results) == 8
        assert server.most_at_once == 3


def test_results_come_as_they_finish_and_in_the_calling_thread():
    first_may_end = threading.Event()
    keys = [window.key for window in windows(3)]

    def answer(transcript: Transcript) -> WindowResult:
        if transcript.window.key == keys[0]:
            assert first_may_end.wait(10)
        return empty(transcript)

    order: list[str] = []
    threads = set()

    def on_result(result: WindowResult) -> None:
        order.append(result.window.key)
        threads.add(threading.current_thread())
        if len(order) == 2:
            first_may_end.set()

    extract_windows(pending(3), Scripted(answer, concurrency=2), on_result, never)
    assert order == [keys[1], keys[2], keys[0]]
    assert threads == {threading.current_thread()}


def test_a_window_without_lines_is_empty_without_a_call():
    [window] = windows(1)
    extractor = Scripted(empty)
    [result] = run([PendingWindow(window, "h", lambda: transcript(window=window))], extractor)
    assert (result.status, result.usage, result.input_hash, extractor.asked) == ("empty", Usage(), "h", [])


def test_a_spent_budget_leaves_the_rest_untried():
    extractor = Scripted(empty)
    results = run(pending(5), extractor, token_budget=200)  # 100 tokens a window
    assert [str(result.error_code or result.status) for result in results] == ["empty", "empty", "budget", "budget", "budget"]
    assert len(extractor.asked) == 2
    assert results[-1].input_hash == f"hash-{windows(5)[-1].key}"


def test_failed_calls_spend_the_budget_too():
    with FakeServer([says("no json", prompt_tokens=100, completion_tokens=10)]) as server:
        extractor = HostedExtractor(Settings(model="openai/fake", base_url=server.url, reasks=1, concurrency=1))
        results = run(pending(3), extractor, token_budget=220)
        extractor.close()
    assert [result.error_code for result in results] == [ErrorCode.INVALID, ErrorCode.BUDGET, ErrorCode.BUDGET]


def test_stop_leaves_the_rest_untried_and_lets_those_begun_end():
    extractor = Scripted(empty)
    results = run(pending(4), extractor, stop=lambda: len(extractor.asked) >= 2)
    assert [str(result.error_code or result.status) for result in results] == ["empty", "empty", "cancelled", "cancelled"]


def test_a_defect_costs_one_window_and_is_logged_by_its_type_alone(caplog):
    caplog.set_level(logging.DEBUG)
    keys = [window.key for window in windows(4)]

    def answer(transcript: Transcript) -> WindowResult:
        if transcript.window.key == keys[1]:
            raise ZeroDivisionError("secret text")
        return empty(transcript)

    def unreadable() -> Transcript:
        raise KeyError("secret text")

    items = pending(4)
    items[2] = PendingWindow(items[2].window, "h", unreadable)
    assert codes(run(items, Scripted(answer))) == [(keys[0], "empty"), (keys[1], "internal"), (keys[2], "internal"), (keys[3], "empty")]
    assert "ZeroDivisionError" in caplog.text
    assert "KeyError" in caplog.text
    assert "secret" not in caplog.text


def test_a_model_that_cannot_be_asked_at_all_ends_the_run():
    def answer(transcript: Transcript) -> WindowResult:
        raise ExtractionError("the model file is missing")

    extractor = Scripted(answer)
    with pytest.raises(ExtractionError, match="model file is missing"):
        run(pending(4), extractor)
    assert len(extractor.asked) == 1


def test_a_store_that_cannot_be_read_ends_the_run_after_what_is_in_flight():
    def locked() -> Transcript:
        raise StoreLocked("warehouse.duckdb is held")

    items = pending(3)
    items[1] = PendingWindow(items[1].window, "h", locked)
    results: list[WindowResult] = []
    with pytest.raises(StoreLocked):
        extract_windows(items, Scripted(empty, concurrency=4), results.append, never)
    assert [result.window for result in results] == [items[0].window]


def test_an_error_of_the_caller_is_the_callers():
    def on_result(_: WindowResult) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        extract_windows(pending(3), Scripted(empty), on_result, never)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupt_ends_the_process_while_a_call_hangs():
    program = textwrap.dedent(
        """
        import sys
        from datetime import datetime, timedelta, UTC
        from subconscious_pipeline.extraction.engine import PendingWindow, extract_windows
        from subconscious_pipeline.extraction.hosted import HostedExtractor
        from subconscious_pipeline.instants import Window
        from subconscious_pipeline.settings import Settings
        from subconscious_pipeline.warehouse.transcript import Conversation, Line, Transcript
        at = datetime(2026, 3, 30, tzinfo=UTC)
        window = Window(at, at + timedelta(hours=6))
        line = Line(1, "k", "messaging", "r", at, at, "x", at.date(), "Ana", "text")
        whole = Transcript(window, (Conversation("messaging", "t", (line,)),), "h")
        extractor = HostedExtractor(Settings(model="openai/fake", base_url=sys.argv[1]))
        extract_windows([PendingWindow(window, "h", lambda: whole)], extractor, print, lambda: False)
        """
    )
    with FakeServer([good(GOOD, hold=True)]) as server:
        process = subprocess.Popen([sys.executable, "-c", program, server.url], stderr=subprocess.PIPE)
        try:
            server.wait_for(1, seconds=30)
            os.kill(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=10)  # far below the time-out of the call
        finally:
            process.kill()
    assert b"KeyboardInterrupt" in errors
