"""Which time of a recording is accounted for: without imports, compilation and warm-up.

The span is what the user chose by NVTX ranges or a number of launches, what the program marks with
``cudaProfilerStart``, or its steady state: the longest stretch in which its launches repeat.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import pandas as pd

from ncubble.analysis.streams.recording import RANGE, profiled_stretches
from ncubble.errors import MeasurementError, UsageError
from ncubble.text.values import duration

Window = tuple[int, int]
OUTSIDE = ""
"""The path of what was queued outside of all NVTX ranges."""
DEEPEST = 32
"""Ranges of a path. A program that pushes ranges and never pops them nests without end."""
GRAMS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Lengths of the sequences whose recurrence proposes a period: a long one recurs once a step, also
where a step repeats the same layer."""
MOST_PERIODS = 24
"""Periods that are tried for each of them."""
LEAST_SHARE = 1 / 3
"""Of the GPU time that a repeating stretch covers; a shorter one is no steady state of the
program."""
LEAST_LAUNCHES = 4
"""Of a repeating stretch. One kernel twice in a row tells nothing of a program."""
NEARLY = 0.98
"""Of equal periods the shortest counts: one that covers this much of the best one's time."""
SLOW = 1.25
"""Repetitions at the start that take longer than this times the median are warm-up."""
_DOMAIN = "@"
"""Behind the domain of a range: libraries have one, programs seldom."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_CLOSE, _OPEN, _LAUNCH = range(3)


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


class Steady(NamedTuple):
    """``period`` launches repeat ``repeats`` times from launch ``first`` on; ``extra`` launches
    continue the sequence behind them. ``share``: of the GPU time of all launches that this is."""

    first: int
    period: int
    repeats: int
    extra: int
    share: float


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
    """The span of one device. ``work``: what it did (``account.ProgramWork.of``).

    Without a choice it is what lies between ``cudaProfilerStart`` and ``cudaProfilerStop``, else
    the steady state, else everything from the first work on. Raises MeasurementError where a
    range or launch that was asked for is not there.
    """
    reach = int(work["start_ns"].min()), int(work["end_ns"].max())
    if choice.whole:
        return _with_excluded((reach,), "everything, as chosen by --whole", reach)
    if choice.nvtx:
        return _of_range(range_rows(rows, process), work, choice, reach)
    if choice.skip_first:
        launches = work.loc[work["kernel"] >= 0, "start_ns"].tolist()
        if choice.skip_first >= len(launches):
            message = f"--skip-first {choice.skip_first}: the program has {len(launches)} launches"
            raise MeasurementError(message, "skip fewer")
        window = launches[choice.skip_first], reach[1]
        return _with_excluded((window,), f"all but the first {choice.skip_first:,} launches", reach)
    if windows := windows_of(profiled_stretches(rows, process), work, with_host=False):
        return _with_excluded(windows, "between cudaProfilerStart and cudaProfilerStop", reach)
    return _steady_span(work, reach)


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
        own, finished = int(start[low:high].min()), int(end[low:high].max())
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
    chosen = named(ranges, choice.nvtx)
    if chosen.empty:
        known = ", ".join(repr(name) for name, _ in Counter(ranges["name"].tolist()).most_common(8))
        nothing = "no range was recorded: push it (torch.cuda.nvtx, nvtx), or use --skip-first"
        remedy = f"ranges that were recorded: {known}" if known else nothing
        raise MeasurementError(f"no range is named {choice.nvtx!r}", remedy)
    windows = windows_of(zip(chosen["start_ns"].tolist(), chosen["end_ns"].tolist(), strict=True), work)
    if not windows:
        raise MeasurementError(f"the GPU did nothing in the range {choice.nvtx!r}", "choose another range")
    left_out = choice.skip_first or warm_repeats(np.array([end - begin for begin, end in windows]))
    if left_out >= len(windows):
        message = f"--skip-first {left_out}: there are {len(windows)} ranges {choice.nvtx!r} with work"
        raise MeasurementError(message, "skip fewer")
    count = len(windows) - left_out
    lengths = [end - begin for begin, end in windows[left_out:]]
    rule = f"{count:,} {'ranges' if count > 1 else 'range'} {choice.nvtx!r}{_spread(lengths)}"
    if choice.skip_first:
        return _with_excluded(windows[left_out:], f"{rule}; the first {left_out} left out", reach)
    rule += f"; {left_out} slower before them left out" if left_out else ""
    return _with_excluded(windows[left_out:], rule, reach, warm=windows[0][0])


def _steady_span(work: pd.DataFrame, reach: Window) -> MeasuredSpan:
    launches = work[work["kernel"] >= 0].reset_index(drop=True)
    start, end = launches["start_ns"].to_numpy(np.int64), launches["end_ns"].to_numpy(np.int64)
    # Where steps have changing shapes, the same kernels come with other grids: only names repeat.
    numbers = (launches[column].to_numpy(np.int64) for column in ("kernel", "named"))
    steady = next(filter(None, (steady_state(own, (end - start).astype(float)) for own in numbers)), None)
    if steady is None:
        rule = f"no sequence of launches repeats for a third of the GPU time ({LEAST_LAUNCHES} launches at least)"
        return _with_excluded((reach,), f"everything from the first work on: {rule}", reach)
    # A repetition lasts until the next one begins, so that what the host does between them counts:
    # the last one, with nothing behind it, is only counted where there are few.
    if not steady.extra and steady.repeats > 3:
        steady = steady._replace(repeats=steady.repeats - 1, extra=steady.period)
    stop = steady.first + steady.period * steady.repeats
    closed = start[stop] if steady.extra else end[steady.first : stop].max()
    begins = np.append(start[steady.first : stop : steady.period], closed)
    warm = warm_repeats(np.diff(begins))
    own_ends = end[steady.first : stop].reshape(-1, steady.period).max(axis=1)
    lengths = (np.diff(begins) if steady.extra else own_ends - begins[:-1])[warm:]
    steady = steady._replace(first=steady.first + warm * steady.period, repeats=steady.repeats - warm)
    spread = _spread(lengths)
    rule = f"{steady.repeats:,} repetitions of {steady.period:,} launch{'es' if steady.period > 1 else ''}{spread}"
    if len(lengths) < 3 and spread:
        rule = f"everything from the first work on: {rule} are no steady state; --nvtx or --skip-first choose one"
        return _with_excluded((reach,), rule, reach)
    rule += f"; {warm} slower before them left out" if warm else ""
    return _with_excluded(((int(begins[warm]), int(begins[-1])),), rule, reach, steady, int(begins[0]))


def _spread(lengths: Sequence[int] | np.ndarray) -> str:
    """From where to where the lengths of ranges or repetitions go, unless they are alike."""
    shortest, longest = min(lengths), max(lengths)
    return f" ({duration(float(shortest))} to {duration(float(longest))} each)" if longest > SLOW * shortest else ""


def _with_excluded(
    windows: tuple[Window, ...], rule: str, reach: Window, steady: Steady | None = None, warm: int | None = None
) -> MeasuredSpan:
    """``warm``: since when the work of the span repeats, but slower. What was before is not called
    warm-up: it may be anything."""
    (first, last), warm = reach, windows[0][0] if warm is None else warm
    parts = (
        ("before the first work of the GPU", (0, first)),
        ("from the first work to the span", (first, warm)),
        ("of slower repetitions before the span: warm-up", (warm, windows[0][0])),
        ("between parts of the span", (windows[0][1], windows[-1][0])),
        ("after the span", (windows[-1][1], last)),
    )
    left = [Excluded(what, stretch[1] - stretch[0] - within(*stretch, windows)) for what, stretch in parts]
    return MeasuredSpan(windows, rule, tuple(one for one in left if one.ns > 0), steady)


def within(start: int, end: int, windows: tuple[Window, ...]) -> int:
    """How many ns of an interval lie in ``windows``."""
    return sum(max(0, min(end, last) - max(start, first)) for first, last in windows)


def steady_state(kernels: np.ndarray, time_ns: np.ndarray) -> Steady | None:
    """The repeating stretch with most GPU time; None where none covers ``LEAST_SHARE``.

    ``kernels``: a number for each launch, in the order of launching; ``time_ns``: its duration.
    """
    total = float(time_ns.sum())
    if len(kernels) < 2 or total <= 0:
        return None
    spent = np.concatenate([[0.0], np.cumsum(time_ns)])
    runs = [run for period in _periods(kernels) if (run := _longest_run(kernels, period, spent)) is not None]
    best = max((time for time, *_ in runs), default=0.0)
    if best < LEAST_SHARE * total:
        return None
    time, period, first, length = min((run for run in runs if run[0] >= NEARLY * best), key=lambda run: run[1])
    if time < LEAST_SHARE * total:
        return None
    return Steady(first, period, length // period, length % period, time / total)


def warm_repeats(lengths: np.ndarray) -> int:
    """How many of the first repetitions are slower than the rest, by the time that each takes; at
    most half of them."""
    if len(lengths) < 3:
        return 0
    slow = lengths > SLOW * np.median(lengths)
    leading = len(lengths) if slow.all() else int(np.argmin(slow))
    return min(leading, len(lengths) // 2)


def _periods(kernels: np.ndarray) -> list[int]:
    """Distances between recurrences of short and long sequences, those that explain most
    launches."""
    proposed: set[int] = set()
    hashes = (kernels.astype(np.uint64) + np.uint64(1)) * _FACTOR
    size = 1
    for grams in GRAMS:
        while size < grams and len(hashes) > size:
            hashes = (hashes[:-size] ^ (hashes[:-size] >> np.uint64(29))) * _FACTOR + hashes[size:]
            size *= 2
        if size != grams:
            break
        order = np.argsort(hashes, kind="stable")
        distance = np.diff(order)[hashes[order][1:] == hashes[order][:-1]]
        values, counts = np.unique(distance[distance <= len(kernels) // 2], return_counts=True)
        best = np.argsort(-values * counts, kind="stable")[:MOST_PERIODS]
        proposed.update(values[best].tolist())
    return sorted(proposed)


def _longest_run(kernels: np.ndarray, period: int, spent: np.ndarray) -> tuple[float, int, int, int] | None:
    """Time, period, first launch and length of the stretch of that period with most time; at least
    two repetitions."""
    same = np.concatenate([[False], kernels[period:] == kernels[:-period], [False]])
    edges = np.flatnonzero(np.diff(same.astype(np.int8)))
    begin, end = edges[::2], edges[1::2] + period
    whole = end - begin >= max(2 * period, LEAST_LAUNCHES)
    if not whole.any():
        return None
    begin, end = begin[whole], end[whole]
    time = spent[end] - spent[begin]
    best = int(np.argmax(time))
    return float(time[best]), period, int(begin[best]), int(end[best] - begin[best])


def range_rows(rows: pd.DataFrame, process: int) -> pd.DataFrame:
    """The NVTX ranges of one process: ``name``, ``thread``, ``start_ns``, ``end_ns``."""
    own = rows[(rows["kind"] == RANGE) & (rows["process"] == process)]
    return own[["name", "thread", "start_ns", "end_ns"]].reset_index(drop=True)


def named(ranges: pd.DataFrame, wanted: str) -> pd.DataFrame:
    """The ranges that ``--nvtx`` means: ``name`` or ``domain@name``, with a slash behind it or
    without. A ``*`` in it stands for any text (``step *``)."""
    pattern = re.compile(".*".join(map(re.escape, wanted.removesuffix("/").split("*"))), re.DOTALL)
    names = ranges["name"].unique()
    chosen = [name for name in names if pattern.fullmatch(name) or pattern.fullmatch(name.partition(_DOMAIN)[2])]
    return ranges[ranges["name"].isin(chosen)]


def paths(ranges: pd.DataFrame, queued: np.ndarray, threads: np.ndarray) -> list[str]:
    """The names of the open ranges around each launch, outermost first, with ``/`` between them; at
    most ``DEEPEST``.

    A launch belongs to ranges of its own thread and of the process. Where its thread has none
    (autograd queues the backward pass in a thread of its own), or only some of a library
    (``CCCL@…``), it belongs to those of the thread whose range began last, too.
    """
    result = [OUTSIDE] * len(queued)
    ranges = ranges[ranges["end_ns"] > ranges["start_ns"]]  # else the end would come before the start, and be missed
    opened: dict[int, dict[int, str]] = {}
    begun: dict[int, int] = {}
    names, owners = ranges["name"].tolist(), ranges["thread"].tolist()
    for time, kind, place in _events(ranges, queued) if len(ranges) else ():
        if kind == _LAUNCH:
            own = int(threads[place])
            around = {**_outer(opened.get(0, {})), **_outer(opened.get(own, {}))}
            if all(_DOMAIN in name for name in opened.get(own, {}).values()):
                others = (thread for thread in opened if opened[thread] and thread != own)
                around |= _outer(opened.get(max(others, key=lambda thread: begun[thread], default=0), {}))
            result[place] = "/".join(around[number].replace("/", "|") for number in sorted(around)[:DEEPEST])
            continue
        thread = int(owners[place])
        stack = opened.setdefault(thread, {})
        if kind == _OPEN:
            stack[place] = str(names[place])
            begun[thread] = time
        else:
            stack.pop(place, None)
    return result


def _outer(stack: dict[int, str]) -> dict[int, str]:
    return dict(islice(stack.items(), DEEPEST))


def _events(ranges: pd.DataFrame, queued: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Time, kind and place of all that opens, closes or launches, in order of time."""
    counts = (len(ranges), len(ranges), len(queued))
    times = np.concatenate([ranges["end_ns"].to_numpy(), ranges["start_ns"].to_numpy(), queued])
    kinds = np.repeat([_CLOSE, _OPEN, _LAUNCH], counts)
    places = np.concatenate([np.arange(count) for count in counts])
    order = np.lexsort((places, kinds, times))
    return zip(times[order].tolist(), kinds[order].tolist(), places[order].tolist(), strict=True)
