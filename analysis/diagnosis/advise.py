"""What to do about one launch, as plain data (docs/reference/verdicts.md): predictions of other
depths and of each cause's fix, and a brief verdict for scripts and agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.account.explain import explain
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis.diagnose import Diagnosis, diagnose
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict, Place
from ncubble.analysis.diagnosis.words import as_measured, finding
from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import Prediction, ctas_at, predict, refusal
from ncubble.analysis.report.report import Launch

DEPTHS = tuple(range(1, 9))
SMALL_PCT = 0.5
"""Smaller parts and causes are omitted."""
PLACES, CAUSES, CHANGES = 2, 4, 4


@dataclass(frozen=True)
class Fix:
    """What to do about one cause, and what it gains in percent of kernel time: expected, least,
    most. None where that is not identified."""

    fix: str
    cause: str
    predicted_gain_pct: float | None
    low: float | None
    high: float | None


def fixes(diagnosis: Diagnosis) -> list[Fix]:
    """One fix per cause of the diagnosis, in its order."""
    known = [(cause, diagnosis.gains.get(cause.cause)) for cause in diagnosis.causes]
    return [
        Fix(cause.fix, cause.cause, cause.predicted_gain_pct, gain.low if gain else None, gain.high if gain else None)
        for cause, gain in known
    ]


@dataclass(frozen=True)
class Advice:
    """Predictions for one launch. ``stages`` is the present depth, and ``stages_from`` its source;
    None if unknown. A prediction is None if it is not identified; ``notes`` give the reason."""

    report: str
    launch: int
    label: str
    stages: int | None
    stages_from: str | None
    depths: dict[int, Prediction | None]
    fixes: list[Fix]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """The JSON of ``ncubble advise``."""
        return {"schema": 1, **asdict(self)}


def advise(launch: Launch, stages: int | None = None) -> Advice:
    """The advice on one launch; ``stages`` overrides the present depth of manifest and code. Raises
    UsageError for a missing launch.
    """
    counted = account(launch)
    now = pipeline_of(launch, stages)
    diagnosis = diagnose(launch, counted)
    return Advice(
        report=str(launch.report.path),
        launch=launch.number,
        label=launch.label,
        stages=now.stages,
        stages_from=now.stages_from if now.stages else None,
        depths=predict_all(now),
        fixes=fixes(diagnosis),
        notes=[*_notes(now, counted), *diagnosis.warnings],
    )


def predict_sweep(
    launch: Launch, stages: int | None = None, depths: Sequence[int] = DEPTHS
) -> dict[int, Prediction | None]:
    """Predictions of one launch for each of ``depths``, to be stored before a sweep is measured."""
    return predict_all(pipeline_of(launch, stages), depths)


def predict_all(now: Pipeline | Unidentified, depths: Sequence[int] = DEPTHS) -> dict[int, Prediction | None]:
    """Predictions for each of ``depths``; all None if the pipeline is not identified."""
    if isinstance(now, Unidentified):
        return dict.fromkeys(depths)
    return {depth: predict(now, depth) for depth in depths}


def _notes(now: Pipeline | Unidentified, counted: BubbleAccount | None) -> list[str]:
    if isinstance(now, Unidentified):
        return [f"depths are not identified: {now.reason}"]
    notes = []
    if counted is not None and counted.unit != "tensor":
        notes.append(f"no tensor work: percentages are of the {counted.unit} pipe")
    if now.stages_from == "sass":
        notes.append(
            f"the present depth, {now.stages}, is inferred from the code ({now.evidence}); --stages overrides it"
        )
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


def brief(launch: Launch, verdict: LaunchVerdict, ablation: Ablation | None = None) -> dict[str, Any]:
    """The brief verdict of ``docs/reference/verdicts.md``: account, causes with gains and
    intervals, locations, and what was not measured. Percentages are of elapsed cycles."""
    by_cause = {fix.cause: fix for fix in fixes(diagnose(launch, account(launch)))}
    shown = as_measured(verdict, ablation)
    answer: dict[str, Any] = {
        "launch": verdict.address,
        "kernel": verdict.label or verdict.kernel,
        "shape": verdict.shape,
        "device": verdict.device,
        "time_us": _rounded(verdict.duration_ns, 1e-3),
        "sm_ghz": _rounded(verdict.sm_clock_hz, 1e-9, 2),
        "unit": verdict.unit,
        "dram_pct": _rounded(verdict.dram_pct),
        "account_pct": {part: round(pct, 1) for part, pct in (verdict.account or {}).items() if pct >= SMALL_PCT},
        "verdict": shown.cause,
        "disease": shown.disease,
        "causes": [_cause(cause, by_cause.get(cause.cause)) for cause in shown.causes[:CAUSES] if _counts(cause)],
        "changes": [_change(change) for change in shown.changes[:CHANGES]],
        "measured": finding(verdict, ablation) if ablation else None,
        "not_measured": list(explain(launch).missing),
        "doubts": verdict.doubts,
    }
    return {key: value for key, value in answer.items() if value not in (None, [], {})}


def _change(change: Change) -> dict[str, Any]:
    answer = {
        "kind": change.kind,
        "do": change.text,
        "gain_pct": _rounded(change.gain_pct),
        "gain_from_to": None if change.low is None else [_rounded(change.low), _rounded(change.high)],
        "basis": change.basis,
        "blocked": change.blocked,
    }
    return {key: value for key, value in answer.items() if value not in (None, "")}


def _counts(cause: Cause) -> bool:
    return cause.pct >= SMALL_PCT or cause.measured


def _cause(cause: Cause, fix: Fix | None) -> dict[str, Any]:
    answer = {
        "cause": cause.cause,
        "disease": cause.disease,
        "pct": round(cause.pct, 1),
        "how": "measured" if cause.measured else "estimated",
        **(fix_words(fix) if fix else {}),
        "fix": cause.fix,
        "where": [place_words(place) for place in cause.where[:PLACES]],
    }
    return {key: value for key, value in answer.items() if value not in (None, [])}


def fix_words(fix: Fix) -> dict[str, Any]:
    """A fix with its gain in percent of cycles: expected, minimum and maximum."""
    known = fix.low is not None and fix.high is not None
    answer = {
        "cause": fix.cause,
        "fix": fix.fix,
        "gain_pct": _rounded(fix.predicted_gain_pct),
        "gain_from_to": [_rounded(fix.low), _rounded(fix.high)] if known else None,
    }
    return {key: value for key, value in answer.items() if value is not None}


def place_words(place: Place) -> str:
    """``gemm.cu:77 LDGSTS… 3.1 %``."""
    file = f"{place.file}:{place.line} " if place.file else ""
    return f"{file}{place.sass.split(';')[0].strip()} {place.pct:.1f} %"


def _rounded(value: float | None, scale: float = 1.0, digits: int = 1) -> float | None:
    return None if value is None else round(value * scale, digits)
