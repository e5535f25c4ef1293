"""Who ingests batches: worker processes of this machine (``LocalCrew``). A Dask cluster:
``dask_crew``."""

from __future__ import annotations

import queue
import threading
from types import TracebackType
from typing import Protocol

from ncubble.analysis.datasets.ingest.process import IngestProcess, Outcome, Unfit, WantedReport

Batch = tuple[WantedReport, ...]


class Crew(Protocol):
    """Takes batches and gives their outcomes back, in any order."""

    workers: int

    def submit(self, batch: Batch) -> None:
        """Have ``batch`` ingested."""

    def next(self) -> tuple[Batch, Outcome]:
        """Wait for the outcome of one of the batches that are out. Raises MeasurementError where
        none can come."""


class LocalCrew:
    """``workers`` processes of this machine, each driven by a thread."""

    def __init__(self, workers: int, details: bool) -> None:
        self.workers, self.details = workers, details
        self._todo: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Batch, Outcome]] = queue.SimpleQueue()
        self._processes = [IngestProcess() for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(process,), daemon=True) for process in self._processes
        ]

    def __enter__(self) -> LocalCrew:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _ in self._threads:
            self._todo.put(None)
        for process in self._processes:
            process.stop()
        for thread in self._threads:
            thread.join(10)

    def submit(self, batch: Batch) -> None:
        """Have ``batch`` ingested by whoever is free."""
        self._todo.put(batch)

    def next(self) -> tuple[Batch, Outcome]:
        """The outcome of a batch."""
        return self._done.get()

    def _serve(self, process: IngestProcess) -> None:
        with process:
            while (batch := self._todo.get()) is not None and not process.stopped:
                try:
                    outcome = process.ingest(batch, self.details)
                except Exception as error:  # otherwise this batch would be lost silently
                    outcome = Unfit(f"a worker could not be driven ({type(error).__name__}: {error})", "try again")
                self._done.put((batch, outcome))
