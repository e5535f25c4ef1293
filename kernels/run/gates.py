"""Holds a kernel with two paths, a baseline and a candidate, against the gates of its spec: both
right and within the resources, their times and counters compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ncubble.errors import GateError, MeasurementError, NcubbleError, UsageError, VerificationError
from ncubble.kernels.catalog.registry import catalog as load_catalog
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import Timing, no_ranges, nvtx_ranges
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.run.session import KernelOutcome, KernelRequest, execute
from ncubble.kernels.run.verify import Verification
from ncubble.kernels.spec.spec import CounterGate, Gates, Value

Execute = Callable[[KernelRequest], KernelOutcome]
Count = Callable[[Mapping[str, Value], Mapping[str, int], Sequence[str]], Mapping[str, float]]
"""Values of ncu metrics by name, of a launch with these parameters and sizes; raises NcubbleError.
It is handed in: this room profiles nothing."""
LEFT_OUT = "skipped (counters=False)"
Row = tuple[str, ...]


@dataclass(frozen=True)
class AcceptanceCheck:
    """One path on one shape with one seed. ``passed`` is the gate's verdict, which allows what
    ``ncubble verify`` would not."""

    path: str
    shape: str
    seed: int
    verification: Verification
    passed: bool

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        about = {"path": self.path, "shape": self.shape, "seed": self.seed}
        return {**about, **self.verification.to_json(), "passed": self.passed}


@dataclass(frozen=True)
class PathResources:
    """What a path takes: registers and spilled bytes per thread, shared memory per CTA, and how
    many CTAs fit an SM. ``broken``: the limits that it exceeds, in words.

    ``spill_B`` is None where the compiler does not tell; ``broken`` then says so.
    """

    path: str
    registers: int
    spill_B: int | None  # noqa: N815 - the name that the reports use
    smem_B: int  # noqa: N815
    ctas_per_sm: int
    occupancy_pct: float
    broken: tuple[str, ...] = ()

    def against(self, gates: Gates) -> list[tuple[str, str, str, bool, str]]:
        """For each resource its name, what is taken, what is allowed, whether that holds, and what
        to say where it does not."""
        spilled, occupied = self.spill_B, f"{self.occupancy_pct:.1f} %"
        names = ("registers per thread", "bytes spilled per thread", "shared memory per CTA, KiB")
        taken = (str(self.registers), "n/a" if spilled is None else str(spilled), f"{self.smem_B / 1024:.1f}")
        limits = (str(gates.max_registers), str(gates.max_spill_B), f"{gates.max_smem_B / 1024:g}")
        good = (
            self.registers <= gates.max_registers,
            spilled is not None and spilled <= gates.max_spill_B,
            self.smem_B <= gates.max_smem_B,
            self.occupancy_pct >= gates.min_occupancy_pct,
        )
        unknown = "the number of spilled bytes is not known"
        wrong = (
            f"{self.registers} registers; allowed: {gates.max_registers}",
            unknown if spilled is None else f"{spilled} bytes spilled; allowed: {gates.max_spill_B}",
            f"{self.smem_B} bytes of shared memory; allowed: {gates.max_smem_B}",
            f"occupancy {occupied}; required: {gates.min_occupancy_pct:g} %",
        )
        rows = (
            (*names, "occupancy (CTAs per SM)"),
            (*taken, f"{occupied} ({self.ctas_per_sm})"),
            (*limits, f">= {gates.min_occupancy_pct:g} %"),
        )
        return list(zip(*rows, good, wrong, strict=True))


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
class AcceptanceOutcome:
    """All that was found. ``timings`` and ``facts`` by path; a path that was wrong on the timed
    shape has no timing, and none has where ``untimed`` says why times mean nothing. ``unmeasured``
    says why there are no ``counters`` although the gates ask for some; that is no pass, unless they
    were left out on request. ``meta``: provenance of the figures. ``unwritten``: why the folder of
    results could not be written, which does not cost what was measured."""

    name: str
    gates: Gates
    checks: tuple[AcceptanceCheck, ...]
    resources: tuple[PathResources, ...]
    timings: Mapping[str, Timing]
    facts: Mapping[str, dict[str, Any]]
    counters: tuple[CountedDirection, ...] = ()
    unmeasured: str = ""
    untimed: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    unwritten: NcubbleError | None = None

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

    @property
    def counted(self) -> bool:
        """Whether every counter that was asked for was read, and went its way."""
        return self.unmeasured in ("", LEFT_OUT) and all(check.passed for check in self.counters)

    @property
    def passed(self) -> bool:
        """Whether all gates hold that could be judged."""
        return self.correct and self.affordable and self.target_met is not False and self.counted

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
            "counters": {"checks": [check.to_json() for check in self.counters], "unmeasured": self.unmeasured or None},
            "passed": self.passed,
            "build_meta": dict(self.meta),
        }

    def require(self) -> None:
        """Raises VerificationError unless ``correct``, GateError unless ``affordable`` and, if both
        paths were timed, the target is met and counters go their way, and MeasurementError where
        counters could not be read, or results not be written."""
        if self.unwritten is not None:
            raise self.unwritten
        wrong = [check for check in self.checks if not check.passed]
        if wrong:
            first = wrong[0]
            settings = " ".join(f"-p {key}={value}" for key, value in self.gates.paths[first.path].items())
            sizes = ",".join(f"{key}={value}" for key, value in self.gates.shapes[first.shape].items())
            message = f"{self.name}: {len(wrong)} of {len(self.checks)} verifications failed: "
            message += f"{first.path}, {first.shape}, seed {first.seed}: {first.verification.describe()}"
            remedy = f"reproduce: ncubble verify {self.name} {settings} -p {sizes} --seed {first.seed}"
            raise VerificationError(message, remedy)
        if not self.affordable:
            broken = "; ".join(f"{item.path}: {', '.join(item.broken)}" for item in self.resources if item.broken)
            raise GateError(f"{self.name}: exceeds its resources: {broken}", "use less, or change the spec's gates")
        if self.target_met is False:
            saved, wanted = f"{self.gain_pct:.1f} %", f"{self.gates.target_gain_pct:g} %"
            message = f"{self.name}: the candidate saves {saved} of the baseline's time; required: {wanted}"
            raise GateError(message, "make it faster, or change target_gain_pct of the spec's gates")
        went = "; ".join(
            f"{check.gate.name}: {check.baseline:.6g} to {check.candidate:.6g}, required: {check.gate.wanted}"
            for check in self.counters
            if not check.passed
        )
        if went:
            remedy = "profile both paths to find what limits them (ncubble profile), or change the spec's counters"
            raise GateError(f"{self.name}: {went}", remedy)
        if not self.counted:
            message = f"{self.name}: counters were not measured: {self.unmeasured}"
            raise MeasurementError(message, "see `ncubble doctor`; in Python, counters=False skips these gates")


def gates_of(name: str, catalog: Path | None = None) -> Gates:
    """The gates of the kernel ``name``; raises UsageError if its spec has none."""
    gates = find_spec(name, catalog).gates
    if gates is None:
        having = ", ".join(spec.name for spec in load_catalog(catalog).values() if spec.gates is not None)
        raise UsageError(f"{name} has no gates", f"kernels with gates: {having or 'none'}")
    return gates


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
            sizes = gates.shapes[shape]
            with ranges(path):
                outcome = run(KernelRequest(name, parameters, sizes, catalog, seed, iterations=iterations, nvtx=nvtx))
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
    if not found.correct or not gates.counters:
        return found
    try:
        return replace(found, counters=_counted(gates, count)) if count else replace(found, unmeasured=LEFT_OUT)
    except NcubbleError as error:  # what was measured before is not lost
        return replace(found, unmeasured=error.message)


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
    smem = build["smem_static_B"] + build["smem_dynamic_B"]
    major, minor = map(int, outcome.facts["device"]["compute_capability"].split("."))
    fit = occupancy((major, minor), math.prod(outcome.case.block), build["registers"], smem)
    taken = PathResources(path, build["registers"], build["spill_B"], smem, fit.ctas, fit.percent)
    return replace(taken, broken=tuple(wrong for *_, good, wrong in taken.against(gates) if not good))


def _counted(gates: Gates, count: Count) -> tuple[CountedDirection, ...]:
    """The counters of both paths on the timed shape; the values of a gate's metrics are summed."""
    metrics = list(dict.fromkeys(name for gate in gates.counters for name in gate.metrics))
    read = {path: count(parameters, gates.shapes[gates.timed], metrics) for path, parameters in gates.paths.items()}
    for path, values in read.items():
        if lacking := [name for name in metrics if name not in values]:
            raise MeasurementError(f"{path}: ncu returned no {', '.join(lacking)}", "see `ncubble profile --metric`")
    return tuple(
        CountedDirection(gate, *(sum(values[name] for name in gate.metrics) for values in read.values()))
        for gate in gates.counters
    )


def compare_markdown(outcome: AcceptanceOutcome) -> str:
    """Candidate against baseline, with limits and verdicts, as a Markdown table under a heading
    that names kernel, paths, device and shape; ends with a line on the target."""
    gates, device = outcome.gates, next(iter(outcome.facts.values()))["device"]
    baseline, candidate = (" ".join(f"{key}={value}" for key, value in path.items()) for path in gates.paths.values())
    sizes = ", ".join(f"{key}={value}" for key, value in gates.shapes[gates.timed].items())
    text = (
        f"{device['name']}, driver {device['driver']}. Baseline: `{baseline}`; candidate: `{candidate}`. "
        f"Times: {gates.iterations} launches each at {gates.timed} ({sizes})."
    )
    rows: list[Row] = [("", "baseline", "candidate", "change", "limit", "verdict"), ("---", *["---:"] * 4, "---")]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (*rows, *_rows(outcome)))
    return f"# {outcome.name}: candidate against baseline\n\n{text}\n\n{table}\n\n{_verdict(outcome)}\n"


def _verdict(outcome: AcceptanceOutcome) -> str:
    gain, target = outcome.gain_pct, outcome.gates.target_gain_pct
    if outcome.untimed:
        times = f"Times are not judged: {outcome.untimed}."
    elif gain is None:
        return "**Overall: failed.** Not timed, because a path gives wrong results."
    else:
        met = "met" if outcome.target_met else "missed"
        times = f"{gain:+.1f} % of the baseline's median time saved; the target of {target:g} % is {met}."
    text = f"**Overall: {'passed' if outcome.passed else 'failed'}.** {times}"
    return f"{text} Counters were not measured: {outcome.unmeasured}." if outcome.unmeasured else text


def _rows(outcome: AcceptanceOutcome) -> Iterator[Row]:
    """Correctness, resources (none where no path was timed), times and counters."""
    gates, right = outcome.gates, _word(outcome.correct)
    by_path = [[check for check in outcome.checks if check.path == path] for path in gates.paths]
    errors = (max(check.verification.max_abs_error for check in checks) for checks in by_path)
    bad = (max(check.verification.bad_pct for check in checks) for checks in by_path)
    passed = (f"{sum(check.passed for check in checks)} of {len(checks)}" for checks in by_path)
    yield "verifications passed", *passed, "", "all", right
    yield "largest error", *(_number(error, ".2g") for error in errors), "", f"{gates.max_abs_error:g}", right
    yield "max. bad elements, %", *(_number(pct, ".3g") for pct in bad), "", f"{gates.max_bad_pct:g}", right
    taken = {item.path: item.against(gates) for item in outcome.resources}
    for sides in zip(*(taken[path] for path in gates.paths), strict=True):
        name, _, limit, *_ = sides[0]
        yield name, *(side[1] for side in sides), "", limit, _word(all(side[3] for side in sides))
    verdict = "" if outcome.target_met is None else _word(outcome.target_met)
    for name in ("p50", "p90", "mean", "std"):
        before, after = (getattr(outcome.timings.get(path), f"{name}_us", math.nan) for path in gates.paths)
        change = _number(100.0 * (after / before - 1.0), "+.1f", " %") if before and name != "std" else ""
        judged = (f"-{gates.target_gain_pct:g} %", verdict) if name == "p50" else ("", "")
        yield f"{name}, µs", _number(before, ".2f"), _number(after, ".2f"), change, *judged
    if outcome.unmeasured:
        yield from ((gate.name, "n/a", "n/a", "", gate.wanted, "not measured") for gate in gates.counters)
    for check in outcome.counters:
        values = (f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}" for value in (check.baseline, check.candidate))
        change = "" if check.change_pct is None else f"{check.change_pct:+.1f} %"
        yield check.gate.name, *values, change, check.gate.wanted, _word(check.passed)


def _word(good: bool) -> str:
    return "ok" if good else "FAILED"


def _number(value: float, form: str, unit: str = "") -> str:
    return f"{value:{form}}{unit}" if math.isfinite(value) else "n/a"
