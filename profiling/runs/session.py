"""One profiling run, from a program's argv to a run directory on disk."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncubble.errors import UsageError
from ncubble.profiling.devices.driver import Device, DriverError, describe
from ncubble.profiling.metrics import slim
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, MetricSelection, Target, resolve
from ncubble.profiling.ncu import failures, ncu
from ncubble.profiling.ncu.log import NcuLog, ReplayedLaunch, Stream
from ncubble.profiling.ncu.readback import read_back
from ncubble.profiling.processes import process
from ncubble.profiling.runs import provenance, ranks, staging
from ncubble.profiling.runs.run import Manifest, Run
from ncubble.store import sync

_FULL_B = 1 << 20  # less free space than this next to a failed run: the disk was full


@dataclass(frozen=True)
class ProgramPlace:
    """Where a program runs: its working directory (None: the current one), what is added to the
    environment, and the state of the source tree that the manifest keeps (None: read off the
    directory by ``provenance.git_state``)."""

    folder: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ProfileRequest:
    """What is to be profiled and how. ``program`` is an argv, run in ``place``; ``out`` is relative
    to here; ``turn`` is held while the program runs."""

    program: Sequence[str]
    out: Path
    sets: Sequence[str] = DEFAULT_SETS
    metrics: Sequence[str] = ()
    filters: ncu.Filters = field(default_factory=ncu.Filters)
    control: ncu.Control = field(default_factory=ncu.Control)
    timeout_s: float | None = None
    compress: bool = True
    force: bool = False
    place: ProgramPlace = field(default_factory=ProgramPlace)
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(
                f"--timeout {self.timeout_s}: not a positive number of seconds",
                "give a positive number of seconds, or omit it",
            )


@dataclass(frozen=True)
class Observer:
    """Who hears of the progress: of each launch while it is replayed, and of each line that the
    program prints."""

    launch: Callable[[ReplayedLaunch], None] = lambda launch: None
    output: Callable[[Stream, str], None] = lambda stream, line: None


def profile(request: ProfileRequest, observer: Observer | None = None) -> Run:
    """Profile a program and return the run, which is then on disk at ``request.out``; on any
    failure nothing is.

    ``manifest.outcome`` is ``incomplete`` where a metric came back n/a that the account needs;
    ``manifest.report`` lists all that did under ``missing``. Raises UsageError, and the
    MeasurementErrors of ``profiling.failures``.
    """
    staging.check_target(request.out, request.force)
    resolve(request.sets, request.metrics)  # a wrong name is wrong on every machine: report it first
    tool = ncu.find_ncu()
    gpu = _gpu()
    capability = gpu.capability if isinstance(gpu, Device) else None
    selection = resolve(request.sets, request.metrics, Target(capability, tool.version))
    with staging.staged(request.out, request.force) as folder:
        _record(folder, request, tool, selection, gpu, observer or Observer())
    return Run.load(request.out)


def _record(
    folder: Path,
    request: ProfileRequest,
    tool: ncu.Ncu,
    selection: MetricSelection,
    gpu: Device | DriverError,
    observer: Observer,
) -> None:
    """Fill ``folder`` with the report and its manifest."""
    started, stem, facts_file = provenance.utc_now(), folder.absolute() / "report", folder.absolute() / "facts.json"
    slimmed = slim.prepare(folder.absolute() / "sections", selection, slim.stock_sections(tool.path, tool.release))
    selection = slimmed.selection
    argv = ncu.ncu_argv(
        _located(tool.path), stem, request.program, selection, request.filters, request.control, slimmed.folders
    )
    log = _run(argv, request, observer, facts_file, gpu)
    ended, raw = provenance.utc_now(), stem.with_suffix(".ncu-rep")
    missing = _missing(tool, raw, log, selection)
    filters = request.filters
    facts = provenance.read_facts(facts_file).of_launches(
        [launch.kernel for launch in log.profiled],
        filters.skip,
        limited=filters.count is not None or bool(filters.symbols),
    )
    facts_file.unlink(missing_ok=True)
    shutil.rmtree(folder / "sections", ignore_errors=True)
    device = gpu.as_facts() if isinstance(gpu, Device) else {}
    Manifest(
        outcome="incomplete" if selection.required.intersection(missing) else "ok",
        started=started,
        ended=ended,
        argv=portable(request.program),
        ncu_argv=portable([text.replace(str(folder.absolute()), str(request.out)) for text in argv]),
        ncu_version=tool.release,
        metric_set=list(selection.sets),
        git=_git_state(request.place),
        kernel=facts.members.get("kernel", {}),
        build=facts.members.get("build", {}),
        device={**device, **facts.members.get("device", {})},
        clocks=facts.members.get("clocks", {}),
        report=_stored(raw, request.compress, log, missing),
        notes=[*selection.notes, *facts.notes, *dict.fromkeys(_notable(log.warnings, request.control))],
        launches=list(facts.launches),
        rank=ranks.of_environ({**os.environ, **request.place.env}),
    ).save(folder)


def _run(
    argv: list[str], request: ProfileRequest, observer: Observer, facts: Path, gpu: Device | DriverError
) -> NcuLog:
    """Run ncu to its end; raises what its output says went wrong."""
    log = NcuLog(observer.launch, observer.output)
    try:
        env = {**os.environ, **request.place.env, provenance.FACTS: str(facts)}
        with request.turn:
            status = process.stream(argv, env, log.feed, request.timeout_s, request.place.folder)
    except process.TimedOutError as error:
        raise failures.TimeLimitError(request.timeout_s or 0.0, len(log.profiled)) from error
    log.close()
    problem = ncu.failure(log, status, str(request.filters))
    if problem is None:
        return log
    if shutil.disk_usage(facts.parent).free < _FULL_B:
        raise failures.DiskError(str(request.out), "no space left on the device") from problem
    if isinstance(gpu, DriverError) and isinstance(problem, failures.NoKernelError | failures.ProgramFailedError):
        raise failures.NoGpuError(str(gpu)) from problem
    raise problem


def _missing(tool: ncu.Ncu, report: Path, log: NcuLog, selection: MetricSelection) -> list[str]:
    """Metrics that were asked for and have no value. Raises NcuFailedError for a report without
    launches."""
    if not report.is_file():
        raise failures.NcuFailedError(0, f"it wrote no report; its output: {'; '.join(log.warnings) or 'nothing'}")
    back = read_back(tool.path, report)
    if back is None:
        log.warnings.append("the report could not be read back: metrics without a value (n/a) were not checked")
        return []
    if not back.launches:
        raise failures.NcuFailedError(0, f"its report has none of the {len(log.profiled)} profiled launches")
    return back.missing(selection.metrics)


def _stored(raw: Path, compress: bool, log: NcuLog, missing: list[str]) -> dict[str, Any]:
    """The manifest's ``report``, with the report in its final form on disk."""
    raw_bytes = raw.stat().st_size
    if compress:
        stored = staging.compress(raw)
    else:
        sync(raw)
        stored = raw
    return {
        "file": stored.name,
        "bytes": stored.stat().st_size,
        "sha256": provenance.sha256(stored),
        "raw_bytes": raw_bytes,
        "launches": [{"kernel": launch.kernel, "passes": launch.passes} for launch in log.profiled],
        "missing": missing,
    }


def _notable(warnings: list[str], control: ncu.Control) -> list[str]:
    """ncu's warnings without the one that says what was asked for: that the clocks are left
    alone."""
    return [text for text in warnings if not (control.clock == "none" and "unmodified GPU clocks" in text)]


def _located(tool: str) -> str:
    """The path of ncu as it is found from any directory; a bare name is looked up on PATH there,
    too."""
    return str(Path(tool).absolute()) if os.sep in tool else tool


def _git_state(place: ProgramPlace) -> dict[str, Any]:
    return dict(place.git) if place.git is not None else provenance.git_state(place.folder or Path.cwd())


def _gpu() -> Device | DriverError:
    try:
        return describe()
    except DriverError as error:
        return error


def portable(argv: Sequence[str]) -> list[str]:
    """Without what says nothing on another machine: the path of this interpreter, and whose home it
    is."""
    home = f"{Path.home()}{os.sep}"
    return ["python" if text == sys.executable else text.replace(home, f"~{os.sep}") for text in argv]
