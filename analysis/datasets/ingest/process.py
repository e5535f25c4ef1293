"""``IngestProcess``: one process that ingests batches of reports, started when needed and again
after each death.

Used alike by local ingestion, one per worker, and in each worker of a Dask cluster: no report is
ever read in the process of the scheduler, of a Dask worker, or of the command.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ncubble.errors import MeasurementError
from ncubble.profiling.processes import ServerDiedError, ServingProcess
from ncubble.profiling.scratch import abandoned, scratch

SILENT_S = 660.0
"""Seconds that a batch may show no progress: twice the native reader's limit per report, plus the
analysis."""
SPENT_B = 3 << 29
"""A process that has used this much memory is replaced before the next batch."""
_PREFIX = f".ncubble-ingest-{os.getuid()}-"


@dataclass(frozen=True)
class WantedReport:
    """A report to be ingested: its path, what its files look like, and the hashes that are known of
    it, or None."""

    path: str
    stamp: str
    sha256: str | None = None
    facts: str | None = None
    size: int = 0


@dataclass(frozen=True)
class Made:
    """What came of a batch: the bytes and rows of each table's file; ids that were read, or found
    unchanged; the most memory, in bytes, that the process held."""

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


class IngestProcess:
    """One worker process with a folder of its own for what it reads. Not for two threads at once,
    but for ``stop``."""

    def __init__(self, silent_s: float = SILENT_S) -> None:
        self.silent_s = silent_s
        self.stopped = False
        self.process = ServingProcess("ncubble.analysis.datasets.ingest.worker", self._environment, own_group=True)
        self._folder: Path | None = None
        self._keeper = ExitStack()

    def __enter__(self) -> IngestProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self) -> None:
        """End what this is doing, from another thread."""
        self.stopped = True
        self.process.end()

    def close(self) -> None:
        """End the process and remove its folder."""
        self.process.close()
        self._keeper.close()
        self._folder = None

    def ingest(self, batch: tuple[WantedReport, ...], details: bool) -> Outcome:
        """Ingest a batch. Never raises for a report or a death."""
        try:
            out = self._place() / "out"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            known = [[report.path, report.stamp, report.sha256, report.facts] for report in batch]
            answer = self.process.ask({"reports": known, "details": details, "out": str(out)}, self.silent_s)
        except ServerDiedError as died:
            if died.expired:
                return Died(f"showed no progress for {self.silent_s:g} s")
            return Died(f"died ({died})" if died.status < 0 else f"ended with {died}")
        except OSError as error:
            return Unfit(
                f"{tempfile.gettempdir()}: cannot be written ({error.strerror})", "set TMPDIR to another folder"
            )
        if "unfit" in answer:
            return Unfit(answer["unfit"], answer["remedy"])
        files = {name: ((out / f"{name}.parquet").read_bytes(), rows) for name, rows in answer["rows"].items()}
        if answer["peak_B"] > SPENT_B:
            self.process.close()
        return Made(files, tuple(answer["read"]), tuple(answer["same"]), answer["peak_B"])

    def _place(self) -> Path:
        if self._folder is None:
            parent = Path(tempfile.gettempdir())
            for _ in abandoned(parent, _PREFIX):
                pass  # remove what killed processes left
            self._folder = self._keeper.enter_context(scratch(parent, _PREFIX, {}))
        return self._folder

    def _environment(self) -> dict[str, str]:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return threads | {"NCUBBLE_CACHE": str(self._place() / "cache"), "NCUBBLE_WORKERS": "1"}
