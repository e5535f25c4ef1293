"""What PyTorch calls of cuBLAS, cuDNN and its own kernels, on the memory and the stream of a
prepared kernel.

PyTorch is no dependency: it is imported when ``--library`` asks for it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ncubble.errors import MeasurementError
from ncubble.kernels.device.device import DeviceArray
from ncubble.kernels.run.prepared import Peer, Prepared
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.dtypes import EXTRA, dtype_of
from ncubble.kernels.spec.spec import Array
from ncubble.text.remedies import pip_command

CUBLAS = ("libcublas.so.13", "libcublas.so.12")
VERSION_PARTS = (0, 1, 2)  # libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL


def import_torch() -> Any:
    """The module ``torch``; raises MeasurementError if it is missing or sees no GPU."""
    try:
        import torch
    except Exception as error:  # a wheel that does not match the driver's libraries raises OSError
        message = f"--library times the library through PyTorch, which cannot be imported: {error}"
        raise MeasurementError(message, pip_command("torch")) from error
    if not torch.cuda.is_available():
        message = f"--library times the library through PyTorch, and torch {torch.__version__} sees no GPU"
        raise MeasurementError(message, "install a build of torch for CUDA, and run this on a machine with a GPU")
    return torch


def make(name: str, prepared: Prepared) -> Peer:
    """The call for ``name`` (``matmul``, ``sdpa`` or ``softmax``), on the stream of
    ``prepared``."""
    torch = import_torch()
    torch.cuda.init()
    torch.cuda.set_stream(torch.cuda.ExternalStream(int(prepared.gpu.stream.handle)))
    case = prepared.case
    views = [
        _tensor(torch, case, array, pointer) for array, pointer in zip(case.spec.arrays, prepared.pointers, strict=True)
    ]
    inputs = [view for array, view in zip(case.spec.arrays, views, strict=True) if not array.output]
    ours = next(view for array, view in zip(case.spec.arrays, views, strict=True) if array.output)
    library, version, call = CALLS[name](torch, case, inputs)
    result: list[Any] = [None]

    def run() -> None:
        result[0] = call()

    return Peer(library, version, run, lambda: float((ours.float() - result[0].float()).abs().max().item()))


Call = tuple[str, str, Callable[[], Any]]


def _matmul(torch: Any, case: Case, inputs: list[Any]) -> Call:
    """``a @ b`` by cuBLAS. The result has the inputs' type, and a place of its own, so that nothing
    is allocated."""
    a, b = inputs
    torch.set_float32_matmul_precision("highest")  # no TF32 where the kernel computes in fp32
    out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device="cuda")
    version = f"cuBLAS {_cublas_version()}, torch {torch.__version__}"
    return "cuBLAS (torch.matmul)", version, lambda: torch.matmul(a, b, out=out)


def _scaled_matmul(torch: Any, case: Case, inputs: list[Any]) -> Call:
    """``a @ b.T`` of e4m3 by cuBLASLt, scaled as the kernel scales, with fast accumulation where
    the kernel has it. The call has no ``out`` (as ``_sdpa``)."""
    a, b, scale_a, scale_b = inputs
    fast = case.parameters["accumulate"] == "fast"
    scales = scale_a.t(), scale_b.t()
    if case.parameters["scaling"] == "tensor":
        scales = scale_a[0, 0].clone(), scale_b[0, 0].clone()
    elif scale_b.shape[1] % 4:
        message = f"cuBLASLt needs 16-byte rows of B's scales, and PyTorch allows no gaps: k={a.shape[1]} does not fit"
        raise MeasurementError(message, "make k a multiple of 512, or omit --library")
    version = f"cuBLAS {_cublas_version()}, torch {torch.__version__}"

    def multiply() -> Any:
        return torch._scaled_mm(a, b.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)

    return "cuBLASLt (torch._scaled_mm)", version, multiply


def _softmax(torch: Any, case: Case, inputs: list[Any]) -> Call:
    """Softmax along the last axis, by PyTorch's own kernel."""
    (x,) = inputs
    out = torch.empty_like(x)
    return "torch.softmax", f"torch {torch.__version__}", lambda: torch.softmax(x, dim=-1, out=out)


def _sdpa(torch: Any, case: Case, inputs: list[Any]) -> Call:
    """Attention forward by cuDNN, and by nothing else: the other backends are switched off.

    The call has no ``out``; after the warm-up its result comes from PyTorch's allocator without a
    call of the driver.
    """
    backends = torch.backends.cuda
    backends.enable_flash_sdp(False)
    backends.enable_mem_efficient_sdp(False)
    backends.enable_math_sdp(False)
    backends.enable_cudnn_sdp(True)
    q, k, v = inputs
    causal = case.parameters.get("causal", 0) not in (0, "0", "no")
    attend = torch.nn.functional.scaled_dot_product_attention
    version = f"cuDNN {_cudnn_version(torch)}, torch {torch.__version__}"
    return "cuDNN (torch scaled_dot_product_attention)", version, lambda: attend(q, k, v, is_causal=causal)


CALLS: dict[str, Callable[[Any, Case, list[Any]], Call]] = {
    "matmul": _matmul,
    "scaled_matmul": _scaled_matmul,
    "sdpa": _sdpa,
    "softmax": _softmax,
}


def _tensor(torch: Any, case: Case, array: Array, pointer: int) -> Any:
    """The array as a tensor on the same memory. Types that the array interface does not know travel
    as integers."""
    extra = array.dtype in EXTRA
    dtype = dtype_of(array.dtype)
    dtype = np.dtype(f"int{8 * dtype.itemsize}") if extra else dtype
    tensor = torch.as_tensor(DeviceArray(pointer, case.extent(array), dtype), device="cuda")
    return tensor.view(getattr(torch, array.dtype)) if extra else tensor


def _cublas_version() -> str:
    """Version of the cuBLAS that PyTorch has loaded."""
    for name in CUBLAS:
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
        except OSError:
            continue
        parts = []
        for part in VERSION_PARTS:
            value = ctypes.c_int()
            library.cublasGetProperty(part, ctypes.byref(value))
            parts.append(str(value.value))
        return ".".join(parts)
    return "(unknown version)"


def _cudnn_version(torch: Any) -> str:
    """``91002`` as ``9.10.2``."""
    number = int(torch.backends.cudnn.version() or 0)
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
