"""``ncubble sweep``: a kernel over a grid of parameters and shapes, on every GPU of this host or of
a Dask cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.cli.command import Catalog, Json, Name, Parameters, Sets
from ncubble.cli.terminal import emit_json, printable, recording, say

if TYPE_CHECKING:
    from ncubble.api.sweeping import SweepPlan, SweepResult, SweptPoint
    from ncubble.profiling.sweeps.store import Record, SweepJob

MOST_REFUSED, MOST_ROWS, LONGEST = 10, 60, 240


def sweep(
    name: Name,
    axis: Annotated[
        list[str] | None,
        typer.Option(
            "-g", metavar="KEY=VALUES", help="Vary a parameter or dimension: 1:6, 512:8192:x2, a,b; m=n=k=… together."
        ),
    ] = None,
    parameter: Parameters = None,
    sample: Annotated[int | None, typer.Option(min=1, metavar="N", help="N points of the grid, at random.")] = None,
    catalog: Catalog = None,
    set_: Sets = None,
    count: Annotated[int, typer.Option(min=1, help="Launches per point, in one run.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The store (default sweeps/NAME).")] = None,
    scheduler: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address or scheduler file of a running Dask scheduler.")
    ] = "",
    gpus: Annotated[
        str, typer.Option(metavar="LIST", help="GPUs of this host, by number or UUID; of a cluster, by model.")
    ] = "",
    timeout: Annotated[float, typer.Option(metavar="S", help="Time limit per job.")] = 300.0,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Measure failed points again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan without measuring; needs no GPU.")] = False,
    json: Json = False,
) -> None:
    """Profile a kernel at every point of a grid, and keep each run. Points already in the store are
    not measured again, so an interrupted sweep continues with the same command. Exit code 3 if
    points failed.
    """
    from ncubble.api import sweeping

    planned = sweeping.plan_sweep(
        name, axis or [], parameter or [], sample=sample, catalog=catalog, sets=set_ or [], repeat=count
    )
    _say_refused(planned)
    folder = out or Path("sweeps") / name
    if dry_run:
        _show_plan(planned, folder, json)
        return
    named = [piece.strip() for piece in gpus.split(",")] if gpus else []
    begun = time.monotonic()
    with recording(f"finished jobs are in {folder}; the same command continues") as observer:

        def settled(job: SweepJob, record: Record, done: int, total: int) -> None:
            seconds = record.attempts[-1].seconds if record.attempts else 0.0
            why = f": {_one_line(record.error)}" if record.error else ""
            left = remaining(done, total, time.monotonic() - begun)
            observer.doing(f"measured {done} of {total}; {left}")
            if why or not sys.stderr.isatty():
                label = printable(job.label)
                observer.say(f"[{done}/{total}] {label}: {record.state}, {seconds:.1f} s{why}; {left}")

        result = sweeping.sweep(
            planned,
            folder,
            scheduler=scheduler,
            gpus=named,
            timeout_s=timeout,
            retry_failed=retry_failed,
            observer=observer,
            settled=settled,
        )
    _show(result, planned, json)
    if not result.complete:
        raise typer.Exit(3)


def remaining(done: int, total: int, elapsed_s: float) -> str:
    """``about 3 min left``, estimated from the rate so far."""
    left_s = elapsed_s / done * (total - done)
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if left_s >= 2 * unit:
            return f"about {left_s / unit:.0f} {name} left"
    return f"about {left_s:.0f} s left"


def _one_line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _settings(point: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in point.items())


def _say_refused(planned: SweepPlan) -> None:
    for point, reason in planned.refused[:MOST_REFUSED]:
        say(f"skipped {_settings(point)}: {reason}")
    if (more := len(planned.refused) - MOST_REFUSED) > 0:
        say(f"skipped {more} further combinations that the kernel rejects (--dry-run --json lists all)")


def _show_plan(planned: SweepPlan, folder: Path, json: bool) -> None:
    """Print only the plan. Points already in the store depend on the GPU and are not marked."""
    if json:
        emit_json({"schema": 1, "store": str(folder), **planned.to_json()})
        return
    for job in planned.jobs:
        typer.echo(_settings(job.point) or "(nothing varied)")
    say(f"{len(planned.jobs)} jobs, {len(planned.refused)} combinations skipped; nothing was measured")


def _show(result: SweepResult, planned: SweepPlan, json: bool) -> None:
    if json:
        known = {"store": str(result.store), "device": result.device, "measured": result.measured, "held": result.held}
        jobs = [point.to_json() for point in result.points]
        emit_json({"schema": 1, **known, "jobs": jobs, "refused": planned.to_json()["refused"]})
        return
    from rich.console import Console

    good = [point for point in result.points if point.record.run]
    failed = [point for point in result.points if not point.record.run]
    if good:
        Console().print(_table(good[:MOST_ROWS]))
    if len(good) > MOST_ROWS:
        typer.echo(f"and {len(good) - MOST_ROWS} more: ncubble dashboard {result.store}")
    for point in failed:
        typer.echo(f"failed {_settings(point.job.point)}: {_one_line(point.record.error or 'unknown reason')}")
    before = f", {result.held} of them earlier" if result.held else ""
    again = "; --retry-failed measures failed jobs again" if failed else ""
    say(f"{len(good)} of {len(result.points)} measured{before}{again}")
    say(f"  view them: ncubble dashboard {result.store}")


def _table(points: list[SweptPoint]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    names = list(dict.fromkeys(name for point in points for name in point.job.point))
    table = Table(box=None, pad_edge=False)
    for title in (*map(escape, names), "µs", "tensor %", "DRAM %"):
        table.add_column(title, justify="right")
    table.add_column("cause")
    for point in points:
        first = point.launches[0] if point.launches else None
        kind = f" ({first.change})" if first and first.change != first.cause else ""
        cause = f"{first.cause}{kind}" if first else ""
        cells = [_mean(point, "duration_ns", 1e-3), _mean(point, "tensor_elapsed_pct"), _mean(point, "dram_pct")]
        note = " (incomplete)" if point.record.state == "incomplete" else ""
        table.add_row(*(escape(point.job.point.get(name, "")) for name in names), *cells, escape(cause + note))
    return table


def _mean(point: SweptPoint, name: str, scale: float = 1.0) -> str:
    """The mean of a number over all launches that have it."""
    values = [value for verdict in point.launches if (value := getattr(verdict, name)) is not None]
    return f"{sum(values) / len(values) * scale:.1f}" if values else "not collected"
