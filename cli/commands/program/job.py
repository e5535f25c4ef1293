"""Records a program twice: its streams, then one launch of each kernel under ncu. Keeps both in one run directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncubble.analysis.program import record as program_record
from ncubble.analysis.program.launches import ProgramWork, program_work
from ncubble.analysis.program.record import ProgramRecord
from ncubble.analysis.program.selection import COVERED_PCT, DeviceSpan, LaunchSelection, select
from ncubble.analysis.program.span import SpanChoice, measured_span
from ncubble.analysis.streams import recording as stream_records
from ncubble.analysis.streams.account import accounts
from ncubble.analysis.streams.recording import Recording
from ncubble.analysis.streams.work import devices
from ncubble.cli.commands.streams.job import nothing_recorded, write_lanes
from ncubble.cli.terminal import ended_by_signals, pass_on, recording, say
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.profiling.doctor import require_counters
from ncubble.profiling.failures import ReplayError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, resolve
from ncubble.profiling.ncu import Filters
from ncubble.profiling.processes import require_program
from ncubble.profiling.recorders import ncu, streams
from ncubble.profiling.recorders.ncu import NcuSettings
from ncubble.profiling.recorders.streams import StreamSettings, python_split
from ncubble.profiling.session import Observer, Session, run_folder
from ncubble.profiling.subject import Subject
from ncubble.text.values import expression

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
    say: Callable[[str], None] = say

    def __post_init__(self) -> None:
        require_program(self.program)
        expression(self.without, f"--without {self.without!r}")
        StreamSettings(self.most, self.recorder)
        resolve(self.sets, ())


def record_program(job: ProgramJob) -> Path:
    """Runs the program under both tools and returns its run directory.

    A program that fails, a span that does not exist and whatever ncu cannot do are named in the record: what was
    recorded until then is not lost. Raises UsageError, and MeasurementError where the GPU did nothing; nothing is kept
    then. Without GPU or ncu the program does not run.
    """
    subject = Subject(job.program, f"program-{_name_of(job.program)}")
    out = run_folder(job.out, subject.label)
    session = Session(subject, out, job.force, job.timeout, Observer(output=pass_on, say=job.say))
    _require_tools(session, job.profile)
    with ended_by_signals(), session.open():
        recording, record = _recorded(job, session)
        try:
            spans = spans_of(recording, job.choice)
            if not record.failed and job.profile:
                record = _profiled(job, record, program_work(recording), spans, session)
        except MeasurementError as error:
            why = f"{error}; what follows is of the span that is chosen without options"
            record = replace(record, choice=SpanChoice(), failed=record.failed or why)
        program_record.write(record, session.folder)
    return out


def _require_tools(session: Session, profiled: bool) -> None:
    """Raise MeasurementError for a tool that is known to be missing, before the program runs."""
    session.require_gpu()
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


def _recorded(job: ProgramJob, session: Session) -> tuple[Recording, ProgramRecord]:
    """The recording, kept in the session's folder, and how the program ran."""
    session.observer.say("1/2: the program runs under the recorder of streams")
    raw, end = streams.record(session, StreamSettings(job.most, job.recorder))
    recording = stream_records.read_raw(raw)
    counted = accounts(recording, whole=True)
    if not counted:
        raise nothing_recorded(recording, True, end.failure)
    recording.write(session.folder)
    write_lanes(counted, session.folder)
    session.note(*recording.notes)
    if end.failure:
        session.fail(end.failure)
    return recording, ProgramRecord(choice=job.choice, recorded_s=end.seconds, failed=end.failure)


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
    job: ProgramJob, record: ProgramRecord, work: ProgramWork, spans: list[DeviceSpan], session: Session
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
            with recording() as session.observer:
                ncu.record(session, _settings(job, chosen, work))
        except ReplayError as error:
            refused = _symbols_of(error.kernel, work) - without
            if not refused:
                return replace(record, failed=f"ncu: {error.message}", profiled_s=time.monotonic() - begun)
            without |= refused
            notes = (*notes, f"ncu cannot profile {error.kernel}: its time is not profiled")
        except NcubbleError as error:
            return replace(record, failed=f"ncu: {error.message}", profiled_s=time.monotonic() - begun)
        else:
            return replace(record, profiled_s=time.monotonic() - begun)
    return replace(record, failed="ncu: too many kernels could not be profiled", profiled_s=time.monotonic() - begun)


def _settings(job: ProgramJob, chosen: LaunchSelection, work: ProgramWork) -> NcuSettings:
    job.say(
        f"2/2: the program runs under ncu, which profiles launch {chosen.invocation:,} of each of "
        f"{len(chosen.kernels)} kernels ({chosen.covered_pct:.1f} % of their time)"
    )
    kernels = (work.kernels[place] for place in chosen.kernels)
    symbols = tuple(dict.fromkeys(f"{one.symbol}*" if one.is_cut else one.symbol for one in kernels))
    return NcuSettings(job.sets, filters=Filters(symbols=symbols, invocations=(chosen.invocation,)))


def _symbols_of(kernel: str, work: ProgramWork) -> frozenset[str]:
    """The mangled names of what ncu names by its function or its whole name."""
    names = {one.symbol for one in work.kernels if kernel in (one.function, one.name, one.symbol)}
    return frozenset(names)
