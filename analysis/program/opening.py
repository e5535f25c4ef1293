"""A recorded program: its run directory as accounts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncubble.analysis.diagnosis.results import judge
from ncubble.analysis.program import record as program_record
from ncubble.analysis.program.account import ProgramAccount
from ncubble.analysis.program.join import NOT_SEEN, ProfiledLaunch, program_accounts
from ncubble.analysis.program.record import ProgramRecord
from ncubble.analysis.program.span import SpanChoice
from ncubble.analysis.report.report import Report, open_reports
from ncubble.analysis.streams import recording as stream_records
from ncubble.analysis.traces.lanes import folders_with
from ncubble.errors import NcubbleError, UsageError
from ncubble.profiling.runs import SUFFIXES, holding, require_paths

STRETCHED = 1.5
"""Beyond this ratio of the duration under the profiler to that in the program, either way, a launch
does not stand for its kernel."""
SPREAD = 1.5
"""Beyond this ratio launches of one kernel are not alike: most likely they solve different
problems."""


@dataclass(frozen=True)
class RecordedProgram:
    """A program's run directory, read. ``notes``: what is missing or doubtful in the accounts."""

    folder: Path
    record: ProgramRecord
    accounts: list[ProgramAccount]
    notes: tuple[str, ...]


def is_program(folder: Path) -> bool:
    """Whether a directory holds a recorded program."""
    return (folder / program_record.FILE).is_file() and (folder / stream_records.FILE).is_file()


def find_programs(roots: Iterable[Path]) -> Iterator[Path]:
    """Every run directory with a recording of streams at or below ``roots``, in order of path."""
    return folders_with(stream_records.FILE, roots)


def open_program(folder: Path, choice: SpanChoice | None = None, others: Sequence[Path] = ()) -> RecordedProgram:
    """The program recorded in ``folder``: a run directory of ``ncubble program``, or of
    ``ncubble streams``.

    ``choice`` replaces the span that was chosen at recording. ``others``: further reports whose
    launches may stand for its kernels. Raises ReportError where the recording is damaged,
    MeasurementError where the span does not exist; a damaged report is noted.
    """
    require_paths([folder])
    if not (folder / stream_records.FILE).is_file():
        remedy = holding(folder) or "name a run directory of `ncubble program` or `streams`"
        raise UsageError(f"{folder}: no recording of streams ({stream_records.FILE}) lies there", remedy)
    record = program_record.read(folder)
    recording = stream_records.read(folder)
    own = [folder] if any((folder / f"report{suffix}").is_file() for suffix in SUFFIXES) else []
    profiled, unread = _profiled([*own, *others])
    accounts = program_accounts(recording, profiled, choice or record.choice, frozenset(record.kernels))
    failed = (record.failed,) if record.failed else ()
    notes = (*failed, *record.notes, *recording.notes, *unread, *doubts(accounts))
    if others and not any(kernel.verdict for account in accounts for kernel in account.kernels):
        notes = (*notes, f"none of the {len(profiled):,} launches in the reports is of a kernel of this program")
    return RecordedProgram(folder, record, accounts, tuple(dict.fromkeys(notes)))


def _profiled(paths: Sequence[Path]) -> tuple[list[ProfiledLaunch], list[str]]:
    """All launches of reports that can be judged, and why others cannot."""
    launches: list[ProfiledLaunch] = []
    reports, failures = open_reports(paths) if paths else ([], [])
    unread = [f"a report cannot be read: {failure.error.message}" for failure in failures]
    for report in reports:
        launches += _launches(report, unread)
    return launches, unread


def _launches(report: Report, unread: list[str]) -> list[ProfiledLaunch]:
    try:
        verdicts, failed = judge(report)
        unread += [error.message for error in failed]
        return [ProfiledLaunch(report.identity(verdict.launch), verdict) for verdict in verdicts]
    except NcubbleError as error:
        unread.append(error.message)
        return []


def doubts(accounts: Sequence[ProgramAccount]) -> list[str]:
    """What a reader of the accounts must know: kernels that one launch hardly stands for, those
    that the second run lacked, and processes whose idle time is judged each for itself."""
    kernels = {kernel.kernel: kernel for account in accounts for kernel in account.kernels}.values()
    stretched = [one for one in kernels if not math.isnan(one.stretched) and not _alike(one.stretched, STRETCHED)]
    spread = [one for one in kernels if one.verdict and not _alike(one.spread, SPREAD)]
    lost = [one for one in kernels if one.lacking == NOT_SEEN]
    names = {one: account.title(one) for account in accounts for one in account.names}
    notes = []
    if lost:
        notes.append(
            f"{_kernels(len(lost))} that were selected did not come in the profiled run: the program launches others "
            "each time, or ncu counts them in another way"
        )
    notes += [
        f"{names[one.kernel]}: the profiled launch took {one.stretched:.2f} x the median in the program"
        for one in stretched[:3]
    ]
    if spread:
        worst = max(spread, key=lambda one: one.spread)
        notes.append(
            f"launches of {_kernels(len(spread))} differ in duration ({names[worst.kernel]}: {worst.spread:.1f} x "
            "from the first to the ninth decile): one launch of each stands for all"
        )
    if len({account.process for account in accounts}) > 1:
        notes.append("several processes: idle time is judged for each alone, another may have had the GPU")
    return notes


def _kernels(count: int) -> str:
    return "1 kernel" if count == 1 else f"{count} kernels"


def _alike(ratio: float, most: float) -> bool:
    return 1.0 / most <= ratio <= most
