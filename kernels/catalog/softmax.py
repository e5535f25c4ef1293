"""Rung 7, online softmax, and its twin in Numba."""

from __future__ import annotations

from ncubble.kernels.catalog.shared import (
    CUDA,
    NUMBA,
    integer,
)
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Parameter, Tolerance

SOFTMAX_ONLINE = KernelSpec(
    name="softmax_online",
    folder=CUDA,
    source="softmax_online.cu",
    idea="running maximum and sum: one pass over memory",
    dims=(Dim("rows", 16384), Dim("cols", 4096, maximum=2**31 - 1024)),  # a column + 1024 threads is still an int
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), output=True)),
    scalars=("rows", "cols"),
    parameters=(
        Parameter("threads", 256, (128, 256, 512, 1024), "threads per row"),
        Parameter("items", 8, (1, 2, 3, 4, 5, 6, 7, 8), "16-byte loads per thread that stay in registers"),
    ),
    grid=lambda shape, parameters: (shape["rows"],),
    block=lambda shape, parameters: (integer(parameters, "threads"),),
    reference=reference.softmax,
    tolerance=lambda shape: Tolerance(absolute=1e-8, relative=2e-5),
    sass=lambda arch, parameters: {"LDG.E.EF.128": True, "STG.E.EF.128": True, "MUFU.EX2": True, "SHFL": True},
    peer="softmax",
    demonstrates="an honestly memory-bound kernel: no tensor work, no bubble to cure",
)


NUMBA_SOFTMAX_ONLINE = KernelSpec(
    name="numba_softmax_online",
    folder=NUMBA,
    source="numba_softmax_online.py",
    idea="twin of softmax_online in Numba-CUDA; the result reads the row again",
    dims=(Dim("rows", 16384), Dim("cols", 4096)),
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), output=True)),
    scalars=("rows", "cols"),
    parameters=(Parameter("threads", 256, (128, 256, 512), "threads per row"),),
    grid=lambda shape, parameters: (shape["rows"],),
    block=lambda shape, parameters: (integer(parameters, "threads"),),
    reference=reference.softmax,
    tolerance=lambda shape: Tolerance(absolute=1e-8, relative=2e-5),
    peer="softmax",
    demonstrates="scalar code: the ALU pipe is busier than DRAM",
)


SPECS: tuple[KernelSpec, ...] = (
    SOFTMAX_ONLINE,
    NUMBA_SOFTMAX_ONLINE,
)
