"""How the recorded series scatter: within a process, between processes, between GPUs, and what the
clock explains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from benchmarks.gate.draws import FOLDER, METRICS, Process, load
from benchmarks.readme_tables import table


def table_of() -> str:
    """One row per kernel and metric; standard deviations in percent of the mean.

    Those of processes and GPUs are what is left of the scatter of means once that of their parts is
    taken out, 0 where nothing is. The exponent is the slope of log value over log clock around the
    means of the processes.
    """
    rows = []
    for series, members in sorted(load(FOLDER / "series.parquet").items()):
        for name in METRICS:
            if name in members[0].values:
                rows.append([series, f"`{name}`", *cells(members, name)])
    head = ["kernel", "metric", "launches", "in a process (largest)", "processes", "GPUs", "GPUs differ by up to"]
    return table(
        [*head, "less the clock", "clocks differ by up to", "clock exponent", "in a process, less the clock"], rows
    )


def cells(members: Sequence[Process], name: str) -> list[str]:
    """The figures of one kernel and metric."""
    values = [np.log(process.values[name]) * 100 for process in members]
    clocks = [np.log(process.clocks) * 100 for process in members]
    within, between, gpus = spreads(members, values)
    slope, error, left = exponent(values, clocks)
    largest = max(float(np.std(one, ddof=1)) for one in values)
    return [
        str(sum(len(one) for one in values)),
        f"{within:.2f} ({largest:.2f})",
        f"{between:.2f}",
        f"{gpus:.2f}",
        f"{gpu_range(members, values):.2f}",
        f"{gpu_range(members, [y - slope * x for y, x in zip(values, clocks, strict=True)]):.2f}",
        f"{gpu_range(members, clocks):.1f}",
        f"{slope:+.2f} ± {error:.2f}",
        f"{left:.2f}",
    ]


def spreads(members: Sequence[Process], values: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Standard deviations of launches in a process, of processes on a GPU, and of GPUs."""
    launch = pooled(values)
    means = _means(members, values)
    of_runs = pooled(means)
    each = 1 / float(np.mean([1 / len(one) for one in values]))
    runs = max(0.0, of_runs - launch / each)
    gpus = float(np.var([one.mean() for one in means], ddof=1))
    gpus = max(0.0, gpus - of_runs * float(np.mean([1 / len(one) for one in means])))
    return math.sqrt(launch), math.sqrt(runs), math.sqrt(gpus)


def pooled(groups: Sequence[np.ndarray]) -> float:
    """Variance within groups."""
    free = sum(len(one) - 1 for one in groups)
    return float(sum(((one - one.mean()) ** 2).sum() for one in groups) / free)


def _means(members: Sequence[Process], values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Means of the processes, by GPU."""
    found: dict[str, list[float]] = defaultdict(list)
    for process, one in zip(members, values, strict=True):
        found[process.gpu].append(float(one.mean()))
    return [np.array(one) for one in found.values()]


def gpu_range(members: Sequence[Process], values: Sequence[np.ndarray]) -> float:
    """By how much the means of GPUs differ at most."""
    means = [float(one.mean()) for one in _means(members, values)]
    return max(means) - min(means)


def exponent(values: Sequence[np.ndarray], clocks: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Slope, its standard error, and what is left of the deviation within a process."""
    x, y = (np.concatenate([one - one.mean() for one in side]) for side in (clocks, values))
    slope = float(x @ y / (x @ x))
    left = math.sqrt(float(((y - slope * x) ** 2).sum()) / (len(x) - len(values) - 1))
    return slope, left / math.sqrt(float(x @ x)), left
