"""Records a program twice: its streams, then one launch of each kernel under ncu. Keeps both in one run directory."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncubble.analysis.program import record as program_record
from ncubble.analysis.program.launches import ProgramWork, program_work
from ncubble.analysis.program.record import ProgramRecord
from ncubble.analysis.program.selection import COVERED_PCT, DeviceSpan, LaunchSelection, select
from ncubble.analysis.program.span import SpanChoice, measured_span
from ncubble.analysis.streams import records as stream_records
from ncubble.analysis.streams.account import accounts
from ncubble.analysis.streams.engines import devices
from ncubble.analysis.streams.records import Recording
from ncubble.cli.commands.profile import observed
from ncubble.cli.commands.streams.job import RAW, nothing_recorded, recorded_manifest, run_recorded, write_lanes
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, resolve
from ncubble.profiling.ncu.doctor import require_counters, require_gpu
from ncubble.profiling.ncu.failures import ReplayError
from ncubble.profiling.ncu.ncu import Filters
from ncubble.profiling.processes.process import require_program
from ncubble.profiling.runs import provenance, staging
from ncubble.profiling.runs.run import MANIFEST, Manifest, Run
from ncubble.profiling.runs.session import ProfileRequest, portable
from ncubble.profiling.runs.staging import default_out
from ncubble.profiling.streams.session import RecordingRequest, check_recorder, python_split
from ncubble.text.patterns import expression

PROFILE = "profile"
ATTEMPTS = 3
"""Runs under ncu: one more, without it, for each of up to two kernels that cannot be replayed."""


@dataclass(frozen=True)
class ProgramJob:
    """Request of the command line. ``profile``: whether ncu runs at all; ``without``: a pattern of
    kernels that it must not profile."""

    program: list[str]
    choice: SpanChoice = field(default_factory=SpanChoice)
    covered_pct: float = COVERED_PCT
    out: Path | None = None
    force: bool = False
    most: int = 1_000_000
    recorder: str = "auto"
    timeout: float | None = None
    sets: tuple[str, ...] = DEFAULT_SETS
    profile: bool = True
    without: str = ""
    say: Callable[[str], None] = field(default=lambda text: None)

    def __post_init__(self) -> None:
        require_program(self.program)
        expression(self.without, f"--without {self.without!r}")
        check_recorder(self.recorder, self.most)
        resolve(self.sets, ())


def record_program(job: ProgramJob) -> Path:
    """Runs the program under both tools and returns its run directory.

    A program that fails, a span that does not exist and whatever ncu cannot do are named in the record: what was
    recorded until then is not lost. Raises UsageError, and MeasurementError where the GPU did nothing; nothing is kept
    then. Without GPU or ncu the program does not run.
    """
    out = job.out or default_out(f"program-{_name_of(job.program)}")
    job = replace(job, out=out)
    staging.check_target(out, job.force)
    _require_tools(job.profile)
    with staging.staged(out, job.force) as folder:
        started = provenance.utc_now()
        recording, failed, seconds = _recorded(job, folder)
        record = ProgramRecord(choice=job.choice, recorded_s=seconds, failed=failed)
        recorded_manifest(job.program, started, recording.notes, failed).save(folder)
        try:
            spans = spans_of(recording, job.choice)
            if not failed and job.profile:
                record = _profiled(job, record, program_work(recording), spans, folder)
        except MeasurementError as error:
            why = f"{error}; what follows is of the span that is chosen without options"
            record = replace(record, choice=SpanChoice(), failed=failed or why)
        program_record.write(record, folder)
    return out


def _require_tools(profiled: bool) -> None:
    """Raise MeasurementError for a tool that is known to be missing, before the program runs."""
    require_gpu()
    if not profiled:
        return
    try:
        require_counters()
    except MeasurementError as error:
        remedy = f"{error.remedy}. Without ncu, --no-profile shows the time between kernels"
        raise MeasurementError(error.message, remedy) from error


def _name_of(program: list[str]) -> str:
    """The script or module of a Python program, else the program."""
    split = python_split(program) if Path(program[0]).name.startswith("python") else None
    if split is None or split[1][0] == "-c":
        return Path(program[0]).name
    rest = split[1]
    return rest[1] if rest[0] == "-m" else Path(rest[0]).stem


def _recorded(job: ProgramJob, folder: Path) -> tuple[Recording, str, float]:
    """The recording, kept in ``folder``, how the program failed if it did, and how long it ran."""
    raw = folder.parent / RAW
    raw.mkdir()
    job.say("1/2: the program runs under the recorder of streams")
    begun = time.monotonic()
    failed = run_recorded(RecordingRequest(job.program, job.most, job.recorder, job.timeout), raw)
    seconds = time.monotonic() - begun
    recording = stream_records.read_raw(raw)
    counted = accounts(recording, whole=True)
    if not counted:
        raise nothing_recorded(recording, True, failed)
    stream_records.write(recording, folder)
    write_lanes(counted, folder)
    return recording, failed, seconds


def spans_of(recording: Recording, choice: SpanChoice) -> list[DeviceSpan]:
    """The measured span of each device that has one; raises MeasurementError where none has."""
    work, found = program_work(recording), []
    failed: MeasurementError | None = None
    for process, device in devices(work.rows):
        try:
            found.append(
                DeviceSpan(process, device, measured_span(recording.rows, work.of(process, device), process, choice))
            )
        except MeasurementError as error:
            failed = error
    if not found and failed is not None:
        raise failed
    return found


def _profiled(
    job: ProgramJob, record: ProgramRecord, work: ProgramWork, spans: list[DeviceSpan], folder: Path
) -> ProgramRecord:
    """Runs ncu; the record says what was selected, and why there is no report if that is so."""
    without: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    begun = time.monotonic()
    for _ in range(ATTEMPTS):
        chosen = select(work, spans, job.covered_pct, without, job.without)
        kernels = tuple(work.kernels[place] for place in chosen.kernels)
        record = replace(
            record,
            kernels=kernels,
            invocation=chosen.invocation,
            covered_pct=chosen.covered_pct,
            notes=(*notes, *chosen.notes),
        )
        if not kernels:
            return replace(record, failed="" if record.notes else "no kernel ran in the measured span")
        try:
            run = observed(_request(job, chosen, work, folder))
        except ReplayError as error:
            refused = _symbols_of(error.kernel, work) - without
            if not refused:
                return replace(record, failed=f"ncu: {error.message}", profiled_s=time.monotonic() - begun)
            without |= refused
            notes = (*notes, f"ncu cannot profile {error.kernel}: its time is not profiled")
        except NcubbleError as error:
            return replace(record, failed=f"ncu: {error.message}", profiled_s=time.monotonic() - begun)
        else:
            _keep(run, folder, job.out)
            return replace(record, profiled_s=time.monotonic() - begun)
    return replace(record, failed="ncu: too many kernels could not be profiled", profiled_s=time.monotonic() - begun)


def _request(job: ProgramJob, chosen: LaunchSelection, work: ProgramWork, folder: Path) -> ProfileRequest:
    job.say(
        f"2/2: the program runs under ncu, which profiles launch {chosen.invocation:,} of each of "
        f"{len(chosen.kernels)} kernels ({chosen.covered_pct:.1f} % of their time)"
    )
    kernels = (work.kernels[place] for place in chosen.kernels)
    symbols = tuple(dict.fromkeys(f"{one.symbol}*" if one.is_cut else one.symbol for one in kernels))
    return ProfileRequest(
        program=job.program,
        out=folder.parent / PROFILE,
        sets=job.sets,
        filters=Filters(symbols=symbols, invocations=(chosen.invocation,)),
        timeout_s=job.timeout,
        force=True,
    )


def _symbols_of(kernel: str, work: ProgramWork) -> frozenset[str]:
    """The mangled names of what ncu names by its function or its whole name."""
    names = {one.symbol for one in work.kernels if kernel in (one.function, one.name, one.symbol)}
    return frozenset(names)


def _keep(run: Run, folder: Path, out: Path | None) -> None:
    """Moves the report and its manifest into the run directory, which becomes ``out``."""
    run.report.rename(folder / run.report.name)
    manifest = run.manifest
    before = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"), folder / MANIFEST)
    notes = list(dict.fromkeys([*before.notes, *manifest.notes]))
    staged, kept = portable([str(run.path), str(out or "run")])
    argv = [text.replace(staged, kept) for text in manifest.ncu_argv]
    replace(manifest, started=before.started, notes=notes, ncu_argv=argv).save(folder)
    shutil.rmtree(run.path, ignore_errors=True)
