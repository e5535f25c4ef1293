"""One launch of a report, with what was read and computed of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ncubble.analysis.report.container import Frame
from ncubble.profiling.runs import Run
from ncubble.text.values import string

if TYPE_CHECKING:
    import pandas as pd

Fact = TypeVar("Fact")


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
    def of(cls, row: Mapping[Hashable, Any]) -> LaunchIdentity:
        """Of the cells of a row; others are left out."""
        return cls(**{name: read(row.get(name)) for name, read in _CELLS})


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


_CELLS: tuple[tuple[str, Callable[[Any], Any]], ...] = tuple(
    (field.name, string if field.default == "" else _float) for field in fields(LaunchIdentity)
)
"""The fields, with the converter of each: computed once, because reports have thousands of
launches."""


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

    def identity(self, number: int) -> LaunchIdentity:
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
        return facts if str(facts.get("function") or "") == self.identity.kernel else {}

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
