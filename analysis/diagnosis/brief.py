"""A brief verdict for scripts and agents, as plain data (docs/reference/verdicts.md)."""

from __future__ import annotations

from typing import Any

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.explain import explain
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.verdict import LaunchVerdict, Place
from ncubble.analysis.diagnosis.words import finding
from ncubble.analysis.model.depths import Depths
from ncubble.analysis.report.report import Launch

SMALL_PCT = 0.5
"""Smaller parts are omitted."""
PLACES, CHANGES = 2, 4


def brief(
    launch: Launch, verdict: LaunchVerdict, ablation: Ablation | None = None, depths: Depths | None = None
) -> dict[str, Any]:
    """The brief verdict of ``docs/reference/verdicts.md``: account, changes with gains and
    intervals, locations, and what was not measured. Parts are in percent of elapsed cycles, gains
    of the launch's time."""
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
        "pct": _rounded(shown.cause_pct),
        "how": None if shown.cause_pct is None else "measured" if shown.cause in shown.measured else "estimated",
        "where": [place_words(place) for place in shown.places[:PLACES]],
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
        "part": change.part,
        "gain_pct": _rounded(change.gain_pct),
        "gain_from_to": None if change.low is None else [_rounded(change.low), _rounded(change.high)],
        "basis": change.basis,
        "blocked": change.blocked,
    }
    return {key: value for key, value in answer.items() if value not in (None, "")}


def place_words(place: Place) -> str:
    """``gemm.cu:77 LDGSTS… 3.1 %``."""
    file = f"{place.file}:{place.line} " if place.file else ""
    return f"{file}{place.sass.split(';')[0].strip()} {place.pct:.1f} %"


def _rounded(value: float | None, scale: float = 1.0, digits: int = 1) -> float | None:
    return None if value is None else round(value * scale, digits)
