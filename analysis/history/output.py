"""The trend of a history as JSON, and changes in words. Pure functions.

JSON (``schema`` 1)::

    {"schema", "history": folder, "left_out": rows that were too old to be read,
     "series": [{"id", "label", "device", "metric", "unit", "better", "gated", "enough": whether a change could be told,
                 "checks": number, "again": checks left out because their reports had been checked, "level": the last,
                 "changes": [{"check", "checked", "sha", "last_sha_before", "before", "after", "change", "change_pct",
                              "low_pct", "high_pct", "direction", "p_value", "confidence_pct", "sha_first", "sha_last",
                              "checked_first", "checked_last"}],
                 "boundaries": [{"check", "checked", "sha", "changed": [{"what", "before", "after"}], "change_pct"}],
                 "odd": [{"check", "checked", "sha", "value"}]}],
     "problems": [{"name", "error", "remedy"}]}

Times are ISO 8601 in UTC. A commit that is not known is null. ``…_first`` and ``…_last`` bound the
place of a change with 95 %. What the numbers mean is told in ``trend`` and ``steps``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ncubble.analysis.history.file import History
from ncubble.analysis.history.trend import Boundary, LevelShift, TrendSeries


def as_json(history: History, series: Sequence[TrendSeries]) -> dict[str, Any]:
    """The object that ``ncubble trend --json`` prints; see the module's docstring."""
    return {
        "schema": 1,
        "history": str(history.folder),
        "left_out": history.left_out,
        "series": [_series(item) for item in series],
        "problems": [asdict(problem) for problem in history.problems],
    }


def _series(series: TrendSeries) -> dict[str, Any]:
    named = ("id", "label", "device", "metric", "unit", "better", "gated", "enough", "again")
    return {
        **{name: getattr(series, name) for name in named},
        "checks": len(series.checks),
        "level": series.level,
        "changes": [_change(series, change) for change in series.changes],
        "boundaries": [_boundary(series, boundary) for boundary in series.boundaries],
        "odd": [{**_where(series, index), "value": series.checks[index].mean} for index in series.odd],
    }


def _where(series: TrendSeries, index: int) -> dict[str, Any]:
    check = series.checks[index]
    return {"check": check.check, "checked": check.checked.isoformat(timespec="seconds"), "sha": check.sha or None}


def _change(series: TrendSeries, change: LevelShift) -> dict[str, Any]:
    numbers = ("before", "after", "change", "change_pct", "low_pct", "high_pct", "direction", "p_value")
    first, last = _where(series, change.first), _where(series, change.last)
    return {
        **_where(series, change.index),
        "last_sha_before": series.checks[change.index - 1].sha or None,
        **{name: getattr(change, name) for name in (*numbers, "confidence_pct")},
        **{"sha_first": first["sha"], "sha_last": last["sha"]},
        **{"checked_first": first["checked"], "checked_last": last["checked"]},
    }


def _boundary(series: TrendSeries, boundary: Boundary) -> dict[str, Any]:
    changed = [{"what": what, "before": before, "after": after} for what, before, after in boundary.changed]
    return {**_where(series, boundary.index), "changed": changed, "change_pct": boundary.change_pct}


def size(change: LevelShift, unit: str) -> str:
    """The size of a change: ``-1.83 %``, or in the metric's unit where the level before was 0."""
    return f"{change.change:+.4g} {unit}".strip() if change.change_pct is None else f"{change.change_pct:+.2f} %"


def interval(change: LevelShift) -> str:
    """The 95 % interval of a size: ``-2.1 to -1.6 %``; empty where there is none."""
    if change.low_pct is None or change.high_pct is None:
        return ""
    return f"{change.low_pct:+.2f} to {change.high_pct:+.2f} %"


def confidence(change: LevelShift) -> str:
    """The confidence of a change in percent, cut, never rounded up to certainty: ``99.4 %``, ``>
    99.99 %``."""
    if change.confidence_pct > 99.99:
        return "> 99.99 %"
    return f"{int(change.confidence_pct * 100) / 100:.2f} %"


def commits(series: TrendSeries, change: LevelShift) -> str:
    """The commits between which the level moved: ``0123456789 after 9876543210``."""
    now, before = (short(series.checks[place].sha) for place in (change.index, change.index - 1))
    if not now:
        return "not collected"
    return f"{now} after {before}" if before and before != now else now if before != now else f"{now}, as before"


def short(sha: str) -> str:
    """Every commit of a text that joins them by commas, to ten digits."""
    return ", ".join(commit[:10] for commit in sha.split(", ")[:3] if commit)


def changed(boundary: Boundary) -> str:
    """What is new at a boundary: ``GPU 1a2b3c4d… → 5e6f7a8b…, driver 580.1 → 590.2``; UUIDs are
    shortened."""
    return ", ".join(f"{what} {_brief(before)} → {_brief(after)}" for what, before, after in boundary.changed)


def _brief(text: str) -> str:
    short = text.removeprefix("GPU-")
    return f"{short[:12]}…" if len(short) > 20 else short
