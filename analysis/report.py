"""``Report``: the tidy frames of one report file, read once, cached, and loaded when asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.analysis import frames, store, timeline, workers
from ncubble.analysis.container import Frame, check_frame
from ncubble.errors import NcubbleError, ReportError, UsageError
from ncubble.profiling.run import MANIFEST, Run, find_runs


@dataclass(frozen=True)
class ReportFailure:
    """A report that could not be opened, and why."""

    path: Path
    error: NcubbleError


class Report:
    """Frames of one report. Columns and units of each frame: ``docs/architecture.md``."""

    def __init__(self, run: Run, frame: Frame) -> None:
        self.run, self.frame = run, frame
        self.path = run.path
        self.key = frame.sha256[:16]
        self._sources: dict[int, pd.DataFrame] = {}

    @classmethod
    def open(cls, path: Path) -> Report:
        """The report of a run directory or report file. Raises ReportError (damaged) or UsageError (no such path)."""
        reports, failures = open_reports([path])
        if failures:
            raise failures[0].error
        if len(reports) != 1:
            raise ReportError(f"{path}: holds {len(reports)} reports, not one", "name one run directory or report file")
        return reports[0]

    def _table(self, name: str) -> pd.DataFrame:
        return store.load(self.frame.sha256, name)

    @cached_property
    def launches(self) -> pd.DataFrame:
        """One row per launch: identity, geometry, device, duration_ns, cycles, sm_clock_hz."""
        version = self.frame.ncu_version or self.run.manifest.ncu_version
        return frames.launches(self._table("actions"), self.metrics, self._table("texts"), version)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Every scalar number: launch, metric, value, unit."""
        return self._table("metrics")

    @cached_property
    def timeline(self) -> pd.DataFrame:
        """PM-sampling series on one time axis: launch, t_ns, metric, value, unit. Empty where not collected."""
        return timeline.tidy(self._table("timeline"))

    @cached_property
    def source(self) -> pd.DataFrame:
        """One row per instruction: launch, pc, sass, opcode, file, line, samples, executed, stall reasons."""
        return frames.source(self._table("source"))

    @cached_property
    def rules(self) -> pd.DataFrame:
        """Nsight's own findings with its estimated speedup in percent."""
        return self._table("rules")

    @cached_property
    def files(self) -> dict[str, str]:
        """Text of the source files that the report carries, by name."""
        table = self._table("files")
        return dict(zip(table["file"], table["text"], strict=True))

    @cached_property
    def _values(self) -> dict[int, dict[str, float]]:
        table = self.metrics
        found: dict[int, dict[str, float]] = {int(launch): {} for launch in self.launches["launch"]}
        for launch, metric, value in zip(table["launch"], table["metric"], table["value"], strict=True):
            found[int(launch)][metric] = float(value)
        return found

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
        return self._values[launch].get(metric, math.nan)

    def first(self, launch: int, metrics: Iterable[str]) -> float:
        """The first of ``metrics`` that is collected for this launch; NaN where none is."""
        values = (self.value(launch, metric) for metric in metrics)
        return next((value for value in values if not math.isnan(value)), math.nan)

    def source_of(self, launch: int) -> pd.DataFrame:
        """The source frame of one launch, rows numbered from 0. One object for all callers: do not write to it."""
        if launch not in self._sources:
            self._sources[launch] = self.source[self.source["launch"] == launch].reset_index(drop=True)
        return self._sources[launch]

    def wide(self, names: Sequence[str]) -> pd.DataFrame:
        """One column per metric, indexed by launch; NaN where not collected."""
        return frames.wide(self.metrics, names, list(self.launches["launch"]))


def open_reports(
    paths: Iterable[Path], progress: Callable[[int, int], None] | None = None
) -> tuple[list[Report], list[ReportFailure]]:
    """Open every report at or below ``paths``, in order; one that fails never hides another.

    ``progress(done, total)`` is called as reports are read. Reports that are in the cache are not parsed again.
    """
    found: dict[int, Run] = {}
    failed: dict[int, ReportFailure] = {}
    frames_of: dict[int, Frame] = {}
    for index, path in enumerate(find_runs(paths)):
        try:
            run = Run.load(path)
            frames_of[index] = _checked(run)
            found[index] = run
        except NcubbleError as error:
            failed[index] = ReportFailure(path, error)
    _extract(found, frames_of, failed, progress)
    opened = [Report(run, frames_of[i]) for i, run in found.items() if i not in failed]
    return opened, [failed[i] for i in sorted(failed)]


def _checked(run: Run) -> Frame:
    """The frame of a run's report. A cut between two blocks passes the frame check and loses launches, and flipped bits
    change values; both show against the hash in the manifest."""
    frame, recorded = check_frame(run.report), run.manifest.report
    if recorded.get("file") == run.report.name and recorded.get("sha256") not in (None, "", frame.sha256):
        raise ReportError(
            f"{run.report}: not the report that {MANIFEST} beside it was written for (SHA-256 differs)",
            "copy the run again, or move the report elsewhere to see it without the manifest",
        )
    return frame


def _extract(
    runs: dict[int, Run],
    frames_of: dict[int, Frame],
    failed: dict[int, ReportFailure],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Read what the cache lacks, each content once, and file the failures by index."""
    users: dict[str, list[int]] = {}
    for index, frame in frames_of.items():
        users.setdefault(frame.sha256, []).append(index)
    missing = [sha for sha in users if not store.holds(sha)]
    finished = len(users) - len(missing)

    def done(job: int, error: NcubbleError | None) -> None:
        nonlocal finished
        try:
            if error is None:
                store.commit(jobs[job][1], missing[job])
        except NcubbleError as unwritable:
            error = unwritable
        if error is not None:
            failed.update({index: ReportFailure(runs[index].path, error) for index in users[missing[job]]})
        finished += 1
        if progress:
            progress(finished, len(users))

    if missing:
        with store.staging() as folder:
            jobs = [(runs[users[sha][0]].report, folder / sha) for sha in missing]
            workers.extract_all(jobs, done)
