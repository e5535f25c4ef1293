"""Recording of baselines from runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.baseline import Baseline, record
from ncubble.analysis.gate.repeats import collect, listed
from ncubble.analysis.gate.settings import STORE, GateSettings
from ncubble.analysis.report import report
from ncubble.analysis.report.report import ReportFailure
from ncubble.errors import MeasurementError
from ncubble.profiling.runs import without_report
from ncubble.text.values import expression


@dataclass(frozen=True)
class RecordedBaselines:
    """Baselines that were written, the path of each, and notes on their launches."""

    paths: list[Path]
    baselines: list[Baseline]
    notes: list[str]


def record_baselines(
    paths: Sequence[Path],
    store: Path | None,
    *,
    settings: GateSettings,
    kernel: str = "",
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RecordedBaselines:
    """Write a baseline of every kernel in the runs at ``paths`` to ``store``, a folder or one
    ``.json`` file.

    ``force`` replaces those that are there. Raises UsageError for a wrong request, MeasurementError
    where a report is unreadable, launches are too few or, unless the settings accept that,
    suspicious. Nothing is written then.
    """
    expression(kernel, f"--kernel {kernel!r}")
    reports, failures = report.open_reports(paths, progress)
    if failures:
        raise _unreadable(failures)
    if not reports:
        raise without_report(paths)
    groups, found = collect(reports, by_nvtx=settings.by_nvtx, kernel=kernel)
    accepted = listed([launch for group in groups for launch in group.suspicious]) if settings.allow_suspicious else []
    now = datetime.now(UTC).isoformat(timespec="seconds")
    new = record(groups, now, settings.min_repeats, allow_suspicious=settings.allow_suspicious)
    root = store or settings.baselines or STORE
    places = baseline_file.places(root, new)
    with baseline_file.locked(root):
        baseline_file.save(zip(places, new, strict=True), force=force)
    notes = [f"note: {note}" for note in found]
    return RecordedBaselines(places, new, [*notes, *(f"warning: accepted although suspicious: {x}" for x in accepted)])


def _unreadable(failures: Sequence[ReportFailure]) -> MeasurementError:
    texts = [failure.error.message for failure in failures]
    named = [
        text if text.startswith(str(failure.path)) else f"{failure.path}: {text}"
        for failure, text in zip(failures, texts, strict=True)
    ]
    several = f"{len(failures)} reports are" if len(failures) > 1 else "1 report is"
    first = failures[0].error.remedy
    remedy = f"{first[:1].lower()}{first[1:]}, or leave it out" if len(failures) == 1 else "fix or leave them out"
    return MeasurementError("\n  ".join([f"nothing recorded, {several} unreadable:", *named]), remedy)
