"""One request from start to end: find the spec, build, launch, verify, and only then time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ncubble.errors import UsageError
from ncubble.kernels.build.build import DEBUG
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.bench import Rates, Timing, rates, time_launches
from ncubble.kernels.run.inputs import draw_inputs, fresh_seed
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.peers import Against, check_peer, make_peer, time_against
from ncubble.kernels.run.prepared import Prepared, facts, write_facts
from ncubble.kernels.run.ranges import TIME, VERIFY, Ranges, no_ranges, nvtx_ranges
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
        raise UsageError(
            f"{case.label}: {case.unverified}", "use `ncubble profile`, or `ncubble bench` without --library"
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
    ranges = nvtx_ranges() if request.nvtx else no_ranges
    prepared = prepare(case, gpu, DEBUG if request.debug else ())
    case = prepared.case  # with the defaults of this GPU
    inputs = draw_inputs(case, seed)
    prepared.upload(inputs)
    prepared.poison()
    write_facts(prepared, {})  # before the launch: a profiler may kill the program during it
    with ranges(VERIFY):
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
        timing, rate, beside = _time(request, prepared, ranges)
    launched = facts(prepared, timing.clocks if timing else clocks)
    return KernelOutcome(case, seed, launched, checked, timing, rate, beside)


def _time(request: KernelRequest, prepared: Prepared, ranges: Ranges) -> tuple[Timing, Rates, Against | None]:
    gpu, case = prepared.gpu, prepared.case
    if not request.against:
        timing = time_launches(gpu, prepared.run, request.iterations, ranges=ranges)
        return timing, rates(case, gpu, timing), None
    with ranges(TIME):
        timing, complete = time_against(prepared, make_peer(prepared), request.iterations)
    rate = rates(case, gpu, timing)
    return timing, rate, complete(rate)


def describe(outcome: KernelOutcome) -> list[str]:
    """``outcome`` in lines for people."""
    build, device = outcome.facts["build"], outcome.facts["device"]
    spilled = "unknown" if build["spill_B"] is None else f"{build['spill_B']} B"
    memory = f"shared memory {build['smem_static_B']} + {build['smem_dynamic_B']} B"
    lines = [
        outcome.case.label,
        f"  device  {device['name']}, compute capability {device['compute_capability']}, driver {device['driver']}",
        f"  build   {build['registers']} registers, {memory}, spills {spilled}",
        f"  seed    {outcome.seed}",
    ]
    if outcome.verification is not None:
        verdict = "ok" if outcome.verification.passed else "WRONG"
        lines.append(f"  verify  {verdict}: {outcome.verification.describe()}")
    elif outcome.case.unverified is not None:
        lines.append(f"  verify  skipped: {outcome.case.unverified}")
    if outcome.timing is not None and outcome.rates is not None:
        time, rate = outcome.timing, outcome.rates
        spread = f"p90 {time.p90_us:.2f} us, std {time.std_us:.2f} us over {time.iterations} launches"
        lines.append(f"  time    p50 {time.p50_us:.2f} us, {spread}")
        speed = f"{rate.gb_per_s:.0f} GB/s" if rate.tflops is None else f"{rate.tflops:.2f} TFLOP/s"
        share = "" if rate.fraction is None else f", {100 * rate.fraction:.1f} % of {rate.peak:.0f} ({rate.roof})"
        lines.append(f"  rate    {speed}{share}")
    if outcome.timing is not None and outcome.against is not None:
        lines += _beside(outcome.timing, outcome.against)
    return lines


def _beside(ours: Timing, other: Against) -> list[str]:
    """The library's times, and the kernel's throughput as a multiple of the library's."""
    time = other.timing
    spread = f"p90 {time.p90_us:.2f} us, std {time.std_us:.2f} us over {time.iterations} calls in turns"
    span = f"rounds {other.ratio_low:.3f} to {other.ratio_high:.3f}"
    share = "" if other.fraction is None else f", the library at {100 * other.fraction:.1f} % of the same roof"
    lines = [
        f"  against {other.library}, {other.version}",
        f"          p50 {time.p50_us:.2f} us, {spread}",
        f"  ratio   {other.ratio:.3f} x the library's throughput ({span}){share}",
    ]
    if "sm_mhz" in ours.clocks and "sm_mhz" in time.clocks:
        lines.append(f"  clock   {ours.clocks['sm_mhz']} MHz, the library's {time.clocks['sm_mhz']} MHz")
    if other.max_abs_difference is not None:
        lines.append(f"  differ  by {other.max_abs_difference:.3g} at most")
    return lines
