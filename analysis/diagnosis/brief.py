"""A brief verdict for scripts and agents, as plain data (docs/reference/verdicts.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.account import account
from ncubble.analysis.account.explain import explain
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis.diagnose import Diagnosis, diagnose
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict, Place
from ncubble.analysis.diagnosis.words import as_measured, finding
from ncubble.analysis.model.depths import Depths
from ncubble.analysis.report.report import Launch

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


def brief(
    launch: Launch, verdict: LaunchVerdict, ablation: Ablation | None = None, depths: Depths | None = None
) -> dict[str, Any]:
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
        "depths": _depths(depths) if depths else None,
        "not_measured": list(explain(launch).missing),
        "doubts": verdict.doubts,
    }
    return {key: value for key, value in answer.items() if value not in (None, [], {})}


def _depths(depths: Depths) -> dict[str, Any]:
    known = {depth: one for depth, one in depths.predicted.items() if one}
    return {
        "stages": depths.stages,
        "busy_from_to_cycles": {
            str(depth): [*(round(pct, 1) for pct in (one.tensor_elapsed_pct, one.low, one.high)), round(one.cycles)]
            for depth, one in known.items()
        },
        "notes": depths.notes,
    }


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
