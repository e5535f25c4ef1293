"""What opens and judges reports, unless a store is told otherwise, and where it looks by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncubble.analysis.diagnosis.verdict import LaunchVerdict

Opener = Callable[[Sequence[Path]], tuple[Sequence[Any], Sequence[Any]]]
Judge = Callable[[Any, int], "LaunchVerdict"]


@dataclass(frozen=True)
class Unopened:
    """A path whose batch could not be opened at all."""

    path: Path
    error: Exception


def default_paths(given: Iterable[Path], here: Path) -> list[Path]:
    """The paths to show: those given, else ``here/runs`` where it exists, else the recordings that
    are shipped."""
    from ncubble.recordings import FULL, H100, LANES, LEVELS, RANKS, ROOT

    chosen = list(given)
    if chosen:
        return chosen
    runs = here / "runs"
    return [runs] if runs.is_dir() else [ROOT, H100, FULL, LANES, LEVELS, RANKS]


def open_reports(paths: Sequence[Path]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Reports, and those that could not be opened with their errors."""
    from ncubble.analysis.report import report

    return report.open_reports(paths)


def verdict_of(report: Any, launch: int) -> LaunchVerdict:
    """The verdict of a launch, remembered or made; raises NcubbleError where there is none."""
    from ncubble.analysis.diagnosis.diagnose import launch_verdict
    from ncubble.analysis.diagnosis.results import judge, remembered_verdict

    known = remembered_verdict(report, launch)
    known = known or next((verdict for verdict in judge(report)[0] if verdict.launch == launch), None)
    return known or launch_verdict(report.launch(launch))  # which says again why there is none


def lean(report: Any) -> Any:
    """The report as pages ask for it: one launch at a time."""
    report.read_one_at_a_time()
    return report
