"""The bubble account of recorded kernels against what vanished when their parts were left out of the source.

A *variant* is a kernel built without some parts, measured as often as the whole one. Parts of the main loop share what
vanishes with them (``account.shares``). A ``wgmma`` loop is never without its barrier alone. The tail is told by a
shape whose grid is whole waves. What is neither busy nor vanishes with any variant is ``rest``.

Compared are the parts that a case has a truth for; all others are ``rest``, on every side. On the same parts the
account is scored that a reader makes of stall reasons alone (``naive_account``): all idle time, shared out by warp
samples, each put down to the part that the name of its stall reason suggests. ``selected`` is no stall.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.validation.page import Result, Table, number, verdict
from benchmarks.validation.recorded import load, opener, origin_of, scored, unscored_notes
from ncubble.analysis.account.account import account
from ncubble.analysis.account.parts import JOINED
from ncubble.analysis.account.shares import MEASURE, NONE, REST, TAIL, overlaps, removed, shared_out
from ncubble.analysis.report.frames import stall_columns
from ncubble.analysis.report.report import Launch, Report
from ncubble.errors import ReportError

FILE = "ablation.json"
SETS = {"dev": "fitted", "test": "held out, first", "second": "held out, second", "all": "all"}
SPLITS = tuple(SETS)[:3]
LIMITS = {"mean_abs": 5.0, "worst_abs": 12.0, "ratio": 0.5}
"""Targets: mean and worst absolute error in points of kernel time, and error relative to the naive account's."""
SIDES = ("truth", "account", "naive")
BUSY = ("tensor_busy", "unit_busy")
ORDER = ("data_wait", f"data_wait{JOINED}copy_cost", "copy_cost", "smem_wait", "sync_wait", "epilogue", "tail", REST)
"""Parts in display order."""
COLUMNS = tuple(part for part in ORDER if JOINED not in part)
PART_OF_STALL = {
    "long_scoreboard": "data_wait",
    "lg_throttle": "copy_cost",
    "short_scoreboard": "smem_wait",
    "mio_throttle": "smem_wait",
    "barrier": "sync_wait",
    "membar": "sync_wait",
    "drain": "epilogue",
}
OTHERS, SELECTED = "issue", "selected"


@dataclass(frozen=True)
class Truth:
    """One case. All shares in percent of its elapsed cycles.

    ``parts``: by part of the account, or parts joined by ``JOINED``, and ``rest``; absent where no variant tells.
    ``alone``: what vanishes with each variant. ``overlaps``: what vanishes with two parts less what vanishes with each
    alone; below 0 the same time vanishes with either. ``excluded``: variants that count for nothing, and why.
    """

    cycles: float
    spread_pct: float
    parts: Mapping[str, float]
    alone: Mapping[str, float]
    overlaps: Mapping[str, float]
    excluded: Mapping[str, str]


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


def truth(variants: Mapping[str, Result], busy_pct: float) -> Truth:
    """The truth of one case from the measured ``variants`` (an object of ``cases`` in ``ablation.json``).

    ``busy_pct``: share of the whole kernel's cycles in which its unit was busy. Raises ReportError where variants are
    missing that the shares cannot do without.
    """
    whole = variants.get(NONE)
    if whole is None or not all(value > 0 for value in whole["cycles"] or [0.0]):
        raise ReportError("the whole kernel was not measured", MEASURE)
    base = fmean(whole["cycles"])
    excluded = {word: why for word, cell in variants.items() if (why := _unusable(cell, whole))}
    alone = {
        word: 100.0 * (1.0 - fmean(cell["cycles"]) / cell["work"] / base)
        for word, cell in variants.items()
        if word != NONE and word not in excluded
    }
    gone = {removed(word): pct for word, pct in alone.items() if word != TAIL}
    spread = 100.0 * (max(whole["cycles"]) - min(whole["cycles"])) / base
    try:
        parts = shared_out(gone, alone.get(TAIL), busy_pct)
    except ReportError as error:
        left_out = "".join(f"; {word} {why}" for word, why in excluded.items())
        raise ReportError(error.message + left_out, error.remedy) from error
    return Truth(base, spread, parts, alone, overlaps(alone), excluded)


def _unusable(cell: Result, whole: Result) -> str:
    """Why a variant cannot be held against the whole kernel; "" where it can."""
    if not cell["cycles"] or not all(value > 0 for value in cell["cycles"]):
        return "no cycles were measured"
    if cell["products"] is None or whole["products"] is None:
        return "its products were not counted"
    if not math.isclose(cell["products"], whole["products"] * cell["work"], rel_tol=1e-6):
        return f"executed {cell['products']:.0f} products, not {whole['products'] * cell['work']:.0f}"
    return ""


def score_account(folder: Path) -> dict[str, Any]:
    """The whole result, JSON-ready, of recordings in ``folder``.

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
    """Parts in percent of elapsed cycles, ``busy_pct`` left out, from warp ``samples`` by stall reason.

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
    """``parts`` of an account by the parts that have a truth; all idle time that has none is ``rest``."""
    known = {
        part: math.fsum(parts.get(name, 0.0) for name in part.split(JOINED)) for part in measured.parts if part != REST
    }
    idle = math.fsum(value for part, value in parts.items() if part not in BUSY)
    return {**known, REST: idle - math.fsum(known.values())}


def scores(pairs: Sequence[Pair]) -> dict[str, Any]:
    """By split, and of all together: errors overall and by part, and which targets are met overall."""
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
            for name, limit in LIMITS.items()
        },
    }


def errors(pairs: Iterable[Pair]) -> dict[str, Any]:
    """Mean, bias and worst error in points, the naive account's mean, and the ratio of the means (None over 0)."""
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


def account_tables(result: Result) -> list[Table]:
    """Scores, and scores by part."""
    met = {name: f"≤ {limit:g}" for name, limit in LIMITS.items()}
    header = (
        *("kernels", "worst in", "cases", "mean error", met["mean_abs"], "worst", met["worst_abs"]),
        *("naive mean", "naive worst", "ratio", met["ratio"]),
    )
    rows = [
        (
            SETS[name],
            f"{overall['worst']['case']}, {label(overall['worst']['part'])}",
            str(score["cases"]),
            number(overall["mean_abs"]),
            verdict(score["targets"]["mean_abs"]),
            number(overall["worst_abs"]),
            verdict(score["targets"]["worst_abs"]),
            number(overall["naive_mean_abs"]),
            number(overall["naive_worst_abs"]),
            number(overall["ratio"], 2),
            verdict(score["targets"]["ratio"]),
        )
        for name, score in result["scores"].items()
        for overall in [score["overall"]]
    ]
    return [
        Table("scores", "Absolute error over all parts, in points of kernel time", header, rows, texts=2),
        _parts(result),
    ]


def _parts(result: Result) -> Table:
    splits = [result["scores"].get(split, {"parts": {}})["parts"] for split in SPLITS]
    rows = [
        (
            label(part),
            errors["worst"]["case"],
            str(errors["count"]),
            number(errors["mean_abs"]),
            *(number(parts.get(part, {}).get("mean_abs")) for parts in splits),
            *(number(value) for value in (errors["bias"], errors["worst"]["error"], errors["naive_mean_abs"])),
            number(errors["ratio"], 2),
        )
        for part, errors in result["scores"]["all"]["parts"].items()
    ]
    names = (SETS[split] for split in SPLITS)
    header = ("part", "worst in", "n", "mean error", *names, "bias", "worst", "naive mean", "ratio")
    return Table("parts", "By part, in points of kernel time", header, rows, texts=2)


def account_notes(result: Result) -> list[str]:
    """Cases that could not be scored, and variants that count for nothing, each with the reason."""
    return unscored_notes(result) + [
        f"{case['case']} without {word}: excluded, {why}"
        for case in result["cases"]
        for word, why in case["excluded"].items()
    ]


def label(part: str) -> str:
    """A part, or several joined ones, in words."""
    return part.replace("_", " ").replace(JOINED, f" {JOINED} ")
