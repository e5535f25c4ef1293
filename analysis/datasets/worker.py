"""The process that writes reports into a dataset (see ``ingest``).

``python -m ncubble.analysis.datasets.worker`` reads one JSON object per line from stdin:
{"dataset": folder, "reports": {name: path}}. Native code runs in a process of its
own (``reading``), so that a hostile report ends that one; the rest of the work, in Python, may run
out of memory. It answers with {"at": seconds} whenever it has got further, then with {"failed":
[[path, error]], "spent": whether the process has grown so much that a fresh one had better go on},
or with {"unfit": message, "remedy": text} where the fault is no report's.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.rows import failed_rows, report_rows
from ncubble.analysis.diagnosis import results
from ncubble.analysis.report.reading import NativeReader
from ncubble.analysis.report.report import open_found
from ncubble.errors import MeasurementError, NcubbleError, ReportError
from ncubble.profiling.processes import answer_requests, limit_memory
from ncubble.store import cache_root

MEMORY_LIMIT_B = 8 << 30
SPENT_B = 3 << 29


def read(dataset: Dataset, names: dict[str, str], moved: Callable[[], None]) -> Iterator[tuple[str, NcubbleError]]:
    """Write a file for each of the reports ``names`` (by path); yields what could not be read or
    judged. Raises MeasurementError where the machine is unfit."""
    reports, failures = open_found([Path(path) for path in names], lambda done, total: moved())
    for failure in failures:
        yield from _written(dataset, names, failure.path, failure.error)
    reports.reverse()
    while reports:
        report = reports.pop()
        try:
            table, errors = report_rows(names[str(report.path)], report)
            dataset.put(names[str(report.path)], table)
            yield from ((str(report.path), error) for error in errors)
        except NcubbleError as error:
            yield from _written(dataset, names, report.path, error)
        except MemoryError:
            why = f"{report.path}: needs more than {MEMORY_LIMIT_B >> 30} GiB of memory to judge: probably damaged"
            refused = ReportError(why, "copy the file again, or profile again")
            yield from _written(dataset, names, report.path, refused)
        except (*results.CONTRADICTIONS, pa.ArrowException) as error:
            yield from _written(dataset, names, report.path, results.contradiction(report.path, "", error))
        results.judge.cache_clear()  # it holds the report
        moved()


def _written(
    dataset: Dataset, names: dict[str, str], path: Path, error: NcubbleError
) -> Iterator[tuple[str, NcubbleError]]:
    if isinstance(error, MeasurementError):  # disk or native reader: not the report's fault
        raise error
    dataset.put(names[str(path)], failed_rows(names[str(path)], path, error))
    yield str(path), error


def serve(request: dict[str, Any], moved: Callable[[], None]) -> dict[str, Any]:
    """The answer to one request."""
    names = {path: name for name, path in request["reports"].items()}
    try:
        failed = list(read(Dataset.open(Path(request["dataset"])), names, moved))
    except NcubbleError as error:
        return {"unfit": error.message, "remedy": error.remedy}
    except OSError as error:
        return {"unfit": f"{request['dataset']}: cannot be written ({error.strerror})", "remedy": "free disk space"}
    finally:
        for part in ("reports", "seen"):
            shutil.rmtree(cache_root() / part, ignore_errors=True)
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 > SPENT_B
    return {"failed": [(path, error.message) for path, error in failed], "spent": spent}


def main() -> None:
    """Serve requests from stdin until it closes."""
    limit_memory(MEMORY_LIMIT_B)
    NativeReader.spare = []
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    answer_requests(serve)


if __name__ == "__main__":
    main()
