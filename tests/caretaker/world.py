"""A small world for the caretaker: a frozen clock, a memory and a publisher that note what was asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from subconscious_pipeline.caretaker.events import TransactionContext
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.ports import Access, Effect, SessionObservation
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.tick import Caretaker, StepReport
from subconscious_pipeline.caretaker.traversal import AssociationConcept, AssociationGraph
from subconscious_pipeline.extraction.types import Span
from subconscious_pipeline.words import stem

NOON = datetime(2026, 4, 3, 12, 0, tzinfo=UTC)
QUIET = CaretakerSettings(sweep_minutes=1e9, consolidate_minutes=1e9)


def after(minutes: float = 0, seconds: float = 0) -> datetime:
    return NOON + timedelta(minutes=minutes, seconds=seconds)


def concept(
    concept_id: int, words: str, refs: Iterable[str] = (), hours_ago: float = 0, tier: str = "ACTIVE_CONTEXT", rarity: float = 1.0
) -> AssociationConcept:
    at = NOON - timedelta(hours=hours_ago)
    names = tuple(words.split())
    pointers = tuple(Span("messaging", ref, at - timedelta(minutes=5), at) for ref in refs)
    return AssociationConcept(concept_id, names, {stem(name): rarity for name in names}, tier, pointers)


# building — lock — key — spare: a chain in which each shares one word with the next; gym stands apart, a year earlier.
CHAIN = (
    concept(1, "building entrance"),
    concept(2, "entrance lock"),
    concept(3, "lock key"),
    concept(4, "key spare", tier="ARCHIVE"),
    concept(5, "gym membership", hours_ago=24 * 365),
)


class Memory:
    """Keeps what it was given under the keys the port names, so repeating changes nothing."""

    def __init__(self, concepts: Iterable[AssociationConcept] = CHAIN) -> None:
        self.calls: list[str] = []
        self.observations: dict[tuple[str, int], SessionObservation] = {}
        self.accesses: set[tuple[int, datetime, str]] = set()
        self.claimed: dict[int, bool] = {}
        self.consolidations: set[str] = set()
        self.sweeps: list[datetime] = []
        self.concepts = tuple(concepts)
        self.on: dict[str, Callable[[], None]] = {}  # what happens while a call is under way

    def _call(self, name: str, detail: object = "") -> None:
        self.calls.append(f"{name} {detail}".strip())
        if name in self.on:
            self.on[name]()

    def sweep(self, transaction: TransactionContext, as_of: datetime) -> Effect:
        self._call("sweep")
        self.sweeps.append(as_of)
        return Effect(False, {"scored": len(self.concepts)})

    def plan_and_consolidate(self, transaction: TransactionContext, as_of: datetime) -> Effect:
        self._call("consolidate")
        before = len(self.consolidations)
        self.consolidations.add(transaction.transaction_id)
        return Effect(len(self.consolidations) > before)

    def flush(self, observations: Sequence[SessionObservation], session_id: str, transaction: TransactionContext, as_of: datetime) -> Effect:
        self._call("flush", f"{session_id} {transaction.trigger} {'+'.join(' '.join(o.words) for o in observations)}")
        before = len(self.observations)
        for observation in observations:
            self.observations.setdefault((session_id, observation.event_id), observation)
        new = len(self.observations) - before
        if "flushed" in self.on:
            self.on["flushed"]()
        return Effect(new > 0, {"observations": new})

    def record_accesses(self, accesses: Sequence[Access], transaction: TransactionContext, as_of: datetime) -> Effect:
        self._call("accesses", ",".join(str(a.concept_id) for a in accesses))
        self.accesses.update((a.concept_id, a.at, a.session_id) for a in accesses)
        return Effect(False)

    def claim(self, concept_ids: Sequence[int], core: bool, transaction: TransactionContext, as_of: datetime) -> Effect:
        self._call("claim", f"{','.join(map(str, concept_ids))}{' core' if core else ''}")
        self.claimed.update(dict.fromkeys(concept_ids, core))
        return Effect(True)

    def associations(self, as_of: datetime) -> AssociationGraph:
        self._call("associations")
        return AssociationGraph(self.concepts)


class Publisher:
    def __init__(self) -> None:
        self.published: list[datetime] = []
        self.on_publish: Callable[[], None] | None = None

    def publish(self, as_of: datetime) -> None:
        if self.on_publish is not None:
            self.on_publish()
        self.published.append(as_of)


class World:
    """A home with a caretaker and a clock that stands until it is moved."""

    def __init__(self, path: Path, settings: CaretakerSettings = QUIET, settled: bool = True) -> None:
        self.now = NOON
        self.settings = settings
        self.log = EventLog(path / "events.db")
        self.memory = Memory()
        self.publisher = Publisher()
        self.caretaker = Caretaker(self.log, self.memory, self.publisher, settings)
        if settled:  # the first sweep and consolidation are over
            self.step()
            self.memory.calls.clear()
            self.publisher.published.clear()
        self._shown = self.log.last_id()

    def clock(self) -> datetime:
        return self.now

    def at(self, minutes: float = 0, seconds: float = 0) -> datetime:
        self.now = after(minutes, seconds)
        return self.now

    def step(self) -> StepReport:
        return self.caretaker.step(self.clock)

    def restart(self) -> None:
        """The process died; another one takes over with nothing but the log."""
        self.caretaker = Caretaker(self.log, self.memory, self.publisher, self.settings)
        assert self.caretaker.start("again", self.clock)

    def trace(self, *kinds: str) -> list[str]:
        """New events since the last look, as `seconds kind detail`."""
        events = self.log.read(self._shown, kinds)
        self._shown = self.log.last_id()
        return [f"{(e.at - NOON).total_seconds():g} {e.kind} {_detail(e.payload())}".strip() for e in events]


def _detail(payload: object) -> str:
    parts = []
    for name in ("command", "request_id", "mode", "cause", "reason", "outcome", "depth", "depth_reached", "words", "task_minutes"):
        value = getattr(payload, name, None)
        if value not in (None, "", ()):
            parts.append(" ".join(value) if isinstance(value, tuple) else str(getattr(value, "value", value)))
    if getattr(payload, "ok", True) is False:
        parts.append("failed")
    if hasattr(payload, "concepts"):
        parts.append("of " + ",".join(f"{c.concept_id}@{c.depth}" for c in payload.concepts))
    if hasattr(payload, "saved_contexts"):
        parts.append(f"saved {payload.saved_contexts} cut off {payload.cut_off_contexts} published {payload.published}")
    return " ".join(parts)
