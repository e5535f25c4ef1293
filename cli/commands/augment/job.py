"""Runs ``ncubble augment``: reads reports and their verdicts, and writes the trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.diagnosis.results import judge_all
from ncubble.analysis.kineto.augment import Augmented, augment
from ncubble.analysis.kineto.matching import AccountedLaunch, Matcher
from ncubble.analysis.kineto.words import account_words
from ncubble.analysis.report.report import open_reports
from ncubble.cli.terminal import reading
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs import require_paths


def augmented(trace: Path, runs: Sequence[Path], out: Path, force: bool, dashboard: str) -> tuple[Augmented, list[str]]:
    """The result, and the unreadable reports. Raises UsageError and ReportError."""
    _check(trace, runs, out, force)
    with reading() as progress:
        reports, failures = open_reports(runs, progress)
    result = judge_all(reports, failures)
    unread = [f"{error.report}: {error.error}" for error in result.errors]
    if not result.verdicts:
        why = unread[0] if unread else f"{runs[0]}: no report found"
        raise ReportError(why, "name runs that `ncubble profile` wrote, or .ncu-rep files")
    by_path = {str(report.path): report for report in reports}
    launches = [by_path[verdict.report].launch(verdict.launch) for verdict in result.verdicts]
    profiled = [AccountedLaunch.of(*pair) for pair in zip(launches, result.verdicts, strict=True)]
    ablations = {id(one): ablation for one, ablation in zip(profiled, result.ablations, strict=True)}

    def words(one: AccountedLaunch) -> dict[str, object]:
        ablation: Ablation | None = ablations[id(one)]
        return account_words(one, ablation, dashboard)

    try:
        return augment(trace, out, Matcher(profiled), words), unread
    except OSError as error:
        where = error.filename or out
        raise MeasurementError(f"{where}: {error.strerror or error}", "free space there, or choose --out") from error


def _check(trace: Path, runs: Sequence[Path], out: Path, force: bool) -> None:
    """Raises UsageError for an invalid request, before anything is read."""
    require_paths((trace, *runs))
    if not trace.is_file():
        raise UsageError(f"{trace}: not a file", "name a trace that export_chrome_trace wrote")
    if out.is_dir():
        raise UsageError(f"{out} is a directory", "name a file in it")
    if out.exists() and out.samefile(trace):
        raise UsageError(f"{out}: is the trace itself", "choose another --out: the trace is never overwritten")
    if out.exists() and not force:
        raise UsageError(f"{out} exists", "choose another --out, or replace it with --force")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such directory", "create it first")
