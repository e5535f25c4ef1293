"""Which profiled launch a kernel of a trace is: the same name with its template arguments, grid and
block, on the same GPU model, and of the time that it took. What is not one launch is named, and
never chosen from silently."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from ncubble.analysis.program.account import LaunchMatch, ProfiledLaunch
from ncubble.analysis.program.kernels import ProgramKernel
from ncubble.analysis.streams.recording import readable
from ncubble.text.values import duration, some

REPEATS_WITHIN = 1.25
"""Launches with one key solve the same problem if each takes at most this factor longer than the
next shorter one. Kernels with a fixed grid run problems of any size under one key."""
SAME_WITHIN, SAME_NS = 2.0, 10e3
"""A slice matches a profiled launch if their times differ at most by this factor, or by this many
ns: under ncu, clocks differ and caches are cold."""

MATCHED, BY_TIME, AMBIGUOUS, OTHER_TIME = "matched", "matched by time", "ambiguous", "other time"
OTHER_GEOMETRY, OTHER_DEVICE, NO_GEOMETRY, NOT_PROFILED = "other grid", "other GPU", "no grid", "not profiled"
OUTCOMES = {
    AMBIGUOUS: "several launches match",
    OTHER_TIME: "the profiled launch takes a different time, so it is another problem",
    OTHER_GEOMETRY: "profiled with another grid or block",
    OTHER_DEVICE: "profiled on another GPU model",
    NO_GEOMETRY: "the trace has no grid and block",
    NOT_PROFILED: "no launch with this name",
}
"""Why a kernel has no launch."""
_COMPILATION = re.compile(r"\[abi:[^\]]*\]")
"""Numba's compilation tag: a counter of earlier compilations in the process."""
_BLANK = re.compile(r"\s+")


@lru_cache(maxsize=4096)
def launch_name(name: str) -> str:
    """A kernel's name with its template arguments, equal for one kernel in a trace and in a report:
    demangled as Kineto does (the C++ library's way, which is not Nsight's), without ``void``,
    blanks and Numba's tags."""
    return _BLANK.sub("", _COMPILATION.sub("", readable(name)).removeprefix("void "))


class Matcher:
    """Finds launches of ``profiled`` for kernels of a trace, whose GPUs ``devices`` names by their
    numbers. Equal answers are one object."""

    def __init__(self, profiled: Sequence[ProfiledLaunch], devices: Mapping[int, str] | None = None) -> None:
        self._devices = devices or {}
        self._by_name: dict[str, list[ProfiledLaunch]] = defaultdict(list)
        for one in profiled:
            self._by_name[launch_name(one.identity.mangled or one.identity.demangled)].append(one)
        self._known: dict[tuple[ProgramKernel, str], LaunchMatch | _Candidates] = {}

    def find(self, kernel: ProgramKernel, device: int, ns: float) -> LaunchMatch:
        """The launch that a kernel is that took ``ns`` on this GPU (-1: not told)."""
        # A GPU without a number is known only where all have one name.
        alike = next(iter(self._devices.values()), "") if len(set(self._devices.values())) == 1 else ""
        model = self._devices.get(device, "") if device >= 0 else alike
        known = self._known.get((kernel, model))
        if known is None:
            known = self._known[kernel, model] = self._fitting(kernel, model)
        return known if isinstance(known, LaunchMatch) else known.find(ns)

    def _fitting(self, kernel: ProgramKernel, model: str) -> LaunchMatch | _Candidates:
        """Launches that fit by all but their time, or why none does."""
        named = self._by_name.get(launch_name(kernel.symbol), [])
        if not named:
            return LaunchMatch(NOT_PROFILED)
        if not kernel.grid:
            return LaunchMatch(NO_GEOMETRY)
        same = [one for one in named if (one.identity.grid, one.identity.block) == (kernel.grid, kernel.block)]
        if not same:
            sizes = some([f"{one.identity.grid} × {one.identity.block}" for one in named])
            return LaunchMatch(OTHER_GEOMETRY, note=f"{kernel.grid} × {kernel.block}, profiled {sizes}")
        gpus = [one.identity.device for one in same]
        here = [one for one, gpu in zip(same, gpus, strict=True) if "" in (gpu, model) or gpu.lower() == model.lower()]
        if not here:
            return LaunchMatch(OTHER_DEVICE, note=f"{model}, profiled {some(gpus)}")
        # Registers and shared memory decide if possible.
        return _Candidates([one for one in here if not _differences(one, kernel)] or here, kernel)


class _Candidates:
    """Launches that fit a kernel by all but its time, by what they solve."""

    def __init__(self, launches: list[ProfiledLaunch], kernel: ProgramKernel) -> None:
        self.problems = [_Problem(group, kernel) for group in _by_length(launches)]
        names = some([problem.words for problem in self.problems])
        self.ambiguous, self.other_time = (LaunchMatch(outcome, note=names) for outcome in (AMBIGUOUS, OTHER_TIME))

    def find(self, ns: float) -> LaunchMatch:
        """The only one that the time allows."""
        possible = [problem for problem in self.problems if problem.takes(ns, SAME_WITHIN, SAME_NS)]
        if not possible:
            return self.other_time
        if len(self.problems) == 1:
            only = self.problems[0]
            return (only.matched if only.takes(ns, SAME_WITHIN, 0.0) else only.apart) or self.ambiguous
        near = [problem for problem in self.problems if problem.takes(ns, REPEATS_WITHIN, 0.0)]
        return (near[0].by_time if len(near) == 1 else None) or self.ambiguous


class _Problem:
    """Launches of one length: repeats, unless they tell that they solve different problems; then
    nothing is matched."""

    def __init__(self, launches: list[ProfiledLaunch], kernel: ProgramKernel) -> None:
        middle = launches[(len(launches) - 1) // 2]
        one = len({(each.verdict.label, str(each.verdict.shape), each.identity.nvtx) for each in launches}) == 1
        self.ns = middle.verdict.duration_ns
        self.words = some([each.verdict.address for each in launches]) + (f" in {duration(self.ns)}" if self.ns else "")
        differences = _differences(middle, kernel)
        length = f"profiled in {duration(self.ns)}, which differs by more than {SAME_WITHIN:g} times" if self.ns else ""

        def match(outcome: str, *more: str) -> LaunchMatch | None:
            return LaunchMatch(outcome, middle, len(launches), "; ".join([*more, *differences])) if one else None

        self.matched, self.by_time = match(MATCHED), match(BY_TIME)
        # Short, and so matched, but of quite another time.
        self.apart = match(MATCHED, length)

    def takes(self, ns: float, within: float, more_ns: float) -> bool:
        """Whether a slice of that time may be of this problem; always where a time is not known."""
        if not self.ns:
            return True
        short, long = sorted((self.ns, ns))
        return long <= within * short or long - short <= more_ns


def _by_length(launches: list[ProfiledLaunch]) -> list[list[ProfiledLaunch]]:
    """Launches that take about the same time together, in order of time."""
    ordered = sorted(launches, key=lambda one: one.verdict.duration_ns or 0.0)
    times = [one.verdict.duration_ns or 0.0 for one in ordered]
    longer = [place for place in range(1, len(times)) if times[place] > REPEATS_WITHIN * times[place - 1]]
    return [ordered[begin:end] for begin, end in pairwise([0, *longer, len(ordered)])]


def _differences(profiled: ProfiledLaunch, kernel: ProgramKernel) -> list[str]:
    """In what two launches were built differently, in words; nothing of what either does not
    tell."""
    known = profiled.identity
    pairs = (
        ("registers", known.registers, kernel.registers),
        ("bytes of shared memory", known.smem_static_B + known.smem_dynamic_B, kernel.shared_B),
    )
    return [
        f"{own} {what} in the trace, {other:.0f} profiled"
        for what, other, own in pairs
        if kernel.registers and other == other and own != other
    ]
