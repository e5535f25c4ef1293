"""How much each part of the account scatters between launches, processes and GPUs, from recorded
series.

    python -m benchmarks.gate.part_noise DIR... [--each]

Every run at or below DIR counts to the series that its parent folder and its metric sets name, and
to the GPU of its manifest: DIR/SERIES/pN and qN, as ``gate/record.py`` writes. All in points:
percent of the series' mean cycles, so that differences are growth as ``gate/accounts/moves.py``
counts it. Standard deviations are those of nested random effects (launch in process in GPU), from
the mean squares; 0 where the means of processes or GPUs scatter no more than their launches
explain. *Chance* is the growth that 99.9 % of checks of 5 launches against 5 of another process
stay below where nothing has changed, resampled; on the same GPU, and on two GPUs. A limit of growth
is safe where it is at least twice the chance: the gate decides at half of a limit, so that nothing
is found where nothing is, and a growth of the limit almost always.

The summary has the largest of every column over the series; ``--each`` prints each of them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.readme_tables import table
from ncubble.analysis.account.account import account
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.report.report import open_reports

LIMIT = 2.0
TAKEN = 5
DRAWS = 4000
LEAST = 0.05
"""Percent of time below which a part of a series is not listed."""
SPREADS = ("launch", "process", "gpu", "one", "two")
HEAD = ("part", "% of time", "sd of launches", "sd of processes", "sd of GPUs", "chance, same GPU", "chance, two GPUs")


def read(paths: list[Path]) -> pd.DataFrame:
    """One row per launch and part: series, gpu, run, launch, part, points (percent of the series'
    mean cycles)."""
    reports, failures = open_reports(paths)
    if failures:
        raise failures[0].error
    rows = []
    for report in reports:
        gpu, sets = str(report.run.manifest.device.get("uuid")), ",".join(report.run.manifest.metric_set)
        series = f"{report.run.path.parent.name} ({sets})"
        for launch in report:
            found = account(launch)
            if found is None:
                continue
            where = (series, gpu, str(report.run.path), launch.number, launch.identity.cycles)
            rows += [(*where, part, pct) for part, pct in found.parts.items()]
    frame = pd.DataFrame(rows, columns=["series", "gpu", "run", "launch", "cycles", "part", "pct"])
    usual = frame.groupby("series")["cycles"].transform("mean")
    return frame.assign(points=frame["pct"] * frame["cycles"] / usual)


def spreads(rows: pd.DataFrame, rng: np.random.Generator) -> dict[str, float]:
    """Mean, deviations and chances of one part in one series; NaN of what has no repeats."""
    runs = [(str(gpu), group.to_numpy(dtype=float)) for (gpu, _), group in rows.groupby(["gpu", "run"])["points"]]
    launch = _pooled([values for _, values in runs])
    each = float(np.mean([len(values) for _, values in runs]))
    by_gpu = [np.array([values.mean() for name, values in runs if name == gpu]) for gpu in dict(runs)]
    of_runs = _pooled(by_gpu)
    gpus = float(np.var([means.mean() for means in by_gpu], ddof=1)) if len(by_gpu) > 1 else math.nan
    within = np.mean([1 / len(means) for means in by_gpu]) * (launch / each if math.isnan(of_runs) else of_runs)
    return {
        "mean": float(rows["points"].mean()),
        "launch": math.sqrt(launch),
        "process": math.sqrt(max(0.0, of_runs - launch / each)),
        "gpu": math.sqrt(max(0.0, gpus - within)),
        "one": _chance(runs, True, rng),
        "two": _chance(runs, False, rng),
    }


def _pooled(groups: list[np.ndarray]) -> float:
    """Variance within groups, weighed by their degrees of freedom; NaN where no group has two."""
    free = sum(len(values) - 1 for values in groups)
    return float(sum(((values - values.mean()) ** 2).sum() for values in groups) / free) if free else math.nan


def _chance(runs: list[tuple[str, np.ndarray]], same: bool, rng: np.random.Generator) -> float:
    """99.9 % quantile of the difference of means of ``TAKEN`` launches of two processes, on the
    same GPU or on two."""
    pairs = [
        (a, b) for i, (gpu, a) in enumerate(runs) for j, (on, b) in enumerate(runs) if i != j and (gpu == on) == same
    ]
    if not pairs:
        return math.nan
    chosen = rng.integers(len(pairs), size=DRAWS)
    drawn = [
        rng.permutation(b)[:TAKEN].mean() - rng.permutation(a)[:TAKEN].mean() for a, b in (pairs[i] for i in chosen)
    ]
    return float(np.quantile(drawn, 0.999))


def measured(frame: pd.DataFrame) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Series, part and spreads of all that takes time."""
    rng = np.random.default_rng(7)
    for (series, part), rows in frame.groupby(["series", "part"]):
        found = spreads(rows, rng)
        if found["mean"] >= LEAST:
            yield str(series), str(part), found


def _cells(found: dict[str, float]) -> list[str]:
    return [f"{found[name]:.2f}" for name in SPREADS]


def summary(found: list[tuple[str, str, dict[str, float]]]) -> str:
    """The largest of every column over the series, by part, with what they make of a limit of
    ``LIMIT`` points."""
    rows = []
    for part in PARTS:
        of_part = [one for _, name, one in found if name == part]
        if not of_part:
            continue
        worst = {name: max(one[name] for one in of_part) for name in SPREADS}
        share = f"{min(one['mean'] for one in of_part):.1f} to {max(one['mean'] for one in of_part):.1f}"
        safe = ["yes" if 2 * worst[name] <= LIMIT else f"no: {2 * worst[name]:.1f}" for name in ("one", "two")]
        typical = math.sqrt(float(np.mean([one["launch"] ** 2 for one in of_part])))
        rows.append([f"`{part}`", share, f"{typical:.2f}", *_cells(worst), *safe])
    ends = (f"{LIMIT:g} points safe, same GPU", "two GPUs")
    return table([*HEAD[:2], "sd of launches, root mean square", *HEAD[2:], *ends], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--each", action="store_true", help="print every part of every series, too")
    given = parser.parse_args()
    frame = read(given.paths)
    found = list(measured(frame))
    launches = len(frame[["run", "launch"]].drop_duplicates())
    print(f"{launches} launches, {frame['run'].nunique()} processes, {frame['gpu'].nunique()} GPUs\n")
    print(summary(found))
    if given.each:
        rows = [[series, f"`{part}`", f"{one['mean']:.2f}", *_cells(one)] for series, part, one in found]
        print("\n" + table(["series", *HEAD], rows))


if __name__ == "__main__":
    main()
