"""What PyTorch does, as one JSON object: ``python torch_probe.py pool|backend|streams``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

MIB = 2**20


def hit_us() -> float:
    """An allocation that the pool serves."""
    for _ in range(10):
        torch.empty(MIB, dtype=torch.uint8, device="cuda")
    start = time.perf_counter()
    for _ in range(1000):
        torch.empty(MIB, dtype=torch.uint8, device="cuda")
    return 1e3 * (time.perf_counter() - start)


def device_allocs() -> int:
    return int(torch.cuda.memory_stats().get("num_device_alloc", -1))


def pool() -> dict[str, Any]:
    kept = torch.empty(1, device="cuda")
    reserved = torch.cuda.memory_reserved() / MIB
    us = hit_us()
    before = device_allocs()
    for _ in range(100):
        torch.empty(MIB, dtype=torch.uint8, device="cuda")
    hits = device_allocs() - before
    grown = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    growth = device_allocs() - before - hits
    del kept, grown
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(400 * MIB / total)
    held: list[torch.Tensor | None] = []
    try:
        while True:
            held.append(torch.empty(5 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    for index in range(0, len(held), 2):
        held[index] = None
    free = (torch.cuda.memory_reserved() - torch.cuda.memory_allocated()) / MIB
    try:
        torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
        oom = False
    except torch.OutOfMemoryError:
        oom = True
    return {
        "first_reserved_mb": reserved,
        "hit_us": us,
        "hit_device_allocs": hits,
        "grow_device_allocs": growth,
        "oom": oom,
        "free_mb_at_oom": free,
        "wanted_mb": 20,
    }


def backend() -> dict[str, Any]:
    torch.empty(1, device="cuda")
    return {"backend": torch.cuda.get_allocator_backend(), "hit_us": hit_us()}


def streams() -> dict[str, Any]:
    a = torch.ones(256, 256, device="cuda")
    out = torch.zeros(256, 256, device="cuda")
    side = torch.cuda.Stream()
    torch.matmul(a, a, out=out)
    seen = torch.zeros(1, pin_memory=True)
    torch.cuda.synchronize()
    out.zero_()
    torch.cuda.synchronize()
    torch.cuda._sleep(100_000_000)  # cycles, in the current stream: 50 ms and more
    torch.matmul(a, a, out=out)
    time.sleep(0.01)
    with torch.cuda.stream(side):
        seen.copy_(out[0, :1], non_blocking=True)
    side.synchronize()
    waits = float(seen[0]) == 0.0
    torch.cuda.synchronize()
    assert float(out[0, 0]) == 256.0
    return {"default_handle": torch.cuda.current_stream().cuda_stream, "matmul_waits": waits}


print(json.dumps({"pool": pool, "backend": backend, "streams": streams}[sys.argv[1]]()))
