"""Products on several GPUs, for the ranks of one program: a process per GPU, and half as much again for the last.

    torchrun --nproc-per-node 2 --no-python \
        ncubble profile --nvtx products/ --out runs/ranks -- python examples/torch_ranks.py
    ncubble compare runs/ranks/rank0 runs/ranks/rank1

Every step is two products in an NVTX range, which are profiled, and an all-reduce behind it, which is not: a kernel
that waits for another rank never ends under a profiler that runs ranks in no order.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

STEPS, ROWS, WIDTH = 2, 8192, 4096


def main() -> None:
    """One rank's steps."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rows = ROWS * 3 // 2 if rank == size - 1 else ROWS
    batch = torch.randn(rows, WIDTH, device=device, dtype=torch.bfloat16)
    weights = torch.randn(WIDTH, WIDTH, device=device, dtype=torch.bfloat16)
    for _ in range(STEPS):
        torch.cuda.nvtx.range_push("products")
        gradient = batch.T @ (batch @ weights)
        torch.cuda.nvtx.range_pop()
        dist.all_reduce(gradient)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
