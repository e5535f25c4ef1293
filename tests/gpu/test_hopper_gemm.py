"""Rungs 5 and 6 on a Hopper GPU: right over parameters, shapes and seeds, at edges and over many
tiles per CTA."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu

STAGES = [{"stages": stages} for stages in (1, 2, 3, 4, 5, 6)]
SPECIALIZED = [
    {},
    {"stages": 2},
    {"stages": 3, "walk": "snake"},
    {"stages": 4, "cluster": 1},
    {"stages": 4, "band": 4096},
    {"stages": 2, "tile_n": 128},
    {"stages": 6, "tile_n": 128, "band": 512},
    {"stages": 5, "tile_n": 128, "cluster": 1, "walk": "snake"},
    {"stages": 2, "tile_n": 128, "cluster": 1, "schedule": "pingpong"},
    {"stages": 4, "tile_n": 128, "cluster": 2, "schedule": "pingpong", "band": 1024},
    {"stages": 5, "tile_n": 128, "cluster": 1, "schedule": "pingpong", "walk": "snake"},
    {"stages": 6, "tile_n": 128, "cluster": 2, "schedule": "pingpong", "band": 8192},
    {"stages": 5, "tile_n": 192, "cluster": 1, "schedule": "pingpong"},
    {"stages": 4, "tile_n": 192, "cluster": 1, "schedule": "pingpong"},  # 6 stores of a tile, 4 buffers
    {"tile_n": 192},  # three blocks of B, whose rows a cluster shares
    {"stages": 4, "tile_m": 256, "tile_n": 128, "cluster": 1},
    {"stages": 5, "tile_m": 64, "schedule": "pingpong", "cluster": 1},
    {"stages": 4, "tile_m": 176, "tile_n": 192, "form": "turned"},  # split along m, boxes of 8 rows
    {"stages": 4, "tile_m": 192, "tile_n": 192, "form": "turned", "cluster": 1},
    {"stages": 5, "tile_m": 160, "tile_n": 128, "form": "turned", "cluster": 1},  # 3 stores of a tile, 2 buffers
    {"stages": 4, "tile_m": 152, "form": "turned", "cluster": 1, "walk": "snake"},  # split along n
    {"stages": 5, "tile_m": 184, "tile_n": 128, "form": "turned", "schedule": "pingpong", "cluster": 1},
    {"edge": "moved"},  # the second CTA of a cluster may lie outside of C
    {"tile_m": 176, "tile_n": 192, "form": "turned", "edge": "moved"},
    {"tile_n": 128, "schedule": "pingpong", "edge": "moved"},
    {"stages": 5, "tile_m": 104, "tile_n": 192, "form": "turned", "schedule": "pingpong"},
    {"stages": 8, "tile_m": 72, "tile_n": 128, "form": "turned", "schedule": "pingpong", "cluster": 1},
    {"stages": 5, "tile_m": 224, "tile_n": 64, "form": "turned", "schedule": "pingpong", "cluster": 1},
]
SHAPES = [
    {"m": 128, "n": 256, "k": 64},  # one tile, one step
    {"m": 1, "n": 8, "k": 8},  # the smallest
    {"m": 200, "n": 328, "k": 136},  # remainders everywhere
    {"m": 129, "n": 1000, "k": 2056},  # most of a cluster's second tile lies outside
    {"m": 2304, "n": 4352, "k": 192},  # several tiles per CTA, not as many for all; fewer steps than slots
    {"m": 2304, "n": 4352, "k": 8},  # the same, a step each: stores of the next tile follow at once
    {"m": 1024, "n": 2048, "k": 4096},  # many rounds of the ring
]
CASES = [*(("gemm_tma", parameters) for parameters in STAGES), *(("gemm_ws", parameters) for parameters in SPECIALIZED)]


@pytest.fixture(scope="module", autouse=True)
def _built():
    """Compiles all at once, where there are cores for it."""
    gpu = Gpu.open()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda item: build(make_case(find_spec(item[0]), item[1]), gpu.arch), CASES))
    gpu.close()


def verified(name, parameters, shape, seed):
    outcome = execute(KernelRequest(name, parameters, shape, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()
    assert outcome.verification.max_abs_error < 1.0
    return outcome


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
def test_the_product_is_right(name, parameters, shape):
    verified(name, parameters, shape, seed=shape["m"])


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["gemm_tma", "gemm_ws"])
def test_the_default_shape(name, seed):
    verified(name, {}, {}, seed)


def test_launches_follow_one_another_without_residue():
    outcome = execute(KernelRequest("gemm_ws", {}, {"m": 1000, "n": 1000, "k": 1000}, launches=50, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


def test_too_many_stages_are_refused_before_the_launch():
    with pytest.raises(UsageError, match="5 stages"):
        execute(KernelRequest("gemm_ws", {"stages": 5}, {"m": 256, "n": 256, "k": 64}))
