"""What makes the pipeline run without being asked: the sensor, the schedule, the automation condition. No store is opened here."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from subconscious_pipeline.definitions import defs
from subconscious_pipeline.defs.automation import late_data
from subconscious_pipeline.home import Home
from subconscious_pipeline.readers.sources import source_files
from subconscious_pipeline.settings import load_settings
from subconscious_pipeline.warehouse.ingest import fingerprint

from .world import row

RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("SUBCONSCIOUS_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home").create()


def state(home: Home, due: list[tuple[str, str, int]] = [], failed: list[tuple[str, str, str | None]] = []) -> None:  # noqa: B006
    """Write `state.json`: every file read; due windows as (window, hash, tries), failed ones as (window, status, next try)."""
    home.state.write_text(
        json.dumps(
            {
                "version": 1, "as_of": "2026-04-01T12:10:00Z", "window_hours": 6, "status": "ok", "watermark": "2026-04-01T12:00:00Z",
                "fingerprints": {file.file_id: fingerprint(file, load_settings()) for file in source_files(home, load_settings())},
                "due": [{"window": window, "input_hash": hashed, "tries": tries} for window, hashed, tries in due],
                "failed": [
                    {"window": window, "status": status, "error_code": "timeout", "tries": 1, "input_hash": "h", "next_try_at": at}
                    for window, status, at in failed
                ],
                "counts": {},
            }
        )
    )  # fmt: skip


def tick() -> dg.SensorEvaluationContext | Any:
    return late_data.evaluate_tick(dg.build_sensor_context(definitions=defs))


def requests() -> list[tuple[str | None, str | None, str | None]]:
    """Job and range of each request of one tick."""
    return [(request.job_name, request.tags.get(RANGE[0]), request.tags.get(RANGE[1])) for request in tick().run_requests]


def write(home: Home, text: str, seconds: int) -> None:
    path = home.sources / "chat.jsonl"
    path.write_text(row("2026-03-30T08:00:00Z", "house", text), encoding="utf-8")
    os.utime(path, (seconds, seconds))


def test_a_new_file_asks_for_one_ingest_whose_key_follows_its_content(home: Home) -> None:
    write(home, "one", 1_000)
    first = tick().run_requests
    assert [request.job_name for request in first] == ["ingest"]
    assert [request.run_key for request in tick().run_requests] == [first[0].run_key], "the same content asks under the same key"
    state(home)
    assert requests() == []
    write(home, "another", 2_000)
    second = tick().run_requests
    assert [request.job_name for request in second] == ["ingest"]
    assert second[0].run_key != first[0].run_key


def test_due_windows_ask_for_one_run_a_contiguous_range(home: Home) -> None:
    state(home, due=[("2026-03-30T06:00Z", "a", 0), ("2026-03-30T12:00Z", "b", 0), ("2026-03-31T06:00Z", "c", 1)])
    found = tick().run_requests
    assert [(request.job_name, request.tags[RANGE[0]], request.tags[RANGE[1]]) for request in found] == [
        ("index", "2026-03-30T06:00Z", "2026-03-30T12:00Z"),
        ("index", "2026-03-31T06:00Z", "2026-03-31T06:00Z"),
    ]
    assert [request.run_key.rpartition(":")[0] for request in found] == [
        "2026-03-30T06:00Z..2026-03-30T12:00Z",
        "2026-03-31T06:00Z..2026-03-31T06:00Z",
    ]


@pytest.mark.parametrize("other", [("2026-03-30T06:00Z", "b", 0), ("2026-03-30T06:00Z", "a", 1)], ids=["other content", "another try"])
def test_a_run_key_holds_content_and_number_of_the_try(home: Home, other: tuple[str, str, int]) -> None:
    state(home, due=[("2026-03-30T06:00Z", "a", 0)])
    [first] = tick().run_requests
    assert tick().run_requests[0].run_key == first.run_key
    state(home, due=[other])
    [second] = tick().run_requests
    assert second.run_key != first.run_key
    assert second.tags == first.tags


def test_a_failed_window_is_asked_for_once_its_wait_is_over(home: Home) -> None:
    now = datetime.now(UTC)
    state(home, failed=[("2026-03-30T06:00Z", "failed", (now + timedelta(hours=1)).isoformat())])
    assert requests() == []
    state(home, failed=[("2026-03-30T06:00Z", "failed", (now - timedelta(seconds=1)).isoformat())])
    assert requests() == [("index", "2026-03-30T06:00Z", "2026-03-30T06:00Z")]


def test_a_window_given_up_is_not_asked_for(home: Home) -> None:
    state(home, failed=[("2026-03-30T06:00Z", "quarantined", None)])
    assert requests() == []


def test_nothing_new_says_why_it_skips(home: Home) -> None:
    assert tick().skip_message == "nothing new; no run yet"
    state(home)
    assert tick().skip_message.startswith("nothing new; last run ")


def test_a_bad_sources_yaml_is_a_reason_to_skip_not_a_crash(home: Home) -> None:
    home.sources_yaml.write_text("sources: [{id: chat}]")
    result = tick()
    assert result.run_requests == []
    assert "entry 1: path: Field required" in result.skip_message


def test_a_bad_setting_is_a_reason_to_skip_not_a_crash(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBCONSCIOUS_LOOKBACK_DAYS", "soon")
    assert "SUBCONSCIOUS_LOOKBACK_DAYS" in tick().skip_message


def test_the_schedule_asks_for_the_window_that_has_just_closed() -> None:
    context = dg.build_schedule_context(scheduled_execution_time=datetime(2026, 4, 1, 12, 0, tzinfo=UTC))
    closed_window = defs.resolve_schedule_def("closed_window")
    [request] = closed_window.evaluate_tick(context).run_requests
    assert request.partition_key == "2026-04-01T06:00Z"
    assert closed_window.default_status is dg.DefaultScheduleStatus.RUNNING
    assert closed_window.cron_schedule == "0 */6 * * *"


def test_publication_follows_observations_and_nothing_else() -> None:
    published = {dg.AssetKey(name) for name in ("concepts", "keywords", "sources", "salience", "keyword_snapshot")}
    with dg.DagsterInstance.ephemeral() as storage:

        def evaluate(cursor: Any = None) -> Any:
            return dg.evaluate_automation_conditions(defs, storage, cursor=cursor)

        def requested(result: Any) -> set[dg.AssetKey]:
            return {key for key in published | {dg.AssetKey("observations"), dg.AssetKey("messages")} if result.get_num_requested(key)}

        first = evaluate()
        assert requested(first) == set()
        storage.report_runless_asset_event(dg.AssetMaterialization("messages", partition="2026-04-01T06:00Z"))
        second = evaluate(first.cursor)
        assert requested(second) == set()
        storage.report_runless_asset_event(dg.AssetMaterialization("observations", partition="2026-04-01T06:00Z"))
        third = evaluate(second.cursor)
        assert requested(third) == published
        assert requested(evaluate(third.cursor)) == set()
