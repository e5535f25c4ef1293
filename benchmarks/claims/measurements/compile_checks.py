"""What compilers and machine code say: no GPU is needed for these."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.claims.measurements.snippets import ONE_MMA, SNIPPETS, Snippet
from benchmarks.claims.measurements.tools import compiled
from benchmarks.claims.registry import measurement
from ncubble.kernels import build as sass
from ncubble.kernels.build import Build, build, find_tool
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.spec.case import make_case

ARCH, CAPABILITY = "sm_90a", (9, 0)


def compiles(snippet: Snippet) -> bool:
    """Whether nvcc takes the snippet."""
    return product(snippet) is not None


def product(snippet: Snippet) -> bytes | None:
    """What nvcc makes of the snippet; None where it refuses."""
    with tempfile.TemporaryDirectory(prefix="ncubble-claims-") as folder:
        source, target = Path(folder) / "snippet.cu", Path(folder) / "snippet.out"
        source.write_text(snippet.code, encoding="utf-8")
        kind = "-c" if snippet.host else "-cubin"
        argv = [find_tool("nvcc"), "-std=c++17", f"-arch={snippet.arch}", *snippet.flags, kind, "-o", target, source]
        environment = os.environ | snippet.environment
        done = subprocess.run(list(map(str, argv)), capture_output=True, env=environment, timeout=120, check=False)
        return target.read_bytes() if done.returncode == 0 and target.is_file() else None


@measurement(needs_gpu=False, timeout_s=240)
def snippets() -> dict[str, Any]:
    """Which of the snippets compile."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(zip(SNIPPETS, pool.map(compiles, SNIPPETS.values()), strict=True))


@measurement(needs_gpu=False, timeout_s=240)
def machine_code() -> dict[str, Any]:
    """Instructions that kernels of the catalog and the document's own loop compile to (sm_90a)."""
    ring, tiled = _opcodes("async_pipeline", stages=3), _opcodes("tiled_matmul")
    seed = functions(sass.disassemble(compiled("seed_copies.cu", ARCH)))
    one_mma = product(Snippet(ONE_MMA))
    if one_mma is None:
        raise ValueError("the snippet with one mma_sync does not compile")
    return {
        "async_ldgsts": _count(ring, "LDGSTS"),
        "async_bulk": _count(ring, "UBLKCP") + _count(ring, "UTMALDG"),
        "async_sts": _count(ring, "STS"),
        "tiled_ldgsts": _count(tiled, "LDGSTS"),
        "wmma_hmma_per_mma": _count(sass.opcodes(sass.disassemble(one_mma)), "HMMA"),
        "wgmma_flop_per_instruction": 2 * 64 * _width("gemm_ws") * 16,
        "hmma_flop_per_instruction": 2 * 16 * 8 * 16,
        "plain_registers": _built("tensor_core_gemm", stages=1, copy="plain").resources.registers,
        "async_registers": _built("tensor_core_gemm", stages=1, copy="async").resources.registers,
        "manual_ldgsts": _count(seed["manual_copy"], "LDGSTS"),
        "coop_ldgsts": _count(seed["coop_copy"], "LDGSTS"),
    }


@measurement(needs_gpu=False, timeout_s=120)
def arithmetic() -> dict[str, Any]:
    """What follows from sizes alone: CTAs that fit an SM by stages, and a flat copy into padded
    rows."""
    import numpy as np

    fitting = {}
    for stages in (2, 3, 4):
        case = make_case(find_spec("gemm_tma"), {"stages": stages})
        used = build(case, ARCH).resources
        fitting[stages] = occupancy(CAPABILITY, 256, used.registers, case.smem + used.smem_static_B).ctas
    rows, width, padded = 32, 64, 80
    tile = np.arange(rows * width, dtype=np.int64)
    flat = np.full(rows * padded, -1)
    flat[: rows * width] = tile
    wrong = flat.reshape(rows, padded)[:, :width] != tile.reshape(rows, width)
    return {
        "stage2_ctas": fitting[2],
        "stage3_ctas": fitting[3],
        "stage4_ctas": fitting[4],
        "flat_wrong_pct": 100.0 * float(wrong.mean()),
        "tiles_kb": 6 * 1024 * 4 / 1024,
    }


def functions(text: str) -> dict[str, Counter[str]]:
    """Opcodes of every function of a disassembly."""
    parts = re.split(r"^\s*\.section\s+\.text\.(\w+)", text, flags=re.MULTILINE)
    return {name: sass.opcodes(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _built(name: str, **parameters: int | str) -> Build:
    folder = Path(__file__).resolve().parent
    return build(make_case(find_spec(name, folder), parameters), ARCH)


def _opcodes(name: str, **parameters: int | str) -> Counter[str]:
    return sass.opcodes(sass.disassemble(_built(name, **parameters).cubin))


def _count(found: Counter[str], opcode: str) -> int:
    return sum(count for name, count in found.items() if name == opcode or name.startswith(f"{opcode}."))


def _width(name: str) -> int:
    """Columns of the warpgroup MMA that a kernel uses."""
    for opcode in _opcodes(name):
        if match := re.match(r"HGMMA\.64x(\d+)x16", opcode):
            return int(match[1])
    raise ValueError(f"{name} has no HGMMA")
