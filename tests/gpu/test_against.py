"""Kernels in turns with the library's calls, on a real GPU."""

from __future__ import annotations

import json

import pytest

from ncubble.cli import main as cli
from ncubble.kernels.catalog.registry import catalog
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.peers import Peer, time_against
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs

pytestmark = pytest.mark.gpu
GEMM = {"m": 1024, "n": 1024, "k": 1024}
SPECS = catalog()


def beside(name, parameters=None, shape=None):
    pytest.importorskip("torch")
    outcome = execute(KernelRequest(name, parameters or {}, shape or {}, against=True))
    assert outcome.verification.passed, outcome.verification.describe()
    return outcome


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.peer == "matmul"])
def test_cublas_computes_the_same_product(name):
    outcome = beside(name, {}, GEMM)
    # The largest results lie in 128..256: two roundings to neighbours differ by 2^-3 in half, by 1
    # in bfloat16.
    limit = {"float32": 0.01, "float16": 0.13, "bfloat16": 1.01}[SPECS[name].dtype]
    assert 0 <= outcome.against.max_abs_difference < limit
    assert "cuBLAS" in outcome.against.library and "(unknown" not in outcome.against.version


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.peer == "softmax"])
def test_torch_computes_the_same_softmax(name):
    assert beside(name, {}, {"rows": 4096, "cols": 4096}).against.max_abs_difference < 1e-5


def attentions():
    """Kernels of attention, with and without the causal mask where they have it."""
    for name, spec in SPECS.items():
        if spec.peer == "sdpa":
            masks = next((item.choices for item in spec.parameters if item.name == "causal"), ())
            yield from ((name, {"causal": mask}) for mask in masks) if masks else [(name, {})]


@pytest.mark.parametrize(("name", "parameters"), list(attentions()))
def test_cudnn_computes_the_same_attention(name, parameters):
    outcome = beside(name, parameters, {"batch": 2, "heads": 4, "tokens": 1024})
    assert "cuDNN" in outcome.against.library
    assert outcome.against.max_abs_difference < 0.05


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.peer == "copy"])
def test_a_copy_kernel_stands_beside_a_device_copy(name):
    outcome = execute(KernelRequest(name, {}, {"n": 2**26}, against=True))
    assert outcome.verification.passed
    assert outcome.against.fraction == pytest.approx(1.0, abs=0.05)
    assert outcome.against.max_abs_difference is None


def test_a_kernel_in_turns_with_itself_is_as_fast_as_itself():
    gpu = Gpu.open()
    try:
        case = KernelRequest("tensor_core_gemm", {}, {"m": 2048, "n": 2048, "k": 2048}).case()
        prepared = prepare(case, gpu)
        prepared.upload(draw_inputs(case, 0))
        timing, against = time_against(prepared, Peer("itself", "0", prepared.run, lambda: 0.0), 200)
    finally:
        gpu.close()
    assert timing.iterations == 200
    assert against.ratio == pytest.approx(1.0, abs=0.01)


def test_the_command_prints_both(capsys):
    pytest.importorskip("torch")
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "tiled_matmul", "-p", "m=1024,n=1024,k=1024", "--library", "--json"])
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    assert told["against"]["ratio"] == pytest.approx(told["against"]["timing"]["p50_us"] / told["timing"]["p50_us"])
    assert told["against"]["ratio_low"] <= told["against"]["ratio_high"]
    assert told["against"]["timing"]["clocks"]["sm_mhz"] > 0
