"""An outcome in words."""

from __future__ import annotations

from ncubble.kernels.run.bench import Timing
from ncubble.kernels.run.peers import Against
from ncubble.kernels.run.session import KernelOutcome


def describe(outcome: KernelOutcome) -> list[str]:
    """The outcome in lines for people."""
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
        lines.append(f"  verify  left out: {outcome.case.unverified}")
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
