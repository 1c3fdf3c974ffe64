"""Single mail files, folders of them, Maildirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.readers.base import EmailRecord, Item, ReadError, ReadOptions
from subconscious_pipeline.readers.eml import READER

MAIL = b"From: a@x.example\nTo: b@x.example\nSubject: %s\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nMessage-ID: <%s@x>\n\nHello\n"


def put(path: Path, name: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(MAIL % (name, name))


def refs(items: list[Item]) -> list[str]:
    return [item.source_ref for item in items if isinstance(item, EmailRecord)]


def test_one_file_is_one_mail(tmp_path: Path) -> None:
    put(tmp_path / "a.eml", b"one")
    head = (tmp_path / "a.eml").read_bytes()
    assert READER.identify(tmp_path / "a.eml", head)
    assert refs(list(READER.read(tmp_path / "a.eml", ReadOptions()))) == ["one@x"]


def test_a_folder_is_read_in_order_and_a_bad_file_costs_only_itself(tmp_path: Path) -> None:
    put(tmp_path / "b.eml", b"two")
    put(tmp_path / "sub" / "c.EML", b"three")
    put(tmp_path / "a.eml", b"one")
    (tmp_path / "aa.eml").write_bytes(b"\x00\x01 not a mail")
    (tmp_path / "ab.eml").write_bytes(b"")
    (tmp_path / "note.txt").write_text("ignored")
    assert READER.identify(tmp_path, b"")
    items = list(READER.read(tmp_path, ReadOptions()))
    assert refs(items) == ["one@x", "two@x", "three@x"]
    assert [(item.locator, item.code) for item in items if isinstance(item, ReadError)] == [("aa.eml", "not_a_mail"), ("ab.eml", "empty_file")]


def test_a_maildir_is_read_with_its_subfolders(tmp_path: Path) -> None:
    for box in ("cur", "new", "tmp", ".Sent/cur", ".Sent/new"):
        (tmp_path / box).mkdir(parents=True)
    put(tmp_path / "cur" / "1700000000.M1.host:2,S", b"one")
    put(tmp_path / "new" / "1700000001.M1.host", b"two")
    put(tmp_path / "tmp" / "1700000002.M1.host", b"unfinished")
    put(tmp_path / ".Sent" / "cur" / "1700000003.M1.host:2,S", b"three")
    assert READER.identify(tmp_path, b"")
    assert refs(list(READER.read(tmp_path, ReadOptions()))) == ["one@x", "two@x", "three@x"]


def test_reply_and_subject_edit_report_the_same_parent_whatever_the_order(tmp_path: Path) -> None:
    put(tmp_path / "1.eml", b"A")
    (tmp_path / "0.eml").write_bytes(b"Subject: quite another\nMessage-ID: <B@x>\nIn-Reply-To: <A@x>\n\nyes\n")
    first, second = READER.read(tmp_path, ReadOptions())
    assert isinstance(first, EmailRecord)
    assert isinstance(second, EmailRecord)
    assert (first.source_ref, first.references) == ("B@x", ("A@x",))
    assert (second.source_ref, second.references) == ("A@x", ())


@pytest.mark.parametrize("content", [b"", b"just text\n", b"\x89PNG\r\n"])
def test_a_file_that_is_no_mail_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.eml").write_bytes(content)
    with pytest.raises(SourceError):
        list(READER.read(tmp_path / "a.eml", ReadOptions()))


def test_identify_refuses_what_only_looks_like_headers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert READER.identify(path, b"Return-Path: <a@x>\r\nReceived: by b;\r\n Mon\r\nX-A: b\r\n\r\nbody")
    assert not READER.identify(path, b"note: buy milk\nfrom: me\n")
    assert not READER.identify(path, b"From a@x Mon Jan  1 10:00:00 2024\nSubject: s\nFrom: a@x\n")
    assert not READER.identify(path, b"BEGIN:VCALENDAR\nVERSION:2.0\n")
    assert not READER.identify(path, b'{"from": 1}')
    assert not READER.identify(tmp_path, b"")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no message"):
        list(READER.read(tmp_path, ReadOptions()))
