"""Results of replaying the variants of a launch in turns, for any measure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ncubble.profiling.capsules.replays import ReplayOutcome, outcome_of, rows_of


@dataclass
class MeasuredRounds:
    """Results of a plan, per launch in its order, up to where it ended: ``values`` (elapsed cycles,
    or ns where launches were timed), bytes that each moved between L2 and DRAM (NaN where nothing
    counts them), the SM clock during it in MHz (NaN: not known), and how each variant's launches
    ended. ``running``: the variant that has not finished yet. ``late``: launches that the host may
    have queued too late to be timed without it; ``overhead_ns``: what an empty launch takes by the
    same clock (NaN: not timed)."""

    values: list[float] = field(default_factory=list)
    dram_B: list[float] = field(default_factory=list)  # noqa: N815
    clock_mhz: list[float] = field(default_factory=list)
    outcomes: dict[str, ReplayOutcome] = field(default_factory=dict)
    running: str = ""
    late: int = 0
    overhead_ns: float = math.nan

    def hear(self, stream: str, line: str) -> None:
        """Process a line of the replay's output."""
        for row in rows_of([line]):
            self.take(row)

    def take(self, row: dict[str, Any]) -> None:
        """Process a row of the replay's output."""
        if "overhead_ns" in row:
            self.overhead_ns = float(row["overhead_ns"])
            return
        self.running = str(row.get("starts", ""))
        if "status" not in row:
            return
        outcome = outcome_of(row)
        if outcome.status != "ok":
            self.outcomes[str(row["name"])] = outcome
        self.outcomes.setdefault(str(row["name"]), outcome)
        if outcome.status == "ok" and row.get("ns") is not None:
            self.values.append(float(row["ns"]))
            self.dram_B.append(math.nan)
            self.clock_mhz.append(math.nan if row.get("mhz") is None else float(row["mhz"]))
            self.late += bool(row.get("late"))

    def cut_off(self, status: str) -> MeasuredRounds:
        """The same after the running launch has ended the process."""
        if self.running:
            self.outcomes[self.running] = ReplayOutcome(status)
        return self
