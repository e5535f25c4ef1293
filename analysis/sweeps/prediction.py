"""One series of depths, predicted from one of its launches, beside what was measured. Pure.

The model is that of ``ncubble advise`` (model/predict.py). It sees the report of a single launch,
and none of the others of its series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import Prediction, chosen_depth, predict, refusal
from ncubble.analysis.report.report import Launch
from ncubble.analysis.sweeps.model import PointSpread, SweepPoint, SweepSeries, is_split

DEPTH_NAMES = ("stages", "num_stages", "nstages", "n_stages", "pipeline_stages", "slots", "depth", "buffers")
"""Parameters that set how many tiles a ring holds."""
FIRST = (2.0, 3.0, 1.0, 4.0)
"""Preferred depths to predict from, if profiled: those that kernels usually start with."""
DEEPEST = 8


@dataclass(frozen=True)
class DepthPredictions:
    """What the model says of a launch: by depth a prediction, or why there is none. ``reason`` says
    why there is no prediction of any depth; ``unit`` is what is counted as busy."""

    present: int
    predictions: Mapping[int, Prediction | None]
    refusals: Mapping[int, str]
    reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Depth:
    """One depth: measured busy share in percent and cycles, as far as there are launches of it, the
    prediction with its ``low`` and ``high`` bounds, and why there is none."""

    depth: int
    busy: PointSpread | None
    cycles: PointSpread | None
    predicted: Prediction | None
    refusal: str

    @property
    def error(self) -> float | None:
        """Predicted minus measured busy share in points."""
        return self.predicted.tensor_elapsed_pct - self.busy.mean if self.predicted and self.busy else None

    @property
    def cycles_error_pct(self) -> float | None:
        """Predicted against measured cycles in percent."""
        if not self.predicted or not self.cycles or self.cycles.mean <= 0:
            return None
        return 100.0 * (self.predicted.cycles / self.cycles.mean - 1.0)


@dataclass(frozen=True)
class DepthChoice:
    """Which of the measured depths the predictions choose, which is best, and what the choice
    loses.

    ``chosen_pct`` and ``best_pct`` are measured busy shares, ``regret_pct`` the loss in percent of
    the best; ``mean_error`` of absolute errors in points, over ``n`` depths other than the present
    one; ``span`` of what was measured, in points.
    """

    chosen: int
    best: int
    chosen_pct: float
    best_pct: float
    regret_pct: float
    mean_error: float
    n: int
    span: float


def is_depth(parameter: str, series: Sequence[SweepSeries]) -> bool:
    """Whether a swept parameter is the depth of a pipeline: by its name, and because its values are
    whole numbers."""
    at = [point.at for line in series for point in line.points]
    return parameter.lower() in DEPTH_NAMES and all(value is not None and value.is_integer() for value in at)


def profiles(series: SweepSeries) -> list[SweepPoint]:
    """The points that have launches which may be predicted from: those with warp samples, usual
    depths first."""
    split = [point for point in series.points if any(is_split(row) for row in point.rows)]
    return sorted(
        split, key=lambda point: (FIRST.index(point.at) if point.at in FIRST else len(FIRST), point.at or 0.0)
    )


def depth_predictions(launch: Launch, depth: int) -> DepthPredictions:
    """What the model says of a launch whose swept parameter is ``depth``."""
    stages = launch.report.run.manifest.kernel_of(launch.number).get("stages")
    now = pipeline_of(launch, int(stages or depth))
    if isinstance(now, Unidentified):
        return DepthPredictions(depth, {}, {}, now.reason)
    beside = now.stages - depth  # a ring may hold more tiles than the parameter says, by a constant number
    depths = [value for value in range(1, DEEPEST + 1) if value + beside >= 1]
    predictions = {value: predict(now, value + beside) for value in depths}
    refusals = {value: refusal(now, value + beside) for value in depths if predictions[value] is None}
    return DepthPredictions(depth, predictions, refusals, notes=_notes(now))


def _notes(now: Pipeline) -> tuple[str, ...]:
    notes = []
    if now.residency is None:
        notes.append("The report lacks occupancy limits: the number of resident CTAs is assumed to stay the same.")
    return tuple(notes)


def depths_of(series: SweepSeries, forecast: DepthPredictions) -> list[Depth]:
    """Every depth that was measured or predicted, in order. Measured: ``busy`` and ``cycles`` of
    the rows."""
    points = {int(point.at): point for point in series.points if point.at is not None}
    depths = []
    for depth in sorted({*points, *forecast.predictions}):
        point = points.get(depth)
        busy, cycles = (point.spread("busy"), point.spread("cycles")) if point else (None, None)
        refusal = forecast.refusals.get(depth, "" if depth in forecast.predictions else f"deeper than {DEEPEST}")
        depths.append(Depth(depth, busy, cycles, forecast.predictions.get(depth), refusal))
    return depths


def depth_choice(depths: Sequence[Depth], present: int) -> DepthChoice | None:
    """How good the predictions are; None where no depth but the present one was both measured and
    predicted."""
    measured = {row.depth: row.busy.mean for row in depths if row.busy and (row.predicted or row.depth == present)}
    predicted = {
        row.depth: row.predicted.tensor_elapsed_pct for row in depths if row.predicted and row.depth in measured
    }
    errors = [abs(row.error) for row in depths if row.depth != present and row.error is not None]
    if present not in measured or not errors:
        return None
    predicted[present] = measured[present]
    chosen, best = chosen_depth(predicted), max(measured, key=lambda depth: (measured[depth], -depth))
    lost = 100.0 * (measured[best] - measured[chosen]) / measured[best] if measured[best] > 0 else 0.0
    span = max(measured.values()) - min(measured.values())
    mean = sum(errors) / len(errors)
    return DepthChoice(chosen, best, measured[chosen], measured[best], lost, mean, len(errors), span)
