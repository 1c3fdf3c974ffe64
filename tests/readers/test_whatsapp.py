"""WhatsApp exports: what phones of many languages write, and what must come out of it."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.errors import SourceError
from subconscious_pipeline.instants import from_micros, iso_z
from subconscious_pipeline.readers.base import MessageRecord, ReadError, ReadOptions
from subconscious_pipeline.readers.whatsapp import READER, chat_name

NBSP, NNBSP, LRM, RLM, BOM = "\u00a0", "\u202f", "\u200e", "\u200f", "\ufeff"
UTC_TOLD = ReadOptions(zone=ZoneInfo("UTC"), zone_configured=True)
DAY_FIRST = ReadOptions(zone=ZoneInfo("UTC"), zone_configured=True, date_order="dmy")


def read(tmp_path: Path, text: str | bytes, options: ReadOptions = UTC_TOLD, name: str = "WhatsApp Chat with Trip.txt"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return split(READER.read(path, options))


def split(items):
    found = list(items)
    return [item for item in found if isinstance(item, MessageRecord)], [item for item in found if isinstance(item, ReadError)]


def rows(messages: list[MessageRecord]) -> list[tuple[str, str | None, str, str]]:
    return [(iso_z(from_micros(m.sent_at)), m.author, m.kind, m.text) for m in messages]


def test_narrow_no_break_space_before_the_meridiem(tmp_path: Path) -> None:
    # Pustur/whatsapp-chat-parser#248
    messages, errors = read(tmp_path, f"3/14/24, 7:02{NNBSP}PM - Mira: on my way\n3/14/24, 7:05{NNBSP}am - Jo: ok\n")
    assert rows(messages) == [
        ("2024-03-14T19:02:00Z", "Mira", "text", "on my way"),
        ("2024-03-14T07:05:00Z", "Jo", "text", "ok"),
    ]
    assert errors == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"20/6/2024 8:28 p.{NBSP}m. - Nuria: hola", "2024-06-20T20:28:00Z"),  # Pustur/whatsapp-chat-parser#224
        (f"20/6/2024, 8:28 a.{NBSP}m. - Nuria: hola", "2024-06-20T08:28:00Z"),
        ("20/6/2024 8:28 p. m. - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("20/6/2024, 12:05 a.m. - Nuria: hola", "2024-06-20T00:05:00Z"),
        ("20/6/2024, 12:05 PM - Nuria: hola", "2024-06-20T12:05:00Z"),
        ("[20/6/2024, 8:28:11 p. m.] Nuria: hola", "2024-06-20T20:28:11Z"),
        ("20/6/24, 8:28 μ.μ. - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("20/6/24, 8:28 م - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("2024/6/20 下午8:28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("[2024. 6. 20. 오후 8:28:11] Nuria: hola", "2024-06-20T20:28:11Z"),
        ("[20.06.24, 20:28:11] Nuria: hola", "2024-06-20T20:28:11Z"),
        ("20.06.24, 20:28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("20-06-2024 20:28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("2024-06-20, 20:28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("2024-06-20 20.28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("20/06/2024 à 20:28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("20.06.24, 20:28 Uhr - Nuria: hola", "2024-06-20T20:28:00Z"),
        ("6/20/24, 20:28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        (f"{LRM}[20/06/24, 20:28:11] Nuria: hola", "2024-06-20T20:28:11Z"),
        (f"{BOM}{RLM}20/06/24, 20:28 - Nuria: hola", "2024-06-20T20:28:00Z"),
        (f"[20{RLM}/6{RLM}/2024, 8:28:11 م] Nuria: hola", "2024-06-20T20:28:11Z"),
        ("[٢٠/٦/٢٠٢٤، ٨:٢٨:١١ م] Nuria: hola", "2024-06-20T20:28:11Z"),
    ],
)
def test_line_forms_of_many_locales(tmp_path: Path, line: str, expected: str) -> None:
    messages, errors = read(tmp_path, line + "\n")
    assert rows(messages) == [(expected, "Nuria", "text", "hola")]
    assert errors == []


def test_dotted_dates_are_day_first_in_both_line_forms(tmp_path: Path) -> None:
    # rodrigogs/whats-reader#78
    assert rows(read(tmp_path, "[07.03.26, 21:22:39] Kai: Hey\n")[0]) == [("2026-03-07T21:22:39Z", "Kai", "text", "Hey")]
    assert rows(read(tmp_path, "03.08.24, 12:30 - Kai: Hallo\n")[0]) == [("2024-08-03T12:30:00Z", "Kai", "text", "Hallo")]


def test_24_hour_export(tmp_path: Path) -> None:
    # sandsturm/whatsapp-converter#5
    assert rows(read(tmp_path, "17/06/24, 22:10 - Zoe: hi\n")[0]) == [("2024-06-17T22:10:00Z", "Zoe", "text", "hi")]


def test_a_day_above_twelve_anywhere_decides_the_whole_file(tmp_path: Path) -> None:
    # sirmordred/WhatsCloud#7
    messages, _ = read(tmp_path, "4/6/24, 19:02 - Lee: x\n4/23/24, 19:38 - Lee: y\n")
    assert [row[0] for row in rows(messages)] == ["2024-04-06T19:02:00Z", "2024-04-23T19:38:00Z"]


def test_the_only_order_that_runs_forward_decides(tmp_path: Path) -> None:
    messages, _ = read(tmp_path, "11/2/24, 10:00 - Lee: x\n12/2/24, 10:00 - Lee: y\n1/3/24, 10:00 - Lee: z\n")
    assert [row[0] for row in rows(messages)] == ["2024-02-11T10:00:00Z", "2024-02-12T10:00:00Z", "2024-03-01T10:00:00Z"]


def test_undecidable_order_is_said_and_a_setting_settles_it(tmp_path: Path) -> None:
    text = "4/6/24, 19:02 - Lee: x\n5/7/24, 19:38 - Lee: y\n"
    with pytest.raises(SourceError) as raised:
        read(tmp_path, text)
    assert raised.value.code == "ambiguous_date_order"
    assert "date_order" in raised.value.message
    assert "sources.yaml" in raised.value.message
    assert [row[0] for row in rows(read(tmp_path, text, DAY_FIRST)[0])] == ["2024-06-04T19:02:00Z", "2024-07-05T19:38:00Z"]


def test_evidence_beats_the_configured_order_with_a_warning(tmp_path: Path) -> None:
    messages, errors = read(tmp_path, "4/6/24, 19:02 - Lee: x\n4/23/24, 19:38 - Lee: y\n", DAY_FIRST)
    assert [row[0] for row in rows(messages)] == ["2024-04-06T19:02:00Z", "2024-04-23T19:38:00Z"]
    assert [(error.code, error.warning) for error in errors] == [("date_order_contradicted", True)]


def test_two_digit_years_in_front_only_when_told_or_when_nothing_else_fits(tmp_path: Path) -> None:
    text = "24-06-20 20:28 - Lee: x\n"
    told = ReadOptions(zone=ZoneInfo("UTC"), zone_configured=True, date_order="ymd")
    assert [row[0] for row in rows(read(tmp_path, text, told)[0])] == ["2024-06-20T20:28:00Z"]
    assert [row[0] for row in rows(read(tmp_path, "41-06-20 20:28 - Lee: x\n")[0])] == ["2041-06-20T20:28:00Z"]


def test_lines_that_begin_with_an_invisible_mark_are_messages_of_their_own(tmp_path: Path) -> None:
    # joweich/chat-miner#42
    messages, _ = read(tmp_path, f"[1/2/24, 09:00:00] Ida: pic?\n{LRM}[1/2/24, 09:00:05] Tom: {LRM}image omitted\n", DAY_FIRST)
    assert rows(messages) == [
        ("2024-02-01T09:00:00Z", "Ida", "text", "pic?"),
        ("2024-02-01T09:00:05Z", "Tom", "media", ""),
    ]


def test_system_line_without_author(tmp_path: Path) -> None:
    # joweich/chat-miner#92
    text = (
        '06/20/24, 00:08 - +49 170 0000000 created group "Trip"\n'
        '06/20/24, 00:09 - Ana changed the subject from "Trip: a" to "b"\n'
        "06/20/24, 00:10 - +49 170 0000000: hi\n"
    )
    assert rows(read(tmp_path, text)[0]) == [
        ("2024-06-20T00:08:00Z", None, "system", '+49 170 0000000 created group "Trip"'),
        ("2024-06-20T00:09:00Z", None, "system", 'Ana changed the subject from "Trip: a" to "b"'),
        ("2024-06-20T00:10:00Z", "+49 170 0000000", "text", "hi"),
    ]


def test_colons_line_breaks_and_a_deletion_without_full_stop(tmp_path: Path) -> None:
    # koftezz/whatsapp-chat-analyzer#17
    text = "1/5/24, 10:00 - Ed: note: buy\nmilk\n1/5/24, 10:01 - Ed: This message was deleted\n"
    assert rows(read(tmp_path, text, DAY_FIRST)[0]) == [
        ("2024-05-01T10:00:00Z", "Ed", "text", "note: buy\nmilk"),
        ("2024-05-01T10:01:00Z", "Ed", "deleted", ""),
    ]


def test_blank_lines_and_windows_line_ends_inside_a_message(tmp_path: Path) -> None:
    messages, _ = read(tmp_path, "20/05/24, 10:00 - Ed: one\r\n\r\nthree\u2028still three\r\n20/05/24, 10:01 - Flo:\r\n20/05/24, 10:02 - Ed: end\r\n")
    assert [(m.author, m.text) for m in messages] == [("Ed", "one\n\nthree\u2028still three"), ("Flo", ""), ("Ed", "end")]


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ("<Media omitted>", "media", ""),
        ("<Multimedia omitido>", "media", ""),
        ("<Medien ausgeschlossen>", "media", ""),
        ("<Médias omis>", "media", ""),
        ("<Arquivo de mídia oculto>", "media", ""),
        ("IMG-20240620-WA0001.jpg (file attached)", "media", ""),
        (f"{LRM}IMG-20240620-WA0001.jpg (archivo adjunto)\nthe broken lock", "text", "the broken lock"),
        ("<Media omitted>\nthe broken lock", "text", "the broken lock"),
        ("STK-20240620-WA0001.webp (Datei angehängt)", "sticker", ""),
        ("Jo.vcf (file attached)", "contact", ""),
        ("You deleted this message", "deleted", ""),
        ("This message was deleted.", "deleted", ""),
        ("Se eliminó este mensaje.", "deleted", ""),
        ("Diese Nachricht wurde gelöscht.", "deleted", ""),
        ("Ce message a été supprimé", "deleted", ""),
        ("Mensagem apagada", "deleted", ""),
        ("Questo messaggio è stato eliminato", "deleted", ""),
        ("see you at nine <This message was edited>", "text", "see you at nine"),
        (f"bis neun {LRM}<Diese Nachricht wurde bearbeitet.>", "text", "bis neun"),
        ("Missed voice call", "call", "Missed voice call"),
        ("POLL:\nWhere?\nOPTION: Lake (2 votes)", "poll", "POLL:\nWhere?\nOPTION: Lake (2 votes)"),
        ("location: https://maps.google.com/?q=1.5,2.5", "location", "location: https://maps.google.com/?q=1.5,2.5"),
        ("live location shared", "location", ""),
        ("a < b and c > d (see notes)", "text", "a < b and c > d (see notes)"),
        ("Video call, tomorrow at nine?", "text", "Video call, tomorrow at nine?"),
        ("the image omitted nothing", "text", "the image omitted nothing"),
        ("we heard 12:30 - they: agreed", "text", "we heard 12:30 - they: agreed"),
    ],
)
def test_kinds_in_dash_form(tmp_path: Path, said: str, kind: str, text: str) -> None:
    messages, _ = read(tmp_path, f"20/06/24, 20:28 - Ana: {said}\n20/06/24, 20:29 - Bo: ok\n")
    assert [(m.author, m.kind, m.text, m.edited_at) for m in messages] == [("Ana", kind, text, None), ("Bo", "text", "ok", None)]


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (f"{LRM}Bild weggelassen", "media", ""),
        (f"{LRM}imagen omitida", "media", ""),
        (f"{LRM}sticker omitted", "sticker", ""),
        (f"{LRM}GIF omitted", "media", ""),
        (f"{LRM}Contact card omitted", "contact", ""),
        (f"lease.pdf • {LRM}3 pages {LRM}document omitted", "media", ""),
        (f"{LRM}<attached: 00000012-PHOTO-2024-06-20.jpg>", "media", ""),
        (f"the lock {LRM}<adjunto: 00000012-PHOTO-2024-06-20.jpg>", "text", "the lock"),
        (f"{LRM}<attached: 00000013-STICKER-2024-06-20.webp>", "sticker", ""),
        (f"{LRM}You deleted this message.", "deleted", ""),
        (f"{LRM}Missed voice call, {LRM}Tap to call back", "call", "Missed voice call, Tap to call back"),
        (f"{LRM}Voice call, {LRM}5 min", "call", "Voice call, 5 min"),
        (f"{LRM}POLL:\nWhere?\n{LRM}OPTION: Lake ({LRM}2 votes)", "poll", "POLL:\nWhere?\nOPTION: Lake (2 votes)"),
        (f"{LRM}Location: https://maps.google.com/?q=1.5,2.5", "location", "Location: https://maps.google.com/?q=1.5,2.5"),
        (f"{LRM}Ana added Bo", "system", "Ana added Bo"),
        ("Messages and calls are end-to-end encrypted. No one outside of this chat can read them.", "system", None),
    ],
)
def test_kinds_in_bracket_form(tmp_path: Path, said: str, kind: str, text: str | None) -> None:
    messages, _ = read(tmp_path, f"[20/06/24, 20:28:00] ~{NNBSP}Ana: {said}\r\n[20/06/24, 20:29:00] Bo: ok\r\n")
    assert [(m.author, m.kind, m.text) for m in messages] == [("Ana", kind, said if text is None else text), ("Bo", "text", "ok")]


def test_call_without_author(tmp_path: Path) -> None:
    messages, _ = read(tmp_path, "20/06/24, 20:28 - Missed video call\n")
    assert [(m.author, m.kind) for m in messages] == [(None, "call")]


def test_phone_number_wrapped_in_direction_marks(tmp_path: Path) -> None:
    messages, _ = read(tmp_path, f"[20/06/24, 20:28:00] \u202a+49{NBSP}170{NBSP}0000000\u202c: hi\n")
    assert messages[0].author == "+49 170 0000000"


def test_naive_times_take_the_configured_zone(tmp_path: Path) -> None:
    options = ReadOptions(zone=ZoneInfo("Europe/Madrid"), zone_configured=True)
    messages, errors = read(tmp_path, "30/03/24, 21:12 - Ana: a\n30/06/24, 21:12 - Ana: b\n", options)
    assert [(row[0]) for row in rows(messages)] == ["2024-03-30T20:12:00Z", "2024-06-30T19:12:00Z"]
    assert {message.tz_source for message in messages} == {"config"}
    assert errors == []


def test_an_assumed_zone_is_said_once(tmp_path: Path) -> None:
    messages, errors = read(tmp_path, "30/03/24, 21:12 - Ana: a\n30/06/24, 21:12 - Ana: b\n", ReadOptions())
    assert {message.tz_source for message in messages} == {"floating"}
    assert [(error.code, error.warning) for error in errors] == [("zone_assumed", True)]


def test_times_that_a_zone_skips_or_repeats(tmp_path: Path) -> None:
    options = ReadOptions(zone=ZoneInfo("Europe/Madrid"), zone_configured=True)
    text = "31/03/24, 01:59 - A: x\n31/03/24, 02:30 - A: x\n31/03/24, 03:30 - A: x\n27/10/24, 02:30 - A: x\n27/10/24, 03:30 - A: x\n"
    assert [row[0] for row in rows(read(tmp_path, text, options)[0])] == [
        "2024-03-31T00:59:00Z",
        "2024-03-31T01:30:00Z",
        "2024-03-31T01:30:00Z",
        "2024-10-27T00:30:00Z",
        "2024-10-27T02:30:00Z",
    ]


def test_lines_before_the_first_message_and_impossible_dates_are_quarantined(tmp_path: Path) -> None:
    text = (
        "forwarded to me\n\n20/06/24, 20:28 - Ana: a\n20/13/24, 20:29 - Ana: lost\nwith it\n20/06/24, 25:10 - Ana: lost\n20/06/24, 20:30 - Ana: b\n"
    )
    messages, errors = read(tmp_path, text)
    assert [message.text for message in messages] == ["a", "b"]
    assert [(error.locator, error.code) for error in errors] == [("line 1", "no_message"), ("line 4", "bad_time"), ("line 6", "bad_time")]
    assert all("lost" not in error.message for error in errors)


def test_unknown_meridiem_is_text_in_a_24_hour_file_and_a_bad_time_in_a_12_hour_file(tmp_path: Path) -> None:
    pasted = "20/06/24, 20:28 - Ana: plan\n21/06/24 10:30 dentist - bring card: yes\n"
    messages, errors = read(tmp_path, pasted)
    assert [message.text for message in messages] == ["plan\n21/06/24 10:30 dentist - bring card: yes"]
    assert errors == []
    messages, errors = read(tmp_path, "20/06/24, 8:28 pm - Ana: a\n20/06/24, 9:28 zz - Ana: b\n")
    assert [message.text for message in messages] == ["a"]
    assert [(error.locator, error.code) for error in errors] == [("line 2", "bad_time")]


def test_a_text_without_messages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as raised:
        read(tmp_path, "just\nnotes\n")
    assert raised.value.code == "no_messages"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    content = "20/06/24, 20:28 - Zoë: café\n".encode(encoding)
    assert READER.identify(tmp_path / "chat.txt", content)
    assert rows(read(tmp_path, content)[0]) == [("2024-06-20T20:28:00Z", "Zoë", "text", "café")]


def test_bytes_that_are_not_utf8_cost_only_themselves(tmp_path: Path) -> None:
    messages, errors = read(tmp_path, b"20/06/24, 20:28 - Ana: caf\xe9\n20/06/24, 20:29 - Ana: ok\n")
    assert [message.text for message in messages] == ["caf\ufffd", "ok"]
    assert [(error.code, error.warning) for error in errors] == [("invalid_utf8", True)]


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("WhatsApp Chat with Trip", "Trip"),
        ("WhatsApp Chat with Trip (1)", "Trip"),
        ("WhatsApp Chat - Trip to Rome", "Trip to Rome"),
        ("WhatsApp-Chat mit Trip", "Trip"),
        ("Chat de WhatsApp con Trip - vecinos", "Trip - vecinos"),
        ("Discussion WhatsApp avec Trip", "Trip"),
        ("Conversa do WhatsApp com Trip", "Trip"),
        ("Chat WhatsApp con Trip", "Trip"),
        ("WhatsApp-chat met Trip", "Trip"),
        ("Чат WhatsApp с Trip", "Trip"),
        ("WhatsApp_Chat_with_Trip", "Trip"),
        ("neighbours", "neighbours"),
    ],
)
def test_chat_name_from_the_file_name(tmp_path: Path, stem: str, name: str) -> None:
    assert chat_name(stem) == name
    messages, _ = read(tmp_path, "20/06/24, 20:28 - Ana: a\n", name=f"{stem}.txt")
    assert (messages[0].source_ref, messages[0].title, messages[0].native_id) == (name, name, None)


def test_a_bare_chat_file_is_named_by_its_folder(tmp_path: Path) -> None:
    messages, _ = read(tmp_path, "20/06/24, 20:28 - Ana: a\n", name="WhatsApp Chat - Trip/_chat.txt")
    assert messages[0].source_ref == "Trip"


def test_zip_of_a_phone(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat - Trip.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("00000012-PHOTO.jpg", b"\xff\xd8\0")
        archive.writestr("notes.txt", "21/06/24, 20:28 - Not: the chat\n")
        archive.writestr("_chat.txt", "[20/06/24, 20:28:00] Ana: a\r\n")
    assert READER.identify(path, path.read_bytes()[:65_536])
    messages, _ = split(READER.read(path, UTC_TOLD))
    assert [(m.source_ref, m.author, m.text) for m in messages] == [("Trip", "Ana", "a")]


def test_zip_with_a_named_chat(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Chat de WhatsApp con Trip.txt", "20/06/24, 20:28 - Ana: a\n")
    messages, _ = split(READER.read(path, UTC_TOLD))
    assert [(m.source_ref, m.text) for m in messages] == [("Trip", "a")]


def test_a_cut_off_zip_is_recognized_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat - Trip.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_chat.txt", "[20/06/24, 20:28:00] Ana: a\r\n" * 50)
    path.write_bytes(path.read_bytes()[:200])
    assert READER.identify(path, path.read_bytes())
    with pytest.raises(SourceError) as raised:
        list(READER.read(path, UTC_TOLD))
    assert raised.value.code == "truncated_archive"


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\0\1\2\3" * 20,
        b"\x89PNG\r\n\x1a\n\0\0",
        b"just\nnotes\n",
        b'{"at": "2024-06-20", "text": "x"}\n',
        b"BEGIN:VCALENDAR\n",
        b"2024-06-20 20:28:11 - INFO: started\n",
        b"2024-06-20 20:28 INFO job - done: 3\n",
        b"PK\x03\x04rest",
    ],
)
def test_other_files_are_not_chats(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "some.txt"
    path.write_bytes(head)
    assert not READER.identify(path, head)
    assert not READER.identify(tmp_path, b"")


def test_garbage_above_does_not_hide_a_chat(tmp_path: Path) -> None:
    assert READER.identify(tmp_path / "chat.txt", b"x\ny\n\xff\n20/06/24, 20:28 - Ana: a\n")


def _meridiem(at: datetime, words: tuple[str, str], gap: str) -> str:
    return f"{at.hour % 12 or 12}:{at:%M}{gap}{words[at.hour >= 12]}"


FORMS = {
    "android dmy": lambda at: f"{at:%d/%m/%Y, %H:%M} - ",
    "android mdy": lambda at: f"{at.month}/{at.day}/{at:%y}, {_meridiem(at, ('AM', 'PM'), NNBSP)} - ",
    "android es": lambda at: f"{at.day}/{at.month}/{at.year} {_meridiem(at, (f'a.{NBSP}m.', f'p.{NBSP}m.'), ' ')} - ",
    "android ymd": lambda at: f"{at:%Y-%m-%d, %H:%M} - ",
    "android dots": lambda at: f"{at:%d.%m.%y, %H:%M} - ",
    "android dashes": lambda at: f"{at:%d-%m-%Y %H:%M} - ",
    "ios dmy": lambda at: f"[{at:%d/%m/%y, %H:%M}:00] ",
    "ios dots": lambda at: f"{LRM}[{at:%d.%m.%y, %H:%M}:00] ",
    "ios mdy": lambda at: f"[{at.month}/{at.day}/{at:%y}, {at.hour % 12 or 12}:{at:%M}:00{NNBSP}{'PM' if at.hour >= 12 else 'AM'}] ",
    "ios ja": lambda at: f"[{at.year}/{at.month}/{at.day} {'午後' if at.hour >= 12 else '午前'}{at.hour % 12 or 12}:{at:%M}:00] ",
}
_LETTERS = "abcXYZ éñß 日本 12:,.-!?()"
_LINE = st.text(_LETTERS, min_size=1, max_size=20).map(str.strip).filter(bool)
_MESSAGE = st.tuples(
    st.integers(25_771_680, 29_456_640).map(lambda minutes: from_micros(minutes * 60_000_000)),
    st.sampled_from(["Ana", "Zoë Müller", "+49 170 0000000", "日本"]),
    st.lists(_LINE, min_size=1, max_size=3).map("\n".join),
)


@settings(max_examples=60, deadline=None)
@given(form=st.sampled_from(sorted(FORMS)), drawn=st.lists(_MESSAGE, min_size=1, max_size=8))
def test_what_is_rendered_reads_back_the_same(tmp_path_factory: pytest.TempPathFactory, form: str, drawn: list[tuple[datetime, str, str]]) -> None:
    # A day above twelve, so that every form tells its order.
    messages = sorted([*drawn, (datetime(2018, 12, 31, 23, 59, tzinfo=UTC), "Ana", "first")])
    text = "".join(f"{FORMS[form](at)}{author}: {said}\n" for at, author, said in messages)
    found, errors = read(tmp_path_factory.mktemp("chat"), text)
    assert [(from_micros(m.sent_at), m.author, m.kind, m.text) for m in found] == [(at, author, "text", said) for at, author, said in messages]
    assert errors == []
