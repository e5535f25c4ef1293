"""A kernel beside the library's: the same operation on the same inputs, on the memory and the
stream of the prepared kernel, timed in turns in one run.

PyTorch, which calls cuBLAS, cuDNN and its own kernels, is no dependency: it is imported when
``--library`` asks for it.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.catalog.registry import catalog
from ncubble.kernels.run.bench import Timing, time_in_rounds
from ncubble.kernels.run.device import DeviceArray
from ncubble.kernels.run.launch import Prepared
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import EXTRA, Array, dtype_of
from ncubble.text.remedies import pip_command

CUBLAS = ("libcublas.so.13", "libcublas.so.12")
VERSION_PARTS = (0, 1, 2)  # libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
TAKES = {"matmul": 2, "scaled_matmul": 4, "sdpa": 3, "softmax": 1}  # inputs of the library's call, by peer
Torch = Any  # the module, imported where a library is asked for
Tensor = Any  # torch.Tensor
Call = tuple[str, str, Callable[[], Tensor]]
"""Name and version of a library, and its call."""


@dataclass(frozen=True)
class Peer:
    """The library's call. ``run`` queues it on the stream of the kernel that it stands beside,
    without waiting.

    ``difference`` gives the largest absolute difference between both results, after both have run;
    None if the library's call does not compute what the kernel computes (a plain copy beside a
    kernel that copies and scales).
    """

    library: str
    version: str
    run: Callable[[], None]
    difference: Callable[[], float | None]


@dataclass(frozen=True)
class Against:
    """What timing both gave.

    ``ratio`` is the library's median time over the kernel's: above 1 the kernel is faster.
    ``ratio_low`` and ``ratio_high`` are its extremes over the rounds. ``fraction`` is the library's
    share of the kernel's roof.
    """

    library: str
    version: str
    timing: Timing
    ratio: float
    ratio_low: float
    ratio_high: float
    fraction: float | None
    max_abs_difference: float | None


def check_peer(case: Case) -> None:
    """Says before anything is built whether ``case`` can be timed beside a library.

    Raises:
        UsageError: the spec names no library call, or one that its arrays do not fit.
        MeasurementError: the library is not installed.
    """
    name, peer = case.spec.name, case.spec.peer
    if peer not in MAKERS or case.spec.language == "host":
        known = ", ".join(other for other, spec in sorted(catalog().items()) if spec.peer and other != name)
        raise UsageError(f"{name} has no library call to compare with", f"omit --library, or use one of: {known}")
    inputs = sum(not array.output for array in case.spec.arrays)
    if inputs != TAKES.get(peer, inputs):
        message = f"{name} has {inputs} inputs, but the library's {peer} takes {TAKES[peer]}"
        raise UsageError(message, "fix the spec's peer")
    if peer != "copy":
        import_torch()


def make_peer(prepared: Prepared) -> Peer:
    """The library's call for a kernel that is prepared and whose inputs are uploaded; see
    ``check_peer``."""
    return MAKERS[prepared.case.spec.peer](prepared)


def time_against(prepared: Prepared, peer: Peer, iterations: int) -> tuple[Timing, Against]:
    """Times kernel and library in turns; the ``fraction`` is left to whoever knows the kernel's.

    Raises:
        MeasurementError: the library refuses the call.
    """
    try:
        peer.run()
        prepared.gpu.sync()
    except MeasurementError:
        raise
    except Exception as error:  # the library's own types
        message = f"{peer.library} refused {prepared.case.label}: {type(error).__name__}: {error}"
        raise MeasurementError(message, "choose sizes (-p) that the library takes, or omit --library") from error
    ours, theirs = time_in_rounds(prepared.gpu, (prepared.run, peer.run), iterations)
    ratios = [other / own for own, other in zip(ours.p50_us, theirs.p50_us, strict=True)]
    ratio = theirs.timing.p50_us / ours.timing.p50_us
    extremes = min(ratios), max(ratios)
    return ours.timing, Against(
        peer.library, peer.version, theirs.timing, ratio, *extremes, fraction=None, max_abs_difference=peer.difference()
    )


def device_copy(prepared: Prepared) -> Peer:
    """The driver's copy within device memory of as many bytes: half of them read, half written."""
    gpu, case = prepared.gpu, prepared.case
    half = max(int(case.bytes) // 2, 1)
    pointers: dict[bool, int] = {}  # whether it is an output -> the first such array that is large enough
    for array, pointer in zip(case.spec.arrays, prepared.pointers, strict=True):
        if case.nbytes(array) >= half:
            pointers.setdefault(array.output, pointer)
    source, target = pointers.get(False) or gpu.allocate(half), pointers.get(True) or gpu.allocate(half)
    run = functools.partial(gpu.copy, target, source, half)
    return Peer("device-to-device copy", f"driver {gpu.facts.driver}", run, lambda: None)


def import_torch() -> Torch:
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


def torch_peer(name: str, prepared: Prepared) -> Peer:
    """The call for ``name``, a key of ``CALLS``, on the stream of ``prepared``."""
    torch = import_torch()
    torch.cuda.init()
    torch.cuda.set_stream(torch.cuda.ExternalStream(int(prepared.gpu.stream.handle)))
    case = prepared.case
    pairs = zip(case.spec.arrays, prepared.pointers, strict=True)
    views = [(array.output, _tensor(torch, case, array, pointer)) for array, pointer in pairs]
    ours = next(view for output, view in views if output)
    library, version, call = CALLS[name](torch, case, [view for output, view in views if not output])
    result: list[Tensor] = [None]

    def run() -> None:
        result[0] = call()

    return Peer(library, version, run, lambda: float((ours.float() - result[0].float()).abs().max().item()))


def _tensor(torch: Torch, case: Case, array: Array, pointer: int) -> Tensor:
    """The array as a tensor on the same memory. Types that the array interface does not know travel
    as integers."""
    extra, dtype = array.dtype in EXTRA, dtype_of(array.dtype)
    words = np.dtype(f"int{8 * dtype.itemsize}") if extra else dtype
    tensor = torch.as_tensor(DeviceArray(pointer, case.extent(array), words), device="cuda")
    return tensor.view(getattr(torch, array.dtype)) if extra else tensor


def _matmul(torch: Torch, case: Case, inputs: list[Tensor]) -> Call:
    """``a @ b`` by cuBLAS. The result has the inputs' type, and a place of its own, so that nothing
    is allocated."""
    a, b = inputs
    torch.set_float32_matmul_precision("highest")  # no TF32 where the kernel computes in fp32
    out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device="cuda")
    return "cuBLAS (torch.matmul)", _cublas_version(torch), lambda: torch.matmul(a, b, out=out)


def _scaled_matmul(torch: Torch, case: Case, inputs: list[Tensor]) -> Call:
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

    def multiply() -> Tensor:
        return torch._scaled_mm(a, b.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)

    return "cuBLASLt (torch._scaled_mm)", _cublas_version(torch), multiply


def _softmax(torch: Torch, case: Case, inputs: list[Tensor]) -> Call:
    """Softmax along the last axis, by PyTorch's own kernel."""
    (x,) = inputs
    out = torch.empty_like(x)
    return "torch.softmax", f"torch {torch.__version__}", lambda: torch.softmax(x, dim=-1, out=out)


def _sdpa(torch: Torch, case: Case, inputs: list[Tensor]) -> Call:
    """Attention forward by cuDNN, and by nothing else: the other backends are switched off.

    The call has no ``out``; after the warm-up its result comes from PyTorch's allocator without a
    call of the driver.
    """
    backends = torch.backends.cuda
    backends.enable_flash_sdp(False)
    backends.enable_mem_efficient_sdp(False)
    backends.enable_math_sdp(False)
    backends.enable_cudnn_sdp(True)
    causal = case.parameters.get("causal", 0) not in (0, "0", "no")
    grouped = {"enable_gqa": True} if case.parameters.get("group", 1) != 1 else {}
    attend = functools.partial(torch.nn.functional.scaled_dot_product_attention, *inputs, is_causal=causal, **grouped)
    number = int(torch.backends.cudnn.version() or 0)  # 91002 is 9.10.2
    version = f"cuDNN {number // 10000}.{number // 100 % 100}.{number % 100}, torch {torch.__version__}"
    return "cuDNN (torch scaled_dot_product_attention)", version, attend


def _cublas_version(torch: Torch) -> str:
    """Versions of the cuBLAS that PyTorch has loaded, and of PyTorch."""
    number = "(unknown version)"
    for name in CUBLAS:
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
        except OSError:
            continue
        parts = [ctypes.c_int() for _ in VERSION_PARTS]
        for part, value in zip(VERSION_PARTS, parts, strict=True):
            library.cublasGetProperty(part, ctypes.byref(value))
        number = ".".join(str(value.value) for value in parts)
        break
    return f"cuBLAS {number}, torch {torch.__version__}"


CALLS: dict[str, Callable[[Torch, Case, list[Tensor]], Call]] = {
    "matmul": _matmul,
    "scaled_matmul": _scaled_matmul,
    "sdpa": _sdpa,
    "softmax": _softmax,
}
MAKERS: dict[str, Callable[[Prepared], Peer]] = {
    "copy": device_copy,
    **{name: functools.partial(torch_peer, name) for name in CALLS},
}
