"""How well changes in a history of checks are found: ``history/steps.py`` and libraries, on series
made up and real.

    pip install --no-deps --target PEERS apache-otava==0.8.0 ruptures==1.1.10
    PYTHONPATH=PEERS python -m benchmarks.gate.trend [--trials 300] [--lengths | --coverage] [--history DIR]

A method that is not installed has no rows. ``false``: percent of series without any change in which
a change is called. Then percent of changes of 0.5, 1, 2 and 5 % that are called within one check of
their place, one or more a series; ``right``: percent of all calls that were within one check of a
change, over the series of all four sizes. Values are means of checks, so noise is that of a mean.
E-divisive, which permutes, gets a tenth of the trials.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ncubble.analysis.gate.steps import find_steps

SIZES = (0.5, 1.0, 2.0, 5.0)
SLACK = 1
Array = NDArray[np.float64]
Method = Callable[[Array, Sequence[int]], list[int]]


def ours(values: Array, setups: Sequence[int]) -> list[int]:
    return [step.index for step in find_steps(values.tolist(), setups=setups).steps]


def ours_blind(values: Array, setups: Sequence[int]) -> list[int]:
    return ours(values, [0] * len(values))


def otava(values: Array, setups: Sequence[int]) -> list[int]:
    from otava.analysis import compute_change_points

    return [int(point.index) for point in compute_change_points(values.tolist())[0]]


def otava_strict(values: Array, setups: Sequence[int]) -> list[int]:
    from otava.analysis import compute_change_points

    return [int(point.index) for point in compute_change_points(values.tolist(), max_pvalue=1e-4)[0]]


def e_divisive(values: Array, setups: Sequence[int]) -> list[int]:
    from otava.analysis import compute_change_points_orig

    return [int(point.index) for point in compute_change_points_orig(values.tolist(), max_pvalue=0.01, seed=1)[0]]


def pelt(values: Array, setups: Sequence[int]) -> list[int]:
    """Least squares; a change costs 3 log(n) variances (its place, its level), the variance is that
    of differences."""
    import ruptures

    deviation = float(np.median(np.abs(np.diff(values)))) / 0.6745 / math.sqrt(2)
    cost = max(3 * math.log(len(values)) * deviation**2, 1e-12)
    found = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(values).predict(pen=cost)
    return [int(place) for place in found if place < len(values)]


METHODS: dict[str, tuple[Method, str]] = {
    "ncubble": (ours, ""),
    "ncubble, machines unknown": (ours_blind, ""),
    "otava 0.8 (p 0.001)": (otava, "otava"),
    "otava 0.8 (p 0.0001)": (otava_strict, "otava"),
    "E-divisive (p 0.01)": (e_divisive, "otava"),
    "ruptures PELT, L2, BIC": (pelt, "ruptures"),
}
SLOW = {"E-divisive (p 0.01)": 10}


@dataclass(frozen=True)
class World:
    """Where a series comes from: noise of a check, shift of a start and of a GPU, as standard
    deviations in percent.

    ``gpus``: of a pool, one at random for each check. ``swapped``: the GPU is replaced once.
    ``odd``: share of checks that are 3 % off. ``changes``: of a series; each goes either way by
    chance, the first is a loss.
    """

    name: str
    noise: float
    start: float = 0.0
    gpu: float = 0.0
    gpus: int = 1
    swapped: bool = False
    odd: float = 0.0
    changes: int = 1

    def series(self, length: int, size: float, random: np.random.Generator) -> tuple[Array, list[int], list[int]]:
        """Values around 100, the machine of each, and where the changes are."""
        places = np.arange(length)
        own = random.integers(0, self.gpus, length)
        if self.swapped:
            own = (places >= random.integers(3, length - 2)).astype(int)
        spread = math.hypot(self.noise, self.start)
        values = 100 + spread * random.standard_normal(length) + self.gpu * random.standard_normal(2 + self.gpus)[own]
        values = values - 3 * (random.random(length) < self.odd)
        changed = random.choice(np.arange(3, length - 2, self.changes), self.changes, replace=False) if size else []
        for number, place in enumerate(sorted(changed)):
            loss = size if not number or random.random() < 0.5 else -size
            values = values * np.where(places >= place, 1 - loss / 100, 1.0)
        return values, own.tolist(), [int(place) for place in changed]


WORLDS = (
    World("one GPU, noise 0.1 %", 0.1),
    World("one GPU, noise 0.25 %", 0.25),
    World("one GPU, noise 0.4 %", 0.4),
    World("a start for each check, its shift 0.5 %", 0.25, start=0.5),
    World("a start for each check, its shift 1.5 %", 0.25, start=1.5),
    World("three GPUs in turn that differ by 1 %", 0.25, gpu=1.0, gpus=3),
    World("the GPU is replaced once, by one 1 % off", 0.25, gpu=1.0, swapped=True),
    World("one check in 20 is 3 % off", 0.25, odd=0.05),
    World("four changes, noise 0.25 %", 0.25, changes=4),
)


def counted(method: Method, world: World, length: int, trials: int) -> tuple[float, list[float], float]:
    """(false, found by size, right), in percent."""
    random = np.random.default_rng(20261122)
    false = 0
    for _ in range(trials):
        values, own, _ = world.series(length, 0.0, random)
        false += bool(method(values, own))
    hits, calls, found = 0, 0, []
    for size in SIZES:
        got = 0
        for _ in range(trials):
            values, own, changed = world.series(length, size, random)
            called = method(values, own)
            got += sum(any(abs(call - place) <= SLACK for call in called) for place in changed)
            hits += sum(any(abs(call - place) <= SLACK for place in changed) for call in called)
            calls += len(called)
        found.append(100 * got / trials / world.changes)
    return 100 * false / trials, found, 100 * hits / calls if calls else math.nan


def installed() -> dict[str, Method]:
    found = {}
    for name, (method, module) in METHODS.items():
        try:
            __import__(module or "math")
        except ImportError:
            print(f"not installed: {module} ({name})")
            continue
        found[name] = method
    return found


def rows(methods: dict[str, Method], cases: Sequence[tuple[World, int]], trials: int) -> Iterator[str]:
    yield f"| series | checks | method | false | {' | '.join(f'{size} %' for size in SIZES)} | right |"
    yield f"| --- | ---: | --- | ---: | {' | '.join('---:' for _ in SIZES)} | ---: |"
    for world, length in cases:
        for name, method in methods.items():
            if name == "ncubble, machines unknown" and not world.gpu:
                continue
            false, found, right = counted(method, world, length, max(trials // SLOW.get(name, 1), 20))
            numbers = " | ".join(f"{one:.0f}" for one in found)
            yield f"| {world.name} | {length} | {name} | {false:.1f} | {numbers} | {right:.0f} |"


def of_history(methods: dict[str, Method], folder: Path) -> Iterator[str]:
    """Calls in the gated series of a real history of one commit, and in the same with its second
    half made worse."""
    from ncubble.analysis.gate.history import read
    from ncubble.analysis.gate.trend import all_series, mean_of

    found = [one for one in all_series(read(folder)) if one.last.metric.gated and len(one.checks) >= 4]
    series = [np.array([mean_of(point) for point in one.checks]) for one in found]
    yield f"\n{folder}: {len(series)} gated series of {', '.join(sorted({str(len(one)) for one in series}))} checks"
    yield f"| method | calls without a change | {' | '.join(f'{size} % found' for size in SIZES)} |"
    yield f"| --- | ---: | {' | '.join('---:' for _ in SIZES)} |"
    for name, method in methods.items():
        false, found = sum(len(method(one, [0] * len(one))) for one in series), []
        for size in SIZES:
            halves = [one * np.where(np.arange(len(one)) >= len(one) // 2, 1 - size / 100, 1) for one in series]
            found.append(sum(len(one) // 2 in method(one, [0] * len(one)) for one in halves))
        yield f"| {name} | {false} | {' | '.join(f'{one} of {len(series)}' for one in found)} |"


def covered(world: World, length: int, trials: int) -> Iterator[str]:
    """How often the 95 % interval of the size, and the range of the place, of a found change hold
    the truth."""
    random = np.random.default_rng(7)
    for size in SIZES:
        found = sized = placed = exact = 0
        for _ in range(trials):
            values, own, changed = world.series(length, size, random)
            for step in find_steps(values.tolist(), setups=own).steps:
                near = [place for place in changed if step.first <= place <= step.last or abs(place - step.index) <= 3]
                found += bool(near)
                sized += bool(near) and abs(step.change + size) <= step.half_width
                placed += any(step.first <= place <= step.last for place in near)
                exact += step.index in changed
        shares = " | ".join(f"{100 * one / found:.0f}" if found else "–" for one in (sized, placed, exact))
        yield f"| {world.name} | {size} % | {found} | {shares} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--checks", type=int, default=30, help="checks of a series")
    parser.add_argument("--lengths", action="store_true", help="also shorter and longer series of one kind")
    parser.add_argument("--coverage", action="store_true", help="only how often the stated intervals hold the truth")
    parser.add_argument("--history", type=Path, default=Path("recordings/h200-checks"))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # of a t test without any spread
    if given.coverage:
        print("| series | change | found | size in its interval, % | place in its range, % | place exact, % |")
        print("| --- | --- | ---: | ---: | ---: | ---: |")
        for world in (WORLDS[1], WORLDS[3], WORLDS[5]):
            for line in covered(world, given.checks, given.trials):
                print(line, flush=True)
        return 0
    methods = installed()
    cases = [(world, given.checks) for world in WORLDS]
    if given.lengths:
        cases += [(WORLDS[1], length) for length in (6, 8, 12, 60, 120)]
    for line in rows(methods, cases, given.trials):
        print(line, flush=True)
    for line in of_history(methods, given.history):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
