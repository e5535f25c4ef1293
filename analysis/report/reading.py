"""From report files to tables in the cache: what is missing is read by workers, each content once.

Workers are processes that run the native reader, and may crash, hang or run out of memory without
harming anything else. Each serves many reports, one after the other. One that dies costs its
current report only: that report gets the cause as its error, and the next report starts a fresh
worker. One that was killed from outside, as by a system that is short of memory, is replaced, and
its report read once more.
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
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from ncubble.analysis.report import cache as store
from ncubble.analysis.report.container import Frame, Source
from ncubble.errors import MeasurementError, NcubbleError, ReportError
from ncubble.profiling.processes import ServerDiedError, ServingProcess
from ncubble.profiling.scratch import intact
from ncubble.records import JsonObject
from ncubble.text.remedies import extras_command

REQUEST_B = 64 << 20
"""Uncompressed bytes of a report that one request reads. The native reader frees no parsed data,
some eleven times as much, until its process ends."""
NEXT = ("pandas", "pyarrow.parquet")
"""Options with which all tables are stored and loaded."""
WORTH_A_REQUEST_B = 8 << 20
"""A worker reads as much in about the time that one takes to start and to disassemble its first
instruction."""
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

    def request(self, time_limit_s: float) -> JsonObject:
        """As ``native`` reads it."""
        from ncubble.profiling.metrics.generations import series_prefix  # reads TOML: cached reports do not need it

        texts = {"path": str(self.path), "out": str(self.out), "listings": str(store.home() / "listings")}
        texts["series"] = series_prefix().pattern
        return asdict(self) | texts | {"time_limit_s": time_limit_s}


def ingest(
    sources: Sequence[Source],
    parts: tuple[str, ...],
    progress: Callable[[int, int], None] | None = None,
    then: Sequence[str] = (),
    attempts: int = 3,
) -> dict[int, NcubbleError]:
    """Read the ``parts`` (``store.PARTS``) that the cache lacks of any of ``sources``; the errors
    by their index.

    ``progress(done, total)`` counts contents, of which several files may have the same. Modules
    ``then``, which are needed next, are imported while workers read. Where someone deletes the
    cache meanwhile, what is missing then is read once more, up to ``attempts`` times in all.
    """
    users: dict[str, list[int]] = {}
    for index, source in enumerate(sources):
        users.setdefault(source.frame.sha256, []).append(index)
    lacking = {sha: tuple(part for part in parts if not store.holds(sha, part)) for sha in users}
    missing = [sha for sha in users if lacking[sha]]
    failed: dict[int, NcubbleError] = {}
    if not missing:
        return failed
    with store.staging({sha: sources[users[sha][0]].path for sha in missing}) as folder:
        tasks = [_Task(sources[users[sha][0]], lacking[sha], folder / sha, len(missing)) for sha in missing]
        owners = [task for task in tasks for _ in task.jobs]
        finished, lock = len(users) - len(missing), threading.Lock()

        def done(number: int, error: NcubbleError | None) -> None:
            nonlocal finished
            task = owners[number]
            with lock:
                task.error = task.error or error
                task.out -= 1
                last = not task.out
            if not last:
                return
            if error := task.error or task.store():
                failed.update(dict.fromkeys(users[task.source.frame.sha256], error))
            with lock:
                finished += 1
                if progress:
                    progress(finished, len(users))

        def prepare() -> None:
            for module in (*NEXT, *then):
                import_module(module)

        extract_all([job for task in tasks for job in task.jobs], done, meanwhile=prepare)
        deleted = not intact(folder)
    return ingest(sources, parts, progress, then, attempts - 1) if deleted and attempts > 1 else failed


class _Task:
    """One content to be read: the jobs that it takes, how many are still out, and what went
    wrong."""

    def __init__(self, source: Source, parts: tuple[str, ...], folder: Path, beside: int) -> None:
        self.source, self.parts, self.folder = source, parts, folder
        self.error: NcubbleError | None = None
        count = source.frame.launches
        self.jobs = [
            Extraction(source.path, parts, count, first, last, folder / f"{first:08d}")
            for first, last in split(source.frame, -(-worker_count() // beside))
        ]
        self.out = len(self.jobs)

    def store(self) -> NcubbleError | None:
        """Commit what the workers wrote; the error where that cannot be, or where they read another
        file."""
        try:
            self.source.check_unchanged()
            for part in self.parts:
                folder = store.build([job.out / part for job in self.jobs], self.folder / part)
                store.commit(folder, self.source.frame.sha256, part)
        except NcubbleError as error:
            return error
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)  # a folder of many reports needs the space of one
        return None


def split(frame: Frame, workers_free: int) -> list[tuple[int, int]]:
    """First and last launch (exclusive) of each request for a report that ``workers_free`` workers
    may read."""
    launches, total = max(frame.launches, 1), max(frame.plain_size, 1)
    requests = max(1, min(workers_free, total // WORTH_A_REQUEST_B))
    size = max(1, min(REQUEST_B * launches // total, -(-launches // requests)))
    return [(first, min(first + size, frame.launches)) for first in range(0, launches, size)]


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
    """A process that runs the native reader, started when first needed and again after each death.

    It ends with the call that needed it, or goes to ``spare`` where a process has such a list.
    """

    spare: ClassVar[list[ServingProcess] | None] = None

    def __init__(self, time_limit_s: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.time_limit_s, self.meanwhile = time_limit_s, meanwhile
        self.process = self.spare.pop() if self.spare else ServingProcess("ncubble.analysis.report.native")

    def __enter__(self) -> NativeReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.spare is None or kind:
            self.process.close()
        else:
            self.spare.append(self.process)

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

    def _ask(self, job: Extraction) -> JsonObject:
        """The answer to a job, by a second worker if one is killed; raises ServerDiedError."""
        request = job.request(self.time_limit_s + GRACE_S)
        try:
            return self.process.ask(request, self.time_limit_s, self.meanwhile)
        except ServerDiedError as died:
            if died.expired or died.status not in KILLED:
                raise
        shutil.rmtree(job.out, ignore_errors=True)
        return self.process.ask(request, self.time_limit_s)
