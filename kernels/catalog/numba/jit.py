"""How the catalog's Numba kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def jit(function: Callable[..., None], lines: bool = True) -> Any:
    """``function`` as a Numba-CUDA kernel, with line information for the profiler's source view if ``lines``.

    A function defined within another would carry ``make.<locals>`` into the name that the profiler shows, so its
    qualified name is cut. The simulator (``NUMBA_ENABLE_CUDASIM=1``) knows no line information.
    """
    import numba
    from numba import cuda

    compiler: Any = cuda.jit
    options = {} if getattr(numba.config, "ENABLE_CUDASIM", False) else {"lineinfo": lines}
    function.__qualname__ = function.__name__
    return compiler(function, **options)
