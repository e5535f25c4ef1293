"""Which way counters of ncu go from the baseline to the candidate of a kernel with gates.

Who reads them is handed in: this room profiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ncubble.errors import GateError, MeasurementError, NcubbleError
from ncubble.kernels.spec.acceptance import CounterGate, Gates
from ncubble.kernels.spec.spec import Value

Count = Callable[[Mapping[str, Value], Mapping[str, int], Sequence[str]], Mapping[str, float]]
"""Values of ncu metrics by name, of a launch with these parameters and sizes; raises
NcubbleError."""
LEFT_OUT = "skipped (--no-counters)"


@dataclass(frozen=True)
class CountedDirection:
    """A counter of both paths, and whether it went the way of its gate; ``change_pct`` is None for
    a baseline of 0."""

    gate: CounterGate
    baseline: float
    candidate: float

    @property
    def change_pct(self) -> float | None:
        """From the baseline, in percent."""
        return 100.0 * (self.candidate / self.baseline - 1.0) if self.baseline else None

    @property
    def passed(self) -> bool:
        """Whether it went that way."""
        return self.gate.holds(self.baseline, self.candidate)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        found = {"baseline": self.baseline, "candidate": self.candidate}
        return {**asdict(self.gate), **found, "change_pct": self.change_pct, "passed": self.passed}


@dataclass(frozen=True)
class CountedDirections:
    """The counters of a kernel's gates. ``unmeasured`` says why there are none although the gates
    ask for some; that is no pass, unless they were left out on request."""

    checks: tuple[CountedDirection, ...] = ()
    unmeasured: str = ""

    @property
    def passed(self) -> bool:
        """Whether every counter that was asked for was read, and went its way."""
        return self.unmeasured in ("", LEFT_OUT) and all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"checks": [check.to_json() for check in self.checks], "unmeasured": self.unmeasured or None}

    def require(self, name: str) -> None:
        """Raises GateError where a counter went another way, MeasurementError where none was
        read."""
        if missed := [check for check in self.checks if not check.passed]:
            went = "; ".join(
                f"{check.gate.name}: {check.baseline:.6g} to {check.candidate:.6g}, required: {check.gate.wanted}"
                for check in missed
            )
            raise GateError(
                f"{name}: {went}",
                "profile both paths to find what limits them (ncubble profile), or change the spec's counters",
            )
        if not self.passed:
            message = f"{name}: counters were not measured: {self.unmeasured}"
            raise MeasurementError(message, "see `ncubble doctor`, or skip these gates with --no-counters")


def counted_directions(gates: Gates, count: Count | None) -> CountedDirections:
    """Reads the counters of both paths on the timed shape; where that fails, the reason stands in
    their place, so that what was measured before is not lost."""
    if not gates.counters:
        return CountedDirections()
    if count is None:
        return CountedDirections(unmeasured=LEFT_OUT)
    metrics = list(dict.fromkeys(name for gate in gates.counters for name in gate.metrics))
    sizes = gates.shapes[gates.timed]
    try:
        found = {path: count(parameters, sizes, metrics) for path, parameters in gates.paths.items()}
        return CountedDirections(tuple(_direction(gate, found) for gate in gates.counters))
    except NcubbleError as error:
        return CountedDirections(unmeasured=error.message)


def _direction(gate: CounterGate, found: Mapping[str, Mapping[str, float]]) -> CountedDirection:
    for path, values in found.items():
        if lacking := [name for name in gate.metrics if name not in values]:
            raise MeasurementError(f"{path}: ncu returned no {', '.join(lacking)}", "see `ncubble profile --metric`")
    values = {path: sum(of_path[name] for name in gate.metrics) for path, of_path in found.items()}
    return CountedDirection(gate, values["baseline"], values["candidate"])
