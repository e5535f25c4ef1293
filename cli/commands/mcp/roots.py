"""Access to the folders named at start-up, and nothing outside them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.analysis.diagnosis.results import ReportResult
    from ncubble.analysis.report.report import Launch, Report


@dataclass(frozen=True)
class Roots:
    """``folders`` as given: reports, runs, or folders of them."""

    folders: tuple[Path, ...]

    def path(self, text: str) -> Path:
        """The path ``text`` if it is below a root, with links resolved. Raises UsageError."""
        named = Path(text)
        candidates = [named, *(root / named for root in self.folders)] if text else []
        try:
            inside = [path for path in candidates if path.exists() and self._below(path)]
        except (OSError, ValueError) as error:  # a name that no file can have, or a folder that may not be read
            raise UsageError(f"{text[:100]}: {error.args[-1]}", "list_launches lists what can be read") from error
        if not inside:
            there = ", ".join(str(root) for root in self.folders)
            raise UsageError(f"{text}: outside the folders of this server", f"choose a path below {there}")
        return inside[0]

    def tree(self, text: str) -> Path:
        """``path`` of a folder to read completely. Raises UsageError if a link in it leads
        outside."""
        path = self.path(text)
        if not self._holds(path):
            raise UsageError(f"{text}: a link in it leads out of the folders of this server", "name another folder")
        return path

    def paths(self, texts: list[str]) -> list[Path]:
        """Paths of ``texts``; the roots if there are none."""
        return [self.path(text) for text in texts] or list(self.folders)

    def open(self, paths: list[Path]) -> tuple[list[Report], ReportResult]:
        """Reports and verdicts below ``paths``; links that lead outside are errors of the
        result."""
        from ncubble.analysis.diagnosis.results import Unread, judge_all
        from ncubble.analysis.report.report import open_reports
        from ncubble.profiling.runs import find_runs

        found = list(find_runs(paths))
        inside = [path for path in found if self._holds(path)]
        result = judge_all(*(opened := open_reports(inside)))
        result.errors += [
            Unread(str(path), "a link that leads out of the folders of this server")
            for path in found
            if path not in inside
        ]
        return list(opened[0]), result

    def parts(self, name: str) -> tuple[str, str]:
        """Path and number of ``REPORT#NUMBER``; the number may be empty. Paths may contain ``#``,
        too."""
        report_name, mark, number = name.rpartition("#")
        if mark and number.isdigit() and (self._is_there(report_name) or not self._is_there(name)):
            return report_name, number
        return (name, "") if self._is_there(name) or not mark else (report_name, number)

    def _is_there(self, text: str) -> bool:
        try:
            return self.path(text).exists()
        except (UsageError, OSError):
            return False

    def launch(self, name: str) -> tuple[Launch, ReportResult, int]:
        """The launch ``REPORT#NUMBER`` (without a number: the only one), the verdicts of its
        report, and its place among them. Raises UsageError if it does not exist."""
        report_name, number = self.parts(name)
        reports, result = self.open([self.path(report_name)])
        count = len(result.verdicts)
        if not count:
            why = result.errors[0].error if result.errors else "no launch"
            raise UsageError(f"{report_name}: {why}", "list_launches lists the launches that can be read")
        known = [verdict.address for verdict in result.verdicts]
        wanted = [place for place, verdict in enumerate(result.verdicts) if str(verdict.launch) == number]
        place = 0 if not number and count == 1 else wanted[0] if len(wanted) == 1 else None
        if place is None:
            raise UsageError(f"{name}: {count} launches match", f"use one of {', '.join(known[:8])}")
        verdict = result.verdicts[place]
        report = next(report for report in reports if str(report.path) == verdict.report)
        return report.launch(verdict.launch), result, place

    def _holds(self, path: Path) -> bool:
        """Whether ``path`` and all its content, at any depth, are below a root."""
        return self._below(path) and all(self._below(inner) for inner in path.rglob("*"))

    def _below(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        roots = [Path(os.path.realpath(root)) for root in self.folders]
        return any(real == root or root in real.parents for root in roots)
