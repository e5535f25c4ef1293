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
    from ncubble.profiling.recorders.ncu import NcuSettings
    from ncubble.profiling.runs import Run
    from ncubble.profiling.session import Observer
    from ncubble.profiling.subject import Subject


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
    from ncubble.profiling.ncu import Control, Filters
    from ncubble.profiling.recorders.ncu import NcuSettings
    from ncubble.profiling.session import Observer

    of_kernel = {"parameters": parameters, "shape": shape, "catalog": catalog, "repeat": repeat != 1}
    if isinstance(program, str):
        subject = _kernel(program, parameters, shape, catalog, repeat)
    else:
        subject = _program(program, of_kernel)
    settings = NcuSettings(
        sets=tuple(as_names(sets)) or DEFAULT_SETS,
        metrics=tuple(as_names(metrics)),
        filters=Filters(kernel, nvtx, skip, count),
        control=Control(clock_control, cache_control),
    )
    place = as_paths([out])[0] if out is not None else None
    heard = Observer(output=lambda _, text: on_output(text.rstrip("\n"))) if on_output else None
    run = record_profile(subject, settings, place, force=force, timeout_s=timeout_s, observer=heard)
    if run.manifest.outcome != "ok":
        from ncubble.profiling.failures import MetricUnavailableError

        raise MetricUnavailableError(str(run.path), ", ".join(run.manifest.report["missing"]))
    return load(run.path)


def record_profile(
    subject: Subject,
    settings: NcuSettings | None = None,
    out: Path | None = None,
    *,
    force: bool = False,
    timeout_s: float | None = None,
    observer: Observer | None = None,
) -> Run:
    """Profile a subject into ``out`` (None: a new folder in ``runs``) and return the run. Raises as
    ``profile`` does, but for metrics without a value: ``manifest.outcome`` is ``incomplete`` then.
    """
    from ncubble.profiling.recorders import ncu
    from ncubble.profiling.session import Observer, Session, run_folder

    observer = observer or Observer()
    if subject.note:
        observer.say(f"note: {subject.note}")
    session = Session(subject, run_folder(out, subject.label), force, timeout_s, observer)
    return ncu.profile(session, settings)


def _program(program: Sequence[ReportPath], of_kernel: Mapping[str, object]) -> Subject:
    """A program in a list. Raises UsageError if there is no such program."""
    from ncubble.profiling.subject import Subject

    given = [name for name, value in of_kernel.items() if value]
    if given:
        raise UsageError(f"{given[0]} is for catalog kernels only", "pass it to the program in the list")
    argv = [os.fspath(word) for word in program]
    if not argv:
        raise UsageError("the list names no program", "pass it and its arguments: ['python', 'train.py']")
    return Subject.of_program(argv)


def _kernel(
    name: str,
    parameters: Mapping[str, Any] | None,
    shape: Mapping[str, int] | None,
    catalog: ReportPath | None,
    repeat: int,
) -> Subject:
    """A catalog kernel by its name."""
    from ncubble.api.subjects import as_pairs, catalog_subject

    if len(name.split()) != 1 or os.sep in name:
        raise UsageError(f"{name!r} is not a catalog kernel", "pass a program as a list: ['python', 'train.py']")
    folder = as_paths([catalog])[0] if catalog is not None else None
    return catalog_subject(name, as_pairs(parameters), ",".join(as_pairs(shape)), folder, repeat)
