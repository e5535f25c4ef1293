"""The workers that a sweep knows: their machines, which of them are free, which were left out, and
what ends it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ncubble.errors import MeasurementError
from ncubble.profiling.sweeps.job import Machine

RESUME = "the same command continues with the missing jobs"


class SchedulerLostError(MeasurementError):
    """The connection to the Dask scheduler broke."""

    def __init__(self, address: str, done: int, left: int) -> None:
        super().__init__(
            f"the scheduler {address} is gone, after {done} of {done + left} jobs",
            f"finished jobs are in the store; restart the cluster: {RESUME}",
        )


class NoWorkerError(MeasurementError):
    """No worker is left that can measure."""

    def __init__(self, reasons: Sequence[str], left: int) -> None:
        listed = "".join(f"\n    {reason}" for reason in dict.fromkeys(reasons)) or " none joined the cluster"
        super().__init__(
            f"no worker can measure{f' the remaining {left} jobs' if left else ''}:{listed}",
            f"fix one of them (`ncubble doctor --gpu` on it shows what is missing): {RESUME}",
        )


@dataclass
class Team:
    """The workers that are known: what their machines are, who is free, and who was left out and
    why."""

    tools: Sequence[str]
    kind: tuple[str, ...] | None = None
    machines: dict[str, Machine] = field(default_factory=dict)
    idle: deque[str] = field(default_factory=deque)
    spare: dict[str, Machine] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def admit(self, worker: str, machine: Machine) -> str:
        """Take a probed worker in; returns why not, or "". Of several on one GPU one is taken, the
        others are spare."""
        why_not = machine.why_not
        if not why_not and self.kind is not None and machine.kind(self.tools) != self.kind:
            kind, wanted = (", ".join(filter(None, parts)) for parts in (machine.kind(self.tools), self.kind))
            why_not = f"it has {kind}; this sweep is for {wanted}"
        if why_not:
            self.left_out[worker] = f"{machine.host or worker}: {why_not}"
        elif machine.uuid and any(parts.uuid == machine.uuid for parts in self.machines.values()):
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
        same = [name for name, machine in self.spare.items() if gone and machine.uuid == gone.uuid]
        for name in same[:1]:
            self.admit(name, self.spare.pop(name))

    def leave_out(self, worker: str, why: str) -> None:
        """Give a worker no more jobs."""
        machine = self.machines.get(worker)
        self.remove(worker)
        self.left_out[worker] = f"{machine.host if machine else worker}: {why}"

    def apart(self, worker: str) -> bool:
        """Whether other GPUs of the worker's host are used, too."""
        host = self.machines[worker].host
        return sum(1 for machine in self.machines.values() if machine.host == host) > 1
