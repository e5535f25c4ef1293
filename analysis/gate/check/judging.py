"""Reports held against baselines: what ``ncubble check`` and ``ncubble.check`` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncubble.analysis.gate.baseline import repeats
from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.check.check import check
from ncubble.analysis.gate.check.result import CheckOptions, GateResult
from ncubble.analysis.report.report import Report, ReportFailure

NAMED = 8
"""Maximum kernels named in a note."""


@dataclass(frozen=True)
class CheckNotes:
    """What is known beside the reports: ``errors`` as (file, message), ``notes``, and whether other
    kernels are ``judged`` already."""

    errors: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    judged: bool = False


def judge_reports(
    reports: Sequence[Report],
    failures: Sequence[ReportFailure],
    baselines: Sequence[Baseline],
    options: CheckOptions,
    known: CheckNotes | None = None,
    *,
    nvtx: bool = True,
) -> GateResult:
    """The verdict on all launches of ``reports`` whose kernel matches ``options.kernel``.

    ``failures`` are reports that could not be read; without ``nvtx``, launches in different NVTX
    ranges are repeats of each other.
    """
    known = known or CheckNotes()
    unread = [(str(failure.path), failure.error.message) for failure in failures]
    groups, notes = repeats.collect(reports, nvtx=nvtx, kernel=options.kernel)
    empty = [] if groups or known.judged else [_nothing(reports, options.kernel)]
    return check(groups, baselines, options, [*unread, *known.errors], [*known.notes, *notes, *empty])


def _nothing(reports: Sequence[Report], kernel: str) -> str:
    """Why there is nothing to judge: no launch, or none that the filter takes, with the kernels
    that there are."""
    if not kernel:
        return "no launch was found" if reports else "no report was found"
    names = list(dict.fromkeys(group.key.label for group in repeats.collect(reports)[0]))
    there = f"available: {'; '.join(names[:NAMED])}{' …' if len(names) > NAMED else ''}" if names else "there is none"
    return f"no kernel matches --kernel '{kernel}'; {there}"
