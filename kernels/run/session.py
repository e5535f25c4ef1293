"""One request from start to end: find the spec, build, launch, verify, and only then time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ncubble.errors import UsageError
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.bench import Rates, Timing, rates, time_launches
from ncubble.kernels.run.facts import facts, write_facts
from ncubble.kernels.run.inputs import draw_inputs, fresh_seed
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.peers import Against, check_peer, make_peer, time_against
from ncubble.kernels.run.prepared import Prepared
from ncubble.kernels.run.request import KernelRequest
from ncubble.kernels.run.verify import Verification, verify
from ncubble.kernels.spec.case import Case


@dataclass(frozen=True)
class KernelOutcome:
    """What came of a request; what was not asked for is None."""

    case: Case
    seed: int
    facts: dict[str, Any]
    verification: Verification | None
    timing: Timing | None
    rates: Rates | None
    against: Against | None = None

    def require(self) -> None:
        """Raises VerificationError if the result was compared, and is wrong."""
        if self.verification is not None:
            self.verification.require(self.case.label, self.seed)

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


def execute(request: KernelRequest, open_gpu: Callable[[], Gpu] = Gpu.open) -> KernelOutcome:
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


def _execute(request: KernelRequest, case: Case, gpu: Gpu) -> KernelOutcome:
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
    return KernelOutcome(case, seed, told, checked, timing, rate, beside)


def _time(request: KernelRequest, prepared: Prepared) -> tuple[Timing, Rates, Against | None]:
    gpu, case = prepared.gpu, prepared.case
    if not request.against:
        timing = time_launches(gpu, prepared.run, request.iterations)
        return timing, rates(case, gpu, timing), None
    timing, complete = time_against(prepared, make_peer(prepared), request.iterations)
    found = rates(case, gpu, timing)
    return timing, found, complete(found)
