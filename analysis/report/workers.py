"""Runs the native reader in worker processes that may crash, hang or run out of memory without
harming anything else.

Each worker serves many reports, one after the other. One that dies costs its current report only:
that report gets the cause as its error, and the next report starts a fresh worker. One that was
killed from outside, as by a system that is short of memory, is replaced, and its report read once
more.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError, NcubbleError, ReportError
from ncubble.profiling.processes import ServerDiedError, ServingProcess
from ncubble.text.remedies import extras_command

TIME_LIMIT_S = 300.0
KILLED = (-signal.SIGKILL, -signal.SIGTERM)
"""Exit statuses of a worker killed from outside: no report causes these."""
GRACE_S = 5.0
"""After this limit a worker ends itself: its parent is gone."""


@dataclass(frozen=True)
class Extraction:
    """What one request to a worker asks for; members as in ``native``."""

    path: Path
    parts: tuple[str, ...]
    announced: int
    first: int
    last: int
    out: Path

    def request(self, time_limit_s: float) -> dict[str, Any]:
        """As ``native`` reads it."""
        from ncubble.profiling.metrics.generations import series_prefix  # reads TOML: cached reports do not need it

        texts = {"path": str(self.path), "out": str(self.out), "series": series_prefix().pattern}
        return asdict(self) | texts | {"time_limit_s": time_limit_s}


def worker_count() -> int:
    """How many workers this process may keep busy: one per core, or ``$NCUBBLE_WORKERS``."""
    variable = os.environ.get("NCUBBLE_WORKERS", "")
    if variable.isascii() and variable.isdigit() and int(variable):
        return int(variable)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extract_all(
    jobs: Sequence[Extraction],
    done: Callable[[int, NcubbleError | None], None],
    time_limit_s: float = TIME_LIMIT_S,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Do all ``jobs`` in parallel; ``done(index, error)`` is called once for each, and
    ``meanwhile`` while workers are busy.

    Both run in worker threads. Never raises for a report; errors name the report and what
    happened to its worker. An interrupt, or an exception in ``done``, ends it after the reports
    that are being read: nothing is called, and no worker writes, once it has ended.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(jobs)):
        todo.put(index)
    crew = _Crew()

    def serve() -> None:
        with crew.at_work(), NativeReader(time_limit_s, meanwhile) as worker:
            while not crew.stopped:
                try:
                    index = todo.get_nowait()
                except queue.Empty:
                    return
                done(index, worker.extract(jobs[index]))

    count = min(len(jobs), worker_count())
    if count:
        with ThreadPoolExecutor(count) as pool:
            try:
                for future in [pool.submit(serve) for _ in range(count)]:
                    future.result()
            finally:
                crew.stop()


class _Crew:
    """Who is at work. The pool does not know a thread whose start was interrupted, and would not
    wait for it."""

    def __init__(self) -> None:
        self.stopped = False
        self._at_work = 0
        self._changed = threading.Condition()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count the calling thread in. Only then may it ask whether to stop."""
        with self._changed:
            self._at_work += 1
        try:
            yield
        finally:
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        """Let nobody begin any more, and wait for what goes on."""
        with self._changed:
            self.stopped = True
            self._changed.wait_for(lambda: not self._at_work)


class NativeReader:
    """A process that runs the native reader, started when first needed and again after each
    death."""

    def __init__(self, time_limit_s: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.time_limit_s, self.meanwhile = time_limit_s, meanwhile
        self.process = ServingProcess("ncubble.analysis.report.native")

    def __enter__(self) -> NativeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()

    def extract(self, job: Extraction) -> NcubbleError | None:
        """Do one job; returns what went wrong."""
        try:
            reply = self._ask(job)
        except ServerDiedError as died:
            late = f"did not finish within {self.time_limit_s:g} s"
            return ReportError(
                f"{job.path}: the native reader {late if died.expired else f'crashed ({died})'}",
                "the file is probably damaged: copy it again, or profile again",
            )
        if reply["spent"]:
            self.process.close()
        if "broken" in reply:
            return MeasurementError(f"the native reader cannot be imported: {reply['broken']}", extras_command())
        if "disk" in reply:
            return MeasurementError(
                f"{job.path}: its tables could not be written to {job.out.parent} ({reply['disk']})",
                "free disk space there, or set NCUBBLE_CACHE to another directory",
            )
        error = reply.get("error")
        return ReportError(f"{job.path}: {error}", "copy the file again, or profile again") if error else None

    def _ask(self, job: Extraction) -> dict[str, Any]:
        """The answer to a job, by a second worker if one is killed; raises ServerDiedError."""
        request = job.request(self.time_limit_s + GRACE_S)
        try:
            return self.process.ask(request, self.time_limit_s, self.meanwhile)
        except ServerDiedError as died:
            if died.expired or died.status not in KILLED:
                raise
        shutil.rmtree(job.out, ignore_errors=True)
        return self.process.ask(request, self.time_limit_s)
