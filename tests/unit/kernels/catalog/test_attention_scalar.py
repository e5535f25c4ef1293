"""Scalar attention without a GPU: what its two phases need, its tolerance, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.attention import ATTENTION_SCALAR
from ncubble.kernels.spec.case import make_case

PLAIN = {"copy": "plain", "stages": 1, "keys": 128}


def draw(tokens, dim):
    generator = np.random.default_rng(4)
    return {name: generator.standard_normal((1, 1, tokens, dim), dtype=np.float32).astype(np.float16) for name in "qkv"}


def as_the_kernel_computes(inputs, lost=slice(0)):
    """Attention in fp32, its result rounded to half; keys of ``lost`` are left out, as a bug
    would."""
    q, k, v = (np.delete(inputs[name][0, 0], lost if name != "q" else [], axis=0).astype(np.float32) for name in "qkv")
    scores = (q * np.float32(1.0 / math.sqrt(q.shape[1]))) @ k.T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return ((p @ v) / p.sum(axis=1, keepdims=True)).astype(np.float16).astype(np.float64)


@pytest.mark.parametrize(
    ("dim", "lost", "right"), [(64, slice(0), True), (128, slice(0), True), (128, slice(64, 65), False)]
)
def test_the_tolerance_covers_rounding_and_tells_a_lost_key(dim, lost, right):
    inputs = draw(2048, dim)
    case = make_case(ATTENTION_SCALAR, {}, {"heads": 1, "tokens": 2048, "dim": dim})
    expected = case.reference(inputs, np.arange(2048))["out"]
    error = np.abs(as_the_kernel_computes(inputs, lost) - expected)
    bad = error > case.tolerance.bound(expected)
    assert not bad.any() if right else bad.mean() > 0.05


def test_the_default_has_as_many_operations_as_document_004():
    assert make_case(ATTENTION_SCALAR).flops == pytest.approx(0.420 * 0.65e12, rel=0.01)


def test_the_second_phase_takes_a_second_buffer_of_64_kb_and_padding():
    first, second = make_case(ATTENTION_SCALAR, PLAIN), make_case(ATTENTION_SCALAR, {"keys": 128})
    assert second.parameters["stages"] == 2
    assert second.smem - first.smem == 64 * 1024 + 128 * 16
    assert second.smem <= 227 * 1024


def test_the_default_fits_the_shared_memory_of_an_ampere_cta():
    assert make_case(ATTENTION_SCALAR).smem <= 163 * 1024


def test_every_query_has_a_warp():
    for rows in (1, 4, 16):
        case = make_case(ATTENTION_SCALAR, {"rows": rows}, {"batch": 2, "heads": 3, "tokens": 100})
        assert case.grid == (6 * -(-100 // (8 * rows)), 1, 1)


@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({}, {"dim": 96}, "shape dim=96"),
        ({"rows": 1}, {"batch": 2**16, "heads": 2**12, "tokens": 64}, r"2\^31"),
        ({"stages": 4, "keys": 128}, {}, "shared memory"),
    ],
)
def test_what_it_cannot_take_is_refused(parameters, shape, message):
    with pytest.raises(UsageError, match=message):
        make_case(ATTENTION_SCALAR, parameters, shape)
