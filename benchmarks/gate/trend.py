"""How well changes in a history of checks are found, on series made up.

    python -m benchmarks.gate.trend [--trials 300]      # the tables of docs/trend.md

``false``: percent of series without any change in which a change is called. Then percent of changes
of 0.5, 1, 2 and 5 % that are called within one check of their place, one or more a series;
``right``: percent of all calls that were within one check of a change, over the series of all four
sizes. ``size in its interval``: percent of the calls of changes of 1 % whose interval of 95 % holds
it. Values are means of checks, so noise is that of a mean.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.blocks import table
from ncubble.analysis.gate.steps import LevelStep, find_steps

SIZES = (0.5, 1.0, 2.0, 5.0)
SLACK = 1
INTERVALS_OF = 1.0
Array = NDArray[np.float64]


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


def row(world: World, length: int, trials: int, machines: bool = True) -> list[str]:
    """What is found in one kind of series; ``machines``: whether it is known which one each check ran on."""
    random = np.random.default_rng(20261122)
    cells, calls, near, held = [], 0, 0, "–"
    for size in (0.0, *SIZES):
        found = false = 0
        close: list[LevelStep] = []
        for _ in range(trials):
            values, own, changed = world.series(length, size, random)
            steps = find_steps(values.tolist(), setups=own if machines else [0] * length).steps
            false += bool(steps)
            found += sum(any(abs(step.index - place) <= SLACK for step in steps) for place in changed)
            close += [step for step in steps if any(abs(step.index - place) <= SLACK for place in changed)]
            calls += len(steps) if size else 0
        near += len(close)
        cells.append(f"{100 * found / trials / world.changes:.0f}" if size else f"{100 * false / trials:.1f}")
        if size == INTERVALS_OF and close:
            held = f"{100 * sum(abs(abs(one.change) - size) <= one.half_width for one in close) / len(close):.0f}"
    name = world.name if machines else f"{world.name}, machines unknown"
    return [name, str(length), *cells, f"{100 * near / calls:.0f}" if calls else "–", held]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    trials = parser.parse_args().trials
    rows = [row(world, 30, trials, known) for world in WORLDS for known in (True, False) if known or world.gpu]
    rows += [row(WORLDS[1], length, trials) for length in (6, 12, 120)]
    head = ["series", "checks", "false", *(f"{size:g} %" for size in SIZES), "right", "size in its interval"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
