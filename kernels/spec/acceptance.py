"""``Gates``: requirements of a kernel beyond correctness, declared in its spec, checked by
``gates.acceptance``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ncubble.errors import UsageError

GIVEN = "given"
"""Name of a shape given on the command line."""


DIRECTIONS = ("up", "down", "flat")


@dataclass(frozen=True)
class CounterGate:
    """Required direction of an ncu counter from baseline to candidate. The values of ``metrics``
    are summed. ``up`` and ``down`` must change by more than ``tolerance_pct`` of the baseline's
    value, ``flat`` by at most that.
    """

    name: str
    metrics: tuple[str, ...]
    direction: str
    tolerance_pct: float

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            message = f"counter {self.name!r}: direction {self.direction!r} must be one of: {', '.join(DIRECTIONS)}"
            raise UsageError(message, "fix the spec's gates")
        if not self.metrics or not 0.0 <= self.tolerance_pct < math.inf:
            message = f"counter {self.name!r}: needs metrics and a tolerance of 0 % or more"
            raise UsageError(message, "fix the spec's gates")

    @property
    def wanted(self) -> str:
        """As text: ``up > 2 %``, ``flat <= 3 %``."""
        return f"{self.direction} {'<=' if self.direction == 'flat' else '>'} {self.tolerance_pct:g} %"

    def holds(self, baseline: float, candidate: float) -> bool:
        """Whether the counter changed as required."""
        change, noise = candidate - baseline, abs(baseline) * self.tolerance_pct / 100.0
        return {"up": change > noise, "down": -change > noise, "flat": abs(change) <= noise}[self.direction]


@dataclass(frozen=True)
class Gates:
    """Limits of a kernel that has two paths, a baseline and a candidate.

    - ``baseline``, ``candidate``: the parameters that make the two paths.
    - ``shapes``: sizes by name; every path is verified on each of them with each of ``seeds``. An
      element is bad if it is outside the spec's own tolerance; at most ``max_bad_pct`` percent may
      be, and no error may exceed ``max_abs_error``.
    - ``max_registers`` and ``max_spill_B`` per thread, ``max_smem_B`` per CTA,
      ``min_occupancy_pct`` of the warps that an SM can hold, as far as registers, shared memory and
      threads of a CTA decide it: of every path.
    - ``timed``: the name of the shape on which both paths are timed, ``iterations`` launches each.
      ``target_gain_pct`` is the share of the baseline's median time that the candidate has to save.
    - ``counters``: what ncu counts on the timed shape, and which way it has to go.
    """

    baseline: Mapping[str, int | str]
    candidate: Mapping[str, int | str]
    shapes: Mapping[str, Mapping[str, int]]
    timed: str
    seeds: tuple[int, ...] = (0, 1, 2)
    iterations: int = 500
    max_abs_error: float = 0.06
    max_bad_pct: float = 1.0
    max_registers: int = 128
    max_spill_B: int = 0  # noqa: N815 - the name that the reports use
    max_smem_B: int = 64 * 1024  # noqa: N815
    min_occupancy_pct: float = 50.0
    target_gain_pct: float = 10.0
    counters: tuple[CounterGate, ...] = ()

    def __post_init__(self) -> None:
        if self.timed not in self.shapes:
            raise UsageError(
                f"gates: timed={self.timed!r} must be one of: {', '.join(self.shapes)}", "fix the spec's gates"
            )
        if not self.seeds or self.iterations < 1:
            raise UsageError("gates: at least one seed and one iteration are needed", "fix the spec's gates")

    def asked(self, sizes: Mapping[str, int], seed: int | None, iterations: int | None) -> Gates:
        """These limits with the given shape, seed and number of launches replaced."""
        shapes = {GIVEN: {**self.shapes[self.timed], **sizes}} if sizes else self.shapes
        return replace(
            self,
            shapes=shapes,
            timed=GIVEN if sizes else self.timed,
            seeds=self.seeds if seed is None else (seed,),
            iterations=iterations or self.iterations,
        )

    @property
    def paths(self) -> dict[str, Mapping[str, int | str]]:
        """Parameters of both paths by name, baseline first."""
        return {"baseline": self.baseline, "candidate": self.candidate}
