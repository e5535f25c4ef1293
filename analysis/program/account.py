"""The account of a program: where the measured span of one device went, in parts that sum to it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ncubble.analysis.account.parts import WORK
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.program.launches import ProgramKernel
from ncubble.analysis.program.naming import kernel_names
from ncubble.analysis.program.span import MeasuredSpan

TENSOR, OTHER_WORK, INSIDE, BETWEEN, UNPROFILED, MEMORY = "tensor", "work", "inside", "between", "unprofiled", "memory"
KINDS = {
    TENSOR: "tensor work",
    OTHER_WORK: "other work",
    INSIDE: "lost inside kernels",
    BETWEEN: "lost between kernels",
    UNPROFILED: "kernels that were not profiled",
    MEMORY: "memory set or copied by the SMs",
}
"""What a moment of the span can be, with its words. The first two are work of the unit that bounds
the kernel."""


@dataclass(frozen=True)
class PartTime:
    """A part of the span: its kind (of ``KINDS``), its name (a part of the bubble account, a cause
    of gaps, or the kind again) and its time."""

    kind: str
    name: str
    ns: float


@dataclass(frozen=True)
class KernelTime:
    """All launches of one kernel in the span.

    ``ns``: their part of it (``sharing``). ``median_ns`` and ``spread`` (the ninth over the first
    tenth): of the durations of its launches. ``verdict``: of the launch that stands for them;
    without one ``lacking`` says why. ``ranges``: the same ``ns`` by NVTX path.
    """

    kernel: ProgramKernel
    launches: int
    ns: float
    median_ns: float
    spread: float = 1.0
    verdict: LaunchVerdict | None = None
    lacking: str = ""
    ranges: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def parts(self) -> list[PartTime]:
        """Its time by the account of its verdict; all of it not profiled where there is none."""
        return self.parts_of(self.ns)

    def parts_of(self, ns: float) -> list[PartTime]:
        """Any time of this kernel by the same account."""
        account = self.verdict.account if self.verdict else None
        if not account:
            return [PartTime(UNPROFILED, UNPROFILED, ns)]
        return [PartTime(_kind(part), part, ns * pct / 100.0) for part, pct in account.items() if pct > 0]

    @property
    def stretched(self) -> float:
        """The duration under the profiler over the median in the program; NaN where one is not
        known. Far from 1: the launch does not stand for the others."""
        profiled = self.verdict.duration_ns if self.verdict else None
        return profiled / self.median_ns if profiled and self.median_ns > 0 else math.nan


def _kind(part: str) -> str:
    if part not in WORK:
        return INSIDE
    return TENSOR if part == "tensor_busy" else OTHER_WORK


@dataclass(frozen=True)
class GapTime:
    """Time in which no SM worked, by cause and NVTX path of the kernel that ended it."""

    cause: str
    path: str
    ns: float


@dataclass(frozen=True)
class ProgramAccount:
    """One device of one process. The parts sum to ``span.ns``; the constructor refuses others.

    ``kernels``: most time first. ``memory_ns``: by NVTX path. ``overlapped_ns``: time in which
    several kernels ran, split evenly among them. ``covered_pct``: of the kernels' time, what
    profiled ones have.
    """

    process: int
    device: int
    name: str
    span: MeasuredSpan
    kernels: tuple[KernelTime, ...]
    gaps: tuple[GapTime, ...]
    memory_ns: Mapping[str, float]
    overlapped_ns: float

    def __post_init__(self) -> None:
        total = math.fsum(part.ns for part in self.parts)
        if abs(total - self.span.ns) > 1.0 + 1e-6 * self.span.ns:
            raise ValueError(f"the parts of a program sum to {total:.0f} ns of {self.span.ns}")

    @cached_property
    def names(self) -> dict[ProgramKernel, str]:
        """A short name for each kernel; no two of one grid are equal."""
        return kernel_names(one.kernel for one in self.kernels)

    def title(self, kernel: ProgramKernel) -> str:
        """Its short name and its grid, where that is known."""
        return f"{self.names[kernel]} grid {kernel.grid}" if kernel.grid else self.names[kernel]

    @cached_property
    def parts(self) -> list[PartTime]:
        """The whole span: each part once, by kind in the order of ``KINDS``, most time first."""
        return _merged([*_kernel_parts(self), *_gap_parts(self.gaps), *_memory_parts(self.memory_ns)])

    @cached_property
    def by_kind(self) -> dict[str, float]:
        """ns of each kind that has any."""
        times: Counter[str] = Counter()
        for part in self.parts:
            times[part.kind] += part.ns  # type: ignore[assignment]
        return {kind: times[kind] for kind in KINDS if times[kind] > 0}

    @cached_property
    def by_range(self) -> dict[str, list[PartTime]]:
        """Parts of each NVTX path, most time first; the parts of all paths sum to the span."""
        found: defaultdict[str, list[PartTime]] = defaultdict(list)
        for kernel in self.kernels:
            for path, ns in kernel.ranges.items():
                found[path] += kernel.parts_of(ns)
        for gap in self.gaps:
            found[gap.path].append(PartTime(BETWEEN, gap.cause, gap.ns))
        for path, ns in self.memory_ns.items():
            found[path].append(PartTime(MEMORY, MEMORY, ns))
        merged = {path: _merged(parts) for path, parts in found.items()}
        return dict(sorted(merged.items(), key=lambda item: -sum(part.ns for part in item[1])))

    @property
    def covered_pct(self) -> float:
        """Of the time of all kernels, the part of those with a verdict."""
        total = sum(kernel.ns for kernel in self.kernels)
        profiled = sum(kernel.ns for kernel in self.kernels if kernel.verdict and kernel.verdict.account)
        return 100.0 * profiled / total if total > 0 else 0.0

    def pct(self, ns: float) -> float:
        """In percent of the span."""
        return 100.0 * ns / self.span.ns if self.span.ns > 0 else 0.0


def _kernel_parts(account: ProgramAccount) -> list[PartTime]:
    return [part for kernel in account.kernels for part in kernel.parts]


def _gap_parts(gaps: tuple[GapTime, ...]) -> list[PartTime]:
    return [PartTime(BETWEEN, gap.cause, gap.ns) for gap in gaps]


def _memory_parts(memory_ns: Mapping[str, float]) -> list[PartTime]:
    return [PartTime(MEMORY, MEMORY, ns) for ns in memory_ns.values()]


def _merged(parts: list[PartTime]) -> list[PartTime]:
    times: defaultdict[tuple[str, str], float] = defaultdict(float)
    for part in parts:
        times[part.kind, part.name] += part.ns
    order = list(KINDS)
    merged = [PartTime(kind, name, ns) for (kind, name), ns in times.items() if ns > 0]
    return sorted(merged, key=lambda part: (order.index(part.kind), -part.ns))
