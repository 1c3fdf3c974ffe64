import json

import pytest
from pydantic import ValidationError

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.replay import ReplayExtractor, reply_line
from subconscious_pipeline.extraction.types import ErrorCode, Usage

from .windows import WINDOW, concept, conversation, line, reply, small, transcript


def never() -> bool:
    return False


def recorded(tmp_path, *lines):
    path = tmp_path / "replies.jsonl"
    path.write_text("".join((entry if isinstance(entry, str) else json.dumps(entry)) + "\n" for entry in lines), encoding="utf-8")
    return path


def test_a_recorded_window_is_answered_and_always_the_same(tmp_path):
    window = small("The boiler leaks", "again")
    replay = ReplayExtractor(recorded(tmp_path, reply_line(window, reply(concept([1, 2])))))
    result = replay.extract(window, never)
    assert result.status == "ok"
    assert result.observations[0].words == ("boiler", "leak", "plumber")
    assert (result.model, result.usage) == ("replay", Usage(calls=1))
    assert replay.extract(window, never) == result
    assert replay.remote is False


def test_the_usage_of_the_recording_is_reported(tmp_path):
    window = small("The boiler leaks")
    entry = {**reply_line(window, reply(concept([1]))), "usage": {"calls": 2, "prompt_tokens": 300, "completion_tokens": 40, "seconds": 1.5}}
    assert ReplayExtractor(recorded(tmp_path, entry)).extract(window, never).usage == Usage(2, 300, 40, 1.5)


def test_an_unseen_prompt_fails_and_is_not_empty(tmp_path):
    replay = ReplayExtractor(recorded(tmp_path, reply_line(small("The boiler leaks"), reply(concept([1])))))
    result = replay.extract(small("The boiler leaks!"), never)
    assert (result.status, result.error_code, result.usage.calls) == ("failed", ErrorCode.UNSEEN, 0)


def test_a_recorded_empty_reply_is_empty(tmp_path):
    window = small("ha ha")
    result = ReplayExtractor(recorded(tmp_path, reply_line(window, reply()))).extract(window, never)
    assert (result.status, result.error_code) == ("empty", None)


def test_a_recorded_reply_that_breaks_the_rules_is_invalid(tmp_path):
    window = small("The boiler leaks")
    entry = {**reply_line(window, reply()), "reply": reply(concept([7]))}
    result = ReplayExtractor(recorded(tmp_path, entry)).extract(window, never)
    assert (result.status, result.error_code) == ("failed", ErrorCode.INVALID)


def test_a_window_of_several_calls_needs_a_reply_for_each(tmp_path):
    chats = [conversation(line(n, "boiler " * 900, ref=str(n)), title=str(n)) for n in (1, 2)]
    window = transcript(*chats)
    lines = [reply_line(transcript(chat), reply(concept([n]))) for n, chat in enumerate(chats, 1)]
    both = ReplayExtractor(recorded(tmp_path, *lines), context_tokens=2000).extract(window, never)
    assert [o.spans[0].source_ref for o in both.observations] == ["1", "2"]
    assert both.usage.calls == 2
    one = ReplayExtractor(recorded(tmp_path, lines[0]), context_tokens=2000).extract(window, never)
    assert (one.status, one.error_code, one.observations) == ("failed", ErrorCode.UNSEEN, ())


def test_shutdown_is_polled(tmp_path):
    window = small("The boiler leaks")
    replay = ReplayExtractor(recorded(tmp_path, reply_line(window, reply(concept([1])))))
    assert replay.extract(window, lambda: True).error_code is ErrorCode.CANCELLED


def test_a_line_to_record_holds_no_message_text_and_no_topic():
    entry = reply_line(small("The vault code is walrus"), reply(concept([1])))
    assert entry["window"] == WINDOW.key
    assert entry["reply"] == {"concepts": [{"lines": [1], "keywords": ["boiler", "leak", "plumber"], "kind": "incident", "ttl_days": 5}]}
    assert set(entry) == {"prompt_hash", "window", "reply"}
    assert "walrus" not in json.dumps(entry)


def test_only_a_reply_that_keeps_the_rules_is_recorded():
    with pytest.raises(ValidationError):
        reply_line(small("one"), reply(concept([2])))
    with pytest.raises(ValueError, match="2 calls"):
        reply_line(small("boiler " * 900, "boiler " * 900), reply(concept([1])), context_tokens=2000)


@pytest.mark.parametrize("bad", ["not json", "[]", '{"prompt_hash": "x"}', '{"prompt_hash": 1, "window": "w", "reply": {}}', "[" * 100_000])
def test_a_broken_file_is_named_with_its_line(tmp_path, bad):
    path = recorded(tmp_path, reply_line(small("one"), reply()), "", bad)
    with pytest.raises(ConfigError, match=r"replies\.jsonl line 3 is not a recorded reply"):
        ReplayExtractor(path)


def test_a_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot read recorded replies"):
        ReplayExtractor(tmp_path / "none.jsonl")
