"""The gate on what was kept apart: a fourth GPU against baselines of the other three, and checks of
an older series.

``apart.parquet`` holds 5 launches of 6 kernels on a fourth GPU, looked at only after the rule had
been committed. ``recordings/h200-checks`` holds real checks on a fifth GPU against baselines of a
sixth (``shipped.json``, with the clocks' means alone and no GPU named): these were seen before the
clock became part of the rule, and led to it.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import pandas as pd

from benchmarks.gate import rules as gate_rules
from benchmarks.gate.draws import FOLDER, METRICS, Process, Side, factor, load, sample
from benchmarks.readme_tables import table
from ncubble.analysis.gate.history import Point, read
from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.noise import Sample, compare
from ncubble.text.values import renamed_keys

CHECKS = FOLDER.parent / "h200-checks"
N = 5
SHORT = {
    "regressed": "regressed",
    "inconclusive": "inconclusive (exit 3)",
    "improved": "improved",
    "pass": "pass",
    "weak": "pass (weak)",
}


@cache
def series() -> tuple[dict[str, list[Process]], dict[str, list[Process]]]:
    """The three GPUs' launches, and the fourth's."""
    return load(FOLDER / "series.parquet"), load(FOLDER / "apart.parquet")


def fourth() -> str:
    """Every process of the three GPUs as a baseline of its first 5 launches; one baseline of 5
    launches of each GPU, and one of all launches with the default sets, as it ships."""
    before, after = series()
    letters = gpu_names(before)
    rows = []
    for kernel, (now,) in sorted(after.items()):
        new = ((now, tuple(range(N))),)
        for gpu, letter in letters.items():
            one_each = [((process, tuple(range(N))),) for process in before[kernel] if process.gpu == gpu]
            rows.append(_row(kernel, letter, one_each, new))
        first = {process.gpu: process for process in reversed(before[kernel])}
        together = tuple((process, tuple(range(N))) for process in first.values())
        whole = tuple((process, tuple(range(len(process)))) for process in before[kernel] if "/p" in process.run)
        rows += [_row(kernel, "A, B, C", [together], new), _row(kernel, "A, B, C, all", [whole], new)]
    head = ["kernel", "baseline on GPU", "clock, %", "tensor, %", "cycles, %", "verdicts"]
    return table([*head, "of a loss of 1 %", "of 2 %"], rows)


def gpu_names(found: dict[str, list[Process]]) -> dict[str, str]:
    """A, B, C for the GPUs, in the order in which they were recorded."""
    gpus = dict.fromkeys(pd.read_parquet(FOLDER / "series.parquet").sort_values("start")["gpu"])
    assert {process.gpu for members in found.values() for process in members} == set(gpus)
    return dict(zip(gpus, "ABCDEFGH", strict=False))


def _row(kernel: str, gpu: str, baselines: Sequence[Side], new: Side) -> list[str]:
    clock = statistics.fmean(_change(_clocks(side), _clocks(new)) for side in baselines)
    changes = [
        f"{statistics.fmean(_change(sample(side, name).values, sample(new, name).values) for side in baselines):+.2f}"
        if name in new[0][0].values
        else "–"
        for name in METRICS
    ]
    verdicts = [counted(merge_request(side, new, loss) for side in baselines) for loss in (0.0, 1.0, 2.0)]
    return [kernel, gpu, f"{clock:+.2f}", *changes, *verdicts]


def _clocks(side: Side) -> list[float]:
    return [process.clocks[i] for process, chosen in side for i in chosen]


def _change(before: Sequence[float], after: Sequence[float]) -> float:
    return (statistics.fmean(after) / statistics.fmean(before) - 1) * 100


def merge_request(before: Side, after: Side, loss: float) -> str:
    """The gate's verdict by both metrics at their own limits."""
    names = [name for name in METRICS if name in after[0][0].values]
    rule = gate_rules.gate()
    return worst(rule(sample(before, name), sample(after, name, factor(name, loss)), BY_NAME[name]) for name in names)


def worst(outcomes: Iterable[str]) -> str:
    """What the gate makes of several outcomes; an improvement is seen only where nothing is
    worse."""
    found = set(outcomes)
    return next((one for one in ("regressed", "inconclusive", "improved", "weak") if one in found), "pass")


def counted(outcomes: Iterable[str]) -> str:
    """``4 pass, 1 regressed``."""
    return ", ".join(f"{number} {SHORT[name]}" for name, number in Counter(outcomes).most_common())


def shipped() -> str:
    """The recorded checks: their verdicts then, and those of the rule now, with and without its
    parts."""
    rows = []
    for label, name, found in _checks():
        changes = [_change(one.values, other.values) for one, other in found]
        metric = BY_NAME[name]
        now = [
            compare(*pair, better=metric.better, limit_pct=metric.limit_pct, cv_pct=metric.cv_pct, shifts=metric.shifts)
            for pair in found
        ]
        bare = gate_rules.ABLATIONS["without any of these"]
        rows.append(
            [
                label.split(" m=")[0].split(" rows=")[0],
                f"`{name}`",
                f"{statistics.fmean(_change(one.clocks, other.clocks) for one, other in found):+.2f}",
                f"{min(changes):+.2f} to {max(changes):+.2f}",
                _recorded()[label, name],
                counted(bare(*pair, metric) for pair in found),
                counted(gate_rules.gate()(*pair, metric) for pair in found),
                f"{statistics.fmean(one.threshold_pct for one in now):.1f}",
            ]
        )
    head = ["kernel", "metric", "clock, %", "change, %", "verdicts then", "without clock, processes, GPUs"]
    return table([*head, "verdicts now", "a loss counts beyond, %"], rows)


@cache
def _gated() -> dict[tuple[str, str], list[Point]]:
    """The gated metrics of the checks of what had not changed, by label and metric."""
    found: defaultdict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in read(CHECKS).points():
        if point.metric.gated and "vec=4" not in point.kernel.label:
            found[point.kernel.label, point.metric.name].append(point)
    return dict(sorted(found.items()))


def _recorded() -> dict[tuple[str, str], str]:
    return {names: counted(point.verdict for point in points) for names, points in _gated().items()}


def _checks() -> Iterator[tuple[str, str, list[tuple[Sample, Sample]]]]:
    """Label, metric, and the samples of every check; the baseline's clock is a mean, its GPU is not
    known."""
    stored = json.loads((FOLDER / "shipped.json").read_text(encoding="utf-8"), object_hook=renamed_keys)
    for (label, name), points in _gated().items():
        values = tuple(stored[label][name])
        n = len(values)
        before = Sample(values, (stored[label]["sm_clock_hz"],) * n, ("",) * n, ("",) * n)
        found = []
        for point in points:
            m = len(point.metric.values)
            clock = point.kernel.sm_clock_hz or math.nan
            now = Sample(point.metric.values, (clock,) * m, (point.check.check,) * m, ("",) * m)
            found.append((before, now))
        yield label, name, found
