"""Every kernel on a real GPU: right over parameters, shapes and seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
OWN = Path(__file__).parents[1] / "data" / "catalog"
GEMM_SHAPES = [{"m": 128, "n": 128, "k": 32}, {"m": 384, "n": 640, "k": 96}, {"m": 1024, "n": 256, "k": 2048}]
SEEDS = (0, 1, 2)


def verified(name, parameters, shape, seed, catalog=None):
    outcome = execute(KernelRequest(name, parameters, shape, catalog, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()
    return outcome


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", GEMM_SHAPES, ids=str)
def test_tiled_matmul(shape, seed):
    verified("tiled_matmul", {}, shape, seed)


@pytest.mark.parametrize("shape", GEMM_SHAPES, ids=str)
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("stages", [2, 3, 4, 5, 6])
def test_async_pipeline(stages, threads, shape):
    verified("async_pipeline", {"stages": stages, "threads": threads}, shape, stages)


@pytest.mark.parametrize("shape", GEMM_SHAPES, ids=str)
@pytest.mark.parametrize("vec", [4, 16])
@pytest.mark.parametrize("copy", ["plain", "async"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 6])
def test_tensor_core_gemm(stages, copy, vec, shape):
    verified("tensor_core_gemm", {"stages": stages, "copy": copy, "vec": vec}, shape, stages)


@pytest.mark.parametrize("name", ["tiled_matmul", "async_pipeline", "tensor_core_gemm"])
def test_the_default_shape(name):
    verified(name, {}, {}, None)


@pytest.mark.parametrize(
    "shape",
    [
        *({"rows": rows, "cols": cols} for rows in (1, 77) for cols in (1, 3, 4, 1000, 1001, 4096, 4100, 20000)),
        {"rows": 16384, "cols": 4096},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["softmax_online", "numba_softmax_online"])
def test_softmax(name, shape):
    verified(name, {}, shape, None)


@pytest.mark.parametrize("items", [1, 2, 4])
@pytest.mark.parametrize("threads", [128, 256, 512, 1024])
def test_softmax_parameters(threads, items):
    # Whole blocks, a piece more, rows aligned to 4 and to 8 bytes, and one that no shared memory
    # holds.
    for cols in (threads * items * 4, threads * items * 4 + 4, 1001, 1002, 60_000):
        parameters = {"threads": threads, "items": items, "stages": {1: 6, 2: 1, 4: 3}[items]}
        verified("softmax_online", parameters, {"rows": 33, "cols": cols}, None)


@pytest.mark.parametrize("threads", [128, 256, 512, 1024])
def test_softmax_in_registers(threads):
    for cols in (4, threads * 4, threads * 4 + 4, threads * 32):
        verified("softmax_online", {"path": "registers", "threads": threads}, {"rows": 33, "cols": cols}, None)


@pytest.mark.parametrize(
    "shape", [{"m": 1, "n": 1, "k": 1}, {"m": 65, "n": 130, "k": 33}, {"m": 512, "n": 512, "k": 512}]
)
@pytest.mark.parametrize("blocking", [1, 2, 4])
def test_numba_tiled_matmul(blocking, shape):
    verified("numba_tiled_matmul", {"blocking": blocking}, shape, None)


@pytest.mark.parametrize("name", ["saxpy", "numba_scale"])
def test_an_own_kernel(name):
    verified(name, {}, {"n": 1_000_003}, None, OWN)


def test_bench_reports_time_and_rate():
    outcome = execute(KernelRequest("tensor_core_gemm", {"stages": 2}, {"m": 1024, "n": 1024, "k": 1024}))
    assert outcome.timing.iterations >= 100
    assert 0 < outcome.timing.min_us <= outcome.timing.p50_us <= outcome.timing.p90_us
    assert 0 < outcome.rates.fraction < 1
    assert outcome.facts["build"]["spill_B"] == 0


def time_of(name, parameters, shape=None):
    outcome = execute(KernelRequest(name, parameters, shape or {}))
    assert outcome.verification.passed
    return outcome.timing.p50_us


def test_async_pipeline_beats_plain_loads_also_with_half_the_warps():
    baseline = time_of("tiled_matmul", {})
    assert time_of("async_pipeline", {"stages": 3}) < baseline
    assert time_of("async_pipeline", {"stages": 3, "threads": 128}) < baseline


def test_softmax_reaches_nine_tenths_of_a_device_copy():
    outcome = execute(KernelRequest("softmax_online"))
    assert outcome.verification.passed
    assert outcome.rates.fraction >= 0.9


SCALAR = [
    *({"copy": "plain", "stages": 1, "keys": keys, "rows": rows} for keys in (64, 128) for rows in (1, 16)),
    *({"copy": "async", "stages": 2, "keys": keys, "rows": rows} for keys in (64, 128) for rows in (1, 4, 8, 16)),
    {"copy": "plain", "stages": 2, "keys": 64, "rows": 8},
    {"copy": "async", "stages": 1, "keys": 128, "rows": 8},
    {"copy": "async", "stages": 4, "keys": 64, "rows": 4},
]


@pytest.mark.parametrize("parameters", SCALAR, ids=str)
def test_scalar_attention(parameters):
    for dim, tokens in ((64, 1), (64, 300), (128, 64), (128, 333)):
        shape = {"batch": 2, "heads": 3, "tokens": tokens, "dim": dim}
        verified("attention_scalar", parameters, shape, None)


@pytest.mark.parametrize("parameters", [{"copy": "plain", "stages": 1}, {}], ids=str)
def test_both_phases_of_scalar_attention_exceed_what_document_004_calls_excellent(parameters):
    outcome = execute(KernelRequest("attention_scalar", parameters))
    assert outcome.verification.passed
    assert outcome.rates.tflops >= 15
