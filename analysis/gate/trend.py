"""Where a kernel's metric moved for good: change points over the history of checks, in words and as
JSON. Pure functions.

A value is the mean of a check. Checks of one GPU, driver, ncu and counter are one *setup*; a change
that comes with a new setup is a ``Boundary``, named by what is new, and never called the kernel's.
The statistic is that of ``steps``. The same reports checked again are one measurement: only the
first check of them counts.

JSON (``schema`` 1)::

    {"schema", "history": folder, "left_out": checks that were too old to be read,
     "series": [{"id", "label", "device", "metric", "unit", "better", "gated", "enough": whether a change could be told,
                 "checks": number, "again": checks left out because their reports had been checked, "level": the last,
                 "changes": [{"check", "checked", "sha", "last_sha_before", "before", "after", "change", "change_pct",
                              "low_pct", "high_pct", "direction", "p_value", "confidence_pct", "sha_first", "sha_last",
                              "checked_first", "checked_last"}],
                 "boundaries": [{"check", "checked", "sha", "changed": [{"what", "before", "after"}], "change_pct"}],
                 "odd": [{"check", "checked", "sha", "value"}]}],
     "problems": [{"name", "error", "remedy"}]}

Times are ISO 8601 in UTC. A commit that is not known is null. ``…_first`` and ``…_last`` bound the
place of a change with 95 %.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from statistics import fmean
from typing import Any

from ncubble.analysis.gate.history import MOST_CHECKS, History, Point
from ncubble.analysis.gate.steps import LEAST_POINTS, Steps, find_steps

LEAST_PCT = 0.2
"""Changes below this share of the level are not reported, however certain: nobody would act on
them."""
_SETUP = ("GPU", "driver", "ncu", "counter")


@dataclass(frozen=True)
class LevelShift:
    """The level moved at ``series.checks[index]``, by ``change`` in the metric's unit.

    ``change_pct`` is in percent of the level before, with its 95 % interval ``low_pct ..
    high_pct``; all three are None where that level is 0. ``direction``: ``worse``, ``better`` or
    ``moved`` (no side of the metric is better). ``confidence_pct``: 100 minus the chance, in
    percent, of a change anywhere in such a series without any. The true place lies in ``first ..
    last`` with 95 %.
    """

    index: int
    before: float
    after: float
    change: float
    change_pct: float | None
    low_pct: float | None
    high_pct: float | None
    direction: str
    p_value: float
    confidence_pct: float
    first: int
    last: int

    def size(self, unit: str) -> str:
        """``-1.83 %``, or in the metric's unit where the level before was 0."""
        return f"{self.change:+.4g} {unit}".strip() if self.change_pct is None else f"{self.change_pct:+.2f} %"

    @property
    def interval(self) -> str:
        """The 95 % interval of the size: ``-2.1 to -1.6 %``; empty where there is none."""
        if self.low_pct is None or self.high_pct is None:
            return ""
        return f"{self.low_pct:+.2f} to {self.high_pct:+.2f} %"

    @property
    def confidence(self) -> str:
        """In percent, cut, never rounded up to certainty: ``99.4 %``, ``> 99.99 %``."""
        if self.confidence_pct > 99.99:
            return "> 99.99 %"
        return f"{int(self.confidence_pct * 100) / 100:.2f} %"


@dataclass(frozen=True)
class Boundary:
    """A setup that was not there before begins at ``index``; ``changed`` names each part of it with
    old and new value.

    ``change_pct``: how far the value moved there, by whatever cause; None where the value before is
    0.
    """

    index: int
    changed: tuple[tuple[str, str, str], ...]
    change_pct: float | None

    @property
    def words(self) -> str:
        """``GPU 1a2b3c4d… → 5e6f7a8b…, driver 580.1 → 590.2``; UUIDs are shortened."""
        return ", ".join(f"{what} {_brief(before)} → {_brief(after)}" for what, before, after in self.changed)


@dataclass(frozen=True)
class TrendSeries:
    """One metric of one kernel on one GPU model over its checks, oldest first, and what became of
    its level.

    ``odd``: indices of single checks off the level. ``again``: checks left out, their reports were
    checked before.
    """

    checks: tuple[Point, ...]
    changes: tuple[LevelShift, ...]
    boundaries: tuple[Boundary, ...]
    odd: tuple[int, ...]
    again: int = 0

    @property
    def last(self) -> Point:
        """The last check: it names kernel, metric and unit."""
        return self.checks[-1]

    @property
    def enough(self) -> bool:
        """Whether a change could be told at all."""
        return len(self.checks) >= LEAST_POINTS

    @property
    def level(self) -> float:
        """Where the metric stands since its last change or boundary: the mean of the checks that
        are not odd."""
        begins = [*(shift.index for shift in self.changes), *(new.index for new in self.boundaries)]
        start = max(begins, default=0)
        kept = [mean_of(point) for place, point in enumerate(self.checks) if place >= start and place not in self.odd]
        return fmean(kept or [mean_of(self.last)])

    def commits(self, change: LevelShift) -> str:
        """The commits between which the level moved: ``0123456789 after 9876543210``."""
        now, before = (short(self.checks[place].sha) for place in (change.index, change.index - 1))
        if not now:
            return "not collected"
        return f"{now}, as before" if before == now else f"{now} after {before}" if before else now


def mean_of(point: Point) -> float:
    """What a point of a series measured."""
    return math.nan if point.metric.mean is None else point.metric.mean


def all_series(history: History, pattern: str = "") -> list[TrendSeries]:
    """Every series of the kernels whose label or full name matches ``pattern``, those that changed
    last first, then by name."""
    chosen = re.compile(pattern)
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in history.points():
        kernel, metric = point.kernel, point.metric
        if metric.mean is not None and (chosen.search(kernel.label) or chosen.search(kernel.kernel)):
            groups.setdefault((kernel.id, kernel.device, metric.name), []).append(point)
    series = map(series_of, groups.values())
    return sorted(series, key=lambda item: (-_last_change(item), *_named(item)))


def _last_change(series: TrendSeries) -> float:
    return series.checks[series.changes[-1].index].check.checked.timestamp() if series.changes else 0.0


def _named(series: TrendSeries) -> tuple[str, str, bool, str]:
    kernel, metric = series.last.kernel, series.last.metric
    return kernel.label, kernel.device, not metric.gated, metric.name


def series_of(points: Sequence[Point]) -> TrendSeries:
    """The series of the points of one metric of one kernel on one GPU model, oldest first; at least
    one has a mean."""
    valued = [point for point in points if point.metric.mean is not None]
    single = list(_once(valued))
    checks = tuple(single[-MOST_CHECKS:])
    steps = _steps(checks)
    better = valued[-1].metric.better
    return TrendSeries(
        checks,
        tuple(_changes(steps, better)),
        tuple(_boundaries(checks, steps.fitted)),
        steps.odd,
        len(valued) - len(single),
    )


def _once(points: Iterable[Point]) -> Iterator[Point]:
    """Points without those whose reports an earlier one has judged already."""
    seen: set[frozenset[str]] = set()
    for point in points:
        reports = frozenset(point.kernel.reports)
        if not reports or reports not in seen:
            seen.add(reports)
            yield point


def setup_of(point: Point) -> tuple[str, ...]:
    """GPU, driver, ncu version and counter, each empty where not collected."""
    kernel = point.kernel
    return ", ".join(sorted(kernel.gpu)), kernel.driver, kernel.ncu_version, point.metric.counter


def _steps(checks: Sequence[Point]) -> Steps:
    setups = {setup: number for number, setup in enumerate(dict.fromkeys(map(setup_of, checks)))}
    return find_steps(
        [mean_of(point) for point in checks],
        [math.nan if point.metric.sd is None else point.metric.sd**2 / max(point.metric.n or 1, 1) for point in checks],
        [setups[setup_of(point)] for point in checks],
    )


def _changes(steps: Steps, better: str) -> Iterator[LevelShift]:
    for step in steps.steps:
        after = steps.fitted[step.index]
        before = after - step.change
        scale = 100 / abs(before) if abs(before) > 1e-9 * abs(step.change) else None
        if scale is not None and abs(step.change) * scale < LEAST_PCT:
            continue
        direction = "better" if (step.change > 0) == (better == "higher") else "worse"
        yield LevelShift(
            index=step.index,
            before=before,
            after=after,
            change=step.change,
            change_pct=None if scale is None else step.change * scale,
            low_pct=None if scale is None else (step.change - step.half_width) * scale,
            high_pct=None if scale is None else (step.change + step.half_width) * scale,
            direction=direction if better in ("higher", "lower") else "moved",
            p_value=step.p_value,
            confidence_pct=100 * (1 - step.p_value),
            first=step.first,
            last=step.last,
        )


def _boundaries(checks: Sequence[Point], fitted: Sequence[float]) -> Iterator[Boundary]:
    """Where a setup is met for the first time; a pool of GPUs that take turns has one boundary for
    each."""
    seen: set[tuple[str, ...]] = set()
    for index, setup in enumerate(map(setup_of, checks)):
        if index and setup not in seen:
            parts = zip(_SETUP, setup_of(checks[index - 1]), setup, strict=True)
            changed = [(what, old or "not collected", new or "not collected") for what, old, new in parts if old != new]
            before = fitted[index - 1]
            yield Boundary(index, tuple(changed), 100 * (fitted[index] - before) / abs(before) if before else None)
        seen.add(setup)


def as_json(history: History, series: Sequence[TrendSeries]) -> dict[str, Any]:
    """The object that ``ncubble trend --json`` prints; see the module's docstring."""
    return {
        "schema": 1,
        "history": str(history.folder),
        "left_out": history.left_out,
        "series": [_series_json(item) for item in series],
        "problems": [asdict(problem) for problem in history.problems],
    }


def _series_json(series: TrendSeries) -> dict[str, Any]:
    kernel, metric = series.last.kernel, series.last.metric
    return {
        **{"id": kernel.id, "label": kernel.label, "device": kernel.device, "metric": metric.name},
        **{"unit": metric.unit, "better": metric.better, "gated": metric.gated, "enough": series.enough},
        **{"checks": len(series.checks), "again": series.again, "level": series.level},
        "changes": [_change_json(series, change) for change in series.changes],
        "boundaries": [
            {
                **_where(series, item.index),
                "changed": [{"what": what, "before": before, "after": after} for what, before, after in item.changed],
                "change_pct": item.change_pct,
            }
            for item in series.boundaries
        ],
        "odd": [{**_where(series, index), "value": mean_of(series.checks[index])} for index in series.odd],
    }


def _where(series: TrendSeries, index: int) -> dict[str, Any]:
    point = series.checks[index]
    time = point.check.checked.astimezone(UTC).isoformat(timespec="seconds")
    return {"check": point.check.check, "checked": time, "sha": point.sha or None}


def _change_json(series: TrendSeries, change: LevelShift) -> dict[str, Any]:
    members = {name: value for name, value in asdict(change).items() if name not in ("index", "first", "last")}
    first, last = _where(series, change.first), _where(series, change.last)
    return {
        **_where(series, change.index),
        **members,
        "last_sha_before": series.checks[change.index - 1].sha or None,
        **{"sha_first": first["sha"], "sha_last": last["sha"]},
        **{"checked_first": first["checked"], "checked_last": last["checked"]},
    }


def short(sha: str) -> str:
    """Every commit of a text that joins them by commas, to ten digits."""
    return ", ".join(commit[:10] for commit in sha.split(", ")[:3] if commit)


def _brief(text: str) -> str:
    brief = text.removeprefix("GPU-")
    return f"{brief[:12]}…" if len(brief) > 20 else brief
