"""``ncubble ingest``: reads thousands of reports into one dataset, for ``ncubble query``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ncubble.cli.terminal import ended_by_signals

if TYPE_CHECKING:
    from ncubble.analysis.datasets.dataset import Dataset
    from ncubble.analysis.datasets.ingest.batches import Tally
    from ncubble.analysis.datasets.ingest.crew import Crew
    from ncubble.analysis.datasets.ingest.plan import IngestPlan

MOST_NAMED = 10


def ingest(
    roots: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders of reports, runs or report files.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DATASET", help="The dataset to create or extend.")],
    scheduler: Annotated[
        str, typer.Option("--scheduler", metavar="ADDRESS", help="Read reports on the workers of this Dask cluster.")
    ] = "",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Worker processes on this machine (default: one per core).")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also keep timelines, instructions and Nsight's rules.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove the rows of reports that were deleted from DIR.")
    ] = False,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Reread reports that another version of ncubble judged.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Retry reports that could not be read.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read all reports below DIR into one Parquet dataset; a second call reads only new and changed
    reports. A damaged report becomes a row of the table `errors`. Exit code 0: all reports were
    read; 3: some could not be read, or none was found.
    """
    from ncubble.errors import UsageError
    from ncubble.profiling.runs import Run, require_paths

    if scheduler and workers:
        raise UsageError("--workers is for this machine, --scheduler for a cluster", "use only one of them")
    require_paths(roots)
    for root in filter(Path.is_file, roots):
        Run.load(root)  # raises if it is no report: it would become a row of errors
    with ended_by_signals(f"{out} keeps what was read: repeat the command to continue"):
        outcome = _ingest(roots, out, scheduler, workers, details, prune, rejudge, retry)
    outcome.show(as_json)
    if outcome.tally.failed or not outcome.dataset.rows("reports"):
        raise typer.Exit(3)


def _ingest(
    roots: list[Path],
    out: Path,
    scheduler: str,
    workers: int | None,
    details: bool,
    prune: bool,
    rejudge: bool,
    retry: bool,
) -> _Outcome:
    import time

    from ncubble.analysis.datasets import log as dataset_log
    from ncubble.analysis.datasets.dataset import Dataset
    from ncubble.analysis.datasets.ingest import batches as ingest_many
    from ncubble.analysis.datasets.ingest.plan import plan
    from ncubble.cli.terminal import reading

    started = time.monotonic()
    dataset_log.create(out)
    planned = plan(Dataset.open(out), roots, rejudge, retry, details)
    tally = ingest_many.Tally()
    if planned.wanted:
        with _crew(scheduler, workers, details, planned) as crew, reading("ingesting reports") as progress:
            tally = ingest_many.ingest_planned(out, planned, crew, progress)
    if prune:
        ingest_many.prune(out, planned.gone)
    ingest_many.tidy(out)
    return _Outcome(Dataset.open(out), planned, tally, prune, time.monotonic() - started)


def _crew(scheduler: str, workers: int | None, details: bool, planned: IngestPlan) -> AbstractContextManager[Crew]:
    from ncubble.analysis.datasets.ingest.crew import LocalCrew
    from ncubble.analysis.datasets.ingest.dask_crew import DaskCrew
    from ncubble.analysis.report.reading import worker_count

    if not scheduler:
        return LocalCrew(min(workers or worker_count(), len(planned.wanted)), details)
    crew = DaskCrew(scheduler, details)
    crew.examine(planned.wanted[0].path)
    return crew


class _Outcome(NamedTuple):
    """Counts, seconds, and the resulting dataset."""

    dataset: Dataset
    planned: IngestPlan
    tally: Tally
    pruned: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        tally, rows = self.tally, self.dataset.rows
        return {
            "schema": 1,
            "dataset": str(self.dataset.folder),
            "read": tally.read,
            "unchanged": self.planned.unchanged + tally.same,
            "errors": tally.failed,
            "deaths": tally.deaths,
            "stale": self.planned.stale,
            "gone": sorted(self.planned.gone.values()),
            "pruned": self.pruned,
            "reports": rows("reports"),
            "launches": rows("launches"),
            "metrics": rows("metrics"),
            "failed": rows("errors"),
            "seconds": round(self.seconds, 3),
            "reports_per_s": round(tally.read / self.seconds, 3) if self.seconds else None,
            "peak_worker_B": tally.peak or None,
        }

    def show(self, as_json: bool) -> None:
        from ncubble.cli.terminal import emit_json, printable

        if as_json:
            emit_json(self.to_json())
            return
        tally, rows, folder = self.tally, self.dataset.rows, printable(str(self.dataset.folder))
        typer.echo(
            f"{tally.read} read, {self.planned.unchanged + tally.same} unchanged, {tally.failed} errors "
            f"in {self.seconds:.1f} s; {folder} holds {rows('reports'):,} reports, {rows('launches'):,} launches and "
            f"{rows('metrics'):,} metrics"
        )
        gone = sorted(self.planned.gone.values())
        for path in gone[:MOST_NAMED]:
            typer.echo(f"  {'removed' if self.pruned else 'gone'}: {printable(path)}", err=True)
        if len(gone) > MOST_NAMED:
            typer.echo(f"  and {len(gone) - MOST_NAMED} more", err=True)
        if gone and not self.pruned:
            typer.echo(f"  {len(gone)} reports no longer exist: --prune removes their rows", err=True)
        if stale := self.planned.stale:
            typer.echo(f"  {stale} were judged by another version of ncubble: --rejudge rereads them", err=True)
        if rows("errors"):
            typer.echo(f"  list of errors: ncubble query {folder} --table errors", err=True)
