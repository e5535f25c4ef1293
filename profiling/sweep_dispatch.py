"""Gives the jobs of a sweep to workers, one each, and writes down what comes back, until nothing is left to do.

Rules. A job that fails is recorded and not tried again. A job whose worker dies is tried again, ``tries`` times in all.
A worker whose machine cannot measure is left out, and its job goes to another. A job that another process has claimed
is left to it, and taken over if that process ends without a result.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from ncubble.errors import MeasurementError
from ncubble.profiling.provenance import utc_now
from ncubble.profiling.sweep_job import Attempt, Job, Machine, Reply
from ncubble.profiling.sweep_pool import Event
from ncubble.profiling.sweep_store import DONE, Record, Store

TRIES = 3
WAIT_S = 60.0
_HOPELESS_S, _TELL_S = 1.0, 10.0
_POLL_S = 0.5
_FOREIGN_S = 1.0
RESUME = "the same command goes on with what is missing"


class SchedulerLostError(MeasurementError):
    """The connection to the Dask scheduler broke."""

    def __init__(self, address: str, done: int, left: int) -> None:
        super().__init__(
            f"the scheduler {address} is gone, after {done} of {done + left} jobs",
            f"what was measured is in the store; start the cluster again: {RESUME}",
        )


class NoWorkerError(MeasurementError):
    """No worker is left that can measure."""

    def __init__(self, reasons: Sequence[str], left: int) -> None:
        listed = "".join(f"\n    {reason}" for reason in dict.fromkeys(reasons)) or " none joined the cluster"
        super().__init__(
            f"no worker can measure{f' the {left} jobs that are left' if left else ''}:{listed}",
            f"mend one of them (`ncubble doctor --gpu` there says what it lacks): {RESUME}",
        )


class Workers(Protocol):
    """What this module needs of ``sweep_pool.Pool``."""

    events: queue.SimpleQueue[Event]

    @property
    def address(self) -> str:
        """Of the scheduler."""

    @property
    def connected(self) -> bool:
        """Whether the scheduler has been there all the time."""

    def probe(self, worker: str) -> None:
        """Ask what the worker's machine is."""

    def start(self, worker: str, name: str, order: Mapping[str, Any], machine: Machine, apart: bool) -> None:
        """Have the worker carry out an order, called ``name``."""

    def give_up(self, worker: str) -> None:
        """Forget what a worker that left was asked."""

    def restart(self, worker: str) -> None:
        """Replace the worker's process."""


@dataclass
class Task:
    """A job under its name in the store, and how often it was tried."""

    key: str
    job: Job
    attempts: tuple[Attempt, ...] = ()
    lost: int = 0


@dataclass
class Team:
    """The workers that are known: what their machines are, who is free, and who was left out and why."""

    tools: Sequence[str]
    kind: tuple[str, ...] | None = None
    machines: dict[str, Machine] = field(default_factory=dict)
    idle: deque[str] = field(default_factory=deque)
    spare: dict[str, Machine] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def admit(self, worker: str, machine: Machine) -> str:
        """Take a probed worker in; returns why not, or "". Of several on one GPU one is taken, the others are spare."""
        why_not = machine.why_not
        if not why_not and self.kind is not None and machine.kind(self.tools) != self.kind:
            found, wanted = (", ".join(filter(None, one)) for one in (machine.kind(self.tools), self.kind))
            why_not = f"it has {found}; this sweep is of {wanted}"
        if why_not:
            self.left_out[worker] = f"{machine.host or worker}: {why_not}"
        elif machine.uuid and any(one.uuid == machine.uuid for one in self.machines.values()):
            self.spare[worker] = machine
        else:
            self.machines[worker] = machine
            self.idle.append(worker)
        return why_not

    def remove(self, worker: str) -> None:
        """Forget a worker; a spare one on the same GPU takes its place."""
        gone = self.machines.pop(worker, None)
        self.spare.pop(worker, None)
        self.left_out.pop(worker, None)
        if worker in self.idle:
            self.idle.remove(worker)
        same = [one for one, machine in self.spare.items() if gone and machine.uuid == gone.uuid]
        for one in same[:1]:
            self.admit(one, self.spare.pop(one))

    def leave_out(self, worker: str, why: str) -> None:
        """Give a worker no more jobs."""
        machine = self.machines.get(worker)
        self.remove(worker)
        self.left_out[worker] = f"{machine.host if machine else worker}: {why}"

    def apart(self, worker: str) -> bool:
        """Whether other GPUs of the worker's host are used, too."""
        host = self.machines[worker].host
        return sum(1 for one in self.machines.values() if one.host == host) > 1


class Dispatch:
    """One sweep under way. ``observe`` hears of every task that is settled, with its record; ``tell`` of what happens
    to workers, in a sentence."""

    def __init__(
        self,
        pool: Workers,
        store: Store,
        tasks: Sequence[Task],
        team: Team,
        observe: Callable[[Task, Record], None] = lambda task, record: None,
        tries: int = TRIES,
        wait_s: float = WAIT_S,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.pool, self.store, self.team, self.observe, self.tell = pool, store, team, observe, tell
        self.tries, self.wait_s = tries, wait_s
        self.pending = deque(tasks)
        self.foreign: deque[Task] = deque()
        self.running: dict[str, Task] = {}
        self.settled = 0
        self._expected: set[str] = set()  # workers that are asked what they are
        self._asked_foreign = self._had_worker = time.monotonic()
        self._told_idle = False
        self._replaced = -wait_s  # when a worker was last lost or restarted: another one will join

    @property
    def left(self) -> int:
        """Jobs that are not settled."""
        return len(self.pending) + len(self.foreign) + len(self.running)

    def run(self) -> None:
        """Settle every task; raises SchedulerLostError, NoWorkerError, DiskError. What is recorded then is kept."""
        try:
            while self.left:
                self._take_back()
                self._assign()
                self._check()
                try:
                    self.handle(self.pool.events.get(timeout=_POLL_S))
                except queue.Empty:
                    continue
        finally:
            for task in (*self.running.values(), *self.pending):
                self.store.release(task.key)

    def _check(self) -> None:
        if not self.pool.connected:
            raise SchedulerLostError(self.pool.address, self.settled, self.left)
        now = time.monotonic()
        if self.team.machines or not (self.pending or self.running):
            self._had_worker, self._told_idle = now, False
            return
        if now - self._had_worker > _TELL_S and not self._told_idle:
            self._told_idle = True
            self.tell(f"no worker is there at the moment; waiting {self.wait_s:g} s for one")
        hopeless = self.team.left_out and not self._expected and now - self._replaced > self.wait_s
        if now - self._had_worker > (min(_HOPELESS_S, self.wait_s) if hopeless else self.wait_s):
            raise NoWorkerError(list(self.team.left_out.values()), self.left)

    def handle(self, event: Event) -> None:
        """Take note of what happened to a worker."""
        worker = event.worker
        if event.kind == "joined":
            self._leave(worker)
            self._expected.add(worker)
            self.pool.probe(worker)
        elif event.kind == "left":
            self._leave(worker)
        elif event.kind == "probed":
            self._expected.discard(worker)
            if worker not in self.team.machines and self.team.admit(worker, event.value):
                self.tell(f"a worker is left out: {self.team.left_out[worker]}")
        elif event.kind == "broken":
            self._broken(worker, event)
        elif worker in self.running and self.running[worker].key == event.order:
            self._done(worker, self.running.pop(worker), event.value)

    def _assign(self) -> None:
        while self.pending and self.team.idle:
            task = self.pending.popleft()
            if not self.store.claim(task.key):
                self.foreign.append(task)
                continue
            if self._settled_elsewhere(task):
                self.store.release(task.key)
                continue
            worker = self.team.idle.popleft()
            self.running[worker] = task
            machine = self.team.machines[worker]
            self.pool.start(worker, task.key, task.job.order, machine, self.team.apart(worker))

    def _settled_elsewhere(self, task: Task) -> bool:
        """Whether another sweep on this store has settled the task since this one was planned."""
        record = self.store.find(task.key, task.job.folder(task.key))
        if record is None or (record.state not in DONE and len(record.attempts) <= len(task.attempts)):
            return False
        if record.state == "lost":
            task.attempts = record.attempts
            return False
        self._settle(task, record)
        return True

    def _take_back(self) -> None:
        """Look after jobs that another process had: its record settles them, its end makes them ours."""
        if not self.foreign or time.monotonic() - self._asked_foreign < _FOREIGN_S:
            return
        self._asked_foreign = time.monotonic()
        for _ in range(len(self.foreign)):
            task = self.foreign.popleft()
            if not self.store.claim(task.key):
                self.foreign.append(task)
            elif self._settled_elsewhere(task):
                self.store.release(task.key)
            else:
                self.pending.append(task)

    def _leave(self, worker: str) -> None:
        self.pool.give_up(worker)
        self._expected.discard(worker)
        machine = self.team.machines.get(worker, Machine())
        if machine.host:
            self._replaced = time.monotonic()
        self.team.remove(worker)
        if (task := self.running.pop(worker, None)) is not None:
            self._lost(task, machine)

    def _lost(self, task: Task, machine: Machine) -> None:
        """The worker died over a task: it is tried again, or has failed."""
        task.lost += 1
        error = f"its worker on {machine.host or 'a host unknown'} ended during the job"
        if final := task.lost >= self.tries:
            error = f"{error}; so did {task.lost - 1} before"
        attempt = Attempt("lost", ended=utc_now(), host=machine.host, gpu=machine.uuid, error=error, exit_code=3)
        task.attempts = (*task.attempts, attempt)
        record = self._record(task, "failed" if final else "lost", "", machine)
        self.store.save(record)
        if final:
            self.store.release(task.key)
            self._settle(task, record)
        else:
            self.tell(f"{task.job.label}: {error}; it is tried again")
            self.pending.append(task)  # behind the others: it may be what kills workers

    def _broken(self, worker: str, event: Event) -> None:
        """A worker that could not run what it was sent; one that died is told of as ``left``, too."""
        self._expected.discard(worker)
        task = self.running.pop(worker, None) if event.order else None
        if "KilledWorker" in str(event.value):
            machine = self.team.machines.get(worker, Machine())
            self.team.remove(worker)
            if task is not None:
                self._lost(task, machine)
            return
        self._leave_out(worker, str(event.value))
        if task is not None:
            self.store.release(task.key)
            self.pending.appendleft(task)

    def _leave_out(self, worker: str, why: str) -> None:
        self.team.leave_out(worker, why)
        self.tell(f"a worker is left out: {self.team.left_out[worker]}")

    def _done(self, worker: str, task: Task, reply: Reply) -> None:
        machine, attempt = self.team.machines.get(worker, Machine()), reply.attempt
        if attempt.state == "unable":
            self._leave_out(worker, attempt.error)
            self.store.release(task.key)
            self.pending.appendleft(task)
            return
        if reply.suspect:
            self.team.remove(worker)
            self._replaced = time.monotonic()
            self.pool.restart(worker)
        else:
            self.team.idle.append(worker)
        task.attempts = (*task.attempts, attempt)
        folder = task.job.folder(task.key) if attempt.state in DONE else ""
        if folder:
            self.store.keep(folder, reply.files)
        record = self._record(task, attempt.state, folder, machine)
        self.store.save(record)
        self.store.release(task.key)
        self._settle(task, record)

    def _record(self, task: Task, state: str, folder: str, machine: Machine) -> Record:
        known = asdict(replace(machine, gpus=()))
        return Record(task.key, state, folder, dict(task.job.about), known, task.attempts)

    def _settle(self, task: Task, record: Record) -> None:
        self.settled += 1
        self.observe(task, record)
