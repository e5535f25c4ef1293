"""What gemm_mma_swizzled refuses before any launch, and what it asks a GPU for."""

from __future__ import annotations

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.gemm import GEMM_MMA_SWIZZLED as SPEC
from ncubble.kernels.spec.case import make_case


@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({}, {"m": 4096, "n": 384, "k": 64}, "n=384 is not a multiple of tile_n=256"),
        ({}, {"m": 128, "n": 256, "k": 96}, "k=96 is not a multiple of tile_k=64"),
        ({"stages": 5}, {}, "245760 bytes of shared memory per CTA; GPUs have at most 232448"),
        ({}, {"m": 100, "n": 256, "k": 64}, "m=100 is not a multiple of 128"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_requirement(parameters, shape, message):
    with pytest.raises(UsageError, match=message):
        make_case(SPEC, parameters, shape)


def test_smaller_tiles_take_what_larger_ones_refuse():
    make_case(SPEC, {"tile_n": 128, "tile_k": 32, "stages": 6}, {"m": 128, "n": 384, "k": 96})


def test_shared_memory_holds_the_ring_and_at_least_the_result():
    ring = make_case(SPEC, {"tile_n": 256, "tile_k": 64, "stages": 4})
    assert ring.smem == 4 * (128 + 256) * 64 * 2
    short = make_case(SPEC, {"tile_n": 256, "tile_k": 32, "stages": 2})
    assert short.smem == 128 * 256 * 2, "two stages of 24 KB are less than C's 64 KB"


def test_every_tile_of_c_has_a_cta():
    case = make_case(SPEC, {"tile_n": 128}, {"m": 2176, "n": 640, "k": 64})
    assert case.grid == (17 * 5, 1, 1)
    assert case.block == (128, 1, 1)


def test_the_tolerance_covers_rounding_to_half_but_no_missing_term():
    tolerance = SPEC.tolerance({"m": 1, "n": 1, "k": 4096})
    exact = np.random.default_rng(3).standard_normal(10_000) * 64
    allowed = tolerance.absolute + tolerance.relative * np.abs(exact)
    assert (np.abs(exact.astype(np.float16) - exact) <= allowed).all()
    assert np.median(allowed) < 0.1, "a missing product of two normals is about 1"
