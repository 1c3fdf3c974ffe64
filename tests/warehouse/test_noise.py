"""Which rows are noise, and why. Every rule with a row it takes and a neighbour it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from subconscious_pipeline.readers.base import EmailRecord, EventRecord, MessageRecord
from subconscious_pipeline.warehouse.frames import frame
from subconscious_pipeline.warehouse.noise import BEGIN_MARK, END_MARK, HEADER_MARK, NoiseRules, mark_emails, mark_events, mark_messages

RULES = NoiseRules(frozenset({"Straße GmbH", "U9"}), frozenset({"Helper Bot"}), frozenset({"ME@example.org"}))


def of_message(**fields: Any) -> list[str]:
    record = MessageRecord(**{"source_ref": "flat", "sent_at": 0, "text": "the door", "author": "Ana", **fields})
    noise: list[str] = mark_messages(frame(MessageRecord, [record]), RULES)["noise"].to_list()[0]
    return noise


def of_email(**fields: Any) -> list[str]:
    defaults = {
        "source_ref": "a@x",
        "sent_at": 0,
        "date_source": "header",
        "from_name": "Ana",
        "from_addr": "ana@example.org",
        "to": (),
        "subject": "door",
        "body_full": "x",
        "body_new": "x",
    }
    noise: list[str] = mark_emails(frame(EmailRecord, [EmailRecord(**{**defaults, **fields})]), RULES)["noise"].to_list()[0]
    return noise


def of_event(**fields: Any) -> list[str]:
    defaults = {
        "source_ref": "a",
        "series": "a",
        "start_at": 0,
        "end_at": 0,
        "all_day": False,
        "start_date": "1970-01-01",
        "end_date": "1970-01-01",
        "summary": "dentist",
    }
    noise: list[str] = mark_events(frame(EventRecord, [EventRecord(**{**defaults, **fields})]), RULES)["noise"].to_list()[0]
    return noise


@pytest.mark.parametrize(
    ("fields", "noise"),
    [
        ({}, []),
        ({"kind": "system"}, ["system"]),
        ({"kind": "sticker", "text": ""}, ["sticker"]),
        ({"kind": "media", "text": " "}, ["media"]),
        ({"kind": "media", "text": "the new lock"}, []),
        ({"kind": "location", "text": ""}, ["media"]),
        ({"kind": "contact", "text": ""}, ["media"]),
        ({"kind": "poll", "text": "which colour?"}, []),
        ({"kind": "call", "text": ""}, ["call"]),
        ({"kind": "deleted", "text": ""}, ["deleted"]),
        ({"kind": "broadcast"}, ["broadcast"]),
        ({"source_ref": "1234@broadcast"}, ["broadcast"]),
        ({"text": " \n"}, ["empty"]),
        ({"is_bot": True}, ["bot"]),
        ({"author": "helper bot"}, ["agent"]),
        ({"author": "Helper"}, []),
        ({"author": "STRASSE GMBH"}, []),
        ({"author": "straße gmbh"}, ["ignored_author"]),
        ({"author": None, "author_id": "u9"}, ["ignored_author"]),
        ({"text": f"look {BEGIN_MARK} door"}, ["echo"]),
        ({"text": f"door {END_MARK}"}, ["echo"]),
        ({"text": f"> {HEADER_MARK}: topics\ndoor, lock"}, ["echo"]),
        ({"text": "we raised awareness of the subconscious"}, []),
        ({"kind": "system", "is_bot": True}, ["system", "bot"]),
    ],
)
def test_messages(fields: dict[str, Any], noise: list[str]) -> None:
    assert of_message(**fields) == noise


@pytest.mark.parametrize(
    ("fields", "noise"),
    [
        ({}, []),
        ({"kind": "invite"}, []),
        ({"kind": "list"}, ["list"]),
        ({"kind": "marketing"}, ["marketing"]),
        ({"kind": "auto"}, ["auto"]),
        ({"kind": "bounce"}, ["bounce"]),
        ({"labels": ("Inbox", "SPAM")}, ["spam"]),
        ({"labels": ("Papierkorb",)}, ["spam"]),
        ({"labels": ("Spam reports",)}, []),
        ({"sent_at": None, "date_source": "none"}, ["undated"]),
        ({"subject": "", "body_new": " "}, ["empty"]),
        ({"subject": "", "body_new": "yes"}, []),
        ({"from_name": "Helper Bot"}, ["agent"]),
        ({"from_addr": "u9"}, ["ignored_author"]),
        ({"body_new": f"{HEADER_MARK}: topics"}, ["echo"]),
        ({"body_full": f"yes\n> {HEADER_MARK}: topics", "body_new": "yes"}, []),
    ],
)
def test_emails(fields: dict[str, Any], noise: list[str]) -> None:
    assert of_email(**fields) == noise


LURE = "Claim your PRIZE at https://example.org/x"


@pytest.mark.parametrize(
    ("fields", "noise"),
    [
        ({}, []),
        ({"status": "tentative"}, []),
        ({"status": "cancelled"}, ["cancelled"]),
        ({"description": LURE, "organizer": "win@example.net"}, ["spam"]),
        ({"description": LURE, "organizer": "me@example.org"}, []),
        ({"description": LURE, "organizer": ""}, []),
        ({"description": "prize giving at school", "organizer": "school@example.net"}, []),
        ({"description": "agenda: https://example.net/doc", "organizer": "boss@example.net"}, []),
        ({"summary": "", "description": "", "location": ""}, ["empty"]),
        ({"summary": "", "location": "Room 4"}, []),
        ({"organizer": "helper bot"}, ["agent"]),
        ({"organizer": "U9"}, ["ignored_author"]),
        ({"description": f"{BEGIN_MARK}\ndoor"}, ["echo"]),
    ],
)
def test_events(fields: dict[str, Any], noise: list[str]) -> None:
    assert of_event(**fields) == noise


def test_no_names_given_means_nobody_is_ignored() -> None:
    record = MessageRecord(source_ref="flat", sent_at=0, text="door", author="")
    assert mark_messages(frame(MessageRecord, [record]), NoiseRules())["noise"].to_list() == [[]]
