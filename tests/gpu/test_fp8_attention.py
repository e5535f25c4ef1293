"""Attention on e4m3 on a GPU: right over masks, head dims, ways of adding, tiles, remainders of
tokens and repeated launches; how far off; and how fast."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import time_in_rounds
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import choose_rows, draw_inputs, verify
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu

DIMS = (64, 128)
# One token; tiles of 128 or 192 queries and 64, 128 and 192 keys, one short of full, full and one
# over; several tiles with a remainder; a token count that is no multiple of 8.
TOKENS = (1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 257, 1000, 1023)
FEWER = (1, 129, 193, 1023)
PROMOTED, FAST = {"accumulate": "promoted"}, {"accumulate": "fast"}
WIDE = {**FAST, "keys": 192, "polynomial": 4}  # 128 elements per head only
WAYS = (PROMOTED, FAST, {**PROMOTED, "keys": 64}, WIDE)
TRIED = [(way, dim) for way in WAYS for dim in DIMS if way is not WIDE or dim == 128]
SIZES = [(way, dim, tokens) for way, dim in TRIED for tokens in (TOKENS if way is PROMOTED else FEWER)]


def shape_of(batch, heads, tokens, dim):
    return {"batch": batch, "heads": heads, "tokens": tokens, "dim": dim}


@pytest.fixture(scope="module", autouse=True)
def _built():
    """Compiles all at once, where there are cores for it."""
    gpu = Gpu.open()
    wanted = [({**way, "causal": causal}, dim) for way, dim in TRIED for causal in (0, 1)]
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda one: build(make_case(find_spec("attention_fp8"), one[0], {"dim": one[1]}), gpu.arch), wanted
            )
        )
    gpu.close()


@pytest.mark.parametrize(("way", "dim", "tokens"), SIZES, ids=str)
@pytest.mark.parametrize("causal", [0, 1])
def test_any_number_of_tokens(way, causal, dim, tokens):
    request = KernelRequest(
        "attention_fp8", {**way, "causal": causal}, shape_of(1, 3, tokens, dim), seed=tokens, iterations=0
    )
    verification = execute(request).verification
    assert verification.passed, verification.describe()


def launched(case, seed, change=None, launches=1):
    """Inputs and the results of every launch, each verified against float64."""
    gpu = Gpu.open()
    try:
        prepared = prepare(case, gpu)
        inputs = draw_inputs(case, seed)
        if change:
            change(inputs)
        prepared.upload(inputs)
        for _ in range(launches):
            prepared.poison()
            prepared.run()
            outputs, overrun = prepared.outputs()
            outcome = verify(case, inputs, outputs, seed, overrun)
            assert outcome.passed, outcome.describe()
        return inputs, outputs
    finally:
        gpu.close()


@pytest.mark.parametrize(("way", "dim"), TRIED, ids=str)
def test_several_tiles_a_cta_and_every_launch_finds_its_counters(way, dim):
    """Sections of heads of which the last is not full."""
    launched(make_case(find_spec("attention_fp8"), {**way, "causal": 1}, shape_of(2, 29, 530, dim)), 5, launches=3)


@pytest.mark.parametrize("way", [PROMOTED, FAST], ids=str)
@pytest.mark.parametrize("factor", [1e-3, 30.0])
def test_scores_of_any_size_give_finite_results(way, factor):
    """One key beats all others by far, then none does."""

    def change(inputs):
        inputs["scale_q"] *= np.float32(factor)

    launched(make_case(find_spec("attention_fp8"), {**way, "causal": 1}, shape_of(1, 2, 777, 128)), 11, change)


@pytest.mark.parametrize(("way", "dim"), TRIED, ids=str)
@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_of_one_sign(sign, way, dim):
    """Maxima are compared as integers, which is right for those that are not negative: a warp with
    others looks for the least integer. Here no warp does, or every one."""

    def change(inputs):
        for name, factor in (("q", 1), ("k", sign)):
            inputs[name] = (factor * np.abs(inputs[name].astype(np.float32))).astype(inputs[name].dtype)

    launched(make_case(find_spec("attention_fp8"), {**way, "causal": 1}, shape_of(1, 3, 385, dim)), 7, change)


def relative_rms(way, positive):
    """Root mean square of the errors over that of the results, by rows; V of one sign or not."""

    def change(inputs):
        if positive:
            inputs["v"] = np.abs(inputs["v"].astype(np.float32)).astype(inputs["v"].dtype)

    case = make_case(find_spec("attention_fp8"), way, shape_of(1, 2, 4096, 128))
    inputs, outputs = launched(case, 3, change)
    rows = choose_rows(case, 3)
    reference = case.reference(inputs, rows)["out"]
    error = outputs["out"].reshape(-1, 128)[rows].astype(np.float64) - reference
    return float(np.sqrt((error**2).mean() / (reference**2).mean()))


def test_errors_are_those_of_rounding_p():
    assert relative_rms(PROMOTED, positive=False) == pytest.approx(0.026, abs=0.002)


def test_values_of_one_sign_show_what_tensor_cores_cut_off():
    promoted, fast = relative_rms(PROMOTED, positive=True), relative_rms(FAST, positive=True)
    assert promoted < 0.005
    assert fast > 0.02


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("dim", "tokens", "least"), [(128, 1024, 1.2), (128, 4096, 1.2), (64, 4096, 1.1)])
def test_it_is_faster_than_in_bfloat16(dim, tokens, least, causal):
    """The target is 1.2; 64 elements per head miss it."""
    shape = shape_of(2**21 // (tokens * dim), 16, tokens, dim)
    gpu = Gpu.open()
    try:
        sides = []
        for name in ("attention_fwd", "attention_fp8"):
            prepared = prepare(make_case(find_spec(name), {"causal": causal}, shape), gpu)
            prepared.upload(draw_inputs(prepared.case, 1))
            sides.append(prepared.run)
        bfloat16, e4m3 = time_in_rounds(gpu, sides)
    finally:
        gpu.close()
    assert bfloat16.timing.p50_us / e4m3.timing.p50_us >= least
