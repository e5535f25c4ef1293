"""How many CTAs of a kernel fit on an SM, from what the compiler says it uses and the limits of the
chip."""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncubble.chips import Version, limits_of
from ncubble.errors import MeasurementError
from ncubble.kernels.build import arch_for
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import HostArray, dtype_of
from ncubble.text.remedies import extras_command

AFTER_A_FAULT = "an earlier fault of the kernel may show up here: run it under compute-sanitizer"
Device = Any  # cuda.core.Device; its classes have no types
Event = Any  # cuda.core.Event
Kernel = Any  # cuda.core.Kernel, or a dispatcher of Numba
Stream = Any  # cuda.core.Stream
Descriptor = Any  # a tensor map of TMA
PORTABLE_CLUSTER = 8  # CTAs; a kernel that needs more must opt in


@dataclass(frozen=True)
class DeviceFacts:
    """What a device is. Sizes in bytes."""

    name: str
    compute_capability: tuple[int, int]
    driver: str
    sm_count: int
    smem_per_cta: int
    l2_bytes: int
    pci_bus_id: str


class DeviceArray:
    """Device memory as others see it through the CUDA array interface (version 3): row-major,
    ``extent`` elements."""

    def __init__(self, pointer: int, extent: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        self.__cuda_array_interface__ = {
            "shape": extent,
            "typestr": dtype.str,
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


class Gpu:
    """A device with its primary context current and one stream. All work goes to that stream."""

    def __init__(self, device: Device, facts: DeviceFacts) -> None:
        self._device = device
        self.facts = facts
        self.stream = device.create_stream()
        self._pointers: list[int] = []

    @classmethod
    def open(cls, ordinal: int = 0) -> Gpu:
        """The device ``ordinal``; raises MeasurementError if there is none or its software is
        missing."""
        try:
            from cuda.core import Device
        except ImportError as error:
            remedy = extras_command("gpu", "nvcc")
            raise MeasurementError(f"cuda-core cannot be imported: {error}", remedy) from error
        try:
            device = Device(ordinal)
            device.set_current()
            return cls(device, _facts(device))
        except Exception as error:  # a missing driver raises one of many exception types
            remedy = "run this on a machine with an NVIDIA GPU and driver; recorded runs can be viewed without one"
            # cuda-core names the library that is missing in a text about search paths.
            missing = type(error).__name__.startswith("DynamicLib")
            why = "no NVIDIA driver (libcuda.so.1 was not found)" if missing else str(error)
            raise MeasurementError(f"no usable NVIDIA GPU: {why}", remedy) from error

    @property
    def arch(self) -> str:
        """nvcc's name of this device's architecture."""
        return arch_for(*self.facts.compute_capability)

    def allocate(self, nbytes: int) -> int:
        """Device address of ``nbytes`` bytes, freed by ``close``; raises MeasurementError if they
        are not there."""
        free = int(call_driver("cuMemGetInfo")[0])
        if nbytes > free:
            message = f"{nbytes / 2**30:.2f} GiB of device memory are needed, but {free / 2**30:.2f} GiB are free"
            raise MeasurementError(message, "use smaller sizes (-p), or stop other programs on this GPU")
        pointer = int(call_driver("cuMemAlloc", max(nbytes, 1))[0])
        self._pointers.append(pointer)
        return pointer

    def upload(self, pointer: int, array: HostArray) -> None:
        """Copies a C-contiguous ``array`` to device memory and waits until it is there."""
        call_driver("cuMemcpyHtoD", pointer, array.ctypes.data, array.nbytes)
        call_driver("cuCtxSynchronize")

    def download(self, pointer: int, array: HostArray) -> None:
        """Fills a C-contiguous ``array`` from device memory after all work on the stream has
        ended."""
        self.sync()
        call_driver("cuMemcpyDtoH", array.ctypes.data, pointer, array.nbytes)

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        """Sets ``nbytes`` bytes, in stream order."""
        call_driver("cuMemsetD8Async", pointer, byte, nbytes, int(self.stream.handle))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies within device memory, in stream order."""
        call_driver("cuMemcpyDtoDAsync", target, source, nbytes, int(self.stream.handle))

    def sync(self) -> None:
        """Waits for the stream; raises MeasurementError if the kernel faulted."""
        try:
            self.stream.sync()
        except Exception as error:
            raise MeasurementError(
                f"the kernel failed on the GPU: {error}", "run it under compute-sanitizer"
            ) from error

    def load(self, cubin: bytes, case: Case) -> Kernel:
        """The entry point of ``cubin``, allowed to use as much dynamic shared memory as ``case``
        asks for."""
        from cuda.core import ObjectCode

        kernel = ObjectCode.from_cubin(cubin).get_kernel(case.spec.entry)
        self.allow_smem(kernel, case.smem)
        if math.prod(case.cluster) > PORTABLE_CLUSTER:
            self._set(kernel, "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        return kernel

    def allow_smem(self, kernel: Kernel, nbytes: int) -> None:
        """Lets ``kernel`` (of cuda-core) use so many bytes of dynamic shared memory.

        Above 48 KiB, static shared memory included, a kernel must opt in: cuda-core shows the
        attribute, but only the driver sets it.
        """
        if nbytes:
            self._set(kernel, "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", nbytes)

    def _set(self, kernel: Kernel, attribute: str, value: int) -> None:
        from cuda.bindings import driver

        member = getattr(driver.CUfunction_attribute, attribute)
        call_driver("cuKernelSetAttribute", member, value, kernel.handle, self._device.device_id)

    def symbol(self, kernel: Kernel, name: str) -> tuple[int, int]:
        """Device address and bytes of a global variable of the module that ``kernel`` came from."""
        library = call_driver("cuKernelGetLibrary", kernel.handle)[0]
        pointer, nbytes = call_driver("cuLibraryGetGlobal", library, name.encode())
        return int(pointer), int(nbytes)

    def tensor_map(
        self, pointer: int, extent: tuple[int, ...], dtype: str, box: tuple[int, ...], swizzle: int
    ) -> Descriptor:
        """A TMA descriptor of the row-major array at ``pointer``, as ``launch`` takes it
        (``CUtensorMap`` by value).

        ``box`` and ``extent`` in elements, outermost dimension first; ``swizzle`` in bytes. Raises
        MeasurementError.
        """
        from cuda.core._tensor_map import TensorMapL2Promotion, TensorMapSwizzle
        from cuda.core.utils import StridedMemoryView

        kind = dtype_of(dtype)
        words = np.dtype(f"u{kind.itemsize}")  # the array interface has no bfloat16
        view = StridedMemoryView.from_cuda_array_interface(DeviceArray(pointer, extent, words), -1)
        mode = TensorMapSwizzle.NONE if not swizzle else TensorMapSwizzle[f"SWIZZLE_{swizzle}B"]
        # Where rows begin within a line of 128 bytes, larger requests read lines in vain.
        whole_lines = extent[-1] * kind.itemsize % 128 == 0
        try:
            return view.as_tensor_map(
                box,
                data_type=words if kind.itemsize == 1 else kind,
                swizzle=mode,
                l2_promotion=TensorMapL2Promotion.L2_256B if whole_lines else TensorMapL2Promotion.L2_128B,
            )
        except Exception as error:  # the driver's and cuda-core's refusals share no exception type
            message = f"the driver refused a tensor map of box {box} over {dtype} {extent}: {error}"
            raise MeasurementError(message, "TMA needs 16-byte aligned rows and a box that fits the swizzle") from error

    def launch(self, kernel: Kernel, case: Case, maps: tuple[Descriptor, ...], pointers: tuple[int, ...]) -> None:
        """Queues one run of ``case``: its launches, without waiting. Arguments: ``maps``,
        ``pointers``, the scalars."""
        from cuda.core import LaunchConfig, launch

        sms = self.facts.sm_count
        grid, cluster = case.grid_on(sms), case.cluster
        clustered: dict[str, object] = {}
        if math.prod(cluster) > 1:
            # With a cluster, cuda-core's grid counts clusters.
            grid = tuple(ctas // size for ctas, size in zip(grid, cluster, strict=True))  # type: ignore[assignment]
            clustered = {"cluster": cluster}
        if case.cooperative:
            clustered["is_cooperative"] = True
        config = LaunchConfig(grid=grid, block=case.block, shmem_size=case.smem, **clustered)
        for index in range(case.launches):
            launch(self.stream, config, kernel, *maps, *pointers, *case.scalars(index, sms))

    def event(self) -> Event:
        """An event with timing, recorded now. ``later - earlier`` is in milliseconds once both have
        happened."""
        from cuda.core import EventOptions

        return self.stream.record(options=EventOptions(timing_enabled=True))

    def clocks(self) -> dict[str, int]:
        """Clocks that the driver reports at this moment, in MHz; empty without nvidia-ml-py."""
        with contextlib.suppress(Exception):
            nvml, handle = _nvml(self.facts.pci_bus_id)
            return {
                "sm_mhz": int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
                "memory_mhz": int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
                "max_sm_mhz": int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
                "max_memory_mhz": int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            }
        return {}

    @property
    def allocated(self) -> tuple[int, ...]:
        """Addresses of all memory that ``allocate`` gave and nobody freed."""
        return tuple(self._pointers)

    def free(self, *pointers: int) -> None:
        """Frees these, or all memory that ``allocate`` gave. Never raises: after a fault the driver
        frees nothing."""
        for pointer in pointers or tuple(self._pointers):
            self._pointers.remove(pointer)
            with contextlib.suppress(MeasurementError):
                call_driver("cuMemFree", pointer)

    def close(self) -> None:
        """Gives back what the GPU holds for this object. Never raises."""
        self.free()


def call_driver(name: str, *arguments: object) -> tuple[Any, ...]:
    """Results of a driver function; raises MeasurementError with the driver's name of the
    failure."""
    from cuda.bindings import driver

    status, *results = getattr(driver, name)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        short = status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
        remedy = "use smaller sizes (-p), or end other programs" if short else AFTER_A_FAULT
        raise MeasurementError(f"{name} failed: {status.name}", remedy)
    return tuple(results)


def _facts(device: Device) -> DeviceFacts:
    properties = device.properties
    major, minor = device.compute_capability
    return DeviceFacts(
        name=device.name,
        compute_capability=(int(major), int(minor)),
        driver=_driver_version(device.pci_bus_id),
        sm_count=int(properties.multiprocessor_count),
        smem_per_cta=int(properties.max_shared_memory_per_block_optin),
        l2_bytes=int(properties.l2_cache_size),
        pci_bus_id=str(device.pci_bus_id),
    )


def _driver_version(pci_bus_id: str) -> str:
    """Version of the display driver, or of the CUDA driver interface where NVML cannot be asked."""
    with contextlib.suppress(Exception):
        nvml, _ = _nvml(pci_bus_id)
        return str(nvml.nvmlSystemGetDriverVersion())
    version = int(call_driver("cuDriverGetVersion")[0])
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


@functools.cache
def _nvml(pci_bus_id: str) -> tuple[Any, Any]:
    """NVML and its handle of the device. It stays open: clocks must be read while a short burst of
    work is running."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)


WARP = 32


@dataclass(frozen=True)
class Occupancy:
    """CTAs that fit on an SM, and the percentage of its warps that they fill."""

    ctas: int
    percent: float


def occupancy(capability: tuple[int, int], threads: int, registers: int, smem: int) -> Occupancy:
    """Occupancy of a kernel with ``threads`` per CTA, ``registers`` per thread and ``smem`` bytes
    per CTA.

    Raises:
        MeasurementError: the limits of this compute capability are not known.
    """
    limits = limits_of(Version(*capability))
    warps = -(-threads // WARP)
    by_registers = limits.registers // _up(max(registers, 1) * WARP, limits.register_unit)
    by_registers = by_registers // limits.warp_unit * limits.warp_unit // warps
    by_smem = limits.smem // _up(smem + limits.reserved_smem_B, limits.smem_unit_B)
    ctas = min(limits.ctas, limits.warps // warps, by_registers, by_smem)
    return Occupancy(ctas, 100.0 * ctas * warps / limits.warps)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
