"""Programs that `ncubble ablate` is tried on: each launches one kernel a few times and prints a hash
of its result.

    python -m benchmarks.ablation.programs NAME

NAME: a launch of ``benchmarks.foreign`` (``gemm_s3_bf16``, ``sdpa_cudnn_d128``, …), or ``compiled``, a block
that ``torch.compile`` makes into one kernel.
"""

from __future__ import annotations

import hashlib
import sys

import torch

from benchmarks.foreign import calls, plan

TIMES = 3


def compiled() -> torch.Tensor:
    """A block of element-wise work and a norm, compiled by inductor."""
    torch.manual_seed(0)
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)

    @torch.compile
    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (4096,))) * x

    for _ in range(TIMES):
        result = block(x)
    return result


def foreign(name: str) -> torch.Tensor:
    """The result of a launch that ``benchmarks.foreign`` builds."""
    for of in plan.SETS:
        for experiment in plan.SETS[of]():
            if experiment.name == name:
                call = calls.build(experiment.base)
                for _ in range(TIMES):
                    result = call.run()
                return result
    raise SystemExit(f"no launch {name!r}")


def main() -> None:
    """Run one and print the hash of its bits."""
    name = sys.argv[1]
    result = compiled() if name == "compiled" else foreign(name)
    torch.cuda.synchronize()
    bits = result.contiguous().view(torch.uint8).cpu().numpy().tobytes()
    sys.stdout.write(f"{hashlib.sha256(bits).hexdigest()}\n")


if __name__ == "__main__":
    main()
