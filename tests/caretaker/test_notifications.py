"""Notifications: listed, followed and acknowledged."""

from __future__ import annotations

import pytest

from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.events import InvalidEvent
from subconscious_pipeline.caretaker.notifications import acknowledge, follow, list_notices

from .world import World


def ended(world: World, *names: str) -> None:
    for name in names:
        client.session_start(world.log, name, world.now, instance_id="desk")
        client.session_end(world.log, name, world.now)
    world.step()


def test_a_notification_is_listed_until_it_is_acknowledged(world: World) -> None:
    ended(world, "a", "b")
    first, second = list_notices(world.log)
    assert [(n.kind, n.session_id, n.acknowledged) for n in (first, second)] == [
        ("SessionAuditPrompt", "a", False),
        ("SessionAuditPrompt", "b", False),
    ]
    acknowledge(world.log, [first.id], world.now)
    assert [n.id for n in list_notices(world.log)] == [second.id]
    assert [(n.id, n.acknowledged) for n in list_notices(world.log, acknowledged=True)] == [(first.id, True), (second.id, False)]
    assert [n.id for n in list_notices(world.log, session_id="b")] == [second.id]
    assert list_notices(world.log, after=second.id) == []


def test_only_notifications_can_be_acknowledged(world: World) -> None:
    ended(world, "a")
    with pytest.raises(InvalidEvent, match="no notification has the id 1;"):
        acknowledge(world.log, [1], world.now)


def test_following_gives_each_once_as_it_comes(world: World) -> None:
    ended(world, "a")
    coming = iter([lambda: None, lambda: ended(world, "b", "c")])

    def wait() -> bool:
        event = next(coming, None)
        if event is not None:
            event()
        return event is not None

    assert [notice.session_id for notice in follow(world.log, wait)] == ["a", "b", "c"]
