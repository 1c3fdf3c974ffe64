"""mbox and single mails: splitting, headers, charsets, dates, kinds."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.instants import to_micros
from subconscious_pipeline.readers.base import EmailRecord, Item, ReadError, ReadOptions
from subconscious_pipeline.readers.mail import read_mail
from subconscious_pipeline.readers.mailheader import decode_header, parse_date
from subconscious_pipeline.readers.mbox import READER, split_mbox

OWN = frozenset({"me@home.example"})


def micros(*parts: int) -> int:
    return to_micros(datetime(*parts).replace(tzinfo=UTC))  # type: ignore[arg-type]  # noqa: DTZ001


def read(path: Path, content: bytes) -> list[Item]:
    path.write_bytes(content)
    return list(READER.read(path, ReadOptions(own_addresses=OWN)))


def mail(headers: str, body: str = "Hello\n", from_line: str = "") -> EmailRecord:
    record = read_mail(f"{headers.strip()}\n\n{body}".encode(), OWN, "file", from_line)
    assert isinstance(record, EmailRecord)
    return record


# --- splitting


def test_a_body_line_that_begins_with_from_splits_nothing(tmp_path: Path) -> None:
    content = b"From a@x Mon Jan  1 10:00:00 2024\nSubject: s\n\nHello\n\nFrom here on it is easy.\n"
    (only,) = read(tmp_path / "a.mbox", content)
    assert isinstance(only, EmailRecord)
    assert only.body_full == "Hello\n\nFrom here on it is easy."


def test_a_quoted_separator_without_a_header_after_it_splits_nothing(tmp_path: Path) -> None:
    content = b"From a@x Mon Jan  1 10:00:00 2024\nSubject: s\n\nlog:\n\nFrom b@x Tue Jan  2 10:00:00 2024\nthat was the line\n"
    (only,) = read(tmp_path / "a.mbox", content)
    assert isinstance(only, EmailRecord)
    assert "that was the line" in only.body_full


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("From 1545668983435175434@xxx Fri Sep 16 22:26:51 +0000 2016", (2016, 9, 16, 22, 26, 51)),
        ("From 1545668983435175434@xxx Fri Sep 16 22:26:51 +0200 2016", (2016, 9, 16, 20, 26, 51)),
        ("From a@x Fri Sep  2 22:26:51 2016", (2016, 9, 2, 22, 26, 51)),
        ("From - Fri Sep  2 22:26 2016", (2016, 9, 2, 22, 26, 0)),
        ("From a@x Fri Sep 02 22:26:51 2016 -0500", (2016, 9, 3, 3, 26, 51)),
        ("From MAILER-DAEMON Fri, 2 Sep 2016 22:26:51 +0100", (2016, 9, 2, 21, 26, 51)),
    ],
)
def test_separators_of_the_wild_are_accepted_and_date_a_mail_without_another_date(tmp_path: Path, line: str, at: tuple[int, ...]) -> None:
    content = f"{line}\nSubject: one\nFrom: a@x.example\n\nx\n\n{line}\nSubject: two\n\ny\n".encode()
    first, second = read(tmp_path / "a.mbox", content)
    assert isinstance(first, EmailRecord)
    assert isinstance(second, EmailRecord)
    assert (first.subject, second.subject) == ("one", "two")
    assert (first.sent_at, first.date_source) == (micros(*at), "from_line")


def test_the_separator_date_is_only_a_fallback(tmp_path: Path) -> None:
    content = b"From a@x Fri Sep 16 22:26:51 +0000 2016\nDate: Mon, 1 Jan 2024 10:00:00 +0100\nSubject: s\n\nx\n"
    (only,) = read(tmp_path / "a.mbox", content)
    assert isinstance(only, EmailRecord)
    assert (only.sent_at, only.date_source) == (micros(2024, 1, 1, 9), "header")


def test_one_quote_mark_is_taken_from_quoted_from_lines_and_ids_do_not_depend_on_it(tmp_path: Path) -> None:
    head = b"From: a@x.example\nSubject: s\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\n"
    (only,) = read(tmp_path / "a.mbox", b"From a@x Mon Jan  1 10:00:00 2024\n" + head + b"x\n>From the desk of\n>>From twice\n")
    assert isinstance(only, EmailRecord)
    assert only.body_full == "x\nFrom the desk of\n>From twice"
    live = read_mail((head + b"x\nFrom the desk of\n>From twice\n").replace(b"\n", b"\r\n"), OWN, "file")
    assert isinstance(live, EmailRecord)
    assert only.source_ref.startswith("sha256-")
    assert live.source_ref == only.source_ref


def test_crlf_files_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    one = b"From a@x Mon Jan  1 10:00:00 2024\r\nSubject: s\r\n\r\nHello\r\nthere\r\n\r\n"
    items = read(tmp_path / "a.mbox", b"\xef\xbb\xbf" + one + one)
    assert [item.body_full for item in items if isinstance(item, EmailRecord)] == ["Hello\nthere", "Hello\nthere"]


def test_what_is_no_mail_is_set_aside_with_its_place_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = b"From a@x Mon Jan  1 10:00:00 2024\nSubject: s\n\nHello\n\n"
    items = read(tmp_path / "a.mbox", b"garbage\n\n" + good + b"From b@x Mon Jan  1 10:00:00 2024\nX-Odd: 1\n\nnothing\n\n" + good)
    assert [type(item).__name__ for item in items] == ["ReadError", "EmailRecord", "ReadError", "EmailRecord"]
    assert [(item.locator, item.code) for item in items if isinstance(item, ReadError)] == [
        ("byte 0", "no_separator"),
        ("message 2, byte 62", "not_a_mail"),
    ]


def test_a_file_without_a_separator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no mbox separator"):
        read(tmp_path / "a.mbox", b"just text\n")


def test_identify_goes_by_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert READER.identify(path, b"\nFrom a@x Mon Jan  1 10:00:00 2024\nSubject: s\n")
    assert not READER.identify(path, b"From here on it is easy.\nSubject: s\n")
    assert not READER.identify(path, b"Subject: s\nFrom: a@x.example\n")
    assert not READER.identify(tmp_path, b"")


LINES = st.one_of(
    st.sampled_from([b"From here", b"", b">From a@x Mon Jan  1 10:00:00 2024", b"From a@x Mon Jan  1 10:00:00 2024", b"Subject: s", b"-- ", b"--b"]),
    st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"")),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(LINES, max_size=8), max_size=6), st.lists(LINES, max_size=3))
def test_every_byte_belongs_to_one_message(bodies: list[list[bytes]], garbage: list[bytes]) -> None:
    content = b"".join(line + b"\n" for line in garbage)
    for body in bodies:
        content += b"\nFrom a@x Mon Jan  1 10:00:00 2024\nSubject: s\n\n" + b"".join(line + b"\n" for line in body)
    chunks = list(split_mbox(io.BytesIO(content)))
    assert b"".join((chunk.from_line or b"") + chunk.raw for chunk in chunks) == content
    for chunk in chunks:
        assert content.startswith((chunk.from_line or b"") + chunk.raw, chunk.offset)


BODIES = st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b"").replace(b"From ", b"")), max_size=5)


Message = tuple[list[bytes], bool]  # lines of the body, and whether it is a mail


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(BODIES, st.booleans()), min_size=1, max_size=8))
def test_parsed_and_set_aside_add_up_to_the_messages_put_in(tmp_path_factory: pytest.TempPathFactory, messages: list[Message]) -> None:
    content = b""
    for number, (body, good) in enumerate(messages):
        head = b"Message-ID: <%d@x>\n" % number if good else b"X-Odd: 1\n"
        content += b"From a@x Mon Jan  1 10:00:00 2024\n" + head + b"\n" + b"\n".join(body) + b"\n\n"
    items = read(tmp_path_factory.mktemp("mbox") / "a", content)
    expected = [f"{number}@x" if good else "not_a_mail" for number, (_, good) in enumerate(messages)]
    assert [item.source_ref if isinstance(item, EmailRecord) else item.code for item in items] == expected  # type: ignore[union-attr]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_make_the_parser_fail(raw: bytes) -> None:
    item = read_mail(b"Subject: =?utf-8?q?" + raw[:40].replace(b"\n", b"") + b"?=\nContent-Type: " + raw, OWN, "file")
    assert isinstance(item, EmailRecord | ReadError)
    if isinstance(item, EmailRecord):
        (item.subject + item.body_full + item.body_new + item.source_ref).encode()


FIELDS = st.sampled_from(
    [
        b"From: Ida <a@x.example>", b"Subject: one\n two", b"Subject:", b"Date: Mon, 1 Jan 2024 10:00:00 +0000", b"Message-ID: <a@x>", b"X: \xe9",
        b"no colon", b" stray",
        b"Content-Type: text/plain; charset=cp-850", b"Content-Type: text/plain; format=flowed", b"Content-Transfer-Encoding: base64",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(FIELDS, min_size=1, max_size=5), st.binary(max_size=30).map(lambda raw: raw.replace(b"\r", b"")))
def test_line_ends_make_no_difference(fields: list[bytes], body: bytes) -> None:
    raw = b"\n".join([b"To: b@x.example", *fields]) + b"\n\n" + body
    assert read_mail(raw.replace(b"\n", b"\r\n"), OWN, "file") == read_mail(raw, OWN, "file")


# --- dates


@pytest.mark.parametrize("bad", ["2002/09/14 Sat 13:06:03 GMT", "Mon, 01 Jan 2024 24:00:00 +0000", "Mon, 1 Jan 2024 10:00:00 +9999", "gestern", ""])
def test_a_bad_date_falls_through_to_the_topmost_received_then_to_the_separator(bad: str) -> None:
    received = "Received: by b; Tue, 2 Jan 2024\n 11:00:00 +0100 (CET)\nReceived: by a; Tue, 2 Jan 2024 03:00:00 +0000\n"
    line = "From a@x Wed Jan  3 10:00:00 2024"
    with_received = mail(f"{received}Date: {bad}\nSubject: s", from_line=line)
    assert (with_received.sent_at, with_received.date_source) == (micros(2024, 1, 2, 10), "received")
    without = mail(f"Date: {bad}\nSubject: s", from_line=line)
    assert (without.sent_at, without.date_source) == (micros(2024, 1, 3, 10), "from_line")


def test_no_date_at_all_is_none_and_never_now() -> None:
    record = mail("Date: gestern\nSubject: s")
    assert (record.sent_at, record.date_source) == (None, "none")


def test_24_00_with_nothing_better_is_the_midnight_that_ends_the_day() -> None:
    record = mail("Date: Mon, 01 Jan 2024 24:00:00 +0000\nSubject: s")
    assert (record.sent_at, record.date_source) == (micros(2024, 1, 2), "header")


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        ("Mon, 1 Jan 2024 10:00:00 -0330", (2024, 1, 1, 13, 30)),
        ("1 Jan 2024 10:00 GMT", (2024, 1, 1, 10)),
        ("Mon, 01 Jan 2024 10:00:00 +0100 (CET)", (2024, 1, 1, 9)),
        ("Mon, 1 Jan 2024 10:00:00 EST", (2024, 1, 1, 15)),
        ("Mon, 01 Jan 24 10:00:00 +0000", (2024, 1, 1, 10)),
        ("Mon Jan  1 10:00:00 2024", (2024, 1, 1, 10)),
        ("2024-01-01T10:00:00Z", (2024, 1, 1, 10)),
        ("2024-01-01 10:00:00 +0200", (2024, 1, 1, 8)),
    ],
)
def test_dates_of_old_and_sloppy_mailers_are_read(raw: str, at: tuple[int, ...]) -> None:
    assert parse_date(raw) == micros(*at)


IMPOSSIBLE = ["Thu, 1 Jan 1970 00:00:00 +0000", "Mon, 31 Feb 2024 10:00:00 +0000", "Mon, 1 Jan 2024 10:00:00 +0099", "1 Foo 2024 10:00:00 +0000"]


@pytest.mark.parametrize("raw", IMPOSSIBLE)
def test_impossible_dates_are_none(raw: str) -> None:
    assert parse_date(raw) is None


# --- headers and charsets


def test_a_malformed_encoded_word_stays_as_written() -> None:
    raw = "=?utf-8?B?abc?= =?nope?Q?x=ZZ?="
    assert mail(f"Subject: {raw}").subject == raw


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("=?UTF-8?Q?caf=C3=A9?= bar", "café bar"),
        ("=?utf-8?B?w6k=?= =?utf-8?B?w6k=?=", "éé"),
        ("=?utf-8?Q?=C3?=\n =?utf-8?Q?=A9t=C3=A9?=", "été"),
        ("a =?iso-8859-1?q?=E9?= =?utf-8?q?=C3=A9?= b", "a éé b"),
        ("=?utf-8?q?ok?= =?utf-8?B?abc?=", "ok =?utf-8?B?abc?="),
        ("plain\n folded", "plain folded"),
    ],
)
def test_encoded_words_are_decoded(raw: str, text: str) -> None:
    assert decode_header(raw) == text


def test_raw_bytes_in_headers_are_read_as_utf8_or_windows_1252() -> None:
    for raw in ("Grüße".encode(), "Grüße".encode("cp1252")):
        record = read_mail(b"Subject: " + raw + b"\nFrom: " + raw + b" <a@x.example>\n\nx\n", OWN, "file")
        assert isinstance(record, EmailRecord)
        assert (record.subject, record.from_name, record.from_addr) == ("Grüße", "Grüße", "a@x.example")


def test_addresses_are_decoded_and_lowercased() -> None:
    record = mail(
        'From: "Lee, Ida" <Ida@X.example>\nTo: =?utf-8?q?Zo=C3=AB=2C_K?= <zoe@x.example>, "B, C" <b@x.example>\nCc: Me@Home.example\nSubject: s'
    )
    assert (record.from_name, record.from_addr) == ("Lee, Ida", "ida@x.example")
    assert record.to == ("zoe@x.example", "b@x.example", "me@home.example")


@pytest.mark.parametrize(
    ("label", "raw", "text"),
    [
        ("cp-850", b"h\xe9", "hÚ"),
        ("unknown-8bit", b"h\xe9", "hé"),
        ("x-never-heard", "hé".encode(), "hé"),
        ("utf-8", b"h\xe9 \x93q\x94", "hé “q”"),
        ("us-ascii", "hé".encode(), "hé"),
        ("iso-8859-1", b"\x80 5", "€ 5"),
        ("Windows-1252", b"\x80 5", "€ 5"),
        ("rot13", b"abc", "abc"),
        ("gb2312", "你好".encode("gb18030"), "你好"),
    ],
)
def test_any_charset_label_gives_text(label: str, raw: bytes, text: str) -> None:
    record = read_mail(b'Subject: s\nContent-Type: text/plain; charset="' + label.encode() + b'"\n\n' + raw, OWN, "file")
    assert isinstance(record, EmailRecord)
    assert record.body_full == text


def test_gmail_labels_are_decoded() -> None:
    record = mail("Subject: s\nX-Gmail-Labels: =?UTF-8?Q?Odesl=C3=A1no,Nep=C5=99e=C4=8Dten=C3=A9?=")
    assert record.labels == ("Odesláno", "Nepřečtené")


def test_references_come_oldest_first_without_duplicates_or_itself() -> None:
    record = mail("Message-ID: <c@x>\nSubject: s\nReferences: <a@x>\n <b@x> <a@x> <c@x>\nIn-Reply-To: <b@x> <d@x>")
    assert (record.source_ref, record.references) == ("c@x", ("a@x", "b@x", "d@x"))


# --- bodies


def test_style_and_head_never_leak_from_html() -> None:
    html = "<html><head><title>T</title><style>p{color:red}</style></head><body><script>x()</script><p>Hi</p></body></html>"
    assert mail("Subject: s\nContent-Type: text/html", html).body_full == "Hi"


def test_the_plain_alternative_wins_unless_it_is_empty() -> None:
    def alternative(plain: str) -> str:
        parts = f"--b\nContent-Type: text/plain\n\n{plain}\n--b\nContent-Type: text/html\n\n<p>rich</p>\n--b--\n"
        return mail("Subject: s\nContent-Type: multipart/alternative; boundary=b", parts).body_full

    assert alternative("plain") == "plain"
    assert alternative(" ") == "rich"


def test_attachments_are_left_out() -> None:
    parts = (
        "--b\nContent-Type: text/plain\n\nbody\n"
        "--b\nContent-Type: text/plain; name=log.txt\nContent-Disposition: attachment\n\nlog\n"
        "--b\nContent-Type: message/rfc822\n\nSubject: inner\n\ninner text\n--b--\n"
    )
    assert mail("Subject: s\nContent-Type: multipart/mixed; boundary=b", parts).body_full == "body"


def test_a_multipart_without_its_boundary_keeps_its_text() -> None:
    assert mail("Subject: s\nContent-Type: multipart/mixed", "still here").body_full == "still here"


def test_encoded_and_flowed_bodies_are_undone() -> None:
    quoted = "Subject: s\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable"
    assert mail(quoted, "caf=C3=A9 =\nbar").body_full == "café bar"
    assert mail("Subject: s\nContent-Type: text/plain; format=flowed", "one \ntwo\n> q \n> r\n").body_full == "one two\n> q r"


# --- kinds

BULK = "List-Unsubscribe: <https://x.example/u>\n"
INVITE = "--b\nContent-Type: text/plain\n\nCome\n--b\nContent-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\nMETHOD:REQUEST\n--b--\n"


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ("From: a@x.example\nSubject: Hi", "personal"),
        ("From: MAILER-DAEMON@x.example\nSubject: Undelivered", "bounce"),
        ("From: a@x.example\nSubject: s\nContent-Type: multipart/report; report-type=delivery-status; boundary=b", "bounce"),
        ("From: a@x.example\nSubject: s\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b", "auto"),
        ("From: a@x.example\nSubject: Away\nAuto-Submitted: auto-replied", "auto"),
        ("From: a@x.example\nSubject: Hi\nAuto-Submitted: no", "personal"),
        ("From: a@x.example\nSubject: Away\nX-Autoreply: yes", "auto"),
        ("From: a@x.example\nSubject: Chat with Ida\nX-Gmail-Labels: Chat,Important", "chat"),
        (BULK + "From: shop@x.example\nSubject: Spring is here", "marketing"),
        ("Precedence: bulk\nFrom: shop@x.example\nSubject: Spring is here", "marketing"),
        ("X-MC-User: 123\nFrom: shop@x.example\nSubject: Spring is here", "marketing"),
        (BULK + "From: shop@x.example\nSubject: 20% off every order now", "marketing"),
        (BULK + "List-Id: <news.x.example>\nFrom: shop@x.example\nSubject: Our news", "marketing"),
        (BULK + "From: shop@x.example\nSubject: Your receipt from the shop", "personal"),
        (BULK + "From: shop@x.example\nSubject: Order #1234 confirmed", "personal"),
        (BULK + "From: shop@x.example\nSubject: Confirmación de tu reserva", "personal"),
        (BULK + "From: shop@x.example\nSubject: Bestellbestätigung 4711", "personal"),
        (BULK + "From: shop@x.example\nSubject: Hallo\nX-PM-Message-Stream: outbound", "personal"),
        (BULK + "From: shop@x.example\nSubject: Re: question\nIn-Reply-To: <a@x>", "personal"),
        (BULK + "From: me@home.example\nSubject: Spring is here", "personal"),
        (BULK + "List-Id: <dev.x.example>\nFrom: a@x.example\nSubject: Re: patch\nIn-Reply-To: <a@x>", "list"),
        (BULK + "List-Id: <dev.x.example>\nList-Post: <mailto:dev@x.example>\nFrom: a@x.example\nSubject: patch", "list"),
        (BULK + "From: a@x.example\nSubject: Lunch\nContent-Type: multipart/alternative; boundary=b", "invite"),
    ],
)
def test_kinds_go_by_headers_and_receipts_are_no_marketing(headers: str, kind: str) -> None:
    assert mail(headers, INVITE if kind == "invite" else "text\n").kind == kind


def test_order_markup_makes_bulk_mail_a_receipt() -> None:
    body = '<script type="application/ld+json">{"@context": "http://schema.org", "@type": "Order"}</script><p>Thanks</p>'
    assert mail(BULK + "From: shop@x.example\nSubject: Thanks\nContent-Type: text/html", body).kind == "personal"


def test_an_invitation_is_known_by_the_method_inside_the_calendar_too() -> None:
    body = "BEGIN:VCALENDAR\nMETHOD:CANCEL\nEND:VCALENDAR\n"
    assert mail("From: a@x.example\nSubject: s\nContent-Type: text/calendar", body).kind == "invite"
    assert mail("From: a@x.example\nSubject: s\nContent-Type: text/calendar", body.replace("CANCEL", "PUBLISH")).kind == "personal"
