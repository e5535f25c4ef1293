"""Which time of a recording is accounted for: without imports, compilation and warm-up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ncubble.analysis.program.ranges import common_names, named, range_rows
from ncubble.analysis.program.sharing import Window, within
from ncubble.analysis.program.steady import Steady, steady_state, warm_repeats
from ncubble.analysis.streams.recording import CALLS
from ncubble.errors import MeasurementError, UsageError


@dataclass(frozen=True)
class SpanChoice:
    """What the user chose. ``nvtx``: the ranges of this name. ``skip_first``: all but so many of
    these ranges, or of the launches. ``whole``: everything. None of them: see ``measured_span``."""

    nvtx: str = ""
    skip_first: int = 0
    whole: bool = False

    def __post_init__(self) -> None:
        if self.skip_first < 0:
            raise UsageError(f"--skip-first {self.skip_first}: fewer than none", "give 0 or more")
        if self.whole and (self.nvtx or self.skip_first):
            raise UsageError("--whole leaves nothing out", "leave out --nvtx and --skip-first, or --whole")


class Excluded(NamedTuple):
    """Time that is left out, and what it is."""

    what: str
    ns: int


@dataclass(frozen=True)
class MeasuredSpan:
    """``windows``: disjoint stretches in order, in ns since the first record. ``rule``: how they
    were chosen, in words. ``steady``: the repeating sequence of launches, where that was it."""

    windows: tuple[Window, ...]
    rule: str
    excluded: tuple[Excluded, ...] = ()
    steady: Steady | None = None

    @property
    def ns(self) -> int:
        """The time that is accounted for."""
        return sum(end - start for start, end in self.windows)


def measured_span(rows: pd.DataFrame, work: pd.DataFrame, process: int, choice: SpanChoice) -> MeasuredSpan:
    """The span of one device. ``work``: what it did (``launches.ProgramWork.of``).

    Without a choice it is what lies between ``cudaProfilerStart`` and ``cudaProfilerStop``, else
    the steady state, else everything from the first work on. Raises MeasurementError where a
    range or launch that was asked for is not there.
    """
    last = int(work["end_ns"].max())
    first = int(work["start_ns"].min())
    if choice.whole:
        return _with_excluded(((first, last),), "everything, as chosen by --whole", first, last)
    if choice.nvtx:
        return _of_range(range_rows(rows, process), work, choice, (first, last))
    if choice.skip_first:
        return _without_first(work, choice.skip_first, (first, last))
    calls = rows[rows["kind"].isin(CALLS) & (rows["process"] == process)]
    if windows := windows_of(_profiler_stretches(calls), work, with_host=False):
        return _with_excluded(windows, "between cudaProfilerStart and cudaProfilerStop", first, last)
    return _steady_span(work, (first, last))


def windows_of(stretches: Iterable[Window], work: pd.DataFrame, with_host: bool = True) -> tuple[Window, ...]:
    """Where stretches of the host lie on the timeline of a device, as disjoint windows.

    A stretch begins when all work that was queued before it has ended, or with its own first work
    if that comes earlier, but not before the host begins it. It ends with the last work that was
    queued in it, or with the stretch, whichever is later. Without ``with_host`` it lasts from its
    own first work to the end of its last. Stretches without work have no window.
    """
    queued, start, end = (work[name].to_numpy(np.int64) for name in ("queued_ns", "start_ns", "end_ns"))
    reach = np.maximum.accumulate(end) if len(end) else end
    windows: list[Window] = []
    for begin, until in sorted(stretches):
        low, high = np.searchsorted(queued, [begin, until])
        if low == high:
            continue
        own = int(start[low:high].min())
        finished = int(end[low:high].max())
        begin = max(begin, min(int(reach[low - 1]), own) if low else begin) if with_host else own
        until = max(until, finished) if with_host else finished
        if windows and begin < windows[-1][1]:
            # What overlaps belongs to the later stretch, but one within another adds nothing.
            if until <= windows[-1][1]:
                continue
            begin = max(begin, windows[-1][0])
            windows[-1] = (windows[-1][0], begin)
        windows.append((begin, until))
    return tuple(window for window in windows if window[1] > window[0])


def _of_range(ranges: pd.DataFrame, work: pd.DataFrame, choice: SpanChoice, reach: Window) -> MeasuredSpan:
    wanted = choice.nvtx
    chosen = named(ranges, wanted)
    if chosen.empty:
        known = ", ".join(repr(name) for name in common_names(ranges))
        remedy = f"ranges that were recorded: {known}" if known else (
            "no range was recorded: push it (torch.cuda.nvtx, nvtx), or use --skip-first"
        )  # fmt: skip
        raise MeasurementError(f"no NVTX range is named {wanted!r}", remedy)
    windows = windows_of(zip(chosen["start_ns"].tolist(), chosen["end_ns"].tolist(), strict=True), work)
    if not windows:
        raise MeasurementError(f"the GPU did nothing in the NVTX range {wanted!r}", "choose another range")
    left_out = choice.skip_first or warm_repeats(np.array([end - begin for begin, end in windows]))
    if left_out >= len(windows):
        message = f"--skip-first {left_out}: there are {len(windows)} NVTX ranges {wanted!r} with work"
        raise MeasurementError(message, "skip fewer")
    count = len(windows) - left_out
    rule = f"{count:,} NVTX {'ranges' if count > 1 else 'range'} {wanted!r}"
    if left_out:
        rule += f"; the first {left_out} left out" if choice.skip_first else f"; {left_out} slower before them left out"
    return _with_excluded(windows[left_out:], rule, *reach)


def _without_first(work: pd.DataFrame, skipped: int, reach: Window) -> MeasuredSpan:
    launches = work[work["kernel"] >= 0]
    if skipped >= len(launches):
        message = f"--skip-first {skipped}: the program has {len(launches)} launches"
        raise MeasurementError(message, "skip fewer")
    begin = launches["start_ns"].tolist()[skipped]
    return _with_excluded(((begin, reach[1]),), f"all but the first {skipped:,} launches", *reach)


def _profiler_stretches(calls: pd.DataFrame) -> list[Window]:
    starts = calls.loc[calls["name"].str.contains("ProfilerStart"), "end_ns"]
    stops = calls.loc[calls["name"].str.contains("ProfilerStop"), "start_ns"]
    last = int(calls["end_ns"].max()) if len(calls) else 0
    return [(int(begin), int(stops[stops >= begin].min()) if (stops >= begin).any() else last) for begin in starts]


def _steady_span(work: pd.DataFrame, reach: Window) -> MeasuredSpan:
    launches = work[work["kernel"] >= 0].reset_index(drop=True)
    start, end = launches["start_ns"].to_numpy(np.int64), launches["end_ns"].to_numpy(np.int64)
    time_ns = (end - start).astype(float)
    steady = steady_state(launches["kernel"].to_numpy(np.int64), time_ns)
    if steady is None:  # steps of changing shapes: the same kernels with other grids
        steady = steady_state(launches["named"].to_numpy(np.int64), time_ns)
    if steady is None:
        rule = "everything from the first work on: no sequence of launches repeats for a third of the GPU time"
        return _with_excluded((reach,), rule, *reach)
    # A repetition lasts until the next one begins, so that what the host does between them counts:
    # the last one, with nothing behind it, is only counted where there are few.
    if not steady.extra and steady.repeats > 2:
        steady = steady._replace(repeats=steady.repeats - 1, extra=steady.period)
    stop = steady.first + steady.period * steady.repeats
    closed = start[stop] if steady.extra else end[steady.first : stop].max()
    begins = np.append(start[steady.first : stop : steady.period], closed)
    warm = warm_repeats(np.diff(begins))
    steady = steady._replace(first=steady.first + warm * steady.period, repeats=steady.repeats - warm)
    rule = f"{steady.repeats:,} repetitions of {steady.period:,} launch{'es' if steady.period > 1 else ''}"
    rule += f"; {warm} slower before them left out" if warm else ""
    return _with_excluded(((int(begins[warm]), int(begins[-1])),), rule, *reach, steady)


def _with_excluded(
    windows: tuple[Window, ...], rule: str, first: int, last: int, steady: Steady | None = None
) -> MeasuredSpan:
    parts = (
        ("before the first work of the GPU: imports, loading of code, allocation", (0, first)),
        ("from the first work to the span: warm-up", (first, windows[0][0])),
        ("between parts of the span", (windows[0][1], windows[-1][0])),
        ("after the span", (windows[-1][1], last)),
    )
    left = [Excluded(what, stretch[1] - stretch[0] - within(*stretch, windows)) for what, stretch in parts]
    return MeasuredSpan(windows, rule, tuple(one for one in left if one.ns > 0), steady)
