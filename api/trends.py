"""Lasting changes in the history of checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.api.reports import ReportPath, as_paths
from ncubble.errors import MeasurementError, UsageError
from ncubble.text.values import expression

if TYPE_CHECKING:
    from ncubble.analysis.gate.history import History
    from ncubble.analysis.gate.trend import TrendSeries

HISTORY = Path("checks")
_MOST_NAMED = 20
_REMEDY = "`ncubble check RUN…` adds its result to ./checks, or to --history DIR: name that folder"


@dataclass(frozen=True)
class TrendResult:
    """The history that was searched, and its series: one for each metric of each kernel on each GPU
    model, those that changed last first."""

    history: History
    series: list[TrendSeries]


def trend(folder: ReportPath | None = None, *, kernel: str = "", everything: bool = False) -> TrendResult:
    """Find lasting changes in the history in ``folder`` (default: that of the project, or
    ``./checks``).

    ``kernel``: only kernels whose label or name matches this regular expression; ``everything``:
    metrics that are not gated, too. Raises UsageError if there is no history, and MeasurementError
    that lists the kernels if none matches.
    """
    from ncubble.analysis.gate.history import read
    from ncubble.analysis.gate.settings import load
    from ncubble.analysis.gate.trend import all_series
    from ncubble.profiling.runs import holding

    pattern = expression(kernel, f"--kernel {kernel!r}").pattern
    place = as_paths([folder])[0] if folder is not None else load(Path.cwd()).history or HISTORY
    if not place.exists():
        raise UsageError(f"{place}: no such folder", _REMEDY)
    history = read(place)
    if not history.checks:
        if not history.problems:
            raise UsageError(f"{place}: no check is recorded there", holding(place) or _REMEDY)
        return TrendResult(history, [])
    matching = all_series(history, pattern)
    if not matching:
        raise _none_matches(history, pattern)
    series = [item for item in matching if everything or item.last.metric.gated]
    if not series:
        raise MeasurementError(f"{len(matching)} series match, but none has a gated metric", "add --all to see them")
    return TrendResult(history, series)


def _none_matches(history: History, pattern: str) -> MeasurementError:
    from ncubble.text.markup import printable

    labels = sorted({printable(point.kernel.label) for point in history.points() if point.metric.mean is not None})
    if not labels:
        message = f"{history.folder}: no check holds a measured value"
        return MeasurementError(message, "check runs that contain launches")
    listed = "".join(f"\n  {label}" for label in labels[:_MOST_NAMED])
    more = f"\n  and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return MeasurementError(
        f"no kernel matches --kernel {pattern!r}; available:{listed}{more}", "name one of these, or a part of its name"
    )
