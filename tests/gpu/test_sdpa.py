"""Attention over 8-bit keys and values on a real GPU: both paths right and alike, and its gates."""

from __future__ import annotations

import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu, occupancy
from ncubble.kernels.run.gates import gates_of, run_acceptance
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu
NAME = "sdpa_fp8_stage_c_wmma"


@pytest.fixture
def gpu():
    found = Gpu.open()
    yield found
    found.close()


def verified(parameters, shape, seed):
    outcome = execute(KernelRequest(NAME, parameters, shape, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("s", [1, 2, 16, 31, 32, 33, 63, 64, 65, 100, 511, 512, 513, 2048])
@pytest.mark.parametrize("path", [0, 1])
def test_any_sequence_length(path, s):
    verified({"use_cp_async": path}, {"b": 1, "h": 3, "s": s}, s)


@pytest.mark.parametrize("d", [16, 32, 48, 64])
@pytest.mark.parametrize("s", [7, 70, 160])
@pytest.mark.parametrize("path", [0, 1])
def test_heads_narrower_than_the_padded_tile(path, s, d):
    verified({"use_cp_async": path}, {"b": 2, "h": 5, "s": s, "d": d}, d)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shape", [{"b": 1, "h": 8, "s": 512}, {"b": 4, "h": 16, "s": 1024}], ids=str)
@pytest.mark.parametrize("path", [0, 1])
def test_seeds(path, shape, seed):
    verified({"use_cp_async": path}, shape, seed)


def result(gpu, path, shape):
    case = make_case(find_spec(NAME), {"use_cp_async": path}, shape)
    prepared = prepare(case, gpu)
    prepared.upload(draw_inputs(case, 11))
    prepared.poison()
    prepared.run()
    return prepared.outputs()[0]["out"].tobytes()


@pytest.mark.parametrize("shape", [{"s": 512}, {"s": 77, "d": 32}], ids=str)
def test_both_paths_agree_bit_for_bit(gpu, shape):
    assert result(gpu, 0, shape) == result(gpu, 1, shape)


def test_the_gates():
    outcome = run_acceptance(NAME, gates_of(NAME))
    outcome.require()
    assert len(outcome.checks) == 12
    assert outcome.gain_pct is not None


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        (NAME, {"use_cp_async": 0}),
        (NAME, {"use_cp_async": 1}),
        ("tensor_core_gemm", {"stages": 1}),
        ("tensor_core_gemm", {"stages": 6}),
        ("async_pipeline", {"stages": 6, "threads": 128}),
        ("softmax_online", {"threads": 1024}),
        ("warp_specialized", {"slots": 4}),
    ],
    ids=str,
)
def test_occupancy_is_what_the_driver_says(gpu, name, parameters):
    case = make_case(find_spec(name), parameters)
    built = build(case, gpu.arch)
    threads, used = case.block[0], built.resources
    found = occupancy(gpu.facts.compute_capability, threads, used.registers, used.smem_static_B + case.smem)
    kernel = gpu.load(built.cubin, case)
    assert found.ctas == kernel.occupancy.max_active_blocks_per_multiprocessor(threads, case.smem)
