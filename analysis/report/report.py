"""``Report``: the tidy frames of one report file, read once, cached, and loaded when asked for.
``Launch``: one launch of it, with what was read and computed of it."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ncubble.analysis.report import cache as store
from ncubble.analysis.report.container import Source
from ncubble.analysis.report.reading import ingest
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.profiling.runs import MANIFEST, Run, find_runs, without_report
from ncubble.records import JsonObject
from ncubble.text.values import string

if TYPE_CHECKING:  # pandas is imported only when needed: cached verdicts work without it
    import pandas as pd

ALONE = 4
"""Maximum launches of a report whose code is read individually, in a twentieth of the time of all
300."""
KEPT = 3
"""Launches with cached details when read one at a time: a page needs them in several requests."""

Fact = TypeVar("Fact")
Cell = Any
"""Of a frame: a number, a text, or what stands for neither."""
Memo = dict[object, Any]
"""What was computed of a launch, by the function or name of the fact."""


@dataclass(frozen=True)
class LaunchIdentity:
    """What ran, how it was launched, and for how long: a row of the report's ``launches``
    (docs/reference/reports.md). Texts are empty and numbers NaN if the report lacks it."""

    kernel: str = ""
    demangled: str = ""
    mangled: str = ""
    grid: str = ""
    block: str = ""
    device: str = ""
    compute_capability: str = ""
    ncu_version: str = ""
    nvtx: str = ""
    without_value: str = ""
    registers: float = math.nan
    smem_static_B: float = math.nan  # noqa: N815
    smem_dynamic_B: float = math.nan  # noqa: N815
    duration_ns: float = math.nan
    cycles: float = math.nan
    sm_clock_hz: float = math.nan

    @classmethod
    def of(cls, row: Mapping[Hashable, Cell]) -> LaunchIdentity:
        """Of the cells of a row; others are left out."""
        return cls(**{name: read(row.get(name)) for name, read in _CELLS})


def _float(cell: Cell) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


_CELLS: tuple[tuple[str, Callable[[Cell], Cell]], ...] = tuple(
    (field.name, string if field.default == "" else _float) for field in fields(LaunchIdentity)
)
"""The fields, with the converter of each: computed once, because reports have thousands of
launches."""


@dataclass(frozen=True)
class Launch:
    """Launch ``number`` of ``report``. Its facts are read when they are first asked for, and the
    report keeps them, so that two ``Launch`` of one number share them: do not write to them."""

    report: Report
    number: int

    @property
    def identity(self) -> LaunchIdentity:
        """What ran, how it was launched, and for how long."""
        return self.report.identity(self.number)

    @property
    def scalars(self) -> dict[str, float]:
        """Every scalar number of the launch by metric."""
        return self.report.scalars(self.number)

    @property
    def source(self) -> pd.DataFrame:
        """One row per instruction, numbered from 0: columns as in the report's ``source``."""
        return self.report.source_of(self.number)

    @property
    def timeline(self) -> pd.DataFrame:
        """The PM-sampling series of the launch: columns as in the report's ``timeline``."""
        return self.report.timeline_of(self.number)

    @property
    def rules(self) -> pd.DataFrame:
        """Nsight's own findings on the launch."""
        return _rows_of(self.report.rules, self.number)

    @property
    def label(self) -> str:
        """The name of the launch in tables."""
        return self.report.run.label_of(self.number)

    @property
    def declared(self) -> JsonObject:
        """The manifest's facts of the kernel, as declared by the program; empty where they name
        another function."""
        facts = self.report.run.manifest.kernel_of(self.number)
        return facts if str(facts.get("function") or "") == self.identity.kernel else {}

    @property
    def memo(self) -> Memo:
        """What was computed of the launch (``once_per_launch``), with its source and timeline. A
        report that reads one launch at a time lets go of it."""
        return self.report.memo(self.number)

    def value(self, metric: str) -> float:
        """One scalar metric; NaN where it was not collected."""
        return self.scalars.get(metric, math.nan)

    def first(self, metrics: Iterable[str]) -> float:
        """The first of ``metrics`` that was collected; NaN where none was."""
        values = (self.value(metric) for metric in metrics)
        return next((value for value in values if not math.isnan(value)), math.nan)


def once_per_launch(function: Callable[[Launch], Fact]) -> Callable[[Launch], Fact]:
    """``function``, computed once for each launch. Errors are not kept."""

    @wraps(function)
    def cached(launch: Launch) -> Fact:
        memo = launch.memo
        if function not in memo:
            memo[function] = function(launch)
        fact: Fact = memo[function]
        return fact

    return cached


@dataclass(frozen=True)
class ReportFailure:
    """A report that could not be opened, and why."""

    path: Path
    error: NcubbleError


class Report:
    """Frames of one report. Columns and units of each frame: ``docs/reference/reports.md``."""

    def __init__(self, run: Run, source: Source) -> None:
        self.run, self.frame = run, source.frame
        self._file = source
        self.path = run.path
        self.key = source.frame.sha256[:16]
        self._scalars: dict[int, dict[str, float]] = {}
        self._memos: OrderedDict[int, Memo] = OrderedDict()
        self._lock = threading.Lock()
        self._one_at_a_time, self._read_alone = False, 0

    @classmethod
    def open(cls, path: Path) -> Report:
        """The report of a run directory or report file. Raises ReportError (damaged) or UsageError
        (no such path).

        Reads the scalar metrics; timeline, source, rules and files are read when they are first
        asked for.
        """
        reports, failures = open_reports([path], details=False)
        if failures:
            raise failures[0].error
        if not reports:
            raise without_report([path])
        if len(reports) != 1:
            raise ReportError(f"{path}: has {len(reports)} reports, not one", "name one run directory or report file")
        return reports[0]

    def _table(self, name: str, launch: int | None = None) -> pd.DataFrame:
        """One raw table, or its rows of one launch. Where the cache lacks its part, or holds it
        damaged, the report is read (again)."""
        if store.holds(self.frame.sha256, store.part_of(name)):
            with suppress(MeasurementError):
                return store.load(self.frame.sha256, name, launch)
        failed = ingest([self._file], (store.part_of(name),))
        if failed:
            raise failed[0]
        return store.load(self.frame.sha256, name, launch)

    @cached_property
    def launches(self) -> pd.DataFrame:
        """One row per launch: identity, geometry, device, duration_ns, cycles, sm_clock_hz."""
        from ncubble.analysis.report import frames

        version = self.frame.ncu_version or self.run.manifest.ncu_version
        return frames.launches(self._table("actions"), self.metrics, self._table("texts"), version)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Every scalar number: launch, metric, value, unit."""
        return self._table("metrics")

    @cached_property
    def timeline(self) -> pd.DataFrame:
        """PM-sampling series on one time axis: launch, t_ns, metric, value, unit. Empty where not
        collected."""
        from ncubble.analysis.report import frames

        return frames.tidy(self._table("timeline"))

    @cached_property
    def source(self) -> pd.DataFrame:
        """One row per instruction: launch, pc, sass, opcode, file, line, samples, executed, stall
        reasons."""
        from ncubble.analysis.report import frames

        return frames.source(self._table("code"), self._table("samples"))

    @cached_property
    def rules(self) -> pd.DataFrame:
        """Nsight's own findings with its estimated speedup in percent."""
        return self._table("rules")

    @cached_property
    def files(self) -> dict[str, str]:
        """Text of the source files that the report carries, by name."""
        table = self._table("files").drop_duplicates("file")  # each request of a large report returned its own
        return dict(zip(table["file"], table["text"], strict=True))

    def launch(self, number: int) -> Launch:
        """One launch. Raises UsageError for a launch that is not there."""
        self.identity(number)
        return Launch(self, number)

    def __iter__(self) -> Iterator[Launch]:
        """All launches, in their order."""
        return iter([Launch(self, number) for number in self._rows])

    @cached_property
    def _rows(self) -> dict[int, LaunchIdentity]:
        return {int(row["launch"]): LaunchIdentity.of(row) for row in self.launches.to_dict("records")}

    def identity(self, number: int) -> LaunchIdentity:
        """``Launch.identity``. Raises UsageError for a launch that is not there."""
        if number not in self._rows:
            raise UsageError(f"{self.path}: no launch {number}", f"launches are 0 to {len(self._rows) - 1}")
        return self._rows[number]

    def scalars(self, number: int) -> dict[str, float]:
        """``Launch.scalars``."""
        if number not in self._scalars:
            rows = _rows_of(self.metrics, number)
            self._scalars[number] = dict(zip(rows["metric"], rows["value"].tolist(), strict=True))
        return self._scalars[number]

    def memo(self, number: int) -> Memo:
        """``Launch.memo``."""
        with self._lock:
            memo = self._memos.setdefault(number, {})
            self._memos.move_to_end(number)
            while self._one_at_a_time and len(self._memos) > KEPT:
                self._memos.popitem(last=False)
            return memo

    def source_of(self, number: int) -> pd.DataFrame:
        """``Launch.source``. Of a report of many launches, the first few that are asked for are
        read alone."""
        from ncubble.analysis.report import frames

        memo = self.memo(number)
        if "source" not in memo:
            if self._one_at_a_time or ("source" not in vars(self) and self._read_alone < ALONE < len(self.launches)):
                self._read_alone += 1
                rows = frames.source(self._table("code", number), self._table("samples", number))
            else:
                rows = _rows_of(self.source, number)
            memo["source"] = rows.reset_index(drop=True)
            self._release_pool()
        source: pd.DataFrame = memo["source"]
        return source

    def timeline_of(self, number: int) -> pd.DataFrame:
        """``Launch.timeline``."""
        from ncubble.analysis.report import frames

        memo = self.memo(number)
        if "timeline" not in memo:
            alone = self._one_at_a_time
            memo["timeline"] = (
                frames.tidy(self._table("timeline", number)) if alone else _rows_of(self.timeline, number)
            )
            self._release_pool()
        timeline: pd.DataFrame = memo["timeline"]
        return timeline

    def read_together(self) -> None:
        """Read the code of all launches at once when the first is asked for: all will be."""
        self._read_alone = ALONE

    def read_one_at_a_time(self) -> None:
        """Let go of all that was read, and from now on keep the details of the last KEPT launches
        only.

        The code and samples of 100 launches, read at once, take a quarter of a second and some 100
        MB.
        """
        for name in ("launches", "metrics", "timeline", "source", "rules", "files", "_rows"):
            vars(self).pop(name, None)
        with self._lock:
            self._one_at_a_time = True
            self._memos.clear()
            self._scalars.clear()

    def _release_pool(self) -> None:
        """Give back the memory that the reader of tables took for whole columns."""
        if self._one_at_a_time:
            import pyarrow as pa

            pa.default_memory_pool().release_unused()

    @property
    def held_B(self) -> int:  # noqa: N802 - a unit, as in column names
        """About how many bytes the frames have that were read so far: eight a cell."""
        with self._lock:
            facts = [*vars(self).values(), *(fact for memo in self._memos.values() for fact in memo.values())]
        return sum(8 * frame.size for frame in facts if hasattr(frame, "iloc"))

    def wide(self, names: Sequence[str]) -> pd.DataFrame:
        """One column per metric, indexed by launch; NaN where not collected."""
        from ncubble.analysis.report import frames

        return frames.wide(self.metrics, names, list(self.launches["launch"]))


def _rows_of(table: pd.DataFrame, launch: int) -> pd.DataFrame:
    """The rows of one launch in a table that is sorted by launch."""
    first, last = table["launch"].searchsorted([launch, launch + 1])
    return table.iloc[first:last]


def open_reports(
    paths: Iterable[Path],
    progress: Callable[[int, int], None] | None = None,
    *,
    details: bool = True,
    then: Sequence[str] = (),
    skipped: Callable[[ReportError], None] | None = None,
) -> tuple[list[Report], list[ReportFailure]]:
    """Open every report at or below ``paths``, in order; one that fails never hides another.
    ``skipped`` as in ``find_runs``.

    ``progress(done, total)`` is called as reports are read. Reports that are in the cache are not
    parsed again. Without ``details``, only scalar metrics are read now, and the rest of a report
    when it is asked for. ``then`` names modules that are needed next: they are imported while
    others read.
    """
    return open_found(find_runs(paths, skipped), progress, details=details, then=then)


def open_found(
    paths: Iterable[Path],
    progress: Callable[[int, int], None] | None = None,
    *,
    details: bool = True,
    then: Sequence[str] = (),
) -> tuple[list[Report], list[ReportFailure]]:
    """``open_reports`` of run directories and report files themselves: nothing below them is looked
    for."""
    sources: dict[int, tuple[Run, Source]] = {}
    failed: dict[int, ReportFailure] = {}
    for index, path in enumerate(paths):
        try:
            run = Run.load(path)
            sources[index] = run, _checked(run)
        except NcubbleError as error:
            failed[index] = ReportFailure(path, error)
    numbers = list(sources)
    parts = tuple(store.PARTS) if details else ("scalars",)
    errors = ingest([source for _, source in sources.values()], parts, progress, then)
    failed |= {numbers[i]: ReportFailure(sources[numbers[i]][0].path, error) for i, error in errors.items()}
    opened = [Report(*sources[index]) for index in numbers if index not in failed]
    return opened, [failed[i] for i in sorted(failed)]


def _checked(run: Run) -> Source:
    """The frame of a run's report. A cut between two blocks passes the frame check and loses
    launches, and flipped bits change values; both show against the hash in the manifest."""
    source, recorded = Source.of(run.report), run.manifest.report
    if recorded.get("file") == run.report.name and recorded.get("sha256") not in (None, "", source.frame.sha256):
        raise ReportError(
            f"{run.report}: does not match {MANIFEST} beside it (SHA-256 differs)",
            "copy the run again, or move the report elsewhere to use it without the manifest",
        )
    return source
