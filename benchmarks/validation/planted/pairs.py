"""All pairs of a planted disease and its cure, by which the diagnosis is scored, and controls without
a disease.

A pair is a claim about a kernel, made by how it was written: what its dominant loss is, and which
change removes it. Sizes are meant for the 132 SMs of an H200.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ncubble.kernels.spec.spec import Value


@dataclass(frozen=True)
class PlantedSide:
    """One launch of a catalog kernel; what is not named is default."""

    kernel: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PlantedPair:
    """A kernel with one known loss, and the same useful work without it: gain = 1 - cycles(cured) /
    cycles(sick).

    ``causes``: each counts as named right, nearly always one; ``disease``: the finer word that
    should be told, None where there is none (the words of ``ncubble report``). ``cured``: None for
    an honest control, with nothing to cure. ``what``: one sentence: what is wrong, and what the
    twin changes.
    """

    name: str
    sick: PlantedSide
    cured: PlantedSide | None
    causes: tuple[str, ...]
    disease: str | None
    what: str


def _sick(**parameters: int | str) -> PlantedSide:
    return PlantedSide("planted_gemm", parameters)


HEALTHY = _sick()

MAIN_LOOP = (
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
    PlantedPair(
        "dequant_issue",
        PlantedSide("planted_dequant", {"disease": "dequant_issue"}),
        PlantedSide("planted_dequant"),
        ("issue",),
        "dequant_issue",
        (
            "Each byte is converted individually through a float, and twice; the twin converts two "
            "bytes to two halves at a time."
        ),
    ),
)
"""Diseases of the main loop, each with a twin kernel that differs in nothing else."""

# A CTA with four slots of 128 x 128 tiles or more has an SM for itself, with three it shares it with
# another: a wave is 132 or 264 tiles.
PINGPONG: Mapping[str, Value] = {"schedule": "pingpong", "tile_n": 128, "stages": 5}
CUBE = {"m": 4096, "n": 4096, "k": 4096}
WAVES = {"m": 16896, "n": 8192, "k": 512}  # 8448 tiles of 128 x 128: 64 waves of 132, or 32 of 264
LONE = {"m": 1408, "n": 1536, "k": 24576}  # 132 tiles
STREAMED = {"m": 33792, "n": 1024, "k": 2048}  # A is 138 MB, and one column has 264 tiles
SKINNY = {"m": 33792, "n": 256, "k": 4096}  # A is 277 MB

TAIL = (
    PlantedPair(
        "partial_wave",
        PlantedSide("planted_waves", {"schedule": "tiles"}, {"m": 1536, "n": 1536, "k": 24576}),
        PlantedSide("planted_waves", {"schedule": "stream"}, {"m": 1536, "n": 1536, "k": 24576}),
        ("tail",),
        "partial_wave",
        "144 long tiles on 132 SMs take two waves, the second with 12 tiles; split along k, it takes 0.09 of a wave.",
    ),
    PlantedPair(
        "too_few_ctas",
        PlantedSide("planted_waves", {"schedule": "tiles"}, {"m": 1408, "n": 768, "k": 32768}),
        PlantedSide("planted_waves", {"schedule": "stream"}, {"m": 1408, "n": 768, "k": 32768}),
        ("tail",),
        "too_few_ctas",
        "66 tiles occupy half of the SMs; the twin gives each SM half a tile.",
    ),
    PlantedPair(
        "ramp",
        PlantedSide("planted_ramp", {"search": "serial"}, LONE),
        PlantedSide("planted_ramp", {"search": "parallel"}, LONE),
        ("ramp",),
        None,
        "Each CTA of the only wave reads some 310 table entries sequentially before its first copy; the twin "
        "reads 32 at once.",
    ),
)

BETWEEN_TILES = (
    PlantedPair(
        "wave_gap",
        PlantedSide("planted_raster", {"tile_n": 256}, {"m": 16384, "n": 8448, "k": 512}),
        PlantedSide("gemm_ws", PINGPONG, {"m": 16384, "n": 8448, "k": 512}),
        ("wave_gap",),
        None,
        (
            "Nothing overlaps with start and end of the only CTA on an SM, 32 times; the twin's "
            "persistent CTAs copy and store during the products of the neighbouring tile."
        ),
    ),
    # So short along k that start and end weigh as much as they can in waves this long. CTAs drift
    # apart, after which most SMs multiply while one stores: dips of the whole GPU fade, and the
    # same loss is told as epilogue.
    PlantedPair(
        "occupancy_cliff",
        PlantedSide("gemm_tma", {"stages": 6}, WAVES),
        PlantedSide("gemm_tma", {"stages": 3}, WAVES),
        ("wave_gap", "epilogue"),
        "occupancy_cliff",
        (
            "Six slots leave room for one CTA per SM, whose start and end are exposed; with three "
            "slots there are two CTAs."
        ),
    ),
    PlantedPair(
        "short_k",
        PlantedSide("planted_epilogue", {"store": "narrow"}, {"m": 16384, "n": 8192, "k": 256}),
        PlantedSide("planted_epilogue", {"store": "boxes"}, {"m": 16384, "n": 8192, "k": 256}),
        ("epilogue",),
        "short_k",
        "With four steps along k, stores of 2 bytes take longer than the products; the twin stores whole rows by TMA.",
    ),
    PlantedPair(
        "late_residual",
        PlantedSide("planted_residual", {"read": "late"}, {"m": 8448, "n": 4096, "k": 2048}),
        PlantedSide("planted_residual", {"read": "early"}, {"m": 8448, "n": 4096, "k": 2048}),
        ("epilogue", "wave_gap"),
        None,
        (
            "The added matrix is read two elements at a time after the products, with nothing to "
            "overlap; the twin requests all of it before them."
        ),
    ),
)

MEMORY = (
    PlantedPair(
        "l2_thrash",
        PlantedSide("planted_raster", {"raster": "column"}, STREAMED),
        PlantedSide("planted_raster", {"raster": "banded"}, STREAMED),
        ("memory_bound", "data_wait"),
        "l2_thrash",
        (
            "Concurrent CTAs need different rows of A, so A is read from DRAM once per column of "
            "tiles; in bands it is read once."
        ),
    ),
    PlantedPair(
        "low_reuse",
        PlantedSide("planted_raster", {"raster": "column", "tile_n": 64}, SKINNY),
        PlantedSide("planted_raster", {"raster": "column", "tile_n": 256}, SKINNY),
        ("memory_bound",),
        None,
        "Tiles of 64 columns read A from DRAM four times; a tile with all 256 columns reads it once.",
    ),
)

COPIES = (
    PlantedPair(
        "small_boxes",
        PlantedSide("planted_boxes", {"box_rows": 2}, CUBE),
        PlantedSide("planted_boxes", {"box_rows": 64}, CUBE),
        ("copy_cost",),
        "small_boxes",
        "A tile is 128 boxes of two rows, more than the copy engine processes during its product; the twin uses 4.",
    ),
    PlantedPair(
        "role_imbalance",
        PlantedSide("planted_roles", {"producer": "warp"}, CUBE),
        PlantedSide("planted_roles", {"producer": "tma"}, CUBE),
        ("copy_cost", "data_wait"),
        "role_imbalance",
        "One warp copies by cp.async for eight multiplying warps, and is slower; the twin uses TMA.",
    ),
    PlantedPair(
        "single_buffer_tma",
        PlantedSide("gemm_tma", {"stages": 1}, CUBE),
        PlantedSide("gemm_tma", {"stages": 3}, CUBE),
        ("data_wait",),
        "single_buffer",
        "The only slot is filled while no warp multiplies; with three slots copies run ahead.",
    ),
    PlantedPair(
        "shallow_tma",
        PlantedSide("gemm_tma", {"stages": 2}, CUBE),
        PlantedSide("gemm_tma", {"stages": 3}, CUBE),
        ("data_wait",),
        "shallow_pipeline",
        "With two slots a copy has the time of one product to arrive; with a third slot, that of two.",
    ),
)

MACHINE = (
    PlantedPair(
        "slow_path",
        PlantedSide("gemm_mma_swizzled", {}, CUBE),
        PlantedSide("gemm_ws", PINGPONG, CUBE),
        ("slow_path",),
        None,
        "mma.sync near its own roof, two thirds of wgmma's; the twin uses wgmma (on bfloat16, as fast as half).",
    ),
    PlantedPair(
        "tiny_launch",
        PlantedSide("persistent", {"mode": "many"}, {"batches": 64, "rows": 512}),
        PlantedSide("persistent", {"mode": "grid"}, {"batches": 64, "rows": 512}),
        ("tiny_launch",),
        None,
        "64 launches of a few microseconds each; the twin does all batches in one.",
    ),
)

CONTROLS = (
    PlantedPair(
        "copy", PlantedSide("async_copy_pipeline"), None, ("memory_bound",), None, "A copy: bound by DRAM only."
    ),
    PlantedPair(
        "softmax",
        PlantedSide("softmax_online"),
        None,
        ("memory_bound",),
        None,
        "Every element is read and written once.",
    ),
    PlantedPair(
        "weight_stream",
        PlantedSide("gemm_tma", {}, {"m": 128, "n": 33792, "k": 4096}),
        None,
        ("memory_bound",),
        None,
        "A product with 128 rows reads 277 MB of weights once, and has too little work to hide it.",
    ),
    PlantedPair(
        "fp32_product",
        PlantedSide("tiled_matmul", {}, {"m": 2048, "n": 2048, "k": 2048}),
        None,
        ("no_tensor_work",),
        None,
        "A product on the FMA pipe, without tensor work.",
    ),
    PlantedPair(
        "fp32_ring",
        PlantedSide("async_pipeline", {"stages": 3, "threads": 128}, {"m": 2048, "n": 2048, "k": 2048}),
        None,
        ("no_tensor_work",),
        None,
        "The same by cp.async.",
    ),
    PlantedPair(
        "saturated",
        PlantedSide("gemm_ws", {}, {"m": 8192, "n": 8192, "k": 8192}),
        None,
        ("none",),
        None,
        "The tensor pipe is busy except for the first load, the last store and the last wave.",
    ),
)

PAIRS: tuple[PlantedPair, ...] = (*MAIN_LOOP, *TAIL, *BETWEEN_TILES, *MEMORY, *COPIES, *MACHINE, *CONTROLS)
