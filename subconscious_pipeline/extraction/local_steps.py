"""What is done around the small model, as pure functions: choosing lines, cutting pieces, reading replies, joining drafts, cleaning words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import msgspec

from subconscious_pipeline.extraction.local_prompt import EXAMPLE_WORDS
from subconscious_pipeline.extraction.local_words import KNOWN, RARE, english, foreign, names, proper, rare, spoken, telling, zipf
from subconscious_pipeline.extraction.reply import MAX_WORDS, MIN_WORDS, clean_keyword
from subconscious_pipeline.extraction.types import Kind
from subconscious_pipeline.warehouse.transcript import Line, Transcript
from subconscious_pipeline.words import content_words, normalize, stem, stems, tokens

LINES_A_CALL = 8
CHAT_CHARS = 300  # of one line shown; the rest of a longer one is cut off
TEXT_CHARS = 700
TITLE_CHARS = 60
JUDGED_LINES = 4
DENSE = 4
MOST_PAIRS = 4

# Right words for many matters, telling for none.
VAGUE = stems(
    "appointment family meeting office mail doctor patient date feeling customer user owner name two three four five six seven eight nine ten "
    "arrival departure location document notification".split()
)

_LAUGHTER = re.compile(r"(?:j+[aeiou]+|h+[aeiou]+|x+d+|l+o+l+|m+h*|u+h*|a+h*|o+h*|k+)+j?h?")
_STRETCHED = re.compile(r"(.)\1\1")
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override|ignor[aáe]|olvid[aáe]|ignoriere|ignorez|oublie[zr]?)\b.{0,40}"
    r"\b(?:instructions?|rules|prompts?|instrucciones|reglas|anweisungen|regeln|consignes|r[èe]gles)\b"
    r"|\b(?:output|respond|reply|answer|print|return|write|say)\s+(?:exactly|only|nothing but|verbatim)\b"
    r"|(?:^|[.>*\[<#]\s*)(?-i:SYSTEM|ASSISTANT|DEVELOPER)(?-i:\s+(?:PROMPT|MESSAGE|NOTE))?\s*[:\]>]"
    r"|</?\s*(?:system|assistant|instructions?)\s*>|<\|[a-z_]+\|>|\[/?INST\]"
    r"|\byou are (?:now )?(?:an? |the )?(?:ai|llm|language model|chatgpt|claude)\b"
    r"|\b(?:system prompt|as an ai\b|developer mode|jailbreak)|[\"'](?:concepts|keywords|words)[\"']\s*:\s*[\[\"']",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Piece:
    """What one call is about."""

    channel: str
    title: str
    lines: tuple[Line, ...]
    shown: tuple[str, ...]  # texts as the model sees them; of calendar entries with equal texts one

    @property
    def text(self) -> str:
        """The user's message of the call."""
        heading = f"{self.channel}: {self.title}" if self.title else self.channel
        return "\n".join([heading, *(f"{n}: {text}" for n, text in enumerate(self.shown, 1))])

    @property
    def most(self) -> int:
        """How many matters one reply may hold: a mail thread or an event is about one thing, a chat may be about two."""
        return 1 if self.channel in ("email", "calendar") or len(self.shown) < 3 else 2

    @property
    def needs_judge(self) -> bool:
        """Whether it may be nothing but small talk: a chat without several dense lines, or one dense line with a number in it."""
        dense = [text for text in self.shown if strength(text) >= DENSE]
        return self.channel == "chat" and len(dense) < 3 and not any(char.isdigit() for text in dense for char in text)

    @property
    def sample(self) -> str:
        """The most telling lines, which the judge is shown."""
        best = sorted(sorted(range(len(self.shown)), key=lambda place: -strength(self.shown[place]))[:JUDGED_LINES])
        return "\n".join(f"{n}: {self.shown[place][:120]}" for n, place in enumerate(best, 1))


@dataclass(frozen=True)
class Draft:
    """One matter as the model drafted it."""

    lines: frozenset[int]  # numbers of the window's lines
    words: tuple[str, ...]
    kind: Kind
    channel: str
    size: int  # lines that spoke for `kind`
    first: bool = True  # in its reply; the second is the weaker one


def is_order(text: str) -> bool:
    """Whether a text looks like an order to a language model instead of to a person."""
    return _ORDERS.search(text) is not None


def strength(text: str) -> int:
    """How dense a chat line is: its different rare words (no laughter, no stretched words), and one for a number."""
    found = {word for word in spoken(text) if len(word) > 2 and not _LAUGHTER.fullmatch(word) and not _STRETCHED.search(word) and rare(word)}
    return len(found) + any(char.isdigit() for char in text)


def says_something(text: str) -> bool:
    """Whether a chat line may hold part of a matter: it is long, or has three words and a rare one or a number among them."""
    count = len(spoken(text))
    return count >= 9 or (count >= 3 and strength(text) > 0) or (count >= 2 and any(char.isdigit() for char in text))


def _telling_lines(lines: list[Line]) -> list[Line]:
    telling_ones = [line for line in lines if says_something(line.text)]
    if not 0 < len(telling_ones) < 3:
        return telling_ones
    # Common words may hold the matter ("the car won't start"); in a short exchange they cost little.
    return [line for line in lines if line in telling_ones or len(spoken(line.text)) >= 4]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0]


def pieces(transcript: Transcript) -> list[Piece]:
    """Everything worth a call, in the order of the transcript; calendar entries last, grouped by the words they share.

    Lines that look like orders to a model are never shown, chat lines that say nothing neither.
    """
    found = []
    events: list[Line] = []
    for conversation in transcript.conversations:
        lines = [line for line in conversation.lines if not is_order(line.text)]
        if conversation.channel == "calendar":
            events += lines
            continue
        chat = conversation.channel == "chat"
        if chat:
            lines = _telling_lines(lines)
        title = "" if is_order(conversation.title) else _cut(conversation.title, TITLE_CHARS)
        calls = -(-len(lines) // LINES_A_CALL)
        for call in range(calls):
            part = lines[len(lines) * call // calls : len(lines) * (call + 1) // calls]
            shown = tuple(_cut(line.text, CHAT_CHARS if chat else TEXT_CHARS) for line in part)
            found.append(Piece(conversation.channel, title, tuple(part), shown))
    for group in _grouped(events):
        texts = dict.fromkeys(_cut(re.sub(r"\s*\([^()]*\)", "", line.text), TEXT_CHARS) for line in group)
        found.append(Piece("calendar", "", tuple(group), tuple(texts)[:LINES_A_CALL]))
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


class _Entry(msgspec.Struct):
    words: str
    kind: Kind
    lines: list[int] = []


def read_reply(text: str, piece: Piece) -> list[Draft]:
    """The drafts of one reply, in numbers of the window's lines. Words stay as written.

    Raises:
        ValueError: when the reply is not of the agreed form or cites lines that were not shown.
    """
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except msgspec.MsgspecError:
        raise ValueError("the reply is not of the agreed form") from None
    every = frozenset(line.n for line in piece.lines)
    drafts: list[Draft] = []
    for entry in entries:
        if any(not 1 <= n <= len(piece.shown) for n in entry.lines):
            raise ValueError("the reply cites lines that were not shown")
        # Of one line, and of calendar entries with equal texts, all are meant.
        cited = every if piece.channel == "calendar" or not entry.lines else frozenset(piece.lines[n - 1].n for n in entry.lines)
        kind: Kind = "appointment" if piece.channel == "calendar" else entry.kind
        drafts.append(Draft(cited, tuple(word.strip() for word in entry.words.split(",")), kind, piece.channel, len(cited), not drafts))
    return drafts


@dataclass(frozen=True)
class Context:
    """What the steps need to know about a window."""

    texts: Mapping[int, str]  # without orders to a model
    titles: Mapping[int, str]  # none of chats: the name of a group is no matter
    people: frozenset[str]  # stems
    everything: frozenset[str]  # stems of all texts and titles
    places: Mapping[int, tuple[int, str]]  # number and channel of the conversation of each line

    @classmethod
    def of(cls, transcript: Transcript) -> Context:
        """The context of a transcript."""
        texts = {line.n: line.text for line in transcript.lines if not is_order(line.text)}
        kept = [each for each in transcript.conversations if not is_order(each.title)]
        titles = {line.n: each.title for each in kept if each.channel != "chat" for line in each.lines}
        said = [*texts.values(), *(each.title for each in kept)]
        everything = stems(normalize(word) for text in said for word in tokens(text))
        people = names(line.author for line in transcript.lines if "@" not in line.author)
        places = {line.n: (at, each.channel) for at, each in enumerate(transcript.conversations) for line in each.lines}
        return cls(texts, titles, frozenset(people), frozenset(everything), places)

    def text_of(self, numbers: Iterable[int]) -> str:
        """The titles and texts of some lines."""
        chosen = sorted(numbers)
        return "\n".join(dict.fromkeys(text for n in chosen for text in (self.titles.get(n), self.texts[n]) if text))


def clean(drafts: Sequence[Draft], context: Context) -> list[Draft]:
    """The drafts with only words a person would search for.

    Names of speakers, vague, invented and untranslated words go, and so do words that leaked from the examples and, of
    all-English lines, words that stand nowhere in the window. Where too few are left, telling words of the cited lines step in,
    then one of the words left out; a draft that still has too few is dropped.
    """
    cleaned = []
    for draft in drafts:
        text = context.text_of(draft.lines)
        written = {normalize(word): word for word in spoken(text)}
        capital, literal = proper(text), draft.channel != "calendar" and english(text)
        kept: dict[str, str] = {}
        spare: dict[str, str] = {}
        for plain in (plain for word in draft.words for plain in clean_keyword(word)):
            own = stem(plain)
            unsaid = own not in context.everything
            if own in context.people or own in VAGUE or (unsaid and plain in EXAMPLE_WORDS):
                continue
            known = zipf(plain) >= KNOWN and not foreign(written.get(plain, plain))
            if literal and unsaid:
                if known:
                    spare.setdefault(own, plain)
            elif known or plain in capital or (literal and not foreign(written.get(plain, plain))):
                kept.setdefault(own, plain)
        for plain in telling(text) if literal or draft.first else ():
            if len(kept) >= MIN_WORDS:
                break
            if stem(plain) not in context.people | VAGUE and plain in clean_keyword(plain):
                kept.setdefault(stem(plain), plain)
        # Rather a word that is only likely than a matter that is lost.
        if len(kept) == MIN_WORDS - 1 and spare:
            own, plain = next(iter(spare.items()))
            kept.setdefault(own, plain)
        if len(kept) >= MIN_WORDS:
            cleaned.append(replace(draft, words=tuple(kept.values())[:MAX_WORDS]))
    return cleaned


def join(drafts: Sequence[Draft], context: Context) -> list[Draft]:
    """One draft a matter: those that share two stems, or a rare one, become one; a rare word also counts when it stands in the other's lines."""
    joined: list[Draft] = []
    for draft in drafts:
        for place, other in enumerate(joined):
            if _same(draft, other, context):
                joined[place] = _merged(other, draft)
                break
        else:
            joined.append(draft)
    # A merged draft may by now share words with one it did not share words with before.
    return joined if len(joined) == len(drafts) else join(joined, context)


def _same(one: Draft, other: Draft, context: Context) -> bool:
    own, its = {stem(word): word for word in one.words}, {stem(word): word for word in other.words}
    shared = own.keys() & its.keys()
    if len(shared) >= 2 or any(zipf(own[each]) < RARE for each in shared):
        return True
    if one.lines & other.lines:
        return False
    own_text, its_text = (stems(map(normalize, tokens(context.text_of(each.lines)))) for each in (one, other))
    return any(zipf(word) < RARE and each in its_text for each, word in own.items()) or any(
        zipf(word) < RARE and each in own_text for each, word in its.items()
    )


def _merged(one: Draft, other: Draft) -> Draft:
    # Words of both in turn, so that the cut at the most words costs both.
    turns = [word for pair in zip(one.words, other.words, strict=False) for word in pair]
    longer = max(one.words, other.words, key=len)
    ordered: dict[str, str] = {}
    for word in [*turns, *longer[len(turns) // 2 :]]:
        ordered.setdefault(stem(word), word)
    words = tuple(ordered.values())
    leading = max(one, other, key=lambda draft: (draft.channel == "calendar", draft.size))
    return Draft(one.lines | other.lines, words[:MAX_WORDS], leading.kind, leading.channel, one.size + other.size)


def unclear(drafts: Sequence[Draft], context: Context) -> list[tuple[int, int]]:
    """Pairs of drafts that may be one matter though they share no word: one with an e-mail, one with a chat. The model is asked about them."""
    places = [{context.places[n] for n in draft.lines} for draft in drafts]
    channels = [{channel for _, channel in each} for each in places]
    return [
        (one, other)
        for one, other in combinations(range(len(drafts)), 2)
        if not places[one] & places[other]
        and (("email" in channels[one] and "chat" in channels[other]) or ("chat" in channels[one] and "email" in channels[other]))
    ][:MOST_PAIRS]


def tie(drafts: Sequence[Draft], pairs: Iterable[tuple[int, int]]) -> list[Draft]:
    """The drafts with the given pairs made one; a draft joins one other at most."""
    result: dict[int, Draft] = dict(enumerate(drafts))
    tied: set[int] = set()
    for one, other in pairs:
        if not tied & {one, other}:
            result[one] = _merged(result[one], result.pop(other))
            tied |= {one, other}
    return list(result.values())


def finish(drafts: Sequence[Draft], context: Context) -> list[Draft]:
    """Words that several drafts claim stay with the one whose lines say them most; lines nobody cites go to the draft whose rare word they hold."""
    counts = [Counter(stem(normalize(word)) for word in tokens(context.text_of(draft.lines))) for draft in drafts]
    owner: dict[str, int] = {}
    for place, draft in enumerate(drafts):
        for word in draft.words:
            own = stem(word)
            if own not in owner or counts[place][own] > counts[owner[own]][own]:
                owner[own] = place
    cited = frozenset().union(*(draft.lines for draft in drafts))
    finished = []
    for place, draft in enumerate(drafts):
        words = tuple(word for word in draft.words if owner[stem(word)] == place)
        if len(words) < MIN_WORDS:
            words = draft.words
        signs = {stem(word) for word in words if zipf(word) < RARE}
        more = {n for n, text in context.texts.items() if n not in cited and signs & stems(map(normalize, tokens(text)))}
        finished.append(replace(draft, words=words, lines=draft.lines | more))
    return finished
