"""How well a model finds the matters of windows that people have labelled. Pure scoring, plus one loop that asks an extractor.

Labels: a JSON list of `{"window", "lines": [{"n", "conversation", "at", "author", "text"}], "gold": [{"lines", "optional_lines", "kinds",
"core", "also_right"}]}`. `core` holds keyword groups that should be found, `|` between alternatives; `also_right` acceptable words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.extraction.types import Extractor, Observation, WindowResult
from subconscious_pipeline.instants import Window
from subconscious_pipeline.warehouse.transcript import Conversation, Line, Transcript
from subconscious_pipeline.words import stem

SOURCE_TYPES = {"chat": "messaging", "email": "email", "calendar": "calendar"}


class LabelledLine(msgspec.Struct, frozen=True):
    """One line as labelled; `at` is naive and read as UTC."""

    n: int
    conversation: str  # "chat: Title", "email: Title" or "calendar"
    at: str
    author: str
    text: str


class Gold(msgspec.Struct, frozen=True):
    """One matter a person found."""

    lines: frozenset[int]
    optional_lines: frozenset[int] = frozenset()
    kinds: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    also_right: tuple[str, ...] = ()

    @property
    def groups(self) -> list[set[str]]:
        """The stems of each core group."""
        return [{stem(word) for word in group.split("|")} for group in self.core]

    @property
    def right(self) -> set[str]:
        """The stems of every acceptable word."""
        return set().union({stem(word) for word in self.also_right}, *self.groups)


class LabelledWindow(msgspec.Struct, frozen=True):
    """One window with what should be found in it."""

    window: str
    lines: tuple[LabelledLine, ...]
    gold: tuple[Gold, ...]


@dataclass(frozen=True)
class Tally:
    """Right ones among those given, found ones among those wanted. With nothing given or wanted the ratio is 1."""

    right: int = 0
    given: int = 0
    found: int = 0
    wanted: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.right + other.right, self.given + other.given, self.found + other.found, self.wanted + other.wanted)

    @property
    def precision(self) -> float:
        """Share of what was given that is right."""
        return self.right / self.given if self.given else 1.0

    @property
    def recall(self) -> float:
        """Share of what was wanted that was found."""
        return self.found / self.wanted if self.wanted else 1.0


@dataclass(frozen=True)
class Score:
    """Concepts, keywords and lines of one window or of all."""

    concepts: Tally = Tally()
    keywords: Tally = Tally()
    lines: Tally = Tally()
    kinds: Tally = Tally()

    def __add__(self, other: Score) -> Score:
        return Score(self.concepts + other.concepts, self.keywords + other.keywords, self.lines + other.lines, self.kinds + other.kinds)

    def tallies(self) -> dict[str, Tally]:
        """The four tallies by name."""
        return {"concepts": self.concepts, "keywords": self.keywords, "lines": self.lines, "kinds": self.kinds}


@dataclass(frozen=True)
class WindowReport:
    """One window: its score, seconds, and the words given, for a person to read."""

    window: str
    score: Score
    result: WindowResult
    seconds: float


@dataclass(frozen=True)
class Report:
    """The figures of a whole evaluation. Failed windows count as windows in which nothing was found."""

    model: str
    windows: tuple[WindowReport, ...]

    @property
    def total(self) -> Score:
        """All windows together (micro average)."""
        return sum((each.score for each in self.windows), Score())

    @property
    def seconds_a_window(self) -> float:
        """Mean wall-clock seconds, the start of the model included."""
        return sum(each.seconds for each in self.windows) / len(self.windows) if self.windows else 0.0

    @property
    def failed(self) -> tuple[str, ...]:
        """The windows the model gave no usable answer for."""
        return tuple(each.window for each in self.windows if each.result.status == "failed")


def read_labels(path: Path) -> tuple[LabelledWindow, ...]:
    """The windows of a label file.

    Raises:
        ConfigError: when it cannot be read as such.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[LabelledWindow, ...])
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError:
        raise ConfigError(f"{path} is not a file of labelled windows") from None


def transcript_of(window: LabelledWindow) -> Transcript:
    """The labelled lines as the pipeline would hand them over: a calendar entry is its own conversation, an e-mail its own source."""
    groups: dict[str, tuple[str, str, list[Line]]] = {}
    for line in window.lines:
        channel, _, title = line.conversation.partition(": ")
        source_type = SOURCE_TYPES.get(channel, channel)
        at = datetime.fromisoformat(line.at).replace(tzinfo=UTC)
        calendar = channel == "calendar"
        group = groups.setdefault(f"{line.conversation} {line.n}" if calendar else line.conversation, (source_type, title or line.text, []))
        ref = line.conversation if channel == "chat" else f"{line.conversation} {line.n}"
        local = f"{at:%Y-%m-%d %a %H:%M} +00:00"
        group[2].append(Line(line.n, f"{window.window}-{line.n}", source_type, ref, at, at, local, at.date(), line.author, line.text))
    conversations = tuple(Conversation(source_type, title, tuple(lines)) for source_type, title, lines in groups.values())
    instants = [line.at for conversation in conversations for line in conversation.lines]
    return Transcript(Window(min(instants), max(instants) + timedelta(minutes=1)), conversations, window.window)


def transcripts_from(path: Path) -> tuple[Transcript, ...]:
    """The transcripts of a label file, in its order."""
    return tuple(transcript_of(window) for window in read_labels(path))


def lines_of(observation: Observation, transcript: Transcript) -> frozenset[int]:
    """The numbers of all lines inside the spans of an observation: what a reader of the pointers would see."""
    return frozenset(
        line.n
        for line in transcript.lines
        for span in observation.spans
        if (line.source_type, line.source_ref) == (span.source_type, span.source_ref) and span.time_start <= line.at <= span.time_end
    )


def score(window: LabelledWindow, observations: Sequence[Observation]) -> Score:
    """Compare what was observed in one window with its labels.

    - An observation is about the gold matter with which it shares most lines (optional lines aside; the smaller matter when equal), provided
      at least half of its lines belong to that matter; else about none.
    - Concepts: of several observations about one matter one is right, the others are extra. Recall: matters with an observation.
    - Keywords: a word is right when its stem is in `core` or `also_right` of the matter its observation is about. Recall: core groups of
      which an observation about their matter holds an alternative.
    - Lines: those inside the spans, against the matter's lines, optional lines aside.
    - Kinds: of the observations about a matter, those with an accepted kind.
    """
    transcript = transcript_of(window)
    about: dict[int, list[Observation]] = {}
    right_words = given_words = right_lines = given_lines = right_kinds = 0
    found_lines: dict[int, set[int]] = {}
    for observation in observations:
        cited = lines_of(observation, transcript)
        given_words += len(observation.words)
        place = _matter(cited, window.gold)
        if place is None:
            given_lines += len(cited)
            continue
        gold = window.gold[place]
        about.setdefault(place, []).append(observation)
        right_words += sum(stem(word) in gold.right for word in observation.words)
        right_lines += len(cited & gold.lines)
        given_lines += len(cited - gold.optional_lines)
        right_kinds += observation.kind in gold.kinds
        found_lines.setdefault(place, set()).update(cited & gold.lines)
    found_groups = 0
    for place, members in about.items():
        words = {stem(word) for member in members for word in member.words}
        found_groups += sum(bool(group & words) for group in window.gold[place].groups)
    matched = sum(len(members) for members in about.values())
    return Score(
        concepts=Tally(len(about), len(observations), len(about), len(window.gold)),
        keywords=Tally(right_words, given_words, found_groups, sum(len(gold.core) for gold in window.gold)),
        lines=Tally(right_lines, given_lines, sum(map(len, found_lines.values())), sum(len(gold.lines) for gold in window.gold)),
        kinds=Tally(right_kinds, matched, right_kinds, matched),
    )


def _matter(cited: Iterable[int], golds: Sequence[Gold]) -> int | None:
    cited = frozenset(cited)
    best, best_rank = None, (0, 0)
    for place, gold in enumerate(golds):
        shared, counted = len(cited & gold.lines), len(cited - gold.optional_lines)
        rank = (shared, -len(gold.lines))
        if shared and 2 * shared >= counted and (best is None or rank > best_rank):
            best, best_rank = place, rank
    return best


def evaluate(path: Path, extractor: Extractor, progress: Callable[[WindowReport], None] | None = None) -> Report:
    """Ask an extractor about every labelled window, one after the other, and score what it says.

    Args:
        path: a label file.
        extractor: any model with its strategy; stays open.
        progress: called after each window.

    Raises:
        ConfigError: the file is no label file.
        ExtractionError: the model cannot be asked at all.
    """
    reports = []
    for window in read_labels(path):
        began = time.monotonic()
        result = extractor.extract(transcript_of(window), lambda: False)
        report = WindowReport(window.window, score(window, result.observations), result, time.monotonic() - began)
        reports.append(report)
        if progress:
            progress(report)
    return Report(extractor.model, tuple(reports))
