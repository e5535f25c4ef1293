"""Where the time of a whole program goes: between its kernels and inside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.analysis.program import record as program_record
from ncubble.analysis.program.account import DeviceSpan, ProgramWork, program_work, spans_of
from ncubble.analysis.program.record import ProgramRecord, open_program
from ncubble.analysis.program.record import ProgramResult as ProgramResult
from ncubble.analysis.program.selection import COVERED_PCT, select
from ncubble.analysis.program.span import SpanChoice
from ncubble.api.reports import ReportPath, as_names, as_path, as_paths
from ncubble.api.streaming import recorded
from ncubble.api.subjects import given_subject
from ncubble.chips import generation_of
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.profiling.doctor import require_counters
from ncubble.profiling.driver import Device
from ncubble.profiling.failures import ReplayError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, resolve
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders import ncu
from ncubble.profiling.recorders.ncu import NcuSettings
from ncubble.profiling.recorders.streams import MOST, StreamSettings, python_split
from ncubble.profiling.runs import require_paths
from ncubble.profiling.session import Observer, Session, run_folder
from ncubble.store import require_target

if TYPE_CHECKING:
    from ncubble.profiling.subject import Subject

SETS = ("account", *DEFAULT_SETS[1:])
SAMPLED_AT_ONCE = ("gh100",)
"""Chips that sample all series of the set ``timeline`` in one pass. Without a limit ncu adds a pass
with a finer interval for long launches; with it they have 200 points, and cost a fifth less."""
ATTEMPTS = 3
"""Runs under ncu: one more, without it, for each of up to two kernels that cannot be replayed."""


@dataclass(frozen=True)
class ProgramSettings:
    """``choice``: of the measured span. ``covered_pct``: share of the GPU time that profiled
    kernels cover, 0 for no run under ncu. ``without``: a pattern of kernels that ncu must not
    profile; None: those that wait for others. Raises UsageError."""

    choice: SpanChoice = field(default_factory=SpanChoice)
    covered_pct: float = COVERED_PCT
    without: str | None = None
    sets: tuple[str, ...] = SETS
    streams: StreamSettings = field(default_factory=StreamSettings)

    def __post_init__(self) -> None:
        if not 0 <= self.covered_pct <= 100:
            raise UsageError(f"--cover {self.covered_pct:g}: not a share in percent", "give 0 to 100")
        Filters(without=self.without)
        resolve(self.sets, ())


def program(
    program: Sequence[ReportPath] | str | Path,
    *,
    nvtx: str = "",
    skip_first: int = 0,
    whole: bool = False,
    reports: ReportPath | Iterable[ReportPath] = (),
    out: ReportPath | None = None,
    force: bool = False,
    covered_pct: float = COVERED_PCT,
    without: str | None = None,
    sets: str | Sequence[str] = (),
    recorder: str = "auto",
    most: int = MOST,
    timeout_s: float | None = None,
    on_output: Callable[[str], None] | None = None,
) -> ProgramResult:
    """Account for the time of a whole program, between its kernels and inside them.

    ``program``: a list, the program and its arguments, which is run twice, recorded and under
    ncu; the path of a recorded run; or that of a trace of PyTorch's profiler (``.json``,
    ``.json.gz``). ``nvtx``, ``skip_first`` and ``whole`` choose the span: ranges of this name; all
    but so many launches (of ranges: all but so many); everything. ``reports``: further runs whose
    launches stand for kernels of a recording or trace. ``out``: the run directory to write, or the
    trace with accounts; ``force`` replaces it. ``covered_pct``: share of the GPU time that
    profiled kernels cover, 0 for no run under ncu. ``without``: a regular expression of kernels
    that are not profiled (None: those that wait for other GPUs). ``sets``, ``recorder``, ``most``,
    ``timeout_s`` and ``on_output`` as for ``profile`` and ``streams``.

    Raises UsageError for a wrong request, ReportError for a damaged recording, and MeasurementError
    where nothing can be measured. What fails after that is kept, and ``failed`` of the result says
    why.
    """
    choice = SpanChoice(nvtx, skip_first, whole)
    if isinstance(program, str | Path):
        return open_recorded(Path(program), choice, as_paths([reports]), as_path(out), force)
    settings = ProgramSettings(
        choice, covered_pct, without, tuple(as_names(sets)) or SETS, StreamSettings(most, recorder)
    )
    subject, observer = program_subject(given_subject(program).argv), Observer.of_lines(on_output)
    return record_program(
        Session(subject, run_folder(as_path(out), subject.label), force, timeout_s, observer), settings
    )


def open_recorded(
    path: Path, choice: SpanChoice, reports: Sequence[Path] = (), out: Path | None = None, force: bool = False
) -> ProgramResult:
    """A recorded program, or a trace of PyTorch's profiler, which is written with its accounts to
    ``out``; raises as ``program`` does."""
    require_paths([path, *reports])
    chosen = None if choice == SpanChoice() else choice
    if path.is_dir():
        if out or force:
            raise UsageError("a recorded program is shown as it is", "leave out the options for recording")
        return open_program(path, chosen, reports)
    from ncubble.analysis.kineto.trace import open_trace
    from ncubble.analysis.kineto.writing import write_accounts

    if out:
        if out.exists() and out.samefile(path):
            raise UsageError(f"{out}: is the trace itself", "choose another --out: the trace is never overwritten")
        require_target(out, force)
        if not reports:
            raise UsageError(f"--out {out}: no accounts to write", "name the runs that have them with --report")
    shown, matcher = open_trace(path, chosen, reports)
    if out and shown.matched:
        write_accounts(path, out, matcher)
        return replace(shown, written=out)
    return replace(shown, notes=(*shown.notes, f"{out} is not written")) if out else shown


def program_subject(argv: Sequence[str]) -> Subject:
    """A program, labelled by its script or module if it is of Python. Raises UsageError if it
    cannot be started."""
    from ncubble.profiling.subject import Subject

    subject = Subject.of_program(argv)
    split = python_split(argv) if subject.label.startswith("python") else None
    label = subject.label
    if split is not None and split[1][0] != "-c":
        label = split[1][1] if split[1][0] == "-m" else Path(split[1][0]).stem
    return replace(subject, label=f"program-{label}")


def record_program(
    session: Session, settings: ProgramSettings, under_ncu: AbstractContextManager[Observer] | None = None
) -> ProgramResult:
    """Run the program of a session twice, recorded and under ncu (``under_ncu``: who hears of
    that), and keep both in one run directory.

    A program that fails, a span that does not exist and whatever ncu cannot do are named in the
    record: what was recorded until then is not lost. Raises UsageError, and MeasurementError where
    the GPU did nothing; nothing is kept then. Without GPU or ncu the program does not run.
    """
    session.require_gpu()
    if settings.covered_pct:
        try:
            require_counters()
        except MeasurementError as error:
            remedy = f"{error.remedy}. Without ncu, --cover 0 shows the time between kernels"
            raise MeasurementError(error.message, remedy) from error
    with session.open():
        session.observer.say("1/2: the program runs under the recorder of streams")
        recording, _, end = recorded(session, settings.streams, whole=True)
        if end.failure:
            session.fail(end.failure)
        record = ProgramRecord(settings.choice, recorded_s=end.seconds, failed=end.failure)
        work = program_work(recording)
        try:
            spans = spans_of(recording, work, settings.choice)
            if end.status is not None and settings.covered_pct:
                begun = time.monotonic()
                with under_ncu or nullcontext(session.observer) as session.observer:
                    record = _profiled(settings, record, work, spans, session)
                record = replace(record, profiled_s=time.monotonic() - begun if record.kernels else None)
        except MeasurementError as error:
            why = f"{error}; what follows is of the span that is chosen without options"
            record = replace(record, choice=SpanChoice(), failed=end.failure or why)
        program_record.write(record, session.folder)
    return open_program(session.out)


def _profiled(
    settings: ProgramSettings, record: ProgramRecord, work: ProgramWork, spans: list[DeviceSpan], session: Session
) -> ProgramRecord:
    """Runs ncu; the record says what was selected, and why there is no report if that is so."""
    without: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    for _ in range(ATTEMPTS):
        chosen = select(work, spans, settings.covered_pct, Filters(without=settings.without), without)
        kernels = tuple(work.kernels[place] for place in chosen.kernels)
        record = replace(
            record,
            kernels=kernels,
            invocation=chosen.invocation,
            covered_pct=chosen.covered_pct,
            notes=(*notes, *chosen.notes),
        )
        if not kernels:
            why = "" if record.notes else "no kernel ran in the measured span"
            return replace(record, failed=record.failed or why)
        session.observer.say(
            f"2/2: the program runs under ncu, which profiles launch {chosen.invocation:,} of each of "
            f"{len(kernels)} kernels ({chosen.covered_pct:.1f} % of their time)"
        )
        symbols = tuple(dict.fromkeys(f"{one.symbol}*" if one.is_cut else one.symbol for one in kernels))
        filters = Filters(symbols=symbols, invocation=chosen.invocation)
        chip = generation_of(session.gpu.capability) if isinstance(session.gpu, Device) else None
        options = [("pm-sampling-max-passes", "1")] if chip in SAMPLED_AT_ONCE else []
        try:
            ncu.record(session, NcuSettings(settings.sets, filters=filters, options=options, keep_failed=True))
            failed = session.manifest.notes[0] if session.manifest.outcome == "failed" else ""
            return replace(record, failed=record.failed or failed)
        except NcubbleError as error:
            named = error.kernel if isinstance(error, ReplayError) else None
            refused = {one.symbol for one in work.kernels if named in (one.function, one.name, one.symbol)} - without
            if not refused:
                return replace(record, failed=record.failed or f"ncu: {error.message}")
            without |= refused
            notes = (*notes, f"ncu cannot profile {named}: its time is not profiled")
    return replace(record, failed=record.failed or "ncu: too many kernels could not be profiled")
