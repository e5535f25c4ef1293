"""Rules by which repeats are judged: the gate's, the gate's without parts of its model, and those
of other tools.

Every rule takes two samples and a metric of the gate, and says ``regressed``, ``inconclusive`` or
something else; ``weak`` is a pass by the gate that says that it could not have seen a loss of 1.25
limits. Those of asv and pytest-benchmark are their own code, and are missing where they are not
installed:

    pip install --no-deps --target PEERS asv==0.6.6 asv_runner==0.3.2 pytest-benchmark==5.3.1 json5 tabulate

Both know only times, of which less is better: they get cycles as they are, and 100 / x for a
utilization of x.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ncubble.analysis.gate.baseline import TOLERATED
from ncubble.analysis.gate.metrics import GateMetric
from ncubble.analysis.gate.noise import NO_SHIFTS, Sample, Shifts, compare

Rule = Callable[[Sample, Sample, GateMetric], str]


def gate(limit_pct: float | None = None, shifts: Callable[[Shifts], Shifts] = lambda usual: usual) -> Rule:
    """The gate's test, at its own limit or another one, with its model or what ``shifts`` leaves of
    it."""

    def rule(one: Sample, other: Sample, metric: GateMetric) -> str:
        limit = metric.limit_pct if limit_pct is None else limit_pct
        found = compare(
            one, other, better=metric.better, limit_pct=limit, cv_pct=metric.cv_pct, shifts=shifts(metric.shifts)
        )
        weak = found.outcome == "pass" and found.detectable_pct > TOLERATED * limit
        return "weak" if weak else found.outcome

    return rule


def mean_worse(by_pct: float) -> Rule:
    """The mean is worse by more than so many percent."""

    def rule(one: Sample, other: Sample, metric: GateMetric) -> str:
        change = statistics.fmean(other.values) / statistics.fmean(one.values) * 100 - 100
        return "regressed" if (-change if metric.better == "higher" else change) > by_pct else "pass"

    return rule


ABLATIONS: dict[str, Rule] = {
    "the gate": gate(),
    "without the clock": gate(shifts=lambda usual: replace(usual, clock=(0.0, 0.0))),
    "without processes and GPUs": gate(shifts=lambda usual: replace(usual, run_pct=0.0, gpu_pct=0.0)),
    "without any of these": gate(shifts=lambda _: NO_SHIFTS),
    "mean worse by 1 %": mean_worse(1.0),
    "mean worse by 0.5 %": mean_worse(0.5),
}


def times(sample: Sample, metric: GateMetric) -> list[float]:
    """What tools that know only times get."""
    return [100 / value if metric.better == "higher" else value for value in sample.values]


def asv_rule(by_factor: float) -> Rule | None:
    """``asv compare --factor``: medians apart by the factor, and different by Mann-Whitney's test
    or by intervals."""
    try:
        from asv.commands.compare import _is_result_better
        from asv_runner.statistics import compute_stats
    except ImportError:
        return None

    def rule(one: Sample, other: Sample, metric: GateMetric) -> str:
        (before, after) = (times(side, metric) for side in (one, other))
        (was, told), (now, tells) = (compute_stats(values, 1) for values in (before, after))
        worse = _is_result_better(was, now, (told, before), (tells, after), by_factor)
        return "regressed" if worse else "pass"

    return rule


def pytest_benchmark_rule(field: str, by_pct: float) -> Rule | None:
    """``--benchmark-compare-fail=FIELD:N%``; its option takes whole percents only, its class
    any."""
    try:
        from pytest_benchmark.utils import PercentageRegressionCheck
    except ImportError:
        return None
    check: Any = PercentageRegressionCheck(field, by_pct)
    of: Callable[[list[float]], float] = statistics.fmean if field == "mean" else min

    def rule(one: Sample, other: Sample, metric: GateMetric) -> str:
        before, after = ({field: of(times(side, metric))} for side in (one, other))
        return "regressed" if check.fails(after, before) else "pass"

    return rule


def peers() -> Mapping[str, Rule | None]:
    """The gate at a limit of 1 %, and the rules of other tools by name; None for one that is not
    installed."""
    return {
        "the gate, limit 1 %": gate(1.0),
        "asv compare --factor 1.01": asv_rule(1.01),
        "asv compare --factor 1.005": asv_rule(1.005),
        "pytest-benchmark mean:1%": pytest_benchmark_rule("mean", 1.0),
        "pytest-benchmark min:1%": pytest_benchmark_rule("min", 1.0),
        "pytest-benchmark mean, 0.5 %": pytest_benchmark_rule("mean", 0.5),
        "pytest-benchmark min, 0.5 %": pytest_benchmark_rule("min", 0.5),
    }
