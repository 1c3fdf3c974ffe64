"""What the caretaker tells minds: listed, followed and acknowledged from the log. Outbound only; reading changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from subconscious_pipeline.caretaker.client import append, checked
from subconscious_pipeline.caretaker.events import NOTIFICATIONS, InvalidEvent, Notification, NotificationAcknowledged
from subconscious_pipeline.caretaker.log import Event, EventLog


@dataclass(frozen=True)
class Notice:
    """One notification as it is shown. `id` is its event id, for acknowledging and as a cursor."""

    id: int
    at: datetime  # aware UTC
    kind: str  # BreakNotification, SessionAuditPrompt or Recollection
    session_id: str
    acknowledged: bool
    content: Notification


def list_notices(log: EventLog, *, session_id: str | None = None, after: int = 0, acknowledged: bool = False) -> list[Notice]:
    """Notifications in order; of one session, newer than a cursor, and with `acknowledged` those already seen as well."""
    events = log.read(after, NOTIFICATIONS)
    seen = _acknowledged(log, after) if events else set()
    notices = [_notice(event, event.id in seen) for event in events if session_id in (None, event.session_id)]
    return [n for n in notices if n is not None and (acknowledged or not n.acknowledged)]


def follow(log: EventLog, wait: Callable[[], bool], *, session_id: str | None = None, after: int = 0) -> Iterator[Notice]:
    """Unacknowledged notifications as they come; `wait` is called between two looks and says whether to go on."""
    while True:
        cursor = log.last_id()
        notices = list_notices(log, session_id=session_id, after=after)
        yield from notices
        after = max([cursor, *(notice.id for notice in notices)])
        if not wait():
            return


def acknowledge(log: EventLog, notification_ids: Sequence[int], at: datetime, session_id: str | None = None) -> int:
    """Say that these were seen; returns the id of the event that says it.

    Raises:
        InvalidEvent: when one of them is no notification.
    """
    payload = checked(NotificationAcknowledged, notification_ids=tuple(notification_ids))
    known = {event.id for event in log.get(notification_ids) if event.kind in NOTIFICATIONS}
    if unknown := [i for i in notification_ids if i not in known]:
        raise InvalidEvent(f"no notification has the id {unknown[0]}; `subconscious notifications` lists them")
    return append(log, payload, at, session_id)


def _acknowledged(log: EventLog, after: int) -> set[int]:
    seen: set[int] = set()
    for event in log.read(after, (NotificationAcknowledged.__name__,)):
        try:
            payload = event.payload()
        except InvalidEvent:
            continue  # counted by the fold
        if isinstance(payload, NotificationAcknowledged):
            seen.update(payload.notification_ids)
    return seen


def _notice(event: Event, acknowledged: bool) -> Notice | None:
    try:
        content = event.payload()
    except InvalidEvent:
        return None  # counted by the fold
    if not isinstance(content, Notification):
        return None
    return Notice(event.id, event.at, event.kind, event.session_id or "", acknowledged, content)
