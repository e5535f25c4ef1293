"""All launches of the dataset, in families, and which families are learned from.

A family is one kernel in one setting, at several depths where it has them: launches of a family are
too much alike to stand on both sides of a split. The split was fixed before anything was measured.
Within each kind, families are ordered by the SHA-256 of their names; the first 60 %, rounded up,
are learned from, the others are frozen.

Fresh families are measured after the last scoring of the frozen side: ``fresh`` draws them by a
seed from all settings that its tables allow, without those of the plan.
"""

from __future__ import annotations

import hashlib
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Split = Literal["learn", "frozen", "fresh", "fresh2"]
DRAWS = {"fresh": 20261125, "fresh2": 20261126}
"""Seeds of the sets of fresh families, the first of which was scored on 2026-11-25."""
LEARNED = 0.6
TOLD = "truth.json"
"""Beside the recorded run of a launch: which one it is."""
CUTLASS = "cutlass_gemms"
"""The binary of ``cutlass_gemms.cu``, beside the recorded runs."""


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch: ``program`` of ``calls``, a kernel of the catalog (kind ``catalog`` or ``numba``),
    or an entry of the CUTLASS binary, with its ``options``. ``kernel``: a pattern for its name."""

    name: str
    program: str
    options: dict[str, Any]
    kernel: str
    stages: int | None = None


@dataclass(frozen=True)
class Family:
    """Launches of one kernel in one setting. ``kind``: what stratifies the split."""

    name: str
    kind: str
    launches: tuple[PlannedLaunch, ...] = field(default=())


def splits(families: Sequence[Family]) -> dict[str, Split]:
    """The side of each family, by name."""
    sides: dict[str, Split] = {}
    for kind in {family.kind for family in families}:
        names = sorted((family.name for family in families if family.kind == kind), key=_hashed)
        learned = math.ceil(LEARNED * len(names))
        sides |= {name: "learn" if number < learned else "frozen" for number, name in enumerate(names)}
    return sides | {family.name: draw for draw in DRAWS for family in fresh(draw)}


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def families() -> list[Family]:
    """All families. Those of a kind that come first are measured first."""
    made = [*catalog(), *numba(), *triton_gemms(), *triton_others(), *products(), *attentions(), *rows(), *cutlass()]
    return sorted(
        made, key=lambda family: [other.name for other in made if other.kind == family.kind].index(family.name)
    )


def argv(launch: PlannedLaunch, family: Family) -> list[str]:
    """The program that makes a launch; empty for kernels of the catalog, which ncubble launches."""
    if family.kind in ("catalog", "numba"):
        return []
    if family.kind == "cutlass":
        return [f"./{CUTLASS}", launch.program, *(str(launch.options[name]) for name in "mnk")]
    return [sys.executable, "-m", "benchmarks.truth.programs", launch.name]


def _family(
    kind: str, name: str, program: str, kernel: str, options: dict[str, Any], depths: Sequence[int] = ()
) -> Family:
    made = (
        [PlannedLaunch(name, program, options, kernel)]
        if not depths
        else [
            PlannedLaunch(f"{name}_s{stages}", program, {**options, "stages": stages}, kernel, stages)
            for stages in depths
        ]
    )
    return Family(name, kind, tuple(made))


def _cube(size: int) -> dict[str, int]:
    return {"m": size, "n": size, "k": size}


def catalog() -> Iterator[Family]:
    """Kernels of ncubble itself, on which today's account was tuned; ``options`` are parameters."""

    def of(name: str, kernel: str, depths: Sequence[int] = (), **parameters: Any) -> Family:
        return _family("catalog", name, kernel, "", parameters, depths)

    yield of("wmma", "tensor_core_gemm", (1, 2, 3, 4))
    yield of("swizzled", "gemm_mma_swizzled", (2, 3, 4))
    yield of("tma", "gemm_tma", (1, 2, 3, 4))
    yield of("attention_tma", "attention_fwd")
    yield of("pipeline", "async_pipeline", (2, 3, 4))
    yield of("ws", "gemm_ws")
    yield of("wmma_plain", "tensor_core_gemm", (1,), copy="plain")
    yield of("attention_cp_async", "attention_fwd", path="cp_async")
    yield of("tiled", "tiled_matmul")
    yield of("softmax_online", "softmax_online")
    yield of("fp8_stage_c", "sdpa_fp8_stage_c_wmma")
    yield of("dsmem", "cluster_dsmem")
    yield of("roles", "warp_specialized")
    yield of("copy_tma", "async_copy_tma")
    yield of("copy_pipeline", "async_copy_pipeline")
    yield of("persistent", "persistent")


def numba() -> Iterator[Family]:
    """Numba twins of the catalog."""
    yield _family("numba", "numba_pipeline", "numba_async_pipeline", "", {}, (2, 3, 4))
    yield _family("numba", "numba_tiled", "numba_tiled_matmul", "", {})
    yield _family("numba", "numba_softmax", "numba_softmax_online", "", {})


def triton_gemms() -> Iterator[Family]:
    """Triton GEMMs over tiles, depths, types, shapes and ways to load."""

    def of(
        name: str, shape: dict[str, int], tile: tuple[int, int, int], depths: Sequence[int],
        program: str = "gemm", warps: int = 8, **more: Any,
    ) -> Family:  # fmt: skip
        kernel = "^(foreign|truth)_"
        return _family("triton_gemm", name, program, kernel, {**shape, "tile": tile, "warps": warps, **more}, depths)

    square, wide, half, bf16 = (128, 128, 64), (128, 256, 64), {"dtype": "float16"}, {"dtype": "bfloat16"}
    fp8, tf32 = {"dtype": "float8_e4m3fn"}, {"dtype": "float32"}
    yield of("square", _cube(4096), square, (1, 2, 3, 4), **half)
    yield of("fp8", _cube(4096), (128, 128, 128), (2, 3, 4), "k_major", **fp8)
    yield of("tma_square", _cube(4096), square, (2, 3, 4), "tma")
    yield of("int8", _cube(4096), square, (1, 2, 3), "dequant", mode="int8")
    yield of("tf32", _cube(4096), (128, 128, 32), (2, 3, 4), "k_major", **tf32)
    yield of("wide", {**_cube(4096), "n": 8192}, wide, (2, 3, 4), **bf16)
    yield of("few_ctas", {"m": 1024, "n": 1024, "k": 16384}, square, (2, 3, 5), **half)
    yield of("short_k", {"m": 8192, "n": 8192, "k": 256}, square, (2, 3, 4), **half)
    yield of("mma_sync", _cube(4096), (128, 128, 32), (2, 3, 4), **half, mma="mma_sync")
    yield of("persistent_gemm", _cube(4096), square, (2, 3, 4), "gemm_persistent", **half)
    yield of("grouped", {}, square, (2, 3), "grouped", products=((4096, 2048, 1024), (1024, 4096, 4096), (2048,) * 3))
    yield of("small_tiles", _cube(2048), (64, 64, 32), (2, 3, 5), warps=4, **half)
    yield of("skinny", {"m": 64, "n": 16896, "k": 8192}, (64, 128, 64), (2, 3, 5), warps=4, **half)
    yield of("split_k", {"m": 512, "n": 512, "k": 32768}, square, (2, 3, 4), "split_k", split=8)
    yield of("gated", {"m": 4096, "n": 4096, "k": 2048}, square, (2, 3), "gated")
    yield of("tma_wide", {**_cube(4096), "n": 8192}, wide, (2, 3, 4), "tma")
    yield of("large", {"m": 8192, "n": 2048, "k": 8192}, (256, 128, 64), (2, 3, 4), **bf16)
    yield of("flat", {"m": 2048, "n": 4096, "k": 4096}, (64, 128, 64), (1, 2, 4), warps=4, **half)
    yield of("fp8_wide", {**_cube(4096), "n": 8192}, (128, 256, 128), (2, 3), "k_major", **fp8)
    yield of("thin", _cube(4096), (128, 128, 32), (2, 3, 5), warps=4, **half)
    yield of("half_scaled", _cube(4096), (64, 128, 64), (2, 3), "dequant", warps=4, mode="scaled")
    yield of("tma_short_k", {"m": 8192, "n": 8192, "k": 512}, square, (2, 3), "tma")
    yield of("tf32_narrow", {"m": 4096, "n": 2048, "k": 4096}, (64, 128, 32), (2, 4), "k_major", warps=4, **tf32)
    yield of("cubes", _cube(3072), (64, 64, 64), (3, 5), warps=4, **bf16)
    yield of("thick", _cube(3072), (128, 128, 128), (1, 2), **bf16)
    yield of("four_warps", {"m": 6144, "n": 6144, "k": 3072}, square, (2, 3), warps=4, **half)
    yield of("tma_flat", {"m": 2048, "n": 4096, "k": 4096}, (64, 128, 64), (2, 4), "tma", warps=4)
    yield of("begun_wave", {"m": 10 * 128, "n": 14 * 128, "k": 6144}, square, (2, 3, 4), **bf16)


def triton_others() -> Iterator[Family]:
    """Attention, softmax, norms and a product with a vector, in Triton."""

    def attention(name: str, program: str, depths: Sequence[int], **options: Any) -> Family:
        return _family("triton_attention", name, program, "^(foreign|truth)_", options, depths)

    def row(name: str, program: str, **options: Any) -> Family:
        return _family("triton_rows", name, program, "^(foreign|truth)_", options)

    long = {"heads": 32, "sequence": 4096}
    yield attention("d128", "attention", (1, 2, 3), **long, dim=128, tile=(128, 64), warps=8)
    yield attention("causal", "causal", (2, 3), **long, dim=128, tile=(128, 64), warps=8)
    yield attention("d64", "attention", (1, 2, 3), **long, dim=64, tile=(128, 64), warps=4)
    yield attention("d64_wide", "attention", (2, 3), heads=20, sequence=6144, dim=64, tile=(128, 128), warps=8)
    yield attention("few_heads", "attention", (2, 3), heads=2, sequence=8192, dim=128, tile=(128, 64), warps=8)
    yield row("softmax_f32", "softmax", rows=16384, columns=4096, dtype="float32", warps=8)
    yield row("layer_norm", "layernorm", rows=16384, columns=4096, dtype="float32", block=1024, warps=4)
    yield row("rms_norm_bf16", "rms_norm", rows=16384, columns=4096, dtype="bfloat16", warps=8)
    yield row("matvec", "matvec", rows=16384, columns=8192, tile=(8, 1024), warps=8, stages=3)
    yield row("softmax_bf16", "softmax", rows=8192, columns=8192, dtype="bfloat16", warps=8)
    yield row("layer_norm_one_warp", "layernorm", rows=1056, columns=16384, dtype="float32", block=32, warps=1)


def products() -> Iterator[Family]:
    """cuBLAS; which kernel it takes shows when it runs."""

    def of(name: str, shape: dict[str, int], **options: Any) -> Family:
        return _family("cublas", name, "matmul", "nvjet|gemm|cutlass|xmma", {**shape, **options})

    half = {"dtype": "float16"}
    yield of("cublas_4096", _cube(4096), **half)
    yield of("cublas_sgemm", _cube(4096), dtype="float32")
    yield of("cublas_tf32", _cube(4096), dtype="float32", tf32=1)
    yield of("cublas_short_k", {"m": 8192, "n": 8192, "k": 256}, dtype="bfloat16")
    yield of("cublas_batched", {"batch": 66, **_cube(512)}, dtype="bfloat16")
    yield of("cublas_tall", {"m": 256, "n": 256, "k": 32768}, **half)
    yield of("cublas_odd", {"m": 2304, "n": 2304, "k": 8192}, dtype="bfloat16")


def attentions() -> Iterator[Family]:
    """cuDNN's attention, and PyTorch's own, which is built for Ampere."""

    def of(name: str, backend: str, **options: Any) -> Family:
        shape = {"batch": 4, "heads": 16, "sequence": 4096, "dim": 128, "dtype": "bfloat16"}
        return _family("sdpa", name, "sdpa", "sdpa|flash|fmha|cudnn", {**shape, "backend": backend, **options})

    yield of("cudnn_d128", "cudnn")
    yield of("flash_d128", "flash", sequence=2048)
    yield of("cudnn_causal", "cudnn", causal=1)
    yield of("cudnn_d64", "cudnn", dim=64)
    yield of("flash_d64", "flash", sequence=2048, dim=64)


def rows() -> Iterator[Family]:
    """Kernels of PyTorch and of its compiler that stream rows."""

    def of(name: str, program: str, kernel: str, **options: Any) -> Family:
        return _family("torch_rows", name, program, kernel, {"rows": 16384, "columns": 4096, **options})

    yield of("inductor_gelu_norm", "inductor", "^triton_", block="gelu_norm")
    yield of("torch_softmax", "pointwise", "[sS]oft[mM]ax", dtype="float32", op="softmax")
    yield of("inductor_softmax", "inductor", "^triton_", block="softmax")
    yield of("torch_layer_norm", "pointwise", "layer_norm", dtype="float32", op="layer_norm")
    yield of("inductor_rms_norm", "inductor", "^triton_", block="rms_norm")
    yield of("torch_sum", "pointwise", "reduce_kernel", dtype="float32", op="sum")
    yield of("inductor_entropy", "inductor", "^triton_", block="entropy")


def every_family() -> list[Family]:
    """All that are planned or drawn."""
    return [*families(), *(family for draw in DRAWS for family in fresh(draw))]


def fresh(name: str) -> list[Family]:
    """Families that were drawn before any of them ran, and before the code that they score was
    ready: eight GEMMs of Triton, half of them by TMA, two attentions, and the catalog's wgmma
    kernels in shapes of their own. A GEMM starts 200 CTAs at least and keeps its tiles in 200 kB at
    its deepest; CTAs of 8192 results or fewer have four warps, others eight."""
    draw, prefix = random.Random(DRAWS[name]), name  # noqa: S311
    made: list[Family] = []
    while len(made) < 8:
        shape = {name: 512 * draw.randint(2, 14) for name in "mnk"}
        m, n, k = tile = (draw.choice((64, 128)), draw.choice((64, 128, 256)), draw.choice((32, 64, 128)))
        depths = sorted(draw.sample(range(2, 7), 2))
        more = {"dtype": draw.choice(("float16", "bfloat16"))} if len(made) < 4 else {}
        ctas = shape["m"] // m * (shape["n"] // n)
        if ctas < 200 or depths[-1] * 2 * k * (m + n) > 200_000 or shape["m"] % m or shape["n"] % n:
            continue
        options = {**shape, "tile": tile, "warps": 4 if m * n <= 8192 else 8, **more}
        name, program = (f"{prefix}_gemm_{len(made)}", "gemm") if more else (f"{prefix}_tma_{len(made)}", "tma")
        made.append(_family("triton_gemm", name, program, "^(foreign|truth)_", options, depths))
    for dim in (64, 128):
        options = {"heads": draw.randint(4, 40), "sequence": 1024 * draw.randint(2, 8), "dim": dim, "warps": 8}
        attention = {**options, "tile": (128, draw.choice((32, 64)))}
        name, program = f"{prefix}_attention_{dim}", draw.choice(("attention", "causal"))
        made.append(_family("triton_attention", name, program, "^(foreign|truth)_", attention, (2, 3)))
    for kernel, depths in (("gemm_tma", (2, 4)), ("gemm_ws", ())):
        shape = {name: 512 * draw.randint(3, 14) for name in "mnk"}
        made.append(_family("catalog", f"{prefix}_{kernel}", kernel, "", shape, depths))
    return made


def cutlass() -> Iterator[Family]:
    """CUTLASS: warp specialization with TMA in three schedules, and a ring of cp.async."""

    def of(name: str, depths: Sequence[int]) -> Family:
        shape = {"m": 4096, "n": 4096, "k": 4096}
        made = [
            PlannedLaunch(f"cutlass_{name}_s{stages}", f"{name}_s{stages}", {**shape}, "cutlass", stages)
            for stages in depths
        ]
        return Family(f"cutlass_{name}", "cutlass", tuple(made))

    yield of("ws", (2, 4))
    yield of("pingpong", (2, 5))
    yield of("cooperative", (2, 3))
    yield of("multistage", (3, 4))
