"""Running one Total Recall: the walk, its accesses, its lease, and the recollection. Whether it may start was decided by the gate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from subconscious_pipeline.caretaker import gate
from subconscious_pipeline.caretaker.events import (
    InvalidEvent,
    Payload,
    RecalledConcept,
    Recollection,
    SourcePointer,
    TotalRecallAdvisory,
    TransactionContext,
    TraversalDepth,
    TraversalFinished,
    TraversalOutcome,
    TraversalStarted,
)
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.caretaker.plan import Run
from subconscious_pipeline.caretaker.ports import Access, MemoryPort
from subconscious_pipeline.caretaker.sessions import threshold
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import State
from subconscious_pipeline.caretaker.traversal import Found, Limits, traverse
from subconscious_pipeline.errors import SubconsciousError


def limits(state: State, session_id: str, max_depth: int | None, settings: CaretakerSettings) -> Limits:
    """The bounds of a recall: the session's own or the home's; an advisory may ask for less depth, not for more."""
    session = state.sessions.get(session_id)
    depth = int(threshold(session, "recall_depth", settings))
    return Limits(
        depth if max_depth is None else min(depth, max_depth),
        int(threshold(session, "recall_fan_out", settings)),
        int(threshold(session, "recall_total", settings)),
    )


def run_traversal(
    run: Run, log: EventLog, memory: MemoryPort, state: Callable[[], State], settings: CaretakerSettings, clock: Callable[[], datetime]
) -> bool:
    """Walk depth by depth, look for a reason to halt after each, and deliver what was found; returns whether it was delivered.

    Accesses are dated with the instant the recall was asked for, so a repeated traversal records none twice; the finish and
    the recollection are one append.
    """
    now = clock()
    transaction = TransactionContext(transaction_id=run.key, causation_id=run.causation_id, trigger=run.trigger, session_id=run.session_id, at=now)
    (advisory,) = log.get([run.causation_id or 0])
    asked = advisory.payload()
    if not isinstance(asked, TotalRecallAdvisory):
        raise InvalidEvent(f"event {advisory.id} is no advisory")
    bounds = limits(state(), run.session_id or "", asked.max_depth, settings)

    def lease() -> datetime:
        return clock() + timedelta(seconds=settings.lease_seconds)

    def write(payload: Payload, uid: str) -> NewEvent:
        return NewEvent(payload, clock(), transaction, uid)

    begun = TraversalStarted(request_id=run.request_id, tries=run.tries, max_depth=bounds.depth, lease_until=lease())
    log.append(write(begun, f"{run.key}/started/{run.tries}"))
    found: list[Found] = []
    reached = -1
    outcome = TraversalOutcome.COMPLETED
    try:
        for depth in traverse(memory.associations(now), asked.concept_ids, asked.words, bounds):
            recalled = tuple(f.concept.id for f in depth.found)
            if recalled:
                memory.record_accesses([Access(i, advisory.at, run.session_id or "") for i in recalled], transaction, now)
            found += depth.found
            reached = depth.depth
            done = TraversalDepth(request_id=run.request_id, depth=reached, concept_ids=recalled, lease_until=lease())
            log.append(write(done, f"{run.key}/depth/{run.tries}/{reached}"))
            if (reason := gate.halt(state(), run.request_id)) is not None:
                outcome = reason
                break
    except SubconsciousError as error:
        failed = TraversalFinished(
            request_id=run.request_id, tries=run.tries, outcome=TraversalOutcome.FAILED, depth_reached=reached, recalled=len(found),
            error=type(error).__name__,
        )  # fmt: skip
        log.append(write(failed, f"{run.key}/finished/{run.tries}"))
        return False
    finished = TraversalFinished(request_id=run.request_id, tries=run.tries, outcome=outcome, depth_reached=reached, recalled=len(found))
    recollection = Recollection(request_id=run.request_id, outcome=outcome, depth_reached=reached, concepts=_recalled(found))
    log.append(write(finished, f"{run.key}/finished/{run.tries}"), write(recollection, f"{run.key}/recollection"))
    return True


def _recalled(found: list[Found]) -> tuple[RecalledConcept, ...]:
    strongest_first = sorted(found, key=lambda f: (-f.strength, f.depth, f.concept.id))
    return tuple(
        RecalledConcept(
            concept_id=f.concept.id,
            words=f.concept.words,
            score=round(f.strength, 4),
            depth=f.depth,
            tier=f.concept.tier,
            pointers=tuple(
                SourcePointer(source_type=p.source_type, source_ref=p.source_ref, time_start=p.time_start, time_end=p.time_end)
                for p in f.concept.pointers
            ),
        )
        for f in strongest_first
    )
