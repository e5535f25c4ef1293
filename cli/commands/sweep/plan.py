"""Plans ``ncubble sweep``: turns options and axes into jobs, and collects rejected combinations."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.errors import UsageError
from ncubble.profiling.sweeps.grid import Axis, Chosen, Sampling, choose, parse_axes
from ncubble.profiling.sweeps.job import SweepJob
from ncubble.text.remedies import known_names

if TYPE_CHECKING:
    from ncubble.kernels.spec.case import Case
    from ncubble.kernels.spec.spec import KernelSpec

SHAPE_PREFIX = "shape."
TOOLS = {"cuda": ("ncu", "nvcc"), "host": ("ncu", "nvcc"), "numba": ("ncu", "nvcc", "numba")}
"""Programs whose versions identify a measurement, by language of the kernel's source."""


@dataclass(frozen=True)
class SweepRequest:
    """The kernel, varied and fixed settings, and how each point is measured."""

    name: str
    axes: tuple[Axis, ...]
    sampling: Sampling
    parameters: Mapping[str, Any]
    shape: Mapping[str, int]
    catalog: Path | None
    sets: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    repeat: int = 1
    clock_control: str = "none"
    cache_control: str = "all"


@dataclass(frozen=True)
class Planned:
    """``jobs`` in the order of the grid; ``refused`` points with the reason; ``tools`` see ``TOOLS``."""

    jobs: list[SweepJob]
    refused: list[tuple[dict[str, str], str]]
    notes: list[str]
    tools: tuple[str, ...]


def sweep_request(
    name: str,
    axes: Sequence[str],
    parameters: Sequence[str],
    shape: str | None,
    sampling: Sampling,
    catalog: Path | None,
    sets: Sequence[str],
    metrics: Sequence[str],
    repeat: int,
    controls: tuple[str, str] = ("none", "all"),
) -> SweepRequest:
    """Request from the command line, with all checks that need no kernel; raises UsageError."""
    from ncubble.kernels.run.session import parse_parameters, parse_shape
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS, resolve
    from ncubble.profiling.ncu import Control

    varied = parse_axes(axes)
    fixed, sizes = parse_parameters(parameters), parse_shape([shape] if shape else [])
    resolve(tuple(sets or DEFAULT_SETS), tuple(metrics))
    Control(*controls)
    folder = catalog.resolve() if catalog else None
    chosen = tuple(sets or DEFAULT_SETS)
    return SweepRequest(name, varied, sampling, fixed, sizes, folder, chosen, tuple(metrics), repeat, *controls)


def plan(request: SweepRequest) -> Planned:
    """The jobs; raises UsageError for names that the kernel does not have, and if no combination is
    allowed."""
    from ncubble.kernels.catalog.registry import find_spec

    spec = find_spec(request.name, request.catalog)
    where = {name: _place(spec, name) for axis in request.axes for name in axis.names}
    _refuse_both(request, where)
    collected = _collected(request.sets, request.metrics)
    chosen: Chosen = choose(request.axes, request.sampling, lambda point: _job(request, spec, where, collected, point))
    if not chosen.taken:
        reasons = "".join(f"\n    {text}" for text in dict.fromkeys(reason for _, reason in chosen.refused[:5]))
        raise UsageError(f"{request.name} rejects all {len(chosen.refused)} combinations:{reasons}", "vary others")
    return Planned([job for _, job in chosen.taken], chosen.refused, chosen.notes, TOOLS[spec.language])


def _place(spec: KernelSpec, name: str) -> tuple[str, str]:
    """``("parameters" or "shape", its name there)`` of a name on an axis; raises UsageError for an
    unknown name."""
    parameters, dims = [item.name for item in spec.parameters], [dim.name for dim in spec.dims]
    if name.startswith(SHAPE_PREFIX) and name.removeprefix(SHAPE_PREFIX) in dims:
        return "shape", name.removeprefix(SHAPE_PREFIX)
    if name in parameters and name in dims:
        message = f"-g {name}: {spec.name} has a parameter and a dimension of this name"
        raise UsageError(message, f"write {SHAPE_PREFIX}{name} for the dimension, -p {name}=… to fix the parameter")
    if name in parameters or name in dims:
        return ("parameters" if name in parameters else "shape"), name
    remedy = known_names(name, [*parameters, *dims])
    raise UsageError(f"-g {name}: {spec.name} has no parameter or dimension of this name", remedy)


def _refuse_both(request: SweepRequest, where: Mapping[str, tuple[str, str]]) -> None:
    fixed = {"parameters": request.parameters, "shape": request.shape}
    for name, (kind, inner) in where.items():
        if inner in fixed[kind]:
            option = "-p" if kind == "parameters" else "--shape"
            raise UsageError(f"{name} is both varied by -g and fixed by {option}", "use only one of them")


def _job(
    request: SweepRequest,
    spec: KernelSpec,
    where: Mapping[str, tuple[str, str]],
    collected: Mapping[str, Any],
    point: Mapping[str, str],
) -> SweepJob:
    from ncubble.kernels.build import code_digest
    from ncubble.kernels.run.session import parse_shape
    from ncubble.kernels.spec.case import make_case

    given: dict[str, dict[str, Any]] = {"parameters": dict(request.parameters), "shape": dict(request.shape)}
    for name, value in point.items():
        kind, inner = where[name]
        given[kind][inner] = value
    sizes = parse_shape([",".join(f"{name}={size}" for name, size in given["shape"].items())])
    case = make_case(spec, given["parameters"], sizes)
    code = code_digest(case)
    settings = [f"{name}={value}" for name, value in point.items()]
    about = {
        "kernel": spec.name,
        "parameters": dict(case.settings),
        "shape": dict(case.shape),
        "code": code,
        "collected": dict(collected),
        "repeat": request.repeat,
        "controls": [request.clock_control, request.cache_control],
    }
    order = _order(request, case, code)
    return SweepJob(about, order, dict(point), " ".join([spec.name, *settings]))


def _order(request: SweepRequest, case: Case, code: str) -> dict[str, Any]:
    """The order for ``job.measure``."""
    return {
        "kernel": case.spec.name,
        "parameters": [f"{name}={value}" for name, value in case.parameters.items()],
        "shape": ",".join(f"{name}={size}" for name, size in case.shape.items()),
        "catalog": str(request.catalog) if request.catalog else None,
        "repeat": request.repeat,
        "sets": list(request.sets),
        "metrics": list(request.metrics),
        "clock_control": request.clock_control,
        "cache_control": request.cache_control,
        "code": code,
    }


def _collected(sets: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    """Content of the metric sets: a set whose counters changed counts as another set, whatever its
    name."""
    from ncubble.profiling.metrics.metrics import resolve

    chosen = resolve(sets, metrics)
    lists = (chosen.metrics, chosen.sections, chosen.ncu_sets, sorted(chosen.required), sorted(chosen.slim.items()))
    digest = hashlib.sha256(repr((lists, chosen.import_source)).encode()).hexdigest()
    return {"sets": list(sets), "metrics": list(metrics), "sha256": digest}
