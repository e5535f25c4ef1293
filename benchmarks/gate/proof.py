"""The gate's rule on recorded repeats: false alarms, and losses found.

    python -m benchmarks.gate.proof [--draws 1000] [--jobs 2] [--only TABLE]        # print the tables
    python -m benchmarks.gate.proof --write docs/validation/gate.md

Both sides of a check are drawn from real launches (``recordings/h200-gate``, see
``gate/draws.py``), and the same code ran in all of them, so every regression is a false alarm. A
loss is then put on the new side: utilization times 1 - loss, cycles over 1 - loss. ``--draws``
checks are drawn per kernel, setting and number of repeats, a fifth of them for rules with less in
them than the gate's. Checks share launches, so their number is not the number of independent
trials: what limits these figures is the handful of processes on three GPUs.

A fourth GPU (``apart.parquet``) was looked at only after the rule had been committed.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.gate.draws import (
    FOLDER,
    METRICS,
    SETTINGS,
    SIZES,
    Process,
    Side,
    draw,
    factor,
    load,
    processes_of,
    random_of,
    sample,
)
from benchmarks.harness.blocks import fill, table
from benchmarks.regressions import table as regression_table
from benchmarks.regressions.plan import regressions
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.gate.baseline import TOLERATED
from ncubble.analysis.gate.metrics import BY_NAME, GateMetric
from ncubble.analysis.gate.noise import NO_SHIFTS, Sample, Shifts, compare

LOSSES = (0.0, 0.5, 1.0, 2.0, 5.0)
FOUND = ("false alarms", *(f"{loss:g} %" for loss in LOSSES[1:]))
DRAWS = 1000
FEWER = 5
N = 5
GATE = "gate"
LEAST = 0.05
"""Percent of time below which a part of a series is left out."""
RESTLESS = ("tensor_core_gemm-stages2", "gemm_tma-stages3")
"""Kernels with products whose utilization scatters by more than 0.2 % within a process."""

Cell = tuple[str, str, int]
"""Series, setting, number of repeats."""
Tally = Counter[tuple[str, float, str]]
"""Number of checks by what was judged, the loss in percent, and the outcome. ``pairs`` and
``alarming`` count, at a loss of 0, pairs of sides of different processes, and those of them in
which the gate ever failed."""
Rule = Callable[[Sample, Sample, GateMetric], str]
"""``regressed``, ``inconclusive``, ``improved`` or ``pass``; ``weak`` is a pass that says that it
could not have seen a loss of 1.25 limits."""


def gate(shifts: Callable[[Shifts], Shifts] = lambda usual: usual) -> Rule:
    """The gate's test, with its model or what ``shifts`` leaves of it."""

    def rule(one: Sample, other: Sample, metric: GateMetric) -> str:
        limit = metric.limit_pct
        found = compare(
            one, other, better=metric.better, limit_pct=limit, cv_pct=metric.cv_pct, shifts=shifts(metric.shifts)
        )
        return "weak" if found.outcome == "pass" and found.detectable_pct > TOLERATED * limit else found.outcome

    return rule


def mean_worse(by_pct: float) -> Rule:
    """The mean is worse by more than so many percent."""

    def rule(one: Sample, other: Sample, metric: GateMetric) -> str:
        change = _change(one.values, other.values)
        return "regressed" if (-change if metric.better == "higher" else change) > by_pct else "pass"

    return rule


RULES: dict[str, Rule] = {
    "the gate": gate(),
    "without the clock": gate(lambda usual: replace(usual, clock=(0.0, 0.0))),
    "without processes and GPUs": gate(lambda usual: replace(usual, run_pct=0.0, gpu_pct=0.0)),
    "without any of these": gate(lambda _: NO_SHIFTS),
    "mean worse by 1 %": mean_worse(1.0),
    "mean worse by 0.5 %": mean_worse(0.5),
}


@cache
def recorded() -> dict[str, list[Process]]:
    """The series; read once in every process."""
    return load(FOLDER / "series.parquet")


def outcomes(sides: tuple[Side, Side], loss: float, rule: Rule) -> dict[str, str]:
    """What a rule says by metric; a series without products has cycles alone."""
    return {
        name: rule(sample(sides[0], name), sample(sides[1], name, factor(name, loss)), BY_NAME[name])
        for name in METRICS
        if name in sides[0][0][0].values
    }


def worse_of(found: Iterable[str]) -> str:
    """What a merge request sees of both metrics: one that regressed, else one that could not be
    judged, else a pass that says that it was weak."""
    both = set(found)
    return next((outcome for outcome in ("regressed", "inconclusive", "improved", "weak") if outcome in both), "pass")


def judged(cell: Cell, draws: int) -> Tally:
    """The gate on ``draws`` checks of one cell."""
    series, setting, n = cell
    rng, tally, rule = random_of(*cell), Tally(), RULES["the gate"]
    pairs, alarming = set(), set()
    for _ in range(draws):
        sides = draw(recorded()[series], setting, n, rng)
        pairs.add(where := tuple(processes_of(side) for side in sides))
        for loss in LOSSES:
            found = outcomes(sides, loss, rule)
            found[GATE] = worse_of(found.values())
            tally.update((what, loss, outcome) for what, outcome in found.items())
            if loss == 0.0 and found[GATE] == "regressed":
                alarming.add(where)
    tally["pairs", 0.0, ""], tally["alarming", 0.0, ""] = len(pairs), len(alarming)
    return tally


def compared(cell: Cell, draws: int) -> Tally:
    """All rules on checks of one cell, by both metrics."""
    series, setting, n = cell
    rng, tally = random_of(*cell), Tally()
    for _ in range(draws):
        sides = draw(recorded()[series], setting, n, rng)
        for what, rule in RULES.items():
            tally.update((what, loss, worse_of(outcomes(sides, loss, rule).values())) for loss in LOSSES)
    return tally


def tallies(work: Callable[[Cell], Tally], cells: Sequence[Cell], jobs: int) -> dict[Cell, Tally]:
    """``work`` on every cell, in ``jobs`` processes."""
    with ProcessPoolExecutor(jobs) as pool:
        return dict(zip(cells, pool.map(work, cells), strict=True))


def share(tally: Tally, what: str, loss: float, outcome: str) -> float:
    """Percent of the checks; NaN where there is none."""
    total = sum(count for (name, at, _), count in tally.items() if (name, at) == (what, loss))
    return 100 * tally[what, loss, outcome] / total if total else float("nan")


def cells_of(tally: Tally, what: str, losses: Sequence[float] = LOSSES) -> list[str]:
    """False alarms, then losses found; in brackets what was inconclusive and ends with 3."""
    cells = []
    for loss in losses:
        bad, open_ = (share(tally, what, loss, outcome) for outcome in ("regressed", "inconclusive"))
        cells.append(f"{bad:.{1 if loss else 2}f}" + (f" ({open_:.1f})" if open_ >= 0.05 else ""))
    return cells


def pooled(all_of: dict[Cell, Tally], setting: str, n: int) -> Tally:
    """All kernels of one setting and number of repeats."""
    return sum((one for (_, at, size), one in all_of.items() if (at, size) == (setting, n)), Tally())


def rates(all_of: dict[Cell, Tally]) -> str:
    """What a merge request sees, pooled over kernels: one row per setting and number of repeats."""
    rows = [
        [setting, sides(setting, n), *cells_of(pooled(all_of, setting, n), GATE)] for setting in SETTINGS for n in SIZES
    ]
    return table(["baseline, new launches", "repeats", *FOUND], rows)


def sides(setting: str, n: int) -> str:
    """``5 + 5``; a baseline of two GPUs has ``n`` of each."""
    return f"{n * (2 if setting == SETTINGS[2] else 1)} + {n}"


def summary(all_of: dict[Cell, Tally]) -> str:
    """The target beside what was found: kernels that scatter little, and each of the others."""
    rows = [["false alarms of the gate, all kernels", "≤ 0.1 %"]]
    for setting in SETTINGS:
        tally = pooled(all_of, setting, N)
        checks = sum(count for (what, loss, _), count in tally.items() if (what, loss) == (GATE, 0.0))
        rows[0].append(f"{tally[GATE, 0.0, 'regressed']} of {checks} checks, in {_pairs(tally)} pairs")
    tensor = {name for name, members in recorded().items() if METRICS[0] in members[0].values}
    groups = {"four kernels that scatter little": tensor - set(RESTLESS), **{f"`{one}`": {one} for one in RESTLESS}}
    for loss, target in ((1.0, "≥ 99 %"), (2.0, "–")):
        for name, group in groups.items():
            cells = []
            for setting in SETTINGS:
                found = [share(all_of[one, setting, N], METRICS[0], loss, "regressed") for one in group]
                cells.append(" to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(found), max(found)))))
            rows.append([f"{loss:g} % of utilization, found in percent of checks: {name}", target, *cells])
    return table(["", "target", *(f"{setting}, {sides(setting, N)}" for setting in SETTINGS)], rows)


def _pairs(tally: Tally) -> str:
    return f"{tally['alarming', 0.0, '']} of {tally['pairs', 0.0, '']}"


def others(all_of: dict[Cell, Tally]) -> str:
    """Rules beside the gate's, pooled over kernels."""
    rows = [[name, at, *cells_of(pooled(all_of, at, N), name)] for name in RULES for at in SETTINGS[:2]]
    return table(["rule", "setting", *FOUND], rows)


def noise() -> str:
    """How the series scatter, in percent, and by how much GPUs and their clocks differ."""
    rows = []
    for series, members in sorted(recorded().items()):
        name = next(name for name in METRICS if name in members[0].values)
        by_gpu: dict[str, list[np.ndarray]] = defaultdict(list)
        clocks: dict[str, list[float]] = defaultdict(list)
        for one in members:
            by_gpu[one.gpu].append(np.log(one.values[name]) * 100)
            clocks[one.gpu] += one.clocks
        centres = [np.mean([launches.mean() for launches in found]) for found in by_gpu.values()]
        speeds = [statistics.fmean(found) for found in clocks.values()]
        differ = [f"{max(centres) - min(centres):.2f}", f"{100 * (max(speeds) / min(speeds) - 1):.1f}"]
        launches = str(sum(map(len, members)))
        rows.append([series, f"`{name}`", launches, *(f"{one:.2f}" for one in deviations(by_gpu)), *differ])
    head = ["kernel", "metric", "launches", "in a process", "processes", "GPUs", "GPUs differ by up to"]
    return table([*head, "their clocks"], rows)


def parts() -> str:
    """How parts of the account scatter, in points of kernel time: the largest over the series."""
    frame, rows = pd.read_parquet(FOLDER / "series.parquet"), []
    for part in PARTS:
        if f"part:{part}" not in frame:
            continue
        found, means = [], []
        for _, launches in frame.dropna(subset=f"part:{part}").groupby(["series", "sets"]):
            if (mean := launches[f"part:{part}"].mean()) >= LEAST:
                by_gpu: dict[str, list[np.ndarray]] = defaultdict(list)
                for (gpu, _), run in launches.groupby(["gpu", "run"]):
                    by_gpu[gpu].append(run[f"part:{part}"].to_numpy())
                found.append(deviations(by_gpu))
                means.append(mean)
        if found:
            share = " to ".join(f"{end(means):.1f}" for end in (min, max))
            rows.append([f"`{part}`", share, *(f"{max(one):.2f}" for one in zip(*found, strict=True))])
    return table(["part", "percent of time", "in a process", "processes", "GPUs"], rows)


def deviations(by_gpu: Mapping[str, Sequence[np.ndarray]]) -> tuple[float, float, float]:
    """Standard deviations within processes, between processes of a GPU, and between GPUs: the last two are what is
    left of the scatter of means once that of their parts is taken out."""
    values = [launches for found in by_gpu.values() for launches in found]
    means = [np.array([launches.mean() for launches in found]) for found in by_gpu.values()]
    launch, of_runs = _variance(values), _variance(means)
    run = of_runs - launch * np.mean([1 / len(one) for one in values])
    gpu = np.var([one.mean() for one in means], ddof=1) - of_runs * np.mean([1 / len(one) for one in means])
    return launch**0.5, max(0.0, float(run)) ** 0.5, max(0.0, float(gpu)) ** 0.5


def _variance(groups: Sequence[np.ndarray]) -> float:
    """Variance within groups, weighed by their degrees of freedom."""
    return float(sum(((one - one.mean()) ** 2).sum() for one in groups) / sum(len(one) - 1 for one in groups))


def fourth() -> str:
    """A fourth GPU against baselines of 5 launches: of every process of the three GPUs, and one of each GPU."""
    rows = []
    for kernel, (now,) in sorted(load(FOLDER / "apart.parquet").items()):
        new, before = _first(now), recorded()[kernel]
        alone = [_first(one) for one in before]
        together = [tuple(part for one in {one.gpu: one for one in reversed(before)}.values() for part in _first(one))]
        for name, baselines in (("one GPU", alone), ("three GPUs", together)):
            changes = [
                [_change(sample(side, metric).values, sample(new, metric).values) for side in baselines]
                for metric in METRICS
                if metric in now.values
            ]
            verdicts = [
                Counter(worse_of(outcomes((side, new), loss, RULES["the gate"]).values()) for side in baselines)
                for loss in (0.0, 1.0, 2.0)
            ]
            cells = [" to ".join(dict.fromkeys(f"{end(found):+.2f}" for end in (min, max))) for found in changes]
            cells = cells if len(cells) == 2 else ["–", *cells]
            told = [", ".join(f"{count} {what}" for what, count in found.most_common()) for found in verdicts]
            rows.append([kernel, name, *cells, *told])
    return table(
        ["kernel", "baseline of", "tensor, %", "cycles, %", "verdicts", "of a loss of 1 %", "of a loss of 2 %"], rows
    )


def _first(process: Process) -> Side:
    return ((process, tuple(range(N))),)


def _change(before: Sequence[float], after: Sequence[float]) -> float:
    return 100 * (statistics.fmean(after) / statistics.fmean(before) - 1)


def simulated(checks: int = 20_000) -> str:
    """The rule on normally distributed repeats of one process, utilization at its limit."""
    metric, rows = BY_NAME[METRICS[0]], []
    for n in SIZES:
        for cv in (0.1, 0.26, 0.5):
            random, bad = np.random.default_rng(7), []
            for loss in (0.0, 1.0):
                before = 1 + cv / 100 * random.standard_normal((checks, n))
                after = (1 - loss / 100) * (1 + cv / 100 * random.standard_normal((checks, n)))
                found = [
                    compare(one, other, better=metric.better, limit_pct=metric.limit_pct, cv_pct=metric.cv_pct).outcome
                    for one, other in zip(before.tolist(), after.tolist(), strict=True)
                ]
                bad.append(100 * found.count("regressed") / checks)
            rows.append([f"{n} + {n}", f"{cv:g}", f"{bad[0]:.3f}", f"{bad[1]:.1f}"])
    return table(["repeats", "scatter, %", "false alarms, %", "1 % found, %"], rows)


def made(draws: int, jobs: int, only: str) -> dict[str, str]:
    """The blocks of the page by name; ``only`` takes those whose name holds it."""
    cells = [(series, setting, n) for series in sorted(recorded()) for setting in SETTINGS for n in SIZES]
    blocks: dict[str, str] = {}
    if only in "gate-summary gate-rates":
        found = tallies(partial(judged, draws=draws), cells, jobs)
        blocks |= {"gate-summary": summary(found), "gate-rates": rates(found)}
    if only in "gate-ablations":
        fives = [cell for cell in cells if cell[1] in SETTINGS[:2] and cell[2] == N]
        blocks["gate-ablations"] = others(tallies(partial(compared, draws=draws // FEWER), fives, jobs))
    quick: dict[str, Callable[[], str]] = {
        "gate-noise": noise,
        "gate-parts": parts,
        "gate-fourth": fourth,
        "gate-simulated": simulated,
        "gate-regressions": lambda: regression_table.markdown(regression_table.FOLDER, regressions())[0],
    }
    return blocks | {name: make() for name, make in quick.items() if only in name}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS, help="checks per kernel, setting and number of repeats")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="part of a table's name")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables between the markers of a page")
    given = parser.parse_args()
    blocks = made(given.draws, given.jobs, given.only)
    if given.write:
        given.write.write_text(fill(given.write.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    else:
        print("\n\n".join(f"{name}\n\n{block}" for name, block in blocks.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
