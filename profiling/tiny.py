"""The smallest program that launches a kernel (``python -m …ncu.tiny``), for ``ncubble doctor``.

It needs the driver and nothing else: the kernel is PTX text that the driver compiles, called
through ctypes.
"""

from __future__ import annotations

import ctypes
import sys

from ncubble.profiling.driver import CudaDriver, DriverError

KERNEL = "ncubble_tiny"
_PTX = f"""
.version 6.3
.target sm_75
.address_size 64
.visible .entry {KERNEL}()
{{
    ret;
}}
"""
_GRID = (1, 1, 1)
_BLOCK = (32, 1, 1)


def launch() -> None:
    """Launch one empty kernel on the first visible GPU and wait for it; raises DriverError naming
    the failing call."""
    driver = CudaDriver()
    device = driver.device()
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX.encode()))
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(KERNEL.encode()))
    driver.call("cuLaunchKernel", function, *_GRID, *_BLOCK, 0, None, None, None)
    driver.call("cuCtxSynchronize")


if __name__ == "__main__":
    try:
        launch()
    except DriverError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(3)
