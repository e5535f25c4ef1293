"""Launches that were recorded for the proof of the gate, and checks drawn from them: n launches
against n others.

A process is one run of the profiler: its launches share whatever a process shares. The two sides of
a drawn check never share a process. Of what is random, everything hangs on the name of the cell, so
that each can be drawn anew alone.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.harness.command import REPOSITORY
from ncubble.analysis.gate.metrics import BY_NAME, MIN_TENSOR_PCT
from ncubble.analysis.gate.noise import Sample

FOLDER = REPOSITORY / "recordings" / "h200-gate"
SETTINGS = ("same GPU", "other GPU", "two GPUs, a third")
SIZES = (3, 5, 10)
METRICS = ("tensor_elapsed_pct", "cycles")
MOST_OF_ONE = 7
"""Launches that every process has at least: a side of more takes half of them from each of two."""
SEED = 20261122


@dataclass(frozen=True)
class Process:
    """All launches of one process of one series: clocks in Hz, values by metric of the gate."""

    gpu: str
    run: str
    clocks: tuple[float, ...]
    values: Mapping[str, tuple[float, ...]]

    def __len__(self) -> int:
        return len(self.clocks)


Side = tuple[tuple[Process, tuple[int, ...]], ...]
"""Launches of one side of a check, by process."""


def load(path: Path) -> dict[str, list[Process]]:
    """Processes by series. Series below MIN_TENSOR_PCT have no tensor utilization to gate: only
    cycles are read."""
    found: dict[str, list[Process]] = defaultdict(list)
    for (series, gpu, run), rows in pd.read_parquet(path).groupby(["series", "gpu", "run"]):
        values = {name: tuple(rows[BY_NAME[name].counters[0]]) for name in METRICS}
        if sum(values[METRICS[0]]) < MIN_TENSOR_PCT * len(rows):
            del values[METRICS[0]]
        found[str(series)].append(Process(str(gpu), f"{gpu}/{run}", tuple(rows["sm_clock_hz"]), values))
    return dict(found)


def random_of(*cell: object) -> random.Random:
    """What everything random of a cell is drawn with."""
    return random.Random("/".join(map(str, (SEED, *cell))))  # noqa: S311


def draw(members: Sequence[Process], setting: str, n: int, rng: random.Random) -> tuple[Side, Side]:
    """One check: the baseline's launches and the new ones. Of two GPUs a baseline has ``n``
    launches each."""
    halves = 1 if n <= MOST_OF_ONE else 2
    by_gpu: dict[str, list[Process]] = defaultdict(list)
    for one in members:
        by_gpu[one.gpu].append(one)
    if setting == "same GPU":
        gpu = rng.choice([name for name, found in by_gpu.items() if len(found) >= 2 * halves])
        chosen = rng.sample(by_gpu[gpu], 2 * halves)
        sides = [chosen[:halves], chosen[halves:]]
    else:
        *before, now = rng.sample(sorted(by_gpu), 2 if setting == "other GPU" else 3)
        sides = [[one for gpu in gpus for one in rng.sample(by_gpu[gpu], halves)] for gpus in (before, [now])]
    before_and_now = [tuple((one, _launches(one, n // halves, rng)) for one in side) for side in sides]
    return before_and_now[0], before_and_now[1]


def _launches(process: Process, number: int, rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.sample(range(len(process)), number))


def sample(side: Side, name: str, factor: float = 1.0) -> Sample:
    """The launches of a side for the test of the gate, values of metric ``name`` times
    ``factor``."""
    return Sample(
        tuple(process.values[name][i] * factor for process, chosen in side for i in chosen),
        tuple(process.clocks[i] for process, chosen in side for i in chosen),
        tuple(process.run for process, chosen in side for _ in chosen),
        tuple(process.gpu for process, chosen in side for _ in chosen),
    )


def factor(name: str, loss_pct: float) -> float:
    """What a loss makes of metric ``name``: less utilization, or more cycles for the same work."""
    kept = 1 - loss_pct / 100
    return kept if BY_NAME[name].better == "higher" else 1 / kept


def processes_of(side: Side) -> frozenset[str]:
    """Names of the processes of a side."""
    return frozenset(process.run for process, _ in side)
