"""Times launches by driver events, and measures the SM clock. Needs no counters.

A launch is queued behind clears of L2, which last longer than the host takes to queue it: it starts
with cold caches, as under ncu, and without the host's gap before it. Right before the first event
and behind the second, every SM stores its clock and ``%globaltimer``; both differences make the
mean SM clock over the launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from statistics import median

from ncubble.profiling.devices.driver import CudaDriver, DriverError

CLEARS, L2_TIMES = 4, 4
"""Bytes set to clear L2 before a launch, in multiples of its size."""
EMPTY_LAUNCHES = 5
STAMP = "ncubble_stamp"
MOST_SMS = 1024
STAMP_PTX = f"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry {STAMP}(.param .u64 stamps)
{{
    .reg .pred %unknown;
    .reg .b32 %sm;
    .reg .b64 %place, %offset, %cycles, %nanos;
    ld.param.u64 %place, [stamps];
    mov.u32 %sm, %smid;
    setp.ge.u32 %unknown, %sm, {MOST_SMS};
    @%unknown ret;
    mul.wide.u32 %offset, %sm, 16;
    add.u64 %place, %place, %offset;
    mov.u64 %cycles, %clock64;
    mov.u64 %nanos, %globaltimer;
    st.global.u64 [%place], %cycles;
    st.global.u64 [%place+8], %nanos;
    ret;
}}
"""
_SM_COUNT, _L2_SIZE = 16, 38  # CUdevice_attribute
_STAMPS_B = 16 * MOST_SMS
_CTAS_OF_SM = 4
_CLOCKS_MHZ = (50.0, 5000.0)
"""Clocks outside this range are not trusted."""


class Stopwatch:
    """Times launches of the current context. ``overhead_ns``: what the stamp kernel, a few
    stores on each SM, takes by the same clock. Raises DriverError."""

    def __init__(self, driver: CudaDriver, device: c_int) -> None:
        self.call = driver.call
        self.sms = self._attribute(_SM_COUNT, device)
        self.size = max(self._attribute(_L2_SIZE, device) * L2_TIMES, 64 << 20)
        self.cleared, self.stamps = self._memory(self.size), self._memory(2 * _STAMPS_B)
        module, self.stamp = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), ctypes.c_char_p(STAMP_PTX.encode()))
        self.call("cuModuleGetFunction", byref(self.stamp), module, STAMP.encode())
        self.start, self.end = self._event(), self._event()
        self.overhead_ns = min(self.time(lambda: self._stamp(0))[0] for _ in range(EMPTY_LAUNCHES))

    def _attribute(self, which: int, device: c_int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), c_int(which), device)
        return value.value

    def _memory(self, size: int) -> c_uint64:
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address

    def _event(self) -> c_void_p:
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def _stamp(self, half: int) -> None:
        address = c_uint64(self.stamps.value + half * _STAMPS_B)
        arguments = (c_void_p * 1)(ctypes.addressof(address))
        grid = (self.sms * _CTAS_OF_SM, 1, 1)
        self.call("cuLaunchKernel", self.stamp, *grid, 32, 1, 1, 0, None, arguments, None)

    def time(self, queue: Callable[[], None]) -> tuple[float, float | None, bool]:
        """Time in ns of what ``queue`` queues, the mean SM clock during it in MHz (None if no SM
        reported it), and whether the GPU ran out of work before the host had queued it."""
        self.call("cuMemsetD8Async", self.stamps, c_ubyte(0), c_size_t(2 * _STAMPS_B), None)
        for _ in range(CLEARS):
            self.call("cuMemsetD8Async", self.cleared, c_ubyte(0), c_size_t(self.size), None)
        self._stamp(0)
        self.call("cuEventRecord", self.start, None)
        queue()
        late = self._over(self.start)
        self.call("cuEventRecord", self.end, None)
        self._stamp(1)
        self.call("cuCtxSynchronize")
        ms = c_float()
        self.call("cuEventElapsedTime", byref(ms), self.start, self.end)
        return ms.value * 1e6, self._clock(), late

    def _over(self, event: c_void_p) -> bool:
        try:
            self.call("cuEventQuery", event)
        except DriverError:  # it is not
            return False
        return True

    def _clock(self) -> float | None:
        words = (c_uint64 * (2 * _STAMPS_B // 8))()
        self.call("cuMemcpyDtoH_v2", words, self.stamps, c_size_t(2 * _STAMPS_B))
        return mean_clock(list(words))


def mean_clock(words: list[int]) -> float | None:
    """MHz by the stamps before and after (clock and ns of each SM): the median over the SMs that
    have both; None if none has, or the value is impossible."""
    half = len(words) // 2
    before, after = words[:half], words[half:]
    clocks = [
        1e3 * (after[at] - before[at]) / (after[at + 1] - before[at + 1])
        for at in range(0, half, 2)
        if before[at + 1] and after[at + 1] > before[at + 1] and after[at] > before[at]
    ]
    mhz = median(clocks) if clocks else 0.0
    return mhz if _CLOCKS_MHZ[0] <= mhz <= _CLOCKS_MHZ[1] else None
