"""Asks about many windows at once: bounded concurrency, a token budget, a way to stop. Stores nothing; each result goes to the caller."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from subconscious_pipeline.errors import SubconsciousError
from subconscious_pipeline.extraction.types import ErrorCode, Extractor, WindowResult
from subconscious_pipeline.instants import Window
from subconscious_pipeline.warehouse.transcript import Transcript

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class PendingWindow:
    """A window to ask about, whose transcript is read only when its turn comes."""

    window: Window
    input_hash: str
    load: Callable[[], Transcript]  # called in the calling thread


def extract_windows(
    pending: Iterable[PendingWindow],
    extractor: Extractor,
    on_result: Callable[[WindowResult], None],
    stop: Callable[[], bool],
    token_budget: int | None = None,
) -> None:
    """Ask about each window and hand each result to `on_result`, in the calling thread, as it finishes (in any order).

    At most `extractor.concurrency` transcripts are in memory or in flight. Unless an exception ends it, every window gets exactly
    one result: one without lines is `empty` without a call, a defect fails that window alone (`INTERNAL`), windows not begun when
    `stop` says so or the budget is spent are `failed` with `CANCELLED` or `BUDGET`. The budget is looked at before a window is
    begun, so windows in flight may overrun it. An interrupt or an exception of `on_result` ends at once; results in flight are lost.

    Args:
        pending: the windows, in the order they are to be asked.
        extractor: the model.
        on_result: called once a window.
        stop: polled between windows, and by the extractor between calls.
        token_budget: most prompt and completion tokens of all windows together; None for no limit.

    Raises:
        SubconsciousError: when a store cannot be read or no window can be asked at all; results of windows in flight are handed over first.
    """
    finished: queue.SimpleQueue[WindowResult | SubconsciousError] = queue.SimpleQueue()
    in_flight = 0
    spent = 0
    fatal: SubconsciousError | None = None

    def failed(item: PendingWindow, code: ErrorCode) -> WindowResult:
        return WindowResult(item.window, "failed", item.input_hash, extractor.model, extractor.prompt_version, error_code=code)

    def ask(item: PendingWindow, transcript: Transcript) -> None:
        try:
            finished.put(extractor.extract(transcript, stop))
        except SubconsciousError as error:
            finished.put(error)
        except Exception as error:  # noqa: BLE001 - one window must not take the others along
            logger.error("window %s failed by a defect: %s", item.window.key, type(error).__name__)
            finished.put(failed(item, ErrorCode.INTERNAL))

    def collect() -> None:
        nonlocal in_flight, spent, fatal
        outcome = None
        while outcome is None:
            try:
                outcome = finished.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
        in_flight -= 1
        if isinstance(outcome, SubconsciousError):
            fatal = fatal or outcome
        else:
            spent += outcome.usage.tokens
            on_result(outcome)

    for item in pending:
        while in_flight and (in_flight >= extractor.concurrency or not finished.empty()):
            collect()
        if fatal is not None:
            break
        if stop():
            on_result(failed(item, ErrorCode.CANCELLED))
            continue
        if token_budget is not None and spent >= token_budget:
            on_result(failed(item, ErrorCode.BUDGET))
            continue
        try:
            transcript = item.load()
        except SubconsciousError as error:
            fatal = error
            break
        except Exception as error:  # noqa: BLE001 - as above
            logger.error("window %s could not be read: %s", item.window.key, type(error).__name__)
            on_result(failed(item, ErrorCode.INTERNAL))
            continue
        if not any(conversation.lines for conversation in transcript.conversations):
            on_result(WindowResult(item.window, "empty", item.input_hash, extractor.model, extractor.prompt_version))
            continue
        # Daemon threads, no executor: an executor's threads keep an interrupted process alive until their calls time out.
        threading.Thread(target=ask, args=(item, transcript), name=f"extract {item.window.key}", daemon=True).start()
        in_flight += 1
    while in_flight:
        collect()
    if fatal is not None:
        raise fatal
