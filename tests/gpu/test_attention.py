"""Rung 8 on a GPU: right over paths, masks, head dims, remainders of tokens, ring depths and
repeated launches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu

DIMS = (64, 128)
STAGES = (2, 3, 4, 5, 6)
# One token; tiles of 64, 128 and 192 queries and of 64 and 128 keys, one short of full, full and
# one over; several tiles with a remainder; a token count that is no multiple of 8.
TOKENS = (1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 257, 1000, 1023)
PATHS = [(path, causal) for path in ("cp_async", "tma") for causal in (0, 1)]


def settings(path, causal, stages=4):
    return {"path": path, "causal": causal, "stages": stages}


def shape_of(batch, heads, tokens, dim):
    return {"batch": batch, "heads": heads, "tokens": tokens, "dim": dim}


@pytest.fixture(scope="module", autouse=True)
def _built():
    """Compiles all at once, where there are cores for it."""
    gpu = Gpu.open()
    wanted = [(settings(path, causal), dim) for path, causal in PATHS for dim in DIMS]
    wanted += [(settings(path, 1, stages), dim) for path in ("cp_async", "tma") for stages in STAGES for dim in DIMS]
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda one: build(make_case(find_spec("attention_fwd"), one[0], {"dim": one[1]}), gpu.arch), wanted
            )
        )
    gpu.close()


def verified(parameters, shape, seed=None):
    outcome = execute(KernelRequest("attention_fwd", parameters, shape, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()
    return outcome


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("path", "causal"), PATHS)
def test_any_number_of_tokens(path, causal, dim, tokens):
    verified(settings(path, causal), shape_of(1, 3, tokens, dim), seed=tokens)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("path", ["cp_async", "tma"])
def test_any_depth_of_the_ring(path, stages, dim):
    verified(settings(path, 1, stages), shape_of(1, 2, 1500, dim), seed=stages)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("path", "causal"), PATHS)
def test_more_tiles_than_a_gpu_has_sms(path, causal, dim, seed):
    """The persistent path takes several tiles per CTA, from sections of heads of which the last is
    not full."""
    verified(settings(path, causal), shape_of(2, 29, 530, dim), seed=seed)


@pytest.mark.parametrize("causal", [0, 1])
def test_long_heads(causal):
    """More keys than a section of heads may hold in L2: a section is one head then."""
    verified(settings("tma", causal), shape_of(1, 1, 40000, 128), seed=7)


@pytest.mark.parametrize(("path", "causal"), PATHS)
def test_the_default_shape(path, causal):
    verified(settings(path, causal), {})


def test_scores_of_any_size_give_finite_results():
    """One key beats all others by far, then none does: the running maximum leaps, and the sum
    nearly vanishes."""
    for scale in (1e-3, 30.0):
        check_with_scaled_queries(settings("tma", 1), scale)
        check_with_scaled_queries(settings("cp_async", 1), scale)


def check_with_scaled_queries(parameters, scale):
    case = make_case(find_spec("attention_fwd"), parameters, shape_of(1, 2, 777, 128))
    gpu = Gpu.open()
    try:
        prepared = prepare(case, gpu)
        inputs = draw_inputs(case, 11)
        inputs["q"] = (inputs["q"].astype("float32") * scale).astype(inputs["q"].dtype)
        prepared.upload(inputs)
        prepared.poison()
        prepared.run()
        outputs, overrun = prepared.outputs()
        outcome = verify(case, inputs, outputs, 11, overrun)
        assert outcome.passed, outcome.describe()
    finally:
        gpu.close()


@pytest.mark.parametrize("dim", DIMS)
def test_every_launch_finds_its_counters_as_the_first_did(dim):
    case = make_case(find_spec("attention_fwd"), settings("tma", 1), shape_of(2, 40, 600, dim))
    gpu = Gpu.open()
    try:
        prepared = prepare(case, gpu)
        inputs = draw_inputs(case, 5)
        prepared.upload(inputs)
        for _ in range(3):
            prepared.poison()
            prepared.run()
            outputs, overrun = prepared.outputs()
            outcome = verify(case, inputs, outputs, 5, overrun)
            assert outcome.passed, outcome.describe()
    finally:
        gpu.close()


def test_a_ring_that_does_not_fit_is_refused_before_launch(monkeypatch):
    gpu = Gpu.open()
    try:
        monkeypatch.setattr(gpu, "facts", replace(gpu.facts, smem_per_cta=100_000))
        with pytest.raises(UsageError, match="bytes of shared memory per CTA"):
            prepare(make_case(find_spec("attention_fwd")), gpu)
    finally:
        gpu.close()


@pytest.mark.parametrize("causal", [0, 1])
def test_it_reaches_nine_tenths_of_cudnn(causal):
    pytest.importorskip("torch")
    outcome = execute(KernelRequest("attention_fwd", settings("tma", causal), against=True))
    assert outcome.verification.passed
    assert outcome.against.max_abs_difference < 0.02
    assert outcome.against.ratio >= 0.9
