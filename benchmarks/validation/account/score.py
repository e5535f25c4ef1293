"""Holds the bubble account of recorded kernels against what vanished when their parts were left
out.

Compared are the parts that a case has a truth for (``truth``); all others are ``rest``, on every
side. On the same parts the account is scored that a reader makes of stall reasons alone
(``naive_account``): all time in which the unit is idle is shared out by warp samples, each put down
to the part that the name of its stall reason suggests. Names are all that it knows: no instructions
around a sample, no timeline, no waits that hide behind a busy pipe. ``selected`` is no stall and
takes no share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.validation.account.truth import Truth, truth
from benchmarks.validation.page import Result
from benchmarks.validation.recorded import load, opener, origin_of, scored
from ncubble.analysis.account.account import account
from ncubble.analysis.account.parts import JOINED
from ncubble.analysis.account.shares import MEASURE, REST
from ncubble.analysis.report.launch import Launch
from ncubble.analysis.report.report import Report
from ncubble.analysis.report.samples import stall_columns
from ncubble.errors import ReportError

FILE = "ablation.json"
SPLITS = ("dev", "test", "second")
MEAN, WORST, RATIO = 5.0, 12.0, 0.5
"""Targets: mean and worst absolute error in points of kernel time, and error relative to the naive
account's."""
SIDES = ("truth", "account", "naive")
BUSY = ("tensor_busy", "unit_busy")
ORDER = ("data_wait", f"data_wait{JOINED}copy_cost", "copy_cost", "smem_wait", "sync_wait", "epilogue", "tail", REST)
"""Parts in display order."""
PART_OF_STALL = {
    "long_scoreboard": "data_wait",
    "lg_throttle": "copy_cost",
    "short_scoreboard": "smem_wait",
    "mio_throttle": "smem_wait",
    "barrier": "sync_wait",
    "membar": "sync_wait",
    "drain": "epilogue",
}
OTHERS = "issue"
SELECTED = "selected"


@dataclass(frozen=True)
class Pair:
    """One part of one case, on all sides, in percent of elapsed cycles."""

    case: str
    split: str
    part: str
    truth: float
    account: float
    naive: float

    @property
    def error(self) -> float:
        """Account less truth, in points."""
        return self.account - self.truth


def score_account(folder: Path) -> dict[str, Any]:
    """The whole result, JSON-ready (schema: docs/reference/validations.md), of recordings in
    ``folder``.

    Raises ReportError where they are missing, damaged or hold no case.
    """
    recorded = load(folder / FILE)
    runs = {str(case["case"]): str(case["run"]) for case in recorded["cases"]}
    reports = opener(folder, runs.values())
    cases, unscored = scored(
        ((str(case["case"]), case) for case in recorded["cases"]),
        lambda case: _score_case(case, reports(str(case["run"]))),
    )
    pairs = [pair for _, case_pairs in cases.values() for pair in case_pairs]
    if not pairs:
        raise ReportError(f"{folder / FILE}: no case could be scored", "measure them with --measure")
    return {
        "schema": 1,
        "validation": "account",
        **origin_of(recorded, folder, [runs[name] for name in cases]),
        "repeats": recorded.get("repeats"),
        "scores": scores(pairs),
        "cases": [row for row, _ in cases.values()],
        "unscored": unscored,
    }


def _score_case(case: Result, report: Report) -> tuple[dict[str, Any], list[Pair]]:
    launch = report.launch(int(case["launch"]))
    bubbles = account(launch)
    if bubbles is None:
        raise ReportError(f"{report.path}: launch {launch.number} has no account", MEASURE)
    busy = math.fsum(bubbles.parts.get(part, 0.0) for part in BUSY)
    measured = truth(case["variants"], busy)
    ours, naive = fold(bubbles.parts, measured), fold(naive_of(launch, busy), measured)
    name, split = str(case["case"]), str(case["split"])
    parts = sorted(measured.parts, key=ORDER.index)
    pairs = [Pair(name, split, part, measured.parts[part], ours[part], naive[part]) for part in parts]
    row = {"case": name, "split": split, "busy_pct": busy, **asdict(measured)}
    del row["parts"]
    return row | {side: {pair.part: getattr(pair, side) for pair in pairs} for side in SIDES}, pairs


def naive_of(launch: Launch, busy_pct: float) -> dict[str, float]:
    """``naive_account`` of the samples of a launch."""
    source = launch.source
    return naive_account({reason: float(source[reason].sum()) for reason in stall_columns(source)}, busy_pct)


def naive_account(samples: Mapping[str, float], busy_pct: float) -> dict[str, float]:
    """Parts in percent of elapsed cycles, ``busy_pct`` left out, from warp ``samples`` by stall
    reason.

    The parts sum to 100 - ``busy_pct``; without samples all of it is ``issue``.
    """
    room = 100.0 - busy_pct
    parts = dict.fromkeys((*PART_OF_STALL.values(), OTHERS), 0.0)
    stalls = {reason: count for reason, count in samples.items() if reason != SELECTED}
    total = sum(stalls.values())
    if not total:
        return {**parts, OTHERS: room}
    for reason, count in stalls.items():
        parts[PART_OF_STALL.get(reason, OTHERS)] += room * count / total
    return parts


def fold(parts: Mapping[str, float], measured: Truth) -> dict[str, float]:
    """``parts`` of an account by the parts that have a truth; all idle time that has none is
    ``rest``."""
    known = {
        part: math.fsum(parts.get(name, 0.0) for name in part.split(JOINED)) for part in measured.parts if part != REST
    }
    idle = math.fsum(value for part, value in parts.items() if part not in BUSY)
    return {**known, REST: idle - math.fsum(known.values())}


def scores(pairs: Sequence[Pair]) -> dict[str, Any]:
    """By split, and of all together: errors overall and by part, and which targets are met
    overall."""
    splits = {split: [pair for pair in pairs if pair.split == split] for split in SPLITS}
    return {name: _scores(members) for name, members in {**splits, "all": list(pairs)}.items() if members}


def _scores(pairs: Sequence[Pair]) -> dict[str, Any]:
    overall = errors(pairs)
    present = {pair.part for pair in pairs}
    return {
        "cases": len({pair.case for pair in pairs}),
        "overall": overall,
        "parts": {part: errors(pair for pair in pairs if pair.part == part) for part in ORDER if part in present},
        "targets": {
            name: {"limit": limit, "met": overall[name] is not None and overall[name] <= limit}
            for name, limit in (("mean_abs", MEAN), ("worst_abs", WORST), ("ratio", RATIO))
        },
    }


def errors(pairs: Iterable[Pair]) -> dict[str, Any]:
    """Mean, bias and worst error in points, the naive account's mean, and the ratio of the means
    (None over 0)."""
    compared = list(pairs)
    mean, naive = (fmean(abs(getattr(pair, side) - pair.truth) for pair in compared) for side in SIDES[1:])
    worst = max(compared, key=lambda pair: abs(pair.error))
    return {
        "count": len(compared),
        "mean_abs": mean,
        "bias": fmean(pair.error for pair in compared),
        "worst_abs": abs(worst.error),
        "worst": {"case": worst.case, "part": worst.part, "error": worst.error},
        "naive_mean_abs": naive,
        "naive_worst_abs": max(abs(pair.naive - pair.truth) for pair in compared),
        "ratio": mean / naive if naive else None,
    }
