"""Profiling of a program or of a catalog kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.api.reports import ReportPath, ReportSet, as_names, as_path, load
from ncubble.errors import MeasurementError

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
    without: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    shape: Mapping[str, int] | None = None,
    catalog: ReportPath | None = None,
    repeat: int = 1,
    timeout_s: float | None = None,
    ncu: Mapping[str, str | Sequence[str]] | None = None,
    on_output: Callable[[str], None] | None = None,
) -> ReportSet:
    """Profile a program under Nsight Compute and load the run; needs a GPU and ``ncu``.

    ``program``: a list, the program and its arguments (``["python", "train.py"]``, run without a
    shell), or a string, the name of a catalog kernel, which takes ``parameters``, ``shape``,
    ``catalog`` (a folder of kernels of your own) and ``repeat`` (launches). ``out``: the run
    directory to write (default: a new one below ``runs``); ``force`` replaces it. ``sets`` and
    ``metrics``: what to collect (default: the default sets). ``kernel``: only kernels whose
    demangled name matches; ``without``: none of these (None: without ``kernel``, none that wait for
    other GPUs). ``nvtx``: only launches in this range. ``skip`` and ``count``: which of the
    matching launches. ``ncu``: options of ncu (``section``, ``replay-mode``,
    ``pm-sampling-interval``, ``cache-control``). ``timeout_s``: stop the run after this many
    seconds. ``on_output`` is called with each line that the program prints, e.g.
    ``on_output=print``.

    Raises UsageError for a wrong request, and MeasurementError, with a remedy, if nothing can be
    measured (no GPU, no permission, no kernel); nothing is left on disk then. If the program failed
    after kernels were profiled, or a metric that the account needs has no value, the run is kept
    and MeasurementError is raised.
    """
    from ncubble.api.subjects import given_subject
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS
    from ncubble.profiling.ncu import Filters
    from ncubble.profiling.recorders.ncu import NcuSettings
    from ncubble.profiling.session import Observer

    subject = given_subject(program, parameters, shape, catalog, repeat)
    settings = NcuSettings(
        sets=tuple(as_names(sets)) or DEFAULT_SETS,
        metrics=tuple(as_names(metrics)),
        filters=Filters(kernel, nvtx, skip, count, without=without),
        options=[(name, one) for name, value in (ncu or {}).items() for one in as_names(value)],
        keep_failed=True,
    )
    run = record_profile(
        subject, settings, as_path(out), force=force, timeout_s=timeout_s, observer=Observer.of_lines(on_output)
    )
    require_whole(run)
    return load(run.path)


def require_whole(run: Run) -> None:
    """Raise MeasurementError where a run that was kept lacks something: its program failed, or the
    account lacks metrics."""
    from ncubble.profiling.failures import MetricUnavailableError

    if run.manifest.outcome == "failed":
        remedy = f"what was profiled until then is in {run.path}; run the program without the profiler to fix its error"
        raise MeasurementError(run.manifest.notes[0], remedy)
    if run.manifest.outcome != "ok":
        raise MetricUnavailableError(str(run.path), ", ".join(run.manifest.report["missing"]))


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
    ``profile`` does, but where the run is kept: ``manifest.outcome`` is ``incomplete`` then, or,
    where ``settings`` keep what failed, ``failed``.
    """
    from ncubble.profiling.recorders import ncu
    from ncubble.profiling.session import Observer, Session, run_folder

    observer = observer or Observer()
    settings = settings or ncu.NcuSettings()
    if subject.note:
        observer.say(f"note: {subject.note}")
    if settings.filters.without is None and settings.filters.left_out and not subject.function:
        observer.say("note: kernels that wait for other GPUs, as NCCL's, are left out; --without '' profiles them")
    session = Session(subject, run_folder(out, subject.label), force, timeout_s, observer)
    return ncu.profile(session, settings)
