"""``ncubble sweep``: a kernel over a grid of parameters and shapes, on every GPU of this host or of a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.cli.command import Catalog, Json, Name, Parameters, Shape, shape_text
from ncubble.cli.commands.sweep.job import CHILD
from ncubble.cli.terminal import ended_by_signals

if TYPE_CHECKING:
    from ncubble.cli.commands.sweep.plan import Planned
    from ncubble.profiling.sweeps.dispatch import Task
    from ncubble.profiling.sweeps.job import Machine
    from ncubble.profiling.sweeps.store import Record, Store
    from ncubble.profiling.sweeps.sweep import Options, SweepPlan

LIMIT_S = 300.0

Axes = Annotated[
    list[str] | None,
    typer.Option(
        "-g", metavar="KEY=VALUES", help="Vary a parameter or dimension: 1:6, 512:8192:x2, a,b; m=n=k=… together."
    ),
]
Sample = Annotated[int | None, typer.Option(metavar="N", help="Number of points, with --method random or lhs.")]
Method = Annotated[str, typer.Option(metavar="grid|random|lhs", help="How to choose points of the grid.")]
Seed = Annotated[int, typer.Option(help="Seed of the sample; equal seeds give equal points.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SET", help="Metric set, repeatable (ncubble profile --list-sets)."),
]
Metrics = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A further metric, repeatable.")]
Repeat = Annotated[int, typer.Option(min=1, help="Launches per point, in one run.")]
ClockControl = Annotated[str, typer.Option(metavar="none|base", help="base: ncu locks the clocks.")]
CacheControl = Annotated[str, typer.Option(metavar="all|none", help="none: caches stay warm.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="The store (default sweeps/NAME).")]
Scheduler = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address or scheduler file of a running Dask scheduler.")
]
Gpus = Annotated[str, typer.Option(metavar="LIST", help="GPUs of this host, by number or UUID (default all).")]
DeviceName = Annotated[str, typer.Option(metavar="NAME", help="In a mixed cluster: only GPUs of this name.")]
Timeout = Annotated[float, typer.Option(metavar="S", help="Time limit per job.")]
Wait = Annotated[float, typer.Option(metavar="S", help="Time to wait while no worker is connected.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Measure failed points again.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan without measuring; needs no GPU.")]


def sweep(
    name: Name,
    axis: Axes = None,
    parameter: Parameters = None,
    shape: Shape = None,
    sample: Sample = None,
    method: Method = "grid",
    seed: Seed = 0,
    catalog: Catalog = None,
    set_: Sets = None,
    metric: Metrics = None,
    repeat: Repeat = 1,
    clock_control: ClockControl = "none",
    cache_control: CacheControl = "all",
    out: Out = None,
    scheduler: Scheduler = "",
    gpus: Gpus = "",
    device: DeviceName = "",
    timeout: Timeout = LIMIT_S,
    wait: Wait = 60.0,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Profile a kernel at every point of a grid, and keep each run. Points already in the store are
    not measured again, so an interrupted sweep continues with the same command. Exit code 3 if
    points failed.
    """
    from ncubble.cli.commands.sweep import plan as sweep_plan
    from ncubble.cli.commands.sweep import render as sweep_render
    from ncubble.errors import UsageError
    from ncubble.profiling.sweeps.grid import Sampling
    from ncubble.profiling.sweeps.sweep import Options

    if scheduler and gpus:
        raise UsageError("--gpus is for this host, --scheduler for a cluster", "use only one of them")
    if not timeout > 0 or not wait >= 0:
        raise UsageError(
            f"--timeout {timeout:g} --wait {wait:g}: not positive numbers of seconds", "give positive numbers"
        )
    sampling = Sampling.of(method, sample, seed)
    texts = axis or [], parameter or [], shape_text(shape)
    request = sweep_plan.sweep_request(
        name, *texts, sampling, catalog, set_ or [], metric or [], repeat, (clock_control, cache_control)
    )
    planned = sweep_plan.plan(request)
    sweep_render.say_plan(planned)
    folder = out or Path("sweeps") / name
    if dry_run:
        sweep_render.show_dry(planned, folder, json)
        return
    options = Options(retry_failed=retry_failed, device=device, wait_s=wait, limit_s=timeout)
    sweep_render.finish(*_measure(planned, folder, scheduler, gpus, timeout, options), folder, json)


def _measure(
    planned: Planned, folder: Path, scheduler: str, gpus: str, limit_s: float, options: Options
) -> tuple[Planned, SweepPlan, dict[str, Record]]:
    """Run the sweep; returns the plan, the names, and the record of every job by its key."""
    from ncubble.profiling.sweeps.store import Store

    named = _named(gpus)
    with ended_by_signals(f"finished jobs are in {folder}; the same command continues"), Store(folder) as store:
        if scheduler:
            from ncubble.profiling.sweeps.cluster import running

            return _on(running(scheduler), None, planned, store, limit_s, options)
        machine = _this_machine(named)
        from ncubble.profiling.sweeps.cluster import default_gpus, local
        from ncubble.profiling.sweeps.sweep import plan

        known = plan(planned.jobs, store, machine, planned.tools, options)
        if not known.todo:
            return planned, known, dict(known.held)
        chosen = default_gpus(machine.gpus) or [""]
        return _on(local(chosen), len(chosen), planned, store, limit_s, options)


def _named(gpus: str) -> list[str]:
    """The entries of ``--gpus``; raises UsageError for a duplicate."""
    from ncubble.errors import UsageError

    named = [name.strip() for name in gpus.split(",")] if gpus else []
    if twice := sorted({name for name in named if named.count(name) > 1}):
        message = f"--gpus names {', '.join(twice)} twice: only one profiler at a time can use a GPU's counters"
        raise UsageError(message, "name every GPU once")
    if not all(named):
        raise UsageError(f"--gpus {gpus}: an entry is empty", "for example --gpus 0,1")
    return named


def _this_machine(gpus: Sequence[str]) -> Machine:
    """Description of this host, from its first GPU; from here on only ``gpus`` are visible, if
    given. Raises NoWorkerError if nothing can be profiled.
    """
    import os

    from ncubble.profiling.sweeps.team import NoWorkerError
    from ncubble.profiling.sweeps.worker import probe

    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    machine = probe(CHILD)
    if machine.why_not:
        raise NoWorkerError([f"{machine.host}: {machine.why_not}"], 0)
    return machine


def _on(
    cluster: AbstractContextManager[Any],
    expected: int | None,
    planned: Planned,
    store: Store,
    limit_s: float,
    options: Options,
) -> tuple[Planned, SweepPlan, dict[str, Record]]:
    from ncubble.cli.commands.sweep.progress import progress
    from ncubble.profiling.sweeps import sweep as engine
    from ncubble.profiling.sweeps.pool import DaskPool

    with cluster as client:
        pool = DaskPool(client, CHILD, limit_s)
        try:
            there = pool.open()
            team = engine.gather(pool, expected or there, planned.tools, options)
            machine = next(iter(team.machines.values()))
            known = engine.plan(planned.jobs, store, machine, planned.tools, options)
            records = dict(known.held)
            with progress(known, team) as shown:

                def settled(task: Task, record: Record) -> None:
                    records[task.key] = record
                    shown.settled(task, record)

                engine.sweep(known.todo, store, pool, team, options, settled, shown.tell)
            return planned, known, records
        finally:
            pool.close()
