"""Where a kernel's metric moved for good: change points over the history of the gate. Pure
functions of its rows.

A value is the mean of a check. Checks of one GPU, driver, ncu and counter are one *setup*; a change
that comes with a new setup is a ``Boundary``, named by what is new, and never called the kernel's.
The statistic is that of ``steps``. The same reports checked again are one measurement: only the
first check of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

import pandas as pd

from ncubble.analysis.history.steps import LEAST_POINTS, Steps, find_steps
from ncubble.text.values import string

MOST_CHECKS = 200
"""Maximum checks of a series that are searched; the newest are."""
LEAST_PCT = 0.2
"""Changes below this share of the level are not reported, however certain: nobody would act on
them."""
COLUMNS = (
    *("check", "checked", "id", "label", "device", "metric", "unit", "better", "gated", "counter", "mean", "sd", "n"),
    *("git_sha", "git_dirty", "checked_sha", "gpu", "driver", "ncu_version", "reports"),
)
"""Columns of the history that trends use."""
_SETUP = (("gpu", "GPU"), ("driver", "driver"), ("ncu_version", "ncu"), ("counter", "counter"))
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class CheckPoint:
    """One check as a point of a series. ``mean`` and ``sd`` in the metric's unit; ``sha`` is empty
    where unknown.

    ``setup``: GPU, driver, ncu version and counter, each empty where not collected.
    """

    check: str
    checked: datetime
    sha: str
    mean: float
    sd: float
    n: int
    setup: tuple[str, ...]


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


@dataclass(frozen=True)
class TrendSeries:
    """One metric of one kernel on one GPU model over its checks, oldest first, and what became of
    its level.

    ``odd``: indices of single checks off the level. ``again``: checks left out, their reports were
    checked before.
    """

    id: str
    label: str
    device: str
    metric: str
    unit: str
    better: str
    gated: bool
    checks: tuple[CheckPoint, ...]
    changes: tuple[LevelShift, ...]
    boundaries: tuple[Boundary, ...]
    odd: tuple[int, ...]
    again: int = 0

    @property
    def enough(self) -> bool:
        """Whether a change could be told at all."""
        return len(self.checks) >= LEAST_POINTS

    @property
    def level(self) -> float:
        """Where the metric stands since its last change or boundary: the mean of the checks that
        are not odd."""
        begins = [*(index.index for index in self.changes), *(index.index for index in self.boundaries)]
        start = max(begins, default=0)
        kept = [check.mean for place, check in enumerate(self.checks) if place >= start and place not in self.odd]
        return fmean(kept or [self.checks[-1].mean])


def all_series(rows: pd.DataFrame) -> list[TrendSeries]:
    """Every series of a history (``COLUMNS``, oldest first), those that changed last first, then by
    name."""
    valued = rows[rows["metric"].notna() & rows["mean"].notna()]
    groups = valued.groupby(["id", "device", "metric"], observed=True, dropna=False, sort=False)
    series = [series_of(group.to_dict("records")) for _, group in groups]
    return sorted(series, key=lambda item: (-_last_change(item), item.label, item.device, not item.gated, item.metric))


def _last_change(series: TrendSeries) -> float:
    return series.checks[series.changes[-1].index].checked.timestamp() if series.changes else 0.0


def series_of(rows: Sequence[Row]) -> TrendSeries:
    """The series of the rows of one metric of one kernel on one GPU model, oldest first; at least
    one has a mean."""
    valued = [row for row in rows if _finite(row["mean"])]
    single = list(_once(valued))
    checks = tuple(_check(row) for row in single[-MOST_CHECKS:])
    last = valued[-1]
    better = string(last["better"])
    steps = _steps(checks)
    return TrendSeries(
        id=string(last["id"]),
        label=string(last["label"]),
        device=string(last["device"]),
        metric=string(last["metric"]),
        unit=string(last["unit"]),
        better=better,
        gated=last["gated"] is True,
        checks=checks,
        changes=tuple(_changes(steps, better)),
        boundaries=tuple(_boundaries(checks, steps.fitted)),
        odd=steps.odd,
        again=len(valued) - len(single),
    )


def _once(rows: Iterable[Row]) -> Iterable[Row]:
    """Rows without those whose reports an earlier one has judged already."""
    seen: set[frozenset[str]] = set()
    for row in rows:
        reports = frozenset(str(report) for report in _many(row["reports"]))
        if reports and reports in seen:
            continue
        seen.add(reports)
        yield row


def _check(row: Row) -> CheckPoint:
    gpus = ", ".join(sorted(str(gpu) for gpu in _many(row["gpu"])))
    setup = (gpus, *(string(row[name]) for name, _ in _SETUP[1:]))
    sha = string(row["git_sha"]) or string(row["checked_sha"])
    sd, count = row["sd"], row["n"]
    return CheckPoint(
        string(row["check"]),
        row["checked"],
        sha,
        float(row["mean"]),
        float(sd) if _finite(sd) else math.nan,
        int(count) if _finite(count) else 1,
        setup,
    )


def _steps(checks: Sequence[CheckPoint]) -> Steps:
    setups = {setup: number for number, setup in enumerate(dict.fromkeys(check.setup for check in checks))}
    return find_steps(
        [check.mean for check in checks],
        [check.sd**2 / max(check.n, 1) for check in checks],
        [setups[check.setup] for check in checks],
    )


def _changes(steps: Steps, better: str) -> Iterable[LevelShift]:
    for step in steps.steps:
        after = steps.fitted[step.index]
        before = after - step.change
        scale = 100 / abs(before) if abs(before) > 1e-9 * abs(step.change) else None
        if scale is not None and abs(step.change) * scale < LEAST_PCT:
            continue
        low, high = (None, None) if scale is None else _interval(step.change, step.half_width, scale)
        yield LevelShift(
            index=step.index,
            before=before,
            after=after,
            change=step.change,
            change_pct=None if scale is None else step.change * scale,
            low_pct=low,
            high_pct=high,
            direction=_direction(step.change, better),
            p_value=step.p_value,
            confidence_pct=100 * (1 - step.p_value),
            first=step.first,
            last=step.last,
        )


def _interval(change: float, half: float, scale: float) -> tuple[float, float]:
    return (change - half) * scale, (change + half) * scale


def _direction(change: float, better: str) -> str:
    if better not in ("higher", "lower"):
        return "moved"
    return "better" if (change > 0) == (better == "higher") else "worse"


def _boundaries(checks: Sequence[CheckPoint], fitted: Sequence[float]) -> Iterable[Boundary]:
    """Where a setup is met for the first time; a pool of GPUs that take turns has one boundary for
    each."""
    seen: set[tuple[str, ...]] = set()
    for index, check in enumerate(checks):
        if index and check.setup not in seen:
            old = checks[index - 1].setup
            changed = [
                (words, before or "not collected", after or "not collected")
                for (_, words), before, after in zip(_SETUP, old, check.setup, strict=True)
                if before != after
            ]
            before = fitted[index - 1]
            yield Boundary(index, tuple(changed), 100 * (fitted[index] - before) / abs(before) if before else None)
        seen.add(check.setup)


def _many(value: Any) -> list[Any]:
    """The entries of a list column; none where it is null."""
    return list(value) if value is not None and not isinstance(value, float) else []


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
