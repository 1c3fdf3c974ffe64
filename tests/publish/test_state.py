"""`state.json`: what sensors may know without opening a DuckDB file."""

from __future__ import annotations

import json
from datetime import timedelta

from place import AS_OF, Place, at, message, result

from subconscious_pipeline.extraction.types import ErrorCode
from subconscious_pipeline.publish.state import DueState, FailedState, read_state, state_age, write_state


def test_what_is_written_is_read_back(place: Place) -> None:
    place.jsonl("a.jsonl", message("door", "2026-03-30T07:00:00Z"), message("lock", "2026-03-30T13:00:00Z"))
    place.ingest()
    first, second = place.inputs()
    place.persist(result("2026-03-30T06:00Z", error=ErrorCode.TIMEOUT, input_hash=first.input_hash))
    written = write_state(place.home, place.settings, place.overview())
    assert read_state(place.home) == written
    assert (written.as_of, written.window_hours, written.status, written.watermark) == (AS_OF, 6, "degraded", at("2026-03-30T06:00Z"))
    assert written.due == [DueState(window="2026-03-30T12:00Z", input_hash=second.input_hash, tries=0)]
    assert written.failed == [
        FailedState(
            window="2026-03-30T06:00Z",
            status="failed",
            error_code="timeout",
            tries=1,
            input_hash=first.input_hash,
            next_try_at=at("2026-04-01T12:10Z"),
        )
    ]
    assert written.counts == {"ok": 0, "empty": 0, "failed": 1, "quarantined": 0, "due": 1}
    assert written.fingerprints == dict(place.warehouse("SELECT file_id, fingerprint FROM ingested_files"))
    assert len(written.fingerprints) == 1


def test_times_are_written_in_utc_with_z(place: Place) -> None:
    write_state(place.home, place.settings, place.overview())
    assert json.loads(place.home.state.read_text())["as_of"] == "2026-04-01T12:00:00Z"


def test_writing_leaves_nothing_else_behind(place: Place) -> None:
    for _ in range(2):
        write_state(place.home, place.settings, place.overview())
    assert [path.name for path in place.home.root.iterdir() if "state" in path.name] == ["state.json"]


def test_no_file_or_one_of_another_version_is_no_state(place: Place) -> None:
    assert read_state(place.home) is None
    place.home.state.write_text('{"version": 99}')
    assert read_state(place.home) is None
    place.home.state.write_text("{cut off")
    assert read_state(place.home) is None


def test_the_age_is_told_in_hours(place: Place) -> None:
    written = write_state(place.home, place.settings, place.overview())
    assert state_age(written, AS_OF + timedelta(minutes=90)) == 1.5
