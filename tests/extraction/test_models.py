import json
import subprocess
import sys

import pytest

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.hosted import HostedExtractor
from subconscious_pipeline.extraction.models import make_extractor
from subconscious_pipeline.extraction.replay import ReplayExtractor, reply_line
from subconscious_pipeline.settings import Settings

from .windows import concept, reply, small


@pytest.fixture
def replies(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text(json.dumps(reply_line(small("The boiler leaks"), reply(concept([1])))), encoding="utf-8")
    return path


def test_replay_alone_means_the_bundled_replies(replies):
    extractor = make_extractor(Settings(model="replay"), replies)
    assert isinstance(extractor, ReplayExtractor)
    assert extractor.extract(small("The boiler leaks"), lambda: False).status == "ok"


def test_replay_alone_without_bundled_replies_says_what_to_do():
    with pytest.raises(ConfigError, match="replay:PATH"):
        make_extractor(Settings(model="replay"))


def test_replay_with_a_path_means_that_file(replies, tmp_path):
    extractor = make_extractor(Settings(model=f"replay:{replies}"), tmp_path / "other.jsonl")
    assert extractor.model == f"replay:{replies}"
    assert extractor.extract(small("The boiler leaks"), lambda: False).status == "ok"


def test_a_provider_string_means_a_hosted_model():
    extractor = make_extractor(Settings(model="openai/fake", base_url="http://127.0.0.1:1/v1", concurrency=7))
    assert isinstance(extractor, HostedExtractor)
    assert (extractor.model, extractor.concurrency, extractor.remote) == ("openai/fake", 7, False)


@pytest.mark.parametrize("model", ["", "gpt-5-mini", "locale", "replays"])
def test_a_name_that_means_nothing_is_refused(model):
    with pytest.raises(ConfigError, match="is not a model"):
        make_extractor(Settings(model=model))


def test_small_questions_are_for_the_local_model():
    with pytest.raises(ConfigError, match="SUBCONSCIOUS_STRATEGY"):
        make_extractor(Settings(model="ollama/qwen3", strategy="by_conversation"))


def test_no_client_library_is_imported_before_its_model_is_asked_for(replies):
    program = (
        "import sys; from pathlib import Path; from subconscious_pipeline.extraction.models import make_extractor; "
        "from subconscious_pipeline.settings import Settings; make_extractor(Settings(model='replay'), Path(sys.argv[1])); "
        "print([name for name in ('openai', 'instructor', 'anthropic', 'xllamacpp', 'httpx', 'duckdb', 'dagster') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program, str(replies)], capture_output=True, text=True, check=True).stdout == "[]\n"
