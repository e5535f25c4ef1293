"""cp.async for Numba-CUDA kernels: CUDA C++ device functions, compiled by NVRTC and linked into the kernel.

- ``copy_16(shared, source, count)`` starts a copy of 16 bytes between two addresses, of which only the first ``count``
  (0..16) are read; the rest becomes zero. ``copy_4`` does so for 4 bytes (0 or 4 of them read).
- ``commit()`` closes the calling thread's group of copies, which may be empty.
- ``ALIGNMENT`` is what a shared array needs to be copied to by 16 bytes: ``shared.array(..., alignment=ALIGNMENT)``.
- ``wait(pending)`` waits until at most ``pending`` (0..2) groups of this thread are in flight; a barrier must follow
  before other threads read what was copied.

A kernel that uses them must be compiled without line information (``jit(kernel, lines=False)``): Numba and NVRTC mark
their debug information in ways that the linker does not join ("'Debug Info Version': IDs have conflicting behaviors").

Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) links nothing: there a copy happens at once, and nothing is waited for.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import cuda

SOURCE = Path(__file__).resolve().parent / "cuda" / "numba_cp_async.cu"


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
