"""What of a mail its author newly wrote."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.readers.mailtext import html_text, new_text, unflow


@pytest.mark.parametrize(
    ("body", "new"),
    [
        ("Works.\n\nFrom: Help<mailto:h@x>\nSent: 10 July 2024 09:46\nSubject: t\n\nold text", "Works."),
        ("Bien.\n\nDe: Ana <a@x>\nEnviado: lunes\nPara: B\nAsunto: t\n\nviejo", "Bien."),
        ("Gut.\n\nVon: Ana <a@x>\nGesendet: Montag\nAn: B\nBetreff: t\n\nalt", "Gut."),
        ("Bon.\n\nDe : Ana <a@x>\nEnvoyé : lundi\nÀ : B\nObjet : t\n\nvieux", "Bon."),
        ("Yes.\n\n________________________________\nFrom: A <a@x>\nSent: Monday\nTo: B\nSubject: t\n\nold", "Yes."),
        ("Yes.\n\n-----Original Message-----\nFrom: A\nold", "Yes."),
        ("Ja.\n\n-----Ursprüngliche Nachricht-----\nalt", "Ja."),
        ("Yes.\n\n---------- Forwarded message ---------\nold", "Yes."),
        ("Yes.\n\nOn Mon, Jan 1, 2024 at 10:00 AM Ann Lee <a@x> wrote:\n> old", "Yes."),
        ("Yes.\n\nOn Mon, Jan 1, 2024 at 10:00 AM Ann Lee\n<a@x.example> wrote:\n\n> old\n", "Yes."),
        ("Yes.\n\n  On Mon, Jan 1, 2024 Ann wrote:\n  old without marks", "Yes."),
        ("Sí.\n\nEl lun, 1 ene 2024 a las 10:00, Ana (<a@x>) escribió:\n> viejo", "Sí."),
        ("Ja.\n\nAm 01.01.24 um 10:00 schrieb Kai:\n> alt", "Ja."),
        ("Ja.\n\nAm Mo., 1. Jan. 2024 um 10:00 Uhr schrieb Kai Lund <\nk@x>:\n\n> alt", "Ja."),
        ("Oui.\n\nLe lun. 1 janv. 2024 à 10:00, Léa <l@x> a écrit :\n> vieux", "Oui."),
        ("Yes.\n\nAnn Lee <a@x> wrote:\n> old", "Yes."),
        ("Hello\n-- \nTom", "Hello"),
        ("Hello\n-- ", "Hello"),
        ("Hello\n--", "Hello"),
        ("Works.\n\nSent from Mail for Windows", "Works."),
        ("Yes\n\nSent from my iPhone\n\nOn Mon, Jan 1, 2024 Ann wrote:\n> old", "Yes"),
        ("Ja\n\nVon meinem iPhone gesendet", "Ja"),
        ("Sí\n\nEnviado desde mi iPhone", "Sí"),
        ("Patch is fine.\n_______________________________________________\ndev mailing list\nhttps://x.example/listinfo/dev", "Patch is fine."),
    ],
)
def test_quotes_and_signatures_are_cut(body: str, new: str) -> None:
    assert new_text(body) == new


def test_answers_below_and_between_quotes_are_kept() -> None:
    assert new_text("On Mon, Jan 1, 2024 Ann wrote:\n> shall we?\nyes\n> when?\nat nine\n-- \nTom") == "yes\nat nine"
    assert new_text("> shall we?\n\nyes") == "yes"
    assert new_text("Hi\n\nOn Mon, Jan 1, 2024 Ann wrote:\n> one\nyes") == "Hi\n\nyes"


@pytest.mark.parametrize(
    "body",
    [
        "Please bring the key. Best regards from the team at noon.\n\nThanks, the pump is broken.",
        "On Monday he wrote:\nthat is all",
        "From: me\nto you",
        "I was sent from my office to yours.\nSent from my desk, as always,\nthe parcel arrived",
        "Am I right?\nLe chat: noir",
        "list:\n--- a\n--- b",
    ],
)
def test_text_that_only_resembles_a_quote_stays_whole(body: str) -> None:
    assert new_text(body) == body


def test_a_mail_that_is_nothing_but_a_quote_has_no_new_text() -> None:
    assert new_text("> old\n> older") == ""


def test_a_forward_without_a_word_of_its_own_keeps_what_was_forwarded() -> None:
    body = "---------- Forwarded message ---------\nFrom: A <a@x>\nDate: Mon\nSubject: t\n\nthe lift is broken"
    assert "the lift is broken" in new_text(body)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200).filter(lambda text: ">" not in text))
def test_a_body_without_quotes_is_never_emptied(body: str) -> None:
    assert bool(new_text(body)) == bool(body.strip())


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="<>/abdivstyle !-=\"'&;#x0\x00é", max_size=120))
def test_no_markup_makes_html_text_fail(html: str) -> None:
    assert isinstance(html_text(html), str)


def test_flowed_text_keeps_signatures_and_quote_depths() -> None:
    assert unflow("a \nb\n-- \nTom") == "a b\n-- \nTom"
    assert unflow("> a \n>> b\n>c") == "> a\n>> b\n> c"
    assert unflow("long \nword", delsp=True) == "longword"
    assert unflow(" From me") == "From me"
