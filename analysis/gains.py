"""What the fix of each cause would give back, in percent of kernel time: for ``ncubble advise``."""

from __future__ import annotations

from dataclasses import dataclass

from ncubble.analysis.account import BubbleAccount
from ncubble.analysis.diagnose import Diagnosis, idle_pct
from ncubble.analysis.gain_model import gain_of
from ncubble.analysis.report import Report


@dataclass(frozen=True)
class Fix:
    """What to do about one cause, and what it gains in percent of kernel time: expected, least, most. None where that
    is not identified."""

    fix: str
    cause: str
    predicted_gain_pct: float | None
    low: float | None
    high: float | None


def fixes(report: Report, launch: int, account: BubbleAccount | None, diagnosis: Diagnosis) -> list[Fix]:
    """One fix per cause of the diagnosis, in its order; none without an account."""
    if account is None:
        return []
    idle = idle_pct(account)
    found = []
    for cause in diagnosis.causes:
        gain = gain_of(cause.pct, idle + cause.pct if cause.cause == "slow_path" else idle)
        known = cause.predicted_gain_pct is not None
        found.append(
            Fix(cause.fix, cause.cause, cause.predicted_gain_pct, *((gain.low, gain.high) if known else (None, None)))
        )
    return found
