import itertools
import logging
import socket
import warnings
from datetime import UTC, date, datetime

import pytest

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction import prompt
from subconscious_pipeline.extraction.hosted import HostedExtractor, is_loopback
from subconscious_pipeline.extraction.types import ErrorCode, Observation, Span, Usage
from subconscious_pipeline.settings import Settings
from subconscious_pipeline.warehouse.transcript import render

from .fake_server import FakeServer, Request, Step, closes, good, refuses, says, status, truncated
from .windows import WINDOW, concept, conversation, line, reply, small, transcript

SECRET = "the vault code is tangerine walrus"


class Waits(list):
    """A sleep that only notes how long it was to take."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)


def extractor(url: str | None, model: str = "openai/fake", sleep=None, **knobs) -> HostedExtractor:
    clock = itertools.count(0.0, 2.5)
    return HostedExtractor(Settings(model=model, base_url=url, **knobs), clock=lambda: next(clock), sleep=sleep if sleep is not None else Waits())


def ask(server: FakeServer, window=None, stop=lambda: False, **knobs):
    asked = extractor(server.url, **knobs)
    try:
        return asked.extract(window or small("The boiler leaks", "again"), stop)
    finally:
        asked.close()


GOOD = reply(concept([1, 2]))


def test_a_good_reply_becomes_observations():
    with FakeServer([good(GOOD, prompt_tokens=321, completion_tokens=45)]) as server:
        result = ask(server)
    assert result.status == "ok"
    assert result.observations == (
        Observation(
            ("boiler", "leak", "plumber"),
            "incident",
            5,
            datetime(2026, 3, 30, 18, 2, tzinfo=UTC),
            date(2026, 4, 4),
            (Span("messaging", "family", datetime(2026, 3, 30, 18, 1, tzinfo=UTC), datetime(2026, 3, 30, 18, 2, tzinfo=UTC)),),
        ),
    )
    assert result.usage == Usage(calls=1, prompt_tokens=321, completion_tokens=45, seconds=2.5)
    assert (result.window, result.input_hash, result.model, result.prompt_version) == (
        WINDOW,
        f"hash-{WINDOW.key}",
        "openai/fake",
        prompt.PROMPT_VERSION,
    )
    assert result.error_code is None


def test_the_request_holds_the_prompt_the_schema_and_the_limit():
    window = small("The boiler leaks", "again")
    with FakeServer([good(GOOD)]) as server:
        ask(server, window, max_output_tokens=777)
        [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.messages == prompt.build(render(window.conversations))
    assert request.body["model"] == "fake"
    assert request.body["max_tokens"] == 777
    assert request.body["response_format"]["type"] == "json_schema"
    assert request.body["response_format"]["json_schema"]["schema"]["$defs"]["ReplyConcept"]["required"][0] == "topic"
    assert "tools" not in request.body


def test_no_concepts_is_empty_and_not_failed():
    with FakeServer([good({"concepts": []})]) as server:
        result = ask(server)
    assert (result.status, result.observations, result.error_code) == ("empty", (), None)


def test_message_text_is_never_rendered_as_a_template():
    text = "{{ 7*7 }} {% for x in range(3) %}ha{% endfor %} {{ config }} {# gone #} {{ undefined.attribute }}"
    bad = reply(concept([99]))
    with FakeServer([good(bad), good(GOOD)]) as server:
        assert ask(server, small(text, "two")).status == "ok"
        first, second = server.requests
    assert text in first.text
    assert first.text == second.text


def test_a_reply_that_breaks_the_rules_is_asked_again_with_what_to_fix():
    bad = reply({**concept([1, 9]), "keywords": ["today", "boiler", "12345"]})
    with FakeServer([good(bad), good(reply(concept([1, 9]))), good(GOOD)]) as server:
        result = ask(server)
        _, second, third = server.requests
    assert result.status == "ok"
    assert second.messages[:2] == server.requests[0].messages
    assert second.messages[2]["role"] == "assistant"
    assert "only 1 usable and different keywords (no use: number 1, 3)" in second.messages[3]["content"]
    assert "concept 1: 9" in third.messages[5]["content"]


def test_tokens_are_summed_over_all_calls_of_a_window_once():
    with FakeServer([good(reply(concept([9])), 100, 10), good(reply(concept([9])), 120, 12), good(GOOD, 140, 14)]) as server:
        assert ask(server).usage == Usage(calls=3, prompt_tokens=360, completion_tokens=36, seconds=2.5)


def test_tokens_reported_under_two_names_are_counted_once():
    step = good(GOOD, 100, 10)
    both = step.body.replace('"prompt_tokens": 100', '"prompt_tokens": 100, "input_tokens": 100, "output_tokens": 10')
    with FakeServer([Step(body=both)]) as server:
        assert ask(server).usage.tokens == 110


@pytest.mark.parametrize("text", ["", "Sure! Here are the concepts.", '{"concepts": [', "[1, 2]", "null", '{"answer": 1}'])
def test_bad_json_is_asked_again(text):
    with FakeServer([says(text), good(GOOD)]) as server:
        assert ask(server).status == "ok"
        assert len(server.requests) == 2


def test_a_reply_that_stays_bad_is_invalid_and_costs_what_it_cost():
    with FakeServer([says("no json")]) as server:
        result = ask(server, reasks=2)
        assert len(server.requests) == 3
    assert (result.status, result.error_code, result.observations) == ("failed", ErrorCode.INVALID, ())
    assert result.usage == Usage(calls=3, prompt_tokens=300, completion_tokens=30, seconds=2.5)


def test_no_reasks_means_one_call():
    with FakeServer([says("no json")]) as server:
        assert ask(server, reasks=0).error_code is ErrorCode.INVALID
        assert len(server.requests) == 1


def test_a_refusal_is_refused_and_not_asked_again():
    with FakeServer([refuses()]) as server:
        result = ask(server)
        assert len(server.requests) == 1
    assert (result.status, result.error_code) == ("failed", ErrorCode.REFUSED)
    assert result.usage.tokens == 105


def test_a_content_filter_is_a_refusal():
    with FakeServer([says("", finish="content_filter")]) as server:
        assert ask(server).error_code is ErrorCode.REFUSED
    with FakeServer([Step(400, '{"error": {"message": "flagged", "code": "content_filter"}}')]) as server:
        assert ask(server).error_code is ErrorCode.REFUSED


def test_a_truncated_reply_is_asked_once_more_in_two_halves():
    def script(request: Request) -> Step:
        if "[m1]" in request.text and "[m4]" in request.text:
            return truncated()
        return good(reply(concept([2] if "[m2]" in request.text else [4])))

    with FakeServer(script) as server:
        result = ask(server, small("one", "two", "three", "four"))
        assert [[f"[m{n}]" in request.text for n in range(1, 5)] for request in server.requests] == [
            [True, True, True, True],
            [True, True, False, False],
            [False, False, True, True],
        ]
    assert result.status == "ok"
    assert [observation.observed_at.minute for observation in result.observations] == [2, 4]
    assert result.usage == Usage(calls=3, prompt_tokens=300, completion_tokens=70, seconds=2.5)


def test_a_half_may_not_cite_lines_of_the_other():
    def script(request: Request) -> Step:
        return truncated() if "[m1]" in request.text and "[m2]" in request.text else good(reply(concept([1])))

    with FakeServer(script) as server:
        assert ask(server, small("one", "two"), reasks=0).error_code is ErrorCode.INVALID


def test_a_reply_that_stays_truncated_is_truncated():
    with FakeServer([truncated()]) as server:
        assert ask(server, small("one", "two", "three")).error_code is ErrorCode.TRUNCATED
        assert len(server.requests) == 2
    with FakeServer([truncated()]) as server:
        assert ask(server, small("only one line")).error_code is ErrorCode.TRUNCATED
        assert len(server.requests) == 1


def test_429_is_retried_after_the_time_the_server_names():
    waits = Waits()
    with FakeServer([status(429, retry_after="3"), good(GOOD)]) as server:
        result = ask(server, sleep=waits)
    assert result.status == "ok"
    assert sum(waits) == 3
    assert result.usage.calls == 2


def test_a_retry_after_of_hours_is_capped_at_a_minute():
    waits = Waits()
    with FakeServer([status(429, retry_after="7200"), good(GOOD)]) as server:
        assert ask(server, sleep=waits).status == "ok"
    assert sum(waits) == 60


@pytest.mark.parametrize(
    ("code", "error"), [(429, ErrorCode.HTTP_429), (500, ErrorCode.HTTP_5XX), (503, ErrorCode.HTTP_5XX), (408, ErrorCode.TIMEOUT)]
)
def test_an_http_error_that_stays_fails_after_the_retries(code, error):
    waits = Waits()
    with FakeServer([status(code)]) as server:
        result = ask(server, http_retries=2, sleep=waits)
        assert len(server.requests) == 3
    assert (result.status, result.error_code) == ("failed", error)
    assert sum(waits) == 3  # 1 + 2
    assert result.usage.calls == 3


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
def test_an_error_that_a_person_must_mend_is_not_retried(code):
    with FakeServer([status(code)]) as server:
        assert ask(server).error_code is ErrorCode.HTTP_4XX
        assert len(server.requests) == 1


def test_http_retries_and_reasks_are_counted_apart_and_a_reask_survives_an_error():
    with FakeServer([status(500), good(reply(concept([9]))), status(500), closes(), good(GOOD)]) as server:
        result = ask(server, http_retries=2, reasks=1)
        assert "concept 1: 9" in server.requests[-1].messages[3]["content"]
    assert (result.status, result.usage.calls) == ("ok", 5)


def test_a_connection_that_breaks_off_is_retried_then_unreachable():
    with FakeServer([closes(), good(GOOD)]) as server:
        assert ask(server).status == "ok"
    with FakeServer([closes()]) as server:
        assert ask(server, http_retries=1).error_code is ErrorCode.UNREACHABLE
        assert len(server.requests) == 2


def test_a_refused_connection_is_unreachable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        result = extractor(url, http_retries=1).extract(small("one"), lambda: False)
    assert (result.status, result.error_code, result.usage.calls) == ("failed", ErrorCode.UNREACHABLE, 2)


def test_a_silent_server_is_a_timeout():
    with FakeServer([good(GOOD, hold=True)]) as server:
        result = ask(server, timeout_seconds=0.2, http_retries=1)
        assert len(server.requests) == 2
    assert (result.error_code, result.usage.calls) == (ErrorCode.TIMEOUT, 2)


@pytest.mark.parametrize(
    "step",
    [
        Step(200, "<html>proxy login</html>", content_type="text/html"),
        Step(200, "not json at all"),
        Step(200, "{}"),
        Step(200, '{"choices": []}'),
        Step(200, "[]"),
    ],
)
def test_an_answer_that_is_no_chat_completion_is_invalid(step):
    with FakeServer([step]) as server:
        assert ask(server, reasks=1).error_code is ErrorCode.INVALID


def test_shutdown_ends_the_waiting_between_retries():
    stopped = []
    with FakeServer([status(429, retry_after="60")]) as server:
        result = ask(server, stop=lambda: bool(stopped), sleep=stopped.append)
        assert len(server.requests) == 1
    assert result.error_code is ErrorCode.CANCELLED
    assert stopped == [0.5]


def test_shutdown_before_the_first_call_asks_nothing():
    with FakeServer([good(GOOD)]) as server:
        result = ask(server, stop=lambda: True)
        assert server.requests == []
    assert (result.error_code, result.usage.calls) == (ErrorCode.CANCELLED, 0)


def test_a_long_window_takes_several_calls_and_one_failed_call_fails_it():
    long = transcript(*(conversation(line(n, "boiler " * 700, ref=str(n)), title=str(n)) for n in (1, 2, 3)))

    def script(request: Request) -> Step:
        return good(reply(concept([next(n for n in (1, 2, 3) if f"[m{n}]" in request.text)])))

    with FakeServer(script) as server:
        result = ask(server, long, context_tokens=2000)
        assert len(server.requests) == 3
    assert [observation.spans[0].source_ref for observation in result.observations] == ["1", "2", "3"]
    with FakeServer(lambda request: status(400) if "[m3]" in request.text else script(request)) as server:
        result = ask(server, long, context_tokens=2000)
    assert (result.status, result.error_code, result.observations, result.usage.calls) == ("failed", ErrorCode.HTTP_4XX, (), 3)


BAD_WAYS = [
    [says(SECRET)],
    [good(reply({**concept([1]), "keywords": SECRET.split(), "topic": SECRET, "kind": SECRET}))],
    [status(500, message=SECRET)],
    [status(400, message=SECRET)],
    [status(429, retry_after="0", message=SECRET)],
    [closes()],
    [truncated()],
    [refuses()],
    [Step(200, SECRET)],
    [Step(200, f'{{"choices": "{SECRET}"}}')],
    [good(reply(concept([1], words="boiler leak plumber")))],
]


@pytest.mark.parametrize("script", BAD_WAYS)
def test_no_text_of_a_message_or_a_reply_is_logged_warned_or_printed(script, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as warned, FakeServer(script) as server:
        warnings.simplefilter("always")
        result = ask(server, small(SECRET, "two"), reasks=1, http_retries=1)
    shown = caplog.text + repr([(record.msg, record.args, record.exc_info) for record in caplog.records]) + "".join(capfd.readouterr())
    shown += repr([str(warning.message) for warning in warned]) + repr(result)
    for word in ("tangerine", "vault", "walrus"):
        assert word not in shown


def test_a_failure_nobody_foresaw_is_internal_and_named_by_its_type(caplog):
    class Broken:
        def create(self, **_: object) -> None:
            raise LookupError(SECRET)

    asked = extractor("http://127.0.0.1:1/v1")
    asked._client = Broken()
    assert asked.extract(small(SECRET), lambda: False).error_code is ErrorCode.INTERNAL
    assert "LookupError" in caplog.text
    assert "tangerine" not in caplog.text


def test_a_debug_level_set_on_a_library_before_is_undone(caplog):
    for name in ("instructor.v2.retry", "openai._base_client", "httpcore.http11"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    caplog.set_level(logging.DEBUG)
    with FakeServer([says(SECRET)]) as server:
        ask(server, small(SECRET))
    assert [record.name for record in caplog.records if record.name.partition(".")[0] in ("instructor", "openai", "httpcore")] == []


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch):
    with FakeServer([good(GOOD)]) as server, FakeServer([status(500)]) as proxy:
        for variable in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.url.removesuffix("/v1"))
        for variable in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(variable, raising=False)
        assert ask(server).status == "ok"
        assert proxy.requests == []


def test_the_key_is_sent_when_there_is_one_and_not_needed_with_a_base_url(monkeypatch):
    with FakeServer([good(GOOD)]) as server:
        ask(server)
        monkeypatch.setenv("OPENAI_API_KEY", "k-test")
        ask(server)
        ask(server, model="ollama/qwen3")
        assert [request.headers["authorization"] for request in server.requests] == ["Bearer none", "Bearer k-test", "Bearer none"]


def test_ollama_is_asked_at_temperature_zero_by_its_own_name():
    with FakeServer([good(GOOD)]) as server:
        ask(server, model="ollama/qwen3:4b")
        [request] = server.requests
    assert (request.body["model"], request.body["temperature"]) == ("qwen3:4b", 0)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://localhost:11434/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://127.8.8.8/v1", True),
        ("http://192.168.1.5/v1", False),
        ("http://localhost.example.com/v1", False),
        ("https://api.openai.com/v1", False),
        ("", False),
    ],
)
def test_only_this_machine_is_not_remote(url, here):
    assert is_loopback(url) is here


def test_remote_says_where_messages_go(monkeypatch):
    assert extractor("http://127.0.0.1:1/v1").remote is False
    assert extractor(None, model="ollama/qwen3").remote is False
    assert extractor("http://gateway.example/v1", model="ollama/qwen3").remote is True
    monkeypatch.setenv("OPENAI_API_KEY", "k-test")
    assert extractor(None).remote is True
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert extractor(None).remote is False


def test_what_is_missing_is_said(monkeypatch):
    with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
        extractor(None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install anthropic"):
        extractor(None, model="anthropic/claude-sonnet-4-6")


@pytest.mark.parametrize("model", ["nosuch/model", "openai/", "/x"])
def test_a_model_nobody_knows_is_a_config_error(model, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k-test")
    with pytest.raises(ConfigError, match=r"model"):
        extractor(None, model=model)


def test_a_base_url_for_a_provider_without_one_is_a_config_error():
    with pytest.raises(ConfigError, match="SUBCONSCIOUS_BASE_URL"):
        extractor("http://127.0.0.1:1/v1", model="anthropic/claude-sonnet-4-6")
