"""Rungs 10 to 12: a role for each warp, who brings what CTAs share, and how work is cut into
launches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.shared import CUDA, fp32_tolerance, gemm_spec, integer, threads
from ncubble.kernels.spec.spec import (
    LAUNCH,
    Array,
    Arrays,
    Dim,
    Extent,
    KernelSpec,
    Parameter,
    Parameters,
    Reference,
    Shape,
    TensorMap,
    Tolerance,
)

TILE = 1024  # floats
MIRROR = 1020  # element i of a tile meets element i ^ 1020 of the other array's: quads from the back
RATIO = -255.0 / 256.0  # kRatio in the source
SLOT = 3 * 4 * TILE + 4 * 8  # bytes: A, B and C, and four barriers


def recurrence(parameters: Parameters) -> Reference:
    """``c``: ``work`` steps x <- RATIO x + y from x = a + y, with y the mirrored element of b, in
    closed form."""
    decay = RATIO ** integer(parameters, "work")

    def reference(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        a, y = inputs["a"][rows].astype(np.float64), inputs["b"][rows ^ MIRROR].astype(np.float64)
        limit = y / (1.0 - RATIO)
        return {"c": limit + decay * (a + y - limit)}

    return reference


def roles_grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    """As many CTAs as asked for on every SM, in whole clusters, but none without a tile."""
    cluster = int(parameters.get("cluster", 1))
    return (min(shape["n"] // TILE, sms * integer(parameters, "ctas")) // cluster * cluster,)


WARP_SPECIALIZED = KernelSpec(
    name="warp_specialized",
    folder=CUDA,
    source="warp_specialized.cu",
    idea="loading, computing and storing warps, connected by two pipelines; or uniform warps",
    dims=(Dim("n", 2**25, TILE, 2**31 - TILE),),
    arrays=(Array("a", ("n",)), Array("b", ("n",)), Array("c", ("n",), output=True)),
    scalars=("n",),
    parameters=(
        Parameter("roles", "specialized", ("fused", "specialized", "pipelines"), "none, ours, or document 003's"),
        Parameter("slots", 2, (1, 2, 3, 4), "tiles of A, B and C in shared memory", change="stages"),
        Parameter("work", 64, (0, 16, 32, 64, 96, 128, 256, 512), "FMAs per element", problem=True),
        Parameter("ctas", 1, (1, 2, 4), "CTAs per SM; with one, no other CTA hides its waits"),
    ),
    persistent=roles_grid,
    block=lambda shape, parameters: (96 if parameters["roles"] == "pipelines" else 256,),
    smem=lambda shape, parameters: SLOT * integer(parameters, "slots"),
    reference=recurrence({"work": 64}),
    reference_of=recurrence,
    work=lambda shape, parameters: 2.0 * (integer(parameters, "work") + 1) * shape["n"],
    # A step rounds values below 16 by less than 2^-21, and RATIO damps what 256 steps add up to
    # below 256 x 2^-21. Signs differ: a tenth of that is never reached. A step too many or too few
    # is off by about 1.
    tolerance=Tolerance(absolute=1.2e-5),
    sass={
        "LDGSTS.E.BYPASS.128 STG.E.EF.128 FFMA": True,
        # Copies arrive at a barrier by themselves; C goes through shared memory to the storers.
        "ARRIVES STS.128": lambda parameters: parameters["roles"] != "fused",
        "LDG": False,
        # Else every lane arrives for itself.
        "WARPSYNC": lambda parameters: parameters["roles"] == "pipelines" or parameters.get("cluster", 1) > 1,
    },
    demonstrates="load, compute and store in parallel; data_wait if (latency + copy) / slots exceeds compute time",
)


ROWS, DEPTH = 256, 32  # of the tile of cluster_dsmem
EPSILON = 1e-5  # kEpsilon in persistent.cu


def _loaded_rows(shape: Shape, parameters: Parameters) -> Extent:
    """The box of A: all rows of the tile, or the part that one CTA of the cluster loads."""
    parts = integer(parameters, "cluster") if parameters["share"] in ("split", "multicast") else 1
    return ROWS // parts, DEPTH


def _cluster_requires(shape: Shape, parameters: Parameters) -> str | None:
    columns = integer(parameters, "columns") * integer(parameters, "cluster")
    if shape["n"] % columns:
        return f"n={shape['n']} is not a multiple of {columns}, the columns of a cluster of {parameters['cluster']}"
    return None


CLUSTER_DSMEM = gemm_spec(
    "cluster_dsmem",
    "float32",
    idea="CTAs of a cluster need the same tile: each loads it, or they share one load",
    dims=(Dim("m", 16384, maximum=2**23), Dim("n", 64, 4, 2**16), Dim("k", 4096, 4, 2**24)),
    parameters=(
        Parameter(
            "share",
            "multicast",
            ("none", "dsmem", "split", "multicast"),
            "each loads; the leader sends; each sends its part; multicast load",
        ),
        Parameter("cluster", 4, (2, 4, 8), "CTAs of a cluster", change="ctas"),
        Parameter("columns", 8, (4, 8), "columns per CTA: arithmetic per element of A"),
        Parameter("stages", 3, (1, 2, 3, 4, 6), "buffers in the ring"),
    ),
    tensor_maps=(
        TensorMap("a", box=_loaded_rows, swizzle=128),
        TensorMap("b", box=lambda shape, parameters: (DEPTH, integer(parameters, "columns")), swizzle=0),
    ),
    grid=lambda shape, parameters: (shape["n"] // integer(parameters, "columns"), -(-shape["m"] // ROWS)),
    cluster=lambda shape, parameters: (integer(parameters, "cluster"), 1, 1),
    block=(192,),
    smem=lambda shape, parameters: integer(parameters, "stages") * 4 * DEPTH * (ROWS + integer(parameters, "columns")),
    requires=_cluster_requires,
    # For k of a few terms the last rounding of the sum itself counts, too.
    tolerance=lambda shape: Tolerance(absolute=fp32_tolerance(shape).absolute, relative=1e-6),
    sass={
        "UTMALDG.2D FFMA": True,
        "UTMALDG.2D.MULTICAST": lambda parameters: parameters["share"] == "multicast",
        "UBLKCP": lambda parameters: parameters["share"] in ("dsmem", "split"),
        "LDG": False,
    },
    demonstrates="L2 traffic divided by the cluster size; one leader's port soon becomes the bottleneck",
    min_arch=90,
    peer="",
)


def normalized(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """Rows of y: x (batches, rows, cols), each row scaled to unit mean square, times w (cols,)."""
    x = inputs["x"].reshape(-1, inputs["x"].shape[-1])[rows].astype(np.float64)
    scale = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON)
    return {"y": x * scale * inputs["w"].astype(np.float64)}


def _persistent_grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    tiles = -(-shape["rows"] // (integer(parameters, "threads") // 32))  # of a batch
    if parameters["mode"] == "many":
        return (tiles,)
    tiles *= shape["batches"]
    return (tiles if parameters["mode"] == "grid" else min(tiles, sms * integer(parameters, "ctas")),)


PERSISTENT = KernelSpec(
    name="persistent",
    folder=CUDA,
    source="persistent.cu",
    idea="one launch that loops over tiles, compared with a launch per batch and a CTA per tile",
    dims=(Dim("batches", 64, maximum=2**12), Dim("rows", 1024, maximum=2**16), Dim("cols", 1024, 4, 1024)),
    arrays=(
        Array("x", ("batches", "rows", "cols")),
        Array("w", ("cols",)),
        Array("y", ("batches", "rows", "cols"), output=True),
    ),
    scalars=("batches", "rows", "cols", LAUNCH),
    parameters=(
        Parameter(
            "mode",
            "persistent",
            ("many", "grid", "persistent"),
            "launch per batch; CTA per tile; persistent loop",
            change="ctas",
        ),
        Parameter("ctas", 2, (1, 2, 3, 4), "CTAs per SM with mode=persistent"),
        Parameter("threads", 256, (128, 256), "threads per CTA, a warp per row"),
    ),
    persistent=_persistent_grid,
    launches=lambda shape, parameters: shape["batches"] if parameters["mode"] == "many" else 1,
    block=threads,
    row_dims=2,
    reference=normalized,
    tolerance=Tolerance(absolute=1e-7, relative=5e-6),  # the sum of squares adds at most 37 roundings
    sass={"LDG.E.128 STG.E.EF.128 SHFL MUFU.RSQ": True, "BAR": False},
    demonstrates="launch gaps, ramps and tails that a single launch avoids",
)


def mixed(parameters: Parameters) -> Reference:
    """``y`` after ``steps`` steps, ``t`` after one less: every piece of four is averaged with the
    one n/8 + 1 pieces behind it."""
    steps = integer(parameters, "steps")

    def reference(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        before = state = inputs["x"].astype(np.float64).reshape(-1, 4)
        for _ in range(steps):
            before, state = state, 0.5 * state + 0.5 * np.roll(state, -(len(state) // 2 + 1), axis=0)
        return {"t": before.reshape(-1)[rows], "y": state.reshape(-1)[rows]}

    return reference


def _cooperative(parameters: Parameters) -> bool:
    return bool(parameters["mode"] == "cooperative")


def _synchronized_grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    tiles = -(-shape["n"] // TILE)
    return (min(tiles, sms * integer(parameters, "ctas")) if _cooperative(parameters) else tiles,)


GRID_SYNC = KernelSpec(
    name="grid_sync",
    folder=CUDA,
    source="grid_sync.cu",
    idea="dependent steps: a launch per step, or grid.sync() in one cooperative launch",
    dims=(Dim("n", 2**20, 4, 2**30),),
    arrays=(Array("x", ("n",)), Array("t", ("n",), output=True), Array("y", ("n",), output=True)),
    scalars=("n", LAUNCH),
    parameters=(
        Parameter("mode", "cooperative", ("many", "cooperative"), "launch per step, or grid.sync()", change="ctas"),
        Parameter("ctas", 2, (1, 2, 4, 8), "CTAs per SM with mode=cooperative"),
        Parameter("steps", 64, (2, 16, 64, 256), "dependent steps"),
    ),
    persistent=_synchronized_grid,
    cooperative=_cooperative,
    launches=lambda shape, parameters: integer(parameters, "steps") if parameters["mode"] == "many" else 1,
    block=(256,),
    reference=mixed({"steps": 64}),
    reference_of=mixed,
    unit="latency",
    # An average of two halves rounds once, by 2^-25 of a value below 2 after a few steps, and later
    # averages do not add to that: 256 such are below 2e-5. A step that missed another's results is
    # off by 0.006 on average, after 256 steps too.
    tolerance=Tolerance(absolute=2e-5),
    sass={
        "LDG.E.128.CONSTANT": False,  # data written by other CTAs must not come from the read-only cache
        "LDG.E.128 STG.E.128": True,
        "BAR": _cooperative,
    },
    demonstrates="cost of a grid-wide barrier, compared with the launch that replaces it",
)


SPECS: tuple[KernelSpec, ...] = (WARP_SPECIALIZED, CLUSTER_DSMEM, PERSISTENT, GRID_SYNC)
