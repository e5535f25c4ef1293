"""The product of e4m3 before there is a GPU: what is refused, what fits, what its inputs are, and
which errors its bounds let pass."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ncubble.errors import UsageError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.hopper_gemm import GEMM_FP8, LARGEST_SMEM
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case, make_case

TENSOR: dict[str, int | str] = {"scaling": "tensor", "accumulate": "fast"}
PROMOTED: dict[str, int | str] = {"accumulate": "promoted", "tile_n": 128}
BLOCKS = {"scaling": "block", **PROMOTED}
SHAPE = {"m": 40, "n": 136, "k": 272}


def widened(inputs: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)


@pytest.mark.parametrize(
    ("shape", "array", "remedy"),
    [({"k": 4104}, "'a'", "multiple of 16"), ({"n": 4100}, "'c'", "multiple of 8")],
)
def test_rows_that_tma_cannot_step_over_are_refused(shape, array, remedy):
    with pytest.raises(UsageError, match="TMA") as refused:
        make_case(GEMM_FP8, {}, shape)
    assert array in refused.value.message and remedy in refused.value.remedy


@pytest.mark.parametrize("parameters", [TENSOR, PROMOTED, BLOCKS], ids=str)
def test_sizes_that_no_tile_divides_are_taken(parameters):
    for n, k in ((8, 16), (4104, 4112)):
        make_case(GEMM_FP8, parameters, {"m": n + 4, "n": n, "k": k})
        if parameters is not BLOCKS:
            make_case(GEMM_FP8, parameters, {"m": n + 1, "n": n, "k": k})


def test_scales_of_rows_that_the_copy_engine_cannot_step_over_are_refused():
    with pytest.raises(UsageError, match="m must be a multiple of 4"):
        make_case(GEMM_FP8, BLOCKS, {"m": 4098})


def test_another_architecture_is_refused_before_compiling():
    for arch in ("sm_89", "sm_100a"):
        with pytest.raises(UsageError, match="gemm_fp8"):
            build(make_case(GEMM_FP8), arch)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"scaling": "block"}, "needs accumulate=promoted"),
        ({"accumulate": "promoted"}, "need tile_n=128"),
        ({"accumulate": "promoted", "tile_n": 128, "schedule": "pingpong"}, "needs schedule=cooperative"),
        ({"schedule": "pingpong"}, "need tile_n=128"),
        ({"stages": 5}, "no shared memory"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(parameters, words):
    with pytest.raises(UsageError, match=words):
        make_case(GEMM_FP8, parameters)


def test_whatever_is_taken_fits_shared_memory_and_can_store():
    taken = 0
    names = [parameter.name for parameter in GEMM_FP8.parameters]
    for values in itertools.product(*(parameter.choices for parameter in GEMM_FP8.parameters)):
        try:
            case = make_case(GEMM_FP8, dict(zip(names, values, strict=True)))
        except UsageError:
            continue
        taken += 1
        assert case.smem <= LARGEST_SMEM
        assert any(f"BUFFERS={count}" in case.defines for count in (1, 2, 3, 4))
    assert taken > 50


@pytest.mark.parametrize(
    ("shape", "ctas"),
    [
        ({"m": 2048, "n": 2048, "k": 64}, 128),  # 64 pairs of tiles, one round
        ({"m": 8192, "n": 8448, "k": 64}, 132),  # 1056 pairs: 16 rounds of 66
        ({"m": 1, "n": 8, "k": 64}, 2),
    ],
)
def test_no_more_ctas_run_than_shorten_the_work(shape, ctas):
    assert make_case(GEMM_FP8, {}, shape).grid_on(132) == (ctas, 1, 1)


def test_blocks_are_scaled_so_that_their_largest_is_the_largest_of_e4m3():
    inputs = draw_inputs(make_case(GEMM_FP8, BLOCKS, {"m": 40, "n": 256, "k": 256}), 1)
    a, b = widened(inputs)
    assert np.abs(a.reshape(40, 2, 128)).max(axis=2).min() == 448 == np.abs(a).max()
    assert np.abs(b.reshape(2, 128, 2, 128)).max(axis=(1, 3)).min() == 448
    assert inputs["scale_a"].shape == (2, 40) and inputs["scale_b"].shape == (2, 2)
    for scales in (inputs["scale_a"], inputs["scale_b"]):
        assert len(np.unique(scales)) == scales.size  # so that a scale in the wrong place shows


def test_the_reference_scales_each_block_by_its_own_scales():
    case = make_case(GEMM_FP8, BLOCKS, SHAPE)
    inputs = draw_inputs(case, 2)
    a, b = widened(inputs)
    rows = np.array([0, 7, 39])
    expected = np.zeros((3, SHAPE["n"]))
    for row, column in itertools.product(range(3), range(SHAPE["n"])):
        for k in range(SHAPE["k"]):
            scale = float(inputs["scale_a"][k // 128, rows[row]]) * float(inputs["scale_b"][column // 128, k // 128])
            expected[row, column] += scale * a[rows[row], k] * b[column, k]
    assert case.reference(inputs, rows)["c"] == pytest.approx(expected, rel=1e-12, abs=1e-9)


def test_one_scale_per_operand_is_the_first_of_its_array():
    case = make_case(GEMM_FP8, TENSOR, SHAPE)
    inputs = draw_inputs(case, 3)
    a, b = widened(inputs)
    scale = float(inputs["scale_a"][0, 0]) * float(inputs["scale_b"][0, 0])
    assert case.reference(inputs, np.arange(40))["c"] == pytest.approx(scale * (a @ b.T), rel=1e-12)


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
    a, b = widened(inputs)
    scale = float(inputs["scale_a"][0, 0]) * float(inputs["scale_b"][0, 0])
    in_tensor_cores, in_float = scale * summed(a, b, 8192), scale * summed(a, b, 128)
    assert share_within(fast, in_tensor_cores, inputs) == 1
    assert share_within(promoted, in_float, inputs) == 1
    assert share_within(promoted, in_tensor_cores, inputs) < 1


@pytest.mark.parametrize("parameters", [TENSOR, BLOCKS], ids=str)
def test_a_step_that_is_left_out_or_scaled_wrongly_is_outside_the_bound(parameters):
    shape = {"m": 16, "n": 256, "k": 8192}
    case = make_case(GEMM_FP8, parameters, shape)
    inputs = draw_inputs(case, 5)
    without = {**inputs, "a": inputs["a"].copy()}
    without["a"][:, 1024:1056] = 0
    rows = np.arange(16)
    assert share_within(case, case.reference(without, rows)["c"], inputs) < 0.7
    if parameters is BLOCKS:
        moved = {**inputs, "scale_a": np.roll(inputs["scale_a"], 1, axis=0)}
        assert share_within(case, case.reference(moved, rows)["c"], inputs) < 0.1
