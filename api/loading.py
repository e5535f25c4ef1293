"""Loading of reports by path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ncubble.analysis.diagnosis.results import Unread
from ncubble.analysis.report.report import Report, ReportFailure, open_reports
from ncubble.api.judged import JudgedReport
from ncubble.api.launch import ReportLaunch
from ncubble.api.reports import ReportSet
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.runs import without_report

ReportPath = str | os.PathLike[str]
"""Path of a ``.ncu-rep`` or ``.ncu-repz`` file, of a run directory, or of a folder of them."""
NAMED = 3
"""Maximum unreadable reports listed in an error."""


def load(*paths: ReportPath | Iterable[ReportPath], details: bool = True, strict: bool = True) -> ReportSet:
    """Load the launches of all reports at ``paths``. Each path is a ``.ncu-rep`` or ``.ncu-repz``
    file, a run directory, or a folder that is searched for both; pass several as arguments or as a
    list. Reports that were read before come from the cache. ``details=False`` reads only scalar
    counters at first; timeline, source and rules are read on first use. Raises ReportError if a
    report is damaged, UsageError if a path does not exist or contains no report. With
    ``strict=False`` readable reports are loaded anyway, and ``errors`` of the result lists the
    failures.
    """
    wanted = as_paths(paths)
    if not wanted:
        raise UsageError("no path", REMEDY)
    reports, failures = open_reports(wanted, details=details)
    launches, failures = launches_of(reports, failures)
    if failures and (strict or not launches):
        raise _refusal(failures)
    if not reports:
        raise without_report(wanted[:NAMED])
    return ReportSet(tuple(launches), tuple(Unread(str(failure.path), str(failure.error)) for failure in failures))


def launches_of(
    reports: Iterable[Report], failures: Iterable[ReportFailure]
) -> tuple[list[ReportLaunch], list[ReportFailure]]:
    """Launches of reports; a report whose launches cannot be listed joins the failures."""
    launches: list[ReportLaunch] = []
    failed = list(failures)
    for judged in map(JudgedReport, reports):
        try:
            launches += [ReportLaunch(judged, number) for number in judged.numbers]
        except ReportError as error:
            failed.append(ReportFailure(judged.report.path, error))
    return launches, failed


def _refusal(failures: list[ReportFailure]) -> Exception:
    first = failures[0].error
    if len(failures) == 1:
        return first
    named = "\n".join(f"  {failure.error.message}" for failure in failures[:NAMED])
    more = f"\n  and {len(failures) - NAMED} more" if len(failures) > NAMED else ""
    remedy = "load(..., strict=False) loads the others, and lists these in .errors"
    return ReportError(f"{len(failures)} reports could not be read:\n{named}{more}", remedy)


REMEDY = "pass the path of a report or run, e.g. 'x.ncu-rep'; the path of a launch is launch.report"


def as_paths(given: Iterable[ReportPath | Iterable[ReportPath]]) -> list[Path]:
    """The paths of a call, given as arguments or lists; ``~`` is the home directory. Raises
    UsageError for anything that is not a path."""
    found: list[Path] = []
    for item in given:
        if isinstance(item, str | os.PathLike):
            text = os.fspath(item)
            if not isinstance(text, str) or not text or "\0" in text:
                raise UsageError(f"{item!r} is not a path", REMEDY)
            found.append(Path(os.path.expanduser(text)))  # noqa: PTH111 - Path.expanduser raises if there is no home
        elif isinstance(item, Iterable) and not isinstance(item, bytes):
            found += as_paths(item)
        else:
            raise UsageError(f"{item!r} is not a path", REMEDY)
    return found


def as_path(given: ReportPath | None) -> Path | None:
    """One path of a call; None where it is not given."""
    return as_paths([given])[0] if given is not None else None
