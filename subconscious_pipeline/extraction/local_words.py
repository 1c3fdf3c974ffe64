"""Which words a person would search for: languages and rarity of words by frequency lists. Pure, apart from loading the lists."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from subconscious_pipeline.words import content_words, is_word, normalize, stem

LANGUAGES = ("en", "es", "fr", "de", "it", "pt", "nl")
COMMON = 4.7  # Zipf: about the 3,000 commonest words of a language; nobody searches for them
RARE = 4.4  # Zipf: rare enough that one shared word ties two texts together
KNOWN = 1.8  # Zipf: below it an English word that stands nowhere in the text is taken for invented
EVERYDAY = 5.5  # Zipf: the 500 commonest words
_MARGIN = 0.8

_CONTRACTED = re.compile(r"\w+['’]\w+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


@lru_cache(maxsize=100_000)
def zipf(word: str, language: str = "en") -> float:
    """How common a word is in a language on the Zipf scale: 7 the commonest, 0 unknown.

    Raises:
        ImportError: `wordfreq` is not installed.
    """
    from wordfreq import zipf_frequency

    # Only English comes with a large list worth its loading time: it decides what exists at all.
    return float(zipf_frequency(word, language, wordlist="large" if language == "en" else "small"))


def foreign(word: str) -> bool:
    """Whether a lowercase word is clearly more at home in another language than in English."""
    return max(zipf(word, language) for language in LANGUAGES[1:]) > zipf(word) + _MARGIN


def rare(word: str) -> bool:
    """Whether a lowercase word is common in no language."""
    return all(zipf(word, language) < COMMON for language in LANGUAGES)


def english(text: str) -> bool:
    """Whether English explains the words of a text better than the other languages do. Texts without words count as English."""
    found = [word.lower() for word in _WORD.findall(text)]
    totals = {language: sum(min(zipf(word, language), 6.5) for word in found) for language in LANGUAGES}
    return all(totals["en"] >= total for total in totals.values())


def names(texts: Iterable[str]) -> set[str]:
    """Stems of the parts of people's names, as they would look among keywords."""
    return {stem(normalize(part)) for text in texts for part in _WORD.findall(text)}


def proper(text: str) -> set[str]:
    """Normalized words that are written with a capital inside a sentence of `text`: places, companies, products."""
    found = set()
    for match in _WORD.finditer(text):
        before = text[: match.start()].rstrip("\"'“(¿¡ ")
        # A full stop after a short word ends an abbreviation ("Dr. ", "Av. "), not a sentence.
        inside = before and (before[-1] not in ".!?:-–—\n" or re.search(r"\b[A-Z]\w{0,2}\.$", before))
        if match.group()[0].isupper() and inside:
            found.add(normalize(match.group()))
    return found


def spoken(text: str) -> list[str]:
    """Lowercase words of a text with their accents, for looking them up in frequency lists."""
    return [unicodedata.normalize("NFC", word.lower()) for word in _WORD.findall(text)]


def telling(text: str) -> list[str]:
    """English or proper words of `text` that could stand for it, each once: the rarest first, words of three letters last."""
    accepted: dict[str, tuple[bool, float]] = {}
    capital = proper(text)
    for word in content_words(_CONTRACTED.sub(" ", text)):
        plain = normalize(word)
        if is_word(plain) and len(plain) > 2 and zipf(plain) < EVERYDAY and (plain in capital or not foreign(word)):
            accepted[plain] = (len(plain) == 3, zipf(plain))
    return sorted(accepted, key=lambda word: accepted[word])
