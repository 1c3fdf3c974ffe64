"""The thin effectful driver: reads the log, folds it, carries out what is due through the ports, and records how it went.

One caretaker works at a time (a lock file, released when its process dies). Every command is recorded as begun before it is
executed and as finished after, so a kill at any moment leads to the same command with the same transaction being executed again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType

from filelock import FileLock, Timeout

from subconscious_pipeline.caretaker import recall
from subconscious_pipeline.caretaker import state as folded
from subconscious_pipeline.caretaker.commands import execute
from subconscious_pipeline.caretaker.events import CaretakerStarted, Command, CommandFinished, CommandStarted, Payload, TransactionContext
from subconscious_pipeline.caretaker.log import EventLog, NewEvent
from subconscious_pipeline.caretaker.plan import Plan, Record, Run, plan
from subconscious_pipeline.caretaker.ports import MemoryPort, PublishPort
from subconscious_pipeline.caretaker.settings import CaretakerSettings
from subconscious_pipeline.caretaker.state import State
from subconscious_pipeline.errors import SubconsciousError

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class StepReport:
    """What one step did. `busy`: another caretaker is at work, nothing was done."""

    busy: bool = False
    recorded: tuple[str, ...] = ()  # kinds of the events written without a command
    ran: tuple[str, ...] = ()  # transaction ids of commands executed
    failed: tuple[str, ...] = ()  # those of them that failed and will be tried again


class CaretakerLock:
    """The right to be the caretaker of a home, held as a context; false inside when another has it."""

    def __init__(self, log: EventLog, seconds: float = 0.0) -> None:
        self._lock = FileLock(log.path.with_name(".caretaker.lock"))
        self._seconds = seconds

    def __enter__(self) -> bool:
        try:
            self._lock.acquire(timeout=self._seconds)
        except Timeout:
            return False
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


class Caretaker:
    """The caretaker of one home, over an open log and the ports of the rooms below."""

    def __init__(self, log: EventLog, memory: MemoryPort, publisher: PublishPort, settings: CaretakerSettings) -> None:
        self.log = log
        self.settings = settings
        self._memory = memory
        self._publisher = publisher
        self._state: State | None = None

    def state(self) -> State:
        """What is known now."""
        self._state = folded.current(self.log, self._state)
        return self._state

    def due(self, as_of: datetime) -> Plan:
        """What a step would do first at `as_of`; changes nothing. For sensors."""
        return plan(self.state(), as_of, self.settings)

    def start(self, instance_id: str, clock: Clock, lock_seconds: float = 0.0) -> bool:
        """Take up work: what was being done before is taken for dead, a completed shutdown is over.

        Returns:
            Whether it could be said: False while another caretaker is at work.
        """
        with CaretakerLock(self.log, lock_seconds) as mine:
            if mine:
                self._write(CaretakerStarted(instance_id=instance_id), f"started-{self.state().last_id}", "start", None, None, clock())
            return mine

    def step(
        self, clock: Clock, only: Collection[Command] | None = None, stop: Callable[[], bool] = lambda: False, lock_seconds: float = 0.0
    ) -> StepReport:
        """Do everything that is due, each command once.

        Args:
            clock: gives the present instant (aware UTC); read before every decision.
            only: execute these commands alone (a job that is for one of them); events are recorded all the same.
            stop: asked before each command; when true, the rest is left for another step.
            lock_seconds: how long to wait for another caretaker to be done; after that the report says `busy`.
        """
        with CaretakerLock(self.log, lock_seconds) as mine:
            return self._step(clock, only, stop) if mine else StepReport(busy=True)

    def _step(self, clock: Clock, only: Collection[Command] | None, stop: Callable[[], bool]) -> StepReport:
        recorded: dict[str, str] = {}
        done: dict[str, bool] = {}
        while True:
            now = clock()
            todo = plan(self.state(), now, self.settings)
            fresh = [record for record in todo.records if record.key not in recorded]
            for record in fresh:
                self._record(record, now)
                recorded[record.key] = type(record.payload).__name__
            if fresh:
                continue
            run = next((r for r in todo.runs if r.key not in done and (only is None or r.command in only)), None)
            if run is None or stop():
                self.log.mark_tick(now)
                return StepReport(False, tuple(recorded.values()), tuple(done), tuple(key for key, ok in done.items() if not ok))
            done[run.key] = self._run(run, clock)

    def _run(self, run: Run, clock: Clock) -> bool:
        if run.command is Command.TRAVERSAL:
            return recall.run_traversal(run, self.log, self._memory, self.state, self.settings, clock)
        now = clock()
        transaction = _transaction(run, now)
        lease = now + timedelta(seconds=self.settings.lease_seconds)
        begun = CommandStarted(command=run.command, tries=run.tries, lease_until=lease, event_ids=run.event_ids)
        self.log.append(NewEvent(begun, now, transaction, f"{run.key}/started/{run.tries}"))
        try:
            effect, event_ids = execute(run, transaction, now, self.log, self.state(), self._memory, self._publisher)
            changed = effect.changed or run.tries > 1  # a try that died may have changed memory and finds nothing left to change
            finished = CommandFinished(
                command=run.command, tries=run.tries, ok=True, changed=changed, counts=dict(effect.counts), event_ids=event_ids
            )
        except SubconsciousError as error:
            finished = CommandFinished(command=run.command, tries=run.tries, ok=False, error=type(error).__name__)
        self.log.append(NewEvent(finished, clock(), transaction, f"{run.key}/finished/{run.tries}"))
        return finished.ok

    def _record(self, record: Record, now: datetime) -> None:
        self._write(record.payload, record.key, record.trigger, record.causation_id, record.session_id, now)

    def _write(self, payload: Payload, key: str, trigger: str, causation_id: int | None, session_id: str | None, now: datetime) -> None:
        transaction = TransactionContext(transaction_id=key, causation_id=causation_id, trigger=trigger, session_id=session_id, at=now)
        self.log.append(NewEvent(payload, now, transaction, key))


def _transaction(run: Run, now: datetime) -> TransactionContext:
    return TransactionContext(transaction_id=run.key, causation_id=run.causation_id, trigger=run.trigger, session_id=run.session_id, at=now)


def tick(log: EventLog, memory: MemoryPort, publisher: PublishPort, as_of: datetime, settings: CaretakerSettings) -> StepReport:
    """One step with the clock standing at `as_of` (aware UTC)."""
    return Caretaker(log, memory, publisher, settings).step(lambda: as_of)
