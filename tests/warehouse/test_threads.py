"""E-mail threads do not depend on the order or the number of imports."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from place import Place

from subconscious_pipeline.warehouse.threads import thread_roots


def mail(identity: str, subject: str, hour: int, reply_to: str = "", text: str = "text") -> str:
    answered = f"In-Reply-To: <{reply_to}>\n" if reply_to else ""
    return (
        f"From: Ana <ana@example.org>\nTo: me@example.org\nMessage-ID: <{identity}>\n{answered}Subject: {subject}\n"
        f"Date: Mon, 30 Mar 2026 {hour:02}:00:00 +0200\n\n{text}\n"
    )


MAILS = {
    "a": mail("a@x", "door", 9),
    "b": mail("b@x", "another subject", 10, "a@x"),
    "c": mail("c@x", "Re: door", 11, "b@x"),
    "d": mail("d@x", "door", 12),
}


@pytest.mark.parametrize("order", list(permutations("abcd"))[::5])
def test_one_conversation_is_one_thread_in_whatever_order_it_arrives(place: Place, order: tuple[str, ...]) -> None:
    for name in order:
        place.source(f"{name}.eml", MAILS[name])
        place.ingest()
    for name in order:  # everything once more
        place.source(f"{name}.eml", MAILS[name] + "\n")
    assert place.ingest().new == 0
    assert place.warehouse("SELECT source_ref, thread_id FROM emails ORDER BY 1") == [("a@x", "a@x"), ("b@x", "a@x"), ("c@x", "a@x"), ("d@x", "d@x")]


def test_a_thread_whose_root_never_came_is_still_one_thread(place: Place) -> None:
    place.source("b.eml", mail("b@x", "one", 10, "lost@x"))
    place.source("c.eml", mail("c@x", "two", 11, "lost@x"))
    place.ingest()
    assert place.warehouse("SELECT source_ref, thread_id FROM emails ORDER BY 1") == [("b@x", "lost@x"), ("c@x", "lost@x")]


def test_a_thread_is_read_together_and_titled_by_who_began_it(place: Place) -> None:
    for name in "dcba":
        place.source(f"{name}.eml", MAILS[name])
    place.ingest()
    transcript = place.transcript("2026-03-30T06:00Z")
    assert [[line.source_ref for line in conversation.lines] for conversation in transcript.conversations] == [["a@x", "b@x", "c@x"], ["d@x"]]
    assert {(conversation.channel, conversation.title) for conversation in transcript.conversations} == {("email", "Ana")}
    assert next(transcript.lines).text == "Subject: door. text"


def test_the_root_is_the_one_that_answers_nothing() -> None:
    assert thread_roots({"z": (), "b": ("z",), "c": ("z", "b"), "alone": ()}) == {"z": "z", "b": "z", "c": "z", "alone": "alone"}


def test_mails_that_refer_to_each_other_in_a_circle_have_one_thread() -> None:
    assert thread_roots({"b": ("a",), "a": ("b",), "self": ("self",)}) == {"a": "a", "b": "a", "self": "self"}


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True), max_size=8), st.randoms())
@settings(max_examples=100, deadline=None)
def test_threads_do_not_depend_on_the_order_of_mails(parents: dict[str, list[str]], random: object) -> None:
    names = list(parents)
    random.shuffle(names)  # type: ignore[attr-defined]
    roots = thread_roots(parents)
    assert thread_roots({name: parents[name] for name in names}) == roots
    for mail_id, refs in parents.items():
        for ref in refs:
            assert ref not in roots or roots[ref] == roots[mail_id]
