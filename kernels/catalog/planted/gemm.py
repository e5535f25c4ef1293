"""GEMMs with one planted disease of the main loop each, and the same GEMMs without."""

from __future__ import annotations

from ncubble.kernels.catalog.planted.dequant import DEQUANT_ISSUE, PLANTED_DEQUANT
from ncubble.kernels.catalog.planted.pair import PlantedPair, PlantedSide
from ncubble.kernels.catalog.planted.shared import (
    BLOCK,
    HALF,
    TILE_N,
    planted_dims,
    planted_grid,
    refused_strength,
    ring_bytes,
)
from ncubble.kernels.catalog.shared import TILE, gemm_spec, integer
from ncubble.kernels.spec.spec import KernelSpec, Parameter, Parameters, Shape

NONE = "none"
STRENGTHS = {  # besides 0, the default strength
    "address_arithmetic": (64,),
    "bank_conflicts": (2, 4),
    "smem_rereads": (2,),
    "barrier_imbalance": (4, 8, 32, 64),
    "excess_barriers": (2, 4, 16, 32),
    "spills": (160, 176, 192, 200),
    "dependent_mma": (2, 4),
}
DISEASES = (
    NONE,
    "no_async",
    "narrow_copies",
    "uncoalesced",
    "address_arithmetic",
    "bank_conflicts",
    "smem_rereads",
    "barrier_imbalance",
    "excess_barriers",
    "spills",
    "dependent_mma",
)


def _smem(shape: Shape, parameters: Parameters) -> int:
    return ring_bytes((TILE + TILE_N) * integer(parameters, "tile_k") * HALF, integer(parameters, "stages"))


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    disease = str(parameters["disease"])
    alone = integer(parameters, "stages") == 1
    if disease == "no_async" and not alone:
        return "disease=no_async copies into one buffer: it needs stages=1"
    if alone and disease not in (NONE, "no_async"):
        return f"disease={disease} is planted into a prefetching ring: it needs stages=2 or more"
    return refused_strength(disease, integer(parameters, "strength"), STRENGTHS.get(disease, ()))


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    disease = parameters["disease"]
    asynchronous, wide = disease != "no_async", disease != "narrow_copies"
    return {
        "HMMA.16816.F32": True,
        "LDSM.16.M88.4": True,
        "LDSM.16.MT88.4": True,
        "LDGSTS": asynchronous,
        "LDGSTS.E.BYPASS": asynchronous and wide,
        "LDG": not asynchronous,
        "LDGDEPBAR": asynchronous,
        "STL": disease == "spills",
        "LDL": disease == "spills",
        "FFMA": disease == "barrier_imbalance",
    }


PLANTED_GEMM = gemm_spec(
    "planted_gemm",
    "float16",
    "float16",
    idea="a healthy mma.sync GEMM, or the same with one disease planted in its main loop",
    dims=planted_dims(),
    parameters=(
        Parameter("disease", NONE, DISEASES, "planted disease; stages=1 and stages=2 are diseases, too"),
        Parameter("stages", 4, (1, 2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("tile_k", 64, (32, 64), "depth of a tile: k per barrier"),
        Parameter(
            "strength",
            0,
            tuple(sorted({0}.union(*STRENGTHS.values()))),
            "strength of the disease, in its own unit (see the source); 0: the default",
            tacit=True,
        ),
    ),
    grid=planted_grid,
    block=lambda shape, parameters: BLOCK,
    smem=_smem,
    requires=_requires,
    sass=_sass,
    demonstrates="the causes of lost time inside a main loop, one at a time",
)


def _sick(**parameters: int | str) -> PlantedSide:
    return PlantedSide("planted_gemm", parameters)


HEALTHY = _sick()

PAIRS: tuple[PlantedPair, ...] = (
    PlantedPair(
        "no_async",
        _sick(disease="no_async", stages=1),
        HEALTHY,
        ("data_wait",),
        "no_async",
        (
            "Tiles pass through registers while no warp multiplies; the twin prefetches into a ring of "
            "four stages by cp.async."
        ),
    ),
    PlantedPair(
        "single_buffer",
        _sick(stages=1),
        HEALTHY,
        ("data_wait",),
        "single_buffer",
        "The only buffer is filled by cp.async while no warp multiplies; with four stages copies run ahead.",
    ),
    PlantedPair(
        "shallow_pipeline",
        _sick(stages=2, tile_k=32),
        _sick(stages=6, tile_k=32),
        ("data_wait",),
        "shallow_pipeline",
        "With two stages a copy has half the time of a short tile to arrive; with six, the time of several tiles.",
    ),
    PlantedPair(
        "narrow_copies",
        _sick(disease="narrow_copies"),
        HEALTHY,
        ("copy_cost",),
        "narrow_copies",
        "cp.async copies 4 bytes per thread; 16 bytes need a quarter of the instructions and bypass L1.",
    ),
    # Each copy of 16 bytes, which L1 does not keep, fetches its sector of 32 from L2: twice the
    # traffic, and eight times the lines per instruction. That is work of L1 and L2, and the ring is
    # deep already: no data_wait.
    PlantedPair(
        "uncoalesced",
        _sick(disease="uncoalesced"),
        HEALTHY,
        ("copy_cost",),
        "uncoalesced",
        "Neighbouring threads copy pieces of different rows; along a row a warp touches 4 lines instead of 32.",
    ),
    # Address computation belongs to copying and takes issue slots: the report counts it as either.
    PlantedPair(
        "address_arithmetic",
        _sick(disease="address_arithmetic"),
        HEALTHY,
        ("copy_cost", "issue"),
        None,
        "Each copy computes its addresses by divisions; the twin adds a constant to pointers.",
    ),
    PlantedPair(
        "bank_conflicts",
        _sick(disease="bank_conflicts"),
        HEALTHY,
        ("smem_wait",),
        "bank_conflicts",
        "Tiles are not swizzled, so ldmatrix finds eight rows in the same banks; the swizzle spreads them.",
    ),
    PlantedPair(
        "bank_conflicts_twofold",
        _sick(disease="bank_conflicts", strength=2),
        HEALTHY,
        ("smem_wait",),
        "bank_conflicts",
        "The swizzle lacks one bit, so ldmatrix finds two rows in the same banks; the full one spreads them.",
    ),
    PlantedPair(
        "smem_rereads",
        _sick(disease="smem_rereads"),
        HEALTHY,
        ("smem_wait",),
        None,
        "Fragments of B are reread for every 16 rows of C; the twin reads them once for 64.",
    ),
    PlantedPair(
        "barrier_imbalance",
        _sick(disease="barrier_imbalance"),
        HEALTHY,
        ("sync_wait",),
        "barrier_imbalance",
        "One of eight warps does useless work before the barrier of each tile while seven wait; the twin omits it.",
    ),
    PlantedPair(
        "excess_barriers",
        _sick(disease="excess_barriers"),
        HEALTHY,
        ("sync_wait",),
        None,
        "There are eight barriers among the products of each step; one per tile is enough.",
    ),
    PlantedPair(
        "spills",
        _sick(disease="spills", stages=3),
        _sick(stages=3),
        ("issue",),
        "spills",
        "A cap of 184 registers makes the main loop spill to local memory; without the cap nothing is spilled.",
    ),
    PlantedPair(
        "dependent_mma",
        _sick(disease="dependent_mma"),
        HEALTHY,
        ("issue",),
        None,
        "Each product of a warp waits for the previous one; the twin has 32 independent products.",
    ),
    DEQUANT_ISSUE,
)
"""Diseases of the main loop, each with a twin kernel that differs in nothing else."""

SPECS: tuple[KernelSpec, ...] = (PLANTED_GEMM, PLANTED_DEQUANT)
