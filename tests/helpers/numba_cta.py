"""Runs a Numba-CUDA kernel on the CPU, CTA by CTA and all threads of one at once: what differs
among threads is a NumPy array with an element for each.

That takes kernels whose threads branch alike. Instructions of a warp, which Numba's simulator does
not know, work on such arrays, too: ``Cta`` has those of ``numba_mma.py``. Addresses are those of
this process. Copies arrive when they must (``late``), so that a missing wait shows; or at once, so
that a buffer which is filled too early shows. Missing barriers go unseen.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 32
Words = NDArray[np.uint32]


class Cta:
    """Takes the place of ``cuda`` in the module of a kernel, and of the instructions there."""

    def __init__(self, threads: int, smem: int, late: bool) -> None:
        self.threads, self.late = threads, late
        self._memory = np.zeros(smem + 1024, np.uint8)
        start = -self._memory.ctypes.data % 1024
        self.smem = self._memory[start : start + smem]
        self.threadIdx = SimpleNamespace(x=np.arange(threads))
        self.shared = SimpleNamespace(array=lambda shape, dtype, alignment: self.smem)
        self.local = SimpleNamespace(array=lambda shape, dtype: np.zeros((*shape, threads), str(dtype)))
        self._open: list[tuple[int, int]] = []
        self._groups: list[list[tuple[int, int]]] = []

    def launch(self, kernel: Callable[..., None], grid: tuple[int, int, int], *arguments: Any) -> None:
        """Runs the CTAs of ``grid`` one after the other."""
        self.gridDim = SimpleNamespace(**dict(zip("xyz", grid, strict=True)))
        for place in np.ndindex(*grid):
            self.blockIdx = SimpleNamespace(**dict(zip("xyz", place, strict=True)))
            self.smem[:] = 0xFF  # NaN
            kernel(*arguments)
            self.wait_for_all_but(0)()

    def syncthreads(self) -> None:
        """All threads run at once."""

    @staticmethod
    def shared_address(generic: int) -> int:
        return generic

    def copy_16(self, shared: NDArray[Any], source: NDArray[Any]) -> None:
        first = self.smem.ctypes.data
        assert (shared % 16 == 0).all() and (source % 16 == 0).all(), "not aligned"
        assert shared.min() >= first and shared.max() + 16 <= first + self.smem.size, "outside shared memory"
        assert np.unique(shared).size == self.threads, "two threads copy to one place"
        self._open += zip(shared.tolist(), source.tolist(), strict=True)
        if not self.late:
            self._arrive(self._open)
            self._open = []

    def commit(self) -> None:
        self._groups.append(self._open)
        self._open = []

    def wait_for_all_but(self, count: int) -> Callable[[], None]:
        def wait() -> None:
            while len(self._groups) > count:
                self._arrive(self._groups.pop(0))

        return wait

    @staticmethod
    def _arrive(copies: list[tuple[int, int]]) -> None:
        for shared, source in copies:
            ctypes.memmove(shared, source, 16)

    def ldmatrix(self, shared: NDArray[Any]) -> tuple[Words, ...]:
        return self._handed_out(self._matrices(shared))

    def ldmatrix_transposed(self, shared: NDArray[Any]) -> tuple[Words, ...]:
        return self._handed_out(self._matrices(shared).swapaxes(-1, -2))

    def _matrices(self, shared: NDArray[Any]) -> NDArray[np.uint16]:
        """(warps, 4, 8, 8) elements: lane 8 i + r addresses row r of matrix i."""
        offsets = shared - self.smem.ctypes.data
        assert (offsets % 16 == 0).all(), "not aligned"
        banks = np.sort(offsets.reshape(-1, 8) // 16 % 8)
        assert (banks == np.arange(8)).all(), "rows of a matrix meet in a bank"
        return self.smem.view(np.uint16)[offsets[:, None] // 2 + np.arange(8)].reshape(-1, 4, 8, 8)

    @staticmethod
    def _handed_out(matrices: NDArray[np.uint16]) -> tuple[Words, ...]:
        """Lane 4 g + q receives elements 2 q and 2 q + 1 of row g of each matrix."""
        words = np.ascontiguousarray(matrices).view(np.uint32)  # (warps, 4, 8 g, 4 q)
        return tuple(words[:, index].reshape(-1) for index in range(4))

    @staticmethod
    def mma(*registers: NDArray[Any]) -> tuple[NDArray[np.float32], ...]:
        """mma.m16n8k16 by the layout of its fragments in mma.cuh."""
        a, b, c = registers[:4], registers[4:6], registers[6:]
        halves = [np.ascontiguousarray(word).view(np.float16).reshape(-1, 8, 8) for word in (*a, *b)]
        left = np.block([[halves[0], halves[2]], [halves[1], halves[3]]]).astype(np.float32)
        right = np.concatenate(halves[4:], axis=2).swapaxes(1, 2).astype(np.float32)
        product = (left @ right).reshape(-1, 2, 8, 4, 2)  # warp, upper or lower rows, group, quad, column
        return tuple(c[index] + product[:, index // 2, :, :, index % 2].reshape(-1) for index in range(4))

    @staticmethod
    def store_2(target: NDArray[Any], x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        for address, pair in zip(target.tolist(), np.stack([x, y], axis=1), strict=True):
            ctypes.memmove(address, pair.ctypes.data, 8)
