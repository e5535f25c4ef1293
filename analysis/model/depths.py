"""Predictions of one launch at other depths of its pipeline (docs/reference/verdicts.md#depths)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ncubble.analysis.account.account import account
from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import Prediction, ctas_at, predict, refusal
from ncubble.analysis.report.report import Launch

DEPTHS = tuple(range(1, 9))


@dataclass(frozen=True)
class Depths:
    """``stages`` is the present depth, and ``stages_from`` its source; None if unknown.
    ``predicted`` by depth: None if it is not identified; ``notes`` give the reason."""

    stages: int | None
    stages_from: str | None
    predicted: dict[int, Prediction | None]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """The member ``depths`` of a launch in ``ncubble report --json --depths``."""
        return asdict(self)


def depths_of(launch: Launch, stages: int | None = None) -> Depths:
    """Depths 1 to 8 of one launch; ``stages`` overrides the present depth of manifest and code."""
    now = pipeline_of(launch, stages)
    return Depths(now.stages, now.stages_from if now.stages else None, predict_all(now), _notes(launch, now))


def predict_all(now: Pipeline | Unidentified, depths: Sequence[int] = DEPTHS) -> dict[int, Prediction | None]:
    """Predictions for each of ``depths``; all None if the pipeline is not identified."""
    if isinstance(now, Unidentified):
        return dict.fromkeys(depths)
    return {depth: predict(now, depth) for depth in depths}


def _notes(launch: Launch, now: Pipeline | Unidentified) -> list[str]:
    if isinstance(now, Unidentified):
        return [f"depths are not identified: {now.reason}"]
    notes, counted = [], account(launch)
    if counted is not None and counted.unit != "tensor":
        notes.append(f"no tensor work: percentages are of the {counted.unit} pipe")
    if now.stages_from == "sass":
        notes.append(f"the code shows a depth of {now.stages} ({now.evidence})")
    return [*notes, *_residency_notes(now), *_refusal_notes(now)]


def _residency_notes(now: Pipeline) -> list[str]:
    if now.residency is None:
        return ["the report lacks occupancy limits: the number of resident CTAs is assumed to stay the same"]
    changed: defaultdict[int, list[int]] = defaultdict(list)
    for depth in DEPTHS:
        if not refusal(now, depth) and ctas_at(now, depth) != now.ctas:
            changed[now.residency.ctas(depth)].append(depth)
    present = now.residency.ctas(now.stages)
    return [
        f"shared memory leaves {ctas} instead of {present} CTAs per SM at {_named(depths)}"
        for ctas, depths in changed.items()
    ]


def _refusal_notes(now: Pipeline) -> list[str]:
    refused: defaultdict[str, list[int]] = defaultdict(list)
    for depth in DEPTHS:
        if depth != now.stages and (why := refusal(now, depth)):
            refused[why].append(depth)
    return [f"{_named(depths)}: {why}" for why, depths in refused.items()]


def _named(depths: Sequence[int]) -> str:
    if len(depths) == 1:
        return f"depth {depths[0]}"
    return f"depths {', '.join(str(depth) for depth in depths[:-1])} and {depths[-1]}"
