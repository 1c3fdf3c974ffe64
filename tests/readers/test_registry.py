"""Which reader a path is for is judged by what is in it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from subconscious_pipeline.errors import ConfigError, SourceError
from subconscious_pipeline.readers import registry
from subconscious_pipeline.readers.base import MessageRecord, Reader, ReadError, ReadOptions

ROW = json.dumps({"source_type": "messaging", "source_ref": "g", "at": "2026-03-30T07:00:00Z", "text": "door"})
CHAT = "30/03/2026, 21:12 - Ana: the door\n30/03/2026, 21:13 - Ben: ok\n"
MAIL = "From: a@x\nTo: b@x\nSubject: s\nMessage-ID: <1@x>\nDate: Mon, 30 Mar 2026 09:00:00 +0200\n\ntext\n"
MBOX = f"From a@x Mon Mar 30 09:00:00 2026\n{MAIL}\n"
ICS = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260403T090000Z\r\nSUMMARY:x\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
DAY = json.dumps([{"type": "message", "user": "U1", "text": "door", "ts": "1774864800.000100"}])


def zipped(members: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "reader"),
    [
        (ROW, "jsonl"),
        (CHAT, "whatsapp"),
        (MAIL, "eml"),
        (MBOX, "mbox"),
        (ICS, "ics"),
        (zipped({"_chat.txt": CHAT}), "whatsapp"),
        (zipped({"users.json": "[]", "channels.json": "[]", "general/2026-03-30.json": DAY}), "slack"),
    ],
)
def test_the_content_decides_whatever_the_name_says(tmp_path: Path, content: str | bytes, reader: str) -> None:
    for name in ("export.bin", "chat.txt", "a.jsonl", "noextension"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        assert registry.choose(path).name == reader


def test_a_folder_of_channels_is_slack(tmp_path: Path) -> None:
    (tmp_path / "team" / "general").mkdir(parents=True)
    (tmp_path / "team" / "general" / "2026-03-30.json").write_text(DAY)
    assert registry.choose(tmp_path / "team").name == "slack"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty_file"),
        (bytes(range(256)) * 10, "binary"),
        (b"notes without any format\n", "unknown_format"),
        (zipped({"readme.md": "nothing"}), "unknown_format"),
        (zipped({"_chat.txt": CHAT * 30})[:-30], "truncated_archive"),
        (zipped({"_chat.txt": CHAT * 30})[:40], "truncated_archive"),
    ],
    ids=["empty", "binary", "text", "zip", "cut zip", "zip header"],
)
def test_what_no_reader_knows_is_said_with_the_next_step(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        list(registry.read(path, ReadOptions())[1])
    assert (caught.value.code, caught.value.path) == (code, str(path))
    assert caught.value.message.count(";") >= 1
    assert b"notes" not in caught.value.message.encode()


def test_a_missing_path_and_an_empty_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as missing:
        registry.choose(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError) as empty:
        registry.choose(tmp_path / "folder")
    assert (missing.value.code, empty.value.code) == ("missing", "empty_file")


def test_a_path_that_cannot_be_opened_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(ROW)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SourceError) as caught:
        registry.choose(path)
    assert caught.value.code == "unreadable"


def test_a_named_reader_is_taken_and_an_unknown_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(CHAT)
    assert registry.choose(path, "jsonl").name == "jsonl"
    with pytest.raises(ConfigError, match="slack, ics, mbox"):
        registry.choose(path, "telepathy")


def test_every_reader_keeps_the_protocol() -> None:
    for name in registry.NAMES:
        assert isinstance(registry.reader(name), Reader)
        assert registry.reader(name).name == name


class Fake:
    name = "fake"

    def __init__(self, *items: object, error: Exception | None = None) -> None:
        self.items, self.error = items, error

    def identify(self, path: Path, head: bytes) -> bool:
        return True

    def read(self, path: Path, options: ReadOptions) -> Iterator[object]:
        yield from self.items
        if self.error:
            raise self.error


def through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Fake) -> Iterator[object]:
    (tmp_path / "a").write_text("something")
    monkeypatch.setattr(registry, "choose", lambda path, name: fake)
    return registry.read(tmp_path / "a", ReadOptions())[1]


RECORD = MessageRecord(source_ref="g", sent_at=0, text="door")


@pytest.mark.parametrize("items", [(), (ReadError("file", "zone_assumed", "m", warning=True),)])
def test_a_file_that_yields_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, items: tuple[object, ...]) -> None:
    with pytest.raises(SourceError, match="no record at all"):
        list(through(tmp_path, monkeypatch, Fake(*items)))


def test_bad_items_alone_are_no_second_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = ReadError("line 1", "bad_json", "m")
    assert list(through(tmp_path, monkeypatch, Fake(bad))) == [bad]


def test_a_disk_that_fails_in_the_middle_leaves_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = through(tmp_path, monkeypatch, Fake(RECORD, error=OSError(5, "Input/output error")))
    assert next(items) == RECORD
    with pytest.raises(SourceError) as caught:
        next(items)
    assert caught.value.code == "unreadable"
