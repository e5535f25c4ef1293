"""A report with the verdicts of its launches, each judged once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.diagnosis.results import CONTRADICTIONS, ReportResult, Unread, judge_all
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError
from ncubble.profiling.runs.notes import RunNotes


@dataclass(frozen=True, eq=False)
class JudgedReport:
    """An opened report. Judged when a verdict is first used, as by ``ncubble report``."""

    report: Report

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its launches. Raises ReportError where the report contradicts itself."""
        try:
            return tuple(launch.number for launch in self.report)
        except CONTRADICTIONS:
            message = self.errors[0].error if self.errors else f"{self.report.path}: its launches cannot be listed"
            raise ReportError(message) from None

    @cached_property
    def result(self) -> ReportResult:
        """Verdicts by estimate, ablations beside them, and what could not be judged."""
        return judge_all([self.report], [])

    @property
    def errors(self) -> list[Unread]:
        """What could not be judged, and why."""
        return self.result.errors

    @property
    def notes(self) -> RunNotes:
        """Tags and note of its run, as they are now. Raises ReportError for a damaged file."""
        return RunNotes.of(self.report.run)

    @cached_property
    def verdicts(self) -> dict[int, LaunchVerdict]:
        """The verdict of each launch that can be judged, by its number."""
        return {verdict.launch: verdict for verdict in self.result.verdicts}

    @cached_property
    def ablations(self) -> dict[int, Ablation]:
        """What was measured of each launch that was ablated, by its number."""
        pairs = zip(self.result.verdicts, self.result.ablations, strict=True)
        return {verdict.launch: ablation for verdict, ablation in pairs if ablation is not None}

    def result_of(self, number: int) -> ReportResult:
        """One launch of ``result``. Raises ReportError for one that cannot be judged."""
        if number not in self.verdicts:
            reason = self.errors[0].error if self.errors else "no reason is known"
            raise ReportError(f"{self.report.path}: launch {number} cannot be judged: {reason}")
        return ReportResult([self.verdicts[number]], ablations=[self.ablations.get(number)])
