"""The jsonl door: one object a line, every bad line set aside with its number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.readers.base import MessageRecord, ReadError, ReadOptions
from subconscious_pipeline.readers.jsonl import READER

MADRID = ReadOptions(zone=ZoneInfo("Europe/Madrid"), zone_configured=True)


def row(**more: Any) -> dict[str, Any]:
    return {"source_type": "ticket", "source_ref": "T-1", "at": "2024-06-20T20:28:00Z", "text": "a", **more}


def read(tmp_path: Path, content: bytes | list[dict[str, Any]], options: ReadOptions = MADRID) -> tuple[list[MessageRecord], list[ReadError]]:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else "".join(json.dumps(item) + "\n" for item in content).encode())
    found = list(READER.read(path, options))
    return [item for item in found if isinstance(item, MessageRecord)], [item for item in found if isinstance(item, ReadError)]


def test_every_field(tmp_path: Path) -> None:
    full = row(native_id="n1", author="Ana", kind="comment", thread_id="t1", end_at="2024-06-20T21:28:00Z", title="Lock", other=[1])
    assert read(tmp_path, [full]) == (
        [
            MessageRecord(
                source_ref="T-1",
                sent_at=1_718_915_280_000_000,
                text="a",
                native_id="n1",
                thread_id="t1",
                author="Ana",
                kind="comment",
                tz_source="explicit",
                end_at=1_718_918_880_000_000,
                title="Lock",
                source_type="ticket",
            )
        ],
        [],
    )


@pytest.mark.parametrize(
    ("at", "micros", "tz_source"),
    [
        ("2024-06-20T20:28:00Z", 1_718_915_280_000_000, "explicit"),
        ("2024-06-20T22:28:00.5+02:00", 1_718_915_280_500_000, "explicit"),
        ("2024-06-20T22:28:00", 1_718_915_280_000_000, "config"),
        ("2024-06-20 22:28", 1_718_915_280_000_000, "config"),
        ("2024-06-20", 1_718_834_400_000_000, "config"),
        (1718915280, 1_718_915_280_000_000, "unixtime"),
        (1718915280.25, 1_718_915_280_250_000, "unixtime"),
        (1718915280000, 1_718_915_280_000_000, "unixtime"),
        (-1, -1_000_000, "unixtime"),
    ],
)
def test_times(tmp_path: Path, at: str | float, micros: int, tz_source: str) -> None:
    messages, errors = read(tmp_path, [row(at=at)])
    assert [(m.sent_at, m.tz_source) for m in messages] == [(micros, tz_source)]
    assert errors == []


def test_an_assumed_zone_is_said_once(tmp_path: Path) -> None:
    messages, errors = read(tmp_path, [row(at="2024-06-20T22:28:00"), row(at="2024-06-20T22:29:00")], ReadOptions())
    assert [m.tz_source for m in messages] == ["floating", "floating"]
    assert [(e.code, e.warning) for e in errors] == [("zone_assumed", True)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", "bad_json"),
        (b'{"source_type": "ticket", "sou', "bad_json"),
        (b'{"a":' * 100_000, "bad_json"),
        (b"\0\0\0\0", "bad_json"),
        (b"[1, 2]", "not_an_object"),
        (b"7", "not_an_object"),
        (b'{"source_type": "ticket", "at": "2024-06-20T20:28:00Z", "text": "secret"}', "missing_field"),
        (b'{"source_type": "ticket", "source_ref": "T-1", "text": "secret"}', "undated"),
        (json.dumps(row(at=None)).encode(), "undated"),
        (json.dumps(row(at="")).encode(), "undated"),
        (json.dumps(row(at="yesterday")).encode(), "undated"),
        (json.dumps(row(at=10**15)).encode(), "undated"),
        (json.dumps(row(at=10**400)).encode(), "undated"),
        (json.dumps(row(at="0001-01-01T00:00:00+14:00")).encode(), "undated"),
        (json.dumps(row(end_at="later")).encode(), "undated"),
        (json.dumps(row(at=True)).encode(), "wrong_type"),
        (json.dumps(row(text=["secret"])).encode(), "wrong_type"),
        (json.dumps(row(author={"name": "secret"})).encode(), "wrong_type"),
        (json.dumps(row(source_ref="")).encode(), "empty_field"),
        (json.dumps(row()).encode().replace(b'"a"', b'"caf\xe9"'), "invalid_utf8"),
    ],
)
def test_a_bad_line_is_quarantined_with_its_number(tmp_path: Path, line: bytes, code: str) -> None:
    good = json.dumps(row()).encode()
    messages, errors = read(tmp_path, b"\n".join([good, b"", line, good]))
    assert len(messages) == 2
    assert [(e.locator, e.code, e.warning) for e in errors] == [("line 3", code, False)]
    assert "secret" not in errors[0].message
    assert len(errors[0].excerpt) <= 200


def test_what_is_odd_but_harmless(tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbf" + json.dumps(row(text="bom")).encode() + b"\r",
        b'{"text": "first", "source_type": "ticket", "source_ref": "T-1", "at": 1718915280, "text": "doubled"}',
        b"\0\0" + json.dumps(row(text="nul before")).encode(),
        json.dumps(row(text="nul\0inside")).encode(),
        b'{"text": "half \\ud83d", "source_type": "ticket", "source_ref": "T-1", "at": 1718915280}',
        json.dumps(row(text="number ids", native_id=7, thread_id=8)).encode(),
        b"   ",
    ]
    messages, errors = read(tmp_path, b"\n".join(lines))
    assert [m.text for m in messages] == ["bom", "doubled", "nul before", "nulinside", "half ?", "number ids"]
    assert (messages[5].native_id, messages[5].thread_id) == ("7", "8")
    assert errors == []


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (json.dumps(row()).encode(), True),
        (b"\n\ngarbage\n{\n" + json.dumps(row()).encode() + b"\n", True),
        (b'{"at": 1, "text": "x"}\n', True),
        (b'{"at": 1, "message": "x"}\n', False),
        (b'[{"at": 1, "text": "x"}]\n', False),
        (b"", False),
        (b"\n \n", False),
        (b"\0\1\2\xff" * 30, False),
        (b"20/06/24, 20:28 - Ana: a\n", False),
        ((json.dumps(row(text="x" * 70_000))).encode()[:65_536], True),
    ],
)
def test_recognized_by_its_keys(tmp_path: Path, head: bytes, expected: bool) -> None:
    path = tmp_path / "rows"
    path.write_bytes(head)
    assert READER.identify(path, head) is expected


def test_a_folder_is_no_jsonl(tmp_path: Path) -> None:
    assert not READER.identify(tmp_path, b"")


_GOOD = st.builds(lambda text, at: json.dumps(row(text=text, at=at)).encode(), st.text(max_size=20), st.integers(0, 2_000_000_000))
_GARBAGE = st.one_of(
    st.binary(min_size=1, max_size=30).filter(lambda raw: b"\n" not in raw and raw.strip() and not raw.startswith(b"\xef\xbb\xbf")),
    st.sampled_from([b"{}", b"[]", b"null", b'{"at": 1}', json.dumps(row(at="x")).encode(), json.dumps(row())[:-2].encode()]),
)


@settings(max_examples=80, deadline=None)
@given(lines=st.lists(st.one_of(_GOOD.map(lambda raw: (True, raw)), _GARBAGE.map(lambda raw: (False, raw))), max_size=12))
def test_parsed_and_quarantined_make_the_input(tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[bool, bytes]]) -> None:
    messages, errors = read(tmp_path_factory.mktemp("rows"), b"\n".join(raw for _, raw in lines))
    assert len(messages) == sum(good for good, _ in lines)
    assert [e.locator for e in errors] == [f"line {number}" for number, (good, _) in enumerate(lines, start=1) if not good]
