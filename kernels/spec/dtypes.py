"""Number types by name: NumPy's, and those of ml_dtypes for GPUs (``bfloat16``,
``float8_e4m3fn``)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

EXTRA: dict[str, np.dtype[Any]] = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn")}


def dtype_of(name: str) -> np.dtype[Any]:
    """The type called ``name``; raises TypeError if there is none."""
    return EXTRA[name] if name in EXTRA else np.dtype(name)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is a floating-point type. NumPy reports those of EXTRA as unknown kinds."""
    return dtype.kind == "f" or dtype in EXTRA.values()


def is_number(name: str) -> bool:
    """Whether ``name`` is a real number type."""
    try:
        dtype = dtype_of(name)
    except TypeError:
        return False
    return is_float(dtype) or dtype.kind in "iu"


def raw_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a C-contiguous ``array``."""
    return array.reshape(-1).view(np.uint8)
