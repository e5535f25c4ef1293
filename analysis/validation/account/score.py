"""Holds the bubble account of recorded kernels against what vanished when their parts were left
out.

Compared are the parts that a case has a truth for (``truth``); all others are ``rest``, on every
side. The naive account (``naive``) is scored on the same parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ncubble.analysis.account.account import account
from ncubble.analysis.report.report import Report
from ncubble.analysis.report.samples import stall_columns
from ncubble.analysis.validation.account.naive import naive_account
from ncubble.analysis.validation.account.truth import JOINED, MEASURE, REST, Truth, truth
from ncubble.analysis.validation.recorded import load, opener, origin_of
from ncubble.errors import NcubbleError, ReportError

FILE = "ablation.json"
SPLITS = ("dev", "test", "second")
MEAN, WORST, RATIO = 5.0, 12.0, 0.5
"""Targets: mean and worst absolute error in points of kernel time, and error over that of the naive
account."""
SIDES = ("truth", "account", "naive")
BUSY = ("tensor_busy", "unit_busy")
ORDER = ("data_wait", f"data_wait{JOINED}copy_cost", "copy_cost", "smem_wait", "sync_wait", "epilogue", "tail", REST)
"""Parts in the order in which they are shown."""


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
    reports = opener(folder, (str(case["run"]) for case in recorded["cases"]))
    rows: list[dict[str, Any]] = []
    pairs: list[Pair] = []
    unscored: dict[str, str] = {}
    runs: set[str] = set()
    for case in recorded["cases"]:
        run = str(case["run"])
        try:
            row, found = _score_case(case, reports(run))
        except NcubbleError as error:
            unscored[str(case["case"])] = error.message
            continue
        rows.append(row)
        pairs += found
        runs.add(run)
    if not pairs:
        raise ReportError(f"{folder / FILE}: no case could be scored", "measure them with --measure")
    told = {**origin_of(recorded, folder, runs), "repeats": recorded.get("repeats")}
    return {"schema": 1, "validation": "account", **told, "scores": scores(pairs), "cases": rows, "unscored": unscored}


def _score_case(case: Mapping[str, Any], report: Report) -> tuple[dict[str, Any], list[Pair]]:
    launch = report.launch(int(case["launch"]))
    found = account(launch)
    if found is None:
        raise ReportError(f"{report.path}: launch {launch.number} has no account", MEASURE)
    busy = math.fsum(found.parts.get(part, 0.0) for part in BUSY)
    measured = truth(case["variants"], busy)
    source = launch.source
    samples = {reason: float(source[reason].sum()) for reason in stall_columns(source)}
    sides = {"account": fold(found.parts, measured), "naive": fold(naive_account(samples, busy), measured)}
    name, split = str(case["case"]), str(case["split"])
    pairs = [
        Pair(name, split, part, value, sides["account"][part], sides["naive"][part])
        for part, value in sorted(measured.parts.items(), key=lambda item: ORDER.index(item[0]))
    ]
    row = {"case": name, "split": split, "busy_pct": busy, **asdict(measured)}
    del row["parts"]
    return row | {side: {pair.part: getattr(pair, side) for pair in pairs} for side in SIDES}, pairs


def fold(parts: Mapping[str, float], measured: Truth) -> dict[str, float]:
    """``parts`` of an account by the parts that have a truth; all idle time that has none is
    ``rest``."""
    wanted = [part for part in measured.parts if part != REST]
    told = {part: math.fsum(parts.get(one, 0.0) for one in part.split(JOINED)) for part in wanted}
    idle = math.fsum(value for part, value in parts.items() if part not in BUSY)
    return {**told, REST: idle - math.fsum(told.values())}


def scores(pairs: Sequence[Pair]) -> dict[str, Any]:
    """By split, and of all together: errors overall and by part, and which targets are met
    overall."""
    splits = {split: [pair for pair in pairs if pair.split == split] for split in SPLITS}
    return {name: _scores(found) for name, found in {**splits, "all": list(pairs)}.items() if found}


def _scores(pairs: Sequence[Pair]) -> dict[str, Any]:
    overall = errors(pairs)
    parts = [part for part in ORDER if any(pair.part == part for pair in pairs)]
    return {
        "cases": len({pair.case for pair in pairs}),
        "overall": overall,
        "parts": {part: errors(pair for pair in pairs if pair.part == part) for part in parts},
        "targets": {
            name: {"limit": limit, "met": overall[name] is not None and overall[name] <= limit}
            for name, limit in (("mean_abs", MEAN), ("worst_abs", WORST), ("ratio", RATIO))
        },
    }


def errors(pairs: Iterable[Pair]) -> dict[str, Any]:
    """Mean, bias and worst error in points, the naive account's mean, and the ratio of the means
    (None over 0)."""
    found = list(pairs)
    mean, naive = fmean(abs(pair.error) for pair in found), fmean(abs(pair.naive - pair.truth) for pair in found)
    worst = max(found, key=lambda pair: abs(pair.error))
    return {
        "count": len(found),
        "mean_abs": mean,
        "bias": fmean(pair.error for pair in found),
        "worst_abs": abs(worst.error),
        "worst": {"case": worst.case, "part": worst.part, "error": worst.error},
        "naive_mean_abs": naive,
        "naive_worst_abs": max(abs(pair.naive - pair.truth) for pair in found),
        "ratio": mean / naive if naive else None,
    }
