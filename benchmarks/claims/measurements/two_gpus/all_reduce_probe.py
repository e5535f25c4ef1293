"""An all-reduce beside matrix products on two GPUs, one process each; rank 0 prints one JSON
object. NVLink multicast stays off: a program that uses it may disturb others on the host."""

from __future__ import annotations

import json
import os
import socket
import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS, ROUNDS, PRODUCTS, SIZE = 2, 7, 4, 8192
WORDS = 2**29  # bfloat16: 1 GiB


def ms(step: Callable[[], Any]) -> float:
    """Median time of ``step`` on this rank's GPU, both ranks starting together."""
    spans = []
    for _ in range(ROUNDS + 2):
        dist.barrier()
        torch.cuda.synchronize()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        step()
        last.record()
        torch.cuda.synchronize()
        spans.append(first.elapsed_time(last))
    return float(statistics.median(spans[2:]))


def run(rank: int, port: int) -> None:
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", world_size=RANKS, rank=rank, device_id=device
    )
    options = dist.ProcessGroupNCCL.Options()
    default_priority = bool(options.is_high_priority_stream)
    options.is_high_priority_stream = True
    urgent = dist.new_group(ranks=list(range(RANKS)), pg_options=options)
    a, b = (torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16) for _ in range(2))
    out, data = torch.empty_like(a), torch.full((WORDS,), float(rank + 1), device=device, dtype=torch.bfloat16)
    dist.all_reduce(data)
    if not (data == 3.0).all():
        raise RuntimeError("the all-reduce gave wrong sums")
    data.zero_()

    def products() -> None:
        for _ in range(PRODUCTS):
            torch.matmul(a, b, out=out)

    def reduce(group: Any = None) -> Any:
        return dist.all_reduce(data, group=group, async_op=True)

    beside: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []  # the products of each round

    def overlapped(group: Any = None) -> None:
        work = reduce(group)
        marks = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        marks[0].record()
        products()
        marks[1].record()
        beside.append(marks)
        work.wait()

    def serial() -> None:
        reduce().wait()
        products()

    gemm, alone, both = ms(products), ms(lambda: reduce().wait()), ms(serial)
    at_once = ms(overlapped)
    slowed = statistics.median(start.elapsed_time(end) for start, end in beside[2:])
    high = ms(lambda: overlapped(urgent))
    if rank == 0:
        found = {
            "high_priority": default_priority,
            "bus_gb_s": WORDS * 2 / alone / 1e6,  # for two ranks, bytes sent by each: 2 (n - 1) / n = 1 of the data
            "gemm_ms": gemm,
            "reduce_ms": alone,
            "serial_ms": both,
            "overlapped_ms": at_once,
            "overlapped_high_ms": high,
            "hidden_pct": 100.0 * (both - at_once) / min(gemm, alone),
            "gemm_slower_pct": 100.0 * (slowed / gemm - 1.0),
        }
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()[1]
    mp.spawn(run, args=(address,), nprocs=RANKS)
