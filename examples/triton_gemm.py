"""A Triton GEMM whose pipeline depth is a command-line option: an example of a foreign program
under ncubble.

    ncubble profile --kernel triton_gemm --skip 1 --count 1 -- python examples/triton_gemm.py --stages 3

C = A · B, all row-major, half in, half out, float accumulate. One program computes one BM x BN tile
and walks K in steps of BK; Triton's compiler turns ``num_stages`` into a ring of that many tiles.
Sizes are multiples of the tile. The first launch compiles, the second is the one to profile.
Writing the facts file is optional: it tells stages and FLOPs.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def triton_gemm(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # noqa: N803
    """One tile of C; ``a``, ``b``, ``c`` are pointers to contiguous matrices."""
    columns = n // BN
    rows_at = (tl.program_id(0) // columns) * BM + tl.arange(0, BM)
    columns_at = (tl.program_id(0) % columns) * BN + tl.arange(0, BN)
    depth_at = tl.arange(0, BK)
    a_tile = a + rows_at[:, None] * k + depth_at[None, :]
    b_tile = b + depth_at[:, None] * n + columns_at[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BK
        b_tile += BK * n
    tl.store(c + rows_at[:, None] * n + columns_at[None, :], total.to(tl.float16))


def main() -> None:
    """Check once, then launch once more."""
    options = argparse.ArgumentParser(description="Triton GEMM with a given pipeline depth")
    options.add_argument("--stages", type=int, default=3)
    options.add_argument("--size", type=int, default=4096)
    options.add_argument("--tile", type=int, nargs=3, default=(128, 128, 64), metavar=("BM", "BN", "BK"))
    options.add_argument("--warps", type=int, default=8)
    given = options.parse_args()
    size, (bm, bn, bk) = given.size, given.tile
    torch.manual_seed(0)
    a = torch.randn(size, size, device="cuda", dtype=torch.float16)
    b = torch.randn(size, size, device="cuda", dtype=torch.float16)
    c = torch.full((size, size), float("nan"), device="cuda", dtype=torch.float16)
    grid = ((size // bm) * (size // bn),)
    for _ in range(2):
        triton_gemm[grid](a, b, c, size, size, size, bm, bn, bk, num_stages=given.stages, num_warps=given.warps)
        torch.cuda.synchronize()
    worst = (c.float() - a.float() @ b.float()).abs().max().item()
    if not worst <= 0.02 * size**0.5:
        raise SystemExit(f"wrong result: largest error {worst}")
    if path := os.environ.get("NCUBBLE_FACTS"):
        kernel = {
            "name": "triton_gemm",
            "function": "triton_gemm",
            "parameters": {"stages": given.stages, "tile": f"{bm}x{bn}x{bk}", "warps": given.warps},
            "shape": {"m": size, "n": size, "k": size},
            "stages": given.stages,
            "flops": 2.0 * size**3,
            "bytes": 3.0 * 2 * size**2,
            "dtype": "float16",
        }
        Path(path).write_text(json.dumps({"kernel": kernel}))


if __name__ == "__main__":
    main()
