"""Rung 9: attention over keys and values in 8 bits, with and without copies that run ahead; and its
gates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.shared import CUDA
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import Array, Arrays, CounterGate, Dim, Gates, KernelSpec, Parameter, Shape, Tolerance

AXES = ("b", "h", "s", "d")
TILE_M = 32  # queries per CTA
PAD_D = 64
ZERO = 128  # the byte that represents 0
STEPS = 127  # bytes on either side of it
TENSOR, OF_ELAPSED = "sm__pipe_tensor_cycles_active", "avg.pct_of_peak_sustained_elapsed"

Quantized = tuple[NDArray[np.uint8], NDArray[np.float32]]


def quantize(x: NDArray[np.float32]) -> Quantized:
    """``x`` (b, h, s, d) as bytes and a scale for each (b, h): its largest magnitude becomes 127
    steps from zero."""
    scale = np.abs(x).max(axis=(2, 3)) / np.float32(STEPS)
    steps = np.rint(x / scale[:, :, None, None])
    return (steps + ZERO).clip(ZERO - STEPS, ZERO + STEPS).astype(np.uint8), scale.astype(np.float32)


def dequant_sim_fp8(u: NDArray[np.uint8], scale: NDArray[np.float32]) -> NDArray[np.float64]:
    """The values that bytes stand for: ``(u - 128) * scale``."""
    return (u.astype(np.float64) - ZERO) * scale.astype(np.float64)


def draw(generator: np.random.Generator, shape: Shape) -> dict[str, NDArray[Any]]:
    """Queries, keys and values from N(0, 1); keys and values quantized."""
    extent = tuple(shape[name] for name in AXES)
    q, k, v = (generator.standard_normal(extent, dtype=np.float32) for _ in range(3))
    (k_bytes, k_scale), (v_bytes, v_scale) = quantize(k), quantize(v)
    return {"q": q.astype(np.float16), "k": k_bytes, "v": v_bytes, "k_scale": k_scale, "v_scale": v_scale}


def attention(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """``out``: softmax(q k^T / sqrt(d)) v for chosen queries, flat indices over (b, h, s), of
    dequantized k and v."""
    whole = {name: dequant_sim_fp8(inputs[name], inputs[f"{name}_scale"][..., None, None]) for name in ("k", "v")}
    return reference.attention({**inputs, **whole}, rows)


SDPA_FP8 = KernelSpec(
    name="sdpa_fp8_stage_c_wmma",
    folder=CUDA,
    source="sdpa_fp8_stage_c_wmma.cu",
    idea="attention with 8-bit keys and values on WMMA; next tile optionally prefetched by cp.async",
    dims=(Dim("b", 1), Dim("h", 8), Dim("s", 512), Dim("d", PAD_D, 16, PAD_D)),
    arrays=(
        Array("q", AXES, "float16"),
        *(Array(name, AXES, "uint8") for name in "kv"),
        *(Array(f"{name}_scale", AXES[:2]) for name in "kv"),
        Array("out", AXES, "float16", output=True),
    ),
    scalars=("s", "d"),
    parameters=(
        Parameter("use_cp_async", 1, (0, 1), "1: prefetch the next K and V tile into a ring of two", change="stages"),
        Parameter("pv", "wmma", ("wmma", "scalar"), "P V on WMMA, or by FMAs as in document 002", tacit=True),
    ),
    grid=lambda shape, parameters: (-(-shape["s"] // TILE_M), shape["b"] * shape["h"]),
    block=(256,),
    row_dims=3,
    draw=draw,
    reference=attention,
    unit="tensor_fp16",
    dtype="float16",
    flops=lambda shape: 4.0 * shape["b"] * shape["h"] * shape["s"] ** 2 * shape["d"],
    # Rounding P and the result to half costs 2^-11 of the values' size at most, twice; values are
    # below 6, the result's own size shrinks with the number of keys. One key of 512 lost, or taken
    # twice, puts half of the elements outside.
    tolerance=Tolerance(absolute=5e-4, relative=1e-3),
    sass={
        "HMMA.16816.F32 LDSM MUFU.EX2": True,
        "LDGSTS.E.BYPASS.128 LDGDEPBAR": lambda parameters: parameters["use_cp_async"] == 1,
    },
    gates=Gates(
        baseline={"use_cp_async": 0},
        candidate={"use_cp_async": 1},
        shapes={"small": {"b": 1, "h": 2, "s": 100, "d": 64}, "mission": {"b": 1, "h": 8, "s": 512, "d": 64}},
        timed="mission",
        # Cycles of the same products are the same; what rises is their share of the time. Eight
        # launches of a path scatter by 3 % in the shares, by 1 % in bytes; medians of three count.
        counters=(
            CounterGate("tensor pipe busy, % of elapsed cycles", (f"{TENSOR}.{OF_ELAPSED}",), "up", 3.0),
            CounterGate("SM throughput, % of its peak", (f"sm__throughput.{OF_ELAPSED}",), "up", 3.0),
            CounterGate("DRAM traffic, bytes", ("dram__bytes_read.sum", "dram__bytes_write.sum"), "flat", 2.0),
        ),
    ),
    demonstrates="data_wait per tile with one CTA per SM, and how much one tile of prefetch hides",
)

SPECS: tuple[KernelSpec, ...] = (SDPA_FP8,)
