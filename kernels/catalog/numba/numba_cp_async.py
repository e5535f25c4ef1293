"""cp.async for Numba-CUDA kernels: CUDA C++ device functions, compiled by NVRTC and linked into the kernel.

- ``copy_16(shared, source, count)`` starts a copy of 16 bytes between two addresses, of which only the first ``count``
  (0..16) are read; the rest becomes zero. ``copy_4`` does so for 4 bytes (0 or 4 of them read).
- ``copy_piece(shared, matrix, row, column, rows, columns)`` copies four floats of a row-major matrix, zeros outside it.
- ``commit()`` closes the calling thread's group of copies, which may be empty.
- ``wait(pending)`` waits until at most ``pending`` (0..2) groups of this thread are in flight; a barrier must follow
  before other threads read what was copied.
- ``ALIGNMENT`` is what a shared array needs to be copied to by 16 bytes: ``shared.array(..., alignment=ALIGNMENT)``.

A kernel that uses them must be compiled without line information (``jit(kernel, lines=False)``): Numba and NVRTC mark
their debug information in ways that the linker does not join ("'Debug Info Version': IDs have conflicting behaviors").

Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) links nothing: there a copy happens at once, and nothing is waited for.
"""

# Device code is typed by Numba.
# mypy: disable-error-code="no-untyped-call, no-untyped-def"
from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import cuda

FLOAT = 4  # bytes
PIECE = 4  # floats of copy_piece
SOURCE = Path(__file__).resolve().parents[2] / "cuda" / "numba_cp_async.cu"


def _linked(name: str, signature: str) -> Any:
    """A function of ``SOURCE``. The C ABI passes results by value; link-time optimization inlines the call."""
    declare: Any = cuda.declare_device
    return declare(f"ncubble_{name}", signature, link=str(SOURCE), abi="c")


def _copy_at_once(size: int) -> Callable[[int, int, int], None]:
    def copy(shared: int, source: int, count: int) -> None:
        ctypes.memset(int(shared), 0, size)
        ctypes.memmove(int(shared), int(source), count)

    return copy


if getattr(numba.config, "ENABLE_CUDASIM", False):
    copy_16: Any = _copy_at_once(16)
    copy_4: Any = _copy_at_once(4)
    commit: Any = lambda: None  # noqa: E731
    wait: Any = lambda pending: None  # noqa: E731
    ALIGNMENT: int | None = None  # the simulator takes no other
else:
    copy_16 = _linked("cp_async_16", "int32(int64, int64, int32)")
    copy_4 = _linked("cp_async_4", "int32(int64, int64, int32)")
    commit = _linked("cp_async_commit", "int32()")
    wait = _linked("cp_async_wait", "int32(int32)")
    ALIGNMENT = 16


def _copy_piece(shared, matrix, row, column, rows, columns):
    """Starts copying four floats from ``row``, ``column`` of the (rows, columns) matrix at address ``matrix``.

    ``column`` is a multiple of ``PIECE``. Nothing outside the matrix is read or even pointed at.
    """
    inside = columns - column if row < rows else 0  # floats left in the row
    source = matrix + FLOAT * (row * columns + column) if inside > 0 else matrix
    if columns % PIECE == 0:
        copy_16(shared, source, PIECE * FLOAT if inside > 0 else 0)
    else:
        for i in range(PIECE):
            copy_4(shared + FLOAT * i, source + FLOAT * i if i < inside else matrix, FLOAT if i < inside else 0)


_device_function: Any = cuda.jit(device=True, inline="always")
copy_piece = _device_function(_copy_piece)
