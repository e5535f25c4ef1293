"""What the fix of each cause would give back, in percent of kernel time: for ``ncubble advise``."""

from __future__ import annotations

from dataclasses import dataclass

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.account.units import capability_of
from ncubble.analysis.diagnosis.diagnose import Diagnosis, gains, slow_path_gain
from ncubble.analysis.diagnosis.facts import launch_facts
from ncubble.analysis.diagnosis.overfetch import overfetch
from ncubble.analysis.diagnosis.verdict import Cause
from ncubble.analysis.model.gain import Gain
from ncubble.analysis.report.report import Launch
from ncubble.chips import chip_of


@dataclass(frozen=True)
class Fix:
    """What to do about one cause, and what it gains in percent of kernel time: expected, least,
    most. None where that is not identified."""

    fix: str
    cause: str
    predicted_gain_pct: float | None
    low: float | None
    high: float | None


def fixes(launch: Launch, account: BubbleAccount | None, diagnosis: Diagnosis) -> list[Fix]:
    """One fix per cause of the diagnosis, in its order; none without an account."""
    if account is None:
        return []
    by_cause = {PARTS[part].cause or part: gain for part, gain in gains(launch, account).items()}
    if wasted := overfetch(account, launch_facts(launch)):
        by_cause["copy_cost"] = wasted.gain
    by_cause["slow_path"] = slow_path_gain(account, chip_of(capability_of(launch)))
    return [_fix(cause, by_cause[cause.cause]) for cause in diagnosis.causes]


def _fix(cause: Cause, gain: Gain) -> Fix:
    if cause.predicted_gain_pct is None:
        return Fix(cause.fix, cause.cause, None, None, None)
    return Fix(cause.fix, cause.cause, cause.predicted_gain_pct, gain.low, gain.high)
