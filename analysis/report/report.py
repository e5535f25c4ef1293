"""``Report``: the tidy frames of one report file, read once, cached, and loaded when asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.analysis.report import cache as store
from ncubble.analysis.report.reading import Source, ingest
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.profiling.runs.run import MANIFEST, Run, find_runs

if TYPE_CHECKING:  # what needs pandas imports it when it is asked for: a remembered verdict does without
    import pandas as pd

ALONE = 4
"""Launches of a report whose code is read by itself, at a twentieth of the time that all of 300 take."""


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
        self._sources: dict[int, pd.DataFrame] = {}
        self._scalars: dict[int, dict[str, float]] = {}

    @classmethod
    def open(cls, path: Path) -> Report:
        """The report of a run directory or report file. Raises ReportError (damaged) or UsageError (no such path).

        Reads the scalar metrics; timeline, source, rules and files are read when they are first asked for.
        """
        reports, failures = open_reports([path], details=False)
        if failures:
            raise failures[0].error
        if len(reports) != 1:
            raise ReportError(f"{path}: holds {len(reports)} reports, not one", "name one run directory or report file")
        return reports[0]

    def _table(self, name: str, launch: int | None = None) -> pd.DataFrame:
        """One raw table, or its rows of one launch. Where the cache lacks its part, or holds it damaged, the report is
        read (again)."""
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
        """PM-sampling series on one time axis: launch, t_ns, metric, value, unit. Empty where not collected."""
        from ncubble.analysis.report import series as timeline

        return timeline.tidy(self._table("timeline"))

    @cached_property
    def source(self) -> pd.DataFrame:
        """One row per instruction: launch, pc, sass, opcode, file, line, samples, executed, stall reasons."""
        from ncubble.analysis.report import frames

        return frames.source(self._table("code"), self._table("samples"))

    @cached_property
    def rules(self) -> pd.DataFrame:
        """Nsight's own findings with its estimated speedup in percent."""
        return self._table("rules")

    @cached_property
    def files(self) -> dict[str, str]:
        """Text of the source files that the report carries, by name."""
        table = self._table("files").drop_duplicates("file")  # each request of a large report brought its own
        return dict(zip(table["file"], table["text"], strict=True))

    def scalars(self, launch: int) -> dict[str, float]:
        """All scalar numbers of one launch by metric. One object for all callers: do not write to it."""
        if launch not in self._scalars:
            rows = _rows_of(self.metrics, launch)
            self._scalars[launch] = dict(zip(rows["metric"], rows["value"].tolist(), strict=True))
        return self._scalars[launch]

    @cached_property
    def _rows(self) -> dict[int, dict[str, Any]]:
        rows = self.launches.to_dict("records")
        return {int(row["launch"]): {str(key): value for key, value in row.items()} for row in rows}

    def identity(self, launch: int) -> dict[str, Any]:
        """The row of ``launches`` of one launch, as a dict. Raises UsageError for a launch that is not there."""
        if launch not in self._rows:
            raise UsageError(f"{self.path}: no launch {launch}", f"launches are 0 to {len(self._rows) - 1}")
        return self._rows[launch]

    def value(self, launch: int, metric: str) -> float:
        """One scalar metric of one launch; NaN where not collected. Raises UsageError for a launch that is not
        there."""
        self.identity(launch)
        return self.scalars(launch).get(metric, math.nan)

    def first(self, launch: int, metrics: Iterable[str]) -> float:
        """The first of ``metrics`` that is collected for this launch; NaN where none is."""
        values = (self.value(launch, metric) for metric in metrics)
        return next((value for value in values if not math.isnan(value)), math.nan)

    def source_of(self, launch: int) -> pd.DataFrame:
        """The source frame of one launch, rows numbered from 0. One object for all callers: do not write to it.

        Of a report of many launches, the first few that are asked for are read alone: a page shows one of them.
        """
        if launch not in self._sources:
            rows = self._source_alone(launch) if self._few_asked() else _rows_of(self.source, launch)
            self._sources[launch] = rows.reset_index(drop=True)
        return self._sources[launch]

    def _few_asked(self) -> bool:
        return "source" not in vars(self) and len(self._sources) < ALONE < len(self.launches)

    def _source_alone(self, launch: int) -> pd.DataFrame:
        from ncubble.analysis.report import frames

        return frames.source(self._table("code", launch), self._table("samples", launch))

    def timeline_of(self, launch: int) -> pd.DataFrame:
        """The timeline of one launch."""
        return _rows_of(self.timeline, launch)

    @property
    def held_B(self) -> int:  # noqa: N802 - a unit, as in column names
        """About how many bytes the frames have that were read so far: eight a cell."""
        held = [value for value in vars(self).values() if hasattr(value, "iloc")]
        return sum(8 * frame.size for frame in (*held, *self._sources.values()))

    def wide(self, names: Sequence[str]) -> pd.DataFrame:
        """One column per metric, indexed by launch; NaN where not collected."""
        from ncubble.analysis.report import frames

        return frames.wide(self.metrics, names, list(self.launches["launch"]))


def _rows_of(table: pd.DataFrame, launch: int) -> pd.DataFrame:
    """The rows of one launch in a table that is sorted by launch."""
    first, last = table["launch"].searchsorted([launch, launch + 1])
    return table.iloc[first:last]


def open_reports(
    paths: Iterable[Path], progress: Callable[[int, int], None] | None = None, *, details: bool = True
) -> tuple[list[Report], list[ReportFailure]]:
    """Open every report at or below ``paths``, in order; one that fails never hides another.

    ``progress(done, total)`` is called as reports are read. Reports that are in the cache are not parsed again. Without
    ``details``, only scalar metrics are read now, and the rest of a report when it is asked for.
    """
    return open_found(find_runs(paths), progress, details=details)


def open_found(
    paths: Iterable[Path], progress: Callable[[int, int], None] | None = None, *, details: bool = True
) -> tuple[list[Report], list[ReportFailure]]:
    """``open_reports`` of run directories and report files themselves: nothing below them is looked for."""
    found: dict[int, tuple[Run, Source]] = {}
    failed: dict[int, ReportFailure] = {}
    for index, path in enumerate(paths):
        try:
            run = Run.load(path)
            found[index] = run, _checked(run)
        except NcubbleError as error:
            failed[index] = ReportFailure(path, error)
    numbers = list(found)
    errors = ingest([source for _, source in found.values()], tuple(store.PARTS) if details else ("scalars",), progress)
    failed |= {numbers[i]: ReportFailure(found[numbers[i]][0].path, error) for i, error in errors.items()}
    opened = [Report(*found[index]) for index in numbers if index not in failed]
    return opened, [failed[i] for i in sorted(failed)]


def _checked(run: Run) -> Source:
    """The frame of a run's report. A cut between two blocks passes the frame check and loses launches, and flipped bits
    change values; both show against the hash in the manifest."""
    source, recorded = Source.of(run.report), run.manifest.report
    if recorded.get("file") == run.report.name and recorded.get("sha256") not in (None, "", source.frame.sha256):
        raise ReportError(
            f"{run.report}: not the report that {MANIFEST} beside it was written for (SHA-256 differs)",
            "copy the run again, or move the report elsewhere to see it without the manifest",
        )
    return source
