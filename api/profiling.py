"""Profiling of a program or of a catalog kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.api.reports import ReportPath, ReportSet, as_names, as_path, load

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
    from ncubble.api.subjects import given_subject
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS
    from ncubble.profiling.ncu import Control, Filters
    from ncubble.profiling.recorders.ncu import NcuSettings
    from ncubble.profiling.session import Observer

    subject = given_subject(program, parameters, shape, catalog, repeat)
    settings = NcuSettings(
        sets=tuple(as_names(sets)) or DEFAULT_SETS,
        metrics=tuple(as_names(metrics)),
        filters=Filters(kernel, nvtx, skip, count),
        control=Control(clock_control, cache_control),
    )
    run = record_profile(
        subject, settings, as_path(out), force=force, timeout_s=timeout_s, observer=Observer.of_lines(on_output)
    )
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
