"""Predicted depths against the sweeps of the truth: every launch predicts the other depths of its family on its GPU.
And means over launches of which those of a family are alike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.validation.recorded import CYCLES
from benchmarks.validation.store import TruthLaunch
from ncubble.analysis.account.units import busy_of
from ncubble.analysis.model.depths import predict_all
from ncubble.analysis.model.pipeline import Unidentified, pipeline_of
from ncubble.analysis.model.predict import Prediction, chosen_depth, margin_of

Row = dict[str, Any]
DRAWS, SEED = 2000, 19
LEVEL = 0.9
"""Nominal coverage of intervals."""
NO_GAIN = 1.0
"""A deeper pipeline that gains at most so many busy points gains nothing."""
PROMISED_PCT = 2.0
"""A predicted gain above this is a promise."""


def interval(rows: Sequence[Row], of: Callable[[Row], list[float]]) -> tuple[float | None, list[float] | None]:
    """The mean of all values ``of`` the rows, and where 95 % of the means lie that families drawn
    anew give; no interval for fewer than five families."""
    families: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        families[row["family"]] += of(row)
    values = [np.array(members) for members in families.values() if members]
    if not values:
        return None, None
    mean = float(np.concatenate(values).mean())
    if len(values) < 5:
        return mean, None
    sums, counts = np.array([members.sum() for members in values]), np.array([len(members) for members in values])
    drawn = np.random.default_rng(SEED).integers(len(values), size=(DRAWS, len(values)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return mean, [float(bound) for bound in np.percentile(means, (2.5, 97.5))]


def depth_scores(launches: Sequence[TruthLaunch]) -> dict[str, Any]:
    """How well each launch of a sweep predicts the busy share at the other depths (points), and
    what the depth that it would choose among the measured ones loses against the best, in percent
    of cycles. Depths that it does not predict count as ``silent``."""
    sweeps: dict[tuple[str, str], dict[int, TruthLaunch]] = defaultdict(dict)
    for launch in launches:
        if launch.stages is not None:
            sweeps[launch.family, launch.gpu][launch.stages] = launch
    pairs: list[Row] = []
    regrets: list[Row] = []
    for (family, gpu), depths in sweeps.items():
        if len(depths) > 1:
            for stages, one in depths.items():
                made, regret = _predicted(family, gpu, depths, stages, one)
                pairs += made
                regrets += regret
    predicted = [row for row in pairs if row["error"] is not None]
    without_gain = [row for row in predicted if row["to"] > row["from"] and -row["no_change"] <= NO_GAIN]
    mean, within = interval(predicted, lambda row: [abs(row["error"])])
    worst = max(predicted, key=lambda row: abs(row["error"]), default=None)
    stay, _ = interval(predicted, lambda row: [abs(row["no_change"])])
    return {
        "sweeps": sum(len(depths) > 1 for depths in sweeps.values()),
        "pairs": len(pairs),
        "silent": len(pairs) - len(predicted),
        "mean_abs": mean,
        "interval": within,
        "worst": worst,
        "inside_pct": 100.0 * fmean(row["inside"] for row in predicted) if predicted else None,
        "margins": _margins(predicted),
        "no_gain": len(without_gain),
        "no_gain_promised_pct": 100.0 * fmean(row["promised"] > PROMISED_PCT for row in without_gain)
        if without_gain
        else None,
        "no_change_mean_abs": stay,
        "regret_mean_pct": fmean(row["regret"] for row in regrets) if regrets else None,
        "regret_worst_pct": max((row["regret"] for row in regrets), default=None),
        **{
            f"{name}_regret_mean_pct": fmean(row[name] for row in regrets) if regrets else None
            for name in ("stay", "deepest")
        },
    }


def _predicted(
    family: str, gpu: str, depths: Mapping[int, TruthLaunch], present: int, one: TruthLaunch
) -> tuple[list[Row], list[Row]]:
    busy = {stages: found.pct for stages, other in depths.items() if (found := busy_of(other.launch)) is not None}
    cycles = {stages: other.launch.value(CYCLES) for stages, other in depths.items()}
    if present not in busy:
        return [], []
    now = pipeline_of(one.launch, present)
    predictions = predict_all(now, list(depths))
    pairs = [
        {
            **{"family": family, "gpu": gpu, "from": present, "to": stages},
            "no_change": busy[present] - busy[stages],
            **_against(predictions[stages], busy[present], busy[stages]),
            "margin": 0.0 if isinstance(now, Unidentified) else margin_of(now, stages),
        }
        for stages in depths
        if stages != present and stages in busy
    ]
    known = {stages: made.tensor_elapsed_pct for stages, made in predictions.items() if made is not None}
    if len(known) < 2:
        return pairs, []
    best = min(cycles.values())
    lost = {stages: 100.0 * (cycles[stages] / best - 1.0) for stages in depths}
    chosen = {"regret": chosen_depth(known), "stay": present, "deepest": max(known)}
    return pairs, [{"family": family, **{name: lost[depth] for name, depth in chosen.items()}}]


def _margins(predicted: Sequence[Row]) -> list[Row]:
    """By the margin of an interval: predictions, the margin that they would have needed, and what
    share of them holds with the margin that all other families need."""
    rows = []
    for margin in sorted({row["margin"] for row in predicted}):
        alike = [(row["family"], row["beyond"] + margin) for row in predicted if row["margin"] == margin]
        others = {name: [beyond for family, beyond in alike if family != name] for name, _ in alike}
        held = [beyond <= _needed(others[family]) for family, beyond in alike if others[family]]
        needed = _needed([beyond for _, beyond in alike])
        held_pct = 100.0 * fmean(held) if held else None
        rows.append({"margin": margin, "predictions": len(alike), "needed": needed, "held_pct": held_pct})
    return rows


def _needed(beyond: Sequence[float]) -> float:
    """The margin with which LEVEL of the intervals hold (split conformal prediction, with its
    correction for few)."""
    return sorted(beyond)[min(len(beyond), math.ceil((len(beyond) + 1) * LEVEL)) - 1]


def _against(prediction: Prediction | None, present: float, measured: float) -> Row:
    """Error, promised gain and whether the interval holds, in points of the busy share."""
    if prediction is None:
        return dict.fromkeys(("error", "promised", "inside", "beyond"))
    return {
        "error": prediction.tensor_elapsed_pct - measured,
        "promised": prediction.tensor_elapsed_pct - present,
        "inside": prediction.low <= measured <= prediction.high,
        "beyond": max(prediction.low - measured, measured - prediction.high),
    }
