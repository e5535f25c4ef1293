"""The gate's rule on recorded repeats: false alarms, and losses found, beside the rules of asv and pytest-benchmark.

    python benchmarks/gate_proof.py [--draws 40] [--markdown] [SERIES.parquet]

Both sides of a check are drawn from real launches (``recordings/h200-gate``, by ``benchmarks/gate_series.py``): n of
one process against n of another, of the same GPU or of another one. The same code ran in all, so every regression is
a false alarm. A loss is then put on the second side: its tensor utilization is multiplied by (1 - loss), its cycles
by (1 + loss). With n above 7 a side takes half of its launches from one process and half from another.

Every pair of processes is drawn from ``--draws`` times. Pairs share launches, so the number of draws is not the
number of independent trials: what limits these figures is the three GPUs and the handful of processes.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from ncubble.analysis.gate_metrics import BY_NAME, MIN_TENSOR_PCT, GateMetric
from ncubble.analysis.noise import Sample, compare

RECORDED = Path(__file__).resolve().parents[1] / "recordings" / "h200-gate" / "series.parquet"
LOSSES = (0.0, 0.5, 1.0, 2.0, 5.0)
SIZES = (3, 5, 10)
METRICS = ("tensor_active_pct", "cycles")
SEED = 20261122

Launches = tuple[Sample, ...]
Rule = Callable[[Sample, Sample, GateMetric], bool]


@dataclass(frozen=True)
class Process:
    """All launches of one process of one series, for one metric."""

    gpu: str
    run: str
    values: tuple[float, ...]
    clocks: tuple[float, ...]

    def take(self, chosen: Sequence[int]) -> Sample:
        """Some of its launches."""
        return Sample(
            tuple(self.values[i] for i in chosen),
            tuple(self.clocks[i] for i in chosen),
            (self.run,) * len(chosen),
            (self.gpu,) * len(chosen),
        )


def processes(table: pd.DataFrame, metric: GateMetric) -> dict[str, list[Process]]:
    """Processes by series; series below MIN_TENSOR_PCT have no tensor utilization to gate."""
    counter = metric.counters[0]
    found: dict[str, list[Process]] = defaultdict(list)
    for (series, gpu, run), rows in table.groupby(["series", "gpu", "run"]):
        values = tuple(rows[counter])
        if metric.name != "tensor_active_pct" or np.mean(values) >= MIN_TENSOR_PCT:
            found[str(series)].append(Process(str(gpu), f"{gpu}/{run}", values, tuple(rows["sm_clock_hz"])))
    return found


def joined(parts: Sequence[Sample]) -> Sample:
    """Several samples as one."""
    return Sample(*(sum((getattr(part, name) for part in parts), ()) for name in ("values", "clocks", "runs", "gpus")))


def sides(
    found: list[Process], n: int, other_gpu: bool, draws: int, rng: random.Random
) -> Iterator[tuple[Sample, Sample]]:
    """Pairs of sides with ``n`` launches each, from different processes."""
    halves = 1 if n <= 7 else 2
    for groups in itertools.permutations(found, 2 * halves):
        one, other = groups[:halves], groups[halves:]
        if len({part.gpu for part in one}) > 1 or len({part.gpu for part in other}) > 1:
            continue
        if (one[0].gpu != other[0].gpu) != other_gpu:
            continue
        if halves == 2 and rng.random() > 0.1:
            continue
        each = n // halves
        for _ in range(draws if halves == 1 else max(1, draws // 10)):
            yield tuple(  # type: ignore[misc]
                joined([part.take(rng.sample(range(len(part.values)), each)) for part in side]) for side in (one, other)
            )


def worse(sample: Sample, loss: float, metric: GateMetric) -> Sample:
    """The same launches of a kernel that lost ``loss`` percent."""
    factor = 1 - loss / 100 if metric.better == "higher" else 1 + loss / 100
    return Sample(tuple(value * factor for value in sample.values), sample.clocks, sample.runs, sample.gpus)


def ncubble(one: Sample, other: Sample, metric: GateMetric) -> str:
    """The gate's outcome."""
    return compare(one, other, better=metric.better, limit_pct=1.0, cv_pct=metric.cv_pct, shifts=metric.shifts).outcome


def lost(one: Sample, other: Sample, metric: GateMetric) -> float:
    """Loss of the means in percent."""
    change = np.mean(other.values) / np.mean(one.values) * 100 - 100
    return float(-change if metric.better == "higher" else change)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", type=Path, nargs="?", default=RECORDED)
    parser.add_argument("--draws", type=int, default=40)
    given = parser.parse_args()
    table = pd.read_parquet(given.series)
    for name in METRICS:
        metric = BY_NAME[name]
        found = processes(table, metric)
        for other_gpu in (False, True):
            for n in SIZES:
                for series, members in sorted(found.items()):
                    rng = random.Random(SEED)
                    count = 0
                    hits = defaultdict(int)
                    for one, other in sides(members, n, other_gpu, given.draws, rng):
                        count += 1
                        for loss in LOSSES:
                            outcome = ncubble(one, worse(other, loss, metric), metric)
                            hits[loss, outcome] += 1
                    line = " ".join(
                        f"{loss:g}%: {100 * hits[loss, 'regressed'] / count:6.2f} ({100 * hits[loss, 'inconclusive'] / count:5.1f})"
                        for loss in LOSSES
                    )
                    print(
                        f"{name:18s} {'other' if other_gpu else 'same '} n={n:2d} {series:26s} {count:6d} {line}",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
