"""Launches whose values contradict each other: the gate neither judges nor records them unasked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ncubble.analysis.account.plausibility import contradictions
from ncubble.analysis.diagnosis.results import CONTRADICTIONS
from ncubble.analysis.report.launch import Launch

MOST_LISTED = 8
"""Maximum launches listed individually."""
REMEDY = "copy the files or profile again"


@dataclass(frozen=True)
class SuspiciousLaunch:
    """A launch that ``ncubble report`` labels suspicious: run or file, number, and why."""

    path: str
    launch: int
    contradictions: tuple[str, ...]

    @property
    def text(self) -> str:
        """``runs/gemm launch 0: 128 CTAs, but the grid of 3x2x1 has 6``."""
        return f"{self.path} launch {self.launch}: {'; '.join(self.contradictions)}"


def suspicious_launches(launches: Iterable[Launch]) -> tuple[SuspiciousLaunch, ...]:
    """Those of ``launches`` whose values contradict each other."""
    examined = (
        SuspiciousLaunch(str(launch.report.run.path), launch.number, _contradictions(launch)) for launch in launches
    )
    return tuple(launch for launch in examined if launch.contradictions)


def _contradictions(launch: Launch) -> tuple[str, ...]:
    """Also what keeps a launch from being examined: it is not known to be sound."""
    try:
        exact, measured = contradictions(launch)
    except CONTRADICTIONS as error:
        return (f"its values cannot be examined ({error})",)
    return *exact, *measured


def listed(launches: Sequence[SuspiciousLaunch]) -> list[str]:
    """A text for each launch; of many the last text counts the rest."""
    texts = [launch.text for launch in launches[:MOST_LISTED]]
    rest = len(launches) - len(texts)
    return [*texts, *([f"{rest} more launches are suspicious"] if rest else [])]
