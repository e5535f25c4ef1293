"""``ncubble ablate --time`` against ``ncubble ablate`` of the same kernels: how far shares of time are
from shares of cycles.

    python -m benchmarks.ablation.timed OUT [--only REGEX]     # measures, on a GPU with counters
    python -m benchmarks.ablation.timed OUT --show             # what OUT holds

The cases are those of ``benchmarks/ablation/agreement.py`` that ship with shorter code (11 launches;
``--all``: all 28). Each is ablated both ways into ``OUT/CASE/cycles`` and ``OUT/CASE/time``; runs
that exist are kept. Compared, in points of the whole kernel, are sets of parts that both removed:
by time, and by time times the SM clock that was read beside each launch, which should be nearer,
as a kernel without copies clocks higher. Intervals are right if 95 % of them hold the share of
cycles. Targets, written down before any of it was measured: mean 1, worst 3 points, by time times
clock. Ends with 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.ablation.agreement import TRUTH, argv
from benchmarks.harness.command import REPOSITORY
from ncubble.analysis.ablation.result import Ablation

MEAN, WORST = 1.0, 3.0
SHORTER = REPOSITORY / "recordings" / "validation" / "ablation" / "shorter"


@dataclass(frozen=True)
class TimedRow:
    """One set of parts of one case: what vanishes in percent of cycles, of time, of time times
    clock (None: no clock), and whether the interval of time holds the first."""

    case: str
    word: str
    cycles: float
    time: float
    corrected: float | None
    held: bool


def rows_of(case: str, counted: Ablation, timed: Ablation) -> Iterator[TimedRow]:
    """Sets that both removed. Raises ValueError where the measures are not one of each."""
    if counted.timed or not timed.timed:
        raise ValueError(f"{case}: one side must hold cycles, the other time")
    cycles = {variant.name: variant.gone_pct for variant in counted.variants}
    for variant in timed.variants:
        known = cycles.get(variant.name)
        if known is None or variant.gone_pct is None:
            continue
        corrected = None
        if variant.clock_mhz and timed.clock_mhz:
            left = (100.0 - variant.gone_pct) * variant.clock_mhz / timed.clock_mhz
            corrected = 100.0 - left
        low, high = variant.interval or (variant.gone_pct, variant.gone_pct)
        yield TimedRow(case, variant.name, known, variant.gone_pct, corrected, low <= known <= high)


def report(rows: list[TimedRow]) -> int:
    """Print every set that is off, and the mean and worst difference of both readings."""
    if not rows:
        sys.stdout.write("nothing was measured both ways\n")
        return 1
    missed = False
    for name, read in (("time", lambda row: row.time), ("time x clock", lambda row: row.corrected)):
        offs = [(abs(read(row) - row.cycles), row) for row in rows if read(row) is not None]
        if not offs:
            continue
        mean, (worst, at) = fmean(off for off, _ in offs), max(offs, key=lambda pair: pair[0])
        sys.stdout.write(f"{name}: {len(offs)} sets, mean {mean:.2f}, worst {worst:.2f} ({at.case} {at.word})\n")
        missed = mean > MEAN or worst > WORST
    held = sum(row.held for row in rows)
    sys.stdout.write(f"intervals of time that hold the share of cycles: {held} of {len(rows)}\n")
    sys.stdout.write(f"targets: mean {MEAN:g}, worst {WORST:g}: {'missed' if missed else 'met'}\n")
    return int(missed)


def main() -> int:
    """Measure what is not there yet, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="cases whose name matches")
    parser.add_argument("--all", action="store_true", help="all cases")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    options = parser.parse_args()
    rows: list[TimedRow] = []
    for case in json.loads(TRUTH.read_text(encoding="utf-8"))["cases"]:
        name = case["case"].replace("/", "-")
        if not re.search(options.only, case["case"]) or not (options.all or (SHORTER / name).exists()):
            continue
        sides = {"cycles": (), "time": ("--time",)}
        for side, more in sides.items():
            place = options.out / name / side
            if not options.show and not place.exists():
                command = [*argv(case, place), *more]
                done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
                if done.returncode:
                    sys.stdout.write(f"{name} {side}: {done.stderr.strip().splitlines()[-1:]}\n")
        counted, timed = (Ablation.load(options.out / name / side) for side in sides)
        if counted is not None and timed is not None:
            rows += rows_of(name, counted, timed)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
