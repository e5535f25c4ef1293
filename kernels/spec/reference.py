"""Float64 references in NumPy, for chosen rows of the result."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.spec.spec import Arrays

Result = dict[str, NDArray[np.float64]]


def matmul(inputs: Arrays, rows: NDArray[np.intp]) -> Result:
    """``c[rows] = a[rows] @ b`` for a (m, k), b (k, n); inputs are widened from their stored
    values."""
    return {"c": inputs["a"][rows].astype(np.float64) @ inputs["b"].astype(np.float64)}


def softmax(inputs: Arrays, rows: NDArray[np.intp]) -> Result:
    """``y[rows]``: softmax along the second axis of x (rows, cols)."""
    x = inputs["x"][rows].astype(np.float64)
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": shifted / shifted.sum(axis=1, keepdims=True)}


def attention(inputs: Arrays, rows: NDArray[np.intp], causal: bool = False) -> Result:
    """``out`` of softmax(q k^T / sqrt(dim)) v for q, k, v (batch, heads, tokens, dim); heads of q
    in a row share one of k and v where these have fewer.

    ``rows`` are flat indices over batch, heads and tokens. With ``causal`` a token sees itself and
    earlier tokens.
    """
    tokens, dim = inputs["q"].shape[-2:]
    q, k, v = (inputs[name].reshape(-1, tokens, dim) for name in ("q", "k", "v"))
    group = len(q) // len(k)
    head, token = np.divmod(rows, tokens)
    out = np.empty((len(rows), dim))
    for index in np.unique(head):
        chosen = head == index
        scores = q[index, token[chosen]].astype(np.float64) @ k[index // group].astype(np.float64).T / np.sqrt(dim)
        if causal:
            scores[np.arange(tokens) > token[chosen][:, np.newaxis]] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[chosen] = weights @ v[index // group].astype(np.float64) / weights.sum(axis=1, keepdims=True)
    return {"out": out}
