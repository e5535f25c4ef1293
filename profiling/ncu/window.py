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

    It goes for this process only, not for its children. Outside of a profiler it does nothing.
    Where no context is current yet, the calls are made in the first visible GPU's primary context.
    Raises DriverError where it cannot be opened.
    """
    driver = CudaDriver()
    with _context(driver):
        driver.call("cuProfilerStart")
    try:
        yield
    finally:
        # After a failed kernel every call fails: what the block raised says more.
        with suppress(DriverError), _context(driver):
            driver.call("cuProfilerStop")


@contextmanager
def _context(driver: CudaDriver) -> Iterator[None]:
    """A current context: the one that is, or the primary one, which stays alive for who comes
    after."""
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
