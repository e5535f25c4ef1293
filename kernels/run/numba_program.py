"""Brings a Numba-CUDA kernel onto a GPU. Apart, so that CUDA C++ kernels never pay for importing
Numba."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.catalog.registry import load_module
from ncubble.kernels.device.device import DeviceArray, Gpu
from ncubble.kernels.run.prepared import BuildFacts
from ncubble.kernels.spec.case import Case
from ncubble.text.remedies import extras_command


def make_dispatcher(case: Case) -> Any:
    """The dispatcher that the source's ``make(**parameters)`` returns; raises UsageError if there
    is no ``make``."""
    module = load_module(case.spec.path)
    make = getattr(module, "make", None)
    if not callable(make):
        raise UsageError(f"{case.spec.path}: no function make(**parameters)", "make it return the @cuda.jit kernel")
    try:
        return make(**case.parameters)
    except Exception as error:  # the source is the user's code
        message = f"{case.spec.path}: make() failed: {type(error).__name__}: {error}"
        raise UsageError(message, "make it accept the spec's parameters by name") from error


def prepare_numba(case: Case, gpu: Gpu, pointers: tuple[int, ...]) -> tuple[BuildFacts, Callable[[], None]]:
    """Compiles, without launching, for the arguments that ``run`` passes; raises MeasurementError
    if Numba refuses."""
    try:
        from numba import cuda
    except Exception as error:  # not only ImportError: a numpy that is too new raises AttributeError
        raise MeasurementError(f"Numba-CUDA cannot be imported: {error}", extras_command("gpu", "nvcc")) from error
    views = [
        cuda.as_cuda_array(DeviceArray(pointer, case.extent(array), np.dtype(array.dtype)))  # type: ignore[no-untyped-call]
        for pointer, array in zip(pointers, case.spec.arrays, strict=True)
    ]
    sms = gpu.facts.sm_count
    launches = [(*views, *case.scalars(index, sms)) for index in range(case.launches)]
    dispatcher = make_dispatcher(case)
    try:
        compiled = dispatcher.compile(tuple(dispatcher.typeof_pyval(argument) for argument in launches[0]))
    except Exception as error:  # Numba raises its own, NVVM's and the linker's errors here
        raise MeasurementError(f"Numba could not compile {case.spec.path}:\n{error}", "fix the source") from error
    gpu.allow_smem(compiled.library.get_cufunc().kernel, case.smem)
    configured = dispatcher[case.grid_on(sms), case.block, cuda.external_stream(int(gpu.stream.handle)), case.smem]

    def run() -> None:
        for arguments in launches:
            configured(*arguments)

    return _facts(case, compiled), run


def _facts(case: Case, compiled: Any) -> BuildFacts:
    return BuildFacts(
        compiler=f"numba-cuda {version('numba-cuda')}",
        flags=("lineinfo",),
        registers=int(compiled.regs_per_thread),
        smem_static_B=int(compiled.shared_mem_per_block),
        smem_dynamic_B=case.smem,
        # Numba only reports local memory, which includes spills and local arrays: only zero means
        # no spills.
        spill_B=None if compiled.local_mem_per_thread else 0,
        cubin_sha256=None,
    )
