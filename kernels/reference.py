"""Float64 references in NumPy, for chosen rows of the result."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.spec import Arrays

Result = dict[str, NDArray[np.float64]]


def matmul(inputs: Arrays, rows: NDArray[np.intp]) -> Result:
    """``c[rows] = a[rows] @ b`` for a (m, k), b (k, n); inputs are taken as stored (half stays half), then widened."""
    return {"c": inputs["a"][rows].astype(np.float64) @ inputs["b"].astype(np.float64)}


def softmax(inputs: Arrays, rows: NDArray[np.intp]) -> Result:
    """``y[rows]``: softmax along the second axis of x (rows, cols)."""
    x = inputs["x"][rows].astype(np.float64)
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": shifted / shifted.sum(axis=1, keepdims=True)}
