"""Holds account, first cause, gain and depth of measured launches against what was measured.

Truth are the shares of cycles that vanish when a part is taken out of the machine code, shared out
by Shapley values (``MeasuredPart.measured``), and what vanishes with a part ``alone``. Estimates
are made anew by the code that runs. Launches whose replay did not repeat the program's results
(but for kernels that add in any order), and those of which a part could not be measured, neither
alone nor together with another, are named and not scored. Nor are copies of kernels that a memory
bounds: without them, its work is gone. Means come with an interval of 95 %,
from families drawn anew (bootstrap), since launches of a family are alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.validation.account.score import BUSY, naive_of
from benchmarks.validation.recorded import scored
from benchmarks.validation.truth.depth import depth_scores
from benchmarks.validation.truth.families import Row, interval
from benchmarks.validation.truth.store import TruthLaunch, stored
from ncubble.analysis.ablation.result import LEAST_CAUSE_PCT, MeasuredPart
from ncubble.analysis.account.account import account
from ncubble.analysis.account.parts import JOINED
from ncubble.analysis.account.shares import PART_OF, REST
from ncubble.analysis.account.units import MEMORY
from ncubble.analysis.diagnosis.diagnose import diagnose
from ncubble.analysis.diagnosis.verdict import Cause
from ncubble.errors import ReportError
from ncubble.sass.opcodes import adds_in_any_order

PROMISED_PCT, GAINED_PCT = 2.0, 1.0
"""A predicted gain above the first with a measured one below the second is a broken promise."""
ENOUGH_PCT, NEAR_PCT = 5.0, 3.0
"""A launch has a first cause if removing one part gains at least the first; every part within the
second of the best is a right answer."""


def score_truth(folder: Path, split: str = "learn") -> dict[str, Any]:
    """The whole result, JSON-ready (schema: docs/reference/validations.md), of one side of the
    store in ``folder``. Raises ReportError where nothing could be scored."""
    launches = list(stored(folder, split))
    rows, unscored = scored(((f"{one.name} {one.gpu}", one) for one in launches), _row)
    if not rows:
        raise ReportError(f"{folder / split}: no launch could be scored", "the messages above say why")
    members = list(rows.values())
    return {
        "schema": 1,
        "validation": "truth",
        "split": split,
        "launches": len(launches),
        "origins": {
            gpu: _origin([one for one in launches if one.gpu == gpu]) for gpu in sorted({one.gpu for one in launches})
        },
        "scores": {
            "all": scores(members),
            **{f"gpu {name}": scores(of) for name, of in _by(members, "gpu").items()},
            **{f"kind {name}": scores(of) for name, of in _by(members, "kind").items()},
        },
        "parts": {
            part: part_errors(members, part) for part in sorted({part for row in members for part in row["parts"]})
        },
        "depth": depth_scores(launches),
        "rows": members,
        "unscored": unscored,
    }


def _origin(launches: Sequence[TruthLaunch]) -> Row:
    """Of the launches of one GPU model: where they come from, by all their commits and days."""
    manifest, made = launches[0].launch.report.run.manifest, sorted((one.started, one.commit) for one in launches)
    return {
        **{"device": manifest.device, "ncu_version": manifest.ncu_version},
        "commits": list(dict.fromkeys(commit for _, commit in made if commit)),
        "days": list(dict.fromkeys(started[:10] for started, _ in made)),
    }


def _by(rows: Iterable[Row], member: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[member]].append(row)
    return dict(sorted(groups.items()))


def _row(one: TruthLaunch) -> Row:
    """Estimates and measurements of one launch; raises ReportError where it cannot be scored."""
    measured = {part.part: part for part in one.ablation.parts}
    if one.ablation.faithful is False and not adds_in_any_order(one.launch.source["sass"]):
        raise ReportError("its replay did not repeat the program's results", "")
    if REST not in measured or not _parts_of_code(one) <= {name for part in measured.values() for name in part.names}:
        raise ReportError("not every part could be measured, alone or with another", "")
    bubbles = account(one.launch)
    if bubbles is None:
        raise ReportError("it has no account", "")
    busy = math.fsum(bubbles.parts.get(part, 0.0) for part in BUSY)
    naive = naive_of(one.launch, busy)
    parts = {
        name: {
            **{"measured": part.measured, "alone": part.alone},
            **{"account": _sum(bubbles.parts, part), "naive": _sum(naive, part)},
        }
        for name, part in measured.items()
        if name != REST and not (bubbles.unit in MEMORY and "copy_cost" in part.names)
    }
    causes = diagnose(one.launch, bubbles).causes
    named, copied = _named([cause.cause for cause in causes], parts), _named(["copy_cost"], parts)
    return {
        **{"name": one.name, "family": one.family, "kind": one.kind, "gpu": one.gpu, "stages": one.stages},
        "cycles": one.ablation.cycles,
        "parts": parts,
        "first": first_cause(parts),
        "enough": is_enough(parts, named),
        "least": is_least(parts, named),
        "copies": is_enough(parts, copied),
        "gain": _gain(causes, {name: measured[name] for name in parts}),
    }


def _parts_of_code(one: TruthLaunch) -> set[str]:
    """The parts that the kernel has, measured or not."""
    return {PART_OF[variant.name] for variant in one.ablation.variants if variant.name in PART_OF}


def _sum(parts: Mapping[str, float], part: MeasuredPart) -> float:
    return math.fsum(parts.get(name, 0.0) for name in part.names)


def first_cause(parts: Mapping[str, Row]) -> Row:
    """The largest part by measurement and by estimate ("" where none has ``LEAST_CAUSE_PCT``),
    whether they are the same, and the ``regret``: measured points of the right one beyond those of
    the one that is named."""
    first = {side: max(parts, key=lambda name: parts[name][side], default="") for side in ("measured", "account")}
    named = {side: name if name and parts[name][side] >= LEAST_CAUSE_PCT else "" for side, name in first.items()}
    got = {side: parts[name]["measured"] if name else 0.0 for side, name in named.items()}
    return {**named, "right": named["measured"] == named["account"], "regret": got["measured"] - got["account"]}


def _named(causes: Iterable[str], parts: Iterable[str]) -> str:
    """The measured part, alone or with another, that ranked ``causes`` name first; "" for none."""
    return next((part for cause in causes for part in parts if cause in part.split(JOINED)), "")


def is_enough(parts: Mapping[str, Row], named: str) -> bool | None:
    """Whether removing the part ``named`` first gains as much as removing any other part; None
    where no removal gains much."""
    alone = {name: part["alone"] for name, part in parts.items() if part["alone"] is not None}
    if not alone or max(alone.values()) < ENOUGH_PCT:
        return None
    return bool(alone.get(named, -math.inf) >= max(alone.values()) - NEAR_PCT)


def is_least(parts: Mapping[str, Row], named: str) -> bool | None:
    """Whether the part ``named`` is enough, and not more than is needed: removing copies removes
    the waits for them, too, so that they always gain as much as these."""
    if not is_enough(parts, named):
        return is_enough(parts, named)
    return named != "copy_cost" or not is_enough(parts, "data_wait")


def _gain(causes: Sequence[Cause], measured: Mapping[str, MeasuredPart]) -> Row | None:
    """What the diagnosis promises for its first cause, and what vanishes with that part alone."""
    first = causes[0] if causes else None
    if first is None or first.predicted_gain_pct is None:
        return None
    part = next((part for part in measured.values() if first.cause in part.names), None)
    if part is None or part.alone is None:
        return None
    return {"cause": first.cause, "promised": first.predicted_gain_pct, "alone": part.alone}


def scores(rows: Sequence[Row]) -> dict[str, Any]:
    """Errors of account, first cause and gain over ``rows``, in points of kernel time."""
    right, within = interval(rows, lambda row: [100.0 * row["first"]["right"]])
    gains = [row["gain"] for row in rows if row["gain"] is not None]
    shares = {name: [row[name] for row in rows if row[name] is not None] for name in ("enough", "least", "copies")}
    return {
        "launches": len(rows),
        "account": _errors(rows, "account"),
        "naive": _errors(rows, "naive"),
        "first_right_pct": right,
        "first_right_interval": within,
        **{f"first_{name}_pct": 100.0 * fmean(right) if right else None for name, right in shares.items()},
        "first_regret": fmean(row["first"]["regret"] for row in rows),
        "gains": {
            "count": len(gains),
            "mean_abs": fmean(abs(gain["promised"] - gain["alone"]) for gain in gains) if gains else None,
            "median_abs": median(abs(gain["promised"] - gain["alone"]) for gain in gains) if gains else None,
            "broken": sum(gain["promised"] > PROMISED_PCT and gain["alone"] < GAINED_PCT for gain in gains),
        },
    }


def _errors(rows: Sequence[Row], side: str) -> Row:
    def of(row: Row) -> list[float]:
        return [abs(cells[side] - cells["measured"]) for cells in row["parts"].values()]

    mean, within = interval(rows, of)
    off = [(error, row["name"], row["gpu"]) for row in rows for error in of(row)]
    worst = max(off, default=None)
    return {
        "count": len(off),
        "mean_abs": mean,
        "interval": within,
        "worst_abs": worst[0] if worst else None,
        "worst": f"{worst[1]} {worst[2]}" if worst else "",
    }


def part_errors(rows: Sequence[Row], part: str) -> Row:
    """Errors of one part over the launches that have it; ``bias`` is account less measured."""
    cells = [(row, row["parts"][part]) for row in rows if part in row["parts"]]
    off = [(cell["account"] - cell["measured"], row["name"], row["gpu"]) for row, cell in cells]
    worst = max(off, key=lambda item: abs(item[0]))
    return {
        "count": len(off),
        "mean_abs": fmean(abs(error) for error, *_ in off),
        "bias": fmean(error for error, *_ in off),
        "worst": worst[0],
        "worst_of": f"{worst[1]} {worst[2]}",
        "naive_mean_abs": fmean(abs(cell["naive"] - cell["measured"]) for _, cell in cells),
    }
