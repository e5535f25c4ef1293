"""Facts about a launch before its code is changed: from its profile, or from the code alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncubble.analysis.ablation.code import RemovableParts
from ncubble.analysis.ablation.lines import on_one_line, ranked
from ncubble.analysis.ablation.listing import listing, unit_of
from ncubble.analysis.ablation.result import MeasuredLine, MeasuredPart
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.report.report import Launch
from ncubble.kernels.build import disassemble
from ncubble.profiling.capsules.capsule import Capsule

if TYPE_CHECKING:
    import pandas as pd

FROM_CODE = "without counters, loops and the bounding unit are inferred from the code: {}"


@dataclass(frozen=True)
class AblationSubject:
    """``source``: its instructions, as in a launch. ``unit``: the bounding unit, or the unit its
    code targets. ``estimate``: its account in percent; empty without a profile. ``sampled``:
    whether warps were sampled."""

    source: pd.DataFrame
    unit: str
    estimate: Mapping[str, float] = field(default_factory=dict)
    sampled: bool = True
    notes: tuple[str, ...] = ()

    @classmethod
    def profiled(cls, launch: Launch, bubbles: BubbleAccount) -> AblationSubject:
        """Of a launch with its account."""
        return cls(launch.source, bubbles.unit, bubbles.parts)

    @classmethod
    def of_code(cls, capsule: Capsule) -> AblationSubject:
        """Of the machine code alone, by nvdisasm. Raises MeasurementError and ReportError."""
        source = listing(disassemble(capsule.cubin.read_bytes(), lines=True), capsule.function)
        unit = unit_of(source)
        return cls(source, unit, sampled=False, notes=(FROM_CODE.format(unit or "no unit stands out"),))

    def lines(self, parts: Sequence[MeasuredPart], code: RemovableParts) -> list[MeasuredLine]:
        """Source lines by cost, if known."""
        if self.sampled:
            return ranked(self.source, self.unit, parts)
        return on_one_line(self.source, code.rows, parts)
