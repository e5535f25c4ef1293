"""The GPU as its driver describes it, and the window in which a profiler measures, through libcuda
alone, so that both work without any Python package for GPUs.
"""

from __future__ import annotations

import ctypes
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ncubble.chips import Version
from ncubble.profiling.failures import NoGpuError

_CAPABILITY_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
_CAPABILITY_MINOR = 76
_PROC_VERSION = Path("/proc/driver/nvidia/version")


class DriverError(Exception):
    """A call to the CUDA driver failed, or there is no driver."""


@dataclass(frozen=True)
class Device:
    """The first visible GPU. ``driver`` is the kernel module's version (580.82.07), ``cuda`` the
    newest it runs.

    ``uuid`` identifies the GPU, as in ``nvidia-smi -L``; empty if the driver does not report it.
    """

    name: str
    capability: Version
    driver: str
    cuda: Version
    uuid: str = ""

    def as_facts(self) -> dict[str, str]:
        """As the manifest's ``device``."""
        facts = {"name": self.name, "compute_capability": str(self.capability), "driver": self.driver}
        return {**facts, "uuid": self.uuid} if self.uuid else facts


class CudaDriver:
    """libcuda, initialized. Raises DriverError if it is missing or finds no GPU."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise DriverError(f"no NVIDIA driver ({error})") from error
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        """Call one driver function; raises DriverError with the driver's name of the error."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            raise DriverError(f"{name}: {text.value.decode() if text.value else f'error {status}'}")

    def count(self) -> int:
        """How many GPUs are visible."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def device(self, ordinal: int = 0) -> ctypes.c_int:
        """Handle of a visible GPU."""
        if ordinal >= self.count():
            raise DriverError("the driver sees no GPU (is CUDA_VISIBLE_DEVICES empty?)")
        handle = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(handle), ordinal)
        return handle

    def describe(self) -> Device:
        """Name, compute capability and versions of the first visible GPU."""
        handle, name, version = self.device(), ctypes.create_string_buffer(256), ctypes.c_int()
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetName", name, len(name), handle)
        self.call("cuDeviceGetAttribute", ctypes.byref(major), _CAPABILITY_MAJOR, handle)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), _CAPABILITY_MINOR, handle)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return Device(
            name=name.value.decode(errors="replace"),
            capability=Version(major.value, minor.value),
            driver=_module_version(),
            cuda=Version(version.value // 1000, version.value % 1000 // 10),
            uuid=self._uuid(handle),
        )

    def uuid(self, handle: ctypes.c_int, function: str = "cuDeviceGetUuid") -> str:
        """``GPU-…``, as ``nvidia-smi -L`` shows it."""
        raw = (ctypes.c_ubyte * 16)()
        self.call(function, ctypes.byref(raw), handle)
        return f"GPU-{uuid.UUID(bytes=bytes(raw))}"

    def _uuid(self, handle: ctypes.c_int) -> str:
        try:
            return self.uuid(handle, "cuDeviceGetUuid_v2")
        except (DriverError, AttributeError):  # drivers before CUDA 11.4
            return ""


def describe() -> Device:
    """The first visible GPU; raises DriverError."""
    return CudaDriver().describe()


def require_gpu() -> Device:
    """The same, where nothing can be done without one; raises NoGpuError."""
    try:
        return describe()
    except DriverError as error:
        raise NoGpuError(str(error)) from error


def visible_uuids() -> list[str]:
    """``GPU-…`` of every visible GPU in the driver's order; raises DriverError. CUDA is initialized
    in this process."""
    driver = CudaDriver()
    return [driver.uuid(driver.device(ordinal)) for ordinal in range(driver.count())]


def _module_version() -> str:
    try:
        match = re.search(r"Kernel Module.*?\s(\d+\.\d+[\d.]*)", _PROC_VERSION.read_text())
    except OSError:
        return ""
    return match[1] if match else ""


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
