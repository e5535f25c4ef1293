"""One series of depths, predicted from one of its launches, beside what was measured. Pure.

The model is that of ``ncubble report --depths`` (model/predict.py). It sees the report of a single
launch, and none of the others of its series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncubble.analysis.model.pipeline import Unidentified, pipeline_of
from ncubble.analysis.model.predict import Prediction, chosen_depth, predict, refusal
from ncubble.analysis.report.report import Launch
from ncubble.analysis.sweeps.sweeps import PointSpread, SweepPoint, SweepSeries, is_split

DEPTH_NAMES = ("stages", "num_stages", "nstages", "n_stages", "pipeline_stages", "slots", "depth", "buffers")
"""Parameters that set how many tiles a ring holds."""
FIRST = (2.0, 3.0, 1.0, 4.0)
"""Preferred depths to predict from, if profiled: those that kernels usually start with."""
DEEPEST = 8
FLAT = 2.0
"""Minimum span of measured depths, in points, for their order to be meaningful."""


@dataclass(frozen=True)
class DepthPredictions:
    """What the model says of a launch: by depth a prediction, or why there is none. ``reason`` says
    why there is no prediction of any depth; ``note`` what is assumed."""

    present: int
    predictions: Mapping[int, Prediction | str]
    reason: str = ""
    note: str = ""


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


def is_depth(parameter: str, series: Sequence[SweepSeries]) -> bool:
    """Whether a swept parameter is the depth of a pipeline: by its name, and because its values are
    whole numbers."""
    at = [point.at for line in series for point in line.points]
    return parameter.lower() in DEPTH_NAMES and all(value is not None and value.is_integer() for value in at)


def profiles(series: SweepSeries) -> list[SweepPoint]:
    """The points that have launches which may be predicted from: those with warp samples, usual
    depths first."""
    split = [point for point in series.points if any(is_split(row) for row in point.rows)]
    return sorted(split, key=lambda point: ((*FIRST, point.at).index(point.at), point.at or 0.0))


def depth_predictions(launch: Launch, depth: int) -> DepthPredictions:
    """What the model says of a launch whose swept parameter is ``depth``."""
    stages = launch.report.run.manifest.kernel_of(launch.number).get("stages")
    now = pipeline_of(launch, int(stages or depth))
    if isinstance(now, Unidentified):
        return DepthPredictions(depth, {}, now.reason)
    beside = now.stages - depth  # a ring may hold more tiles than the parameter says, by a constant number
    rings = {value: value + beside for value in range(1, DEEPEST + 1) if value + beside >= 1}
    predictions = {value: predict(now, ring) or refusal(now, ring) for value, ring in rings.items()}
    lacking = "The report lacks occupancy limits: the number of resident CTAs is assumed to stay the same."
    return DepthPredictions(depth, predictions, note=lacking if now.residency is None else "")


def depths_of(series: SweepSeries, forecast: DepthPredictions) -> list[Depth]:
    """Every depth that was measured or predicted, in order. Measured: ``busy`` and ``cycles`` of
    the rows."""
    points = {int(point.at): point for point in series.points if point.at is not None}
    depths = []
    for depth in sorted({*points, *forecast.predictions}):
        point, told = points.get(depth), forecast.predictions.get(depth, f"deeper than {DEEPEST}")
        busy, cycles = (point.spread("busy"), point.spread("cycles")) if point else (None, None)
        predicted, why = (None, told) if isinstance(told, str) else (told, "")
        depths.append(Depth(depth, busy, cycles, predicted, why))
    return depths


def judged(parameter: str, depths: Sequence[Depth], present: int) -> list[str]:
    """What predictions from ``present`` are worth, in words: how far off they are, and what is lost
    by the depth they choose."""
    known = [row for row in depths if row.busy and (row.predicted or row.depth == present)]
    measured = {row.depth: row.busy.mean for row in known if row.busy}
    errors = [abs(row.error) for row in known if row.depth != present and row.error is not None]
    if present not in measured or not errors:
        return [f"No other value of {parameter} was both measured and predicted, so predictions cannot be checked."]
    predicted = {row.depth: row.predicted.tensor_elapsed_pct for row in known if row.predicted}
    chosen = chosen_depth({**predicted, present: measured[present]})
    best = max(measured, key=lambda depth: (measured[depth], -depth))
    texts = [
        f"Predicted from {parameter} {present}: {sum(errors) / len(errors):.1f} points of utilization off on average "
        f"over {len(errors)} other measured {'depth' if len(errors) == 1 else 'depths'}."
    ]
    span = max(measured.values()) - min(measured.values())
    if span < FLAT:
        texts.append(f"The measured depths span {span:.1f} points: their order is not significant.")
    if chosen == best:
        return [*texts, f"Best by prediction and by measurement: {parameter} {best}, {measured[best]:.1f} %."]
    lost = measured[best] - measured[chosen]
    return [
        *texts,
        f"Best by prediction: {parameter} {chosen}, which reaches {measured[chosen]:.1f} %; by measurement: {best}, "
        f"{measured[best]:.1f} %. Following the prediction loses {lost:.1f} points "
        f"({100.0 * lost / measured[best] if measured[best] > 0 else 0.0:.1f} %).",
    ]
