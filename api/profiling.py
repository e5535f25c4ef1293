"""Profiling of a program or of a catalog kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.api.loading import ReportPath, as_paths, load
from ncubble.api.reports import ReportSet, as_names
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.profiling.runs.run import Run


def profile(
    program: Sequence[ReportPath] | str,
    *,
    out: ReportPath | None = None,
    force: bool = False,
    sets: str | Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    kernel: str = "",
    nvtx: str = "",
    skip: int = 0,
    count: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    shape: Mapping[str, int] | None = None,
    catalog: ReportPath | None = None,
    repeat: int = 1,
    timeout_s: float | None = None,
    clock_control: str = "none",
    cache_control: str = "all",
    on_output: Callable[[str], None] | None = None,
) -> ReportSet:
    """Profile a program under Nsight Compute and load the run; needs a GPU and ``ncu``.

    ``program``: a list, the program and its arguments (``["python", "train.py"]``, run without a
    shell), or a string, the name of a catalog kernel, which takes ``parameters``, ``shape``,
    ``catalog`` (a folder of kernels of your own) and ``repeat`` (launches). ``out``: the run
    directory to write (default: a new one below ``runs``); ``force`` replaces it. ``sets`` and
    ``metrics``: what to collect (default: the default sets). ``kernel``: only kernels whose
    demangled name matches. ``nvtx``: only launches in this range. ``skip`` and ``count``: which of
    the matching launches. ``timeout_s``: stop the run after this many seconds. ``on_output`` is
    called with each line that the program prints, e.g. ``on_output=print``.

    Raises UsageError for a wrong request, and MeasurementError, with a remedy, if nothing can be
    measured (no GPU, no permission, the program failed); nothing is left on disk then. If a metric
    that the account needs has no value, the run is kept and MetricUnavailableError is raised.
    """
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS
    from ncubble.profiling.ncu.ncu import Control, Filters
    from ncubble.profiling.runs import ranks, session, staging

    of_kernel = {"parameters": parameters, "shape": shape, "catalog": catalog, "repeat": repeat != 1}
    if isinstance(program, str):
        argv, label, function = _kernel(program, parameters, shape, catalog, repeat)
    else:
        argv, label, function = *_argv(program, of_kernel), ""
    place = as_paths([out])[0] if out is not None else staging.default_out(label)
    request = session.ProfileRequest(
        program=argv,
        out=ranks.folder_of(place, ranks.of_environ(), named=out is not None),
        sets=tuple(as_names(sets)) or DEFAULT_SETS,
        metrics=tuple(as_names(metrics)),
        filters=Filters(kernel or function, nvtx, skip, count),
        control=Control(clock_control, cache_control),
        timeout_s=timeout_s,
        force=force,
    )
    heard = session.Observer(output=lambda _, line: on_output(line)) if on_output else None
    return _loaded(session.profile(request, heard))


def _loaded(run: Run) -> ReportSet:
    """The loaded run. Raises MetricUnavailableError if it lacks metrics that the account needs."""
    from ncubble.profiling.ncu.failures import MetricUnavailableError

    if run.manifest.outcome != "ok":
        raise MetricUnavailableError(str(run.path), run.manifest.report["missing"])
    return load(run.path)


def _argv(program: Sequence[ReportPath], of_kernel: Mapping[str, object]) -> tuple[list[str], str]:
    """The argv of a program and the label of its run. Raises UsageError if there is no such
    program."""
    given = [name for name, value in of_kernel.items() if value]
    if given:
        raise UsageError(f"{given[0]} is for catalog kernels only", "pass it to the program in the list")
    from ncubble.profiling.processes.process import require_program

    argv = [os.fspath(word) for word in program]
    if not argv:
        raise UsageError("the list names no program", "pass it and its arguments: ['python', 'train.py']")
    require_program(argv)
    return argv, Path(argv[0]).name


def _kernel(
    name: str,
    parameters: Mapping[str, Any] | None,
    shape: Mapping[str, int] | None,
    catalog: ReportPath | None,
    repeat: int,
) -> tuple[list[str], str, str]:
    """The argv that launches a catalog kernel, the label of its run, and its GPU function."""
    from ncubble.kernels.run.program import kernel_program

    if len(name.split()) != 1 or os.sep in name:
        raise UsageError(f"{name!r} is not a catalog kernel", "pass a program as a list: ['python', 'train.py']")
    pairs = [f"{key}={value}" for key, value in (parameters or {}).items()]
    sizes = ",".join(f"{key}={value}" for key, value in (shape or {}).items())
    folder = as_paths([catalog])[0] if catalog is not None else None
    program = kernel_program(name, pairs, sizes or None, folder, repeat)
    return program.argv, program.label, program.function
