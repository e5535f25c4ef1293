"""The process that turns a batch of reports into rows of a dataset (see ``process``).

``python -m ncubble.analysis.datasets.ingest.worker`` reads one JSON object per line from stdin:
{"reports": [[path, stamp, sha256, facts]], the last two of what is known already, or null;
"details": bool, "out": folder}. Native code runs in a process of its own (``workers``), so that a
hostile report ends that one; the rest of the work, in Python, may run out of memory. It writes
``out/TABLE.parquet`` and answers with {"at": seconds} whenever it has got further, then with
{"rows": {table: count}, "read": [id], "same": [id], "peak_B": most memory held}, or {"unfit":
message, "remedy": text} where the fault is no report's.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ncubble.analysis.datasets.parts import encode
from ncubble.analysis.datasets.rows import KnownReport, failed_rows, rows_of
from ncubble.analysis.diagnosis import results
from ncubble.analysis.report.container import Source
from ncubble.analysis.report.report import Report, open_found
from ncubble.errors import MeasurementError, NcubbleError, ReportError
from ncubble.profiling.processes import answer_requests, limit_memory
from ncubble.profiling.runs import Run
from ncubble.store import cache_root

MEMORY_LIMIT_B = 8 << 30
Tables = dict[str, pa.Table]


def read_batch(
    wanted: Sequence[Sequence[Any]], details: bool, moved: Callable[[], None]
) -> tuple[list[Tables], list[str], list[str]]:
    """Tables of each report of a batch, ids of those that were read, and of those whose content is
    as known."""
    same = [
        KnownReport(path, stamp).report for path, stamp, *content in wanted if content[0] and unchanged(path, content)
    ]
    known = {
        path: KnownReport(path, stamp) for path, stamp, *_ in wanted if KnownReport(path, stamp).report not in same
    }
    reports, failures = open_found([Path(path) for path in known], lambda done, total: moved())
    tables: list[Tables] = []
    for failure in failures:
        if isinstance(failure.error, MeasurementError):  # disk or native reader: not the report's fault
            raise failure.error
        tables.append(failed_rows(known[str(failure.path)], failure.error))
    reports.reverse()
    while reports:
        report = reports.pop()
        tables.append(_rows(known[str(report.path)], report, details))
        results.judge.cache_clear()  # it holds the report
        moved()
    return tables, [each.report for each in known.values()], same


def _rows(known: KnownReport, report: Report, details: bool) -> Tables:
    try:
        return rows_of(known, report, details)
    except MeasurementError:
        raise
    except NcubbleError as error:
        return failed_rows(known, error, report.frame.sha256)
    except (ValueError, TypeError, ArithmeticError, LookupError, MemoryError, pa.ArrowException) as error:
        failure = ReportError(
            f"{known.path}: contradicts itself ({type(error).__name__}: {error})",
            "the file is probably damaged: copy it again, or profile again",
        )
        return failed_rows(known, failure, report.frame.sha256)


def unchanged(path: str, content: Sequence[str | None]) -> bool:
    """Whether report and manifest at ``path`` have the hashes ``content``."""
    try:
        run = Run.load(Path(path))
        return [Source.of(run.report).frame.sha256, results.facts_hash(run.manifest)] == list(content)
    except NcubbleError:
        return False


def serve(request: dict[str, Any], moved: Callable[[], None]) -> dict[str, Any]:
    """The answer to one request."""
    try:
        tables, read, same = read_batch(request["reports"], request["details"], moved)
        made = encode(tables)
        for name, (data, _) in made.items():
            (Path(request["out"]) / f"{name}.parquet").write_bytes(data)
    except NcubbleError as error:
        return {"unfit": error.message, "remedy": error.remedy}
    except OSError as error:
        return {"unfit": f"{request['out']}: cannot be written ({error.strerror})", "remedy": "free disk space there"}
    finally:
        for part in ("reports", "seen"):
            shutil.rmtree(cache_root() / part, ignore_errors=True)
    rows = {name: count for name, (_, count) in made.items()}
    return {"rows": rows, "read": read, "same": same, "peak_B": peak_b()}


def peak_b() -> int:
    """The most memory that this process, or one that it started, has held; of the latter it is an
    upper bound."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        own = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        own = 0
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: what it does then is of no use."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(os.getpgrp(), signal.SIGKILL)  # with the native reader; ``IngestProcess`` made the group

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Serve requests from stdin until it closes."""
    _end_with_parent()
    limit_memory(MEMORY_LIMIT_B)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    answer_requests(serve)


if __name__ == "__main__":
    main()
