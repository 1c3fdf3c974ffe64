"""Whether a recall may start. Pure: one answer for every advisory that is open, from the folded log and `as_of` alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from subconscious_pipeline.caretaker.events import DropReason, TraversalOutcome
from subconscious_pipeline.caretaker.sessions import MICROS, Session, threshold
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import Advisory, State
from subconscious_pipeline.instants import from_micros, to_micros

_LONGEST_RETRY = timedelta(hours=1)


@dataclass(frozen=True)
class Start:
    """The traversal of this advisory begins now."""

    request_id: str


@dataclass(frozen=True)
class Wait:
    """Not yet: the debounce window is open, another traversal holds the throttle, or the last try failed a moment ago."""

    request_id: str
    why: Literal["debounce", "throttle", "retry"]
    until: datetime | None  # None: not known, another advisory goes first


@dataclass(frozen=True)
class Drop:
    """It gets no traversal, and why."""

    request_id: str
    reason: DropReason


Decision = Start | Wait | Drop


def decide(state: State, as_of: datetime, settings: CaretakerSettings) -> list[Decision]:
    """One decision for each open advisory, in the order in which they came; at most one of them is `Start`.

    A newer advisory supersedes one of the same session only within that one's debounce window, so the answer does not
    depend on how often anybody asks.
    """
    now = to_micros(as_of)
    alive = state.traversing is not None and state.traversing.lease > now
    free_at = state.traversing.lease if alive and state.traversing else None
    taken = alive
    decisions: list[Decision] = []
    for advisory in state.advisories.values():
        if alive and state.traversing is not None and state.traversing.request_id == advisory.request_id:
            decisions.append(Wait(advisory.request_id, "throttle", from_micros(state.traversing.lease)))
            continue
        session = state.sessions.get(advisory.session_id)
        begins = advisory.asked + round(threshold(session, "debounce_seconds", settings) * MICROS)
        retry = advisory.failed + retry_micros(advisory.tries, settings) if advisory.failed else 0
        if (reason := _drop(state, advisory, session, begins, settings)) is not None:
            decisions.append(Drop(advisory.request_id, reason))
        elif now < begins:
            decisions.append(Wait(advisory.request_id, "debounce", from_micros(begins)))
        elif now < retry:
            decisions.append(Wait(advisory.request_id, "retry", from_micros(retry)))
        elif taken:
            decisions.append(Wait(advisory.request_id, "throttle", None if free_at is None else from_micros(free_at)))
        else:
            decisions.append(Start(advisory.request_id))
            taken = True
    return decisions


def _drop(state: State, advisory: Advisory, session: Session | None, begins: int, settings: CaretakerSettings) -> DropReason | None:
    if state.phase != "running":
        return DropReason.SHUTDOWN
    if advisory.cancelled:
        return DropReason.CANCELLED
    if session is None or advisory.orphaned:
        return DropReason.NOT_CONNECTED
    if advisory.superseded is not None and advisory.superseded < begins:
        return DropReason.SUPERSEDED
    if advisory.tries >= settings.recall_tries:
        return DropReason.FAILED
    return None


def halt(state: State, request_id: str) -> TraversalOutcome | None:
    """Why a running traversal must stop at the next depth, None when it may go on. What it has is delivered all the same."""
    if state.phase != "running":
        return TraversalOutcome.SHUTDOWN
    advisory = state.advisories.get(request_id)
    if advisory is None or advisory.cancelled:
        return TraversalOutcome.CANCELLED
    if advisory.orphaned:
        return TraversalOutcome.SESSION_ENDED
    return None


def retry_micros(tries: int, settings: CaretakerSettings) -> int:
    """How long to wait after failed try number `tries` (from 1), in microseconds: doubling, at most an hour."""
    doublings = min(max(0, tries - 1), 20)
    return round(min(settings.retry_seconds * 2.0**doublings, _LONGEST_RETRY.total_seconds()) * MICROS)
