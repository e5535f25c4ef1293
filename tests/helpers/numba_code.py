"""Machine code of a Numba kernel of the catalog, compiled and linked for Hopper without a GPU."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from unittest import mock

from numba import int32
from numba.cuda import types
from numba.cuda.compiler import compile_cuda, kernel_fixup
from numba.cuda.cudadrv import nvvm

from ncubble.kernels.build import disassemble, opcodes
from ncubble.kernels.run.launch import make_dispatcher
from ncubble.kernels.spec.case import Case

ARCH = (9, 0, "a")


def numba_opcodes(case: Case) -> Counter[str]:
    """How often each opcode stands in the code, as ``prepare_numba`` has it made."""
    dispatcher = make_dispatcher(case)
    options = dispatcher.targetoptions
    arrays = [types.Array(getattr(types, array.dtype), len(array.dims), "C") for array in case.spec.arrays]
    device = SimpleNamespace(compute_capability=ARCH)
    with mock.patch("numba.cuda.dispatcher.get_current_device", return_value=device):
        compiled = compile_cuda(
            dispatcher.py_func,
            types.void,
            (*arrays, *(int32 for _ in case.spec.scalars)),
            lineinfo=options["lineinfo"],
            cc=ARCH,
            lto=options["lto"],
            fastmath=options.get("fastmath", False),
            nvvm_options={"opt": 3},
        )
    library, name = compiled.library, compiled.fndesc.llvm_func_name
    library._entry_name = name
    kernel_fixup(library.get_function(name), False)
    nvvm.set_launch_bounds(library.get_function(name), options.get("launch_bounds"))
    cubin = library.get_cubin(cc=ARCH)
    return opcodes(disassemble(cubin if isinstance(cubin, bytes) else cubin.code))
