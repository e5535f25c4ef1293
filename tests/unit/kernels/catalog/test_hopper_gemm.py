"""Rungs 5 and 6 and the product of e4m3 before there is a GPU: what is refused, what fits, how many
CTAs run, which tile is chosen, what inputs are, and which errors bounds let pass."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.kernels.shapes import drawn
from ncubble.errors import UsageError
from ncubble.kernels.build import case_for
from ncubble.kernels.catalog.gemm_tiles import OWN, GemmTile, best_tile, candidates
from ncubble.kernels.catalog.hopper_gemm import GEMM_FP8, GEMM_TMA, GEMM_WS, LARGEST_SMEM
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case, make_case

TENSOR: dict[str, int | str] = {"scaling": "tensor", "accumulate": "fast"}
PROMOTED: dict[str, int | str] = {"accumulate": "promoted", "tile_n": 128}
BLOCKS = {"scaling": "block", **PROMOTED}


def named(value: Any) -> str | None:
    return getattr(value, "name", None)


@pytest.mark.parametrize(
    ("spec", "shape", "array", "remedy"),
    [
        *[(spec, {"k": 4100}, "'a'", "multiple of 8") for spec in (GEMM_TMA, GEMM_WS)],
        *[(spec, {"n": 4092}, "'b'", "multiple of 8") for spec in (GEMM_TMA, GEMM_WS)],
        (GEMM_FP8, {"k": 4104}, "'a'", "multiple of 16"),
        (GEMM_FP8, {"n": 4100}, "'c'", "multiple of 8"),
    ],
    ids=named,
)
def test_rows_that_tma_cannot_step_over_are_refused(spec, shape, array, remedy):
    with pytest.raises(UsageError, match="TMA") as refused:
        make_case(spec, {}, shape)
    assert array in refused.value.message and remedy in refused.value.remedy


@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 16), (4097, 4104, 4112), (12, 8, 16), (4108, 4104, 4112)])
def test_sizes_that_no_tile_divides_are_taken(m, n, k):
    for spec, parameters in ((GEMM_TMA, {}), (GEMM_WS, {}), (GEMM_FP8, TENSOR), (GEMM_FP8, PROMOTED)):
        make_case(spec, parameters, {"m": m, "n": n, "k": k})
    if m % 4 == 0:
        make_case(GEMM_FP8, BLOCKS, {"m": m, "n": n, "k": k})


@pytest.mark.parametrize(
    ("spec", "parameters", "words"),
    [
        (GEMM_TMA, {"ablate": "sync"}, "ablate=sync"),
        (GEMM_WS, {"schedule": "pingpong"}, "cannot hold 128 x 256"),
        (GEMM_WS, {"tile_m": 192, "form": "turned", "schedule": "pingpong"}, "cannot hold 192 x 256"),
        (GEMM_WS, {"tile_m": 192}, "would get 96 rows, which must be a multiple of 64"),
        (GEMM_WS, {"tile_m": 136, "tile_n": 192, "form": "turned"}, "would get 68 rows, which must be a multiple of 8"),
        (GEMM_WS, {"tile_n": 128, "split": 2}, "split=2 needs form=turned"),
        (GEMM_WS, {"tile_m": 64, "tile_n": 64, "form": "turned", "split": 5}, "8 CTAs in a cluster at most"),
        (GEMM_WS, {"split": 8, "cluster": 1, "form": "turned"}, "no shared memory"),
        (GEMM_WS, {"stages": 5}, "no shared memory"),
        (GEMM_WS, {"edge": "moved", "walk": "snake"}, "two orders"),
        (GEMM_FP8, {"scaling": "block"}, "needs accumulate=promoted"),
        (GEMM_FP8, {"accumulate": "promoted"}, "need tile_n=128"),
        (GEMM_FP8, {**PROMOTED, "schedule": "pingpong"}, "needs schedule=cooperative"),
        (GEMM_FP8, {"schedule": "pingpong"}, "need tile_n=128"),
        (GEMM_FP8, {"stages": 5}, "5 stages of 49152 bytes leave no shared memory"),
    ],
    ids=named,
)
def test_parameters_that_do_not_go_together_are_refused(spec, parameters, words):
    with pytest.raises(UsageError, match=words):
        make_case(spec, parameters)


def test_scales_of_rows_that_the_copy_engine_cannot_step_over_are_refused():
    with pytest.raises(UsageError, match="m must be a multiple of 4"):
        make_case(GEMM_FP8, BLOCKS, {"m": 4098})


@pytest.mark.parametrize(("spec", "least", "step"), [(GEMM_WS, 100, 101), (GEMM_FP8, 50, 1)], ids=named)
def test_whatever_is_taken_fits_shared_memory_and_can_store(spec, least, step):
    names, taken = [parameter.name for parameter in spec.parameters], 0
    products = itertools.product(*(parameter.choices for parameter in spec.parameters))
    for values in itertools.islice(products, 0, None, step):  # a prime: every choice comes
        try:
            case = make_case(spec, dict(zip(names, values, strict=True)))
        except UsageError:
            continue
        taken += 1
        assert case.smem <= LARGEST_SMEM
        assert any(f"BUFFERS={count}" in case.defines for count in (1, 2, 3, 4))
    assert taken > least


@pytest.mark.parametrize(
    ("spec", "m", "n", "cluster", "ctas"),
    [
        (GEMM_WS, 2048, 2048, 2, 128),  # 64 pairs of tiles, one round
        (GEMM_WS, 8192, 8192, 2, 128),  # 1024 pairs: 16 rounds of 64, as with 66
        (GEMM_WS, 8192, 8448, 2, 132),  # 1056 pairs: 16 rounds of 66
        (GEMM_WS, 4096, 4096, 1, 128),
        (GEMM_WS, 1, 8, 2, 2),
        (GEMM_WS, 129, 8, 1, 2),
        (GEMM_FP8, 2048, 2048, 2, 128),
        (GEMM_FP8, 8192, 8448, 2, 132),
        (GEMM_FP8, 1, 8, 2, 2),
    ],
    ids=named,
)
def test_no_more_ctas_run_than_shorten_the_work(spec, m, n, cluster, ctas):
    case = make_case(spec, {"cluster": cluster}, {"m": m, "n": n, "k": 64})
    assert case.grid_on(132) == (ctas, 1, 1)


@pytest.mark.parametrize("sms", [1, 2, 7, 114, 132, 144])
@pytest.mark.parametrize("cluster", [1, 2])
def test_the_grid_is_whole_clusters_on_any_device(cluster, sms):
    case = make_case(GEMM_WS, {"cluster": cluster}, {"m": 3000, "n": 3000, "k": 64})
    ctas = case.grid_on(sms)[0]
    assert ctas % cluster == 0 and cluster <= ctas <= max(sms, cluster)


# The tile that gemm_ws takes where nobody chose one.

OWN_VALUES = {parameter.name: parameter.default for parameter in GEMM_WS.parameters}
WIDE = {"m": 2232, "n": 2112, "k": 1792}


def values(tile: GemmTile) -> dict[str, int | str]:
    return tile.parameters(1000 * tile.tile_m * tile.cluster, tile.tile_n, 4096, 132)


def test_the_own_tile_is_the_specs_default_and_stays_where_it_fills_the_rounds():
    assert {**OWN_VALUES, **values(OWN)} == OWN_VALUES
    for size in (2048, 4096, 8192):
        assert best_tile(size, size, size, 132) == OWN
        assert make_case(GEMM_WS, {}, {"m": size, "n": size, "k": size}).parameters == OWN_VALUES


def test_tiles_that_do_not_fit_are_moved_back_and_a_single_round_has_low_bands():
    tile = GemmTile(80, 128, "pingpong")
    assert tile.parameters(1360, 832, 4096, 132)["edge"] == "moved"  # 832 is 6.5 tiles
    assert tile.parameters(1360, 896, 4096, 132)["edge"] == "cut"
    pairs = replace(tile, schedule="cooperative", cluster=2)
    assert pairs.parameters(1360, 896, 4096, 132)["edge"] == "moved"  # 8.5 clusters
    assert [tile.parameters(1360, 896, 4096, sms)["band"] for sms in (119, 118)] == [512, 2048]


def test_every_tile_that_may_be_taken_is_one_the_kernel_has():
    assert len(candidates()) > 50
    for tile in candidates():
        make_case(GEMM_WS, values(tile), {"m": 1000, "n": 1000, "k": 1000})


def test_a_tile_that_needs_a_round_less_is_taken():
    """128 x 256 has 10 x 16 = 160 tiles of 2232 x 2112, two rounds; 192 x 192 has 132, one."""
    tile = best_tile(2232, 2112, 1792, 132)
    assert -(-2232 // tile.tile_m) * -(-2112 // tile.tile_n) <= 132
    own, other = (one.predicted_us(2232, 2112, 1792, 132) for one in (OWN, tile))
    assert other < 0.8 * own
    for shape in (*drawn("test"), *drawn("tuning")):
        assert make_case(GEMM_WS, {}, shape).grid_on(132)[0] <= 132


def test_the_choice_follows_the_number_of_sms():
    large = make_case(GEMM_WS, {}, WIDE)
    assert large.parameters == case_for(large, "sm_90a", 132).parameters != case_for(large, "sm_90a", 78).parameters


@pytest.mark.parametrize("draw", ["test", "models", "models-tuning"])
def test_what_is_chosen_fits_the_chip_as_it_is(draw):
    for shape in drawn(draw):
        case = make_case(GEMM_WS, {}, shape)
        assert case_for(case, "sm_90a", 132).parameters == case.parameters


def test_few_rows_have_narrow_tiles_whose_steps_are_shared_where_tiles_are_few():
    assert best_tile(64, 4096, 4096, 132).tile_n == 64
    assert best_tile(8, 8192, 8192, 132).split == 1 < best_tile(8, 1536, 8960, 132).split
    assert best_tile(3000, 3000, 3000, 132).cluster == 2  # a cluster shares rows that lie in two lines each


def test_no_split_has_more_clusters_than_run_at_one_time():
    """Of clusters of 4 an H100 runs 30: with 32 the last two would take as long as all others."""
    tile = GemmTile(112, 64, "pingpong", split=4)
    assert tile.resident(132) <= 30 and not tile.can_split(105, 2048, 2048, 132)
    for shape in (*drawn("models"), *drawn("rows-tuning")):
        assert (tile := best_tile(**shape, sms=132)).split == 1 or tile.can_split(**shape, sms=132)


def test_low_tiles_with_many_steps_copy_no_further_ahead_than_dram_is_busy():
    tile = GemmTile(8, 128, "pingpong")
    assert tile.stages_over(512) == tile.stages > tile.stages_over(8192) == 6
    assert GemmTile(128, 128, "pingpong").stages_over(8192) == GemmTile(128, 128, "pingpong").stages


def test_whoever_chooses_anything_has_the_own_defaults_for_the_rest():
    assert make_case(GEMM_WS, {"band": 1024}, WIDE).parameters == {**OWN_VALUES, "band": 1024}
    chosen = make_case(GEMM_WS, {}, WIDE).parameters
    assert make_case(GEMM_WS, {"ablate": "copy"}, WIDE).parameters == {**chosen, "ablate": "copy"}


# The product of e4m3.


def widened(inputs: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)


def test_blocks_are_scaled_so_that_their_largest_is_the_largest_of_e4m3():
    inputs = draw_inputs(make_case(GEMM_FP8, BLOCKS, {"m": 40, "n": 256, "k": 256}), 1)
    a, b = widened(inputs)
    assert np.abs(a.reshape(40, 2, 128)).max(axis=2).min() == 448 == np.abs(a).max()
    assert np.abs(b.reshape(2, 128, 2, 128)).max(axis=(1, 3)).min() == 448
    assert inputs["scale_a"].shape == (2, 40) and inputs["scale_b"].shape == (2, 2)
    for scales in (inputs["scale_a"], inputs["scale_b"]):
        assert len(np.unique(scales)) == scales.size  # so that a scale in the wrong place shows


@pytest.mark.parametrize("parameters", [TENSOR, BLOCKS], ids=str)
def test_the_reference_scales_each_block_by_its_own_scales_or_all_by_the_first(parameters):
    case = make_case(GEMM_FP8, parameters, {"m": 40, "n": 136, "k": 272})
    inputs, rows = draw_inputs(case, 2), np.array([0, 7, 39])
    a, b = widened(inputs)
    block = 128 if parameters is BLOCKS else 1000
    expected = np.zeros((3, 136))
    for at, column, k in itertools.product(range(3), range(136), range(272)):
        row = rows[at] if parameters is BLOCKS else 0
        scale = float(inputs["scale_a"][k // block, row]) * float(inputs["scale_b"][column // block, k // block])
        expected[at, column] += scale * a[rows[at], k] * b[column, k]
    assert case.reference(inputs, rows)["c"] == pytest.approx(expected, rel=1e-12, abs=1e-9)


def summed(a: NDArray[np.float64], b: NDArray[np.float64], depth: int) -> NDArray[np.float64]:
    """a @ b.T as tensor cores add e4m3: by 32 products, each term cut 13 bits below the largest,
    the sum so far included; it is put aside every ``depth`` of k."""
    whole = np.zeros((len(a), len(b)))
    held = np.zeros_like(whole)
    for k in range(0, a.shape[1], 32):
        terms = np.concatenate([a[:, np.newaxis, k : k + 32] * b[np.newaxis, :, k : k + 32], held[..., np.newaxis]], 2)
        unit = 2.0 ** (np.floor(np.log2(np.abs(terms).max(axis=2, keepdims=True))) - 13)
        held = (np.trunc(terms / unit) * unit).sum(axis=2)
        if (k + 32) % depth == 0:
            whole, held = whole + held, np.zeros_like(whole)
    return whole + held


def share_within(case: Case, result: NDArray[np.float64], inputs: dict[str, Any]) -> float:
    """Share of elements that the bound of ``case`` lets pass."""
    reference = case.reference(inputs, np.arange(len(result)))["c"]
    return float((np.abs(result - reference) <= case.tolerance.bound(reference)).mean())


def test_the_bounds_pass_what_the_tensor_cores_lose_and_tell_both_ways_of_adding_apart():
    shape = {"m": 4, "n": 128, "k": 8192}
    fast, promoted = make_case(GEMM_FP8, TENSOR, shape), make_case(GEMM_FP8, PROMOTED, shape)
    inputs = draw_inputs(fast, 4)
    scale = float(inputs["scale_a"][0, 0]) * float(inputs["scale_b"][0, 0])
    in_tensor_cores, in_float = (scale * summed(*widened(inputs), depth) for depth in (8192, 128))
    assert share_within(fast, in_tensor_cores, inputs) == 1 == share_within(promoted, in_float, inputs)
    assert share_within(promoted, in_tensor_cores, inputs) < 1


@pytest.mark.parametrize("parameters", [TENSOR, BLOCKS], ids=str)
def test_a_step_that_is_left_out_or_scaled_wrongly_is_outside_the_bound(parameters):
    case = make_case(GEMM_FP8, parameters, {"m": 16, "n": 256, "k": 8192})
    inputs, rows = draw_inputs(case, 5), np.arange(16)
    without = {**inputs, "a": inputs["a"].copy()}
    without["a"][:, 1024:1056] = 0
    assert share_within(case, case.reference(without, rows)["c"], inputs) < 0.7
    if parameters is BLOCKS:
        moved = {**inputs, "scale_a": np.roll(inputs["scale_a"], 1, axis=0)}
        assert share_within(case, case.reference(moved, rows)["c"], inputs) < 0.1
