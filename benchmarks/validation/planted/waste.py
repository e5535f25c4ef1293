"""Kernels whose busiest unit does what should not be there, and kernels that look like them and are
busy for a reason (docs/validation/waste.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation.planted.structure import STAYS, WAVES
from ncubble.kernels.catalog.shared import LARGEST, TILE, gemm_spec, integer
from ncubble.kernels.spec.spec import (
    Array,
    Arrays,
    Dim,
    Extent,
    KernelSpec,
    Parameter,
    Parameters,
    Reference,
    Scalar,
    Shape,
    Tolerance,
)

FOLDER = Path(__file__).parent
Results = dict[str, NDArray[np.float64]]
CLOSE = Tolerance(absolute=1e-4, relative=1e-4)
ELEMENTS = Dim("n", 2**22, 256, 2**30)
X, Y = Array("x", ("n",)), Array("y", ("n",), output=True)
STEPS = 32
HOPS = 64
POINTS = 256


def _one_each(shape: Shape, parameters: Parameters) -> Extent:
    """A thread per element, 256 in a CTA."""
    return (shape["n"] // 256,)


def _row_sums(parameters: Parameters) -> Reference:
    rounds = integer(parameters, "rounds")
    return lambda inputs, rows: {"y": rounds * inputs["x"][rows].astype(np.float64).sum(axis=1)}


BANKS = KernelSpec(
    name="planted_banks",
    folder=FOLDER,
    source="planted_banks.cu",
    idea="rows of shared memory that lie in other banks, or in the same",
    dims=(Dim("rows", 2**20, 128, 2**26), Dim("cols", 32, 32, 32)),
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows",), output=True)),
    scalars=("rows",),
    parameters=(
        Parameter(
            "pitch", 33, (33, 34, 36), "floats from row to row; 34: two lanes meet, 36: four", change="shared_layout"
        ),
        Parameter("rounds", 64, (1, 64), "how often the rows are added up", problem=True),
    ),
    grid=lambda shape, parameters: (shape["rows"] // 128,),
    block=(128,),
    reference=lambda inputs, rows: {},
    reference_of=_row_sums,
    tolerance=Tolerance(absolute=1e-2, relative=1e-4),
    sass={"LDS": True, "LDS.128": False},
    demonstrates="bank conflicts in a busy LSU, and an LSU that is busy without",
)


def _from(parameters: Parameters) -> Reference:
    order = parameters["order"]

    def reference(inputs: Arrays, chosen: NDArray[np.intp]) -> Results:
        x = inputs["x"].astype(np.float64)
        height, width = x.shape
        if order == "columns":
            x = x.T
        elif order == "sectors":
            x = x.reshape(height, width // 8, 8).transpose(1, 0, 2)
        elif order == "members":
            x = x.reshape(-1, 8).T
        return {"y": 2.0 * x.reshape(height, width)[chosen]}

    return reference


STRIDES = KernelSpec(
    name="planted_strides",
    folder=FOLDER,
    source="planted_strides.cu",
    idea="threads side by side that read neighbours, or pieces of different rows",
    dims=(Dim("rows", 8192, 256, 2**16), Dim("cols", 8192, 8, 2**14)),
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), output=True)),
    scalars=("rows", "cols"),
    parameters=(
        Parameter("order", "rows", ("rows", "columns", "sectors", "members"), "in which x is read", problem=True),
    ),
    grid=lambda shape, parameters: (shape["rows"] * shape["cols"] // 256,),
    block=(256,),
    reference=lambda inputs, rows: {},
    reference_of=_from,
    sass={"LDG STG": True},
    demonstrates="uncoalesced reads, and whole sectors far apart, of which nothing is wasted",
)


_SIDES = {"once": (8, 1), "column": (64, 32), "block": (128, 128)}
"""Rows and columns of a CTA; of the other uses 8 and 32."""


def _untiled_grid(shape: Shape, parameters: Parameters) -> Extent:
    rows, columns = _SIDES.get(str(parameters["use"]), (8, 32))
    grid = (shape["n"] // columns, shape["m"] // rows)
    return grid[1:] if parameters["use"] == "once" else grid


def _untiled_requires(shape: Shape, parameters: Parameters) -> str | None:
    use = str(parameters["use"])
    rows, columns = _SIDES.get(use, (8, 32))
    if (shape["n"] == 1) != (use == "once") or shape["n"] % columns or shape["m"] % rows:
        return f"use={use} takes m a multiple of {rows}, and n of {columns}; only use=once n=1"
    return None


UNTILED = gemm_spec(
    "planted_untiled",
    "float32",
    folder=FOLDER,
    idea="operands straight from global memory, for one product or for many, or from tiles for one result a thread",
    dims=(Dim("m", 1536, 8, LARGEST), Dim("n", 1536, 1, LARGEST), Dim("k", 1536, 32, LARGEST)),
    parameters=(
        Parameter("use", "again", ("again", "once", "tile", "column", "block"), "how operands are used", problem=True),
    ),
    grid=_untiled_grid,
    block=(32, 8),
    requires=_untiled_requires,
    sass={
        "FFMA LDG.E": True,
        "LDS": lambda parameters: parameters["use"] in ("tile", "column", "block"),
        "LDGSTS": False,
    },
    demonstrates="loads that a tile saves, or more results of a thread, and a matrix that is read once",
    peer="",
)

UNTILED_MMA = gemm_spec(
    "planted_untiled_mma",
    "float16",
    "float16",
    folder=FOLDER,
    idea="WMMA with fragments straight from global memory",
    dims=(Dim("m", 2048, 16, LARGEST), Dim("n", 2048, 64, LARGEST), Dim("k", 2048, 16, LARGEST)),
    grid=lambda shape, parameters: (shape["n"] // 64, shape["m"] // 16),
    block=(128,),
    sass={"HMMA LDG.E": True, "LDS LDSM LDGSTS": False},
    demonstrates="loads that a tile saves, before the tensor pipe; with m=16, weights that are read once",
    peer="",
)


def _halves(parameters: Parameters) -> Reference:
    entries = integer(parameters, "entries")
    return lambda inputs, rows: {"y": inputs["x"][rows].astype(np.float64) * (entries * (entries + 1) / 4)}


LOCAL = KernelSpec(
    name="planted_local",
    folder=FOLDER,
    source="planted_local.cu",
    idea="an array of each thread in local memory, or in registers",
    dims=(ELEMENTS,),
    arrays=(X, Y),
    scalars=("n", Scalar("stride", "int32", 37), Scalar("one", "float32", 1.0), Scalar("zero", "float32", 0.0)),
    parameters=(
        Parameter("entries", 64, (32, 64), "floats of the array", problem=True),
        Parameter("index", "constant", ("runtime", "constant"), "what is known of the next entry"),
        Parameter("work", 0, (0, 512), "multiply-adds of each entry", problem=True),
    ),
    grid=_one_each,
    block=(256,),
    reference=lambda inputs, rows: {},
    reference_of=_halves,
    tolerance=CLOSE,
    sass={"STL LDL": lambda parameters: parameters["index"] == "runtime"},
    demonstrates="local memory that fills L2 and DRAM, and some that stays in L1 and costs nothing",
)

ATOMICS = KernelSpec(
    name="planted_atomics",
    folder=FOLDER,
    source="planted_atomics.cu",
    idea="a sum by atomics: one for each thread, or for each CTA",
    dims=(ELEMENTS, Dim("bins", 1, 1, 2**24), Dim("ctas", 2**14, 1, 2**22)),
    arrays=(X, Array("sums", ("bins",)), Array("y", ("ctas",), output=True)),
    scalars=("n", "bins"),
    parameters=(Parameter("mode", "ctas", ("threads", "ctas"), "who adds to memory"),),
    grid=_one_each,
    block=(256,),
    requires=lambda shape, parameters: None if shape["ctas"] * 256 == shape["n"] else "ctas must be n / 256",
    reference=lambda inputs, rows: {"y": inputs["x"][256 * rows].astype(np.float64)},
    sass={"REDG": True},
    demonstrates="atomics that wait for each other at one address, and as many at others",
)


def _moved(parameters: Parameters) -> Reference:
    kept = 0.75 ** np.arange(1, STEPS + 1)
    factor, shift = (kept.sum(), (1.0 - kept).sum()) if parameters["literal"] == "sum" else (kept[-1], 1.0 - kept[-1])
    return lambda inputs, rows: {"y": inputs["x"][rows].astype(np.float64) * factor + shift}


LITERALS = KernelSpec(
    name="planted_literals",
    folder=FOLDER,
    source="planted_literals.cu",
    idea="constants with and without an f, and how they are compiled",
    dims=(ELEMENTS,),
    arrays=(X, Y),
    scalars=("n",),
    parameters=(
        Parameter(
            "literal", "float", ("double", "float", "sum"), "type of the constants; sum: of the sum", change="precision"
        ),
        Parameter("calls", 0, (0, 1), "whether each step is a call", tacit=True),
        Parameter("build", "optimized", ("optimized", "debug"), "or with nvcc -G", tacit=True),
    ),
    defines={"STEPS": STEPS},
    flags=lambda parameters: ("-G",) if parameters["build"] == "debug" else (),
    grid=_one_each,
    block=(256,),
    reference=lambda inputs, rows: {},
    reference_of=_moved,
    tolerance=CLOSE,
    sass={
        "F2F.F64.F32": lambda parameters: parameters["literal"] != "float",
        "CALL": lambda parameters: parameters["calls"] == 1,
    },
    demonstrates="an accidental double, a double on purpose, a debug build, and calls in an optimized one",
)

DOUBLES = KernelSpec(
    name="planted_doubles",
    folder=FOLDER,
    source="planted_doubles.cu",
    idea="the same steps on doubles",
    dims=(ELEMENTS,),
    arrays=(Array("x", ("n",), "float64"), Array("y", ("n",), "float64", output=True)),
    scalars=("n",),
    grid=_one_each,
    block=(256,),
    reference=lambda inputs, rows: {"y": 1.0 + (inputs["x"][rows] - 1.0) * 0.99**256},
    tolerance=CLOSE,
    dtype="float64",
    sass={"DFMA": True, "F2F": False},
    demonstrates="an FP64 pipe that is busy with doubles",
)

SERIAL = replace(
    WAVES,
    name="planted_serial",
    source="planted_serial.cu",
    idea="accumulators that are written between the products of a step, behind them, or never",
    scalars=("m", "n", "k", Scalar("nothing", "float32", 0.0)),
    parameters=(
        STAYS,
        Parameter("touch", "never", ("within", "after", "never"), "where accumulators are written", change="build"),
    ),
    grid=lambda shape, parameters: (shape["m"] // TILE * (shape["n"] // TILE),),
    persistent=None,
    demonstrates="wgmma that ptxas serializes, and a wait for each step, which it does not",
)


def _of_a_cta(parameters: Parameters) -> int:
    """Bytes that a CTA of planted_stream reads."""
    return math.prod(integer(parameters, name) for name in ("width", "ahead", "steps", "threads"))


STREAM = KernelSpec(
    name="planted_stream",
    folder=FOLDER,
    source="planted_stream.cu",
    idea="bytes that are inverted: one or many of a thread at once, by few CTAs or many",
    dims=(Dim("n", 2**27, 2**10, 2**31 - 2**10),),
    arrays=(Array("x", ("n",), "uint8"), Array("y", ("n",), "uint8", output=True)),
    scalars=("n",),
    parameters=(
        Parameter("width", 16, (1, 4, 16), "bytes of a load", change="vectors"),
        Parameter("ahead", 1, (1, 8), "loads before the first store"),
        Parameter("steps", 4, (1, 4, 16, 512), "rounds over the grid", change="ctas"),
        Parameter("threads", 128, (32, 128), "threads of a CTA"),
    ),
    grid=lambda shape, parameters: (shape["n"] // _of_a_cta(parameters),),
    block=lambda shape, parameters: (integer(parameters, "threads"),),
    requires=lambda shape, parameters: (
        f"n must be a multiple of {_of_a_cta(parameters)}" if shape["n"] % _of_a_cta(parameters) else None
    ),
    reference=lambda inputs, rows: {"y": 255.0 - inputs["x"][rows]},
    dtype="uint8",
    sass={
        "LDG STG": True,
        "LDG.E.U8 STG.E.U8": lambda parameters: parameters["width"] == 1,
        "LDG.E.128 STG.E.128": lambda parameters: parameters["width"] == 16,
    },
    demonstrates="narrow loads, small grids and short CTAs, and the same where DRAM is full",
)


def _links(generator: np.random.Generator, shape: Shape) -> Arrays:
    lines = generator.permutation(shape["n"] // 32).astype(np.int32)
    return {"link": (lines[:, None] * 32 + np.arange(32, dtype=np.int32)).ravel()}


def _followed(inputs: Arrays, rows: NDArray[np.intp]) -> Results:
    """After as many hops as ``CHAIN`` makes by default."""
    at = rows
    for _ in range(HOPS):
        at = inputs["link"][at]
    return {"y": at.astype(np.float64)}


CHAIN = KernelSpec(
    name="planted_chain",
    folder=FOLDER,
    source="planted_chain.cu",
    idea="links that are followed, each read before the next is known",
    dims=(Dim("n", 2**26, 128, 2**30), Dim("chains", 2**14, 128, 2**24)),
    arrays=(Array("link", ("n",), "int32"), Array("y", ("chains",), "int32", output=True)),
    scalars=(Scalar("hops", "int32", HOPS),),
    parameters=(Parameter("resident", 16, (8, 16), "CTAs that share an SM"),),
    grid=lambda shape, parameters: (shape["chains"] // 128,),
    block=(128,),
    smem=lambda shape, parameters: 26 * 1024 if parameters["resident"] == 8 else 0,
    reference=_followed,
    draw=_links,
    bytes=lambda shape: 4.0 * shape["chains"],
    dtype="int32",
    sass={"LDG.E": True, "LDG.E.128": False},
    demonstrates="waits for data that neither wider loads nor more CTAs shorten",
)


def _looked_up(inputs: Arrays, rows: NDArray[np.intp]) -> Results:
    drawn, times = (rows * 2654435761 % 2**32).astype(np.uint32), np.zeros((len(rows), 16))
    at = ((drawn & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32).astype(np.float64)
    for _ in range(POINTS):
        drawn = drawn * np.uint32(1664525) + np.uint32(1013904223)
        times[np.arange(len(rows)), drawn >> np.uint32(28)] += 1
    return {"y": np.polyval(inputs["coefficients"].astype(np.float64) @ times.T, at)}


LOOKUP = KernelSpec(
    name="planted_lookup",
    folder=FOLDER,
    source="planted_lookup.cu",
    idea="polynomials whose coefficients are looked up in shared memory, none of them twice",
    dims=(ELEMENTS, Dim("powers", 6, 6, 6), Dim("drawn", 16, 16, 16)),
    arrays=(Array("coefficients", ("powers", "drawn")), Y),
    scalars=("n",),
    defines={"POINTS": POINTS},
    grid=_one_each,
    block=(256,),
    reference=_looked_up,
    tolerance=Tolerance(absolute=0.05, relative=1e-4),
    sass={"LDS FFMA": True, "LDS.64 LDS.128": False},
    demonstrates="an LSU full of operands that serve one multiply-add each, and cannot serve more",
)


def _members(parameters: Parameters) -> Reference:
    arrays = parameters["order"] == "arrays"

    def reference(inputs: Arrays, rows: NDArray[np.intp]) -> Results:
        n = inputs["x"].shape[1]
        member, i = np.divmod(rows[:, None] * 8 + np.arange(8), n) if arrays else (np.arange(8), rows[:, None])
        return {"y": (member + 1) * inputs["x"].sum(axis=0, dtype=np.float64)[i]}

    return reference


MEMBERS = KernelSpec(
    name="planted_members",
    folder=FOLDER,
    source="planted_members.cu",
    idea="members of structures that are written one by one, or as arrays",
    dims=(Dim("reads", 1, 1, 2**10), Dim("n", 2**23, 256, 2**27), Dim("members", 8, 8, 8)),
    arrays=(Array("x", ("reads", "n")), Array("y", ("n", "members"), output=True)),
    scalars=("reads", "n"),
    parameters=(
        Parameter("order", "arrays", ("members", "passes", "arrays"), "in which members are written", change="copies"),
    ),
    grid=lambda shape, parameters: (shape["n"] // 256, *([8] if parameters["order"] == "passes" else [])),
    block=(256,),
    reference=lambda inputs, rows: {},
    reference_of=_members,
    tolerance=Tolerance(absolute=2e-3, relative=1e-4),
    sass={"STG.E": True, "STG.E.64 STG.E.128": False},
    demonstrates="stores apart that fill L2, or leave parts of sectors to DRAM, and few of them beside a full DRAM",
)


def _summed(parameters: Parameters) -> Reference:
    running = parameters["at"] == "running"

    def reference(inputs: Arrays, rows: NDArray[np.intp]) -> Results:
        x = inputs["x"].astype(np.float64)
        return {"y": (x.cumsum(axis=0) if running else x.sum(axis=0, keepdims=True))[rows]}

    return reference


SUMS = KernelSpec(
    name="planted_sums",
    folder=FOLDER,
    source="planted_sums.cu",
    idea="sums that are kept in memory, or in a register",
    dims=(Dim("terms", 64, 1, 2**10), Dim("n", 2**20, 256, 2**27), Dim("kept", 1, 1, 2**10)),
    arrays=(Array("x", ("terms", "n")), Array("y", ("kept", "n"), output=True)),
    scalars=("terms", "n"),
    parameters=(Parameter("at", "register", ("memory", "register", "running"), "where sums are kept", change="reuse"),),
    grid=_one_each,
    block=(256,),
    requires=lambda shape, parameters: (
        None
        if shape["kept"] == (shape["terms"] if parameters["at"] == "running" else 1)
        else "kept must be terms with at=running, else 1"
    ),
    reference=lambda inputs, rows: {},
    reference_of=_summed,
    tolerance=Tolerance(absolute=2e-3, relative=1e-4),
    sass={"FADD LDG.E STG.E": True},
    demonstrates="stores of sums that are added to again, and of sums that are results",
)

SPECS: tuple[KernelSpec, ...] = (
    *(BANKS, STRIDES, UNTILED, UNTILED_MMA, LOCAL, ATOMICS),
    *(LITERALS, DOUBLES, SERIAL, STREAM, CHAIN, LOOKUP, MEMBERS, SUMS),
)
