"""Gives the jobs of a sweep to workers, one each, and writes down what comes back, until nothing is
left to do.

Rules. A job that fails is recorded and not tried again. A job whose worker dies is tried again,
``tries`` times in all. A worker whose machine cannot measure is left out, and its job goes to
another. A job that another process has claimed is left to it, and taken over if that process ends
without a result. A worker that is silent for longer than a job can take is replaced, as if it had
died.
"""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from ncubble.profiling.provenance import utc_now
from ncubble.profiling.sweeps.job import Attempt, Machine, Reply, SweepJob
from ncubble.profiling.sweeps.pool import Event
from ncubble.profiling.sweeps.store import DONE, Record, Store
from ncubble.profiling.sweeps.team import NoWorkerError, SchedulerLostError, Team
from ncubble.profiling.sweeps.worker import PROBE_LIMIT_S

TRIES = 3
WAIT_S = 60.0
_HOPELESS_S, _TELL_S = 1.0, 10.0
_SILENT_S = 60.0
"""Ending a job after its time limit takes some seconds; a worker that waits for something reports
it."""
_POLL_S = 0.5
_FOREIGN_S = 1.0


class Workers(Protocol):
    """What this module needs of ``pool.DaskPool``."""

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
    job: SweepJob
    attempts: tuple[Attempt, ...] = ()
    lost: int = 0


class Dispatch:
    """One sweep under way. ``observe`` hears of every task that is settled, with its record;
    ``tell`` of what happens to workers, in a sentence."""

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
        limit_s: float = math.inf,
    ) -> None:
        self.pool, self.store, self.team, self.observe, self.tell = pool, store, team, observe, tell
        self.tries, self.wait_s, self.limit_s = tries, wait_s, limit_s
        self.pending = deque(tasks)
        self.foreign: deque[Task] = deque()
        self.running: dict[str, Task] = {}
        self.settled = 0
        self._heard: dict[str, float] = {}  # when each worker got its order, or reported that it waits
        self._expected: set[str] = set()  # workers that were asked to describe themselves
        self._asked_foreign = self._had_worker = time.monotonic()
        self._told_idle = False
        self._replaced = -wait_s  # when a worker was last lost or restarted: another one will join

    @property
    def left(self) -> int:
        """Jobs that are not settled."""
        return len(self.pending) + len(self.foreign) + len(self.running)

    def run(self) -> None:
        """Settle every task; raises SchedulerLostError, NoWorkerError, DiskError. What is recorded
        then is kept."""
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
        for worker in [name for name in self.running if now - self._heard[name] > self.limit_s + _SILENT_S]:
            self._silent(worker, now - self._heard[worker])
        if self.team.machines or not (self.pending or self.running):
            self._had_worker, self._told_idle = now, False
            return
        if now - self._had_worker > _TELL_S and not self._told_idle:
            self._told_idle = True
            self.tell(f"waiting for a worker: {self._awaited()}")
        hopeless = self.team.left_out and not self._expected and now - self._replaced > self.wait_s
        longest = self.wait_s + (PROBE_LIMIT_S if self._expected else 0.0)
        if now - self._had_worker > (min(_HOPELESS_S, self.wait_s) if hopeless else longest):
            silent = [f"{worker}: its GPU's driver has not answered" for worker in self._expected]
            raise NoWorkerError([*self.team.left_out.values(), *silent], self.left)

    def _awaited(self) -> str:
        if self._expected:
            return (
                f"a new one is connected ({', '.join(sorted(self._expected))}), but its GPU's driver has "
                "not answered yet"
            )
        return f"none is connected; the sweep ends after {self.wait_s:g} s without one"

    def _silent(self, worker: str, silent_s: float) -> None:
        host = self.team.machines.get(worker, Machine()).host or worker
        self.tell(f"a worker on {host} has been silent for {silent_s:.0f} s and is replaced")
        self.pool.restart(worker)
        self._leave(worker)

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
                self.tell(f"a worker is excluded: {self.team.left_out[worker]}")
        elif event.kind == "broken":
            self._broken(worker, event)
        elif worker not in self.running or self.running[worker].key != event.order:
            return  # of an order that was given up
        elif event.kind == "waits":
            self._heard[worker] = time.monotonic()
            if event.value:
                self.tell(f"{self.running[worker].job.label}: {event.value}")
        else:
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
            self.running[worker], self._heard[worker] = task, time.monotonic()
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
        """Look after jobs that another process had: its record settles them, its end makes them
        ours."""
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
        error = f"its worker on {machine.host or 'an unknown host'} ended during the job"
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
            self.tell(f"{task.job.label}: {error}; it is retried")
            self.pending.append(task)  # after the others: it may be what kills workers

    def _broken(self, worker: str, event: Event) -> None:
        """A worker that could not run what it was sent; one that died is told of as ``left``,
        too."""
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
        self.tell(f"a worker is excluded: {self.team.left_out[worker]}")

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
