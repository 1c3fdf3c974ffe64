"""Scores on literal labels and observations."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.evals.labelled import Tally, evaluate, read_labels, score, transcripts_from
from subconscious_pipeline.extraction.types import ErrorCode, Kind, Observation, Span, WindowResult
from subconscious_pipeline.warehouse.transcript import Transcript

BOILER = {
    "window": "boiler",
    "lines": [
        {"n": 1, "conversation": "chat: House", "at": "2026-03-30 10:00", "author": "Ana", "text": "the boiler leaks"},
        {"n": 2, "conversation": "chat: House", "at": "2026-03-30 10:01", "author": "Bo", "text": "lol"},
        {"n": 3, "conversation": "chat: House", "at": "2026-03-30 10:02", "author": "Ana", "text": "plumber at ten"},
        {"n": 4, "conversation": "email: Orchids", "at": "2026-03-30 11:00", "author": "x@example.org", "text": "your orchids came"},
        {"n": 5, "conversation": "calendar", "at": "2026-03-31 09:00", "author": "me", "text": "Dentist"},
    ],
    "gold": [
        {
            "lines": [1, 3],
            "optional_lines": [2],
            "kinds": ["incident"],
            "core": ["boiler", "leak|drip", "plumber|plumbing"],
            "also_right": ["house"],
        },
        {"lines": [4], "optional_lines": [], "kinds": ["appointment"], "core": ["orchid"], "also_right": []},
    ],
}
CHATTER = {
    "window": "chatter",
    "lines": [{"n": 1, "conversation": "chat: Bo", "at": "2026-03-30 20:00", "author": "Bo", "text": "lol"}],
    "gold": [],
}


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps([BOILER, CHATTER]))
    return path


def observed(words: str, start: str, end: str, ref: str = "chat: House", source_type: str = "messaging", kind: Kind = "incident") -> Observation:
    times = [datetime.fromisoformat(f"2026-03-30 {each}").replace(tzinfo=UTC) for each in (start, end)]
    return Observation(tuple(words.split()), kind, 5, times[1], date(2026, 4, 4), (Span(source_type, ref, times[0], times[1]),))


def test_a_perfect_answer_scores_one(labels: Path) -> None:
    window = read_labels(labels)[0]
    result = score(
        window,
        [
            observed("boilers dripping plumbing", "10:00", "10:02"),
            observed("orchids", "11:00", "11:00", "email: Orchids 4", "email", "appointment"),
        ],
    )
    assert (result.concepts, result.keywords) == (Tally(2, 2, 2, 2), Tally(4, 4, 4, 4))
    assert (result.lines, result.kinds) == (Tally(3, 3, 3, 3), Tally(2, 2, 2, 2))


def test_a_second_observation_of_a_matter_is_extra_and_its_words_are_judged_by_that_matter(labels: Path) -> None:
    window = read_labels(labels)[0]
    result = score(window, [observed("boiler orchid", "10:00", "10:00"), observed("plumber house", "10:02", "10:02")])
    assert result.concepts == Tally(right=1, given=2, found=1, wanted=2)
    assert result.keywords == Tally(right=3, given=4, found=2, wanted=4)
    assert result.lines == Tally(right=2, given=2, found=2, wanted=3)


def test_an_observation_of_unlabelled_lines_is_wrong_with_all_its_words(labels: Path) -> None:
    window = read_labels(labels)[0]
    result = score(window, [observed("boiler leak plumber", "09:00", "09:00", "calendar 5", "calendar")])
    assert (result.concepts.precision, result.concepts.recall) == (0, 0)
    assert (result.keywords.right, result.keywords.given) == (0, 3)


def test_an_observation_mostly_of_other_lines_is_about_no_matter(labels: Path) -> None:
    window = read_labels(labels)[1]
    assert score(window, [observed("lol haha hehe", "20:00", "20:00", "chat: Bo")]).concepts == Tally(0, 1, 0, 0)


def test_nothing_found_in_small_talk_is_right(labels: Path) -> None:
    result = score(read_labels(labels)[1], [])
    assert (result.concepts.precision, result.concepts.recall) == (1.0, 1.0)


def test_transcripts_keep_the_labelled_numbers_and_separate_sources(labels: Path) -> None:
    first, second = transcripts_from(labels)
    assert [(each.channel, each.title, [line.n for line in each.lines]) for each in first.conversations] == [
        ("chat", "House", [1, 2, 3]),
        ("email", "Orchids", [4]),
        ("calendar", "Dentist", [5]),
    ]
    assert first.conversations[0].lines[0].local == "2026-03-30 Mon 10:00 +00:00"
    assert (first.window.start, second.window.key) == (datetime(2026, 3, 30, 10, tzinfo=UTC), "2026-03-30T20:00Z")


@pytest.mark.parametrize("text", ["", "{}", '[{"window": 1}]'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="not a file of labelled windows"):
        read_labels(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_labels(tmp_path / "absent.json")


class Scripted:
    model, prompt_version, concurrency, remote = "scripted", "1", 1, False

    def extract(self, transcript: Transcript, stop: Callable[[], bool]) -> WindowResult:
        if transcript.input_hash == "boiler":
            return WindowResult(transcript.window, "ok", "h", "m", "1", observations=(observed("boiler leak plumber", "10:00", "10:02"),))
        return WindowResult(transcript.window, "failed", "h", "m", "1", error_code=ErrorCode.TIMEOUT)

    def close(self) -> None:
        raise AssertionError("the caller closes")


def test_evaluating_sums_windows_and_names_failed_ones(labels: Path) -> None:
    seen: list[str] = []
    report = evaluate(labels, Scripted(), lambda each: seen.append(each.window))
    assert seen == ["boiler", "chatter"]
    assert (report.model, report.failed) == ("scripted", ("chatter",))
    assert report.total.concepts == Tally(1, 1, 1, 2)
    assert report.total.keywords.recall == 0.75
