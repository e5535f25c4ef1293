"""The verdict of a launch: what the command line prints and the dashboard shows
(docs/reference/verdicts.md).

Plain data; pandas is not imported for it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from ncubble.analysis.changes.change import Change
from ncubble.records import typed


@dataclass(frozen=True)
class Place:
    """A line of the source, or an instruction where there are no lines; ``pct`` of kernel time."""

    file: str | None
    line: int | None
    sass: str
    pct: float


@dataclass(frozen=True)
class Cause:
    """One cause with its share in percent of kernel time; ``where`` lists its hottest places."""

    cause: str
    disease: str | None
    pct: float
    where: list[Place] = field(default_factory=list)
    fix: str = ""
    predicted_gain_pct: float | None = None
    measured: ClassVar[bool] = False


class MeasuredCause(Cause):
    """A cause whose share was measured by ablation, of one part or of joined ones."""

    measured: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class LaunchVerdict:
    """One launch of a report, judged. None stands for what the report does not hold.

    ``account``: percent of elapsed SM cycles by part; ``merged``: finer parts that a coarser one
    stands for. ``async_copy``: executed copies in warp instructions. ``causes`` are ranked.
    """

    report: str
    launch: int
    integrity: str
    label: str
    shape: dict[str, Any]
    kernel: str
    device: str | None
    compute_capability: str | None
    duration_ns: float | None
    cycles: float | None
    sm_clock_hz: float | None
    tensor_elapsed_pct: float | None
    tensor_of_active_pct: float | None
    dram_pct: float | None
    async_copy: dict[str, float | None]
    unit: str | None
    account: dict[str, float] | None
    merged: dict[str, list[str]]
    cause: str
    disease: str | None
    causes: list[Cause]
    changes: list[Change] = field(default_factory=list)
    warnings: list[str]

    @property
    def address(self) -> str:
        """``REPORT#NUMBER``: how a launch is asked for."""
        return f"{self.report}#{self.launch}"

    @property
    def doubts(self) -> list[str]:
        """What contradicts itself in the launch, in sentences; empty where nothing does."""
        return [text for text in self.warnings if text.startswith("suspicious:")]

    def to_json(self) -> dict[str, Any]:
        """One element of ``launches`` in the JSON of ``ncubble report``."""
        return {**asdict(self), "changes": [change.to_json() for change in self.changes]}

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> LaunchVerdict:
        """A verdict that was remembered. Raises WrongFieldError where it is none."""
        changes = [Change.members_of(change) for change in members.get("changes", [])]
        return typed({**members, "changes": changes}, cls)
