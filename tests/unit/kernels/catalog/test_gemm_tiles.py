"""The tile that gemm_ws takes where nobody chose one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.kernels.shapes import drawn
from ncubble.errors import UsageError
from ncubble.kernels.build import case_for
from ncubble.kernels.catalog.gemm_tiles import OWN, GemmTile, best_tile, candidates
from ncubble.kernels.catalog.hopper_gemm import GEMM_WS
from ncubble.kernels.spec.case import make_case

OWN_VALUES = {parameter.name: parameter.default for parameter in GEMM_WS.parameters}


def values(tile: GemmTile) -> dict[str, int | str]:
    return tile.parameters(1000 * tile.tile_m * tile.cluster, tile.tile_n, 132)


def test_the_own_tile_is_the_specs_default():
    assert {**OWN_VALUES, **values(OWN)} == OWN_VALUES


def test_tiles_that_do_not_fit_are_moved_back():
    tile = GemmTile(80, 128, "pingpong")
    assert tile.parameters(1360, 832, 132)["edge"] == "moved"  # 832 is 6.5 tiles
    assert tile.parameters(1360, 896, 132)["edge"] == "cut"
    assert (
        replace(tile, schedule="cooperative", cluster=2).parameters(1360, 896, 132)["edge"] == "moved"
    )  # 8.5 clusters


def test_a_single_round_has_low_bands():
    tile = GemmTile(80, 128, "pingpong")
    assert [tile.parameters(1360, 896, sms)["band"] for sms in (119, 118)] == [512, 2048]


def test_moved_tiles_that_walk_both_ways_are_refused():
    with pytest.raises(UsageError, match="two orders"):
        make_case(GEMM_WS, {**values(OWN), "edge": "moved", "walk": "snake"})


def test_every_tile_that_may_be_taken_is_one_the_kernel_has():
    assert len(candidates()) > 50
    for tile in candidates():
        make_case(GEMM_WS, values(tile), {"m": 1000, "n": 1000, "k": 1000})


@pytest.mark.parametrize("size", [2048, 4096, 8192])
def test_where_the_own_tile_fills_the_rounds_it_stays(size):
    assert best_tile(size, size, size, 132) == OWN
    assert make_case(GEMM_WS, {}, {"m": size, "n": size, "k": size}).parameters == OWN_VALUES


def test_a_tile_that_needs_a_round_less_is_taken():
    """128 x 256 has 10 x 16 = 160 tiles of 2232 x 2112, two rounds; 192 x 192 has 132, one."""
    tile = best_tile(2232, 2112, 1792, 132)
    assert -(-2232 // tile.tile_m) * -(-2112 // tile.tile_n) <= 132
    own, other = (one.predicted_us(2232, 2112, 1792, 132) for one in (OWN, tile))
    assert other < 0.8 * own


def test_the_choice_follows_the_number_of_sms():
    assert best_tile(2232, 2112, 1792, 132) != best_tile(2232, 2112, 1792, 78)
    shape = {"m": 2232, "n": 2112, "k": 1792}
    large = make_case(GEMM_WS, {}, shape)
    assert large.parameters == case_for(large, "sm_90a", 132).parameters != case_for(large, "sm_90a", 78).parameters


def test_whoever_chooses_anything_has_the_own_defaults_for_the_rest():
    shape = {"m": 2232, "n": 2112, "k": 1792}
    assert make_case(GEMM_WS, {"band": 1024}, shape).parameters == {**OWN_VALUES, "band": 1024}
    ablated = make_case(GEMM_WS, {"ablate": "copy"}, shape)
    assert ablated.parameters == {**make_case(GEMM_WS, {}, shape).parameters, "ablate": "copy"}


@pytest.mark.parametrize("name", ["test", "tuning"])
def test_a_tile_is_found_for_every_drawn_shape(name):
    for shape in drawn(name):
        case = make_case(GEMM_WS, {}, shape)
        assert case.grid_on(132)[0] <= 132


def test_a_tile_that_no_consumer_holds_is_refused():
    with pytest.raises(UsageError, match="cannot hold"):
        make_case(GEMM_WS, {**values(OWN), "tile_m": 256})
