"""One launch of a report, with what was read and computed of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ncubble.analysis.report.container import Frame
from ncubble.profiling.runs.run import Run

if TYPE_CHECKING:
    import pandas as pd

Fact = TypeVar("Fact")


class ReportOfLaunch(Protocol):
    """What a launch reads of its report; members as in ``Report``."""

    path: Path
    key: str
    run: Run
    frame: Frame

    @property
    def launches(self) -> pd.DataFrame:
        """As in ``Report``."""

    @property
    def rules(self) -> pd.DataFrame:
        """As in ``Report``."""

    @property
    def files(self) -> dict[str, str]:
        """As in ``Report``."""

    def wide(self, names: Sequence[str]) -> pd.DataFrame:
        """As in ``Report``."""

    def identity(self, number: int) -> dict[str, Any]:
        """As in ``Report``."""

    def scalars(self, number: int) -> dict[str, float]:
        """As in ``Report``."""

    def source_of(self, number: int) -> pd.DataFrame:
        """As in ``Report``."""

    def timeline_of(self, number: int) -> pd.DataFrame:
        """As in ``Report``."""

    def memo(self, number: int) -> dict[object, Any]:
        """As in ``Report``."""


@dataclass(frozen=True)
class Launch:
    """Launch ``number`` of ``report``. Its facts are read when they are first asked for, and the
    report keeps them, so that two ``Launch`` of one number share them: do not write to them."""

    report: ReportOfLaunch
    number: int

    @property
    def identity(self) -> dict[str, Any]:
        """The row of the report's ``launches`` as a dict: kernel, geometry, device, duration_ns,
        cycles."""
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
        rules = self.report.rules
        return rules[rules["launch"] == self.number]

    @property
    def label(self) -> str:
        """The name of the launch in tables."""
        return self.report.run.label_of(self.number)

    @property
    def declared(self) -> dict[str, Any]:
        """The manifest's facts of the kernel, as declared by the program; empty where they name
        another function."""
        facts = self.report.run.manifest.kernel_of(self.number)
        return facts if str(facts.get("function") or "") == str(self.identity["kernel"]) else {}

    @property
    def memo(self) -> dict[object, Any]:
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
