"""Thousands of reports into one dataset, by processes of this machine that may die.

A report is read again only if its content, its manifest, or what turns it into verdicts has
changed, or if it could not be read. Whatever ends this, at any instant, leaves the files that were
written; the next ingest goes on from there. A process that dies has its reports read once more, one
by one, so that in the end one report is to blame.
"""

from __future__ import annotations

import os
import queue
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.querying import select
from ncubble.analysis.datasets.rows import content_name, failed_rows, text
from ncubble.analysis.diagnosis.results import rules_hash
from ncubble.analysis.report.reading import worker_count
from ncubble.errors import MeasurementError, ReportError
from ncubble.profiling.processes import ServerDiedError, ServingProcess
from ncubble.profiling.runs import find_runs
from ncubble.profiling.scratch import abandoned, scratch

BATCH = 32
"""Maximum reports of a request: limits what a death costs."""
TURNS = 2
"""Minimum requests per worker, so that no worker waits long for the last."""
SILENT_S = 660.0
"""Seconds that a request may show no progress: twice the native reader's limit per report, plus the
analysis."""
_PREFIX = f".ncubble-ingest-{os.getuid()}-"
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NCUBBLE_WORKERS"), "1")


@dataclass(frozen=True)
class Ingested:
    """What an ingest did: reports read, and those found unchanged; paths of reports of the dataset
    that are gone, by name; path and error of what could not be read or judged."""

    read: int
    unchanged: int
    gone: dict[str, str]
    failed: list[tuple[str, str]]


def ingest(
    dataset: Dataset,
    roots: Sequence[Path],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Ingested:
    """Read all reports below ``roots`` that ``dataset`` lacks, and forget those that they replaced.

    Raises MeasurementError where the machine is unfit.
    """
    known = {row["report"]: row for row in select(dataset, "SELECT * FROM reports").to_pylist()}
    tops = [Path(os.path.abspath(root)) for root in roots]  # noqa: PTH100 - links stay as they are
    paths = list(find_runs(tops))
    with ThreadPoolExecutor(worker_count()) as pool:
        reports = dict(zip(pool.map(content_name, reversed(paths)), reversed(paths), strict=True))

    def settled(name: str) -> bool:
        row = known.get(name, {"complete": False})
        return bool(row["complete"] and row["rules"] == rules_hash())

    wanted = {name: path for name, path in reversed(reports.items()) if not settled(name)}
    failed = _read_all(dataset, wanted, progress) if wanted else []
    here = set(map(text, paths))
    lost = {name: row["path"] for name, row in known.items() if name not in reports}
    dataset.remove(name for name, path in lost.items() if path in here)
    below = tuple(f"{text(top)}/" for top in tops)
    gone = {name: path for name, path in lost.items() if path not in here and f"{path}/".startswith(below)}
    return Ingested(len(wanted), len(reports) - len(wanted), gone, failed)


def _read_all(dataset: Dataset, wanted: dict[str, Path], progress: Callable[[int, int], None]) -> list[tuple[str, str]]:
    """Write a file for each of ``wanted``; returns path and error of what could not be read."""
    failed: list[tuple[str, str]] = []
    workers = min(worker_count(), len(wanted))
    for _ in abandoned(Path(tempfile.gettempdir()), _PREFIX):
        pass  # remove what killed processes left
    with scratch(Path(tempfile.gettempdir()), _PREFIX, {}) as work, ThreadPoolExecutor(workers) as pool:
        crew = _Crew(dataset, [work / str(number) for number in range(workers)])
        try:
            futures = {pool.submit(crew.read, batch): len(batch) for batch in _batches(wanted, workers)}
            read = 0
            for future in as_completed(futures):
                failed += future.result()
                read += futures[future]
                progress(read, len(wanted))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            crew.stop()
    return failed


def _batches(wanted: dict[str, Path], workers: int) -> Iterator[dict[str, str]]:
    names = iter(wanted)
    size = max(1, min(BATCH, len(wanted) // (TURNS * workers)))
    while batch := {name: str(wanted[name]) for name in islice(names, size)}:
        yield batch


class _Crew:
    """Processes that read reports, each with a cache of its own, for as many threads."""

    def __init__(self, dataset: Dataset, caches: Sequence[Path]) -> None:
        self.dataset, self.stopped = dataset, False
        module = "ncubble.analysis.datasets.worker"
        self.processes = [
            ServingProcess(module, partial(dict, _THREADS, NCUBBLE_CACHE=str(cache)), own_group=True)
            for cache in caches
        ]
        self.free: queue.SimpleQueue[ServingProcess] = queue.SimpleQueue()
        for process in self.processes:
            self.free.put(process)

    def read(self, batch: dict[str, str]) -> list[tuple[str, str]]:
        """Have reports read by whoever is free; returns path and error of what could not be."""
        process = self.free.get()
        try:
            return self._read(process, batch)
        finally:
            if self.stopped:
                process.close()
            self.free.put(process)

    def _read(self, process: ServingProcess, batch: dict[str, str], again: bool = False) -> list[tuple[str, str]]:
        if self.stopped:
            return []
        request = {"dataset": str(self.dataset.folder), "reports": batch}
        try:
            answer = process.ask(request, SILENT_S)
        except ServerDiedError as died:
            if not again:
                return [line for name in batch for line in self._read(process, {name: batch[name]}, again=True)]
            return [] if self.stopped else [self._blame(*name_and_path, died) for name_and_path in batch.items()]
        except OSError as error:
            raise MeasurementError(f"no process could be started ({error})", "try again") from error
        if "unfit" in answer:
            raise MeasurementError(answer["unfit"], answer["remedy"])
        if answer["spent"]:
            process.close()
        return [(path, error) for path, error in answer["failed"]]

    def _blame(self, name: str, path: str, died: ServerDiedError) -> tuple[str, str]:
        """The error of a report that cost two processes their lives; it is written."""
        why = f"showed no progress for {SILENT_S:g} s" if died.expired else f"ended with {died}"
        error = ReportError(
            f"{path}: the process that read it {why}, twice",
            "check free memory; otherwise the file is probably damaged: copy it again, or profile again",
        )
        self.dataset.put(name, failed_rows(name, Path(path), error))
        return path, error.message

    def stop(self) -> None:
        """End what the processes are doing."""
        self.stopped = True
        for process in self.processes:
            process.end()
        while not self.free.empty():
            self.free.get().close()
