"""One request from start to end, as a command line names it: find the spec, build, launch, verify,
and only then time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ncubble.errors import UsageError
from ncubble.kernels.build import DEBUG
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import (
    MIN_ITERATIONS,
    TIME,
    VERIFY,
    Rates,
    Timing,
    no_ranges,
    nvtx_ranges,
    rates,
    time_launches,
)
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import facts, prepare, write_facts
from ncubble.kernels.run.peers import Against, check_peer, make_peer, time_against
from ncubble.kernels.run.verify import Verification, draw_inputs, fresh_seed, verify
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import KernelSpec, Value
from ncubble.text.remedies import known_names

MAX_DIGITS = 19  # maximum digits of a size: beyond any 64-bit integer
SHAPE_PREFIX = "shape."
T = TypeVar("T")


@dataclass(frozen=True)
class KernelRequest:
    """What to do with which kernel. ``iterations`` 0 times nothing; ``launches`` counts the
    launches before that.

    ``verify``: compare with the reference, if the parameters compute anything that has one.
    ``against``: time the library's call of the spec's ``peer`` beside it. ``debug``: build without
    optimization and with the kernel's debug prints and checks; times would mean nothing. ``nvtx``:
    put NVTX ranges around the phases.
    """

    name: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)
    catalog: Path | None = None
    seed: int | None = None
    launches: int = 1
    verify: bool = True
    iterations: int = MIN_ITERATIONS
    against: bool = False
    debug: bool = False
    nvtx: bool = False

    def __post_init__(self) -> None:
        if self.launches < 1:
            raise UsageError(f"--launches {self.launches} is not positive", "use 1 or more")
        if self.iterations < 0:
            message = f"--iterations {self.iterations} is negative"
            raise UsageError(message, "use 100 or more, or --once to time nothing")
        if self.debug and self.iterations:
            message = "--debug builds code without optimization, whose times are meaningless"
            raise UsageError(message, "use `ncubble verify` instead")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative", "use 0 or more")

    @classmethod
    def parse(
        cls, name: str, settings: Sequence[str] | None, catalog: Path | None = None, **more: Any
    ) -> KernelRequest:
        """The request of a command line: ``settings`` as in ``split``, ``more`` are further
        members. Raises UsageError."""
        parameters, shape = split(find_spec(name, catalog), settings or ())
        return cls(name, parameters, shape, catalog, **more)

    def case(self) -> Case:
        """The checked case; raises UsageError."""
        return make_case(find_spec(self.name, self.catalog), self.parameters, self.shape)


def named_shapes(spec: KernelSpec, settings: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of shapes of the spec's gates among ``["small,stages=3"]``, and what else there is."""
    known = spec.gates.shapes if spec.gates else {}
    words = [word.strip() for word in ",".join(settings).split(",")]
    return [word for word in words if word in known], [word for word in words if word not in known]


def split(spec: KernelSpec, settings: Sequence[str]) -> tuple[dict[str, Value], dict[str, int]]:
    """Parameters and sizes of ``["stages=3", "m=4096"]``, where the name of a shape of the spec's
    gates stands for its sizes; raises UsageError for a name that ``spec`` does not have, and for a
    size that is no number."""
    parameters: dict[str, Value] = {}
    names, settings = named_shapes(spec, settings)
    sizes = [f"{dim}={size}" for name in names for dim, size in spec.gates.shapes[name].items()] if spec.gates else []
    for name, value in parse_parameters(settings).items():
        kind, inner = place(spec, name)
        if kind == "shape":
            sizes.append(f"{inner}={value}")
        else:
            parameters[inner] = value
    return parameters, parse_shape(sizes)


def place(spec: KernelSpec, name: str) -> tuple[str, str]:
    """``("parameters" or "shape", its name there)`` of a setting. Where ``spec`` has a parameter
    and a dimension of one name, ``shape.NAME`` is the dimension. Raises UsageError for an unknown
    name."""
    parameters, dims = [item.name for item in spec.parameters], [dim.name for dim in spec.dims]
    inner = name.removeprefix(SHAPE_PREFIX)
    if name not in parameters and inner in dims:
        return "shape", inner
    if name not in parameters:
        raise UsageError(f"{spec.name} has no parameter or dimension {name!r}", known_names(name, [*parameters, *dims]))
    return "parameters", name


def parse_parameters(texts: Sequence[str]) -> dict[str, Value]:
    """``["stages=3", "vec=4,copy=async"]`` as ``{"stages": "3", …}``; raises UsageError for
    anything that is no ``name=value``."""
    parameters: dict[str, Value] = {}
    for text in filter(None, ",".join(texts).split(",")):
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"-p {text!r} is not name=value", "for example -p stages=3")
        _add(parameters, name.strip(), value.strip(), "-p")
    return parameters


def parse_shape(texts: Sequence[str]) -> dict[str, int]:
    """``["m=4096,n=64"]`` as ``{"m": 4096, "n": 64}``; raises UsageError for anything that is no
    ``name=integer``."""
    shape: dict[str, int] = {}
    for part in filter(str.strip, ",".join(texts).split(",")):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not name or not value.isascii() or not value.isdigit():
            raise UsageError(f"-p {part!r} is not name=integer", "for example -p m=4096,n=4096,k=4096")
        if len(value) > MAX_DIGITS:
            raise UsageError(f"-p {name}={value[:MAX_DIGITS]}… has {len(value)} digits", "use a smaller size")
        _add(shape, name, int(value), "-p")
    return shape


def _add(values: dict[str, T], name: str, value: T, option: str) -> None:
    if values.setdefault(name, value) != value:
        raise UsageError(f"{option}: {name} is both {values[name]} and {value}", "give it only once")


@dataclass(frozen=True)
class KernelOutcome:
    """What came of a request; what was not asked for is None."""

    case: Case
    seed: int
    facts: dict[str, Any]
    verification: Verification | None = None
    timing: Timing | None = None
    rates: Rates | None = None
    against: Against | None = None

    def require(self) -> None:
        """Raises VerificationError if the result was compared, and is wrong."""
        if self.verification is not None:
            self.verification.require(self.case.label, self.seed)

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON-ready object; times in microseconds."""
        parts = {"timing": self.timing, "rates": self.rates, "against": self.against}
        return {
            **self.facts,
            "seed": self.seed,
            "verification": self.verification.to_json() if self.verification else None,
            **{name: asdict(part) if part else None for name, part in parts.items()},
        }


def execute(request: KernelRequest, open_gpu: Callable[[], Gpu] = Gpu.open) -> KernelOutcome:
    """Carries ``request`` out. A failed verification ends it: nothing is timed, and the outcome
    says so.

    What cannot be verified is timed without; a request that asks for nothing but verification is
    refused then.

    Raises:
        UsageError: the request names something unknown or not allowed.
        MeasurementError: no GPU, no compiler, source that does not compile, a kernel that faults,
            no library.
    """
    case = request.case()
    if case.unverified is not None and (request.against or (request.verify and not request.iterations)):
        remedy = "use `ncubble profile`, or `ncubble bench` without --library"
        raise UsageError(f"{case.label}: {case.unverified}", remedy)
    if request.against:
        check_peer(case)
    with closing(open_gpu()) as gpu:
        return _execute(request, case, gpu)


def _execute(request: KernelRequest, case: Case, gpu: Gpu) -> KernelOutcome:
    seed = request.seed if request.seed is not None else fresh_seed()
    ranges = nvtx_ranges() if request.nvtx else no_ranges
    prepared = prepare(case, gpu, DEBUG if request.debug else ())
    case = prepared.case  # with the defaults of this GPU
    inputs = draw_inputs(case, seed)
    prepared.upload(inputs)
    prepared.poison()
    write_facts(facts(prepared, {}))  # before the launch: a profiler may kill the program during it
    with ranges(VERIFY):
        for _ in range(request.launches):
            prepared.run()
    clocks = gpu.clocks()
    gpu.sync()
    launched = facts(prepared, clocks)
    write_facts(launched)
    checked = None
    if request.verify and case.unverified is None:
        outputs, overrun = prepared.outputs()
        checked = verify(case, inputs, outputs, seed, overrun)
    if not request.iterations or (checked is not None and not checked.passed):
        return KernelOutcome(case, seed, launched, checked)
    if not request.against:
        timing = time_launches(gpu, prepared.run, request.iterations, ranges=ranges)
        return KernelOutcome(case, seed, facts(prepared, timing.clocks), checked, timing, rates(case, gpu, timing))
    with ranges(TIME):
        timing, beside = time_against(prepared, make_peer(prepared), request.iterations)
    rate = rates(case, gpu, timing)
    if rate.fraction is not None:
        beside = replace(beside, fraction=rate.fraction / beside.ratio)
    return KernelOutcome(case, seed, facts(prepared, timing.clocks), checked, timing, rate, beside)


def describe(outcome: KernelOutcome) -> list[str]:
    """``outcome`` in lines for people."""
    build, device = outcome.facts["build"], outcome.facts["device"]
    spilled = "unknown" if build["spill_B"] is None else f"{build['spill_B']} B"
    memory = f"shared memory {build['smem_static_B']} + {build['smem_dynamic_B']} B"
    lines = [
        outcome.case.label,
        f"  device  {device['name']}, compute capability {device['compute_capability']}, driver {device['driver']}",
        f"  build   {build['registers']} registers, {memory}, spills {spilled}",
        *(f"  warning {text}" for text in build.get("warnings", ())),
        f"  seed    {outcome.seed}",
    ]
    if outcome.verification is not None:
        verdict = "ok" if outcome.verification.passed else "WRONG"
        lines.append(f"  verify  {verdict}: {outcome.verification.describe()}")
    elif outcome.case.unverified is not None:
        lines.append(f"  verify  skipped: {outcome.case.unverified}")
    time, rate, other = outcome.timing, outcome.rates, outcome.against
    if time is None or rate is None:
        return lines
    speed = f"{rate.gb_per_s:.0f} GB/s" if rate.tflops is None else f"{rate.tflops:.2f} TFLOP/s"
    share = "" if rate.fraction is None else f", {100 * rate.fraction:.1f} % of {rate.peak:.0f} ({rate.roof})"
    lines += [f"  time    {_times(time, 'launches')}", f"  rate    {speed}{share}"]
    if other is None:
        return lines
    span = f"rounds {other.ratio_low:.3f} to {other.ratio_high:.3f}"
    share = "" if other.fraction is None else f", the library at {100 * other.fraction:.1f} % of the same roof"
    lines += [
        f"  against {other.library}, {other.version}",
        f"          {_times(other.timing, 'calls in turns')}",
        f"  ratio   {other.ratio:.3f} x the library's throughput ({span}){share}",
    ]
    if "sm_mhz" in time.clocks and "sm_mhz" in other.timing.clocks:
        lines.append(f"  clock   {time.clocks['sm_mhz']} MHz, the library's {other.timing.clocks['sm_mhz']} MHz")
    if other.max_abs_difference is not None:
        lines.append(f"  differ  by {other.max_abs_difference:.3g} at most")
    return lines


def _times(time: Timing, what: str) -> str:
    spread = f"p90 {time.p90_us:.2f} us, std {time.std_us:.2f} us"
    return f"p50 {time.p50_us:.2f} us, {spread} over {time.iterations} {what}"
