"""``Hand``: one process that ingests batches of reports, started when needed and again after each death.

Used alike by local ingestion, one per worker, and in each worker of a Dask cluster: no report is ever read in the
process of the scheduler, of a Dask worker, or of the command.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.profiling.processes.scratch import abandoned, scratch

SILENT_S = 660.0
"""How long a batch may show no progress: twice what the native reader has for one report, and the judging."""
SPENT_B = 3 << 29
"""A process that has held so much is replaced before the next batch."""
_PREFIX = f".ncubble-ingest-{os.getuid()}-"


@dataclass(frozen=True)
class Wanted:
    """A report to be ingested: its path, what its files look like, and the hashes that are known of it, or None."""

    path: str
    stamp: str
    sha256: str | None = None
    facts: str | None = None
    size: int = 0

    def as_list(self) -> list[str | None]:
        """As a request has it."""
        return [self.path, self.stamp, self.sha256, self.facts]


@dataclass(frozen=True)
class Made:
    """What came of a batch: the bytes and rows of each table's file; ids that were read, or found unchanged; the most
    memory, in bytes, that the process held."""

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    peak: int = 0


@dataclass(frozen=True)
class Died:
    """The process of a batch ended before its answer; ``why`` in words."""

    why: str


@dataclass(frozen=True)
class Unfit:
    """This machine cannot ingest anything: the disk is full, the native reader is not there."""

    message: str
    remedy: str

    def error(self) -> MeasurementError:
        """As an error."""
        return MeasurementError(self.message, self.remedy)


Outcome = Made | Died | Unfit


class Hand:
    """One worker process with a folder of its own for what it reads. Not for two threads at once."""

    def __init__(self, silent_s: float = SILENT_S) -> None:
        self.silent_s = silent_s
        self.process: subprocess.Popen[str] | None = None
        self.stopped = False
        self._folder: Path | None = None
        self._keeper = ExitStack()

    def __enter__(self) -> Hand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def stop(self) -> None:
        """End what this is doing, from another thread."""
        self.stopped = True
        if (process := self.process) is not None:
            _kill(process)

    def close(self) -> None:
        """End the process and remove its folder."""
        self._bury()
        self._keeper.close()
        self._folder = None

    def ingest(self, batch: tuple[Wanted, ...], details: bool) -> Outcome:
        """Ingest a batch. Never raises for a report or a death."""
        try:
            process, out = self._started(), self._place() / "out"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
        except OSError as error:
            return Unfit(
                f"{tempfile.gettempdir()}: cannot be written ({error.strerror})", "set TMPDIR to another folder"
            )
        request = {"reports": [one.as_list() for one in batch], "details": details, "out": str(out)}
        answer = self._ask(process, json.dumps(request))
        if isinstance(answer, Died):
            return answer
        if "unfit" in answer:
            return Unfit(answer["unfit"], answer["remedy"])
        files = {name: ((out / f"{name}.parquet").read_bytes(), rows) for name, rows in answer["rows"].items()}
        if answer["peak_B"] > SPENT_B:
            self._bury()
        return Made(files, tuple(answer["read"]), tuple(answer["same"]), answer["peak_B"])

    def _ask(self, process: subprocess.Popen[str], request: str) -> dict[str, Any] | Died:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101
        expired = threading.Event()
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
            while line := self._line(process, expired):
                answer: dict[str, Any] = json.loads(line)
                if "at" not in answer:
                    return answer
        except (BrokenPipeError, ValueError):
            pass
        why = self._bury(ended=True)
        return Died(f"showed no progress for {self.silent_s:g} s" if expired.is_set() else why)

    def _line(self, process: subprocess.Popen[str], expired: threading.Event) -> str:
        """The next line of the answer; empty once the process is gone."""
        assert process.stdout is not None  # noqa: S101

        def expire() -> None:
            expired.set()
            _kill(process)

        timer = threading.Timer(self.silent_s, expire)
        timer.start()
        try:
            return process.stdout.readline()
        finally:
            timer.cancel()

    def _place(self) -> Path:
        if self._folder is None:
            parent = Path(tempfile.gettempdir())
            for _ in abandoned(parent, _PREFIX):
                pass  # what killed ones left is removed
            self._folder = self._keeper.enter_context(scratch(parent, _PREFIX, {}))
        return self._folder

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None or _has_ended(self.process):
            self._bury()
            cache = self._place() / "cache"
            threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ncubble.analysis.datasets.ingest.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # an interrupt is for the command, which then ends this
                env={**os.environ, **threads, "NCUBBLE_CACHE": str(cache), "NCUBBLE_WORKERS": "1"},
            )
        return self.process

    def _bury(self, ended: bool = False) -> str:
        """End and collect the process, which may be about to end by itself; what ended it, in words."""
        process, self.process = self.process, None
        if process is None:
            return "did not start"
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        for _ in range(100 if ended else 0):
            if _has_ended(process):
                break
            time.sleep(0.02)
        _kill(process)
        code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return f"died ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"


def _has_ended(process: subprocess.Popen[str]) -> bool:
    """Whether a process has ended. It is not collected yet, so that its group is no one else's."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and the native reader below it, which would write on: they are a process group of their own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
