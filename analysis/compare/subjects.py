"""The launches of reports as a comparison takes them."""

from __future__ import annotations

from collections.abc import Iterable

from ncubble.analysis.compare.sides import ComparedLaunch, compared_launch
from ncubble.analysis.diagnosis.results import Unread, judge_all
from ncubble.analysis.report.report import Report


def compared_launches(reports: Iterable[Report]) -> tuple[list[ComparedLaunch], list[Unread]]:
    """All launches of ``reports``, judged, and what could not be."""
    launches: list[ComparedLaunch] = []
    errors: list[Unread] = []
    for report in reports:
        result = judge_all([report], [])
        errors += result.errors
        judged = zip(result.verdicts, result.ablations, strict=True)
        launches += [compared_launch(report.launch(one.launch), one, ablation) for one, ablation in judged]
    return launches, errors
