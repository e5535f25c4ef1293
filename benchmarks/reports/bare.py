"""What one writes with ``ncu_report`` and pandas alone, to compare ``benchmarks.reports.speed`` with.

    python benchmarks/reports/bare.py tables|scalars REPORT…

``tables`` are the scalars, code, samples and timelines of all launches as frames, ``scalars`` a loop over the values of
all metrics. It reads in its own process, one report after the other, checks and judges nothing, and keeps nothing.
Nothing of ncubble is used. Prints the number of rows of each table.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import ncu_report

Row = tuple[Any, ...]
SERIES = re.compile(r"pmsampling:|\w+\.Triage\w+\.")
STALLED = re.compile(r"smsp__pcsamp_warps_issue_stalled_\w+(?<!_not_issued)$")
COUNTS = ("smsp__pcsamp_sample_count", "inst_executed")
COLUMNS = {
    "metrics": ["launch", "metric", "value", "unit"],
    "code": ["launch", "pc", "sass", "file", "line"],
    "samples": ["launch", "pc", "metric", "value"],
    "timeline": ["launch", "t_ns", "metric", "value", "unit"],
}


def actions(path: str) -> list[Any]:
    """All launches of a report."""
    context = ncu_report.load_report(path)
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    return [part.action_by_idx(number) for part in ranges for number in range(part.num_actions())]


def scalars(launch: int, metrics: dict[str, Any]) -> Iterator[Row]:
    """Every number that is a launch's own."""
    for name, metric in metrics.items():
        value = metric.value() if metric.has_value() else None
        if value is not None and not isinstance(value, str):
            yield launch, name, value, metric.unit()


def samples(launch: int, metrics: dict[str, Any]) -> Iterator[Row]:
    """Samples by stall reason, and executions, of each instruction that has any."""
    for name, metric in metrics.items():
        if (STALLED.match(name) or name in COUNTS) and metric.has_correlation_ids():
            pcs = metric.correlation_ids()
            for index in range(metric.num_instances()):
                if pc := pcs.as_uint64(index):
                    yield launch, pc, name, metric.as_double(index)


def code(launch: int, action: Any, pcs: set[int]) -> Iterator[Row]:
    """The instructions at ``pcs``."""
    for pc in sorted(pcs):
        info = action.source_info(pc)
        yield launch, pc, action.sass_by_pc(pc), info.file_name() if info else "", info.line() if info else 0


def timeline(launch: int, action: Any, metrics: dict[str, Any]) -> Iterator[Row]:
    """The series of PM sampling, on the time axis of the launch."""
    timelines = action.timelines()
    for name, metric in metrics.items():
        if timelines is not None and SERIES.match(name) and metric.has_correlation_ids():
            aligned = timelines.aligned_metric(metric)
            if aligned is not None and aligned.num_instances():
                times, unit = aligned.correlation_ids(), aligned.unit()
                for index in range(aligned.num_instances()):
                    yield launch, times.as_uint64(index), name, aligned.as_double(index), unit


def tables(path: str) -> dict[str, int]:
    """All launches of a report, a frame of each table: their rows."""
    import pandas as pd

    rows: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    for launch, action in enumerate(actions(path)):
        found = {name: action.metric_by_name(name) for name in action.metric_names()}
        metrics = {name: metric for name, metric in found.items() if metric is not None}
        sampled = list(samples(launch, metrics))
        rows["metrics"] += scalars(launch, metrics)
        rows["samples"] += sampled
        rows["code"] += code(launch, action, {pc for _, pc, _, _ in sampled})
        rows["timeline"] += timeline(launch, action, metrics)
    return {name: len(pd.DataFrame(rows[name], columns=columns)) for name, columns in COLUMNS.items()}


def values(path: str) -> dict[str, int]:
    """The value of every metric."""
    read = [action.metric_by_name(name).value() for action in actions(path) for name in action.metric_names()]
    return {"metrics": len(read)}


if __name__ == "__main__":
    count: Counter[str] = Counter()
    for report in sys.argv[2:]:
        count.update({"tables": tables, "scalars": values}[sys.argv[1]](report))
    print(json.dumps(count))
