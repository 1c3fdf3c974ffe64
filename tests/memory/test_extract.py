"""From due windows to persisted observations, whatever happens on the way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from place import AS_OF, FakeExtractor, Place, first_words, message

from subconscious_pipeline.errors import ExtractionError
from subconscious_pipeline.extraction.types import ErrorCode
from subconscious_pipeline.settings import load_settings

KEYS = [f"2026-03-30T{hour:02}:00Z" for hour in (0, 6, 12, 18)]


@pytest.fixture
def four(place: Place) -> Place:
    """Four windows, one message each."""
    place.jsonl("a.jsonl", *(message(f"door entrance lock{number}", key.replace(":00Z", ":30:00Z")) for number, key in enumerate(KEYS)))
    place.ingest()
    return place


def statuses(place: Place) -> list[tuple[str, str]]:
    return place.memory("SELECT strftime(window_start, '%Y-%m-%dT%H:%MZ'), status FROM extractions ORDER BY 1")


def test_each_window_is_persisted_as_it_finishes(four: Place) -> None:
    seen: list[list[str]] = []
    outcome = four.extract(FakeExtractor(first_words), on_window=lambda *_: seen.append([status for _, status in statuses(four)]))
    assert seen == [["ok", *["running"] * 3], ["ok", "ok", "running", "running"], ["ok", "ok", "ok", "running"], ["ok"] * 4]
    assert (outcome.statuses, outcome.observations, outcome.usage.tokens, outcome.failed) == (dict.fromkeys(KEYS, "ok"), 4, 440, [])
    assert four.overview().due == ()


def test_a_failing_window_leaves_the_others_and_is_given_up_after_its_last_try(four: Place) -> None:
    extractor = FakeExtractor(lambda transcript: ErrorCode.TIMEOUT if transcript.window.key == KEYS[1] else first_words(transcript))
    outcome = four.extract(extractor)
    assert (outcome.failed, outcome.error_codes, outcome.observations) == ([KEYS[1]], {KEYS[1]: "timeout"}, 3)
    overview = four.overview()
    assert (overview.status, overview.watermark, overview.due) == ("degraded", four.overview().failing[0].start, ())
    assert overview.reasons == (f"window {KEYS[1]} failed (timeout), missing since 2026-03-30T06:00:00Z",)
    for hours in (1, 2):
        four.extract(extractor, AS_OF + timedelta(hours=hours))
    assert extractor.asked == [*KEYS, KEYS[1], KEYS[1]]
    given_up = four.overview(AS_OF + timedelta(hours=9))
    assert given_up.reasons == (f"window {KEYS[1]} given up (timeout), missing since 2026-03-30T06:00:00Z",)
    assert (given_up.due, given_up.counts()["quarantined"]) == ((), 1)
    assert given_up.watermark == AS_OF + timedelta(hours=6)


def test_a_defect_of_the_extractor_fails_its_window_alone(four: Place) -> None:
    def script(transcript):  # type: ignore[no-untyped-def]
        if transcript.window.key == KEYS[0]:
            raise KeyError("door entrance")
        return first_words(transcript)

    outcome = four.extract(FakeExtractor(script))
    assert outcome.error_codes == {KEYS[0]: "internal"}
    assert outcome.observations == 3


def test_a_spent_budget_stops_cleanly_and_the_rest_stays_due(four: Place) -> None:
    four.settings = load_settings(timezone="Europe/Madrid", token_budget=200)
    extractor = FakeExtractor(first_words)
    outcome = four.extract(extractor)
    assert extractor.asked == KEYS[:2]
    assert outcome.error_codes == dict.fromkeys(KEYS[2:], "budget")
    assert [item.window.key for item in four.overview().due] == KEYS[2:]
    assert four.memory("SELECT max(tries) FROM extractions") == [(0,)]
    assert four.extract(extractor).observations == 2


def test_a_stop_between_windows_keeps_what_is_done(four: Place) -> None:
    extractor = FakeExtractor(first_words)
    outcome = four.extract(extractor, stop=lambda: len(extractor.asked) >= 1)
    assert extractor.asked == KEYS[:1]
    assert outcome.error_codes == dict.fromkeys(KEYS[1:], "cancelled")
    assert [item.window.key for item in four.overview().due] == KEYS[1:]


def test_when_nothing_can_be_asked_at_all_the_rest_stays_due(four: Place) -> None:
    def script(transcript):  # type: ignore[no-untyped-def]
        raise ExtractionError("no model file; run `subconscious model pull`")

    with pytest.raises(ExtractionError, match="model pull"):
        four.extract(FakeExtractor(script))
    assert [item.window.key for item in four.overview().due] == KEYS
    assert four.extract(FakeExtractor(first_words)).observations == 4


def test_a_window_of_noise_alone_is_asked_about_only_to_take_back_what_it_said(place: Place) -> None:
    place.jsonl("a.jsonl", message("door entrance lock", "2026-03-30T06:30:00Z", native_id="1"))
    place.ingest()
    extractor = FakeExtractor(first_words)
    place.extract(extractor)
    place.project()
    place.jsonl("a.jsonl", message("", "2026-03-30T06:30:00Z", native_id="1", kind="deleted"))
    place.ingest()
    assert [item.window.key for item in place.overview().due] == [KEYS[1]]
    assert place.extract(extractor).statuses == {KEYS[1]: "empty"}
    place.project()
    assert place.concepts() == {}
    assert (place.overview().due, extractor.asked) == ((), [KEYS[1]])


def test_a_window_whose_rows_have_all_moved_away_is_emptied(place: Place) -> None:
    place.jsonl("a.jsonl", message("door entrance lock", "2026-03-30T06:30:00Z", native_id="1"))
    place.ingest()
    place.extract(FakeExtractor(first_words))
    place.jsonl("a.jsonl", message("door entrance lock", "2026-03-30T13:30:00Z", native_id="1"))
    place.ingest()
    assert [item.window.key for item in place.overview().due] == [KEYS[1], KEYS[2]]
    assert place.extract(FakeExtractor(first_words)).statuses == {KEYS[1]: "empty", KEYS[2]: "ok"}
    assert place.overview().due == ()


def test_a_late_message_makes_exactly_its_window_due(four: Place) -> None:
    four.extract(FakeExtractor(first_words))
    four.jsonl("late.jsonl", message("key", "2026-03-30T13:00:00Z"))
    four.ingest()
    assert [item.window.key for item in four.overview().due] == [KEYS[2]]


def test_named_windows_are_extracted_again(four: Place) -> None:
    extractor = FakeExtractor(first_words)
    windows = four.overview().due
    four.extract(extractor)
    from subconscious_pipeline.memory.extract import extract

    assert extract(four.home, four.settings, extractor, windows[:1], AS_OF).elsewhere == KEYS[:1]
    assert extract(four.home, four.settings, extractor, windows[:1], AS_OF, again=True).statuses == {KEYS[0]: "ok"}
    assert extractor.asked == [*KEYS, KEYS[0]]


@pytest.mark.parametrize(("concurrency", "fails"), [(1, False), (4, False), (2, True)])
def test_two_extractions_at_once_ask_about_each_window_once_and_never_wait_for_each_other_for_ever(
    four: Place, concurrency: int, fails: bool
) -> None:
    both_know = threading.Barrier(2, timeout=60)
    extractors = [
        FakeExtractor(lambda transcript: ErrorCode.TIMEOUT if fails else first_words(transcript), concurrency=concurrency) for _ in range(2)
    ]
    due = four.overview().due
    finished = []

    def run(extractor: FakeExtractor) -> None:
        from subconscious_pipeline.memory.extract import extract

        both_know.wait()
        finished.append(extract(four.home, four.settings, extractor, due, AS_OF))

    threads = [threading.Thread(target=run, args=(extractor,), daemon=True) for extractor in extractors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    assert len(finished) == 2
    assert sorted([*extractors[0].asked, *extractors[1].asked]) == KEYS
    for outcome in finished:
        assert sorted([*outcome.statuses, *outcome.elsewhere]) == KEYS
    assert {status for _, status in statuses(four)} == {"failed" if fails else "ok"}


KILLED = """
import os, signal, sys
from place import *
place = Place(Path(sys.argv[1]), Settings(lock_seconds=20.0))
def script(transcript):
    if transcript.window.key.endswith("T12:00Z"):
        os.kill(os.getpid(), signal.SIGKILL)
    return first_words(transcript)
place.extract(FakeExtractor(script))
"""


def test_what_a_killed_run_had_claimed_is_taken_up_at_once(four: Place) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(four.home.root)], env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}, timeout=100
    )
    assert killed.returncode == -9
    assert statuses(four) == list(zip(KEYS, ["ok", "ok", "running", "running"], strict=True))
    assert [item.window.key for item in four.overview().due] == KEYS[2:]
    extractor = FakeExtractor(first_words)
    assert four.extract(extractor).statuses == dict.fromkeys(KEYS[2:], "ok")
    assert extractor.asked == KEYS[2:]
    assert four.overview().status == "ok"
