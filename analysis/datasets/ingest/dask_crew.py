"""``DaskCrew``: ingests on the workers of a Dask cluster.

Workers read the reports, so these lie on a file system that all of them share. What they make is
sent back, and the command writes it: the dataset may lie anywhere, has one writer, and never a file
of a worker that was lost half-way. Each thread of a worker drives a process of its own
(``process.IngestProcess``): the worker itself reads no report.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from types import TracebackType
from typing import Any

from ncubble.analysis.datasets.ingest.crew import Batch
from ncubble.analysis.datasets.ingest.process import Died, IngestProcess, Outcome
from ncubble.analysis.datasets.schema import SCHEMA
from ncubble.analysis.diagnosis.results import rules_hash
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.sweeps.cluster import TLS_REMEDY
from ncubble.text.remedies import extras_command

CONNECT_S = 30.0
POLL_S, AWAY_S = 1.0, 20.0
_free: list[IngestProcess] = []
_lock = threading.Lock()


def ingest_there(batch: Batch, details: bool) -> Outcome:
    """What runs on a worker: one batch, by a process that is kept for the next."""
    with _lock:
        process = _free.pop() if _free else IngestProcess()
    try:
        return process.ingest(batch, details)
    finally:
        with _lock:
            _free.append(process)


def examine_there(path: str) -> tuple[str, bool]:
    """What runs on a worker first: how it would judge, and whether it sees the reports."""
    return f"{SCHEMA} {rules_hash()}", os.path.lexists(path)


class DaskCrew:
    """The workers of the cluster whose scheduler is at ``address``."""

    def __init__(self, address: str, details: bool) -> None:
        self.address, self.details = address, details
        self.client = _connected(address)
        self.workers = max(1, sum(self.client.nthreads().values()))
        self._batches: dict[str, Batch] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __enter__(self) -> DaskCrew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close(timeout=5)

    def examine(self, path: str) -> None:
        """Raise UsageError where there is no worker, or one has another ncubble or does not see
        ``path``."""
        answers = self.client.run(examine_there, path)
        if not answers:
            raise UsageError(f"{self.address}: the cluster has no workers", "start workers: dask worker ADDRESS")
        for worker, (judging, sees) in answers.items():
            if judging != f"{SCHEMA} {rules_hash()}":
                raise UsageError(
                    f"worker {worker} has another version of ncubble", "install the same version everywhere"
                )
            if not sees:
                raise UsageError(f"worker {worker} does not see {path}", "put reports where every worker can read them")

    def submit(self, batch: Batch) -> None:
        """Have ``batch`` ingested by a worker."""
        future = self.client.submit(ingest_there, batch, self.details, pure=False)
        self._batches[future.key] = batch
        future.add_done_callback(self._done.put)

    def next(self) -> tuple[Batch, Outcome]:
        """The outcome of a batch; a batch that Dask gave up, because workers died over it, counts
        as a death."""
        from distributed import KilledWorker

        future = self._wait()
        batch = self._batches.pop(future.key)
        try:
            return batch, future.result()
        except KilledWorker as error:
            return batch, Died(f"took its Dask workers with it ({error})")
        except Exception as error:  # any error of a lost scheduler
            raise self._lost(f"{type(error).__name__}: {error}") from error
        finally:
            future.release()

    def _wait(self) -> Any:
        """The next future that is done. Raises MeasurementError once the scheduler has been away
        for ``AWAY_S``."""
        gone = 0.0
        while True:
            try:
                return self._done.get(timeout=POLL_S)
            except queue.Empty:
                gone = 0.0 if self.client.status == "running" else gone + POLL_S
            if gone >= AWAY_S:
                raise self._lost("its scheduler does not answer")

    def _lost(self, why: str) -> MeasurementError:
        return MeasurementError(
            f"{self.address}: the cluster was lost ({why})",
            "repeat the command: it continues with the missing reports",
        )


def _connected(address: str) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise UsageError("Dask is not installed", extras_command("cluster")) from error
    for name in ("distributed.client", "distributed.utils"):  # its log of a lost scheduler is replaced by one sentence
        logging.getLogger(name).setLevel(logging.CRITICAL)
    connect: Any = distributed.Client  # untyped there
    try:
        return connect(address, timeout=CONNECT_S, set_as_default=False)
    except TypeError as error:  # raised where no context for TLS could be made
        raise UsageError(f"{address}: no TLS certificate is configured", TLS_REMEDY) from error
    except (OSError, ValueError, TimeoutError, AssertionError) as error:
        raise UsageError(
            f"{address}: no scheduler answers ({error or type(error).__name__})", "start a scheduler: dask scheduler"
        ) from error
