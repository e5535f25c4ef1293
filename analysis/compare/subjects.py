"""The launches of reports as a comparison takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ncubble.analysis.compare.sides import ComparedLaunch, compared_launch
from ncubble.analysis.diagnosis.results import Unread, judge_all
from ncubble.analysis.report.report import Report


def compared_launches(
    reports: Iterable[Report], numbers: Collection[int] | None = None
) -> tuple[list[ComparedLaunch], list[Unread]]:
    """All launches of ``reports`` (or those with these ``numbers``), judged, and what could not
    be."""
    launches: list[ComparedLaunch] = []
    errors: list[Unread] = []
    for report in reports:
        result = judge_all([report], [])
        errors += result.errors
        launches += [
            compared_launch(report.launch(verdict.launch), verdict, ablation)
            for verdict, ablation in zip(result.verdicts, result.ablations, strict=True)
            if numbers is None or verdict.launch in numbers
        ]
    return launches, errors
