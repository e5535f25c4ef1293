"""Planted kernels of structure on a real GPU: right in every setting, whoever shares a tile."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from benchmarks.validation.planted import PLANTED
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu
PRODUCTS = [{"m": 128, "n": 256, "k": 64}, {"m": 384, "n": 512, "k": 128}, {"m": 1152, "n": 768, "k": 1024}]
# On 132 SMs: a step in all; fewer steps than SMs; a tile among 100 CTAs; a tile for each and 12 to
# share; half a tile for each; two for each, and fewer steps left than SMs.
STREAMS = [
    (128, 128, 64),
    (128, 256, 1024),
    (128, 128, 64 * 100),
    (1536, 1536, 2048),
    (1408, 768, 1024),
    (2176, 2048, 512),
]
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *(("planted_ramp", {"search": search}) for search in ("serial", "parallel")),
    *(("planted_epilogue", {"store": store}) for store in ("narrow", "boxes")),
    *(
        ("planted_raster", {"raster": raster, "tile_n": columns})
        for raster, columns in itertools.product(("column", "banded"), (64, 128, 256))
    ),
    *(("planted_boxes", {"box_rows": rows}) for rows in (1, 2, 4, 8, 16, 64)),
    *(("planted_roles", {"producer": producer}) for producer in ("warp", "tma")),
    *(("planted_residual", {"read": read}) for read in ("late", "early")),
]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    gpu = Gpu.open()
    arch, capability = gpu.arch, gpu.facts.compute_capability
    gpu.close()
    if capability != (9, 0):
        pytest.skip("wgmma exists on compute capability 9.0 only")
    streams: list[tuple[str, dict[str, Any]]] = [("planted_waves", {"schedule": way}) for way in ("tiles", "stream")]
    cases = [make_case(find_spec(name, PLANTED), parameters) for name, parameters in (*SETTINGS, *streams)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda case: build(case, arch), cases))


@pytest.mark.parametrize(("name", "parameters"), SETTINGS, ids=lambda value: str(value).replace(" ", ""))
def test_every_setting_is_right(name: str, parameters: dict[str, Any]) -> None:
    for shape in PRODUCTS:
        outcome = execute(KernelRequest(name, parameters, shape, PLANTED, iterations=0))
        assert outcome.verification.passed, f"{shape}: {outcome.verification.describe()}"


@pytest.mark.parametrize("groups", [1, 2, 31, 33, 100])
@pytest.mark.parametrize("search", ["serial", "parallel"])
def test_a_group_is_found_in_tables_of_any_length(search: str, groups: int) -> None:
    shape = {"m": 640, "n": 128, "k": 64, "groups": groups}
    outcome = execute(KernelRequest("planted_ramp", {"search": search}, shape, PLANTED, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("sizes", STREAMS, ids=str)
@pytest.mark.parametrize("schedule", ["tiles", "stream"])
def test_a_tile_is_whole_whoever_shares_it(schedule: str, sizes: tuple[int, int, int]) -> None:
    shape = dict(zip("mnk", sizes, strict=True))
    outcome = execute(KernelRequest("planted_waves", {"schedule": schedule}, shape, PLANTED, launches=3, iterations=0))
    assert outcome.verification.passed, f"{shape}: {outcome.verification.describe()}"
