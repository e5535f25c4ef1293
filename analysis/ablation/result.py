"""What an ablation measured, as it is kept beside the report (``ablation.json``) and printed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ncubble.analysis.account.parts import JOINED, WORK
from ncubble.analysis.account.shares import REST
from ncubble.records import read_record, write_record

FILE = "ablation.json"
SLACK = "slack"
"""Prefix of the names of variants that delay a class of instructions."""
REPORT_STEM = "report"
"""Name of the report in a run directory; ablations next to other files do not belong to them."""
SCHEMA = 1
ROUTE, SHORTER = "machine code", "shorter machine code"
"""How parts were removed: replaced by NOPs, or without NOPs."""
Measure = Literal["cycles", "time"]
"""What was measured per launch: cycles counted by ncu, or time between two events if counters could
not be read. The two are never compared: a kernel without copies clocks higher."""
CYCLES: Measure = "cycles"
TIME: Measure = "time"
NOISY_PCT = 2.0
"""If the whole kernel's standard error is above this, no part can be resolved."""
Interval = tuple[float, float]
"""Bounds of a 95 % confidence interval."""
REMAINDER = "remainder"
"""Remainder of a measured account to 100 %: the ``rest``, less the overlap that both epilogue and
loop count."""
AGAIN = "measure it again with `ncubble ablate`"
LEAST_CAUSE_PCT = 1.0
"""Parts that cost less are not causes, as in the diagnosis."""


@dataclass(frozen=True)
class MeasuredPart:
    """A part of the account in percent of the kernel's cycles: what the account ``estimated``
    (None: it has no such part), what was ``measured``, what vanishes with it ``alone``, and the
    standard error ``se`` of that (None: not removed alone). ``interval``: of ``measured``, where
    time was measured."""

    part: str
    estimated: float | None
    measured: float
    se: float | None
    alone: float | None
    interval: Interval | None = None

    @property
    def names(self) -> list[str]:
        """The parts of the account that it stands for: several that were only measured together."""
        return self.part.split(JOINED)


@dataclass(frozen=True)
class MeasuredVariant:
    """One variant: its ``status`` (``ok``, an error of the driver, ``hangs``, ``changes results``),
    how many instructions it changes, its cycles in each round, what vanishes with it in percent,
    and what it moves between L2 and DRAM per byte that the whole kernel moves. Where time was
    measured, ``times_ns`` and the mean SM clock stand in place of cycles and bytes, with the
    ``interval`` of ``gone_pct``."""

    name: str
    status: str
    rows: int
    cycles: list[float] = field(default_factory=list)
    gone_pct: float | None = None
    se: float | None = None
    moved: float | None = None
    times_ns: list[float] = field(default_factory=list)
    clock_mhz: float | None = None
    interval: Interval | None = None

    @property
    def costs_pct(self) -> float | None:
        """What it adds to the kernel's cycles, in percent: positive where a delay costs time."""
        return None if self.gone_pct is None else -self.gone_pct


@dataclass(frozen=True)
class MeasuredLine:
    """A source line (or instruction, without lines) with the measured cost of its instructions, in
    percent: each part's cost is split by the stall samples of its instructions."""

    file: str | None
    line: int | None
    sass: str
    part: str
    pct: float


@dataclass(frozen=True)
class Ablation:
    """All of one launch. ``slack``: variants that only delay; their ``gone_pct`` is negative where
    the delay costs time. ``faithful``: whether the replayed launch wrote what the program's did,
    bit by bit (None: not known). ``seconds``: what profiling and ablating took.

    ``measure`` says what the percents are of. Where it is ``time``, ``cycles`` is None and no
    report lies beside: ``time_ns`` is the median of the whole kernel, ``interval_ns`` its
    confidence interval, ``overhead_ns`` what an empty launch takes by the same clock,
    ``clock_mhz`` the SM clock of the whole kernel, ``label`` and ``argv`` name what was measured.
    """

    kernel: str
    device: str
    cycles: float | None
    se_pct: float
    rounds: int
    faithful: bool | None
    parts: list[MeasuredPart]
    interactions: dict[str, float]
    variants: list[MeasuredVariant]
    slack: list[MeasuredVariant]
    lines: list[MeasuredLine]
    notes: list[str] = field(default_factory=list)
    route: str = ROUTE
    seconds: dict[str, float] = field(default_factory=dict)
    measure: Measure = CYCLES
    time_ns: float | None = None
    interval_ns: Interval | None = None
    overhead_ns: float | None = None
    clock_mhz: float | None = None
    label: str = ""
    argv: list[str] = field(default_factory=list)

    @property
    def timed(self) -> bool:
        """Whether time was measured, as no counter was read."""
        return self.measure == TIME

    @property
    def removed_parts(self) -> list[MeasuredPart]:
        """Parts of the account that were measured, largest first; not the ``rest``."""
        return [part for part in self.parts if part.part != REST]

    @property
    def first_cause(self) -> MeasuredPart | None:
        """The part that costs most; None where none costs ``LEAST_CAUSE_PCT``."""
        first = max(self.removed_parts, key=lambda part: part.measured, default=None)
        return first if first is not None and first.measured >= LEAST_CAUSE_PCT else None

    @property
    def slack_by_cost(self) -> list[MeasuredVariant]:
        """Delays by what they cost, largest first; those that could not be measured last."""
        return sorted(self.slack, key=lambda variant: math.inf if variant.gone_pct is None else variant.gone_pct)

    def part_of(self, name: str) -> MeasuredPart | None:
        """What was measured of a part of the account, alone or with others; None where nothing
        was."""
        return next((part for part in self.removed_parts if name in part.names), None)

    @property
    def whole(self) -> bool:
        """Whether every set of parts was measured, so that time could be shared out among them."""
        return any(part.part == REST for part in self.parts) and all(
            variant.status == "ok" for variant in self.variants
        )

    def account(self, estimate: Mapping[str, float]) -> dict[str, float] | None:
        """The account as measured, in percent: the work of ``estimate``, the removed parts, and the
        ``REMAINDER``. A part is negative where the kernel is slower without it. None unless
        ``whole``, and where time was measured: accounts are shares of cycles."""
        if self.timed:
            return None
        work = {name: estimate[name] for name in WORK if name in estimate}
        if not work or not self.whole:
            return None
        shares = work | {part.part: part.measured for part in self.removed_parts}
        return {**shares, REMAINDER: 100.0 - math.fsum(shares.values())}

    def to_json(self) -> dict[str, Any]:
        """Members of ``ablation.json``."""
        return {"schema": SCHEMA, **asdict(self)}

    def save(self, folder: Path) -> None:
        """Write it beside the report of a run; raises OSError."""
        write_record(folder / FILE, self, SCHEMA)

    @classmethod
    def load(cls, folder: Path) -> Ablation | None:
        """What was measured of the run in ``folder``; None where nothing was. Raises ReportError
        for a damaged file."""
        return read_record(folder / FILE, cls, SCHEMA, "an ablation", AGAIN)


def ablation_of(path: Path, launch: int) -> Ablation | None:
    """What was measured of a launch of the run or report file at ``path``: ``ncubble ablate`` keeps
    one launch in a run, the first. None where nothing was; raises ReportError for a damaged file.
    """
    if launch != 0:
        return None
    if not path.is_dir() and path.stem != REPORT_STEM:
        return None
    ablation = Ablation.load(path if path.is_dir() else path.parent)
    return None if ablation is None or ablation.timed else ablation
