"""What the fix of each cause would give back, in percent of kernel time.

Until gains are predicted from measured pairs, the estimate is the share of the cause's part, which is also the most
that removing it can give. The lower bound is 0, as parts overlap and the time may go to another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncubble.analysis.account import BubbleAccount
from ncubble.analysis.diagnose import Diagnosis
from ncubble.analysis.report import Report


@dataclass(frozen=True)
class Fix:
    """What to do about one cause, and what it gains in percent of kernel time: expected, least, most."""

    fix: str
    cause: str
    predicted_gain_pct: float
    low: float
    high: float


def fixes(report: Report, launch: int, account: BubbleAccount | None, diagnosis: Diagnosis) -> list[Fix]:
    """One fix per cause of the diagnosis, largest first; none without an account."""
    if account is None:
        return []
    return [Fix(cause.fix, cause.cause, cause.pct, 0.0, cause.pct) for cause in diagnosis.causes]
