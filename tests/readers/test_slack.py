"""Slack exports: folder and zip, names, threads, bots, markup, and what is wrong with single elements or files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.readers.base import MessageRecord, ReadError, ReadOptions
from subconscious_pipeline.readers.slack import READER

DAY = "general/2024-01-01.json"
USERS = [
    {"id": "U1", "name": "ana.r", "real_name": "Ana Real", "profile": {"display_name": "ana", "real_name": "Ana Real"}},
    {"id": "U2", "name": "bo.s", "profile": {"display_name": "", "real_name": "Bo Real"}},
    {"id": "U3", "name": "cy.t"},
    {"id": "U9", "name": "helper", "is_bot": True, "profile": {"display_name": "Helper"}},
]


def message(text: str = "a", ts: str = "1700000002.000100", **more: Any) -> dict[str, Any]:
    return {"type": "message", "user": "U1", "text": text, "ts": ts, **more}


def export(root: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return root


def read(path: Path) -> tuple[list[MessageRecord], list[ReadError]]:
    found = list(READER.read(path, ReadOptions()))
    return [item for item in found if isinstance(item, MessageRecord)], [item for item in found if isinstance(item, ReadError)]


def one(tmp_path: Path, row: dict[str, Any], **files: Any) -> MessageRecord:
    messages, errors = read(export(tmp_path, {DAY: [row], **{f"{name}.json": content for name, content in files.items()}}))
    assert [error for error in errors if not error.warning] == []
    (record,) = messages
    return record


def test_a_message_whole(tmp_path: Path) -> None:
    channels = [{"id": "C1", "name": "general", "members": ["U1"]}]
    assert one(tmp_path, message("hi", edited={"user": "U1", "ts": "1700000050.000000"}), users=USERS, channels=channels) == MessageRecord(
        source_ref="C1",
        sent_at=1_700_000_002_000_100,
        text="hi",
        native_id="1700000002.000100",
        author="ana",
        author_id="U1",
        tz_source="unixtime",
        edited_at=1_700_000_050_000_000,
        title="general",
    )


def test_without_metadata_folder_and_ids_stand_in(tmp_path: Path) -> None:
    record = one(tmp_path, message())
    assert (record.source_ref, record.title, record.author, record.author_id) == ("general", "general", "U1", "U1")


@pytest.mark.parametrize(("user", "name"), [("U1", "ana"), ("U2", "Bo Real"), ("U3", "cy.t"), ("U4", "U4")])
def test_author_is_display_name_else_real_name_else_user_name_else_id(tmp_path: Path, user: str, name: str) -> None:
    assert one(tmp_path, message(user=user), users=USERS).author == name


def test_author_from_the_profile_in_the_row(tmp_path: Path) -> None:
    assert one(tmp_path, message(user_profile={"display_name": "", "real_name": "Ana Own", "name": "ana"})).author == "Ana Own"


def test_direct_messages_are_titled_by_their_members(tmp_path: Path) -> None:
    root = export(
        tmp_path,
        {
            "users.json": USERS,
            "dms.json": [{"id": "D1", "members": ["U1", "U2"]}],
            "mpims.json": [{"id": "G1", "name": "mpdm-ana--bo--cy-1", "members": ["U1", "U2", "U3"]}],
            "groups.json": [{"id": "G2", "name": "secret", "members": ["U1"]}],
            "D1/2024-01-01.json": [message()],
            "mpdm-ana--bo--cy-1/2024-01-01.json": [message()],
            "secret/2024-01-01.json": [message()],
        },
    )
    assert [(m.source_ref, m.title) for m in read(root)[0]] == [("D1", "ana, Bo Real"), ("G1", "ana, Bo Real, cy.t"), ("G2", "secret")]


def test_bot_row_without_user(tmp_path: Path) -> None:
    # the100rabh/Slack-Export-JSON-to-CSV#2
    row = {"type": "message", "subtype": "bot_message", "bot_id": "B01", "username": "deploys", "text": "done", "ts": "1700000001.0"}
    record = one(tmp_path, row)
    assert (record.author_id, record.author, record.is_bot, record.kind, record.sent_at) == ("B01", "deploys", True, "text", 1_700_000_001_000_000)


def test_who_is_a_bot(tmp_path: Path) -> None:
    rows = [
        message(user="U9"),
        message(user="U8", bot_id="B1", bot_profile={"name": "CI"}),
        message(user="USLACKBOT"),
        message(user="U1", bot_id="B2"),  # a person who posts through an app
        message(user="U1"),
    ]
    messages, _ = read(export(tmp_path, {"users.json": USERS, DAY: rows}))
    assert [(m.author, m.is_bot) for m in messages] == [("Helper", True), ("CI", True), ("USLACKBOT", True), ("ana", False), ("ana", False)]


def test_elements_without_time_are_quarantined_with_file_and_index(tmp_path: Path) -> None:
    # pR0Ps/slack-to-discord#28
    rows = [message("a"), {"id": "F1", "title": "Canvas"}, 7, message("b", ts="soon"), message("c") | {"text": ["x"]}, message("d")]
    messages, errors = read(export(tmp_path, {DAY: rows}))
    assert [m.text for m in messages] == ["a", "d"]
    assert [(e.locator, e.code, e.warning) for e in errors] == [
        (f"{DAY}[1]", "no_timestamp", False),
        (f"{DAY}[2]", "not_an_object", False),
        (f"{DAY}[3]", "no_timestamp", False),
        (f"{DAY}[4]", "wrong_type", False),
    ]


def test_bad_time_alone_does_not_cost_its_neighbours(tmp_path: Path) -> None:
    messages, errors = read(export(tmp_path, {DAY: [message("a"), message("b", ts="x"), message("c", ts="-1.0"), message("d")]}))
    assert [m.text for m in messages] == ["a", "d"]
    assert [e.locator for e in errors] == [f"{DAY}[1]", f"{DAY}[2]"]


def test_numeric_times(tmp_path: Path) -> None:
    record = one(tmp_path, message() | {"ts": 1700000001.5})
    assert (record.native_id, record.sent_at) == ("1700000001.500000", 1_700_000_001_500_000)


def test_a_cut_off_day_file_keeps_what_stands_before_the_break(tmp_path: Path) -> None:
    whole = json.dumps([message("a"), message("b"), message("c")]).encode()
    root = export(
        tmp_path, {DAY: whole[:-20], "general/2024-01-02.json": [message("d")], "general/2024-01-03.json": b"", "general/2024-01-04.json": {}}
    )
    messages, errors = read(root)
    assert [m.text for m in messages] == ["a", "b", "d"]
    assert [(e.locator, e.code) for e in errors] == [
        (f"{DAY}[2]", "bad_json"),
        ("general/2024-01-03.json", "empty_file"),
        ("general/2024-01-04.json", "not_a_list"),
    ]


def test_halves_of_surrogate_pairs_and_foreign_bytes_cost_only_themselves(tmp_path: Path) -> None:
    half = b'[{"type":"message","user":"U1","text":"cut \\ud83d","ts":"1700000001.000000"},{"text":"ok","ts":"1700000002.000000"}]'
    foreign = b'[{"type":"message","user":"U1","text":"caf\xe9","ts":"1700000003.000000"}]'
    messages, errors = read(export(tmp_path, {DAY: half, "general/2024-01-02.json": foreign}))
    assert [m.text for m in messages] == ["cut ?", "ok", "caf\ufffd"]
    assert [(e.locator, e.code, e.warning) for e in errors] == [("general/2024-01-02.json", "invalid_utf8", True)]


def test_thread_broadcast_is_an_ordinary_message_of_its_thread(tmp_path: Path) -> None:
    # docmarionum1/slack-archive-bot#32
    root = {"ts": "1700000000.0"}
    row = message("for all", ts="1700000004.0", subtype="thread_broadcast", thread_ts="1700000000.0", root=root)
    record = one(tmp_path, row)
    assert (record.kind, record.text, record.thread_id) == ("text", "for all", "1700000000.0")


def test_a_reply_in_another_day_file_belongs_to_the_thread(tmp_path: Path) -> None:
    # hfaran/slack-export-viewer#147
    root, reply = message("root", ts="1704067200.000100"), message("reply", ts="1704240000.000100", thread_ts="1704067200.000100")
    messages, errors = read(export(tmp_path, {DAY: [root], "general/2024-01-03.json": [reply]}))
    assert [(m.text, m.native_id, m.thread_id) for m in messages] == [
        ("root", "1704067200.000100", None),
        ("reply", "1704240000.000100", "1704067200.000100"),
    ]
    assert errors == []


def test_a_lost_root_leaves_the_thread_and_is_flagged(tmp_path: Path) -> None:
    reply = message("reply", ts="1704240000.000100", thread_ts="1704067200.000100")
    messages, errors = read(export(tmp_path, {DAY: [reply]}))
    assert [m.thread_id for m in messages] == ["1704067200.000100"]
    assert [(e.locator, e.code, e.warning) for e in errors] == [("general", "thread_root_missing", True)]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"ok": True, "members": []}, 'an object whose list "members" is empty'),
        ({"ok": True}, 'an object without a list "members"'),
        ([], "an empty list"),
        (b"{", "something that is not valid JSON"),
        ([{"name": "x"}], "1 of 1 entries without a usable id"),
    ],
)
def test_a_useless_users_file_is_named_with_what_was_found_and_wanted(tmp_path: Path, content: Any, found: str) -> None:
    # nicklamont/slack-chat-migrator#52
    messages, errors = read(export(tmp_path, {"users.json": content, DAY: [message()]}))
    assert [(m.text, m.author) for m in messages] == [("a", "U1")]
    (error,) = errors
    assert (error.locator, error.code, error.warning) == ("users.json", "bad_metadata", True)
    assert error.message.startswith(f"users.json: found {found}, wanted a list of objects with")


def test_users_in_the_shape_of_the_web_api(tmp_path: Path) -> None:
    assert one(tmp_path, message(), users={"ok": True, "members": USERS}).author == "ana"


def test_tokens_in_urls_are_redacted_wherever_they_stand(tmp_path: Path) -> None:
    url = "https://files.slack.com/files-pri/T1-F1/x.pdf?t=xoxe-123-456-abc"
    rows = [message(f"see <{url}>"), message(f"see {url}&v=1"), message("", attachments=[{"text": url}]), {"id": "F1", "url_private": url}]
    messages, errors = read(export(tmp_path, {DAY: rows}))
    assert [m.text for m in messages] == [
        "see https://files.slack.com/files-pri/T1-F1/x.pdf?t=[redacted]",
        "see https://files.slack.com/files-pri/T1-F1/x.pdf?t=[redacted]&v=1",
        "https://files.slack.com/files-pri/T1-F1/x.pdf?t=[redacted]",
    ]
    assert len(errors) == 1
    assert "xoxe" not in errors[0].excerpt


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@U1> and <@U7|zed> and <@U8>", "@ana and @zed and @U8"),
        ("<#C1|general> and <#C2> and <#C3>", "#general and #plans and #C3"),
        ("<!here> <!channel> <!subteam^S1|@crew> <!date^1700000000^{date}|14 Nov>", "@here @channel @crew 14 Nov"),
        ("<https://example.org/a?b=1&amp;c=2|the plan>", "the plan (https://example.org/a?b=1&c=2)"),
        ("<https://example.org/a> <http://example.org|example.org>", "https://example.org/a http://example.org"),
        ("<mailto:a@example.org|a@example.org>", "a@example.org"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2, &amp;lt; stays", "1 < 2 && 3 > 2, &lt; stays"),
        ("plain :smile: <|x> <>", "plain :smile: <|x> <>"),
    ],
)
def test_markup_becomes_plain_text(tmp_path: Path, text: str, shown: str) -> None:
    channels = [{"id": "C1", "name": "general"}, {"id": "C2", "name": "plans"}]
    assert one(tmp_path, message(text), users=USERS, channels=channels).text == shown


def test_text_of_blocks_where_the_row_has_none(tmp_path: Path) -> None:
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Build <main>"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "by <@U1>"}, "fields": [{"type": "mrkdwn", "text": "*Took* 3 min"}]},
        {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Retry"}}]},
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "a < b "}, {"type": "user", "user_id": "U2"}]}],
        },
    ]
    assert one(tmp_path, message("", blocks=blocks), users=USERS).text == "Build <main>\nby @ana\n*Took* 3 min\na < b @Bo Real"


def test_text_of_attachments_where_the_row_has_none(tmp_path: Path) -> None:
    attachments = [{"pretext": "New ticket", "title": "Lock", "fields": [{"title": "Status", "value": "open"}]}, {"fallback": "second"}]
    assert one(tmp_path, message("", attachments=attachments, blocks=[])).text == "New ticket\nLock\nStatus open\nsecond"


@pytest.mark.parametrize(
    ("more", "kind", "text"),
    [
        ({"subtype": "channel_join", "text": "<@U1> has joined the channel"}, "system", "@ana has joined the channel"),
        ({"subtype": "channel_leave", "text": "x"}, "system", "x"),
        ({"subtype": "channel_topic", "text": "x"}, "system", "x"),
        ({"subtype": "message_changed", "text": ""}, "system", ""),
        ({"subtype": "message_deleted", "text": ""}, "deleted", ""),
        ({"subtype": "tombstone", "text": "This message was deleted."}, "deleted", ""),
        ({"subtype": "huddle_thread", "text": ""}, "call", ""),
        ({"subtype": "me_message", "text": "waves"}, "text", "waves"),
        ({"subtype": "not_known_yet", "text": "x"}, "text", "x"),
        ({"text": "", "files": [{"id": "F1", "name": "x.png"}]}, "media", ""),
        ({"text": "the lease", "files": [{"id": "F1", "name": "x.png"}]}, "text", "the lease"),
        ({"text": "", "files": []}, "text", ""),
        ({"type": "canvas", "text": "x"}, "system", "x"),
    ],
)
def test_kinds(tmp_path: Path, more: dict[str, Any], kind: str, text: str) -> None:
    record = one(tmp_path, message() | more, users=USERS)
    assert (record.kind, record.text) == (kind, text)


@pytest.mark.parametrize("top", ["", "Acme export Jan 1 2024/"])
@pytest.mark.parametrize("zipped", [False, True])
def test_folder_and_zip_with_and_without_an_enclosing_folder(tmp_path: Path, top: str, zipped: bool) -> None:
    files = {f"{top}users.json": USERS, f"{top}channels.json": [{"id": "C1", "name": "general"}], top + DAY: [message()]}
    if zipped:
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, json.dumps(content))
            archive.writestr(f"__MACOSX/{top}general/._2024-01-01.json", b"\0")
    else:
        path = export(tmp_path / "export", files)
    assert READER.identify(path, path.read_bytes() if zipped else b"")
    messages, errors = read(path)
    assert [(m.source_ref, m.author, m.text) for m in messages] == [("C1", "ana", "a")]
    assert errors == []


def test_a_damaged_member_of_a_zip_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(DAY, json.dumps([message("findme")]))
        archive.writestr("general/2024-01-02.json", json.dumps([message("b")]))
    path.write_bytes(path.read_bytes().replace(b"findme", b"broken"))
    messages, errors = read(path)
    assert [m.text for m in messages] == ["b"]
    assert [(e.locator, e.code) for e in errors] == [(DAY, "damaged_member")]


def test_a_cut_off_zip_is_recognized_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(DAY, json.dumps([message("a" * 100)]))
    path.write_bytes(path.read_bytes()[:150])
    assert READER.identify(path, path.read_bytes())
    with pytest.raises(SourceError) as raised:
        read(path)
    assert raised.value.code == "truncated_archive"


def test_an_export_without_day_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as raised:
        read(export(tmp_path, {"users.json": USERS, "channels.json": []}))
    assert raised.value.code == "no_messages"


def test_other_paths_are_no_slack_exports(tmp_path: Path) -> None:
    export(tmp_path, {"notes/a.txt": b"x", "data/2024-01-01.json": {"a": 1}})
    assert not READER.identify(tmp_path, b"")
    for head in (b"", b"\0\1", b"[]", b"PK\x03\x04"):
        (tmp_path / "file").write_bytes(head)
        assert not READER.identify(tmp_path / "file", head)


_GARBAGE = st.sampled_from(
    [None, 7, "x", [], {}, {"ts": None}, {"ts": "abc"}, {"ts": {}}, {"ts": "1.0", "text": 5}, {"ts": "1.0", "files": 3, "user": []}]
)
_GOOD = st.builds(lambda text, micros: message(text, ts=f"17000000{micros % 100:02}.{micros:06}"), st.text(max_size=20), st.integers(0, 999_999))


@settings(max_examples=60, deadline=None)
@given(days=st.lists(st.lists(st.one_of(_GOOD, _GOOD, _GARBAGE), max_size=8), min_size=1, max_size=3))
def test_parsed_and_quarantined_make_the_input(tmp_path_factory: pytest.TempPathFactory, days: list[list[Any]]) -> None:
    root = export(tmp_path_factory.mktemp("export"), {f"general/2024-01-{number:02}.json": rows for number, rows in enumerate(days, start=1)})
    messages, errors = read(root)
    good = [row for rows in days for row in rows if isinstance(row, dict) and row.get("type") == "message"]
    assert [m.native_id for m in messages] == [row["ts"] for row in good]
    assert len(messages) + sum(not error.warning for error in errors) == sum(map(len, days))
