"""What a model may answer, and the barrier behind it: nothing but short English words, line numbers, a kind and days gets through.

Error messages are written for the model that is asked again: they name places by number and never repeat what it wrote.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from subconscious_pipeline.extraction.types import TTL_DAYS, Kind
from subconscious_pipeline.words import FILLER, is_word, normalize, stem

MIN_WORDS = 3
MAX_WORDS = 8

_POSSESSIVE = re.compile(r"['’ʼ](?:s\b)?", re.IGNORECASE)
_DASHES = re.compile(r"[\u2010-\u2015\u2212]")
_SEPARATORS = re.compile(r"[^A-Za-z0-9-]+")
_ONE_LETTER_PREFIX = re.compile(r"^([A-Za-z])-(?=[A-Za-z]{2})")
_ADDRESS = re.compile(r"@|://|\bwww\b|[^\W_]\.[^\W\d_]{2}")
_LONG_RUN = re.compile(r"\d{4}")
_HEX = re.compile(r"(?=(?:[a-f]*\d){2})[a-f0-9]{6,}")
_NO_VOWELS = re.compile(r"[^aeiouy\d-]{7}")
_LINE = re.compile(r"\[?m?(\d{1,9})\]?", re.IGNORECASE)


def looks_secret(text: str) -> bool:
    """Whether a token looks like a number, a password or an identifier instead of a word.

    Heuristics, on purpose strict: a lost product name costs a word, a published access code costs more.
    """
    letters = [char for char in text if char.isalpha()]
    case_changes = sum(a.islower() != b.islower() for a, b in pairwise(letters))
    lowered = text.lower()
    switches = sum(a.isdigit() != b.isdigit() for a, b in pairwise(lowered) if "-" not in (a, b))
    return (
        sum(char.isdigit() for char in text) >= 5
        or _LONG_RUN.search(text) is not None
        or any(_HEX.fullmatch(part) for part in lowered.split("-"))
        or _NO_VOWELS.search(lowered) is not None
        or (len(letters) >= 6 and not set(lowered) & set("aeiouy"))
        or (switches >= 2 and len(text) >= 5)
        or case_changes >= 5
    )


def _is_filler(word: str) -> bool:
    parts = word.split("-")
    return word in FILLER or "".join(parts) in FILLER or all(part in FILLER or normalize(part) in FILLER for part in parts)


def clean_keyword(text: str) -> Iterator[str]:
    """The keywords a written keyword stands for, normalized: several for a phrase, none where nothing in it is fit to be one.

    Everything yielded passes `words.is_word`, is no filler and does not look like a number, an address or a secret.
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    plain = _DASHES.sub("-", _POSSESSIVE.sub("", plain))
    # Judged before a phrase is taken apart: no part of an address or a telephone number may pass. A letter without ASCII
    # form belongs to another script; dropping it would leave an invented word.
    if any(char.isalnum() and not char.isascii() for char in plain) or _ADDRESS.search(plain) or sum(char.isdigit() for char in plain) >= 5:
        return
    for token in _SEPARATORS.split(plain):
        token = _ONE_LETTER_PREFIX.sub(r"\1", token.strip("-"))
        if looks_secret(token):
            continue
        for part in [token] if token.count("-") <= 1 else token.split("-"):
            word = normalize(part)
            if is_word(word) and not _is_filler(part.lower()) and not _is_filler(word):
                yield word


def _all_required(schema: dict[str, Any]) -> None:
    schema["required"] = list(schema["properties"])
    schema["additionalProperties"] = False
    for field in schema["properties"].values():
        field.pop("default", None)


class ReplyConcept(BaseModel):
    """One distinct matter of the transcript."""

    # The schema asks for exactly these fields; what else a model writes is dropped and not worth asking again.
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, json_schema_extra=_all_required)

    topic: str = Field("", repr=False, exclude=True, description="One English sentence that says what the matter is.")
    lines: list[int] = Field(description="Numbers of the lines that talk about this matter: 12 for the line marked [m12].")
    keywords: list[str] = Field(
        description="3 to 8 specific single English words, lowercase singular nouns, the most telling first; translated from other languages."
    )
    kind: Kind = Field(description="incident, appointment, ongoing or lasting.")
    ttl_days: int = Field(description="Days until the matter is stale: incident 3-7, appointment 14-30, ongoing 30-60, lasting 60-365.")

    @field_validator("topic", mode="before")
    @classmethod
    def _forget_topic(cls, _: object) -> str:
        # It made the model think; nobody may keep it.
        return ""

    @field_validator("lines", mode="before")
    @classmethod
    def _plain_numbers(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [int(match[1]) if isinstance(item, str) and (match := _LINE.fullmatch(item.strip())) else item for item in value]

    @field_validator("lines")
    @classmethod
    def _some_lines(cls, value: list[int]) -> list[int]:
        if not value:
            raise ValueError("cite at least one line of the transcript by its number")
        return sorted(set(value))

    @field_validator("keywords", mode="before")
    @classmethod
    def _split_list(cls, value: object) -> object:
        return re.split(r"[,;\n]", value) if isinstance(value, str) else value

    @field_validator("keywords")
    @classmethod
    def _only_words(cls, value: list[str]) -> list[str]:
        kept: dict[str, str] = {}
        bad = []
        for place, text in enumerate(value, 1):
            found = list(clean_keyword(text))
            if not found:
                bad.append(str(place))
            for word in found:
                kept.setdefault(stem(word), word)
        if len(kept) < MIN_WORDS:
            which = f" (no use: number {', '.join(bad[:20])})" if bad else ""
            raise ValueError(
                f"only {len(kept)} usable and different keywords{which}; give {MIN_WORDS} to {MAX_WORDS} specific single English words of letters, "
                "no generic words, numbers, addresses, codes or repeats"
            )
        return list(kept.values())[:MAX_WORDS]

    @field_validator("kind", mode="before")
    @classmethod
    def _plain_kind(cls, value: object) -> object:
        return value.strip().lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _days_of_its_kind(self) -> ReplyConcept:
        # The kind is the judgment; days outside its range are brought into it, which saves asking again.
        least, most = TTL_DAYS[self.kind]
        self.ttl_days = min(max(self.ttl_days, least), most)
        return self


class Reply(BaseModel):
    """The distinct matters of a transcript; an empty list when there are none."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, title="Reply", json_schema_extra=_all_required)

    known_lines: ClassVar[frozenset[int] | None] = None  # None: any number may be cited

    concepts: list[ReplyConcept] = Field(description="One entry a distinct matter; an empty list when nothing is worth remembering.")

    @field_validator("concepts")
    @classmethod
    def _cited_lines_exist(cls, value: list[ReplyConcept]) -> list[ReplyConcept]:
        if cls.known_lines is None:
            return value
        wrong = [
            f"concept {place}: {', '.join(str(n) for n in unknown[:20])}"
            for place, concept in enumerate(value, 1)
            if (unknown := [n for n in concept.lines if n not in cls.known_lines])
        ]
        if wrong:
            raise ValueError(f"lines that are not in the transcript ({'; '.join(wrong)}); cite only numbers that stand in [m…] marks")
        return value


def reply_model(numbers: Collection[int]) -> type[Reply]:
    """`Reply` narrowed to the lines of one call: citing any other number is an error.

    The numbers travel in a class and not in a validation context, which instructor would also take as variables
    and so as a reason to render message text as a template.
    """
    namespace: dict[str, Any] = {"known_lines": frozenset(numbers), "__doc__": Reply.__doc__, "__module__": __name__}
    return type("Reply", (Reply,), namespace)
