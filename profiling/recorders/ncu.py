"""Records a program under ncu: its report, and what the manifest says of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from ncubble.errors import MeasurementError
from ncubble.profiling import failures, ncu, provenance
from ncubble.profiling.driver import Device, DriverError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, MetricSelection, Target, prepare, resolve, stock_sections
from ncubble.profiling.ncu import NcuLog, ReplayedLaunch, read_back
from ncubble.profiling.runs import SUFFIXES, Members, Run
from ncubble.profiling.session import Session, portable
from ncubble.store import sync

_FULL_B = 1 << 20  # less free space than this next to a failed run: the disk was full
_LEVEL = 19  # reports shrink some 20-fold; 0.1 s per MB
_LEVEL_LARGE = 10
_LARGE_B = 32 << 20


@dataclass(frozen=True)
class NcuSettings:
    """What ncu collects, of which launches, and how, by ``options`` of its own. Where ``filters``
    name no kernel, the subject's function is selected. ``keep_failed``: what was profiled before
    the program failed is kept, with ``failed`` for ``outcome``; else ProgramFailedError is raised.
    """

    sets: Sequence[str] = DEFAULT_SETS
    metrics: Sequence[str] = ()
    filters: ncu.Filters = field(default_factory=ncu.Filters)
    options: Sequence[tuple[str, str]] = ()
    keep_failed: bool = False

    def __post_init__(self) -> None:
        ncu.require_options(self.options)


def profile(session: Session, settings: NcuSettings | None = None) -> Run:
    """Profile the subject of ``session`` and return the run, which is then on disk; on any failure
    nothing is.

    ``manifest.outcome`` is ``incomplete`` where a metric came back n/a that the account needs;
    ``manifest.report`` lists all that did under ``missing``. Raises UsageError, and the
    MeasurementErrors of ``profiling.failures``.
    """
    settings = settings or NcuSettings()
    collected(session, settings)
    with session.open():
        record(session, settings)
    return Run.load(session.out)


def collected(session: Session, settings: NcuSettings) -> tuple[ncu.Ncu, MetricSelection]:
    """The ncu of this machine, and what it collects on this GPU. Raises UsageError, and
    MeasurementError without a usable ncu."""
    passed = (name for key, value in settings.options if key == "metrics" for name in value.split(","))
    metrics = [*settings.metrics, *passed]
    resolve(settings.sets, metrics)  # a wrong name is wrong on every machine: report it first
    tool = ncu.find_ncu()
    capability = session.gpu.capability if isinstance(session.gpu, Device) else None
    return tool, resolve(settings.sets, metrics, Target(capability, tool.version))


def record(session: Session, settings: NcuSettings, program: Sequence[str] = ()) -> None:
    """Profile into an open session its subject, or a ``program`` that stands for it. A failure
    leaves no file in its folder, so that it can be tried again."""
    tool, selection = collected(session, settings)
    filters = settings.filters if program else settings.filters.of(session.subject.function)
    work = Path(tempfile.mkdtemp(prefix="ncu-", dir=session.work))
    raw, facts_file = work / "report.ncu-rep", work / "facts.json"
    slimmed = prepare(work / "sections", selection, stock_sections(tool.path, tool.release))
    selection = slimmed.selection
    path = str(Path(tool.path).absolute()) if os.sep in tool.path else tool.path  # it runs in the subject's folder
    program = program or session.subject.argv
    argv = ncu.ncu_argv(path, raw.with_suffix(""), program, selection, filters, settings.options, slimmed.folders)
    log = _run(session, argv, facts_file, str(filters), settings.keep_failed)
    missing = _missing(tool, raw, log, selection)
    facts = provenance.read_facts(facts_file).of_launches(
        [launch.kernel for launch in log.profiled],
        filters.skip,
        limited=filters.count is not None or bool(filters.symbols),
    )
    known, outcome = facts.members, session.manifest.outcome
    session.record(
        outcome="incomplete" if outcome == "ok" and selection.required.intersection(missing) else outcome,
        ncu_argv=portable([text.replace(str(work), str(session.out)).replace(str(session.work), "…") for text in argv]),
        ncu_version=tool.release,
        metric_set=list(selection.sets),
        kernel=known.get("kernel", {}),
        build=known.get("build", {}),
        device={**session.manifest.device, **known.get("device", {})},
        clocks=known.get("clocks", {}),
        report=_kept(raw, session.folder, log, missing),
        launches=list(facts.launches),
    )
    session.note(
        *selection.notes, *facts.notes, *(text for text in log.warnings if "unmodified GPU clocks" not in text)
    )
    shutil.rmtree(work, ignore_errors=True)


def _run(session: Session, argv: list[str], facts: Path, wanted: str, keep_failed: bool) -> NcuLog:
    """Run ncu to its end; raises what its output says went wrong."""
    observer = session.observer

    def on_launch(launch: ReplayedLaunch) -> None:
        done = f"{launch.passes} passes" if launch.passes else f"{launch.percent} %"
        observer.doing(f"launch {launch.index}: {launch.kernel}, {done}")

    log = NcuLog(on_launch, lambda stream, line: observer.output(stream, f"{line}\n"))
    end = session.run(argv, {provenance.FACTS: str(facts)}, log.feed)
    if end.status is None:
        message = f"time limit of {end.limit_s:g} s reached after {len(log.profiled)} profiled launches"
        remedy = "raise --timeout, or profile less: --count 1, a smaller shape, fewer sets"
        raise MeasurementError(f"{message}; nothing was kept", remedy)
    log.close()
    problem = ncu.failure(log, end.status, wanted)
    if problem is None:
        return log
    if shutil.disk_usage(facts.parent).free < _FULL_B:
        raise failures.DiskError(str(session.out), "no space left on the device") from problem
    if isinstance(session.gpu, DriverError) and isinstance(
        problem, failures.NoKernelError | failures.ProgramFailedError
    ):
        raise failures.NoGpuError(str(session.gpu)) from problem
    if keep_failed and log.profiled and isinstance(problem, failures.ProgramFailedError):
        session.fail(" ".join(problem.message.split()))
        return log
    raise problem


def _missing(tool: ncu.Ncu, report: Path, log: NcuLog, selection: MetricSelection) -> list[str]:
    """Metrics that were asked for and have no value. Raises NcuFailedError for a report without
    launches."""
    if not report.is_file():
        raise failures.NcuFailedError(0, f"it wrote no report; its output: {'; '.join(log.warnings) or 'nothing'}")
    launches = read_back(tool.path, report)
    if launches is None:
        log.warnings.append("the report could not be read back: metrics without a value (n/a) were not checked")
        return []
    if not launches:
        raise failures.NcuFailedError(0, f"its report has none of the {len(log.profiled)} profiled launches")
    present = set().union(*launches)
    return [name for name in selection.metrics if ":" not in name and name not in present]  # a group is no metric


def _kept(raw: Path, folder: Path, log: NcuLog, missing: list[str]) -> Members:
    """The manifest's ``report``, with the report in its final form in ``folder``."""
    raw_bytes = raw.stat().st_size
    made = compress(raw)
    sync(made)
    stored = made.replace(folder / made.name)
    return {
        "file": stored.name,
        "bytes": stored.stat().st_size,
        "sha256": provenance.sha256(stored),
        "raw_bytes": raw_bytes,
        "launches": [{"kernel": launch.kernel, "passes": launch.passes} for launch in log.profiled],
        "missing": missing,
    }


def compress(report: Path) -> Path:
    """Replace ``report.ncu-rep`` by ``report.ncu-repz`` (zstd, with a checksum) and return its
    path; raises OSError."""
    target = report.with_suffix(SUFFIXES[1])
    size = report.stat().st_size
    level = _LEVEL if size < _LARGE_B else _LEVEL_LARGE
    with report.open("rb") as source, target.open("wb") as sink:
        zstandard.ZstdCompressor(level=level, write_checksum=True).copy_stream(source, sink, size=size)
    report.unlink()
    return target
