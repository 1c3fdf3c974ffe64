"""What is done around the small model, as pure functions: choosing lines, cutting pieces, joining drafts across calls, cleaning words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from subconscious_pipeline.extraction.types import Kind
from subconscious_pipeline.warehouse.transcript import Conversation, Line, Transcript
from subconscious_pipeline.words import FILLER, content_words, normalize, singular, stem, stems, tokens

LINES_A_CALL = 8
CHARS_A_LINE = {"chat": 300}
OTHER_CHARS = 700

_LANGUAGES = ("en", "es", "fr", "de", "it", "pt", "nl")
_COMMON = 4.7
_LAUGHTER = re.compile(r"(?:j+[aeiou]+|h+[aeio]+|k+|x+d+|l+o+l+|m+|u+|a+h*|o+h*)+|(?:ja|je|ha|he)+j?h?")
_STRETCHED = re.compile(r"(.)\1\1")
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override|ignora|ignor[aá]|olvida|olvid[aá]|ignoriere|ignorez)\b.{0,40}"
    r"\b(?:instructions?|rules?|prompts?|directions?|instrucciones|reglas|anweisungen|regeln|consignes)\b"
    r"|\b(?:output|respond|reply|answer|print|return|write|say)\s+(?:exactly|only|nothing but|verbatim|with the following)\b"
    r"|(?:^|[.\s>*\[<#])(?:SYSTEM|ASSISTANT|DEVELOPER)\s*(?:PROMPT|MESSAGE|NOTE)?\s*[:\]>]"
    r"|</?\s*(?:system|assistant|user|instructions?)\s*>|<\|[a-z_]+\|>|\[/?INST\]"
    r"|\byou are (?:now )?(?:an? )?(?:ai|llm|language model|assistant|chatgpt|claude)\b"
    r"|\b(?:system prompt|as an ai|developer mode|jailbreak)\b|[\"']?(?:concepts|keywords)[\"']?\s*:\s*\[",
    re.IGNORECASE | re.DOTALL,
)
_CASED = re.compile(r"(?:SYSTEM|ASSISTANT|DEVELOPER)")


@lru_cache(maxsize=100_000)
def commonness(word: str, language: str = "") -> float:
    """How common a word is, on the Zipf scale (0 unknown, 7 the commonest); in the commonest of some languages, or in one.

    Raises:
        ImportError: `wordfreq` is not installed.
    """
    from wordfreq import zipf_frequency

    return max(float(zipf_frequency(word, each, wordlist="small")) for each in ([language] if language else _LANGUAGES))


@dataclass(frozen=True)
class Piece:
    """What one call is about."""

    channel: str
    title: str
    lines: tuple[Line, ...]
    shown: tuple[str, ...]  # distinct texts as the model sees them; for calendars fewer than lines

    @property
    def text(self) -> str:
        rows = [f"{n}: {text}" for n, text in enumerate(self.shown, 1)]
        return "\n".join([f"{self.channel}: {self.title}" if self.channel != "calendar" else "calendar", *rows])


@dataclass(frozen=True)
class Draft:
    """One matter as the model drafted it, in numbers of the window's lines."""

    lines: tuple[int, ...]
    words: tuple[str, ...]
    kind: Kind
    channel: str


def is_order(text: str) -> bool:
    """Whether a text looks like an order to a language model rather than to a person."""
    return _ORDERS.search(text) is not None


def says_something(text: str) -> bool:
    """Whether a chat line may hold a matter: a rare word among others, a number with a word, or simply length."""
    found = [word for word in re.findall(r"[^\W\d_]+", text.lower())]
    if len(found) >= 9 or (len(found) >= 2 and any(c.isdigit() for c in text)):
        return True
    rare = [
        w for w in found
        if len(w) > 2 and not _LAUGHTER.fullmatch(w) and not _STRETCHED.search(w) and commonness(w) < _COMMON
    ]
    return len(found) >= 3 and bool(rare)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0]


def pieces(transcript: Transcript) -> list[Piece]:
    """Everything worth a call, in the order of the transcript; calendar entries last, grouped by shared title words."""
    found: list[Piece] = []
    events: list[Line] = []
    for conversation in transcript.conversations:
        lines = [line for line in conversation.lines if not is_order(line.text) and not is_order(line.author)]
        if conversation.channel == "calendar":
            events += lines
            continue
        if conversation.channel == "chat":
            lines = [line for line in lines if says_something(line.text)]
        most = CHARS_A_LINE.get(conversation.channel, OTHER_CHARS)
        size = -(-len(lines) // max(1, -(-len(lines) // LINES_A_CALL)))
        for start in range(0, len(lines), size or 1):
            part = tuple(lines[start : start + size])
            found.append(Piece(conversation.channel, _cut(conversation.title, 60), part, tuple(_cut(line.text, most) for line in part)))
    for group in _grouped(events):
        shown = tuple(dict.fromkeys(_cut(re.sub(r"\s*\(.*?\)", "", line.text), 200) for line in group))
        found.append(Piece("calendar", "", tuple(group), shown))
    return found


def _grouped(events: Sequence[Line]) -> list[list[Line]]:
    groups: list[tuple[set[str], list[Line]]] = []
    for line in events:
        own = stems(content_words(line.text))
        for shared, members in groups:
            if len(own & shared) >= 2 or own == shared:
                members.append(line)
                shared &= own
                break
        else:
            groups.append((own, [line]))
    return [members for _, members in groups]
