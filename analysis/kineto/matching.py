"""Which profiled launch a kernel of a trace is: the same name with its template arguments, grid and
block, on the same GPU model, and of the time that it took. What is not one launch is named, and
never chosen from silently."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.kineto.kernels import TracedLaunch, launch_name
from ncubble.analysis.report.report import Launch
from ncubble.text.values import duration

REPEATS_WITHIN = 1.25
"""Launches with one key solve the same problem if each takes at most this factor longer than the
next shorter one. Kernels with a fixed grid run problems of any size under one key."""
SAME_WITHIN, SAME_US = 2.0, 10.0
"""A slice matches a profiled launch if their times differ at most by this factor, or by this many
µs: under ncu, clocks differ and caches are cold."""

MATCHED, BY_TIME, AMBIGUOUS, OTHER_TIME = "matched", "matched by time", "ambiguous", "other time"
OTHER_GEOMETRY, OTHER_DEVICE, NO_GEOMETRY, NOT_PROFILED = "other grid", "other GPU", "no grid", "not profiled"
OUTCOMES = {
    MATCHED: "name, grid, block and GPU match a single launch, or its repeats",
    BY_TIME: "several launches match; one of them takes this time",
    AMBIGUOUS: "several launches match",
    OTHER_TIME: "the profiled launch takes a different time, so it is another problem",
    OTHER_GEOMETRY: "profiled with another grid or block",
    OTHER_DEVICE: "profiled on another GPU model",
    NO_GEOMETRY: "the trace has no grid and block",
    NOT_PROFILED: "no launch with this name",
}


@dataclass(frozen=True)
class AccountedLaunch:
    """A launch of a report with its verdict, and what it is matched by."""

    launch: Launch
    verdict: LaunchVerdict
    traced: TracedLaunch

    @classmethod
    def of(cls, launch: Launch, verdict: LaunchVerdict) -> AccountedLaunch:
        """With what the report tells of it."""
        known = launch.identity
        shared = known.smem_static_B + known.smem_dynamic_B
        traced = TracedLaunch(
            launch_name(known.mangled or known.demangled),
            known.grid,
            known.block,
            None if math.isnan(known.registers) else int(known.registers),
            None if math.isnan(shared) else int(shared),
            known.device,
        )
        return cls(launch, verdict, traced)


@dataclass(frozen=True)
class LaunchMatch:
    """What was found for a kernel of a trace: one of ``OUTCOMES``, the launch where it is matched
    (of ``repeats`` the one with the median time), and in words what differs or what else fits."""

    outcome: str
    profiled: AccountedLaunch | None = None
    repeats: int = 0
    note: str = ""


class Matcher:
    """Finds launches of ``profiled`` for kernels of a trace. Equal answers are one object."""

    def __init__(self, profiled: Sequence[AccountedLaunch]) -> None:
        self._by_name: dict[str, list[AccountedLaunch]] = defaultdict(list)
        for one in profiled:
            self._by_name[one.traced.name].append(one)
        self._known: dict[TracedLaunch, LaunchMatch | _Candidates] = {}

    def find(self, traced: TracedLaunch, time_us: float) -> LaunchMatch:
        """The launch that a slice of ``time_us`` is."""
        if traced not in self._known:
            self._known[traced] = self._fitting(traced)
        known = self._known[traced]
        return known if isinstance(known, LaunchMatch) else known.find(time_us)

    def _fitting(self, traced: TracedLaunch) -> LaunchMatch | _Candidates:
        """Launches that fit by all but their time, or why none does."""
        named = self._by_name.get(traced.name, [])
        if not named:
            return LaunchMatch(NOT_PROFILED)
        if not traced.grid or not traced.block:
            return LaunchMatch(NO_GEOMETRY)
        same = [one for one in named if (one.traced.grid, one.traced.block) == (traced.grid, traced.block)]
        if not same:
            sizes = [f"{one.traced.grid} × {one.traced.block}" for one in named]
            return LaunchMatch(OTHER_GEOMETRY, note=f"{traced.grid} × {traced.block}, profiled {_some(sizes)}")
        here = [one for one in same if _agree(one.traced.device.lower(), traced.device.lower())]
        if not here:
            gpus = _some([one.traced.device for one in same])
            return LaunchMatch(OTHER_DEVICE, note=f"{traced.device}, profiled {gpus}")
        # Registers and shared memory decide if possible.
        return _Candidates([one for one in here if not _differences(one.traced, traced)] or here, traced)


class _Candidates:
    """Launches that fit a kernel by all but its time, by what they solve."""

    def __init__(self, launches: list[AccountedLaunch], traced: TracedLaunch) -> None:
        self.problems = [_Problem(group, traced) for group in _by_length(launches)]
        names = _some([problem.words for problem in self.problems])
        self.ambiguous, self.other_time = (LaunchMatch(outcome, note=names) for outcome in (AMBIGUOUS, OTHER_TIME))

    def find(self, time_us: float) -> LaunchMatch:
        """The only one that the time allows."""
        possible = [problem for problem in self.problems if problem.takes(time_us, SAME_WITHIN, SAME_US)]
        if not possible:
            return self.other_time
        if len(self.problems) == 1:
            only = self.problems[0]
            return (only.matched if only.takes(time_us, SAME_WITHIN, 0.0) else only.apart) or self.ambiguous
        near = [problem for problem in self.problems if problem.takes(time_us, REPEATS_WITHIN, 0.0)]
        return (near[0].by_time if len(near) == 1 else None) or self.ambiguous


class _Problem:
    """Launches of one length: repeats, unless they tell that they solve different problems; then
    nothing is matched."""

    def __init__(self, launches: list[AccountedLaunch], traced: TracedLaunch) -> None:
        middle = launches[(len(launches) - 1) // 2]
        problems = {(one.verdict.label, str(one.verdict.shape), one.launch.identity.nvtx) for one in launches}
        known, one = middle.verdict.duration_ns, len(problems) == 1
        self.time_us = known / 1e3 if known else None
        times = f" in {duration(known)}" if known else ""
        self.words = _some([one.verdict.address for one in launches]) + times
        differences = _differences(middle.traced, traced)
        length = f"profiled in {duration(known)}, which differs by more than {SAME_WITHIN:g} times" if known else ""

        def match(outcome: str, *more: str) -> LaunchMatch | None:
            return LaunchMatch(outcome, middle, len(launches), "; ".join([*more, *differences])) if one else None

        self.matched, self.by_time = match(MATCHED), match(BY_TIME)
        # Short, and so matched, but of quite another time.
        self.apart = match(MATCHED, length)

    def takes(self, time_us: float, within: float, more_us: float) -> bool:
        """Whether a slice of that time may be of this problem; always where a time is not known."""
        if self.time_us is None:
            return True
        short, long = sorted((self.time_us, time_us))
        return long <= within * short or long - short <= more_us


def _by_length(launches: list[AccountedLaunch]) -> list[list[AccountedLaunch]]:
    """Launches that take about the same time together, in order of time."""
    groups: list[list[AccountedLaunch]] = []
    before = -1.0
    for one in sorted(launches, key=lambda one: one.verdict.duration_ns or 0.0):
        time = one.verdict.duration_ns or 0.0
        if groups and time <= REPEATS_WITHIN * before:
            groups[-1].append(one)
        else:
            groups.append([one])
        before = time
    return groups


def _differences(profiled: TracedLaunch, traced: TracedLaunch) -> list[str]:
    """In what two launches were built differently, in words."""
    pairs = (
        ("registers", profiled.registers, traced.registers),
        ("bytes of shared memory", profiled.shared_b, traced.shared_b),
    )
    return [
        f"{own} {what} in the trace, {other} profiled"
        for what, other, own in pairs
        if None not in (own, other) and own != other
    ]


def _agree(first: str, second: str) -> bool:
    return not first or not second or first == second


def _some(texts: list[str], most: int = 3) -> str:
    """The first few, each once, and how many more there are."""
    texts = list(dict.fromkeys(texts))
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")
