"""Replays a capsule: ``python -m ncubble.profiling.capsules.replay CAPSULE PLAN.json``.

It runs in a separate process, because a faulting launch ends all CUDA work of its process, and a
hanging one must be killed. Memory is mapped at the program's addresses, so that arguments, tensor
maps and pointers stay valid. Before each launch all memory is restored.

PLAN: ``{"launches": [{"name": …, "cubin": PATH, "compare": bool}, …]}``. Each launch prints
``{"starts": NAME}`` and then one line of JSON: ``name``, ``status`` (``ok`` or the driver's name of
the error), ``same`` (whether the memory afterwards is the program's,
bit by bit; null where it was not compared). Ends with 0, after an error of a launch with 3, and
with 4 where the addresses are taken in this process (they may be free in the next).

With ``"timed": true`` the first line is ``{"overhead_ns": …}``, the time of the stamp kernel, and
each launch tells its time (``ns``), the SM clock during it (``mhz``, or null), and whether it was
queued ``late``. Nothing of it needs counters.

A timed launch is queued behind clears of L2, which last longer than the host takes to queue it:
it starts with cold caches, as under ncu, and without the host's gap before it. Right before the
first event and behind the second, every SM stores its clock and ``%globaltimer``; both differences
make the mean SM clock over the launch.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from pathlib import Path
from statistics import median
from typing import Any

from ncubble.profiling.capsules.capsule import Capsule, Region
from ncubble.profiling.driver import CudaDriver, DriverError

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


FAULTED, TAKEN = 3, 4
_GRANULE = 2 << 20  # of memory that is mapped at a given address
_ROOMS = (2 << 20, 32 << 20, 512 << 20)
"""Alignments of the reserved range: the driver hands out some addresses only in larger pieces."""
_DYNAMIC_SHARED, _CARVEOUT, _NON_PORTABLE_CLUSTER = 8, 9, 14  # CUfunction_attribute
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID


class AddressTakenError(Exception):
    """An address of the program is already in use here."""


class _Allocation(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("place", c_int),
        ("device", c_int),
        ("metadata", c_void_p),
        ("flags", c_ubyte * 8),
    )


class _Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = (("place", c_int), ("device", c_int), ("flags", c_int))


class _Attribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = (("id", c_int), ("padding", c_int), ("value", c_uint * 16))


class _Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", c_uint),
    )


class Replayer:
    """A GPU with the memory of a capsule, and a stopwatch if launches are ``timed``."""

    def __init__(self, capsule: Capsule, timed: bool = False) -> None:
        self.capsule = capsule
        self.driver = CudaDriver()
        self.call = self.driver.call
        self.ordinal = self.driver.device(0)
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), self.ordinal)
        self.call("cuCtxSetCurrent", context)
        reserved: list[tuple[int, int]] = []
        for start, size in _spans(capsule.regions):
            if not any(first <= start and start + size <= last for first, last in reserved):
                reserved.append(self._reserve(start, start + size))
            self._map(start, size)
        self.stopwatch = Stopwatch(self.driver, self.ordinal) if timed else None
        self.kept = self._keep()
        self.modules: dict[str, c_void_p] = {}

    def _reserve(self, start: int, stop: int) -> tuple[int, int]:
        """First and last address of the range reserved around ``start`` to ``stop``."""
        for room in _ROOMS:
            first, size = start // room * room, -(-stop // room) * room - start // room * room
            address = c_uint64()
            self.call("cuMemAddressReserve", byref(address), c_size_t(size), c_size_t(0), c_uint64(first), c_uint64(0))
            if address.value == first:
                return first, first + size
            self.call("cuMemAddressFree", address, c_size_t(size))
        raise AddressTakenError(f"{start:#x} is in use")

    def _map(self, start: int, size: int) -> None:
        address, handle = c_uint64(start), c_uint64()
        place = _Allocation(type=1, place=1, device=self.ordinal.value)
        self.call("cuMemCreate", byref(handle), c_size_t(size), byref(place), c_uint64(0))
        self.call("cuMemMap", address, c_size_t(size), c_size_t(0), handle, c_uint64(0))
        access = _Access(1, self.ordinal.value, 3)
        self.call("cuMemSetAccess", address, c_size_t(size), byref(access), c_size_t(1))

    def _keep(self) -> dict[int, int]:
        """GPU addresses of a second copy of each region; regions without room are read from their
        files each time."""
        kept: dict[int, int] = {}
        for region in self.capsule.regions:
            self._upload(region.base, region)
            copy = c_uint64()
            try:
                self.call("cuMemAlloc_v2", byref(copy), c_size_t(region.size))
            except DriverError:
                continue
            self.call("cuMemcpyDtoD_v2", copy, c_uint64(region.base), c_size_t(region.size))
            kept[region.base] = copy.value
        return kept

    def _upload(self, address: int, region: Region) -> None:
        data = self.capsule.before(region).read_bytes()
        self.call("cuMemcpyHtoD_v2", c_uint64(address), data, c_size_t(region.size))

    def restore(self) -> None:
        """Restore all memory to its state before the launch."""
        for region in self.capsule.regions:
            if copy := self.kept.get(region.base):
                self.call("cuMemcpyDtoD_v2", c_uint64(region.base), c_uint64(copy), c_size_t(region.size))
            else:
                self._upload(region.base, region)
        self.call("cuCtxSynchronize")

    def function(self, cubin: str) -> c_void_p:
        """The function of a variant's cubin, with the attributes and global variables of the
        program's."""
        module, function = self.modules.get(cubin), c_void_p()
        if module is None:
            module = self.modules[cubin] = c_void_p()
            self.call("cuModuleLoadData", byref(module), Path(cubin).read_bytes())
        self.call("cuModuleGetFunction", byref(function), module, self.capsule.function.encode())
        known, facts = self.capsule.facts["attributes"], self.capsule.facts
        shared = max(int(known["dynamic_shared"]), int(facts["shared"]))
        for attribute, value in (
            (_DYNAMIC_SHARED, shared),
            (_CARVEOUT, known["carveout"]),
            (_NON_PORTABLE_CLUSTER, known["non_portable_cluster"]),
        ):
            if value > 0:
                self.call("cuFuncSetAttribute", function, c_int(attribute), c_int(value))
        self.call("cuFuncSetCacheConfig", function, c_int(int(known["cache"])))
        self._set_globals(module)
        return function

    def _set_globals(self, module: c_void_p) -> None:
        data, at = (self.capsule.folder / "globals.bin").read_bytes(), 0
        for variable in self.capsule.facts["globals"]:
            address, size = c_uint64(), c_size_t()
            self.call("cuModuleGetGlobal_v2", byref(address), byref(size), module, variable["name"].encode())
            self.call("cuMemcpyHtoD_v2", address, data[at : at + size.value], size)
            at += int(variable["size"])

    def launch(self, cubin: str) -> dict[str, object]:
        """Launch the code in ``cubin`` on restored memory and wait for it; returns the stopwatch's
        reading. Raises DriverError on failure."""
        function = self.function(cubin)
        self.restore()
        if self.stopwatch is None:
            self._queue(function)
            self.call("cuCtxSynchronize")
            return {}
        ns, mhz, late = self.stopwatch.time(lambda: self._queue(function))
        return {"ns": ns, "mhz": mhz, "late": late}

    def _queue(self, function: c_void_p) -> None:
        facts = self.capsule.facts
        attributes = (_Attribute * 2)()
        count = 0
        if any(facts["cluster"]):
            attributes[0].id, count = _CLUSTER, 1
            attributes[0].value[0:3] = facts["cluster"]
        if facts["cooperative"]:
            attributes[count].id, attributes[count].value[0] = _COOPERATIVE, 1
            count += 1
        config = _Config((c_uint * 3)(*facts["grid"]), (c_uint * 3)(*facts["block"]), facts["shared"], None)
        config.attributes, config.count = attributes, count
        data = (self.capsule.folder / "parameters.bin").read_bytes()
        buffer, size = ctypes.create_string_buffer(data, max(1, len(data))), c_size_t(len(data))
        extra = (c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
        self.call("cuLaunchKernelEx", byref(config), function, None, extra)

    def same(self) -> bool:
        """Whether all memory equals that after the program's own launch."""
        for region in self.capsule.regions:
            now = bytearray(region.size)
            place = (c_ubyte * region.size).from_buffer(now)
            self.call("cuMemcpyDtoH_v2", place, c_uint64(region.base), c_size_t(region.size))
            expected = bytearray(self.capsule.before(region).read_bytes())
            for offset, page in self.capsule.changes(region):
                expected[offset : offset + len(page)] = page
            if now != expected:
                return False
        return True


def _spans(regions: list[Region]) -> list[tuple[int, int]]:
    """Start and size of what must be mapped: whole granules, each once."""
    spans: list[list[int]] = []
    for region in sorted(regions, key=lambda region: region.base):
        start = region.base // _GRANULE * _GRANULE
        stop = -(-(region.base + region.size) // _GRANULE) * _GRANULE
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(stop, spans[-1][1])
        else:
            spans.append([start, stop])
    return [(start, stop - start) for start, stop in spans]


def replay(capsule: Capsule, plan: dict[str, Any]) -> int:
    """Launch all of ``plan``; the exit status."""
    _tell_facts(capsule)
    try:
        replayer = Replayer(capsule, bool(plan.get("timed")))
    except AddressTakenError as error:
        sys.stderr.write(f"{error}\n")
        return TAKEN
    if replayer.stopwatch is not None:
        _say({"overhead_ns": replayer.stopwatch.overhead_ns})
    for entry in plan["launches"]:
        line: dict[str, object] = {"name": entry["name"], "status": "ok", "same": None}
        _say({"starts": entry["name"]})
        try:
            line |= replayer.launch(entry["cubin"])
            line["same"] = replayer.same() if entry.get("compare") else None
        except DriverError as error:
            line["status"] = str(error).rpartition(": ")[2]
        _say(line)
        if line["status"] != "ok":
            return FAULTED
    return 0


def _say(row: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def _tell_facts(capsule: Capsule) -> None:
    """Pass the program's facts file on to a profiler of the replay."""
    facts, wanted = capsule.folder.parent / "facts.json", os.environ.get("NCUBBLE_FACTS")
    if wanted and facts.is_file():
        Path(wanted).write_bytes(facts.read_bytes())


if __name__ == "__main__":
    sys.exit(replay(Capsule.load(Path(sys.argv[1])), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
