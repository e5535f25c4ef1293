"""A request from start to end on a GPU made of host memory (the sources are really compiled)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ncubble.errors import MeasurementError, UsageError, VerificationError
from ncubble.kernels import __main__ as program
from ncubble.kernels.run import launch
from ncubble.kernels.run.session import KernelRequest, describe, execute
from tests.helpers.fake_gpu import FakeGpu

pytestmark = pytest.mark.usefixtures("compiler")

SMALL = {"m": 256, "n": 128, "k": 64}


@pytest.fixture
def request_once():
    return KernelRequest("tensor_core_gemm", {"stages": 2}, SMALL, seed=3, iterations=0)


def test_profile_mode_launches_exactly_once_and_times_nothing(request_once):
    gpu = FakeGpu()
    outcome = execute(replace(request_once, verify=False), lambda: gpu)
    assert gpu.log.count("launch") == 1
    assert "download" not in gpu.log
    assert outcome.verification is None and outcome.timing is None
    assert gpu.closed


def test_what_cannot_be_verified_is_timed_without_and_says_so(request_once):
    gpu = FakeGpu()
    ablated = replace(request_once, parameters={"stages": 2, "ablate": "copy"}, iterations=100)
    outcome = execute(ablated, lambda: gpu)
    assert outcome.verification is None and outcome.timing is not None
    assert "download" not in gpu.log
    assert any("verify  skipped: ablate=copy" in line for line in describe(outcome))
    with pytest.raises(UsageError, match="ablate=copy"):
        execute(replace(ablated, iterations=0), lambda: gpu)
    assert execute(replace(ablated, iterations=0, verify=False), lambda: gpu).timing is None


def test_profile_mode_launches_as_often_as_asked(request_once):
    gpu = FakeGpu()
    execute(replace(request_once, launches=4), lambda: gpu)
    assert gpu.log.count("launch") == 4


def test_outputs_are_poisoned_before_the_launch(request_once):
    gpu = FakeGpu()
    execute(request_once, lambda: gpu)
    assert gpu.log.index("fill") < gpu.log.index("launch")


def test_a_right_kernel_is_verified_then_timed(request_once):
    gpu = FakeGpu()
    outcome = execute(replace(request_once, iterations=100), lambda: gpu)
    assert outcome.verification.passed
    assert gpu.log.index("download") < gpu.log.index("launch", gpu.log.index("launch") + 1)
    assert outcome.timing.iterations == 100
    assert outcome.timing.p50_us == pytest.approx(1000.0)
    assert outcome.timing.std_us == pytest.approx(0.0, abs=1e-6)
    assert outcome.rates.tflops == pytest.approx(2 * 256 * 128 * 64 / 1e-3 / 1e12)
    peak = 4096 * 132 * 1980e6 / 1e12
    assert outcome.rates.peak == pytest.approx(peak)


def test_a_memory_bound_kernel_is_related_to_a_device_copy():
    request = KernelRequest("softmax_online", shape={"rows": 64, "cols": 256}, seed=1)
    outcome = execute(request, FakeGpu)
    moved = 2 * 64 * 256 * 4
    assert outcome.rates.tflops is None
    assert outcome.rates.gb_per_s == pytest.approx(moved / 1e-3 / 1e9)
    assert outcome.rates.peak == pytest.approx(moved / 0.5e-3 / 1e9)
    assert outcome.rates.fraction == pytest.approx(0.5)


def spoil_one_element(views, gpu):
    views["c"][100, 100] += 1.0


def leave_unwritten(views, gpu):
    views["c"].view("uint8")[:] = 0xFF


@pytest.mark.parametrize("spoil", [spoil_one_element, leave_unwritten], ids=lambda spoil: spoil.__name__)
def test_a_wrong_kernel_is_not_timed(request_once, spoil):
    gpu = FakeGpu(spoil)
    outcome = execute(replace(request_once, iterations=100), lambda: gpu)
    assert not outcome.verification.passed
    assert outcome.timing is None
    assert gpu.log.count("launch") == 1
    assert "WRONG" in "\n".join(describe(outcome))
    with pytest.raises(VerificationError):
        outcome.verification.require("x", 0)


def test_a_write_past_the_end_is_caught(request_once):
    def spoil(views, gpu):
        largest = max(gpu.memory.values(), key=len)
        largest[-1] = 0

    outcome = execute(request_once, lambda: FakeGpu(spoil))
    assert outcome.verification.overrun == ("c",)
    assert not outcome.verification.passed


def test_too_much_shared_memory_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(launch, "build", lambda *_: pytest.fail("built"))
    gpu = FakeGpu()
    gpu.facts = replace(gpu.facts, smem_per_cta=99 * 1024)
    with pytest.raises(UsageError, match="113664 bytes of shared memory per CTA, Fake H200 has 101376"):
        execute(KernelRequest("tensor_core_gemm", {"stages": 6}, SMALL, iterations=0), lambda: gpu)
    assert gpu.closed


def test_facts_are_written_where_the_profiler_asks(request_once, tmp_path, monkeypatch):
    target = tmp_path / "facts.json"
    monkeypatch.setenv("NCUBBLE_FACTS", str(target))
    execute(replace(request_once, verify=False), FakeGpu)
    facts = json.loads(target.read_text())
    assert facts["kernel"] == {
        "name": "tensor_core_gemm",
        "function": "tensor_core_gemm",
        "parameters": {"stages": 2, "copy": "async", "vec": 16},
        "shape": SMALL,
        "stages": 2,
        "flops": 2.0 * 256 * 128 * 64,
        "bytes": 2.0 * (256 * 64 + 64 * 128) + 4.0 * 256 * 128,
        "dtype": "float16",
    }
    assert set(facts["build"]) == {
        *("compiler", "flags", "registers", "smem_static_B", "smem_dynamic_B", "spill_B", "cubin_sha256", "code_sha256")
    }
    assert facts["build"]["smem_dynamic_B"] == 2 * 18944
    assert facts["device"] == {"name": "Fake H200", "compute_capability": "9.0", "driver": "580.00"}
    assert facts["clocks"]["sm_mhz"] == 1700


def test_facts_that_cannot_be_written_are_an_error(request_once, tmp_path, monkeypatch):
    monkeypatch.setenv("NCUBBLE_FACTS", str(tmp_path / "nowhere" / "facts.json"))
    with pytest.raises(MeasurementError, match="NCUBBLE_FACTS"):
        execute(request_once, FakeGpu)


def test_a_fresh_seed_is_drawn_and_told(request_once):
    first, second = (execute(replace(request_once, seed=None), FakeGpu) for _ in range(2))
    assert first.seed != second.seed
    assert f"seed    {first.seed}" in "\n".join(describe(first))


def run_program(monkeypatch, capsys, *argv, spoil=None):
    monkeypatch.setattr(program, "execute", lambda request: execute(request, lambda: FakeGpu(spoil)))
    code = program.main(["tensor_core_gemm", "--shape", "m=256,n=128,k=64", *argv])
    return code, capsys.readouterr()


def test_the_program_prints_one_json_object(monkeypatch, capsys):
    code, said = run_program(monkeypatch, capsys, "--once", "--json", "--seed", "4")
    found = json.loads(said.out)
    assert code == 0
    assert found["seed"] == 4
    assert found["verification"]["passed"] is True
    assert found["timing"] is None


def test_the_program_ends_with_4_if_the_result_is_wrong(monkeypatch, capsys):
    code, said = run_program(monkeypatch, capsys, "--once", "--json", spoil=leave_unwritten)
    assert code == 4
    assert json.loads(said.out)["verification"]["max_abs_error"] is None
    assert "wrong result" in said.err and "--seed" in said.err


def test_the_program_ends_with_2_if_the_request_is_wrong(monkeypatch, capsys):
    code, said = run_program(monkeypatch, capsys, "-p", "stages=77")
    assert code == 2
    assert "stages=77" in said.err
