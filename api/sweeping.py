"""Sweeps: a catalog kernel profiled at every point of a grid of its parameters and shapes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ncubble.api.sweep_child import CHILD
from ncubble.errors import UsageError
from ncubble.profiling.session import Observer
from ncubble.profiling.sweeps.grid import Point, choose, parse_axes
from ncubble.profiling.sweeps.store import Record, Store, SweepJob
from ncubble.profiling.sweeps.worker import NoWorkerError, measured_here, probe
from ncubble.records import JsonObject

if TYPE_CHECKING:
    from ncubble.analysis.diagnosis.verdict import LaunchVerdict
    from ncubble.kernels.spec.spec import KernelSpec

NVCC = ("ncu", "nvcc")
TOOLS = {"cuda": NVCC, "host": NVCC, "numba": (*NVCC, "numba"), "triton": ("ncu", "triton")}
"""Programs whose versions identify a measurement, by language of the kernel's source."""
OF_KERNEL = ("kernel", "parameters", "shape")
OF_LAUNCH = ("duration_ns", "tensor_elapsed_pct", "dram_pct", "cause", "change")


@dataclass(frozen=True)
class SweepPlan:
    """``jobs`` in the order of the grid, points that the kernel ``refused`` with the reason, and
    ``tools``, see ``TOOLS``."""

    jobs: list[SweepJob]
    refused: list[tuple[Point, str]]
    tools: tuple[str, ...]

    def to_json(self) -> JsonObject:
        """``jobs`` and ``refused``."""
        jobs = [{"point": job.point, **{name: job.about[name] for name in OF_KERNEL}} for job in self.jobs]
        return {"jobs": jobs, "refused": [{"point": point, "reason": reason} for point, reason in self.refused]}


@dataclass(frozen=True)
class SweptPoint:
    """A job, its record, and the verdicts of its launches."""

    job: SweepJob
    record: Record
    launches: tuple[LaunchVerdict, ...]

    def to_json(self) -> JsonObject:
        """What was measured at the point, or why nothing was."""
        attempts = self.record.attempts
        return {
            "point": dict(self.job.point),
            **{name: self.job.about[name] for name in OF_KERNEL},
            "state": self.record.state,
            "run": self.record.run,
            "error": self.record.error or None,
            "remedy": (attempts[-1].remedy if attempts else "") or None,
            "attempts": len(attempts),
            "launches": [{name: getattr(verdict, name) for name in OF_LAUNCH} for verdict in self.launches],
        }


@dataclass(frozen=True)
class SweepResult:
    """What a sweep left in ``store``: ``measured`` points now, ``held`` ones before."""

    store: Path
    device: str
    measured: int
    held: int
    points: tuple[SweptPoint, ...]

    @property
    def complete(self) -> bool:
        """Whether every point was measured, with all metrics that the account needs."""
        return all(point.record.state == "ok" for point in self.points)


def plan_sweep(
    name: str,
    axes: Sequence[str],
    settings: Sequence[str] = (),
    *,
    sample: int | None = None,
    catalog: Path | None = None,
    sets: Sequence[str] = (),
    repeat: int = 1,
) -> SweepPlan:
    """The jobs of a sweep of the kernel ``name``; needs no GPU.

    ``axes`` as ``stages=1:6``; ``settings`` (parameters and sizes) are fixed; ``sample``: only that
    many points of the grid. Raises UsageError for names that the kernel does not have, and if no
    combination is allowed.
    """
    from ncubble.kernels.catalog.registry import find_spec
    from ncubble.kernels.run.session import place, split
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS

    varied, folder = parse_axes(axes), catalog.resolve() if catalog else None
    spec = find_spec(name, folder)
    fixed: dict[str, JsonObject] = dict(zip(("parameters", "shape"), split(spec, settings), strict=True))
    where = {name: place(spec, name) for axis in varied for name in axis.names}
    for varying, (kind, inner) in where.items():
        if inner in fixed[kind]:
            raise UsageError(f"{varying} is both varied by -g and fixed by -p", "use only one of them")
    measured = {"collected": _collected(tuple(sets) or DEFAULT_SETS), "repeat": repeat}
    taken, refused = choose(varied, sample, partial(_job, spec, folder, fixed, where, measured))
    if not taken:
        reasons = "".join(f"\n    {text}" for text in dict.fromkeys(reason for _, reason in refused[:5]))
        message = f"{name} rejects all {len(refused)} combinations:{reasons}"
        raise UsageError(message, "`ncubble kernels` lists the values of each parameter")
    return SweepPlan([job for _, job in taken], refused, TOOLS[spec.language])


def _job(
    spec: KernelSpec,
    catalog: Path | None,
    fixed: Mapping[str, Mapping[str, Any]],
    where: Mapping[str, tuple[str, str]],
    measured: Mapping[str, Any],
    point: Point,
) -> SweepJob:
    """What is measured at a point (its ``about`` makes the key of the store), and the order for
    ``sweep_child.measure``. Raises UsageError where the kernel refuses the point."""
    from ncubble.api.subjects import as_pairs
    from ncubble.kernels.build import code_digest
    from ncubble.kernels.run.session import parse_shape
    from ncubble.kernels.spec.case import make_case

    given = {kind: dict(values) for kind, values in fixed.items()}
    for name, value in point.items():
        kind, inner = where[name]
        given[kind][inner] = value
    case = make_case(spec, given["parameters"], parse_shape([",".join(as_pairs(given["shape"]))]))
    code = code_digest(case)
    kernel = {"kernel": spec.name, "parameters": dict(case.settings), "shape": dict(case.shape)}
    about = {**kernel, "code": code, **measured, "controls": ["none", "all"]}
    order = {
        "kernel": spec.name,
        "settings": as_pairs({**case.parameters, **case.shape}),
        "catalog": str(catalog) if catalog else None,
        "repeat": measured["repeat"],
        "sets": measured["collected"]["sets"],
        "code": code,
    }
    return SweepJob(about, order, dict(point), " ".join([spec.name, *as_pairs(point)]))


def _collected(sets: Sequence[str]) -> JsonObject:
    """Content of the metric sets: a set whose counters changed counts as another set, whatever its
    name."""
    from ncubble.profiling.metrics.metrics import resolve

    chosen = resolve(sets)
    lists = (chosen.metrics, chosen.sections, chosen.ncu_sets, sorted(chosen.required), sorted(chosen.slim.items()))
    digest = hashlib.sha256(repr((lists, chosen.import_source)).encode()).hexdigest()
    return {"sets": list(sets), "metrics": [], "sha256": digest}


def sweep(
    planned: SweepPlan,
    out: Path,
    *,
    scheduler: str = "",
    gpus: Sequence[str] = (),
    timeout_s: float = 300.0,
    retry_failed: bool = False,
    observer: Observer | None = None,
    settled: Callable[[SweepJob, Record, int, int], None] = lambda job, record, done, total: None,
) -> SweepResult:
    """Profile at every point that the store ``out`` does not hold: on this host's GPUs (or only on
    ``gpus``, by number or UUID), or on the Dask cluster of a ``scheduler`` (there, ``gpus`` may
    name the model). One GPU needs no Dask.

    ``timeout_s`` is for each job. ``settled`` is called with each job that was done, its record,
    and how many of how many are. Raises UsageError and MeasurementError; what was measured until
    then is kept, and the same call continues.
    """
    from ncubble.profiling.sweeps import cluster

    observer = observer or Observer()
    _check(scheduler, gpus, timeout_s)
    tools, client, many, name = planned.tools, None, 1, f"ncubble-{uuid4().hex}"
    with Store(out) as store, ExitStack() as stack:
        if scheduler:
            client = stack.enter_context(cluster.running(scheduler))
            model = gpus[0] if gpus else ""
            machine, many = cluster.common_machine(client, CHILD, tools, name, model, observer.say)
        else:
            machine = probe(CHILD, ",".join(gpus))
            if machine.why_not:
                raise NoWorkerError([f"{machine.host}: {machine.why_not}"])
        todo, held = store.plan(planned.jobs, machine, tools, retry_failed)
        if not scheduler and todo and len(chosen := cluster.chosen_gpus(machine.gpus, gpus)) > 1:
            client, many = stack.enter_context(cluster.local(chosen)), len(chosen)
        stored = f", {len(held)} are already in the store" if held else ""
        observer.say(f"{len(todo)} jobs on {many} GPU{'s' * (many > 1)} ({machine.device}){stored}")
        if client is None:
            replies = measured_here(todo, CHILD, timeout_s, machine, observer.say)
        else:
            call = cluster.WorkerCall(CHILD, timeout_s, machine.kind(tools), tools, name)
            replies = cluster.measured(client, todo, call, observer.say)
        records = dict(held)
        with closing(replies):
            for key, reply in replies:
                records[key] = store.settle(key, todo[key], reply)
                settled(todo[key], records[key], len(records) - len(held), len(todo))
    launches = _verdicts(out, records, observer)
    keys = {job.key(machine, tools): job for job in planned.jobs}
    points = (SweptPoint(job, records[key], tuple(launches[records[key].run])) for key, job in keys.items())
    return SweepResult(out, machine.device, len(todo), len(held), tuple(points))


def _check(scheduler: str, gpus: Sequence[str], timeout_s: float) -> None:
    if not timeout_s > 0:
        raise UsageError(f"--timeout {timeout_s:g}: not a positive number of seconds", "give a positive number")
    if not all(gpus):
        raise UsageError("--gpus: an entry is empty", "for example --gpus 0,1")
    if twice := sorted({name for name in gpus if gpus.count(name) > 1}):
        message = f"--gpus names {', '.join(twice)} twice: only one profiler at a time can use a GPU's counters"
        raise UsageError(message, "name every GPU once")
    if scheduler and len(gpus) > 1:
        raise UsageError("with --scheduler, --gpus names one model of GPU", "for example --gpus 'NVIDIA H200'")


def _verdicts(folder: Path, records: Mapping[str, Record], observer: Observer) -> dict[str | None, list[LaunchVerdict]]:
    """Verdicts of the runs, by run directory name."""
    from ncubble.analysis.diagnosis.results import judge_all
    from ncubble.analysis.report.report import open_reports

    paths = {str(folder / record.run): record.run for record in records.values() if record.run}
    opened = open_reports(map(Path, paths), lambda done, total: observer.doing(f"reading report {done} of {total}"))
    by_run: defaultdict[str | None, list[LaunchVerdict]] = defaultdict(list)
    for verdict in judge_all(*opened).verdicts:
        by_run[paths.get(verdict.report)].append(verdict)
    return by_run
