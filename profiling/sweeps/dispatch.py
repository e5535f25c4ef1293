"""Gives the jobs of a sweep to workers, one each, and writes down what comes back, until nothing is
left to do.

Rules. A job that fails is recorded and not tried again. A job whose worker dies is tried again,
``TRIES`` times in all. A worker whose machine cannot measure, or not what the sweep is for, is left
out, and its job goes to another. A job that another process has claimed is left to it, and taken
over if that process ends without a result. Of several workers on one GPU, one has a job at a time.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.profiling.provenance import utc_now
from ncubble.profiling.sweeps.store import DONE, Attempt, Machine, Record, State, Store, SweepJob
from ncubble.profiling.sweeps.worker import Reply, end_jobs, probe, run_job

TRIES = 3
RESUME = "the same command continues with the missing jobs"
LATE_S = 3.0
"""A worker that joins later than this after the first does not decide what the sweep is for."""
POLL_S, FOREIGN_S, TELL_S, HOPELESS_S = 0.05, 1.0, 10.0, 1.0


class SchedulerLostError(MeasurementError):
    """The connection to the scheduler of the workers broke."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the scheduler {address} is gone", f"finished jobs are in the store; restart the cluster: {RESUME}"
        )


class NoWorkerError(MeasurementError):
    """No worker is left that can measure."""

    def __init__(self, reasons: Iterable[str]) -> None:
        listed = "".join(f"\n    {reason}" for reason in dict.fromkeys(reasons)) or " none joined the cluster"
        super().__init__(
            f"no worker can measure:{listed}",
            f"fix one of them (`ncubble doctor --gpu` on it shows what is missing): {RESUME}",
        )


class Workers:
    """One worker: a thread that has jobs done on the first GPU of ``machine``, this host.
    ``DaskWorkers`` are more. ``say`` is told what happens to workers and jobs, in sentences."""

    def __init__(self, say: Callable[[str], None] = lambda sentence: None, machine: Machine | None = None) -> None:
        self.say, self._machine = say, machine
        self.ask: Callable[..., Machine] = probe
        self.work: Callable[..., Reply] = run_job
        self._pool = ThreadPoolExecutor(1)
        self._joined = [("here", True)]

    def changes(self) -> list[tuple[str, bool]]:
        """Who joined (True) or left since the last call, in order; raises SchedulerLostError."""
        joined, self._joined = self._joined, []
        return joined

    def probe(self, worker: str, child: Sequence[str]) -> Any:
        """A future of the worker's machine."""
        return self._pool.submit(lambda: self._machine or self.ask(child))

    def start(self, worker: str, label: str, *arguments: Any) -> Any:
        """A future of ``run_job`` with these arguments; ``say`` is told what it waits for."""
        return self._pool.submit(lambda: self.work(*arguments, lambda sentence: self.say(f"{label}: {sentence}")))

    def forget(self, future: Any) -> None:
        """Give up what a worker that left was asked."""

    def close(self, busy: Sequence[str]) -> None:
        """End what is still under way on ``busy`` workers."""
        end_jobs()
        self._pool.shutdown(cancel_futures=True)


@dataclass
class Task:
    """A job under its name in the store, and how often it was tried."""

    key: str
    job: SweepJob
    attempts: tuple[Attempt, ...] = ()
    lost: int = 0


@dataclass
class Member:
    """A worker: its machine, once known (``probing``: the future of it), why it is left out, and
    the task that it has, with its future."""

    probing: Any
    machine: Machine = field(default_factory=Machine)
    why_not: str = ""
    task: Task | None = None
    future: Any = None

    @property
    def works(self) -> bool:
        """Whether it may have jobs."""
        return self.probing is None and not self.why_not


@dataclass(frozen=True)
class SweepSettings:
    """``child`` and ``limit_s`` as in ``run_job``; ``tools`` are programs whose versions identify a
    measurement; ``device``: only GPUs of this name; ``wait_s``: how long the sweep goes on without
    any worker; ``retry_failed``: measure failed jobs again."""

    child: Sequence[str]
    tools: Sequence[str]
    limit_s: float = 300.0
    device: str = ""
    wait_s: float = 60.0
    retry_failed: bool = False


def plan(
    jobs: Iterable[SweepJob], store: Store, machine: Machine, settings: SweepSettings
) -> tuple[dict[str, Task], dict[str, Record]]:
    """What is left to do for machines like this one, in the order of ``jobs``, and the records of
    what the store holds, both by key. Raises ReportError."""
    todo: dict[str, Task] = {}
    held: dict[str, Record] = {}
    for job in jobs:
        key = job.key(machine, settings.tools)
        record = store.find(key, job.folder(key))
        if record and (record.state in DONE or (record.state == "failed" and not settings.retry_failed)):
            held[key] = record
        else:
            todo[key] = Task(key, job, record.attempts if record else ())
    return todo, held


class Dispatch:
    """One sweep under way: ``gather`` finds out what machine it is for, and ``run`` has tasks done
    there."""

    def __init__(self, workers: Workers, store: Store, settings: SweepSettings) -> None:
        self.workers, self.store, self.settings, self.say = workers, store, settings, workers.say
        self.members: dict[str, Member] = {}
        self.machine = Machine()
        self.pending: deque[Task] = deque()
        self.foreign: deque[Task] = deque()
        self._looked = 0.0
        self._had_worker = self._lost_worker = time.monotonic() - settings.wait_s
        self._told = False

    def gather(self) -> Machine:
        """The kind of machine that most workers have: waits for the first that can measure, then a
        moment for the others. Raises NoWorkerError and SchedulerLostError."""
        first, self._had_worker = 0.0, time.monotonic()
        while True:
            self._look()
            able = [member.machine for member in self.members.values() if member.works]
            probing = any(member.probing for member in self.members.values())
            first = first or (time.monotonic() if able else 0.0)
            if able and (not probing or time.monotonic() - first > LATE_S):
                break
            self._require_workers()
            time.sleep(POLL_S)
        kind = Counter(machine.kind(self.settings.tools) for machine in able).most_common(1)[0][0]
        self.machine = next(machine for machine in able if machine.kind(self.settings.tools) == kind)
        for name, member in self.members.items():
            self._admit(name, member)
        return self.machine

    def run(self, tasks: Iterable[Task], settled: Callable[[Task, Record], None]) -> None:
        """Settle every task; ``settled`` hears of each, with its record. Raises SchedulerLostError,
        NoWorkerError and DiskError; what is recorded then is kept."""
        self.pending.extend(tasks)
        self.settled = settled
        self._had_worker = time.monotonic()
        try:
            while self.pending or self.foreign or self._busy():
                self._look()
                for name, member in list(self.members.items()):
                    if member.future is not None and member.future.done():
                        self._done(name, member)
                self._take_back()
                self._assign()
                if self.pending or self._busy():
                    self._require_workers()
                time.sleep(POLL_S)
        finally:
            for task in (*(member.task for member in self._busy().values() if member.task), *self.pending):
                self.store.release(task.key)
            self.workers.close(list(self._busy()))

    def _busy(self) -> dict[str, Member]:
        return {name: member for name, member in self.members.items() if member.task is not None}

    def _look(self) -> None:
        """Take note of who joined, who left, and of machines that are known now."""
        for name, joined in self.workers.changes():
            if (gone := self.members.pop(name, None)) is not None:
                self._left(gone)
            if joined:
                self.members[name] = Member(self.workers.probe(name, self.settings.child))
        for name, member in self.members.items():
            if member.probing is not None and member.probing.done():
                try:
                    member.machine = member.probing.result()
                except Exception as error:  # whatever a cluster, or unpickling on either side, can raise
                    member.machine = Machine(host=name, why_not=f"{type(error).__name__}: {error}")
                member.probing = None
                self._admit(name, member)

    def _admit(self, name: str, member: Member) -> None:
        """Leave out a worker that does not measure what the sweep is for."""
        machine, tools, device = member.machine, self.settings.tools, self.settings.device
        why = machine.why_not
        if not why and device not in ("", machine.device):
            why = f"{machine.device} is not {device}"
        if not why and self.machine.device and machine.kind(tools) != self.machine.kind(tools):
            kind, wanted = (", ".join(filter(None, one.kind(tools))) for one in (machine, self.machine))
            why = f"it has {kind}; this sweep is for {wanted}"
        if why and not member.why_not and member.probing is None:
            self._leave_out(name, member, why)

    def _leave_out(self, name: str, member: Member, why: str) -> None:
        member.why_not = f"{member.machine.host or name}: {why}"
        self.say(f"a worker is excluded: {member.why_not}")

    def _require_workers(self) -> None:
        """Raise NoWorkerError where none can measure any more, or none came for a while."""
        now, members = time.monotonic(), self.members.values()
        if any(member.works for member in members):
            self._had_worker, self._told = now, False
            return
        probing = any(member.probing for member in members)
        hopeless = members and not probing and now - self._lost_worker > self.settings.wait_s
        if not self._told and now - self._had_worker > TELL_S:
            self._told = True
            what = "one has joined, but its GPU's driver has not answered yet" if probing else "none has joined"
            self.say(f"waiting for a worker: {what}; the sweep ends after {self.settings.wait_s:g} s without one")
        limit_s = min(HOPELESS_S, self.settings.wait_s) if hopeless else self.settings.wait_s
        if not probing and now - self._had_worker > limit_s:
            raise NoWorkerError(member.why_not for member in members)

    def _assign(self) -> None:
        able = {name: member for name, member in self.members.items() if member.works}
        used = {member.machine.uuid for member in able.values() if member.task is not None}
        hosts = Counter(host for host, _ in {(one.machine.host, one.machine.uuid) for one in able.values()})
        for name, member in able.items():
            machine = member.machine
            if member.task is not None or (machine.uuid and machine.uuid in used) or (task := self._next()) is None:
                continue
            used.add(machine.uuid)
            member.task = task
            arguments = (self.settings.child, self.settings.limit_s, machine, hosts[machine.host] > 1)
            member.future = self.workers.start(name, task.job.label, dict(task.job.order), *arguments)

    def _next(self) -> Task | None:
        """The next task, claimed for this process; None where there is none now."""
        while self.pending:
            task = self.pending.popleft()
            if not self.store.claim(task.key):
                self.foreign.append(task)
            elif not self._settled_elsewhere(task):
                return task
        return None

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
        if self.foreign and time.monotonic() - self._looked > FOREIGN_S:
            self._looked = time.monotonic()
            self.pending.extend(self.foreign)
            self.foreign.clear()

    def _done(self, name: str, member: Member) -> None:
        """Take what a worker sent back."""
        task, future, member.task, member.future = member.task, member.future, None, None
        assert task is not None  # noqa: S101 - it has a future
        try:
            reply: Reply = future.result()
        except Exception as error:  # whatever a cluster, or unpickling on either side, can raise
            if "KilledWorker" in type(error).__name__:
                self._lost(task, member.machine)
                return
            if "Cancelled" in type(error).__name__:  # the scheduler was restarted, and knows nothing of us
                self.pending.appendleft(task)
                raise SchedulerLostError("of the workers") from error
            reply = Reply(Attempt("unable", error=f"{type(error).__name__}: {error}"))
        attempt = reply.attempt
        if attempt.state == "unable":
            self._leave_out(name, member, attempt.error)
            self.store.release(task.key)
            self.pending.appendleft(task)
            return
        task.attempts = (*task.attempts, attempt)
        self._keep(task, attempt.state, member.machine, reply.files)

    def _left(self, member: Member) -> None:
        """The worker is gone; a task that it had is tried again, or has failed."""
        for future in filter(None, (member.probing, member.future)):
            self.workers.forget(future)
        if member.machine.host and not member.why_not:
            self._lost_worker = time.monotonic()  # a cluster may start another one
        if member.task is not None:
            self._lost(member.task, member.machine)

    def _lost(self, task: Task, machine: Machine) -> None:
        task.lost += 1
        error = f"its worker on {machine.host or 'an unknown host'} ended during the job"
        if final := task.lost >= TRIES:
            error = f"{error}; so did {task.lost - 1} before"
        attempt = Attempt("lost", ended=utc_now(), host=machine.host, gpu=machine.uuid, error=error, exit_code=3)
        task.attempts = (*task.attempts, attempt)
        if final:
            self._keep(task, "failed", machine)
            return
        self.say(f"{task.job.label}: {error}; it is retried")
        self.store.settle(task.key, task.job, "lost", _known(machine), task.attempts)
        self.store.release(task.key)
        self.pending.append(task)  # after the others: it may be what kills workers

    def _keep(self, task: Task, state: State, machine: Machine, files: Any = None) -> None:
        record = self.store.settle(task.key, task.job, state, _known(machine), task.attempts, files)
        self._settle(task, record)

    def _settle(self, task: Task, record: Record) -> None:
        self.store.release(task.key)
        self.settled(task, record)


def _known(machine: Machine) -> dict[str, Any]:
    return asdict(replace(machine, gpus=()))
