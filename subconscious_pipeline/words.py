"""What a keyword is: one short, lowercase, singular English word, and when two words count as the same."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

WORD_PATTERN = r"[a-z][a-z0-9]{1,15}(-[a-z0-9]{1,15})?"
_WORD = re.compile(WORD_PATTERN)
_TOKEN = re.compile(r"[^\W_]+(?:-[^\W_]+)*")

# Plural-looking words that are singular, or whose singular is another word.
_KEPT = frozenset(
    "always analysis atlas basis bias bus campus canvas census chaos chess christmas corpus diabetes emphasis gas genesis "
    "glasses headquarters james jeans lens mathematics news oasis pajamas pants paris physics politics scissors series "
    "species tennis texas thanks thesis tuesday vegas virus wales".split()
)
_IRREGULAR = {
    "children": "child", "people": "person", "men": "man", "women": "woman", "feet": "foot", "teeth": "tooth", "mice": "mouse",
    "geese": "goose", "wives": "wife", "knives": "knife", "lives": "life", "shelves": "shelf", "leaves": "leaf", "halves": "half",
    "movies": "movie", "cookies": "cookie", "calories": "calorie", "ties": "tie", "pies": "pie", "shoes": "shoe", "buses": "bus",
    "axes": "axis", "analyses": "analysis", "criteria": "criterion", "caches": "cache", "aches": "ache", "quizzes": "quiz",
    "viruses": "virus", "statuses": "status", "bonuses": "bonus", "campuses": "campus", "lenses": "lens", "gases": "gas", "crises": "crisis",
    "diagnoses": "diagnosis", "headaches": "headache", "biases": "bias", "atlases": "atlas", "canvases": "canvas", "choruses": "chorus",
}  # fmt: skip

# Words that say nothing about a matter: function words, and the generic nouns and verbs of chat.
FILLER = frozenset(
    """
    a able about above across actually after afternoon again against ago ah ahead all almost alone along already alright also although always am
    amazing an and another answer any anybody anymore anyone anything anyway anywhere apparently are area around as ask at away awesome back bad
    basically be because become been before began begin behind being below best better between big bit both bring bro bunch but by bye call came
    can cannot case chat check come coming concern content conversation cool could current currently daily date day dear definitely detail
    did different discuss discussion do doe doing done dont down during each early easy either else email end enough especially etc even evening
    ever every everybody everyone everything everywhere exactly example excited extra fact far feel feeling few finally find fine first following
    for forget forward found friday friend from full fun further future gave general get getting give go going gone gonna good got gotta great
    greeting group guess guy had haha happen happy hard has have having he hello help her here hers herself hey hi him himself his hope hour how
    however i idea if important in information inside instead interesting into is issue it item its itself january february march april june july
    august september october november december just keep kind know last late later least leave left less let life like line link list literally
    little lol long look lot love ma made main make making man many matter may maybe me mean message might mine minute moment monday month more
    morning most mostly much must my myself name near need never new next nice night no nobody none nope nor normal not note nothing now number of
    off often oh ok okay old omg on once one only onto open option or other our ourselves out outside over own part people per perhaps person
    place please plan possible pretty probably problem put question quick quickly quite random rather read ready real really reason recent recently
    regarding reminder reply request right said same saturday saw say second see seem send sent several shall she should show side simple since
    situation small so some somebody somehow someone something sometimes somewhere soon sorry sort start still stop stuff subject such sunday
    super sure take taken talk talking tell text than thank thanks that the their them themselves then there these they thing think this those
    though thought through thursday time to today together told tomorrow tonight too took topic totally toward tried true try trying tuesday two
    type ugh under unless until up update upon us use used using usual usually various very via wait wanna want was way we wednesday week weekday
    weekend well went were what whatever when where whether which while who whoever whole whom whose why will wish with within without wonder
    word work working would wow wrong yeah year yep yes yesterday yet you your yours yourself yup
    """.split()
)  # fmt: skip


def is_word(text: str) -> bool:
    """Whether `text` has the one form a keyword may have: lowercase ASCII, 2 to 16 letters or digits, at most one hyphen."""
    return _WORD.fullmatch(text) is not None


def singular(word: str) -> str:
    """The singular of an English noun by suffix rules with exceptions; other words come back as they are.

    After the S-stemmer of Harman, "How effective is suffixing?", JASIS 42(1), 1991, which strips plurals and nothing else.
    """
    if word in _KEPT or len(word) < 4:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    if word.endswith("oes"):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def normalize(text: str) -> str:
    """Lowercase ASCII form of a word (NFKD, accents dropped), its last part made singular. It may still fail `is_word`."""
    plain = unicodedata.normalize("NFKD", text.strip()).encode("ascii", "ignore").decode("ascii").lower()
    head, dash, tail = plain.rpartition("-")
    return f"{head}{dash}{singular(tail)}"


_local = threading.local()  # a stemmer works on its own fields: threads may not share one


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The Snowball (Porter2) English stem of a lowercase word; words with the same stem count as the same word."""
    if not hasattr(_local, "stemmer"):
        import snowballstemmer

        _local.stemmer = snowballstemmer.stemmer("english")
    stemmed: str = _local.stemmer.stemWord(word)
    return stemmed


def stems(words: Iterable[str]) -> set[str]:
    """The stems of some words."""
    return {stem(word) for word in words}


def tokens(text: str) -> list[str]:
    """The words of free text in order, lowercased and stripped of accents; hyphenated words also in their parts."""
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        word = unicodedata.normalize("NFKD", match.group()).encode("ascii", "ignore").decode("ascii").lower()
        if word:
            found.append(word)
            if "-" in word:
                found.extend(part for part in word.split("-") if part)
    return found


def content_words(text: str) -> list[str]:
    """The words of free text that could be keywords: long enough, no filler, not a bare number."""
    return [word for word in tokens(text) if len(word) > 1 and not word.isdigit() and singular(word) not in FILLER and word not in FILLER]
