"""The join: launches and gaps of a recording with verdicts of the launches that were profiled."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.program.account import GapTime, KernelTime, ProgramAccount
from ncubble.analysis.program.launches import NO_KERNEL, ProgramKernel, ProgramWork, program_work
from ncubble.analysis.program.ranges import OUTSIDE, paths, range_rows
from ncubble.analysis.program.sharing import Window, shares
from ncubble.analysis.program.span import MeasuredSpan, SpanChoice, measured_span
from ncubble.analysis.report.report import LaunchIdentity
from ncubble.analysis.streams.account import DeviceAccount, accounts
from ncubble.analysis.streams.causes import Idle
from ncubble.analysis.streams.gaps import IdleGap
from ncubble.analysis.streams.recording import Recording
from ncubble.errors import MeasurementError

NOT_SELECTED = "not selected"
WAITS = "not profiled: it waits for other processes"
NOT_SEEN = "not profiled: the second run did not launch it that often"
NO_ACCOUNT = "profiled, but the report lacks the counters for an account"


@dataclass(frozen=True)
class ProfiledLaunch:
    """A launch of the report: what it was and its verdict."""

    identity: LaunchIdentity
    verdict: LaunchVerdict


def program_accounts(
    recording: Recording, profiled: Sequence[ProfiledLaunch], choice: SpanChoice, selected: frozenset[ProgramKernel]
) -> list[ProgramAccount]:
    """One account per process and device on whose SMs anything ran in the span.

    ``selected``: the kernels that were to be profiled. Raises MeasurementError where the chosen
    span exists on no device.
    """
    work = program_work(recording)
    verdicts = {kernel: verdict_of(kernel, profiled) for kernel in work.kernels}
    found: list[ProgramAccount] = []
    failed: MeasurementError | None = None
    for device in accounts(recording, whole=True):
        rows = work.of(device.process, device.device)
        try:
            span = measured_span(recording.rows, rows, device.process, choice)
        except MeasurementError as error:
            failed = error
            continue
        if span.ns > 0:
            found.append(_account(recording, device, work, span, verdicts, selected))
    if not found:
        raise failed or MeasurementError("the program's GPU did nothing that was recorded", "see docs/program.md")
    return found


def verdict_of(kernel: ProgramKernel, profiled: Sequence[ProfiledLaunch]) -> LaunchVerdict | None:
    """The verdict of the first profiled launch of this kernel: the same mangled name, grid, block
    and dynamic shared memory. Recordings without geometry match by name."""
    return next((launch.verdict for launch in profiled if _same(kernel, launch.identity)), None)


def _same(kernel: ProgramKernel, identity: LaunchIdentity) -> bool:
    if kernel.grid and (kernel.grid, kernel.block) != (identity.grid, identity.block):
        return False
    if kernel.grid and not np.isnan(identity.smem_dynamic_B) and kernel.shared_B != identity.smem_dynamic_B:
        return False
    if identity.mangled.startswith(kernel.symbol) if kernel.is_cut else identity.mangled == kernel.symbol:
        return True
    # A recording without mangled names, and names that are not mangled: extern "C", Triton.
    return kernel.symbol == kernel.name and kernel.name in (identity.kernel, identity.demangled)


def _account(
    recording: Recording,
    device: DeviceAccount,
    work: ProgramWork,
    span: MeasuredSpan,
    verdicts: Mapping[ProgramKernel, LaunchVerdict | None],
    selected: frozenset[ProgramKernel],
) -> ProgramAccount:
    rows = work.of(device.process, device.device)
    rows = rows[rows["on_sms"]].reset_index(drop=True)
    ranges = range_rows(recording.rows, device.process)
    where = paths(ranges, rows["queued_ns"].to_numpy(), rows["thread"].to_numpy())
    shared = shares(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), span.windows)
    rows = rows.assign(own_ns=shared.own_ns, path=where, ns=rows["end_ns"] - rows["start_ns"])
    inside = rows[rows["own_ns"] > 0]
    memory = inside[inside["kernel"] == NO_KERNEL].groupby("path")["own_ns"].sum()
    launched = dict(iter(inside.groupby("kernel")))
    kernels = [
        _kernel_time(kernel, launched[place], verdicts, selected)
        for place, kernel in enumerate(work.kernels)
        if place in launched
    ]
    return ProgramAccount(
        process=device.process,
        device=device.device,
        name=device.name,
        span=span,
        kernels=tuple(sorted(kernels, key=lambda kernel: -kernel.ns)),
        gaps=_gap_times(device.gaps, rows, span.windows, shared.busy_ns),
        memory_ns={str(path): float(ns) for path, ns in memory.items()},
        overlapped_ns=shared.overlapped_ns,
    )


def _kernel_time(
    kernel: ProgramKernel,
    rows: pd.DataFrame,
    verdicts: Mapping[ProgramKernel, LaunchVerdict | None],
    selected: frozenset[ProgramKernel],
) -> KernelTime:
    low, middle, high = np.quantile(rows["ns"].to_numpy(float), [0.1, 0.5, 0.9])
    verdict = verdicts[kernel]
    lacking = "" if verdict and verdict.account else NO_ACCOUNT
    if verdict is None:
        lacking = WAITS if kernel.communicates else NOT_SEEN if kernel in selected else NOT_SELECTED
    return KernelTime(
        kernel=kernel,
        launches=len(rows),
        ns=float(rows["own_ns"].sum()),
        median_ns=float(middle),
        spread=float(high / low) if low > 0 else 1.0,
        verdict=verdict,
        lacking=lacking,
        ranges={str(path): float(ns) for path, ns in rows.groupby("path")["own_ns"].sum().items()},
    )


def _gap_times(
    gaps: Sequence[IdleGap], rows: pd.DataFrame, windows: tuple[Window, ...], busy_ns: float
) -> tuple[GapTime, ...]:
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
    for gap in gaps:
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
    return tuple(GapTime(cause, path, float(ns)) for (cause, path), ns in times.most_common() if ns > 0)
