"""A sweep: jobs, a store and workers brought together. What runs where is decided in
``dispatch``."""

from __future__ import annotations

import math
import queue
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ncubble.profiling.sweeps.dispatch import (
    TRIES,
    WAIT_S,
    Dispatch,
    Task,
    Workers,
)
from ncubble.profiling.sweeps.job import Machine, SweepJob
from ncubble.profiling.sweeps.store import DONE, Record, Store
from ncubble.profiling.sweeps.team import NoWorkerError, SchedulerLostError, Team
from ncubble.profiling.sweeps.worker import PROBE_LIMIT_S

_LATE_S = 3.0  # a worker that joins later does not influence the GPU model of the sweep


@dataclass
class SweepPlan:
    """Jobs under their names for machines of one kind: ``todo``, and those that the store settles
    already."""

    machine: Machine
    todo: list[Task] = field(default_factory=list)
    held: dict[str, Record] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """``retry_failed``: failed jobs are tried again. ``device``: only GPUs of this name. ``tries``:
    of a job whose workers die. ``wait_s``: how long the sweep goes on without any worker.
    ``limit_s``: of a job."""

    retry_failed: bool = False
    device: str = ""
    tries: int = TRIES
    wait_s: float = WAIT_S
    limit_s: float = math.inf


def plan(jobs: Sequence[SweepJob], store: Store, machine: Machine, tools: Sequence[str], options: Options) -> SweepPlan:
    """What is left to do on machines like ``machine``, in the order of ``jobs``; raises
    ReportError."""
    planned = SweepPlan(machine)
    for job in jobs:
        task = Task(job.key(machine, tools), job)
        if task.key in planned.tasks:
            continue
        planned.tasks[task.key] = task
        record = store.find(task.key, job.folder(task.key))
        if record is not None and (record.state in DONE or (record.state == "failed" and not options.retry_failed)):
            planned.held[task.key] = record
            continue
        if record is not None:
            task.attempts = record.attempts
        planned.todo.append(task)
    return planned


def gather(pool: Workers, expected: int, tools: Sequence[str], options: Options) -> Team:
    """The workers that there are when the sweep begins, and the kind of machine that most of them
    have.

    Waits for the first that can measure, then a moment for the others. Raises SchedulerLostError
    and NoWorkerError.
    """
    machines: dict[str, Machine] = {}
    probed: set[str] = set()
    begun, first = time.monotonic(), 0.0
    while True:
        usable = [machine for machine in machines.values() if _wanted(machine, options)]
        now = time.monotonic()
        if usable and not first:
            first = now
        if usable and (len(machines) >= max(expected, len(probed)) or now - first > _LATE_S):
            break
        silent = probed - machines.keys()
        late = now - begun > options.wait_s + (PROBE_LIMIT_S if silent else 0.0)
        if late or (machines and not silent and len(machines) >= expected and now - begun > 1.0):
            why = [
                f"{machine.host}: {machine.why_not or machine.device + ' is not --device'}"
                for machine in machines.values()
            ]
            why += [f"{machine}: its GPU's driver has not answered" for machine in sorted(silent)]
            raise NoWorkerError(why, 0)
        if not pool.connected:
            raise SchedulerLostError(pool.address, 0, 0)
        try:
            event = pool.events.get(timeout=0.1)
        except queue.Empty:
            continue
        if event.kind == "joined" and event.worker not in probed:
            probed.add(event.worker)
            pool.probe(event.worker)
        elif event.kind == "left":
            probed.discard(event.worker)
            machines.pop(event.worker, None)
            pool.give_up(event.worker)
        elif event.kind == "probed":
            machines[event.worker] = event.value
        elif event.kind == "broken":
            machines[event.worker] = Machine(host=event.worker, why_not=str(event.value))
    return _team(machines, tools, options)


def _wanted(machine: Machine, options: Options) -> bool:
    return not machine.why_not and options.device in ("", machine.device)


def _team(machines: dict[str, Machine], tools: Sequence[str], options: Options) -> Team:
    kinds = Counter(candidate.kind(tools) for candidate in machines.values() if _wanted(candidate, options))
    team = Team(tools, kinds.most_common(1)[0][0])
    for worker, machine in machines.items():
        team.admit(worker, machine)
    return team


def sweep(
    todo: Sequence[Task],
    store: Store,
    pool: Workers,
    team: Team,
    options: Options,
    observe: Callable[[Task, Record], None],
    tell: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Settle all of ``todo``; raises what ``Dispatch.run`` raises."""
    Dispatch(pool, store, todo, team, observe, options.tries, options.wait_s, tell, options.limit_s).run()
