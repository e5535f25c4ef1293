"""One request from start to end: find the spec, build, launch, verify, and only then time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.bench import MIN_ITERATIONS, Rates, Timing, rates, time_launches
from ncubble.kernels.run.facts import facts, write_facts
from ncubble.kernels.run.inputs import draw_inputs, fresh_seed
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.run.peers import Against, check_peer, make_peer, time_against
from ncubble.kernels.run.verify import Verification, verify
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import Value

MAX_DIGITS = 19  # of a size: beyond any 64-bit integer
T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """What to do with which kernel. ``iterations`` 0 times nothing; ``launches`` counts the launches before that.

    ``verify``: compare with the reference, if the parameters compute anything that has one.
    ``against``: time the library's call of the spec's ``peer`` beside it.
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

    def __post_init__(self) -> None:
        if self.launches < 1:
            raise UsageError(f"--launches {self.launches} is not positive", "use 1 or more")
        if self.iterations < 0:
            raise UsageError(
                f"--iterations {self.iterations} is negative", "use 100 or more, or --once to time nothing"
            )
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative", "use 0 or more")

    def case(self) -> Case:
        """The checked case; raises UsageError."""
        return make_case(find_spec(self.name, self.catalog), self.parameters, self.shape)


@dataclass(frozen=True)
class Outcome:
    """What came of a request; what was not asked for is None."""

    case: Case
    seed: int
    facts: dict[str, Any]
    verification: Verification | None
    timing: Timing | None
    rates: Rates | None
    against: Against | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON-ready object; times in microseconds."""
        checked = self.verification
        return {
            **self.facts,
            "seed": self.seed,
            "verification": checked.to_json() if checked else None,
            "timing": asdict(self.timing) if self.timing else None,
            "rates": asdict(self.rates) if self.rates else None,
            "against": asdict(self.against) if self.against else None,
        }


def execute(request: Request, open_gpu: Callable[[], Gpu] = Gpu.open) -> Outcome:
    """Carries ``request`` out. A failed verification ends it: nothing is timed, and the outcome says so.

    What cannot be verified is timed without; a request that asks for nothing but verification is refused then.

    Raises:
        UsageError: the request names something unknown or not allowed.
        MeasurementError: no GPU, no compiler, source that does not compile, a kernel that faults, no library.
    """
    case = request.case()
    if case.unverified is not None and (request.against or (request.verify and not request.iterations)):
        raise UsageError(
            f"{case.label}: {case.unverified}", "use `ncubble profile`, or `ncubble bench` without --against"
        )
    if request.against:
        check_peer(case)
    gpu = open_gpu()
    try:
        return _execute(request, case, gpu)
    finally:
        gpu.close()


def _execute(request: Request, case: Case, gpu: Gpu) -> Outcome:
    seed = request.seed if request.seed is not None else fresh_seed()
    prepared = prepare(case, gpu)
    inputs = draw_inputs(case, seed)
    prepared.upload(inputs)
    prepared.poison()
    write_facts(prepared, {})  # before the launch: a profiler may end the program during it
    for _ in range(request.launches):
        prepared.run()
    clocks = gpu.clocks()
    gpu.sync()
    write_facts(prepared, clocks)
    checked = None
    if request.verify and case.unverified is None:
        outputs, overrun = prepared.outputs()
        checked = verify(case, inputs, outputs, seed, overrun)
    timing = rate = beside = None
    if request.iterations and (checked is None or checked.passed):
        timing, rate, beside = _time(request, prepared)
    told = facts(prepared, timing.clocks if timing else clocks)
    return Outcome(case, seed, told, checked, timing, rate, beside)


def _time(request: Request, prepared: Prepared) -> tuple[Timing, Rates, Against | None]:
    gpu, case = prepared.gpu, prepared.case
    if not request.against:
        timing = time_launches(gpu, prepared.run, request.iterations)
        return timing, rates(case, gpu, timing), None
    timing, complete = time_against(prepared, make_peer(prepared), request.iterations)
    found = rates(case, gpu, timing)
    return timing, found, complete(found)


def parse_parameters(texts: Sequence[str]) -> dict[str, Value]:
    """``["stages=3"]`` as ``{"stages": "3"}``; raises UsageError for anything that is no ``name=value``."""
    found: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"-p {text!r} is not name=value", "write it like -p stages=3")
        _add(found, name.strip(), value.strip(), "-p")
    return found


def parse_shape(texts: Sequence[str]) -> dict[str, int]:
    """``["m=4096,n=64"]`` as ``{"m": 4096, "n": 64}``; raises UsageError for anything that is no ``name=integer``."""
    found: dict[str, int] = {}
    for part in ",".join(texts).split(","):
        if not part.strip():
            continue
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not name or not value.isascii() or not value.isdigit():
            raise UsageError(f"--shape {part!r} is not name=integer", "write it like --shape m=4096,n=4096,k=4096")
        if len(value) > MAX_DIGITS:
            raise UsageError(f"--shape {name}={value[:MAX_DIGITS]}… has {len(value)} digits", "use a smaller size")
        _add(found, name, int(value), "--shape")
    return found


def _add(found: dict[str, T], name: str, value: T, option: str) -> None:
    if found.setdefault(name, value) != value:
        raise UsageError(f"{option}: {name} is both {found[name]} and {value}", "give it once")
