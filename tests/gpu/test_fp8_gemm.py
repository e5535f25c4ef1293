"""The product of e4m3 on a Hopper GPU: right over scalings, parameters and shapes, and what
cuBLASLt computes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu

PROMOTED = {"accumulate": "promoted", "tile_n": 128, "stages": 6}
BLOCKS = {"scaling": "block", **PROMOTED}
CASES = [
    {},
    {"stages": 2, "cluster": 1},
    {"stages": 3, "band": 4096},
    {"tile_n": 128, "stages": 6},
    {"tile_n": 128, "stages": 5, "cluster": 1, "schedule": "pingpong"},
    {"tile_n": 128, "stages": 6, "schedule": "pingpong", "band": 512},
    PROMOTED,
    {**PROMOTED, "stages": 2, "cluster": 1},
    BLOCKS,
    {**BLOCKS, "stages": 5, "band": 1024},
    {**BLOCKS, "stages": 3, "cluster": 1},
]
SHAPES = [
    {"m": 128, "n": 256, "k": 128},  # one tile, one step
    {"m": 1, "n": 8, "k": 16},  # the smallest
    {"m": 200, "n": 328, "k": 272},  # remainders everywhere, an odd number of steps
    {"m": 129, "n": 1000, "k": 2064},  # most of a cluster's second tile lies outside
    {"m": 2304, "n": 4352, "k": 256},  # several tiles per CTA, not as many for all; fewer steps than slots
    {"m": 1024, "n": 2048, "k": 8192},  # many rounds of the ring
]


@pytest.fixture(scope="module", autouse=True)
def _built():
    """Compiles all at once, where there are cores for it."""
    gpu = Gpu.open()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda item: build(make_case(find_spec("gemm_fp8"), item), gpu.arch), CASES))
    gpu.close()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("parameters", CASES, ids=str)
def test_the_product_is_right(parameters, shape):
    if "scaling" in parameters and shape["m"] % 4:
        shape = {**shape, "m": 4 * -(-shape["m"] // 4)}
    outcome = execute(KernelRequest("gemm_fp8", parameters, shape, seed=shape["m"], iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("parameters", [{}, BLOCKS], ids=str)
def test_launches_follow_one_another_without_residue(parameters):
    shape = {"m": 1000, "n": 1000, "k": 1008}
    outcome = execute(KernelRequest("gemm_fp8", parameters, shape, launches=50, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("parameters", [{}, PROMOTED, BLOCKS], ids=str)
def test_cublaslt_computes_the_same_product(parameters):
    pytest.importorskip("torch")
    outcome = execute(KernelRequest("gemm_fp8", parameters, {"m": 1024, "n": 1024, "k": 1024}, against=True))
    assert outcome.verification.passed, outcome.verification.describe()
    assert "cuBLASLt" in outcome.against.library and "(unknown" not in outcome.against.version
    # Each is at most so far from the right result, which is known of all elements.
    assert 0 <= outcome.against.max_abs_difference <= 2 * outcome.verification.max_abs_error
