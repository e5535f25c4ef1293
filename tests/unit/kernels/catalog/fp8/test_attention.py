"""Attention on e4m3 before there is a GPU: its inputs, its reference, what its bound lets pass, and
what is refused."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build import build, disassemble, find_tool, opcodes
from ncubble.kernels.catalog.attention import ATTENTION_FP8, quantize
from ncubble.kernels.catalog.hopper_gemm import LARGEST_SMEM
from ncubble.kernels.run.launch import swizzle_of
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.case import make_case

E4M3 = ml_dtypes.float8_e4m3fn


def of(tokens, dim=128, heads=1, **parameters):
    return make_case(ATTENTION_FP8, parameters, {"batch": 1, "heads": heads, "tokens": tokens, "dim": dim})


def widened(inputs):
    """The numbers that elements and scales stand for, written out head by head."""
    whole = {name: inputs[name].astype(np.float64) for name in "qkv"}
    for name, head in itertools.product("qkv", np.ndindex(whole["q"].shape[:2])):
        whole[name][head] *= float(inputs[f"scale_{name}"][head])
    return whole


def test_each_head_uses_the_range_of_e4m3_and_has_scales_of_its_own():
    inputs = draw_inputs(of(50, 64, heads=6), 1)
    for name in "qkv":
        assert inputs[name].dtype == E4M3
        np.testing.assert_array_equal(np.abs(inputs[name].astype(np.float32)).max(axis=(2, 3)), 448.0)
        scales = inputs[f"scale_{name}"]
        assert scales.shape == (1, 6) and scales.dtype == np.float32 and scales.min() > 0
        assert np.diff(np.sort(scales.ravel())).min() > 1e-3 * scales.max()
    whole = widened(inputs)
    sizes = np.sqrt((np.einsum("bhqd,bhkd->bhqk", whole["q"], whole["k"]) ** 2).mean(axis=(2, 3)) / 64)
    np.testing.assert_allclose(sizes, 1.0, atol=0.15)  # scores of every head are N(0, 1), whatever its scales


def test_quantizing_is_the_nearest_e4m3():
    x = np.array([1.0, -0.5, 0.3, 0.0], np.float32).reshape(1, 1, 2, 2)
    elements, scale = quantize(x)
    assert scale[0, 0] == np.float32(1 / 448)
    assert elements.astype(np.float32).ravel().tolist() == [448.0, -224.0, 128.0, 0.0]  # 134.4 lies below 136


@pytest.mark.parametrize("causal", [0, 1])
def test_the_reference_is_attention_of_the_scaled_numbers(causal):
    case = of(9, 64, heads=3, causal=causal)
    inputs, rows = draw_inputs(case, 2), np.array([0, 8, 9, 20, 26])
    expected = reference.attention(widened(inputs), rows, causal=bool(causal))["out"]
    np.testing.assert_allclose(case.reference(inputs, rows)["out"], expected, rtol=1e-9)


def as_the_kernel_rounds(inputs, causal, lost=0):
    """Attention of one head with P in e4m3, 2^8 times as large, and the result in bfloat16; the
    first ``lost`` keys are left out, as a bug would."""
    q, k, v = (widened(inputs)[name][0, 0] for name in "qkv")
    scores = q @ k.T / np.sqrt(q.shape[1])
    if causal:
        scores[np.triu_indices(len(q), 1)] = -np.inf
    scores[lost:, :lost] = -np.inf
    p = 2.0**8 * np.exp(scores - scores.max(axis=1, keepdims=True))
    out = p.astype(E4M3).astype(np.float64) @ v / p.sum(axis=1, keepdims=True)
    return out.astype(ml_dtypes.bfloat16).astype(np.float64)


@pytest.mark.parametrize(("causal", "dim"), [(0, 64), (1, 128)])
def test_the_bound_covers_rounding_p_with_room(causal, dim):
    case = of(1500, dim, causal=causal)
    inputs = draw_inputs(case, 3)
    expected = case.reference(inputs, np.arange(1500))["out"]
    error = np.abs(as_the_kernel_rounds(inputs, causal) - expected)
    assert (error <= case.tolerance.bound(expected)).all()
    assert (error > case.tolerance.bound(expected) / 2).any()  # it is no more than twice what it has to be
    rms = np.sqrt((expected**2).mean(axis=1, keepdims=True))
    assert np.sqrt(((error / rms) ** 2).mean()) == pytest.approx(0.025, rel=0.15)  # which the header states


def test_the_bound_tells_a_lost_tile_of_keys_and_the_scale_of_another_head():
    case = of(4096)
    inputs = draw_inputs(case, 4)
    rows = np.arange(3000, 4096)
    expected = case.reference(inputs, rows)["out"]
    error = np.abs(as_the_kernel_rounds(inputs, 0, lost=128)[rows] - expected)
    assert np.mean(error > case.tolerance.bound(expected)) > 0.25
    heads = of(300, heads=4)
    inputs, rows = draw_inputs(heads, 5), np.arange(1200)
    expected = heads.reference(inputs, rows)["out"]
    for name in ("scale_q", "scale_v"):
        wrong = {**inputs, name: np.roll(inputs[name], 1, axis=1)}
        error = np.abs(heads.reference(wrong, rows)["out"] - expected)
        assert np.mean(error > heads.tolerance.bound(expected)) > 0.3


@pytest.mark.parametrize("dim", [64, 128])
def test_maps_are_swizzled_by_as_many_bytes_as_a_row_has(dim):
    case = make_case(ATTENTION_FP8, {}, {"batch": 3, "heads": 5, "tokens": 1000, "dim": dim})
    boxes = [case.box(item) for item in case.tensor_maps]
    assert boxes == [(1, 192 if dim == 64 else 128, dim), (1, 128, dim), (1, 128, dim)]
    assert [swizzle_of(case, item) for item in case.tensor_maps] == [dim] * 3
    assert {case.mapped_extent(item) for item in case.tensor_maps} == {(15, 1000, dim)}


def test_whatever_is_taken_fits_shared_memory():
    taken = 0
    names = [parameter.name for parameter in ATTENTION_FP8.parameters]
    for values in itertools.product(*(parameter.choices for parameter in ATTENTION_FP8.parameters)):
        for dim in (64, 128):
            try:
                case = make_case(ATTENTION_FP8, dict(zip(names, values, strict=True)), {"dim": dim})
            except UsageError:
                continue
            taken += 1
            assert case.smem <= LARGEST_SMEM
    assert taken > 20


def test_the_persistent_grid_has_no_more_ctas_than_tiles():
    assert of(300, heads=3).grid_on(132) == (9, 1, 1)
    assert of(300, heads=3).grid_on(4) == (4, 1, 1)
    assert of(300, 64, heads=3).grid_on(132) == (6, 1, 1)  # a third warpgroup takes 64 queries more


@pytest.mark.parametrize("dim", [32, 96, 256])
def test_other_head_dims_are_refused_by_name(dim):
    with pytest.raises(UsageError, match="shape dim="):
        of(100, dim)


def test_192_keys_leave_no_registers_beside_p_v_or_a_third_warpgroup():
    of(100, keys=192, accumulate="fast")
    with pytest.raises(UsageError, match="registers"):
        of(100, keys=192, accumulate="promoted")
    with pytest.raises(UsageError, match="registers"):
        of(100, 64, keys=192, consumers=3)
    assert of(9000, 64, keys=192).parameters["consumers"] == 2


@pytest.mark.parametrize(
    ("tokens", "dim", "causal", "consumers"), [(100, 64, 0, 3), (100, 64, 1, 2), (5000, 64, 1, 3), (100, 128, 0, 2)]
)
def test_64_elements_per_head_take_three_consumers_but_for_short_causal_rows(tokens, dim, causal, consumers):
    case = of(tokens, dim, causal=causal)
    assert case.parameters["consumers"] == consumers
    assert case.block[0] == 128 * (1 + consumers)


@pytest.mark.parametrize("polynomial", [0, 2])
@pytest.mark.parametrize(
    ("dim", "causal", "accumulate"),
    [(64, 0, "promoted"), (64, 1, "promoted"), (64, 0, "fast"), (128, 0, "promoted"), (128, 1, "fast")],
)
def test_registers_hold_everything_and_products_are_not_serialized(dim, causal, accumulate, polynomial):
    """Products are started in groups: Q K^T and P V before, in and after the loop. Serialized, each
    is a group of its own. In the loop the maximum is found before the wait for P V."""
    try:
        find_tool("nvcc")
        find_tool("nvdisasm")
    except MeasurementError as error:
        pytest.skip(str(error))
    built = build(of(5000, dim, causal=causal, accumulate=accumulate, polynomial=polynomial), "sm_90a")
    assert built.resources.spill_B == 0
    text = disassemble(built.cubin)
    products = [line for line in text.splitlines() if "QGMMA" in line]
    assert len(products) == 2 * (dim // 32) + 2 * (128 // 32)
    assert sum("gsb0" in line for line in products) == 4
    beside = text.split("WARPGROUP.DEPBAR.LE gsb0, 0x1", 1)[1].split("WARPGROUP.DEPBAR", 1)[0]
    assert opcodes(beside)["VIMNMX3"] >= 64 // 2  # a thread's scores, two by each


def test_another_architecture_is_refused_before_compiling():
    for arch in ("sm_89", "sm_100a"):
        with pytest.raises(UsageError, match="attention_fp8"):
            build(of(100), arch)
