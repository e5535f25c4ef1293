"""Calls one function of the driver from a host callback: ``python callback_probe.py cuMemAlloc``.

Prints ``works`` or ``error NUMBER``; a deadlock is for the caller to notice. The driver is called
directly, not through a binding: both threads must be free of the interpreter's lock while they are
in it.
"""

from __future__ import annotations

import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")
pointer, stream, context = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()


def checked(code: int) -> None:
    if code:
        sys.exit(f"error {code} before the callback")


checked(cuda.cuInit(0))
checked(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
checked(cuda.cuCtxSetCurrent(context))
checked(cuda.cuStreamCreate(ctypes.byref(stream), 1))
CALLS = {
    "cuMemAlloc": lambda: cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)),
    "cuStreamSynchronize": lambda: cuda.cuStreamSynchronize(stream),
    "cuStreamQuery": lambda: cuda.cuStreamQuery(stream),
    "cuCtxSynchronize": lambda: cuda.cuCtxSynchronize(),
    # A memset stands for any work that the callback queues.
    "cuLaunchKernel": lambda: cuda.cuMemsetD8Async(pointer, 0, ctypes.c_size_t(4), stream),
}
chosen = CALLS[sys.argv[1]]
if sys.argv[1] == "cuLaunchKernel":
    checked(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4)))


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def callback(_: int | None) -> None:
    cuda.cuCtxSetCurrent(context)  # the driver's thread has none
    code = chosen()
    os.write(1, (f"error {code}" if code else "works").encode() + b"\n")


checked(cuda.cuLaunchHostFunc(stream, callback, None))
cuda.cuStreamSynchronize(stream)
os._exit(0)
