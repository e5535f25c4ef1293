"""What other depths and the fix of each cause would change in one launch, as plain data
(docs/reference/verdicts.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.diagnosis.diagnose import diagnose
from ncubble.analysis.diagnosis.gains import fixes
from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import Prediction, ctas_at, predict, refusal
from ncubble.analysis.report.launch import Launch

DEPTHS = tuple(range(1, 9))


def advise(launch: Launch, stages: int | None = None) -> dict[str, Any]:
    """The JSON of ``ncubble advise``; ``stages`` overrules what manifest and code say of the
    present depth.

    Raises UsageError for a launch that is not there.
    """
    found = account(launch)
    now = pipeline_of(launch, found, stages)
    diagnosis = diagnose(launch, found)
    depths = predict_all(now)
    return {
        "schema": 1,
        "report": str(launch.report.path),
        "launch": launch.number,
        "label": launch.label,
        "stages": now.stages,
        "stages_from": now.stages_from if now.stages else None,
        "depths": {str(depth): asdict(told) if told else None for depth, told in depths.items()},
        "fixes": [asdict(fix) for fix in fixes(launch, found, diagnosis)],
        "notes": [*_notes(now, found), *diagnosis.warnings],
    }


def predict_sweep(
    launch: Launch, stages: int | None = None, depths: Sequence[int] = DEPTHS
) -> dict[int, Prediction | None]:
    """Predictions of one launch for each of ``depths``: what is written down before a sweep is
    measured."""
    return predict_all(pipeline_of(launch, account(launch), stages), depths)


def predict_all(now: Pipeline | Unidentified, depths: Sequence[int] = DEPTHS) -> dict[int, Prediction | None]:
    """Predictions for each of ``depths``; all None where the pipeline is not identified."""
    if isinstance(now, Unidentified):
        return dict.fromkeys(depths)
    return {depth: predict(now, depth) for depth in depths}


def _notes(now: Pipeline | Unidentified, found: BubbleAccount | None) -> list[str]:
    if isinstance(now, Unidentified):
        return [f"depths are not identified: {now.reason}"]
    notes = []
    if found is not None and found.unit != "tensor":
        notes.append(f"no tensor work: percentages are of the {found.unit} pipe")
    if now.stages_from == "sass":
        notes.append(f"the present depth, {now.stages}, is read off the code ({now.evidence}); --stages overrules it")
    if now.plain:
        notes.append("tiles are loaded through registers: deeper pipelines are taken to copy asynchronously")
    return [*notes, *_residency_notes(now), *_refusal_notes(now)]


def _residency_notes(now: Pipeline) -> list[str]:
    if now.residency is None:
        return ["the report lacks occupancy limits: resident CTAs are taken to stay as they are"]
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
