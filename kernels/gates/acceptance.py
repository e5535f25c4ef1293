"""Holds a kernel against the gates of its spec: both paths right and within the resources, their
times compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ncubble.errors import GateError, MeasurementError, UsageError, VerificationError
from ncubble.kernels.catalog.registry import catalog as load_catalog
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.device.occupancy import occupancy
from ncubble.kernels.gates.counters import Count, CountedDirections, counted_directions
from ncubble.kernels.run.bench import Timing
from ncubble.kernels.run.ranges import no_ranges, nvtx_ranges
from ncubble.kernels.run.request import KernelRequest
from ncubble.kernels.run.session import KernelOutcome, execute
from ncubble.kernels.run.verify import Verification
from ncubble.kernels.spec.acceptance import Gates

Execute = Callable[[KernelRequest], KernelOutcome]


@dataclass(frozen=True)
class AcceptanceCheck:
    """One path on one shape with one seed."""

    path: str
    shape: str
    seed: int
    verification: Verification
    passed: bool

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; ``passed`` is the gate's verdict, which allows what ``ncubble verify`` would
        not."""
        return {"path": self.path, "shape": self.shape, "seed": self.seed, **self.verification.to_json()} | {
            "passed": self.passed
        }


@dataclass(frozen=True)
class PathResources:
    """What a path takes: registers and spilled bytes per thread, shared memory per CTA, and how
    many CTAs fit an SM.

    ``spill_B`` is None where the compiler does not tell; ``broken`` then says so.
    """

    path: str
    registers: int
    spill_B: int | None  # noqa: N815 - the name that the reports use
    smem_B: int  # noqa: N815
    ctas_per_sm: int
    occupancy_pct: float
    broken: tuple[str, ...] = ()

    def within(self, gates: Gates) -> tuple[bool, bool, bool, bool]:
        """Whether registers, spilled bytes, shared memory and occupancy keep to ``gates``."""
        return (
            self.registers <= gates.max_registers,
            self.spill_B is not None and self.spill_B <= gates.max_spill_B,
            self.smem_B <= gates.max_smem_B,
            self.occupancy_pct >= gates.min_occupancy_pct,
        )


@dataclass(frozen=True)
class AcceptanceOutcome:
    """All that was found. ``timings`` and ``facts`` by path; a path that was wrong on the timed
    shape has no timing, and none has where ``untimed`` says why times mean nothing."""

    name: str
    gates: Gates
    checks: tuple[AcceptanceCheck, ...]
    resources: tuple[PathResources, ...]
    timings: Mapping[str, Timing]
    facts: Mapping[str, dict[str, Any]]
    counters: CountedDirections = field(default_factory=CountedDirections)
    untimed: str = ""

    @property
    def correct(self) -> bool:
        """Whether every path is right on every shape with every seed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def affordable(self) -> bool:
        """Whether every path stays within the resources."""
        return not any(item.broken for item in self.resources)

    @property
    def gain_pct(self) -> float | None:
        """Share of the baseline's median time that the candidate saves, in percent; None if one was
        not timed."""
        if set(self.timings) != set(self.gates.paths):
            return None
        return 100.0 * (1.0 - self.timings["candidate"].p50_us / self.timings["baseline"].p50_us)

    @property
    def target_met(self) -> bool | None:
        """Whether the candidate saves as much as it is to; None if that was not measured."""
        return None if self.gain_pct is None else self.gain_pct >= self.gates.target_gain_pct

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON-ready object; times in microseconds."""
        return {
            "kernel": self.name,
            "gates": asdict(self.gates),
            "correctness": [check.to_json() for check in self.checks],
            "resources": [asdict(item) for item in self.resources],
            "performance": {
                "shape": self.gates.timed,
                **{path: asdict(timing) for path, timing in self.timings.items()},
                "gain_pct": self.gain_pct,
                "target_gain_pct": self.gates.target_gain_pct,
                "target_met": self.target_met,
                "untimed": self.untimed or None,
            },
            "counters": self.counters.to_json(),
            "passed": self.correct and self.affordable and self.target_met is not False and self.counters.passed,
        }

    def require(self) -> None:
        """Raises VerificationError unless ``correct``, GateError unless ``affordable`` and, if both
        paths were timed, the target is met and counters go their way, and MeasurementError where
        counters could not be read."""
        wrong = [check for check in self.checks if not check.passed]
        if wrong:
            first = wrong[0]
            settings = " ".join(f"-p {key}={value}" for key, value in self.gates.paths[first.path].items())
            sizes = ",".join(f"{key}={value}" for key, value in self.gates.shapes[first.shape].items())
            message = f"{self.name}: {len(wrong)} of {len(self.checks)} verifications failed: "
            message += f"{first.path}, {first.shape}, seed {first.seed}: {first.verification.describe()}"
            remedy = f"reproduce: ncubble verify {self.name} {settings} --shape {sizes} --seed {first.seed}"
            raise VerificationError(message, remedy)
        if not self.affordable:
            broken = "; ".join(f"{item.path}: {', '.join(item.broken)}" for item in self.resources if item.broken)
            raise GateError(f"{self.name}: exceeds its resources: {broken}", "use less, or change the spec's gates")
        if self.target_met is False:
            saved, wanted = f"{self.gain_pct:.1f} %", f"{self.gates.target_gain_pct:g} %"
            message = f"{self.name}: the candidate saves {saved} of the baseline's time; required: {wanted}"
            raise GateError(message, "make it faster, or change target_gain_pct of the spec's gates")
        self.counters.require(self.name)


def run_acceptance(
    name: str,
    gates: Gates,
    catalog: Path | None = None,
    run: Execute = execute,
    count: Count | None = None,
    nvtx: bool = False,
    untimed: str = "",
) -> AcceptanceOutcome:
    """Verifies both paths of the kernel ``name`` on all shapes and seeds of ``gates``, and times
    both on one of them. If both are right, ``count`` reads their counters there; None leaves these
    gates out. ``nvtx`` puts NVTX ranges around each path, and the phases in it. ``untimed``: why
    times mean nothing here; launches are the same then, and their times are not kept.

    Raises:
        UsageError: no such kernel, or a size that it cannot take.
        MeasurementError: no GPU, no compiler, a kernel that faults, or unknown occupancy.
    """
    checks: list[AcceptanceCheck] = []
    timed: dict[str, KernelOutcome] = {}
    ranges = nvtx_ranges() if nvtx else no_ranges
    for path, parameters in gates.paths.items():
        for shape, seed in itertools.product(gates.shapes, gates.seeds):
            times = (shape, seed) == (gates.timed, gates.seeds[0])
            iterations = gates.iterations if times else 0
            request = KernelRequest(
                name, parameters, gates.shapes[shape], catalog, seed=seed, iterations=iterations, nvtx=nvtx
            )
            with ranges(path):
                outcome = run(request)
            checks.append(_checked(gates, path, shape, outcome))
            if times:
                timed[path] = outcome
    found = AcceptanceOutcome(
        name=name,
        gates=gates,
        checks=tuple(checks),
        resources=tuple(resources_of(gates, path, outcome) for path, outcome in timed.items()),
        timings={path: outcome.timing for path, outcome in timed.items() if outcome.timing and not untimed},
        facts={path: outcome.facts for path, outcome in timed.items()},
        untimed=untimed,
    )
    return replace(found, counters=counted_directions(gates, count)) if found.correct else found


def gates_of(name: str, catalog: Path | None = None) -> Gates:
    """The gates of the kernel ``name``; raises UsageError if its spec has none."""
    gates = find_spec(name, catalog).gates
    if gates is None:
        having = ", ".join(spec.name for spec in load_catalog(catalog).values() if spec.gates is not None)
        raise UsageError(f"{name} has no gates", f"kernels with gates: {having or 'none'}")
    return gates


def _checked(gates: Gates, path: str, shape: str, outcome: KernelOutcome) -> AcceptanceCheck:
    verification = outcome.verification
    if verification is None:
        raise MeasurementError(f"{outcome.case.label}: was not verified", "please report this bug: gates always verify")
    passed = (
        verification.checked > 0
        and not verification.nonfinite
        and not verification.overrun
        and verification.max_abs_error <= gates.max_abs_error
        and verification.bad_pct <= gates.max_bad_pct
    )
    return AcceptanceCheck(path, shape, outcome.seed, verification, passed)


def resources_of(gates: Gates, path: str, outcome: KernelOutcome) -> PathResources:
    """What ``path`` takes by the facts of its launch, and which limits that breaks, in words."""
    build = outcome.facts["build"]
    registers, spilled = build["registers"], build["spill_B"]
    smem = build["smem_static_B"] + build["smem_dynamic_B"]
    major, minor = map(int, outcome.facts["device"]["compute_capability"].split("."))
    fit = occupancy((major, minor), math.prod(outcome.case.block), registers, smem)
    taken = PathResources(path, registers, spilled, smem, fit.ctas, fit.percent)
    unknown = "the number of spilled bytes is not known"
    excess = (
        f"{registers} registers; allowed: {gates.max_registers}",
        unknown if spilled is None else f"{spilled} bytes spilled; allowed: {gates.max_spill_B}",
        f"{smem} bytes of shared memory; allowed: {gates.max_smem_B}",
        f"occupancy {fit.percent:.1f} %; required: {gates.min_occupancy_pct:g} %",
    )
    broken = (text for text, good in zip(excess, taken.within(gates), strict=True) if not good)
    return replace(taken, broken=tuple(broken))
