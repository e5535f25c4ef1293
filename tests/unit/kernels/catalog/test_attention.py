"""Attention without a GPU: references, tolerances, what is refused, and what each path needs."""

from __future__ import annotations

import itertools
import json
import math

import ml_dtypes
import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import build, disassemble, opcodes
from ncubble.kernels.catalog import sdpa
from ncubble.kernels.catalog.attention import ATTENTION_FP8, ATTENTION_FWD, ATTENTION_SCALAR, quantize
from ncubble.kernels.catalog.hopper_gemm import LARGEST_SMEM
from ncubble.kernels.run.launch import swizzle_of
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Tolerance
from tests.helpers.fake_gpu import FakeGpu

BFLOAT16, E4M3, HALF = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16
CAUSAL = pytest.mark.parametrize("causal", [0, 1])


def of(spec, tokens, dim=128, heads=1, **parameters):
    return make_case(spec, parameters, {"batch": 1, "heads": heads, "tokens": tokens, "dim": dim})


def by_loops(q, k, v, causal=0):
    """Attention as its definition reads, a key at a time."""
    out = np.zeros(q.shape)
    for batch, head, token in np.ndindex(q.shape[:3]):
        keys = range(token + 1 if causal else q.shape[2])
        weights = [math.exp(q[batch, head, token] @ k[batch, head, key] / math.sqrt(q.shape[3])) for key in keys]
        for key, weight in zip(keys, weights, strict=True):
            out[batch, head, token] += weight / sum(weights) * v[batch, head, key]
    return out


def widened(inputs):
    """The numbers that e4m3 and scales stand for, written out head by head."""
    whole = {name: inputs[name].astype(np.float64) for name in "qkv"}
    for name, head in itertools.product("qkv", np.ndindex(whole["q"].shape[:2])):
        whole[name][head] *= float(inputs[f"scale_{name}"][head]) if f"scale_{name}" in inputs else 1.0
    return whole


@CAUSAL
@pytest.mark.parametrize("spec", [ATTENTION_FWD, ATTENTION_FP8], ids=lambda spec: spec.name)
def test_the_reference_is_attention_of_the_scaled_numbers(spec, causal):
    case = of(spec, 7, 64, heads=6, causal=causal)
    inputs, rows = draw_inputs(case, 2), np.array([0, 6, 7, 20, 21, 41])  # first and last tokens of heads
    expected = by_loops(*widened(inputs).values(), causal).reshape(-1, 64)[rows]
    np.testing.assert_allclose(case.reference(inputs, rows)["out"], expected, rtol=1e-9)


def as_the_kernel_rounds(inputs, kind, rounded, result, causal=0, lost=slice(0), seen=0):
    """Attention of one head computed in ``kind`` with P ``rounded``, and ``result`` as the type of
    the result. Queries from ``seen`` on do not see the keys of ``lost``, as a bug would have it."""
    q, k, v = (widened(inputs)[name][0, 0].astype(kind) for name in "qkv")
    scores = (q / kind(math.sqrt(q.shape[1]))) @ k.T
    if causal:
        scores[np.triu_indices(len(q), 1)] = -np.inf
    scores[seen:, lost] = -np.inf
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (rounded(p) @ v / p.sum(axis=1, keepdims=True)).astype(np.float32).astype(result).astype(np.float64)


def in_bfloat16(p):
    return p.astype(np.float32).astype(BFLOAT16).astype(np.float64)


def in_e4m3(p):
    """2^8 times as large, for its range."""
    return (2.0**8 * p).astype(E4M3).astype(np.float64) / 2.0**8


ROUNDINGS = {
    ATTENTION_SCALAR.name: (np.float32, np.float32, HALF),
    ATTENTION_FWD.name: (np.float64, in_bfloat16, BFLOAT16),
    ATTENTION_FP8.name: (np.float64, in_e4m3, BFLOAT16),
}


@pytest.mark.parametrize(
    ("spec", "tokens", "dim", "causal"),
    [
        *[(ATTENTION_SCALAR, 2048, dim, None) for dim in (64, 128)],
        *[(ATTENTION_FWD, 1024, 128, causal) for causal in (0, 1)],
        *[(ATTENTION_FP8, 1500, dim, causal) for dim, causal in ((64, 0), (128, 1))],
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_tolerance_covers_rounding_and_is_of_its_size(spec, tokens, dim, causal):
    case = of(spec, tokens, dim, **({} if causal is None else {"causal": causal}))
    inputs, allowed = draw_inputs(case, 3), case.tolerance
    expected = case.reference(inputs, np.arange(tokens))["out"]
    error = np.abs(as_the_kernel_rounds(inputs, *ROUNDINGS[spec.name], causal or 0) - expected)
    assert (error <= allowed.bound(expected)).all()
    if spec is ATTENTION_FWD:
        assert (error <= Tolerance(allowed.absolute, allowed.relative, allowed.row / 2).bound(expected)).all()
    if spec is ATTENTION_FP8:
        assert (error > allowed.bound(expected) / 2).any()
        rms = np.sqrt((expected**2).mean(axis=1, keepdims=True))
        assert np.sqrt(((error / rms) ** 2).mean()) == pytest.approx(0.025, rel=0.15)  # which the header states


@pytest.mark.parametrize(
    ("spec", "tokens", "causal", "lost", "share"),
    [
        (ATTENTION_SCALAR, 2048, None, slice(64, 65), 0.05),
        (ATTENTION_FWD, 4096, 0, slice(64), 0.5),
        (ATTENTION_FWD, 4096, 1, slice(64), 0.5),
        (ATTENTION_FP8, 4096, 0, slice(128), 0.25),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_tolerance_tells_a_lost_key_or_tile_of_keys(spec, tokens, causal, lost, share):
    case = of(spec, tokens, 64 if spec is ATTENTION_FWD else 128, **({} if causal is None else {"causal": causal}))
    inputs, rows = draw_inputs(case, 3), np.arange(tokens - 1000, tokens)
    expected = case.reference(inputs, rows)["out"]
    wrong = as_the_kernel_rounds(inputs, *ROUNDINGS[spec.name], causal or 0, lost, seen=128)[rows]
    assert np.mean(np.abs(wrong - expected) > case.tolerance.bound(expected)) > share


@pytest.mark.parametrize("name", ["scale_q", "scale_v"])
def test_the_tolerance_tells_the_scale_of_another_head(name):
    case = of(ATTENTION_FP8, 300, heads=4)
    inputs, rows = draw_inputs(case, 5), np.arange(1200)
    expected = case.reference(inputs, rows)["out"]
    error = np.abs(case.reference({**inputs, name: np.roll(inputs[name], 1, axis=1)}, rows)["out"] - expected)
    assert np.mean(error > case.tolerance.bound(expected)) > 0.3


def test_each_head_uses_the_range_of_e4m3_and_has_scales_of_its_own():
    inputs = draw_inputs(of(ATTENTION_FP8, 50, 64, heads=6), 1)
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
    elements, scale = quantize(np.array([1.0, -0.5, 0.3, 0.0], np.float32).reshape(1, 1, 2, 2))
    assert scale[0, 0] == np.float32(1 / 448)
    assert elements.astype(np.float32).ravel().tolist() == [448.0, -224.0, 128.0, 0.0]  # 134.4 lies below 136


def test_attention_on_bytes_is_attention_of_what_they_stand_for():
    inputs = sdpa.draw(np.random.default_rng(5), {"b": 2, "h": 3, "s": 7, "d": 16})
    whole = [
        (inputs[name].astype(float) - 128) * inputs[f"{name}_scale"].astype(float)[..., None, None] for name in "kv"
    ]
    rows = np.array([0, 6, 7, 20, 41, 13])
    expected = by_loops(inputs["q"].astype(float), *whole).reshape(-1, 16)[rows]
    np.testing.assert_allclose(sdpa.attention(inputs, rows)["out"], expected, atol=1e-12)


def test_quantizing_to_bytes_uses_their_whole_range_and_errs_by_half_a_step():
    x = np.random.default_rng(1).standard_normal((1, 2, 64, 32), dtype=np.float32)
    u, scale = sdpa.quantize(x)
    assert np.abs(u.astype(int) - 128).max(axis=(2, 3)).tolist() == [[127, 127]]
    for head in range(2):
        error = np.abs(sdpa.dequant_sim_fp8(u[0, head], scale[0, head]) - x[0, head])
        assert error.max() <= 0.5001 * scale[0, head]


# What is launched.


def test_work_is_what_document_004_has_and_a_causal_mask_halves_it():
    assert make_case(ATTENTION_SCALAR).flops == pytest.approx(0.420 * 0.65e12, rel=0.01)
    full, half = (make_case(ATTENTION_FWD, {"causal": causal}, {"tokens": 4096}).flops for causal in (0, 1))
    assert full == 4.0 * 4 * 16 * 4096**2 * 128
    assert half / full == pytest.approx(0.5, abs=2e-4)


def test_the_second_phase_takes_a_second_buffer_of_64_kb_and_padding():
    first = make_case(ATTENTION_SCALAR, {"copy": "plain", "stages": 1, "keys": 128})
    second = make_case(ATTENTION_SCALAR, {"keys": 128})
    assert second.parameters["stages"] == 2
    assert second.smem - first.smem == 64 * 1024 + 128 * 16
    assert second.smem <= 227 * 1024
    assert make_case(ATTENTION_SCALAR).smem <= 163 * 1024, "the default fits a CTA on Ampere"


@pytest.mark.parametrize("spec", [ATTENTION_FWD, ATTENTION_FP8], ids=lambda spec: spec.name)
def test_whatever_is_taken_fits_shared_memory(spec):
    names, taken = [parameter.name for parameter in spec.parameters], 0
    for values in itertools.product(*(parameter.choices for parameter in spec.parameters)):
        for dim in (64, 128):
            try:
                case = make_case(spec, dict(zip(names, values, strict=True)), {"dim": dim})
            except UsageError:
                continue
            taken += 1
            assert case.smem <= LARGEST_SMEM
    assert taken > 20


@pytest.mark.parametrize(("spec", "width"), [(ATTENTION_FWD, 64), (ATTENTION_FP8, None)])
@pytest.mark.parametrize(("dim", "rows"), [(64, 192), (128, 128)])
def test_boxes_are_the_tiles_swizzled_by_a_row_and_do_not_cross_heads(spec, width, dim, rows):
    case = make_case(spec, shape={"batch": 3, "heads": 5, "tokens": 1000, "dim": dim})
    columns = width or dim
    assert [item.array for item in case.tensor_maps] == ["q", "k", "v"]
    assert [case.box(item) for item in case.tensor_maps] == [(1, rows, columns), (1, 128, columns), (1, 128, columns)]
    assert {swizzle_of(case, item) for item in case.tensor_maps} == {128 if width else dim}
    assert {case.mapped_extent(item) for item in case.tensor_maps} == {(15, 1000, dim)}
    assert make_case(ATTENTION_FWD, {"path": "cp_async"}).tensor_maps == ()


@pytest.mark.parametrize("path", ["tma", "cp_async"])
def test_heads_in_a_row_share_one_of_keys_and_values(path):
    case = of(ATTENTION_FWD, 7, 64, heads=6, path=path, group=3, causal=1)
    inputs, rows = draw_inputs(case, 3), np.arange(42)
    assert (inputs["q"].shape, inputs["k"].shape, inputs["v"].shape) == ((1, 6, 7, 64), (1, 2, 7, 64), (1, 2, 7, 64))
    whole = {"q": inputs["q"], **{name: inputs[name].repeat(3, axis=1) for name in "kv"}}
    expected = case.reference(whole, rows)["out"]
    np.testing.assert_array_equal(case.reference(inputs, rows)["out"], expected)
    extents = {item.array: case.mapped_extent(item) for item in case.tensor_maps}
    assert extents == ({"q": (6, 7, 64), "k": (2, 7, 64), "v": (2, 7, 64)} if path == "tma" else {})
    assert "GROUP=3" in case.defines and case.bytes == (6 + 2 + 2 + 6) * 7 * 64 * 2
    alone = of(ATTENTION_FWD, 7, 64, heads=6, path=path, causal=1)
    assert alone.flops == case.flops and "group" not in alone.label and "GROUP=1" not in alone.defines
    with pytest.raises(UsageError, match="multiple of group=4"):
        of(ATTENTION_FWD, 7, 64, heads=6, group=4)


def test_the_grid_has_no_more_ctas_than_tiles():
    for spec in (ATTENTION_FWD, ATTENTION_FP8):
        case = of(spec, 300, heads=3)
        assert (case.grid_on(132), case.grid_on(4)) == ((9, 1, 1), (4, 1, 1))
    assert of(ATTENTION_FP8, 300, 64, heads=3).grid_on(132) == (6, 1, 1)  # a third warpgroup takes 64 queries more
    assert make_case(ATTENTION_FWD, {"path": "cp_async"}, {"tokens": 129}).grid_on(4) == (128, 1, 1)
    for rows in (1, 4, 16):
        assert of(ATTENTION_SCALAR, 100, heads=6, rows=rows).grid == (6 * -(-100 // (8 * rows)), 1, 1)


@pytest.mark.parametrize(
    ("path", "dim", "slack"), [("tma", 128, 8), ("tma", 64, 0), ("cp_async", 128, 0), ("cp_async", 64, 0)]
)
def test_the_maximum_may_lag_only_where_rescaling_is_long(path, dim, slack):
    assert f"SLACK={slack}" in of(ATTENTION_FWD, 100, dim, path=path).defines


@pytest.mark.parametrize(
    ("tokens", "dim", "given", "consumers"),
    [
        (100, 64, {}, 3),
        (100, 64, {"causal": 1}, 2),
        (5000, 64, {"causal": 1}, 3),
        (100, 128, {}, 2),
        (9000, 64, {"keys": 192}, 2),
    ],
)
def test_64_elements_per_head_take_three_consumers_but_for_short_causal_rows(tokens, dim, given, consumers):
    case = of(ATTENTION_FP8, tokens, dim, **given)
    assert case.parameters["consumers"] == consumers
    assert case.block[0] == 128 * (1 + consumers)


@pytest.mark.parametrize(
    ("spec", "parameters", "shape", "message"),
    [
        *[(spec, {}, {"dim": dim}, "shape dim=") for spec in (ATTENTION_FWD, ATTENTION_FP8) for dim in (32, 96, 256)],
        (ATTENTION_SCALAR, {}, {"dim": 96}, "shape dim=96"),
        (ATTENTION_FWD, {}, {"batch": 2**20, "heads": 2**12}, r"2\^31"),
        (ATTENTION_SCALAR, {"rows": 1}, {"batch": 2**16, "heads": 2**12, "tokens": 64}, r"2\^31"),
        (ATTENTION_SCALAR, {"stages": 4, "keys": 128}, {}, "shared memory"),
        (ATTENTION_FP8, {"keys": 192, "accumulate": "promoted"}, {}, "registers"),
        (ATTENTION_FP8, {"keys": 192, "consumers": 3}, {"dim": 64}, "registers"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_it_cannot_take_is_refused(spec, parameters, shape, message):
    with pytest.raises(UsageError, match=message):
        make_case(spec, parameters, shape)
    of(ATTENTION_FP8, 100, keys=192, accumulate="fast")


@pytest.mark.usefixtures("compiler")
def test_by_default_the_path_follows_the_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("NCUBBLE_FACTS", str(tmp_path / "facts.json"))
    gpu = FakeGpu()
    gpu.arch = "sm_80"
    shape = {"batch": 1, "heads": 1, "tokens": 40, "dim": 64}
    outcome = execute(KernelRequest("attention_fwd", {}, shape, seed=1, iterations=0), lambda: gpu)
    assert outcome.verification.passed
    assert outcome.case.label.startswith("attention_fwd path=cp_async causal=0 stages=2 ")
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["kernel"]["parameters"] == {"path": "cp_async", "causal": 0, "stages": 2}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("polynomial", [0, 2])
@pytest.mark.parametrize(
    ("dim", "causal", "accumulate"),
    [(64, 0, "promoted"), (64, 1, "promoted"), (64, 0, "fast"), (128, 0, "promoted"), (128, 1, "fast")],
)
def test_registers_hold_everything_and_products_are_not_serialized(dim, causal, accumulate, polynomial):
    """Products are started in groups: Q K^T and P V before, in and after the loop. Serialized, each
    is a group of its own. In the loop the maximum is found before the wait for P V."""
    case = of(ATTENTION_FP8, 5000, dim, causal=causal, accumulate=accumulate, polynomial=polynomial)
    built = build(case, "sm_90a")
    assert built.resources.spill_B == 0
    text = disassemble(built.cubin)
    products = [line for line in text.splitlines() if "QGMMA" in line]
    assert len(products) == 2 * (dim // 32) + 2 * (128 // 32)
    assert sum("gsb0" in line for line in products) == 4
    beside = text.split("WARPGROUP.DEPBAR.LE gsb0, 0x1", 1)[1].split("WARPGROUP.DEPBAR", 1)[0]
    assert opcodes(beside)["VIMNMX3"] >= 64 // 2  # a thread's scores, two by each
