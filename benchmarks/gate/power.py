"""Error rates of the gate's rule on simulated repeats: false alarms without a loss, and losses
found.

    python -m benchmarks.gate.power [--trials 20000] [--json]

Repeats are drawn independently from a normal distribution, so this tells what the rule does if the
noise is as assumed, not what a machine does: that is ``gate/proof.py``. ``cv`` is the true
coefficient of variation; in a process 0.07 to 0.15 % was measured for tensor utilization of four
kernels on H200s, 0.5 and 1.6 % for two others. All repeats are of one process and GPU. A row with m
= 1 is a single new launch. All numbers are percent of checks.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.noise import compare

NOISE = (0.03, 0.1, 0.26, 0.35, 0.5, 1.0)
SIZES = ((3, 3), (5, 5), (10, 10), (5, 1))
LOSSES = (0.0, 0.5, 1.0, 2.0, 5.0)


def outcomes(cv: float, loss: float, n: int, m: int, trials: int) -> dict[str, float]:
    """Percent of ``trials`` checks by outcome, for a true variation and loss in percent, n against
    m repeats."""
    metric = BY_NAME["tensor_elapsed_pct"]
    random = np.random.default_rng(7)
    before = 1 + cv / 100 * random.standard_normal((trials, n))
    now = (1 - loss / 100) * (1 + cv / 100 * random.standard_normal((trials, m)))
    found: dict[str, float] = {}
    for x, y in zip(before.tolist(), now.tolist(), strict=True):
        name = compare(x, y, better="higher", limit_pct=metric.limit_pct, cv_pct=metric.cv_pct).outcome
        found[name] = found.get(name, 0.0) + 100 / trials
    return found


def table(trials: int) -> list[dict[str, Any]]:
    """One row per number of repeats and noise: percent of checks by outcome and true loss."""
    rows = []
    for n, m in SIZES:
        for cv in NOISE:
            by_loss = {loss: outcomes(cv, loss, n, m, trials) for loss in LOSSES}
            row: dict[str, Any] = {"n": n, "m": m, "cv_pct": cv}
            row["false_alarm"] = by_loss[0.0].get("regressed", 0.0)
            row["inconclusive"] = by_loss[0.0].get("inconclusive", 0.0)
            row |= {f"found_{loss:g}": by_loss[loss].get("regressed", 0.0) for loss in LOSSES[1:]}
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000, help="simulated checks per cell")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rows = table(options.trials)
    if options.json:
        print(json.dumps({"schema": 1, "trials": options.trials, "rows": rows}, indent=1))
        return
    print(f"{'n + m':>7} {'cv %':>5} | {'false alarm':>11} {'inconclusive':>12} | found at a loss of")
    print(f"{'':>13} | {'':>24} | " + " ".join(f"{loss:>6g} %" for loss in LOSSES[1:]))
    for row in rows:
        found = " ".join(f"{row[f'found_{loss:g}']:8.2f}" for loss in LOSSES[1:])
        size = f"{row['n']} + {row['m']}"
        print(f"{size:>7} {row['cv_pct']:>5.2f} | {row['false_alarm']:11.3f} {row['inconclusive']:12.2f} | {found}")


if __name__ == "__main__":
    main()
