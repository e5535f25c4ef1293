"""The exercises of docs/tutorial: each is a kernel of the catalog with one idea taken out.

A spec takes all but the source from the catalog, and says by ``sass`` what the machine code holds
when the exercise is done. ``python examples/tutorial/check.py`` looks at that without a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.catalog.shared import gemm_dims
from ncubble.kernels.spec.spec import KernelSpec, Parameter


def exercise(name: str, of: str, idea: str, done: dict[str, bool], **members: Any) -> KernelSpec:
    """The spec of the catalog's kernel ``of``, bound to the source of an exercise. ``done``: opcodes
    that must, or must not, occur in the end."""
    usual: dict[str, Any] = {
        "parameters": (),
        "defines": lambda shape, parameters: {},
        "unverified": lambda parameters: None,
        "requires": lambda shape, parameters: None,
        "block": lambda shape, parameters: (256,),
        "sass": lambda arch, parameters: done,
    }
    return replace(find_spec(of), name=name, source=f"{name}.cu", idea=idea, **(usual | members))


def ring(default: int, *choices: int) -> tuple[Parameter, ...]:
    """The one parameter of most exercises."""
    return (Parameter("stages", default, choices, "buffers in the ring"),)


CHUNK = 512 * 4 * 4  # floats


def _swizzled(name: str) -> KernelSpec:
    of = find_spec("gemm_mma_swizzled")
    deep = Parameter("tile_k", 64, (64,), "depth of a tile: rows of A have 128 bytes")
    kept = (*ring(4, 2, 3, 4), Parameter("tile_n", 256, (128, 256), "columns of C per CTA"), deep)
    block, requires = of.block, of.requires
    idea, done = "a product whose shared-memory tiles conflict: swizzle them", {"LDSM.16.M88.4": True, "LDGSTS": True}
    return exercise(name, of.name, idea, done, parameters=kept, block=block, requires=requires)


SPECS = [
    exercise(
        "ex0_copies",
        "async_copy_pipeline",
        "a copy that waits for every chunk: let cuda::pipeline bring the next ones",
        {"LDGSTS.E.BYPASS.128": True, "ARRIVES": True, "STS.128": False, "LDG.E.128": False},
        parameters=ring(4, 1, 2, 3, 4),
        defines=lambda shape, parameters: {"THREADS": 512, "ITEMS": 4, "WORK": 0},
        persistent=lambda sms, shape, parameters: (max(1, min(64 * sms, -(-shape["n"] // CHUNK))),),
        block=lambda shape, parameters: (512,),
        smem=lambda shape, parameters: 4 * CHUNK * int(parameters["stages"]),
    ),
    exercise(
        "ex1_tile",
        "tiled_matmul",
        "a product that reads every operand from global memory: tile it",
        {"FFMA": True, "STS.128": True, "LDS": True, "BAR": True},
    ),
    exercise(
        "ex2_cp_async",
        "async_pipeline",
        "a tiled product that waits for its loads: let cp.async run ahead",
        {"FFMA": True, "LDGSTS.E.BYPASS.128": True, "LDGDEPBAR": True, "STS": False},
        parameters=ring(3, 2, 3, 4, 5, 6),
    ),
    exercise(
        "ex3_stages",
        "tensor_core_gemm",
        "tensor cores with one buffer: keep several tiles under way",
        {"HMMA.16816.F32": True, "LDSM": True, "LDGSTS.E.BYPASS": True},
        parameters=ring(3, 2, 3, 4, 5, 6),
    ),
    _swizzled("ex4_swizzle"),
    exercise(
        "ex5_tma",
        "gemm_tma",
        "TMA and wgmma with one slot: use them all",
        {"HGMMA.64x128x16.F32.BF16": True, "UTMALDG.2D": True, "LDGSTS": False},
        parameters=ring(3, 1, 2, 3, 4, 5, 6),
    ),
    exercise(
        "ex6_roles",
        "gemm_tma",
        "a copying warp that is slower than the products: let one thread ask TMA",
        {"HGMMA.64x128x16.F32.BF16": True, "UTMALDG.2D": True, "LDGSTS": False},
        parameters=ring(5, 4, 5, 6),
        dims=gemm_dims(128, 64),
        block=lambda shape, parameters: (288,),
        smem=lambda shape, parameters: 16384 + 32784 * int(parameters["stages"]),
    ),
]
