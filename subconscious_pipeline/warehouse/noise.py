"""What is not worth a model's attention, and why. Decided once, at ingest, by rules a user can read; rows are marked, never dropped.

The feedback guard lives here too: what agents wrote, and published awareness blocks that come back in a message, must not
feed the index that produced them.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

BEGIN_MARK = "<!-- subconscious:begin -->"
END_MARK = "<!-- subconscious:end -->"
HEADER_MARK = "Subconscious awareness"

_SPAM_LABELS = ("spam", "trash", "junk", "papelera", "papierkorb", "corbeille")
_LURE = (
    r"(?i)\b(?:bitcoin|btc|crypto\w*|forex|giveaway|gift ?cards?|jackpot|lottery|lotería|winner|prize|casino|payday|iphone|"
    r"congratulations|unclaimed|investment opportunity|act now|click here)\b"
)


@dataclass(frozen=True)
class NoiseRules:
    """What the user has told us about authors. Compared case-insensitively with names, ids and addresses."""

    ignored_authors: frozenset[str] = frozenset()
    agent_names: frozenset[str] = frozenset()
    own_addresses: frozenset[str] = frozenset()


def _is_one_of(columns: tuple[str, ...], names: frozenset[str]) -> pl.Expr:
    wanted = [name.lower() for name in names]
    return pl.any_horizontal(pl.col(column).str.to_lowercase().is_in(wanted).fill_null(False) for column in columns)


def _echo(columns: tuple[str, ...]) -> pl.Expr:
    return pl.any_horizontal(
        pl.col(column).str.contains(BEGIN_MARK, literal=True) | pl.col(column).str.contains(END_MARK, literal=True)
        | pl.col(column).str.contains(HEADER_MARK, literal=True)
        for column in columns
    )  # fmt: skip


def _reasons(frame: pl.DataFrame, rules: dict[str, pl.Expr]) -> pl.DataFrame:
    marks = [pl.when(rule).then(pl.lit(reason)) for reason, rule in rules.items()]
    return frame.with_columns(pl.concat_list(marks).list.drop_nulls().alias("noise"))


def mark_messages(frame: pl.DataFrame, rules: NoiseRules) -> pl.DataFrame:
    """Message records with a `noise` column (list of reasons, empty for a row that speaks)."""
    kind, blank = pl.col("kind"), pl.col("text").str.strip_chars() == ""
    return _reasons(
        frame,
        {
            "system": kind == "system",
            "sticker": kind == "sticker",
            "media": kind.is_in(["media", "contact", "location"]) & blank,
            "call": kind == "call",
            "deleted": kind == "deleted",
            "broadcast": (kind == "broadcast") | pl.col("source_ref").str.ends_with("@broadcast"),
            "empty": blank & ~kind.is_in(["system", "sticker", "media", "call", "deleted", "contact", "location"]),
            "bot": pl.col("is_bot"),
            "agent": _is_one_of(("author", "author_id"), rules.agent_names),
            "ignored_author": _is_one_of(("author", "author_id"), rules.ignored_authors),
            "echo": _echo(("text",)),
        },
    )


def mark_emails(frame: pl.DataFrame, rules: NoiseRules) -> pl.DataFrame:
    """E-mail records with a `noise` column."""
    kind = pl.col("kind")
    return _reasons(
        frame,
        {
            "marketing": kind == "marketing",
            "list": kind == "list",
            "auto": kind == "auto",
            "bounce": kind == "bounce",
            "spam": pl.col("labels").list.eval(pl.element().str.to_lowercase().is_in(list(_SPAM_LABELS))).list.any().fill_null(False),
            "undated": pl.col("sent_at").is_null(),
            "empty": (pl.col("subject").str.strip_chars() == "") & (pl.col("body_new").str.strip_chars() == ""),
            "agent": _is_one_of(("from_name", "from_addr"), rules.agent_names),
            "ignored_author": _is_one_of(("from_name", "from_addr"), rules.ignored_authors),
            "echo": _echo(("subject", "body_new")),
        },
    )


def mark_events(frame: pl.DataFrame, rules: NoiseRules) -> pl.DataFrame:
    """Calendar records with a `noise` column. Spam: an invitation by a stranger that carries a link and a lure."""
    words = pl.concat_str("summary", "description", separator=" ")
    by_stranger = (pl.col("organizer") != "") & ~_is_one_of(("organizer",), rules.own_addresses)
    return _reasons(
        frame,
        {
            "cancelled": pl.col("status") == "cancelled",
            "spam": by_stranger & words.str.contains(r"https?://") & words.str.contains(_LURE),
            "empty": pl.concat_str("summary", "description", "location").str.strip_chars() == "",
            "agent": _is_one_of(("organizer",), rules.agent_names),
            "ignored_author": _is_one_of(("organizer",), rules.ignored_authors),
            "echo": _echo(("summary", "description")),
        },
    )
