"""Kernels whose busiest unit does what should not be there, and kernels that look like them and are
busy for a reason (docs/validation/waste.md)."""

from __future__ import annotations

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
    parameters=(Parameter("order", "rows", ("rows", "columns", "sectors"), "in which x is read", problem=True),),
    grid=lambda shape, parameters: (shape["rows"] * shape["cols"] // 256,),
    block=(256,),
    reference=lambda inputs, rows: {},
    reference_of=_from,
    sass={"LDG STG": True},
    demonstrates="uncoalesced reads, and whole sectors far apart, of which nothing is wasted",
)


def _untiled_requires(shape: Shape, parameters: Parameters) -> str | None:
    once = parameters["use"] == "once"
    if (shape["n"] == 1) != once or (not once and shape["n"] % 32):
        return "use=once takes n=1, use=again a multiple of 32"
    return None


UNTILED = gemm_spec(
    "planted_untiled",
    "float32",
    folder=FOLDER,
    idea="operands straight from global memory, for one product or for many",
    dims=(Dim("m", 1536, 8, LARGEST), Dim("n", 1536, 1, LARGEST), Dim("k", 1536, 32, LARGEST)),
    parameters=(Parameter("use", "again", ("again", "once"), "how often an operand is used", problem=True),),
    grid=lambda shape, parameters: (
        (shape["n"] // 32, shape["m"] // 8) if parameters["use"] == "again" else (shape["m"] // 8,)
    ),
    block=(32, 8),
    requires=_untiled_requires,
    sass={"FFMA LDG.E": True, "LDS LDGSTS": False},
    demonstrates="loads that a tile saves, and a matrix that is read once",
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

SPECS: tuple[KernelSpec, ...] = (
    *(BANKS, STRIDES, UNTILED, UNTILED_MMA, LOCAL, ATOMICS),
    *(LITERALS, DOUBLES, SERIAL),
)
