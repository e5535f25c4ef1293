"""An outcome in words."""

from __future__ import annotations

from ncubble.kernels.session import Outcome


def describe(outcome: Outcome) -> list[str]:
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
    if outcome.timing is not None and outcome.rates is not None:
        time, rate = outcome.timing, outcome.rates
        spread = f"p90 {time.p90_us:.2f} us, std {time.std_us:.2f} us over {time.iterations} launches"
        lines.append(f"  time    p50 {time.p50_us:.2f} us, {spread}")
        speed = f"{rate.gb_per_s:.0f} GB/s" if rate.tflops is None else f"{rate.tflops:.2f} TFLOP/s"
        share = "" if rate.fraction is None else f", {100 * rate.fraction:.1f} % of {rate.peak:.0f} ({rate.roof})"
        lines.append(f"  rate    {speed}{share}")
    return lines
