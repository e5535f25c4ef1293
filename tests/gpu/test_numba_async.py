"""numba_async_pipeline on a real GPU: right over parameters, shapes and seeds, and worth its
copies."""

from __future__ import annotations

import pytest

from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
NAME = "numba_async_pipeline"


def verified(parameters, shape, seed=None):
    outcome = execute(KernelRequest(NAME, parameters, shape, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("shape", [{"m": 257, "n": 100, "k": 1000}, {"m": 65, "n": 130, "k": 33}], ids=str)
@pytest.mark.parametrize("blocking", [4, 8])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_parameters(stages, blocking, shape):
    verified({"stages": stages, "blocking": blocking}, shape, stages)


@pytest.mark.parametrize(
    "shape", [{"m": 1, "n": 1, "k": 1}, {"m": 31, "n": 4, "k": 4}, {"m": 512, "n": 512, "k": 512}], ids=str
)
def test_shapes(shape):
    verified({}, shape)


def test_the_default_takes_less_time_than_the_default_with_plain_loads():
    times = {}
    for name in (NAME, "numba_tiled_matmul"):
        outcome = execute(KernelRequest(name))
        assert outcome.verification.passed, outcome.verification.describe()
        times[name] = outcome.timing.p50_us
    assert times[NAME] < times["numba_tiled_matmul"]
