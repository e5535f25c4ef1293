"""cp.async for Numba-CUDA kernels: PTX instructions as device functions (numba_ptx.py).

- ``shared_address(generic)`` is the address in shared memory that the copies take.
- ``copy_16(shared, source, count)`` starts a copy of 16 bytes from global memory, of which only the first ``count``
  (0..16) are read; the rest becomes zero. ``copy_4`` does so for 4 bytes (0 or 4 of them read).
- ``copy_piece(shared, matrix, row, column, rows, columns)`` copies four floats of a row-major matrix, zeros outside it.
- ``commit()`` closes the calling thread's group of copies, which may be empty. ``wait_for_all_but(count)`` makes a
  function that waits until at most ``count`` of its groups are in flight; a barrier must follow before others read.
- ``ALIGNMENT`` is what a shared array needs to be copied to by 16 bytes: ``shared.array(..., alignment=ALIGNMENT)``.

Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) has no PTX: there a copy happens at once, and nothing is waited for.
"""

# Device code is typed by Numba.
# mypy: disable-error-code="no-untyped-call, no-untyped-def"
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
from numba import cuda, int64, uint32

FLOAT = 4  # bytes
PIECE = 4  # floats of copy_piece


def _copy_at_once(size: int) -> Callable[[int, int, int], None]:
    def copy(shared: int, source: int, count: int) -> None:
        ctypes.memset(int(shared), 0, size)
        ctypes.memmove(int(shared), int(source), count)

    return copy


if getattr(numba.config, "ENABLE_CUDASIM", False):
    copy_16: Any = _copy_at_once(16)
    copy_4: Any = _copy_at_once(4)
    shared_address: Any = lambda generic: generic  # noqa: E731
    commit: Any = lambda: None  # noqa: E731
    wait_for_all_but: Any = lambda count: commit  # noqa: E731
    ALIGNMENT: int | None = None  # the simulator takes no other
else:
    from ncubble.kernels.catalog.numba import numba_mma
    from ncubble.kernels.catalog.numba.numba_ptx import instruction

    shared_address, commit, wait_for_all_but = numba_mma.shared_address, numba_mma.commit, numba_mma.wait_for_all_but
    copy_16 = instruction("cp.async.cg.shared.global [$0], [$1], 16, $2;", (uint32, int64, uint32))
    copy_4 = instruction("cp.async.ca.shared.global [$0], [$1], 4, $2;", (uint32, int64, uint32))
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
