"""The verdict of a launch: what the command line prints and the dashboard shows
(docs/reference/verdicts.md).

Plain data; pandas is not imported for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ncubble.analysis.account.parts import WORK
from ncubble.analysis.changes.change import BYTES, NONE, Change
from ncubble.records import typed

UNKNOWN = "unknown"
"""The cause of a launch whose report does not say what to change."""
MERGE = "merge launches or use a graph: launch latency dominates"
"""The first change of a launch that is over before a change within it could matter."""
IN_ACCOUNT = {"tail": ("tail", "no_cta"), "slow_path": WORK, "no_tensor_work": WORK}
"""Parts of an account that hold what a change acts on, where its name is another."""


def idle_pct(account: Mapping[str, float], part: str) -> float | None:
    """What ``part`` takes of ``account``; None where it is no idle part of it."""
    names = [name for name in IN_ACCOUNT.get(part, (part,)) if name not in WORK and name in account]
    return account[names[0]] if names else None


@dataclass(frozen=True)
class Place:
    """A line of the source, with its ``text`` where the report has it, or an instruction where
    there are no lines; ``pct`` of kernel time."""

    file: str | None
    line: int | None
    sass: str
    pct: float
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class LaunchVerdict:
    """One launch of a report, judged. None stands for what the report does not hold.

    ``account``: percent of elapsed SM cycles by part; ``merged``: finer parts that a coarser one
    stands for. ``async_copy``: executed copies in warp instructions. ``where``: the hottest places
    of each part. ``changes`` are ranked. ``measured``: percent of each part that ``ncubble ablate``
    measured by itself.
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
    where: dict[str, list[Place]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    warnings: list[str]
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def first(self) -> Change | None:
        """The change that is most worth doing; None where the report does not say."""
        return self.changes[0] if self.changes else None

    @property
    def cause(self) -> str:
        """The part of the account that the first change acts on; ``none`` and ``bytes`` where it
        is of that kind, ``unknown`` without one."""
        first = self.first
        return UNKNOWN if first is None else first.kind if first.kind in (NONE, BYTES) else first.part or UNKNOWN

    @property
    def change(self) -> str:
        """The kind of the first change, ``unknown`` without one."""
        return self.first.kind if self.first else UNKNOWN

    def pct_of(self, part: str) -> float | None:
        """What a part takes, in percent of kernel time, as measured where it was; None where it is
        no idle part of the account."""
        return self.measured[part] if part in self.measured else idle_pct(self.account or {}, part)

    def places_of(self, part: str) -> list[Place]:
        """The hottest places of a part."""
        return next((self.where[name] for name in IN_ACCOUNT.get(part, (part,)) if name in self.where), [])

    @property
    def cause_pct(self) -> float | None:
        """``pct_of`` the cause."""
        return self.pct_of(self.cause)

    @property
    def places(self) -> list[Place]:
        """The hottest places of the cause."""
        return self.places_of(self.cause)

    @property
    def address(self) -> str:
        """``REPORT#NUMBER``: how a launch is asked for."""
        return f"{self.report}#{self.launch}"

    @property
    def doubts(self) -> list[str]:
        """What contradicts itself in the launch, in sentences; empty where nothing does."""
        return [text for text in self.warnings if text.startswith("suspicious:")]

    def to_json(self) -> dict[str, Any]:
        """One element of ``launches`` in the JSON of ``ncubble report``, without what was
        measured."""
        members = asdict(self)
        del members["measured"]
        return {**members, "cause": self.cause, "changes": [change.to_json() for change in self.changes]}

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> LaunchVerdict:
        """A verdict that was remembered. Raises WrongFieldError where it is none."""
        changes = [Change.members_of(change) for change in members.get("changes", [])]
        known = {name: value for name, value in members.items() if name != "cause"}
        return typed({**known, "changes": changes}, cls)
