"""Rung 8 without a GPU: its reference, its tolerance, what it refuses, and what its two paths
need."""

from __future__ import annotations

import json
import math

import ml_dtypes
import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.attention import ATTENTION_FWD
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Tolerance
from tests.helpers.fake_gpu import FakeGpu

BFLOAT16 = ml_dtypes.bfloat16


def draw(seed, batch, heads, tokens, dim):
    generator = np.random.default_rng(seed)
    return {
        name: generator.standard_normal((batch, heads, tokens, dim), dtype=np.float32).astype(BFLOAT16)
        for name in "qkv"
    }


def by_loops(inputs, causal):
    """Attention as its definition reads, a key at a time."""
    q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
    out = np.zeros(q.shape)
    for batch, head, token in np.ndindex(q.shape[:3]):
        keys = range(token + 1 if causal else q.shape[2])
        weights = [math.exp(q[batch, head, token] @ k[batch, head, key] / math.sqrt(q.shape[3])) for key in keys]
        for key, weight in zip(keys, weights, strict=True):
            out[batch, head, token] += weight / sum(weights) * v[batch, head, key]
    return out


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_is_attention(causal):
    inputs = draw(0, 2, 3, 7, 8)
    rows = np.array([0, 6, 7, 20, 21, 41])  # first and last tokens of heads, one in between
    found = reference.attention(inputs, rows, causal)["out"]
    np.testing.assert_allclose(found, by_loops(inputs, causal).reshape(-1, 8)[rows], rtol=1e-12)


def test_the_reference_follows_the_parameter_causal():
    inputs, rows = draw(1, 1, 1, 5, 8), np.arange(5)
    for causal in (0, 1):
        found = make_case(ATTENTION_FWD, {"causal": causal}).reference(inputs, rows)["out"]
        np.testing.assert_allclose(found, by_loops(inputs, bool(causal))[0, 0], rtol=1e-12)


def as_the_kernel_rounds(inputs, causal, first_key=0):
    """Attention with P and the result rounded to bfloat16; keys before ``first_key`` are left out,
    as a bug would."""
    q, k, v = (inputs[name][0, 0].astype(np.float64) for name in "qkv")
    scores = q @ k.T / math.sqrt(q.shape[1])
    tokens = len(q)
    if causal:
        scores[np.triu_indices(tokens, 1)] = -np.inf
    if first_key:
        scores[first_key:, :first_key] = -np.inf
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    rounded = p.astype(np.float32).astype(BFLOAT16).astype(np.float64)
    out = (rounded @ v) / p.sum(axis=1, keepdims=True)
    return out.astype(np.float32).astype(BFLOAT16).astype(np.float64)


@pytest.mark.parametrize("causal", [False, True])
def test_the_tolerance_covers_rounding_with_room(causal):
    inputs = draw(2, 1, 1, 1024, 128)
    expected = reference.attention(inputs, np.arange(1024), causal)["out"]
    tolerance = make_case(ATTENTION_FWD).tolerance
    error = np.abs(as_the_kernel_rounds(inputs, causal) - expected)
    assert (error <= tolerance.bound(expected)).all()
    assert (error <= Tolerance(tolerance.absolute, tolerance.relative, tolerance.row / 2).bound(expected)).all()


@pytest.mark.parametrize("causal", [False, True])
def test_the_tolerance_tells_a_lost_tile_of_keys(causal):
    inputs = draw(3, 1, 1, 4096, 64)
    rows = np.arange(3000, 4096)
    expected = reference.attention(inputs, rows, causal)["out"]
    tolerance = make_case(ATTENTION_FWD).tolerance
    error = np.abs(as_the_kernel_rounds(inputs, causal, first_key=64)[rows] - expected)
    assert np.mean(error > tolerance.bound(expected)) > 0.5


def test_the_tolerance_by_rows_is_the_root_mean_square():
    expected = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(Tolerance(row=2.0).bound(expected), [[math.sqrt(50.0)] * 2, [0.0] * 2])
    np.testing.assert_allclose(Tolerance(1.0, 0.5, 2.0).bound(expected)[0], 1.0 + expected[0] / 2 + math.sqrt(50.0))
    np.testing.assert_allclose(Tolerance(row=1.0).bound(np.array([3.0, -4.0])), [3.0, 4.0])


def test_the_causal_mask_halves_the_work():
    shape = {"tokens": 4096}
    full, half = (make_case(ATTENTION_FWD, {"causal": causal}, shape).flops for causal in (0, 1))
    assert full == 4.0 * 4 * 16 * 4096**2 * 128
    assert half / full == pytest.approx(0.5, abs=2e-4)


def test_only_the_hopper_path_takes_tensor_maps():
    assert [item.array for item in make_case(ATTENTION_FWD).tensor_maps] == ["q", "k", "v"]
    assert make_case(ATTENTION_FWD, {"path": "cp_async"}).tensor_maps == ()


@pytest.mark.parametrize(("dim", "rows"), [(64, 192), (128, 128)])
def test_boxes_are_the_tiles_and_do_not_cross_heads(dim, rows):
    case = make_case(ATTENTION_FWD, shape={"batch": 3, "heads": 5, "tokens": 1000, "dim": dim})
    boxes = [case.box(item) for item in case.tensor_maps]
    assert boxes == [(1, rows, 64), (1, 128, 64), (1, 128, 64)]
    assert {case.mapped_extent(item) for item in case.tensor_maps} == {(15, 1000, dim)}


def test_the_persistent_grid_has_no_more_ctas_than_tiles():
    case = make_case(ATTENTION_FWD, shape={"batch": 1, "heads": 3, "tokens": 300})
    assert case.grid_on(132) == (9, 1, 1)
    assert case.grid_on(4) == (4, 1, 1)
    assert make_case(ATTENTION_FWD, {"path": "cp_async"}, {"tokens": 129}).grid_on(4) == (128, 1, 1)


@pytest.mark.parametrize(
    ("path", "dim", "slack"), [("tma", 128, 8), ("tma", 64, 0), ("cp_async", 128, 0), ("cp_async", 64, 0)]
)
def test_the_maximum_may_lag_only_where_rescaling_is_long(path, dim, slack):
    assert f"SLACK={slack}" in make_case(ATTENTION_FWD, {"path": path}, {"dim": dim}).defines


def test_every_ring_fits_the_shared_memory_of_a_hopper_cta():
    for dim in (64, 128):
        for stages in (2, 3, 4, 5, 6):
            for path in ("cp_async", "tma"):
                case = make_case(ATTENTION_FWD, {"path": path, "stages": stages}, {"dim": dim})
                assert case.smem <= 227 * 1024


@pytest.mark.parametrize("dim", [32, 96, 192, 256])
def test_other_head_dims_are_refused_by_name(dim):
    with pytest.raises(UsageError, match="shape dim="):
        make_case(ATTENTION_FWD, shape={"dim": dim})


def test_more_tiles_than_the_kernel_counts_are_refused():
    with pytest.raises(UsageError, match=r"2\^31"):
        make_case(ATTENTION_FWD, shape={"batch": 2**20, "heads": 2**12})


def test_the_hopper_path_is_refused_elsewhere_with_the_setting():
    for arch in ("sm_80", "sm_89", "sm_100a"):
        with pytest.raises(UsageError, match="path=tma"):
            build(make_case(ATTENTION_FWD, {"path": "tma"}), arch)


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
