"""A Triton kernel under the gate: it keeps its baseline, and the tensor pipe busy for at least half
of the cycles.

pytest examples/test_triton_gemm.py --ncubble-record     # once, on the GPU; then commit baselines/
pytest examples/test_triton_gemm.py                      # on every merge request
"""

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

SIZE, TILE, DEPTH = 4096, 128, 64


@triton.jit
def gemm(a, b, c, size, TILE: tl.constexpr, DEPTH: tl.constexpr):  # noqa: N803
    """One tile of C = A · B, all square and row-major, half in, half out."""
    rows = (tl.program_id(0) // (size // TILE)) * TILE + tl.arange(0, TILE)
    columns = (tl.program_id(0) % (size // TILE)) * TILE + tl.arange(0, TILE)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), tl.float32)
    for step in range(0, size, DEPTH):
        left = tl.load(a + rows[:, None] * size + step + depth[None, :])
        right = tl.load(b + (step + depth)[:, None] * size + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.float16))


@pytest.fixture
def matrices():
    """A, B and an empty C on the GPU. What a fixture launches is not measured."""
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in range(2))
    return a, b, torch.empty_like(a)


@pytest.mark.tensor_util(min=50, baseline="baselines/triton/{test}", kernel="gemm")
@pytest.mark.parametrize("stages", [3, 4])
def test_gemm(matrices, stages):
    """Without ``kernel=``, each kernel that the body launches would have to keep ``min``."""
    a, b, c = matrices
    gemm[((SIZE // TILE) ** 2,)](a, b, c, SIZE, TILE, DEPTH, num_stages=stages, num_warps=8)
