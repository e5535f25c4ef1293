"""A GPU made of host memory: it "runs" a kernel by computing the reference, so that all around it
can be tested."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ncubble.kernels.run.device import DeviceFacts
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import dtype_of

H200 = DeviceFacts("Fake H200", (9, 0), "580.00", 132, 232448, 1024, "0000:00:00.0")


class FakeEvent:
    """Happens at a time; later - earlier is in milliseconds, as with real events."""

    def __init__(self, at_ms: float) -> None:
        self.at_ms = at_ms

    def __sub__(self, earlier: FakeEvent) -> float:
        return self.at_ms - earlier.at_ms


class FakeGpu:
    """Stands in for ``kernels.run.device.Gpu``. ``spoil`` may damage the outputs after a launch."""

    arch = "sm_90a"

    def __init__(self, spoil: Callable[[dict[str, np.ndarray], FakeGpu], None] | None = None) -> None:
        self.facts = H200
        self.memory: dict[int, np.ndarray] = {}
        self.log: list[str] = []
        self.spoil = spoil
        self.closed = False
        self._now_ms = 0.0

    def allocate(self, nbytes: int) -> int:
        pointer = max(self.memory, default=0) + 4096
        self.memory[pointer] = np.zeros(nbytes, dtype=np.uint8)
        return pointer

    def upload(self, pointer: int, array: np.ndarray) -> None:
        self.log.append("upload")
        self.memory[pointer][: array.nbytes] = array.reshape(-1).view(np.uint8)

    def download(self, pointer: int, array: np.ndarray) -> None:
        self.log.append("download")
        array.reshape(-1).view(np.uint8)[:] = self.memory[pointer][: array.nbytes]

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        self.log.append("fill")
        self.memory[pointer][:nbytes] = byte

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.log.append("copy")
        self._now_ms += 0.5

    def sync(self) -> None:
        self.log.append("sync")

    def load(self, cubin: bytes, case: Case) -> str:
        assert cubin[:4] == b"\x7fELF"
        return case.spec.entry

    def tensor_map(
        self, pointer: int, extent: tuple[int, ...], dtype: str, box: tuple[int, ...], swizzle: int
    ) -> tuple[Any, ...]:
        return pointer, extent, dtype, box, swizzle

    def launch(self, kernel: Any, case: Case, maps: tuple[Any, ...], pointers: tuple[int, ...]) -> None:
        assert len(maps) == len(case.tensor_maps)
        assert kernel == case.spec.entry
        self.log.append("launch")
        self._now_ms += 1.0
        views = {
            array.name: self.memory[pointer][: case.nbytes(array)]
            .view(dtype_of(array.dtype))
            .reshape(case.extent(array))
            for array, pointer in zip(case.spec.arrays, pointers, strict=True)
        }
        lead = case.spec.row_dims
        rows = np.arange(math.prod(case.extent(case.spec.outputs[0])[:lead]))
        for name, result in case.reference(views, rows).items():
            views[name].reshape(-1, *views[name].shape[lead:])[:] = result
        if self.spoil is not None:
            self.spoil(views, self)

    def event(self) -> FakeEvent:
        return FakeEvent(self._now_ms)

    def clocks(self) -> dict[str, int]:
        return {"sm_mhz": 1700, "max_sm_mhz": 1980}

    @property
    def allocated(self) -> tuple[int, ...]:
        return tuple(self.memory)

    def free(self, *pointers: int) -> None:
        self.log.append("free")
        for pointer in pointers or tuple(self.memory):
            del self.memory[pointer]

    def close(self) -> None:
        self.closed = True
