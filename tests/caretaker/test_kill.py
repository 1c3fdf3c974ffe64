"""`kill -9` of a real caretaker at random moments: what it was doing is done once, as if nobody had disturbed it."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from place import AS_OF, Place, said, span

from subconscious_pipeline.caretaker import client
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.notifications import list_notices
from subconscious_pipeline.caretaker.state import current
from subconscious_pipeline.extraction.types import Usage, WindowResult
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import iso_z, window_at
from subconscious_pipeline.memory import observe, project, store

from .mortal import work

KILLS = 50
# One day's kills: at which word, the how manieth of it. In the order in which a step goes, so that each is still to come.
# Some time after a call began is some moment of it; just when it returned, the store has changed and the log does not know yet.
DAY = (
    ("record_accesses", 1), ("record_accesses returned", 1), ("claim", 1), ("flush", 1), ("flush returned", 1), ("associations", 1),
    ("record_accesses", 2), ("record_accesses returned", 3), ("sweep", 1), ("sweep returned", 1), ("plan_and_consolidate", 1),
    ("plan_and_consolidate returned", 1), ("publish", 1),
)  # fmt: skip
LAST_DAY = (("record_accesses", 1), ("flush", 1), ("flush returned", 1), ("flush", 2), ("flush returned", 1), ("publish", 1))
LONGEST = 0.08  # seconds between the word and the kill; a call takes about as long
SECONDS = 60
SUBJECTS = (
    "door lock key theft parcel courier piano choir tenor garden hedge wasp invoice deposit refund court heron census bicycle brake tyre".split()
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the caretaker to be killed is made by fork")


class Caretakers:
    """Caretaker processes, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "caretaker.mortal"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1],
        )  # fmt: skip
        self._heard = b""
        assert self.hear() == "ready"

    def hear(self) -> str:
        """The next line it says."""
        assert self._process.stdout is not None
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self._process.stdout], [], [], SECONDS)
            assert ready, "the caretaker says nothing"
            more = os.read(self._process.stdout.fileno(), 65_536)
            assert more, "the caretaker's parent has ended"
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def run(self, home: Home, now: datetime, word: str = "", number: int = 1, seconds: float = 0.0) -> str:
        """Have one do what is due at `now`; kill it that long after it has said this word that many times.

        Returns:
            Its last word before it was killed, or `done`.
        """
        self.tell(f"{home.root} {now.isoformat()}")
        pid = int(self.hear().removeprefix("pid "))
        while (line := self.hear()) not in ("done", "failed"):
            number -= line == word
            if line == word and number == 0:
                time.sleep(seconds)
                os.kill(pid, signal.SIGKILL)
                break
        self.tell("over")
        while not (ended := self.hear()).startswith("gone "):
            line = ended
        assert line != "failed"
        assert ended in ("gone 0", f"gone {-signal.SIGKILL}")
        return "done" if ended == "gone 0" else line

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def caretakers() -> Iterator[Caretakers]:
    made = Caretakers()
    yield made
    made.close()


def matter(number: int) -> str:
    """Seven words. Three matters each share three of them: two are merged by one consolidation, the third by the next."""
    subject, first = SUBJECTS[number % len(SUBJECTS)], number - number % 3
    own = [f"{subject}-{number}x{part}" for part in range(7)]
    return " ".join(own if number == first else [*matter(first).split()[:3], *own[3:]])


def remember(place: Place) -> None:
    """Three dozen concepts of the last weeks, some of which belong together; some are forgotten within days."""
    with store.writing(place.home, place.settings) as con:
        for number in range(36):
            moment = AS_OF - timedelta(hours=11 * number)
            seen = said(matter(number), span(f"room-{number % 6}", iso_z(moment)), ttl=20 if number % 4 == 0 else 300)
            done = WindowResult(window_at(moment, 6), "ok", f"h{number}", "fake", "1", Usage(), (seen,), None)
            observe.persist(con, done, AS_OF, place.settings)
        project.project(con, AS_OF)
    assert len(place.concepts()) == 36


def live(home: Home, day: int, last: bool) -> datetime:
    """What minds write on one day; returns the instant at which the caretaker looks. The last day ends with a shutdown."""
    dice = random.Random(day)
    start = AS_OF + timedelta(days=day)
    with EventLog(home.events) as log:
        for name in ("ann", "ben", "cid"):
            session = f"{name}-{day}"
            client.session_start(log, session, start, instance_id=name, rules={"heartbeat_minutes": 100})
            client.activity(log, session, start, "TASK")
            for _ in range(3):
                client.note(log, session, start + timedelta(minutes=dice.randrange(1, 50)), matter(dice.randrange(60)).split()[dice.randrange(3) :])
            client.accessed(log, session, start + timedelta(minutes=2), dice.sample(range(1, 37), 3))
            for request in ("first", "second"):
                client.recall(
                    log, session, start + timedelta(minutes=3), words=matter(dice.randrange(36)).split()[:2], request_id=f"{request}-{session}"
                )
        client.claim(log, f"ann-{day}", start + timedelta(minutes=5), [dice.randrange(1, 37)], core=day == 3)
        client.session_end(log, f"ben-{day}", start + timedelta(minutes=96), "CRASH")
        if last:
            client.shutdown(log, start + timedelta(minutes=97), 600)
    return start + timedelta(minutes=98)


def story(place: Place) -> dict[str, Any]:
    """All that a caretaker has brought about, without the numbers of events and transactions."""
    with EventLog(place.home.events) as log:
        state = current(log)
        notices = Counter((n.session_id, n.content.model_dump_json()) for n in list_notices(log, acknowledged=True))
        settled = {kind: Counter((e.session_id, e.body) for e in log.read(kinds=[kind])) for kind in ("AdvisoryDropped", "SessionClosed")}
    return {
        "notices": notices,
        **settled,
        "concepts": place.concepts(),
        "states": place.memory("SELECT concept_id, tier, claimed, score FROM concept_state ORDER BY 1"),
        "observations": place.memory("SELECT origin, session_id, words, observed_at, expires, concept_id FROM observations ORDER BY ALL"),
        "merges": place.memory("SELECT from_id, into_id FROM merges ORDER BY 1"),
        "accesses": place.memory("SELECT * FROM accesses ORDER BY ALL"),
        "tombstones": place.memory("SELECT concept_id, reason FROM tombstones ORDER BY ALL"),
        "unsaved": {session: len(ids) for session, ids in state.unsaved.items()},
        "open": (state.phase, state.advisories, state.traversing, state.doing, state.feedback_seen == state.feedback_done),
        "published": state.changed_id <= state.published_id,
    }


def sound(place: Place) -> None:
    """What holds after every kill, whatever was under way."""
    with store.reading(place.home, place.settings) as con:
        assert store.broken_invariants(con) == {}
        assert con.execute("SELECT session_id, ordinal FROM observations WHERE origin = 'session' GROUP BY ALL HAVING count(*) > 1").fetchall() == []
        kept = {row[0] for row in con.execute("SELECT ordinal FROM observations WHERE origin = 'session'").fetchall()}
    with EventLog(place.home.events) as log:
        unsaved = {event_id for ids in current(log).unsaved.values() for event_id in ids}
        noted = {event.id for event in log.read(kinds=["WorkingContext"])}
    assert noted == kept | unsaved, "a note is in memory, or still waits to be"


@pytest.mark.timeout(300)
def test_fifty_kills_leave_what_no_kill_would_have_left(tmp_path: Path, place: Place, caretakers: Caretakers) -> None:
    remember(place)
    calm = Place(tmp_path / "calm", place.settings)
    shutil.copytree(place.home.root, calm.home.root, dirs_exist_ok=True)
    dice = random.Random(2026)
    kills: Counter[str] = Counter()
    day = 0
    last = False
    while not last:
        last = kills.total() + len(LAST_DAY) >= KILLS
        now = live(place.home, day, last)
        for word, number in LAST_DAY if last else DAY:
            doing = caretakers.run(place.home, now, word, number, 0.0 if word.endswith("returned") else dice.uniform(0, LONGEST))
            sound(place)
            if doing == "done":  # a process that starts after the shutdown would be a new day's
                break
            kills[doing.split()[0]] += 1
        else:
            assert caretakers.run(place.home, now) == "done"
            sound(place)
        live(calm.home, day, last)
        work(str(calm.home.root), now, announce=False)
        ours, theirs = story(place), story(calm)
        for part in theirs:
            assert ours[part] == theirs[part], f"{part} on day {day}"
        day += 1
    assert kills.total() >= KILLS
    assert {"sweep", "plan_and_consolidate", "flush", "associations", "record_accesses", "publish"} <= set(kills), kills
    assert (theirs["unsaved"], theirs["open"]) == ({}, ("down", {}, None, {}, True))
    with EventLog(place.home.events) as log:
        asked = {f"{request}-{name}-{n}" for request in ("first", "second") for name in ("ann", "ben", "cid") for n in range(day)}
        answers = Counter(event.payload().request_id for event in log.read(kinds=["Recollection", "AdvisoryDropped"]))  # type: ignore[attr-defined]
    assert answers == dict.fromkeys(asked, 1)
