"""numba_async_pipeline on a real GPU: right over parameters, shapes and seeds, and worth its copies."""

from __future__ import annotations

import pytest

from ncubble.kernels.session import Request, execute

pytestmark = pytest.mark.gpu
NAME = "numba_async_pipeline"


def verified(parameters, shape, seed=None):
    outcome = execute(Request(NAME, parameters, shape, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("blocking", [4, 8])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_shapes(stages, blocking):
    shapes = [(1, 1, 1), (65, 130, 33), (128, 256, 64), (257, 100, 8), (100, 257, 1000), (512, 512, 512), (31, 4, 4)]
    for seed, (m, n, k) in enumerate(shapes):
        verified({"stages": stages, "blocking": blocking}, {"m": m, "n": n, "k": k}, seed)


def test_the_default_shape_is_faster_than_with_plain_loads():
    times = {}
    for name in (NAME, "numba_tiled_matmul"):
        outcome = execute(Request(name, {"blocking": 4}))
        assert outcome.verification.passed, outcome.verification.describe()
        times[name] = outcome.timing.p50_us
    assert times[NAME] < times["numba_tiled_matmul"]
