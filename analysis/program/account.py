"""The account of a program: where the measured span of one device went, in parts that sum to it.

It joins launches and gaps of a recording with verdicts of the launches that were profiled. Kernels
that run at the same time share it: at each moment, everything that runs on the SMs of a device gets
an equal part of it. What each would take alone is not known from a recording.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.parts import WORK
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.program.kernels import ProgramKernel, kernel_names
from ncubble.analysis.program.span import OUTSIDE, MeasuredSpan, SpanChoice, Window, measured_span, paths, range_rows
from ncubble.analysis.report.report import Launch, LaunchIdentity
from ncubble.analysis.streams.account import DeviceAccount, accounts
from ncubble.analysis.streams.recording import Recording, geometry, queueing
from ncubble.analysis.streams.work import SMS, Idle, devices, work_of
from ncubble.errors import MeasurementError

TENSOR: Final = "tensor"
OTHER_WORK: Final = "work"
INSIDE: Final = "inside"
BETWEEN: Final = "between"
UNPROFILED: Final = "unprofiled"
MEMORY: Final = "memory"
KINDS: Final[dict[str, str]] = {
    TENSOR: "tensor work",
    OTHER_WORK: "other work",
    INSIDE: "lost inside kernels",
    BETWEEN: "lost between kernels",
    UNPROFILED: "kernels that were not profiled",
    MEMORY: "memory set or copied by the SMs",
}
"""What a moment of the span can be, with its words. The first two are work of the unit that bounds
the kernel."""
NO_KERNEL = -1
"""``kernel`` of what is none: copies, and memory that is set."""
GRAPH = "CUDA graph"
"""The name of a graph whose nodes the recording does not tell apart. No single launch stands for
it."""
PROFILED = "profiled"
NOT_SELECTED = "not selected"
WAITS = "not profiled: it waits for other processes"
NOT_SEEN = "not profiled: the second run did not launch it that often"
NO_ACCOUNT = "profiled, but the report lacks the counters for an account"
_KEY = ["name", "flags", "source", "target", "bytes", "extra"]


class ProfiledLaunch(NamedTuple):
    """A launch of a report: what it was, its verdict, and what an ablation measured of it."""

    identity: LaunchIdentity
    verdict: LaunchVerdict
    launch: Launch | None = None
    ablation: Ablation | None = None


@dataclass(frozen=True)
class LaunchMatch:
    """Which launch stands for a kernel: its ``outcome`` in words, the launch where there is one (of
    ``repeats`` the one with the median time), and what differs or what else fits."""

    outcome: str
    profiled: ProfiledLaunch | None = None
    repeats: int = 0
    note: str = ""


Finder = Callable[[ProgramKernel, int, float], LaunchMatch]
"""The launch that stands for a kernel, by the number of its GPU and its time in ns."""


@dataclass(frozen=True)
class PartTime:
    """A part of the span: its kind (of ``KINDS``), its name (a part of the bubble account, a cause
    of gaps, the sort of a kernel without an account, or the kind again), its time, and the NVTX
    path that it lies in, where that is told: of time between kernels, that of the kernel behind
    it."""

    kind: str
    name: str
    ns: float
    path: str = OUTSIDE


@dataclass(frozen=True)
class KernelTime:
    """All launches of one kernel in the span for which one profiled launch stands.

    ``ns``: their part of it (``shares``). ``median_ns`` and ``spread`` (the ninth over the first
    tenth): of the durations of its launches. ``ranges``: the same ``ns`` by NVTX path.
    """

    kernel: ProgramKernel
    launches: int
    ns: float
    median_ns: float
    spread: float = 1.0
    match: LaunchMatch = field(default_factory=lambda: LaunchMatch(NOT_SELECTED))
    ranges: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> LaunchVerdict | None:
        """Of the launch that stands for them."""
        return self.match.profiled.verdict if self.match.profiled else None

    @property
    def lacking(self) -> str:
        """Why there is no account; empty where there is one."""
        if self.verdict is not None:
            return "" if self.verdict.account else NO_ACCOUNT
        return f"{self.match.outcome}: {self.match.note}" if self.match.note else self.match.outcome

    @cached_property
    def parts(self) -> list[PartTime]:
        """Its time by the account of its verdict; all of it not profiled where there is none."""
        return self.parts_of(self.ns)

    def parts_of(self, ns: float, path: str = OUTSIDE) -> list[PartTime]:
        """Any time of this kernel by the same account."""
        account = self.verdict.account if self.verdict else None
        if not account:
            return [PartTime(UNPROFILED, self.kernel.sort, ns, path)]
        kinds = {part: TENSOR if part == "tensor_busy" else OTHER_WORK for part in WORK}
        parts = [(part, ns * pct / 100.0) for part, pct in account.items() if pct > 0]
        return [PartTime(kinds.get(part, INSIDE), part, own, path) for part, own in parts]

    @property
    def stretched(self) -> float:
        """The duration under the profiler over the median in the program; NaN where one is not
        known. Far from 1: the launch does not stand for the others."""
        profiled = self.verdict.duration_ns if self.verdict else None
        return profiled / self.median_ns if profiled and self.median_ns > 0 else math.nan


@dataclass(frozen=True)
class ProgramAccount:
    """One device of one process. The parts sum to ``span.ns``; the constructor refuses others.

    ``kernels``: most time first. ``rest``: time between them, and of memory that is set or copied.
    ``overlapped_ns``: time in which several kernels ran, split evenly among them.
    """

    process: int
    device: int
    name: str
    span: MeasuredSpan
    kernels: tuple[KernelTime, ...]
    rest: tuple[PartTime, ...]
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
        return _merged([*(part for kernel in self.kernels for part in kernel.parts), *self.rest])

    @cached_property
    def by_kind(self) -> dict[str, float]:
        """ns of each kind that has any."""
        times = {kind: sum(part.ns for part in self.parts if part.kind == kind) for kind in KINDS}
        return {kind: ns for kind, ns in times.items() if ns > 0}

    @cached_property
    def by_range(self) -> dict[str, list[PartTime]]:
        """Parts of each NVTX path, most time first; the parts of all paths sum to the span."""
        found: defaultdict[str, list[PartTime]] = defaultdict(list)
        of_kernels = (part for one in self.kernels for item in one.ranges.items() for part in one.parts_of(*item[::-1]))
        for part in (*of_kernels, *self.rest):
            found[part.path].append(part)
        merged = {path: _merged(parts) for path, parts in found.items()}
        return dict(sorted(merged.items(), key=lambda item: -sum(part.ns for part in item[1])))

    @property
    def covered_pct(self) -> float:
        """Of the time of all kernels, the part of those with an account."""
        total = sum(kernel.ns for kernel in self.kernels)
        return 100.0 * sum(kernel.ns for kernel in self.kernels if not kernel.lacking) / total if total > 0 else 0.0

    def pct(self, ns: float) -> float:
        """In percent of the span."""
        return 100.0 * ns / self.span.ns if self.span.ns > 0 else 0.0


def _merged(parts: Sequence[PartTime]) -> list[PartTime]:
    times: defaultdict[tuple[str, str], float] = defaultdict(float)
    for part in parts:
        times[part.kind, part.name] += part.ns
    order = list(KINDS)
    merged = [PartTime(kind, name, ns) for (kind, name), ns in times.items() if ns > 0]
    return sorted(merged, key=lambda part: (order.index(part.kind), -part.ns))


@dataclass(frozen=True)
class ProgramWork:
    """What each device did, piece by piece, in order of queueing. ``rows``: ``process``,
    ``device``, ``on_sms``, ``kernel`` (a place in ``kernels``, or ``NO_KERNEL``), ``named`` (a
    number for each name), ``queued_ns``, ``thread`` (0: not recorded), ``start_ns``, ``end_ns``."""

    kernels: tuple[ProgramKernel, ...]
    rows: pd.DataFrame

    def of(self, process: int, device: int) -> pd.DataFrame:
        """The rows of one device of one process."""
        mine = (self.rows["process"] == process) & (self.rows["device"] == device)
        return self.rows[mine].reset_index(drop=True)


def program_work(recording: Recording) -> ProgramWork:
    """All that the devices did."""
    work = work_of(recording.rows)
    work.loc[work["kind"] == "graph", _KEY] = (GRAPH, 0, 0, 0, 0, 0)
    is_kernel = work["kind"].isin(("kernel", "graph")).to_numpy()
    keys = work.loc[is_kernel, _KEY]
    kernel = np.full(len(work), NO_KERNEL)
    kernel[is_kernel] = keys.groupby(_KEY, sort=False).ngroup().to_numpy()
    kernels = [kernel_of(row, recording) for row in keys.drop_duplicates().itertuples()]
    calls = queueing(recording.rows, work)
    rows = work[["process", "device", "start_ns", "end_ns"]].assign(
        named=pd.factorize(work["name"])[0],
        on_sms=(work["engine"] == SMS).to_numpy(),
        kernel=kernel,
        queued_ns=calls["start_ns"].fillna(work["start_ns"]).astype(np.int64),
        thread=calls["thread"].fillna(0).astype(np.int64),
    )
    return ProgramWork(tuple(kernels), rows.sort_values(["queued_ns", "start_ns"], kind="stable", ignore_index=True))


def kernel_of(row: Any, recording: Recording) -> ProgramKernel:
    """The kernel of a row of work."""
    symbols = recording.facts.get("symbols")
    known = geometry(row.flags, row.source, row.target, row.bytes) or ("", "", 0)
    symbol = symbols.get(row.name, row.name) if isinstance(symbols, dict) else row.name
    return ProgramKernel(row.name, str(symbol), *known, row.extra)


class DeviceSpan(NamedTuple):
    """One device of one process, the time of it that counts, and what its SMs did (rows as of
    ``ProgramWork``), with ``shared``, its parts of that time."""

    process: int
    device: int
    span: MeasuredSpan
    rows: pd.DataFrame
    shared: Shares


def spans_of(recording: Recording, work: ProgramWork, choice: SpanChoice) -> list[DeviceSpan]:
    """The measured span of each device that has one; raises MeasurementError where none has."""
    spans: list[DeviceSpan] = []
    failed: MeasurementError | None = None
    for process, device in devices(work.rows):
        rows = work.of(process, device)
        try:
            span = measured_span(recording.rows, rows, process, choice)
        except MeasurementError as error:
            failed = error
            continue
        rows = rows[rows["on_sms"]].reset_index(drop=True)
        shared = shares(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), span.windows)
        spans.append(DeviceSpan(process, device, span, rows, shared))
    if not spans and failed is not None:
        raise failed
    return spans


def program_accounts(recording: Recording, choice: SpanChoice, find: Finder) -> list[ProgramAccount]:
    """One account per process and device on whose SMs anything ran in the span. ``find`` names the
    launch that stands for a kernel. Raises MeasurementError where the chosen span exists on no
    device."""
    work = program_work(recording)
    spans = {(one.process, one.device): one for one in spans_of(recording, work, choice) if one.span.ns > 0}
    if not spans:
        raise MeasurementError("the program's GPU did nothing that was recorded", "see docs/program.md")
    pairs = [(device, spans.get((device.process, device.device))) for device in accounts(recording, whole=True)]
    return [_account(device, span, work.kernels, recording, find) for device, span in pairs if span]


def _account(
    device: DeviceAccount, one: DeviceSpan, kernels: Sequence[ProgramKernel], recording: Recording, find: Finder
) -> ProgramAccount:
    _, _, span, rows, shared = one
    ranges = range_rows(recording.rows, device.process)
    where = paths(ranges, rows["queued_ns"].to_numpy(), rows["thread"].to_numpy())
    rows = rows.assign(own_ns=shared.own_ns, path=where, ns=rows["end_ns"] - rows["start_ns"])
    inside_span = rows[rows["own_ns"] > 0]
    memory = inside_span[inside_span["kernel"] == NO_KERNEL].groupby("path")["own_ns"].sum()
    times: list[KernelTime] = []
    for place, own in inside_span[inside_span["kernel"] != NO_KERNEL].groupby("kernel"):
        kernel = kernels[int(str(place))]
        lengths, of_length = np.unique(own["ns"].to_numpy(float), return_inverse=True)
        matches = [find(kernel, device.device, ns) for ns in lengths.tolist()]
        which = np.array([id(match) for match in matches])[of_length]
        by_id = {id(match): match for match in matches}
        times += [_kernel_time(kernel, by_id[int(str(one))], group) for one, group in own.groupby(which, sort=False)]
    return ProgramAccount(
        process=device.process,
        device=device.device,
        name=device.name,
        span=span,
        kernels=tuple(sorted(times, key=lambda kernel: -kernel.ns)),
        rest=(
            *_between(device, rows, span.windows, shared.busy_ns),
            *(PartTime(MEMORY, MEMORY, float(ns), str(path)) for path, ns in memory.items()),
        ),
        overlapped_ns=shared.overlapped_ns,
    )


def _kernel_time(kernel: ProgramKernel, match: LaunchMatch, rows: pd.DataFrame) -> KernelTime:
    low, middle, high = np.quantile(rows["ns"].to_numpy(float), [0.1, 0.5, 0.9])
    by_path = {str(path): float(ns) for path, ns in rows.groupby("path")["own_ns"].sum().items()}
    spread = float(high / low) if low > 0 else 1.0
    return KernelTime(kernel, len(rows), float(rows["own_ns"].sum()), float(middle), spread, match, by_path)


def _between(
    device: DeviceAccount, rows: pd.DataFrame, windows: tuple[Window, ...], busy_ns: float
) -> Iterator[PartTime]:
    """Gaps within the windows, moment by moment: in the range of the work that ended them, or of
    the work before them where none did, or only behind the window.

    A part of a window behind or before all work of the recording is in no gap: the host was busy
    elsewhere. It counts in the range of the last work.
    """
    paths_of: list[str] = rows["path"].tolist()
    ended_by: dict[int, str] = dict(zip(rows["start_ns"].tolist()[::-1], paths_of[::-1], strict=True))
    begun_by: dict[int, str] = dict(zip(rows["end_ns"].tolist(), paths_of, strict=True))
    times: Counter[tuple[str, str]] = Counter()
    ends = [end for _, end in windows]
    for gap in device.gaps:
        before = begun_by.get(gap.start, OUTSIDE)
        after = ended_by.get(gap.end, before)
        for begin, end in windows[bisect_right(ends, gap.start) :]:
            if begin >= gap.end:
                break
            path = after if gap.end <= end else before
            for cause, ns in gap.parts_within(begin, end).items():
                times[cause, path] += ns
    rest = sum(end - start for start, end in windows) - busy_ns - sum(times.values())
    if rest > 0.5:
        times[Idle.LAUNCH_GAP, paths_of[-1] if paths_of else OUTSIDE] += rest  # type: ignore[assignment]
    yield from (PartTime(BETWEEN, cause, float(ns), path) for (cause, path), ns in times.most_common() if ns > 0)


class Shares(NamedTuple):
    """``own_ns``: each interval's part of the windows. ``busy_ns``: time of the windows in which
    any ran, which the parts sum to; ``overlapped_ns``: time in which two or more did."""

    own_ns: np.ndarray
    busy_ns: float
    overlapped_ns: float


def shares(start: np.ndarray, end: np.ndarray, windows: tuple[Window, ...]) -> Shares:
    """The parts of intervals (ns) within ``windows``, which are disjoint and in order."""
    if not len(start) or not windows:
        return Shares(np.zeros(len(start)), 0.0, 0.0)
    bounds = np.array(windows, np.int64)
    times = np.unique(np.concatenate([start, end, bounds.ravel()]))
    running = np.cumsum(_steps(times, start) - _steps(times, end))[:-1]
    open_ = np.cumsum(_steps(times, bounds[:, 0]) - _steps(times, bounds[:, 1]))[:-1] > 0
    counted = np.where(open_ & (running > 0), np.diff(times), 0)
    part = np.concatenate([[0.0], np.cumsum(counted / np.maximum(running, 1))])
    own = part[np.searchsorted(times, end)] - part[np.searchsorted(times, start)]
    return Shares(own, float(counted.sum()), float(counted[running > 1].sum()))


def _steps(times: np.ndarray, events: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(times, events), minlength=len(times))


def own_finder(profiled: Sequence[ProfiledLaunch], selected: frozenset[ProgramKernel]) -> Finder:
    """Matches for a recording, whose kernels tell their mangled names: the first profiled launch of
    the same mangled name, grid, block and dynamic shared memory, whatever time it took. Recordings
    without geometry match by name. ``selected``: the kernels that were to be profiled."""
    known: dict[ProgramKernel, LaunchMatch] = {}

    def find(kernel: ProgramKernel, device: int, ns: float) -> LaunchMatch:
        if kernel not in known:
            launch = next((launch for launch in profiled if _same(kernel, launch.identity)), None)
            lacking = WAITS if kernel.communicates else NOT_SEEN if kernel in selected else NOT_SELECTED
            known[kernel] = LaunchMatch(PROFILED if launch else lacking, launch)
        return known[kernel]

    return find


def _same(kernel: ProgramKernel, identity: LaunchIdentity) -> bool:
    if kernel.grid and (kernel.grid, kernel.block) != (identity.grid, identity.block):
        return False
    if kernel.grid and not np.isnan(identity.smem_dynamic_B) and kernel.shared_B != identity.smem_dynamic_B:
        return False
    if identity.mangled.startswith(kernel.symbol) if kernel.is_cut else identity.mangled == kernel.symbol:
        return True
    # A recording without mangled names, and names that are not mangled: extern "C", Triton.
    return kernel.symbol == kernel.name and kernel.name in (identity.kernel, identity.demangled)
