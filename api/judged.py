"""A report with the verdicts of its launches, each judged once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.diagnosis.results import CONTRADICTIONS, ReportResult, Unread, judge_all
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError
from ncubble.profiling.runs import RunNotes


@dataclass(frozen=True, eq=False)
class JudgedReport:
    """An opened report, judged as by ``ncubble report`` when a verdict is first used."""

    report: Report

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by path and content: another process reads the report from the cache."""
        return _opened, (self.report.path, self.report.frame.sha256)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of its launches. Raises ReportError if the report contradicts itself."""
        try:
            return tuple(launch.number for launch in self.report)
        except CONTRADICTIONS:
            message = self.errors[0].error if self.errors else f"{self.report.path}: its launches cannot be listed"
            raise ReportError(message) from None

    @cached_property
    def result(self) -> ReportResult:
        """Estimated verdicts, ablations, and launches that could not be judged."""
        return judge_all([self.report], [])

    @property
    def errors(self) -> list[Unread]:
        """Launches that could not be judged, with the reason."""
        return self.result.errors

    @property
    def notes(self) -> RunNotes:
        """Current tags and note of its run. Raises ReportError for a damaged file."""
        return RunNotes.of(self.report.run)

    @cached_property
    def verdicts(self) -> dict[int, LaunchVerdict]:
        """Verdict of each judgeable launch, by number."""
        return {verdict.launch: verdict for verdict in self.result.verdicts}

    @cached_property
    def ablations(self) -> dict[int, Ablation]:
        """Ablation of each ablated launch, by number."""
        pairs = zip(self.result.verdicts, self.result.ablations, strict=True)
        return {verdict.launch: ablation for verdict, ablation in pairs if ablation is not None}

    def result_of(self, number: int) -> ReportResult:
        """Verdict of one launch of ``result``. Raises ReportError if it cannot be judged."""
        if number not in self.verdicts:
            reason = self.errors[0].error if self.errors else "unknown reason"
            raise ReportError(f"{self.report.path}: launch {number} cannot be judged: {reason}")
        return ReportResult([self.verdicts[number]], ablations=[self.ablations.get(number)])


def _opened(path: Path, sha256: str) -> JudgedReport:
    """The report at ``path``. Raises ReportError if its content is not that which was pickled."""
    report = Report.open(path)
    if report.frame.sha256 != sha256:
        raise ReportError(f"{path}: the report has changed since it was pickled", "load it again")
    return JudgedReport(report)
