"""Runs the native reader in worker processes that may crash, hang or run out of memory without harming anything else.

Each worker serves many reports, one after the other. One that dies costs its current report only: that report gets the
cause as its error, and the next report starts a fresh worker.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, NcubbleError, ReportError

TIME_LIMIT_S = 300.0
GRACE_S = 5.0
"""After the limit a worker ends itself: whoever was to end it is gone."""


@dataclass(frozen=True)
class Job:
    """What one request to a worker asks for; members as in ``native``."""

    report: Path
    parts: tuple[str, ...]
    announced: int
    first: int
    last: int
    out: Path

    def to_json(self, time_limit_s: float) -> str:
        """The request as one line."""
        named = {"path": str(self.report), "out": str(self.out), "time_limit_s": time_limit_s}
        return json.dumps(
            named | {"parts": self.parts, "announced": self.announced, "first": self.first, "last": self.last}
        )


def hands() -> int:
    """How many workers this process may keep busy: one per core, or ``$NCUBBLE_WORKERS``."""
    told = os.environ.get("NCUBBLE_WORKERS", "")
    if told.isascii() and told.isdigit() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extract_all(
    jobs: Sequence[Job],
    done: Callable[[int, NcubbleError | None], None],
    time_limit_s: float = TIME_LIMIT_S,
) -> None:
    """Do all ``jobs`` in parallel; ``done(index, error)`` is called once for each.

    ``done`` runs in worker threads. Never raises for a report; errors name the report and what happened to its worker.
    An interrupt, or an exception in ``done``, ends it after the reports that are being read: nothing is called, and no
    worker writes, once it has ended.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(jobs)):
        todo.put(index)
    crew = _Crew()

    def serve() -> None:
        with crew.at_work(), _Worker(time_limit_s) as worker:
            while not crew.stopped:
                try:
                    index = todo.get_nowait()
                except queue.Empty:
                    return
                done(index, worker.extract(jobs[index]))

    count = min(len(jobs), hands())
    if count:
        with ThreadPoolExecutor(count) as pool:
            try:
                for future in [pool.submit(serve) for _ in range(count)]:
                    future.result()
            finally:
                crew.stop()


class _Crew:
    """Who is at work. The pool does not know a thread whose start was interrupted, and would not wait for it."""

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


class _Worker:
    """One reader process, started when first needed and again after each death."""

    def __init__(self, time_limit_s: float) -> None:
        self.time_limit_s = time_limit_s
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def extract(self, job: Job) -> NcubbleError | None:
        process = self.process or self._start()
        assert process.stdin is not None and process.stdout is not None  # noqa: S101
        timer = threading.Timer(self.time_limit_s, process.kill)
        timer.start()
        try:
            process.stdin.write(job.to_json(self.time_limit_s + GRACE_S) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            expired = not timer.is_alive()
            timer.cancel()
        if not line:
            return ReportError(
                f"{job.report}: {self._bury(expired)}", "the file is probably damaged: copy it again, or profile again"
            )
        reply = json.loads(line)
        if expired:  # the answer came just before the end
            self._bury(expired)
        elif reply["spent"]:
            self._stop()
        if "broken" in reply:
            return MeasurementError(
                f"the native reader cannot be imported: {reply['broken']}", "pip install ncu-report"
            )
        if "disk" in reply:
            return MeasurementError(
                f"{job.report}: its tables could not be written to {job.out.parent} ({reply['disk']})",
                "free some space there, or set NCUBBLE_CACHE to another directory",
            )
        error = reply.get("error")
        return ReportError(f"{job.report}: {error}", "copy the file again, or profile again") if error else None

    def _start(self) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            # -P: nothing is imported from the working directory
            [sys.executable, "-P", "-m", "ncubble.analysis.report.native"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self.process

    def _bury(self, expired: bool) -> str:
        """Collect the dead worker; returns what killed it, in words."""
        process, self.process = self.process, None
        if process is None:
            return "the native reader did not start"
        process.kill()
        code = process.wait()
        if expired:
            return f"the native reader did not finish within {self.time_limit_s:g} s"
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the native reader crashed ({name})"

    def _stop(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None  # noqa: S101
            self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
