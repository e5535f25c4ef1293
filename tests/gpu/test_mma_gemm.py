"""gemm_mma_swizzled on a real GPU: right over parameters, shapes and seeds, and near the mma.sync
roof."""

from __future__ import annotations

import pytest

from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
NAME = "gemm_mma_swizzled"
BAND = 16 * 128  # rows of C in one band of CTAs


def verified(parameters, shape, seed=None):
    outcome = execute(KernelRequest(NAME, parameters, shape, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()
    assert outcome.facts["build"]["spill_B"] == 0


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    "shape",
    [
        {"m": 128, "n": 256, "k": 64},
        {"m": 384, "n": 768, "k": 192},
        {"m": 128, "n": 256, "k": 4096},
        {"m": BAND + 128, "n": 768, "k": 128},
        {"m": 3 * BAND - 128, "n": 256, "k": 320},
    ],
    ids=str,
)
def test_shapes(shape, seed):
    verified({}, shape, seed)


@pytest.mark.parametrize(
    ("tile_n", "tile_k", "stages"),
    [
        *((256, 64, stages) for stages in (2, 3)),
        *((256, 32, stages) for stages in (2, 3, 4, 5, 6)),
        *((128, 64, stages) for stages in (2, 5)),
        *((128, 32, stages) for stages in (2, 4, 6)),
    ],
)
def test_parameters(tile_n, tile_k, stages):
    parameters = {"tile_n": tile_n, "tile_k": tile_k, "stages": stages}
    for depth in (1, 3, 7):  # fewer tiles than stages, and more
        verified(parameters, {"m": 640, "n": 3 * tile_n, "k": depth * tile_k})


@pytest.mark.parametrize(("tile_n", "tile_k"), [(256, 64), (128, 32)])
def test_the_layout_with_bank_conflicts_is_right_and_slow(tile_n, tile_k):
    shape = {"m": 2048, "n": 2048, "k": 2048}
    times = {}
    for layout in ("xor", "plain"):
        outcome = execute(KernelRequest(NAME, {"layout": layout, "tile_n": tile_n, "tile_k": tile_k}, shape))
        assert outcome.verification.passed, outcome.verification.describe()
        times[layout] = outcome.timing.p50_us
    assert times["plain"] > 1.5 * times["xor"]


def test_the_default_shape_is_near_the_roof_of_mma_sync():
    outcome = execute(KernelRequest(NAME, {}, {}))
    assert outcome.verification.passed, outcome.verification.describe()
    assert outcome.rates.fraction > 0.4, "of the wgmma peak, of which mma.sync reaches two thirds"
