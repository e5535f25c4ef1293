"""A recorded program: its run directory as accounts, and ``program.json``, which says what
``ncubble program`` should do, chose and noticed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ncubble.analysis.diagnosis.results import judge_all
from ncubble.analysis.program.account import (
    NOT_SEEN,
    Finder,
    ProfiledLaunch,
    ProgramAccount,
    kernel_of,
    own_finder,
    program_accounts,
)
from ncubble.analysis.program.kernels import ProgramKernel
from ncubble.analysis.program.output import SCHEMA as OUTPUT_SCHEMA
from ncubble.analysis.program.output import account_json
from ncubble.analysis.program.span import SpanChoice
from ncubble.analysis.report.report import open_reports
from ncubble.analysis.streams import recording as stream_records
from ncubble.analysis.streams.account import accounts as device_accounts
from ncubble.analysis.streams.account import streams_drawing
from ncubble.analysis.streams.recording import Recording
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.runs import SUFFIXES, holding, require_paths
from ncubble.records import JsonObject, read_record, write_record
from ncubble.text.values import finite

FILE = "program.json"
SCHEMA = 1
_LAUNCH = re.compile(
    r"launch__(registers_per_thread|shared_mem_config_size|shared_mem_per_block_(static|dynamic)|thread_count|"
    r"waves_per_multiprocessor|occupancy_limit_\w+)|sm__maximum_warps_\w+"
)
_RATES = re.compile(
    r"(sm|gpu|gpc|dram|lts|l1tex)__(\w+\.avg\.\w+|time_duration\.sum|cycles_elapsed\.max|cycles_active\.avg)"
)
"""Metrics that Perfetto's pages on GPUs show: those of a launch, and those over time."""
STRETCHED = 1.5
"""Beyond this ratio of the duration under the profiler to that in the program, either way, a launch
does not stand for its kernel."""
SPREAD = 1.5
"""Beyond this ratio launches of one kernel are not alike: most likely they solve different
problems."""


@dataclass(frozen=True)
class ProgramRecord:
    """``choice``: of the measured span. ``kernels``: those that were selected, with ``invocation``,
    the number of the launch that was profiled of each. ``recorded_s`` and ``profiled_s``: how long
    both runs of the program took, as a whole. ``failed``: why there is no report, or no whole
    recording."""

    choice: SpanChoice = field(default_factory=SpanChoice)
    kernels: tuple[ProgramKernel, ...] = ()
    invocation: int = 0
    covered_pct: float = 0.0
    recorded_s: float | None = None
    profiled_s: float | None = None
    failed: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgramResult:
    """The accounts of a program, one for each process and device, of the run directory or trace at
    ``path``. ``notes``: what is missing or doubtful. ``written``: the trace with accounts, where
    one was asked for."""

    path: Path
    record: ProgramRecord
    accounts: list[ProgramAccount]
    notes: tuple[str, ...]
    recording: Recording = field(repr=False)
    find: Finder = field(repr=False)
    written: Path | None = None

    @property
    def matched(self) -> bool:
        """Whether a profiled launch stands for any kernel."""
        return any(kernel.verdict for account in self.accounts for kernel in account.kernels)

    @property
    def failed(self) -> str:
        """Why a part could not be measured; empty where all was."""
        return self.record.failed

    def to_json(self) -> JsonObject:
        """The object of ``ncubble program --json``. Times in us, shares in percent of the span."""
        record = self.record
        return {
            "schema": OUTPUT_SCHEMA,
            "run": str(self.path),
            "notes": list(self.notes),
            "failed": record.failed or None,
            "recorded_s": record.recorded_s,
            "profiled_s": record.profiled_s,
            "selected": {"kernels": len(record.kernels), "invocation": record.invocation, "pct": record.covered_pct},
            "devices": [account_json(account) for account in self.accounts],
            **({"file": str(self.written)} if self.written else {}),
        }

    def write_perfetto(self, path: Path) -> None:
        """Write all that was recorded as a trace for ui.perfetto.dev, kernels with the geometry and
        metrics of the launches that stand for them; raises UsageError where that is not
        possible."""
        known: dict[int, tuple[dict[str, float], dict[str, float]]] = {}

        def profiled(row: Any) -> tuple[dict[str, float], dict[str, float]]:
            found = self.find(kernel_of(row, self.recording), row.device, row.end_ns - row.start_ns).profiled
            if found is None or found.launch is None:
                return {}, {}
            if id(found) not in known:
                known[id(found)] = _viewed(found.launch.scalars)
            return known[id(found)]

        drawing = streams_drawing(device_accounts(self.recording, whole=True), self.recording, True, profiled)
        drawing.write(path, finite({"run": self.path.name, "notes": list(self.notes)}))


def _viewed(scalars: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """What is told of a launch by Perfetto's names, which are NVIDIA's shortened, and its
    metrics."""
    told = {
        name.removeprefix("launch__").replace("mem_per_block_", "mem_"): int(value) if value.is_integer() else value
        for name, value in scalars.items()
        if _LAUNCH.fullmatch(name)
    }
    return told, {name: value for name, value in scalars.items() if _RATES.fullmatch(name)}


def write(record: ProgramRecord, folder: Path) -> None:
    """Write ``program.json``; raises OSError."""
    write_record(folder / FILE, record, SCHEMA)


def read(folder: Path) -> ProgramRecord:
    """The record of a run directory; an empty one where it holds none. Raises ReportError where it
    is damaged."""
    path, remedy = folder / FILE, "record the program again with `ncubble program`"
    try:
        known = read_record(path, ProgramRecord, SCHEMA, "a record of `ncubble program`", remedy, 16 << 20)
    except UsageError as error:  # a choice that is none
        raise ReportError(f"{path}: {error.message}", remedy) from error
    return known or ProgramRecord()


def is_program(folder: Path) -> bool:
    """Whether a directory holds a recorded program."""
    return (folder / FILE).is_file() and (folder / stream_records.FILE).is_file()


def open_program(folder: Path, choice: SpanChoice | None = None, others: Sequence[Path] = ()) -> ProgramResult:
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
    record = read(folder)
    recording = stream_records.read(folder)
    own = [folder] if any((folder / f"report{suffix}").is_file() for suffix in SUFFIXES) else []
    profiled, unread = profiled_launches([*own, *others])
    find = own_finder(profiled, frozenset(record.kernels))
    accounts = program_accounts(recording, choice or record.choice, find)
    failed = (record.failed,) if record.failed else ()
    notes = (*failed, *record.notes, *recording.notes, *unread, *doubts(accounts))
    shown = ProgramResult(folder, record, accounts, tuple(dict.fromkeys(notes)), recording, find)
    return shown if shown.matched or not others else with_nothing_matched(shown, len(profiled))


def with_nothing_matched(shown: ProgramResult, launches: int) -> ProgramResult:
    """With a note that no report is of this program."""
    note = f"none of the {launches:,} launches in the reports is of a kernel of this program"
    return replace(shown, notes=(*shown.notes, note))


def profiled_launches(paths: Sequence[Path]) -> tuple[list[ProfiledLaunch], list[str]]:
    """All launches of reports that can be judged, and why others cannot."""
    if not paths:
        return [], []
    reports, failures = open_reports(paths)
    by_path = {str(report.path): report for report in reports}
    result = judge_all(reports, failures)
    launches = [
        ProfiledLaunch(launch.identity, verdict, launch, ablation)
        for verdict, ablation in zip(result.verdicts, result.ablations, strict=True)
        for launch in [by_path[verdict.report].launch(verdict.launch)]
    ]
    return launches, [f"a report cannot be read: {error.error.splitlines()[0]}" for error in result.errors]


def doubts(accounts: Sequence[ProgramAccount]) -> list[str]:
    """What a reader of the accounts must know: kernels that one launch hardly stands for, those
    that the second run lacked, and processes whose idle time is judged each for itself."""
    titles = {id(kernel): account.title(kernel.kernel) for account in accounts for kernel in account.kernels}
    kernels = {kernel.kernel: kernel for account in accounts for kernel in account.kernels}.values()
    stretched = [one for one in kernels if not math.isnan(one.stretched) and not _alike(one.stretched, STRETCHED)]
    spread = [one for one in kernels if one.verdict and not _alike(one.spread, SPREAD)]
    lost = sum(one.lacking == NOT_SEEN for one in kernels)
    notes = []
    if lost:
        notes.append(
            f"{_kernels(lost)} that were selected did not come in the profiled run: the program launches others "
            "each time, or ncu counts them in another way"
        )
    notes += [
        f"{titles[id(one)]}: the profiled launch took {one.stretched:.2f} x the median in the program"
        for one in stretched[:3]
    ]
    if spread:
        worst = max(spread, key=lambda one: one.spread)
        notes.append(
            f"launches of {_kernels(len(spread))} differ in duration ({titles[id(worst)]}: {worst.spread:.1f} x "
            "from the first to the ninth decile): one launch of each stands for all"
        )
    if len({account.process for account in accounts}) > 1:
        notes.append("several processes: idle time is judged for each alone, another may have had the GPU")
    return notes


def _kernels(count: int) -> str:
    return "1 kernel" if count == 1 else f"{count} kernels"


def _alike(ratio: float, most: float) -> bool:
    return 1.0 / most <= ratio <= most
