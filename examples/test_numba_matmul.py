"""A Numba kernel under the gate: its launches in the body of the test keep a recorded baseline.

pytest examples/test_numba_matmul.py --ncubble-record     # once, on the GPU; then commit baselines/
pytest examples/test_numba_matmul.py                      # on every merge request
"""

import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda", reason="needs numba-cuda (the extra gpu of ncubble)", exc_type=ImportError)
float32 = pytest.importorskip("numba").float32

TILE = 16
SIZE = 1024


@cuda.jit
def matmul(a, b, c):
    """C = A · B by tiles in shared memory; sizes are multiples of TILE."""
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    row, column = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for step in range(0, a.shape[1], TILE):
        a_tile[x, y] = a[row, step + y]
        b_tile[x, y] = b[step + x, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[x, k] * b_tile[k, y]
        cuda.syncthreads()
    c[row, column] = total


@pytest.fixture
def matrices():
    """A, B and an empty C on the GPU. What a fixture launches is not measured."""
    rng = np.random.default_rng(0)
    a, b = (cuda.to_device(rng.random((SIZE, SIZE), dtype=np.float32)) for _ in range(2))
    return a, b, cuda.device_array_like(a)


@pytest.mark.tensor_util(baseline="baselines/numba", kernel="matmul")
def test_matmul(matrices):
    """Called once to warm up and five times under ncu: right, and as fast as its baseline."""
    a, b, c = matrices
    matmul[(SIZE // TILE, SIZE // TILE), (TILE, TILE)](a, b, c)
    np.testing.assert_allclose(c.copy_to_host(), a.copy_to_host() @ b.copy_to_host(), rtol=1e-3)
