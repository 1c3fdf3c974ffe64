"""Which windows are due, how far the index has seen, and what becomes of a window that fails."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from place import AS_OF, Place, at, result, said, span, window

from subconscious_pipeline.extraction.types import ErrorCode
from subconscious_pipeline.memory import ledger, store
from subconscious_pipeline.memory.ledger import DueWindow, Entry
from subconscious_pipeline.settings import load_settings
from subconscious_pipeline.warehouse.windows import WindowInput

SETTINGS = load_settings(lookback_days=10, retry_minutes=10.0, max_tries=3)
START = "2026-03-30T06:00Z"


def row(start: str = START, rows: int = 3, input_hash: str = "h1") -> WindowInput:
    return WindowInput(at(start), rows, 0, 1, input_hash)


def entry(
    status: ledger.Status, start: str = START, input_hash: str = "h1", tries: int = 0, next_try: str | None = None, lease: str | None = None
) -> Entry:
    return Entry(at(start), status, at(lease) if lease else None, tries, at(next_try) if next_try else None, input_hash, None)


def due(inputs: list[WindowInput], *entries: Entry, as_of: datetime = AS_OF, leases: bool = False) -> list[str]:
    return [item.window.key for item in ledger.due(inputs, {one.start: one for one in entries}, as_of, SETTINGS, honour_leases=leases)]


@pytest.mark.parametrize(
    ("inputs", "entries", "expected"),
    [
        pytest.param([row()], [], [START], id="never extracted"),
        pytest.param([row("2026-04-01T06:00Z")], [], ["2026-04-01T06:00Z"], id="closed at this very instant"),
        pytest.param([row("2026-04-01T12:00Z")], [], [], id="still open"),
        pytest.param([row("2026-05-01T12:00Z")], [], [], id="in the future"),
        pytest.param([WindowInput(datetime(9999, 12, 31, 18, tzinfo=AS_OF.tzinfo), 1, 0, 1, "h")], [], [], id="at the end of time"),
        pytest.param([row(rows=0)], [], [], id="noise alone"),
        pytest.param([row("2026-03-22T12:00Z")], [], ["2026-03-22T12:00Z"], id="at the edge of the lookback"),
        pytest.param([row("2026-03-22T06:00Z")], [], [], id="older than the lookback"),
        pytest.param([row()], [entry("ok")], [], id="extracted"),
        pytest.param([row()], [entry("empty")], [], id="extracted, nothing worth a concept"),
        pytest.param([row()], [entry("ok", input_hash="h0")], [START], id="a late message"),
        pytest.param([row()], [entry("empty", input_hash="h0")], [START], id="a late message where nothing was"),
        pytest.param([row(rows=0, input_hash="h0")], [entry("ok")], [START], id="everything taken back"),
        pytest.param([row(rows=0, input_hash="h0")], [entry("failed")], [START], id="what could not be read was taken back"),
        pytest.param([row(rows=0, input_hash="h0")], [entry("empty")], [], id="taken back, and nothing had come of it"),
        pytest.param([row("2026-03-29T06:00Z")], [entry("ok", "2026-03-29T06:00Z"), entry("ok")], [START], id="no row is left of it"),
        pytest.param([row("2026-03-29T06:00Z")], [entry("ok", "2026-03-29T06:00Z"), entry("ok", input_hash="")], [], id="none left, and known"),
        pytest.param([], [entry("ok")], [], id="a lost warehouse empties nothing"),
        pytest.param([row()], [entry("failed", tries=1, next_try="2026-04-01T12:01Z")], [], id="waiting out its backoff"),
        pytest.param([row()], [entry("failed", tries=1, next_try="2026-04-01T12:00Z")], [START], id="backoff over"),
        pytest.param([row()], [entry("failed", input_hash="h0", tries=1, next_try="2026-04-01T13:00Z")], [START], id="new content does not wait"),
        pytest.param([row()], [entry("quarantined", tries=3)], [], id="given up"),
        pytest.param([row()], [entry("quarantined", input_hash="h0", tries=3)], [START], id="new content gives it another chance"),
        pytest.param([row()], [entry("running", lease="2026-04-01T12:30Z")], [START], id="claimed, maybe by a run that died"),
    ],
)
def test_due(inputs: list[WindowInput], entries: list[Entry], expected: list[str]) -> None:
    assert due(inputs, *entries) == expected


def test_leases_are_honoured_by_those_who_only_watch() -> None:
    running = entry("running", lease="2026-04-01T12:30Z")
    assert due([row()], running, leases=True) == []
    assert due([row()], running, leases=True, as_of=at("2026-04-01T12:30Z")) == [START]


def test_windows_before_the_start_of_everything_are_never_due() -> None:
    settings = load_settings(start="2026-03-31")
    assert ledger.due([row(), row("2026-03-31T00:00Z")], {}, AS_OF, settings) == [DueWindow(window("2026-03-31T00:00Z"), "h1", 3, 0)]
    assert ledger.older_than_lookback([row()], {}, AS_OF, settings) == []


def test_tries_count_for_the_same_content_only() -> None:
    failed = entry("failed", tries=2, next_try="2026-04-01T00:00Z")
    assert ledger.due([row()], {failed.start: failed}, AS_OF, SETTINGS)[0].tries == 2
    assert ledger.due([row(input_hash="h2")], {failed.start: failed}, AS_OF, SETTINGS)[0].tries == 0


def test_what_lies_beyond_the_lookback_is_named() -> None:
    inputs = [row("2026-01-01T06:00Z"), row("2026-01-02T06:00Z"), row("2026-01-03T06:00Z", rows=0), row()]
    known = entry("ok", "2026-01-02T06:00Z")
    assert [one.key for one in ledger.older_than_lookback(inputs, {known.start: known}, AS_OF, SETTINGS)] == ["2026-01-01T06:00Z"]


@pytest.mark.parametrize(
    ("inputs", "entries", "mark"),
    [
        pytest.param([], [], "2026-04-01T12:00Z", id="nothing to do: the last closed window"),
        pytest.param([row()], [], START, id="before the first due one"),
        pytest.param([row()], [entry("ok")], "2026-04-01T12:00Z", id="all extracted"),
        pytest.param([row()], [entry("failed", tries=1, next_try="2026-04-02T00:00Z")], START, id="before a failed one that waits"),
        pytest.param([row()], [entry("quarantined", tries=3)], "2026-04-01T12:00Z", id="past one that is given up"),
        pytest.param([row()], [entry("running")], START, id="before one in work"),
        pytest.param([row("2026-03-01T06:00Z")], [entry("failed", "2026-03-01T06:00Z")], "2026-04-01T12:00Z", id="past what no run will touch"),
    ],
)
def test_watermark(inputs: list[WindowInput], entries: list[Entry], mark: str) -> None:
    assert ledger.watermark(inputs, {one.start: one for one in entries}, AS_OF, SETTINGS) == at(mark)


def test_the_watermark_falls_on_the_start_of_the_open_window() -> None:
    assert ledger.watermark([], {}, at("2026-04-01T17:59Z"), SETTINGS) == at("2026-04-01T12:00Z")


def as_due(*starts: str) -> list[DueWindow]:
    return [DueWindow(window(start), "h", 1, 0) for start in starts]


def keys(found: list[tuple[ledger.Window, ledger.Window]]) -> list[tuple[str, str]]:
    return [(first.key[8:13], last.key[8:13]) for first, last in found]


def test_ranges_join_adjacent_windows_and_bridge_what_is_quiet() -> None:
    windows = as_due("2026-03-30T00:00Z", "2026-03-30T06:00Z", "2026-03-30T18:00Z", "2026-03-31T06:00Z")
    assert keys(ledger.ranges(windows)) == [("30T00", "30T06"), ("30T18", "30T18"), ("31T06", "31T06")]
    assert keys(ledger.ranges(windows, [])) == [("30T00", "31T06")]
    assert keys(ledger.ranges(windows, [at("2026-03-30T12:00Z")])) == [("30T00", "30T06"), ("30T18", "31T06")]
    assert keys(ledger.ranges(windows, [at("2026-03-30T18:00Z"), at("2026-04-03T18:00Z")])) == [("30T00", "31T06")]
    assert ledger.ranges([]) == []


@pytest.mark.parametrize(("tries", "minutes"), [(1, 10), (2, 20), (3, 40), (6, 320)])
def test_the_backoff_doubles(tries: int, minutes: int) -> None:
    assert ledger.backoff(tries, SETTINGS) == timedelta(minutes=minutes)


OBSERVED = said("door entrance lock", span("flat", "2026-03-30T07:12Z"))


def recorded(place: Place) -> tuple[object, ...]:
    (found,) = place.memory("SELECT status, tries, next_try_at, error_code, input_hash, lease_until FROM extractions")
    return found


def test_a_window_fails_waits_and_is_given_up_after_the_last_try(place: Place) -> None:
    failed = result(START, error=ErrorCode.HTTP_5XX)
    assert place.persist(failed) == ["failed"]
    assert recorded(place) == ("failed", 1, at("2026-04-01T12:10Z"), "http_5xx", "h1", None)
    assert place.persist(failed) == ["failed"]
    assert recorded(place) == ("failed", 2, at("2026-04-01T12:20Z"), "http_5xx", "h1", None)
    assert place.persist(failed) == ["quarantined"]
    assert recorded(place) == ("quarantined", 3, None, "http_5xx", "h1", None)
    assert place.persist(result(START, OBSERVED)) == ["ok"]
    assert recorded(place) == ("ok", 0, None, None, "h1", None)


def test_a_window_that_was_not_tried_does_not_use_up_a_try(place: Place) -> None:
    for _ in range(5):
        assert place.persist(result(START, error=ErrorCode.BUDGET)) == ["failed"]
    assert recorded(place) == ("failed", 0, AS_OF, "budget", "h1", None)


def test_new_content_starts_counting_anew(place: Place) -> None:
    place.persist(result(START, error=ErrorCode.TIMEOUT), result(START, error=ErrorCode.TIMEOUT))
    assert place.persist(result(START, error=ErrorCode.TIMEOUT, input_hash="h2")) == ["failed"]
    assert recorded(place)[1] == 1


def test_empty_and_failed_are_different_and_costs_are_kept(place: Place) -> None:
    assert place.persist(result(START), result("2026-03-30T12:00Z", error=ErrorCode.REFUSED)) == ["empty", "failed"]
    with store.reading(place.home, place.settings) as con:
        assert ledger.spent(con) == ledger.Spent(2, 200, 20, 1.0)
        assert [one.start for one in ledger.failing(ledger.entries(con))] == [at("2026-03-30T12:00Z")]


def claim(place: Place, input_hash: str = "h1") -> None:
    with store.writing(place.home, place.settings) as con:
        ledger.claim(con, [(window(START), input_hash)], "fake", AS_OF)


def test_a_claim_marks_a_window_as_running_and_keeps_its_tries(place: Place) -> None:
    claim(place)
    assert recorded(place) == ("running", 0, None, None, "h1", at("2026-04-01T13:00Z"))
    place.persist(result(START, error=ErrorCode.TIMEOUT))
    claim(place)
    assert recorded(place)[:2] == ("running", 1)
    claim(place, "h2")
    assert recorded(place)[:2] == ("running", 0)


def test_a_claim_does_not_undo_what_another_run_has_just_finished(place: Place) -> None:
    place.persist(result(START, OBSERVED))
    claim(place)
    assert recorded(place)[0] == "ok"
    claim(place, "h2")
    assert recorded(place)[0] == "running"
