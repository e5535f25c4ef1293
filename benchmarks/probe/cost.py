"""What the probe costs, kernel by kernel: without it, with it while no SM is recorded, one (as by
default), or all.

Every side of a round is 10 launches, each behind a clear of L2; the ratios are medians over rounds. The target is 3 %.
Usage: python -m benchmarks.probe.cost OUT    (OUT gets cost.json)
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncubble.errors import NcubbleError
from ncubble.kernels.run.probe import TraceOptions, trace
from ncubble.kernels.run.session import KernelRequest, parse_parameters

TARGET = 3.0
CASES = (
    "tensor_core_gemm stages=1",
    "tensor_core_gemm stages=2",
    "tensor_core_gemm stages=3",
    "async_pipeline stages=2",
    "async_pipeline stages=3 threads=128",
    "gemm_tma stages=1",
    "gemm_tma stages=3",
    "gemm_tma stages=6",
    "gemm_ws",
    "gemm_ws schedule=pingpong tile_n=128 stages=5",
    "warp_specialized roles=fused slots=2",
    "warp_specialized roles=specialized slots=1",
    "warp_specialized roles=specialized slots=2",
    "warp_specialized roles=specialized slots=4",
    "attention_fwd",
    "attention_fwd causal=1",
    "attention_fwd path=cp_async stages=2",
)


def measure(case: str) -> dict[str, Any]:
    """One row; raises NcubbleError."""
    name, *parameters = case.split()
    found = trace(KernelRequest(name, parse_parameters(parameters)), TraceOptions())
    assert found.cost is not None
    passed = found.verification is not None and found.verification.passed
    plain = found.facts["build"]["registers"]
    return {"case": case, **asdict(found.cost), "registers": [plain, found.registers], "verified": passed}


def main(arguments: list[str]) -> None:
    """Measure every case; one that fails is named and passed over."""
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    print(f"{'case':<52} {'off, us':>8} {'idle':>7} {'one SM':>7} {'on':>7} {'lowest to highest':>18}  registers")
    for case in CASES:
        try:
            rows.append(row := measure(case))
        except NcubbleError as error:
            print(f"{case}: failed: {error}")
            continue
        print(
            f"{case:<52} {row['off_us']:8.1f} {row['idle_pct']:+6.1f}% {row['chosen_pct']:+6.1f}% "
            f"{row['on_pct']:+6.1f}% {row['on_low_pct']:+7.1f} to {row['on_high_pct']:+5.1f}  {row['registers']} "
            f"{'' if row['verified'] else 'WRONG'}{'' if row['on_pct'] <= TARGET else ' over'}",
            flush=True,
        )
        (out / "cost.json").write_text(json.dumps({"target_pct": TARGET, "rows": rows}, indent=1) + "\n")
    for name, state in (("on_pct", "every SM"), ("chosen_pct", "one SM")):
        print(f"{sum(row[name] <= TARGET for row in rows)} of {len(rows)} within {TARGET:g} % with {state} recorded")


if __name__ == "__main__":
    main(sys.argv[1:])
