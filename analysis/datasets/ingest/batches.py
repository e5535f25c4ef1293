"""Thousands of reports into one dataset: batches go to a crew, and what comes back is committed
batch by batch.

Whatever ends this, at any instant, leaves a dataset of the batches that were committed; the next
ingest goes on from there. A batch whose process dies is tried once more, then in halves, so that in
the end one report is to blame: that one becomes a row of ``errors``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ncubble.analysis.datasets import log
from ncubble.analysis.datasets.ingest.crew import Batch, Crew
from ncubble.analysis.datasets.ingest.plan import IngestPlan, batches
from ncubble.analysis.datasets.ingest.process import Died, Made, Unfit
from ncubble.analysis.datasets.parts import DatasetWriter, encode
from ncubble.analysis.datasets.rows import KnownReport, failed_rows
from ncubble.errors import NcubbleError, ReportError

AHEAD = 2
"""Batches in flight per worker: keeps workers busy and bounds memory."""


@dataclass
class Tally:
    """What an ingest did. ``peak`` is the most memory, in bytes, that any worker process held."""

    read: int = 0
    same: int = 0
    failed: int = 0
    launches: int = 0
    deaths: int = 0
    peak: int = 0


def ingest_planned(
    folder: Path, plan: IngestPlan, crew: Crew, progress: Callable[[int, int], None] = lambda done, total: None
) -> Tally:
    """Read what ``plan`` wants into the dataset at ``folder``. Raises MeasurementError where the
    machine is unfit, or the crew is lost; what was committed stays."""
    writer, tally = DatasetWriter(folder), Tally()
    done, total = 0, len(plan.wanted)
    for batch, made in _outcomes(deque(batches(plan.wanted, crew.workers)), crew, tally):
        if made.read:
            writer.put(made.files, made.read)
        _count(made, tally)
        done += len(batch)
        progress(done, total)
    return tally


def _outcomes(todo: deque[Batch], crew: Crew, tally: Tally) -> Iterator[tuple[Batch, Made]]:
    """Every batch, or what is left of it, with what was made of it."""
    deaths: Counter[Batch] = Counter()
    out = 0
    while todo or out:
        while todo and out < AHEAD * crew.workers:
            crew.submit(todo.popleft())
            out += 1
        batch, outcome = crew.next()
        out -= 1
        if isinstance(outcome, Unfit):
            raise outcome.error()
        if isinstance(outcome, Made):
            yield batch, outcome
            continue
        deaths[batch] += 1
        tally.deaths += 1
        if deaths[batch] < 2:
            todo.appendleft(batch)
        elif len(batch) > 1:
            half = len(batch) // 2
            for part in (batch[half:], batch[:half]):
                deaths[part] = 1
                todo.appendleft(part)
        else:
            yield batch, _blamed(batch, outcome)


def _blamed(batch: Batch, died: Died) -> Made:
    """The rows of a report that cost two processes their lives."""
    known = KnownReport(batch[0].path, batch[0].stamp)
    error = ReportError(
        f"{known.path}: the process that read it {died.why}, twice",
        "check free memory; otherwise the file is probably damaged: copy it again, or profile again",
    )
    return Made(encode([failed_rows(known, error)]), (known.report,))


def _count(made: Made, tally: Tally) -> None:
    rows = {name: count for name, (_, count) in made.files.items()}
    tally.read += len(made.read)
    tally.same += len(made.same)
    tally.launches += rows.get("launches", 0)
    tally.failed += rows.get("errors", 0)
    tally.peak = max(tally.peak, made.peak)


def prune(folder: Path, gone: dict[str, str]) -> None:
    """Remove the rows of reports that are no longer there."""
    if gone:
        DatasetWriter(folder).remove(gone)


def tidy(folder: Path) -> None:
    """Make one part of many small ones, and delete what no reader can hold any more."""
    with suppress(OSError, NcubbleError):  # all ingested rows are there
        log.sweep(folder, DatasetWriter(folder).compact())
