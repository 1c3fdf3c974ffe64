"""A caretaker process that says what it is about to do, so that a test can kill it there.

It loads everything once, then makes one process for each line `home instant` it reads, by fork. A child says the name of every
call it is about to make on the stores, that it returned, and `done` at the end. After one more line this process says `gone` with the child's exit code.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from subconscious_pipeline.caretaker.bridge import FilePublisher, StoreMemory
from subconscious_pipeline.caretaker.log import EventLog
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.tick import Caretaker
from subconscious_pipeline.home import Home
from subconscious_pipeline.settings import load_settings

KNOBS = CaretakerSettings(recall_tries=1_000)  # a recall that is killed often is tried on; giving up has tests of its own
CALLS = ("sweep", "plan_and_consolidate", "flush", "record_accesses", "claim", "associations")


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def told(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def calling(*arguments: Any, **named: Any) -> Any:
        say(name)
        result = call(*arguments, **named)
        say(f"{name} returned")
        return result

    return calling


def work(root: str, now: datetime, announce: bool = True) -> None:
    """Take up work, do all that is due, and end."""
    home, settings = Home(Path(root)), load_settings()
    memory, publisher = StoreMemory(home, settings), FilePublisher(home, settings)
    if announce:
        for name in CALLS:
            setattr(memory, name, told(name, getattr(memory, name)))
        publisher.publish = told("publish", publisher.publish)  # type: ignore[method-assign]
    with EventLog(home.events) as log:
        caretaker = Caretaker(log, memory, publisher, KNOBS)
        caretaker.start("mortal", lambda: now)
        report = caretaker.step(lambda: now)
        assert not report.busy
        assert not report.failed


def main() -> None:
    say("ready")
    for line in sys.stdin:
        root, now = line.split()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                say(f"pid {os.getpid()}")
                work(root, datetime.fromisoformat(now))
                say("done")
                status = 0
            finally:
                if status:
                    traceback.print_exc()
                    say("failed")
                os._exit(status)
        sys.stdin.readline()  # not before the test has let go of the child's number, which may be given to another process then
        _, status = os.waitpid(child, 0)
        say(f"gone {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
