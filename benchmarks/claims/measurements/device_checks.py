"""What the device says of itself, and what ncu's lists hold."""

from __future__ import annotations

import functools
import subprocess
from typing import Any

from benchmarks.claims.registry import measurement
from ncubble.kernels.run.device import Gpu, call_driver
from ncubble.profiling.ncu import find_ncu

ATTRIBUTES = {
    "sms": "MULTIPROCESSOR_COUNT",
    "threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
    "registers_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "smem_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "smem_per_cta": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "smem_static": "MAX_SHARED_MEMORY_PER_BLOCK",
    "copy_engines": "ASYNC_ENGINE_COUNT",
}


@measurement()
def device() -> dict[str, Any]:
    """Attributes of the device, and the release threshold of its default memory pool."""
    from cuda.bindings import driver

    gpu = Gpu.open()
    try:
        found: dict[str, Any] = {"name": gpu.facts.name}
        for key, name in ATTRIBUTES.items():
            attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            found[key] = int(call_driver("cuDeviceGetAttribute", attribute, 0)[0])
        pool = call_driver("cuDeviceGetDefaultMemPool", 0)[0]
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        found["pool_threshold"] = int(call_driver("cuMemPoolGetAttribute", pool, threshold)[0])
    finally:
        gpu.close()
    return {
        **found,
        "warps_per_sm": found["threads_per_sm"] // 32,
        "registers_kb": found["registers_per_sm"] * 4 / 1024,
        "smem_sm_kb": found["smem_per_sm"] / 1024,
        "smem_cta_kb": found["smem_per_cta"] / 1024,
    }


CHIPS = ("ga100", "ad102", "gh100", "gb100")


@measurement(needs_gpu=False, timeout_s=120)
def ncu_lists() -> dict[str, Any]:
    """Which of the metrics and sections that the documents name ncu knows."""
    names = {chip: _metrics(chip) for chip in CHIPS}
    everywhere = set.intersection(*names.values())
    return {
        "seed_async_metric": any("pipe_lsu_mem_global_op_ld.async" in name for chip in CHIPS for name in names[chip]),
        "ldgsts_metric": "smsp__inst_executed_op_ldgsts" in everywhere,
        **{f"hmma_{chip}": "sm__pipe_tensor_op_hmma_cycles_active" in names[chip] for chip in CHIPS},
        **{f"tensor_{chip}": "sm__pipe_tensor_cycles_active" in names[chip] for chip in CHIPS},
        "memory_section": "MemoryWorkloadAnalysis" in _told("--list-sections"),
    }


def _metrics(chip: str) -> set[str]:
    return {line.split()[0] for line in _told("--query-metrics", "--chip", chip).splitlines() if line.strip()}


@functools.cache
def _told(*options: str) -> str:
    done = subprocess.run([find_ncu().path, *options], capture_output=True, text=True, timeout=100, check=True)
    return done.stdout
