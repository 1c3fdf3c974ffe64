"""Executing the caretaker's commands, but for the traversal, through the ports. No decisions: what to do has been decided."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from subconscious_pipeline.caretaker.events import MAX_TTL_DAYS, Accessed, Claimed, Command, InvalidEvent, TransactionContext, WorkingContext
from subconscious_pipeline.caretaker.log import Event, EventLog
from subconscious_pipeline.caretaker.monitor import MOST_AT_ONCE
from subconscious_pipeline.caretaker.plan import Run
from subconscious_pipeline.caretaker.ports import Access, Effect, MemoryPort, PublishPort, SessionObservation
from subconscious_pipeline.caretaker.state import State
from subconscious_pipeline.extraction.types import Span

SESSION_SOURCE = "session"  # source type of a note that names no pointer: the session it was made in


def execute(
    run: Run, transaction: TransactionContext, as_of: datetime, log: EventLog, state: State, memory: MemoryPort, publisher: PublishPort
) -> tuple[Effect, tuple[int, ...]]:
    """Execute one command; returns its effect and the ids of the events that are in memory now because of it.

    Raises:
        SubconsciousError: the command failed and is to be tried again.
        ValueError: for a traversal, which has a module of its own.
    """
    match run.command:
        case Command.SWEEP:
            return memory.sweep(transaction, as_of), ()
        case Command.CONSOLIDATE:
            return memory.plan_and_consolidate(transaction, as_of), ()
        case Command.PUBLISH:
            publisher.publish(as_of)
            return Effect(changed=False), ()
        case Command.FLUSH:
            observations = [session_observation(event) for event in log.get(run.event_ids)]
            return memory.flush(observations, run.session_id or "", transaction, as_of), run.event_ids
        case Command.FEEDBACK:
            events = log.read(state.feedback_done, (Accessed.__name__, Claimed.__name__), MOST_AT_ONCE, state.feedback_seen)
            return _record_feedback(events, transaction, as_of, memory), tuple(event.id for event in events)
        case Command.TRAVERSAL:
            raise ValueError("a traversal is run by recall.run_traversal")


def session_observation(event: Event) -> SessionObservation:
    """A working context as memory takes it. It is observed when it was noted, and lives from then, or from the end of its last
    pointer when that lies ahead (an appointment), at most a year."""
    payload = event.payload()
    if not isinstance(payload, WorkingContext):
        raise InvalidEvent(f"event {event.id} is no working context")
    spans = tuple(Span(p.source_type, p.source_ref, p.time_start, p.time_end) for p in payload.pointers)
    last = max([event.at, *(span.time_end for span in spans)])
    alive_from = min(last, event.at + timedelta(days=MAX_TTL_DAYS))
    return SessionObservation(
        event_id=event.id,
        words=payload.words,
        ttl_days=payload.ttl_days,
        observed_at=event.at,
        expires=alive_from.date() + timedelta(days=payload.ttl_days),
        spans=spans or (Span(SESSION_SOURCE, event.session_id or "", event.at, event.at),),
    )


def _record_feedback(events: list[Event], transaction: TransactionContext, as_of: datetime, memory: MemoryPort) -> Effect:
    accesses: list[Access] = []
    claims: list[Claimed] = []
    for event in events:
        try:
            payload = event.payload()
        except InvalidEvent:
            continue  # counted by the fold
        if isinstance(payload, Accessed):
            accesses.extend(Access(concept_id, event.at, event.session_id or "") for concept_id in payload.concept_ids)
        elif isinstance(payload, Claimed):
            claims.append(payload)
    effects = [memory.record_accesses(accesses, transaction, as_of)] if accesses else []
    effects += [memory.claim(claim.concept_ids, claim.core, transaction, as_of) for claim in claims]
    counts: Counter[str] = Counter()
    for effect in effects:
        counts.update(effect.counts)
    return Effect(any(effect.changed for effect in effects), dict(counts))
