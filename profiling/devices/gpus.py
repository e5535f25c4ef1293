"""The GPUs that are visible to this process, as CUDA_VISIBLE_DEVICES names them."""

from __future__ import annotations

import ctypes
import uuid

from ncubble.profiling.devices.driver import CudaDriver


def visible_uuids() -> list[str]:
    """``GPU-…`` of every visible GPU in the driver's order; raises DriverError. CUDA is initialized in this process."""
    driver, count = CudaDriver(), ctypes.c_int()
    driver.call("cuDeviceGetCount", ctypes.byref(count))
    found: list[str] = []
    for ordinal in range(count.value):
        handle, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        driver.call("cuDeviceGet", ctypes.byref(handle), ordinal)
        driver.call("cuDeviceGetUuid", ctypes.byref(raw), handle)
        found.append(f"GPU-{uuid.UUID(bytes=bytes(raw))}")
    return found
