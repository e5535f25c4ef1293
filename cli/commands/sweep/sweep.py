"""``ncubble sweep``: a kernel over a grid of parameters and shapes, on every GPU of this host or of a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ncubble.cli.commands.sweep import options as asks
from ncubble.cli.commands.sweep.job import CHILD
from ncubble.cli.running import ended_by_signals

if TYPE_CHECKING:
    from ncubble.cli.commands.sweep.plan import Planned
    from ncubble.profiling.sweeps.job import Machine
    from ncubble.profiling.sweeps.store import Store
    from ncubble.profiling.sweeps.sweep import Options, SweepPlan

LIMIT_S = 300.0


def register(app: typer.Typer) -> None:
    """Add this group's commands to ``app``."""
    app.command("sweep")(sweep)


def sweep(
    name: asks.Name,
    axis: asks.Axes = None,
    parameter: asks.Parameters = None,
    shape: asks.Shape = None,
    sample: asks.Sample = None,
    method: asks.Method = "grid",
    seed: asks.Seed = 0,
    catalog: asks.Catalog = None,
    set_: asks.Sets = None,
    metric: asks.Metrics = None,
    repeat: asks.Repeat = 1,
    clock_control: asks.ClockControl = "none",
    cache_control: asks.CacheControl = "all",
    out: asks.Out = None,
    scheduler: asks.Scheduler = "",
    gpus: asks.Gpus = "",
    device: asks.DeviceName = "",
    timeout: asks.Timeout = LIMIT_S,
    wait: asks.Wait = 60.0,
    retry_failed: asks.RetryFailed = False,
    dry_run: asks.DryRun = False,
    json: asks.Json = False,
) -> None:
    """Profile a kernel at every point of a grid, and keep each run. What the store holds is not measured again.

    Interrupt it at any time: the same command goes on with what is missing. Exit code 3 where points failed.
    """
    from ncubble.cli.commands.sweep import plan as sweep_plan
    from ncubble.cli.commands.sweep import render as sweep_render
    from ncubble.errors import UsageError
    from ncubble.profiling.sweeps.grid import Sampling
    from ncubble.profiling.sweeps.sweep import Options

    if scheduler and gpus:
        raise UsageError("--gpus is for this host, --scheduler for a cluster", "give one of them")
    if not timeout > 0 or not wait >= 0:
        raise UsageError(f"--timeout {timeout:g} --wait {wait:g}: not a number of seconds", "give positive numbers")
    sampling = Sampling.of(method, sample, seed)
    texts = axis or [], parameter or [], shape
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
) -> tuple[Planned, SweepPlan, dict[str, Any]]:
    """Do what is to be done; returns what was planned, under which names, and the record of every job by its key."""
    from ncubble.profiling.sweeps.store import Store

    named = _named(gpus)
    with ended_by_signals(f"what was measured is in {folder}, the same command goes on"), Store(folder) as store:
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
    """The entries of ``--gpus``; raises UsageError for one that is there twice."""
    from ncubble.errors import UsageError

    named = [name.strip() for name in gpus.split(",")] if gpus else []
    if twice := sorted({name for name in named if named.count(name) > 1}):
        message = f"--gpus names {', '.join(twice)} twice: the counters of a GPU serve one profiler at a time"
        raise UsageError(message, "name every GPU once")
    if not all(named):
        raise UsageError(f"--gpus {gpus}: an entry is empty", "write it like --gpus 0,1")
    return named


def _this_machine(gpus: Sequence[str]) -> Machine:
    """What this host is, by the first of its GPUs, of which only ``gpus`` are seen from here on, if there are any.

    Raises NoWorkerError where nothing can be profiled.
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
) -> tuple[Planned, SweepPlan, dict[str, Any]]:
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

                def settled(task: Any, record: Any) -> None:
                    records[task.key] = record
                    shown.settled(task, record)

                engine.sweep(known.todo, store, pool, team, options, settled, shown.tell)
            return planned, known, records
        finally:
            pool.close()
