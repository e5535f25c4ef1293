"""What measurements share: a device, the probes of this folder on it, and times."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import MeasurementError
from ncubble.kernels.build import HEADERS, cache_folder, compiler_version, find_tool, run_tool, source_files
from ncubble.kernels.host.driver import HostDriver
from ncubble.kernels.run.device import Gpu, call_driver

FOLDER = Path(__file__).resolve().parent
PROBES = (
    "wait_groups.cu",
    "overlap.cu",
    "latency.cu",
    "layouts.cu",
    "contention.cu",
    "strided_copies.cu",
    "seed_copies.cu",
    "cluster_sync.cu",
    "spin.cu",
)
MIB = 2**20
STATIC_SMEM_LIMIT = 48 * 1024  # bytes; a kernel that wants more must opt in
STAMP = np.dtype([("start", "u8"), ("end", "u8"), ("sm", "u4"), ("unused", "u4")])  # Stamp in spin.cu


class Lab:
    """A device for one measurement: probes, streams and memory, all given back at the end."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.driver = gpu, HostDriver(gpu)

    @property
    def sms(self) -> int:
        """Streaming multiprocessors of the device."""
        return self.gpu.facts.sm_count

    def kernel(self, source: str, name: str, smem: int = 0) -> Any:
        """The kernel ``name`` of a file of this folder, allowed ``smem`` bytes of dynamic shared
        memory."""
        from cuda.bindings import driver
        from cuda.core import Device, ObjectCode

        kernel = ObjectCode.from_cubin(compiled(source, self.gpu.arch)).get_kernel(name)
        if smem > STATIC_SMEM_LIMIT:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call_driver("cuKernelSetAttribute", attribute, smem, kernel.handle, Device().device_id)
        return kernel

    def launch(
        self,
        kernel: Any,
        grid: int,
        block: int,
        *arguments: Any,
        stream: Any = None,
        smem: int = 0,
        cluster: int = 1,
    ) -> None:
        """Queues a launch; with ``cluster``, ``grid`` counts CTAs all the same."""
        from cuda.core import LaunchConfig, launch

        options = {"cluster": cluster} if cluster > 1 else {}
        config = LaunchConfig(grid=grid // cluster, block=block, shmem_size=smem, **options)
        launch(self.gpu.stream if stream is None else stream, config, kernel, *arguments)

    def streams(self, count: int, kind: str = "nonblocking") -> list[Any]:
        """Streams that wait for the legacy default stream (``blocking``), or do not."""
        return self.driver.lanes(kind, count)

    def filled(self, nbytes: int, byte: int) -> int:
        """Device memory with every byte set."""
        pointer = self.gpu.allocate(nbytes)
        self.gpu.fill(pointer, byte, nbytes)
        self.gpu.sync()
        return pointer

    def read(self, pointer: int, count: int, dtype: Any) -> NDArray[Any]:
        """``count`` elements of device memory, after all work of the main stream."""
        found = np.empty(count, dtype)
        self.gpu.download(pointer, found)
        return found

    def flush(self) -> None:
        """Fills L2 with something else."""
        size = 4 * self.gpu.facts.l2_bytes
        self.gpu.fill(self._sweeper(size), 0, size)
        self.gpu.sync()

    @functools.cache  # noqa: B019 - lives as long as the measurement
    def _sweeper(self, size: int) -> int:
        return self.gpu.allocate(size)

    def milliseconds(self, run: Callable[[], None], repeats: int = 5) -> float:
        """Median time of ``run`` between two events of the main stream."""
        spans = []
        run()
        for _ in range(repeats):
            start = self.gpu.event()
            run()
            end = self.gpu.event()
            self.gpu.sync()
            spans.append(end - start)
        return float(statistics.median(spans))


@contextlib.contextmanager
def lab() -> Iterator[Lab]:
    """A device until the end of the block."""
    gpu = Gpu.open()
    try:
        yield Lab(gpu)
    finally:
        with contextlib.suppress(Exception):
            call_driver("cuCtxSynchronize")
        gpu.close()


@functools.cache
def compiled(source: str, arch: str) -> bytes:
    """The cubin of a file of this folder, kept beside those of the catalog."""
    flags = ["-O3", "-std=c++17", f"-arch={arch}", f"-I{HEADERS}"]
    digest = hashlib.sha256(" ".join([compiler_version(find_tool("nvcc")), *flags]).encode())
    for path in source_files(FOLDER / source):
        digest.update(path.read_bytes() + b"\0")
    kept = cache_folder() / f"claims-{digest.hexdigest()}.cubin"
    if not kept.is_file():
        made = _compile(source, flags)
        kept.parent.mkdir(parents=True, exist_ok=True)
        whole = kept.with_suffix(f".{os.getpid()}")
        whole.write_bytes(made)
        whole.replace(kept)
    return kept.read_bytes()


def _compile(source: str, flags: list[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="ncubble-claims-") as folder:
        target = Path(folder) / "probe.cubin"
        done = run_tool([find_tool("nvcc"), *flags, "-cubin", "-o", target, FOLDER / source])
        if done.returncode:
            raise MeasurementError(f"nvcc could not compile {source}: {done.stderr.strip()}", "fix the probe")
        return target.read_bytes()


def compile_all(arch: str) -> None:
    """Compiles every probe of this folder, side by side."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda source: compiled(source, arch), PROBES))


class Spins:
    """Launches of ``spin``, each with stamps of when and where its CTAs ran."""

    def __init__(self, bench: Lab, smem: int = 0) -> None:
        self._lab, self._kernel = bench, bench.kernel("spin.cu", "spin", smem)
        self._launched: list[tuple[int, int]] = []
        bench.launch(self._kernel, 1, 32, np.int64(0), 0)  # loads the code: the first launch of all is slow
        bench.gpu.sync()

    def start(self, stream: Any, ms: float, grid: int = 1, block: int = 32, smem: int = 0) -> int:
        """Queues a spin and returns its number, which ``stamps`` takes."""
        if len(self._launched) >= len(self._room):
            raise RuntimeError("no room is reserved")
        pointer = self._room[len(self._launched)]
        self._lab.launch(self._kernel, grid, block, np.int64(int(ms * 1e6)), pointer, stream=stream, smem=smem)
        self._launched.append((pointer, grid))
        return len(self._launched) - 1

    def reserve(self, count: int, grid: int = 1) -> Spins:
        """Memory for the stamps of ``count`` launches of up to ``grid`` CTAs: allocating later
        would disturb."""
        self._room = [self._lab.gpu.allocate(grid * STAMP.itemsize) for _ in range(count)]
        return self

    def stamps(self, number: int) -> NDArray[Any]:
        """Start, end (ns) and SM of every CTA, after the whole device has come to rest."""
        call_driver("cuCtxSynchronize")
        pointer, grid = self._launched[number]
        return self._lab.read(pointer, grid, STAMP)

    def span(self, number: int) -> tuple[float, float]:
        """First start and last end in ms."""
        found = self.stamps(number)
        return float(found["start"].min()) / 1e6, float(found["end"].max()) / 1e6

    _room: Sequence[int] = ()


def shared_ms(first: tuple[float, float], second: tuple[float, float]) -> float:
    """How long two spans overlap; 0 if they do not."""
    return max(0.0, min(first[1], second[1]) - max(first[0], second[0]))


def call_us(call: Callable[[], Any]) -> float:
    """Microseconds that the CPU is in ``call``."""
    start = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - start)


def median_us(call: Callable[[], Any], repeats: int = 9) -> float:
    """Median of several calls."""
    return float(statistics.median(call_us(call) for _ in range(repeats)))
