"""What ``reports/speed.py`` measures, each measurement in a process of its own.

    echo '{"path": …}' | python -m benchmarks.reports.contestants NAME

prints one JSON object. ``ncu_report`` never gives memory back, not even that of a closed report,
and page faults make what is read later slower; so contestants must not share a process. The clock
starts behind the imports, and for those that use ``ncu_report`` in this process after it has read
another report.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Request = dict[str, Any]
Table = dict[str, list[Any]]
Answer = dict[str, Any]


def actions(path: str) -> Iterator[Any]:
    import ncu_report

    context = ncu_report.load_report(path)
    for index in range(context.num_ranges()):
        part = context.range_by_idx(index)
        for number in range(part.num_actions()):
            yield part.action_by_idx(number)


def bare(request: Request) -> Table:
    """The floor: every scalar number with its unit into lists, as one would write it with
    ``ncu_report`` alone."""
    table: Table = {"launch": [], "metric": [], "value": [], "unit": []}
    for launch, action in enumerate(actions(request["path"])):
        for name in action.metric_names():
            metric = action.metric_by_name(name)
            value = metric.value() if metric.has_value() else None
            if value is None or isinstance(value, str):
                continue
            table["launch"].append(launch)
            table["metric"].append(name)
            table["value"].append(value)
            table["unit"].append(metric.unit())
    return table


def taken(request: Request) -> Table:
    """Only taking the actions: what no reader can avoid."""
    return {"value": [0.0 for _ in actions(request["path"])]}


def ncubble(request: Request) -> Any:
    """What ncubble does for scalars in worker and cache, into pandas frames instead of Parquet."""
    from ncubble.analysis.report.columns import read_draft, write_draft
    from ncubble.analysis.report.raw import extract

    launches = request["launches"]
    tables = extract(request["path"], ("scalars",), announced=launches, first=0, last=launches, series="")
    with tempfile.TemporaryDirectory() as folder:
        frames = {}
        for name, columns in tables.items():
            write_draft(columns, draft := Path(folder, name))
            frames[name] = read_draft(draft).to_pandas()
    return frames["metrics"]


def ncubble_cold(request: Request) -> Any:
    """As users get it: frame check, worker process, Parquet files in an empty cache, frame."""
    from ncubble.analysis.report.report import Report

    return Report.open(Path(request["path"])).metrics


def _streamlit_frame(kernels: list[dict[str, Any]]) -> Any:
    import pandas as pd

    rows = [
        {"launch": launch, "metric": name, "value": metric["value"], "unit": metric["unit"]}
        for launch, kernel in enumerate(kernels)
        for name, metric in kernel["metrics"].items()
    ]
    return pd.DataFrame(rows)


def streamlit(request: Request) -> Any:
    """The loader of streamlit-ncu-rep-viewer, which holds lists of dicts, and the long frame of
    them."""
    from streamlit_ncu_rep_viewer.extract import extract

    return _streamlit_frame(extract(request["path"]))


def streamlit_cold(request: Request) -> Any:
    """As its application loads a report: ``extract`` in a new process that prints JSON."""
    command = [sys.executable, "-m", "streamlit_ncu_rep_viewer.extract", request["path"]]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return _streamlit_frame(json.loads(printed))


def nsight(request: Request) -> Any:
    """The loader of nsight-python, which needs the names of metrics that all launches have."""
    from nsight import VerbosityLevel, extraction

    names = request["metrics"]
    data = {"all": [extraction.extract_ncu_action_data(action, names) for action in actions(request["path"])]}
    configurations = [(launch,) for launch in range(len(data["all"]))]
    frame = extraction.extract_df_from_data(
        data, names, configurations, 1, lambda launch: None, None, VerbosityLevel.SILENT
    )
    return {"value": frame["Value"]}


LOADERS: dict[str, tuple[Callable[[Request], Any], tuple[str, ...], bool]] = {
    "bare": (bare, ("ncu_report",), True),
    "taken": (taken, ("ncu_report",), True),
    "ncubble": (ncubble, ("ncubble.analysis.report.raw", "pandas", "pyarrow.pandas_compat", "ncu_report"), True),
    "streamlit": (streamlit, ("streamlit_ncu_rep_viewer.extract", "pandas"), True),
    "nsight": (nsight, ("nsight.extraction",), True),
    "ncubble_cold": (ncubble_cold, ("ncubble.analysis.report.report", "pyarrow.parquet"), False),
    "streamlit_cold": (streamlit_cold, ("pandas",), False),
}
"""Function, modules that are imported before the clock starts, whether ``ncu_report`` is warmed
up."""


def load(name: str, request: Request) -> Answer:
    """Seconds of one loader, how many values it gave and their sum, so that all can be held against
    each other.

    ``cpu_seconds`` are those of this process alone: without its workers, but also without the load
    of the machine.
    """
    function, modules, uses_binding = LOADERS[name]
    for module in modules:
        importlib.import_module(module)
    if uses_binding:
        bare({"path": request["warm_up"]})
    begun, cpu = time.perf_counter(), time.process_time()
    table = function(request)
    answer: Answer = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - cpu}
    answer |= _summary(table["value"])
    if request.get("names"):
        answer["names"] = _common(table)
    return answer


def _summary(values: Iterable[Any]) -> Answer:
    numbers = [float(value) for value in values if isinstance(value, int | float) or hasattr(value, "dtype")]
    return {"values": len(numbers), "sum": math.fsum(value for value in numbers if math.isfinite(value))}


def _common(table: Table) -> list[str]:
    """Names of the metrics that every launch has."""
    count = len(set(table["launch"]))
    held: dict[str, set[int]] = {}
    for launch, name in zip(table["launch"], table["metric"], strict=True):
        held.setdefault(name, set()).add(launch)
    return [name for name, launches in held.items() if len(launches) == count]


def reopen(request: Request) -> Answer:
    """Milliseconds of the steps of a cached report, in a process that has opened another one
    before."""
    from ncubble.analysis.report.report import Report

    for path in (request["warm_up"], request["path"]):
        steps, begun = {}, time.perf_counter()
        report = Report.open(Path(path))
        steps["open"] = (time.perf_counter() - begun) * 1e3
        for name in request["frames"]:
            begun = time.perf_counter()
            getattr(report, name)
            steps[name] = (time.perf_counter() - begun) * 1e3
    return steps


def rows(request: Request) -> Answer:
    """How many rows each table of a report has."""
    from ncubble.analysis.report.report import Report

    report = Report.open(Path(request["path"]))
    return {name: len(report._table(name)) for name in request["tables"]}


def many(request: Request) -> Answer:
    """Seconds for all reports below ``path``, on ``cores`` cores, and how many launches there
    were."""
    from ncubble.analysis.report.report import open_reports

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: request["cores"]])
    begun = time.perf_counter()
    reports, failures = open_reports([Path(request["path"])])
    seconds = time.perf_counter() - begun
    assert reports and not failures, failures
    return {"seconds": seconds, "launches": sum(len(report.launches) for report in reports)}


def memory(request: Request) -> Answer:
    """Peak resident MB of this process and of its largest worker, for one frame of one report."""
    from ncubble.analysis.report.report import Report

    rows = len(getattr(Report.open(Path(request["path"])), request["frame"]))
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"rows": rows, "own_mb": _peak_mb(), "worker_mb": worker}


def _peak_mb() -> float:
    """Of this program. ``ru_maxrss`` would count the process that started it, whose memory a child
    has until exec."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def main() -> int:
    name, request = sys.argv[1], json.loads(sys.stdin.read())
    others = {"reopen": reopen, "rows": rows, "many": many, "memory": memory}
    answer = others[name](request) if name in others else load(name, request)
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
