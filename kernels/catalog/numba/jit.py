"""How the catalog's Numba kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def jit(function: Callable[..., None], **options: Any) -> Any:
    """``function`` as a Numba-CUDA kernel, with line information for the profiler's source view and with other
    ``options`` of ``cuda.jit``.

    A function defined within another would carry ``make.<locals>`` into the name that the profiler shows, so its
    qualified name is cut. The simulator (``NUMBA_ENABLE_CUDASIM=1``) knows no line information.
    """
    import numba
    from numba import cuda

    compiler: Any = cuda.jit
    if not getattr(numba.config, "ENABLE_CUDASIM", False):
        options["lineinfo"] = True
    function.__qualname__ = function.__name__
    return compiler(function, **options)


def inlined(function: Callable[..., Any]) -> Any:
    """``function`` as a device function that becomes part of the kernels that call it, with lines of its own: local
    arrays may be passed to it and stay in registers."""
    from numba import cuda

    compiler: Any = cuda.jit
    return compiler(function, device=True, forceinline=True, lineinfo=True)
