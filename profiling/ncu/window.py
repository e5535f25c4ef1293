"""The window in which ncu measures: launches before and after it run unmeasured
(``ncu.Filters.window``)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ncubble.profiling.devices.driver import CudaDriver, DriverError


@contextmanager
def measured() -> Iterator[None]:
    """Launches inside the block are profiled, by ``cuProfilerStart`` and ``cuProfilerStop``.

    It applies only to this process, not to its children, and does nothing without a profiler. If no
    context is current, the first visible GPU's primary context is used. Raises DriverError if it
    cannot be opened.
    """
    driver = CudaDriver()
    with _context(driver):
        driver.call("cuProfilerStart")
    try:
        yield
    finally:
        # After a failed kernel every call fails: the block's own exception is more useful.
        with suppress(DriverError), _context(driver):
            driver.call("cuProfilerStop")


@contextmanager
def _context(driver: CudaDriver) -> Iterator[None]:
    """The current context, or the primary one, which stays alive for later users."""
    current = ctypes.c_void_p()
    driver.call("cuCtxGetCurrent", ctypes.byref(current))
    if current:
        yield
        return
    primary, popped = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(primary), driver.device())
    driver.call("cuCtxPushCurrent_v2", primary)
    try:
        yield
    finally:
        driver.call("cuCtxPopCurrent_v2", ctypes.byref(popped))
