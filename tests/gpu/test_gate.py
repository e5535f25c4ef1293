"""Our own kernels under our own gate, and the gate's window on a real GPU: what it counts, and that
it cannot pass by measuring nothing."""

from __future__ import annotations

import pytest

from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.profiling.driver import describe

pytestmark = pytest.mark.gpu
pytest_plugins = ["pytester"]
COUNTERS = ["tensor", "dram"]
SHIPPED = "baselines/nvidia-h200"
BETWEEN_MACHINES = {"tensor_elapsed_pct": 5, "cycles": 5}
"""Limits against baselines of another machine, driver and compiler, in percent."""


def held(result) -> None:
    """On the GPU model of the shipped baselines, compare with them."""
    if describe().name == "NVIDIA H200":
        result.assert_tensor_util(baseline=SHIPPED, rules=BETWEEN_MACHINES)


@pytest.mark.tensor_util(min=40, sets=COUNTERS)
def test_wmma_with_three_stages(ncubble):
    held(ncubble.catalog("tensor_core_gemm", parameters={"stages": 3}))


@pytest.mark.tensor_util(min=30, sets=COUNTERS)
def test_wmma_with_one_stage(ncubble):
    result = ncubble.catalog("tensor_core_gemm", parameters={"stages": 1})
    held(result)
    assert result.tensor_elapsed_pct < ncubble.catalog("tensor_core_gemm", parameters={"stages": 3}).tensor_elapsed_pct


@pytest.mark.tensor_util(min=60, sets=COUNTERS)
def test_numba_on_tensor_cores(ncubble):
    held(ncubble.catalog("numba_tensor_core_gemm"))


@pytest.mark.tensor_util(min=60, kernel="gemm_tma")
def test_tma_in_the_body_of_a_test():
    execute(KernelRequest("gemm_tma", {"stages": 3}, verify=False, iterations=0))


WINDOW = """
import subprocess, sys
import pytest
from ncubble.profiling import tiny

@pytest.fixture
def prepared():
    tiny.launch()

@pytest.mark.tensor_util(baseline="kept/call", sets=["tensor"], repeats=6, warmup=2)
def test_call(prepared):
    tiny.launch()

@pytest.mark.tensor_util(baseline="kept/process", sets=["tensor"], scope="process")
def test_process(prepared):
    subprocess.run([sys.executable, "-m", "ncubble.profiling.tiny"], check=True)

@pytest.mark.tensor_util(min=1, sets=["tensor"])
def test_nothing(prepared):
    pass

@pytest.mark.tensor_util(min=1, kernel="^renamed$", sets=["tensor"])
def test_renamed(prepared):
    tiny.launch()

@pytest.mark.tensor_util(min=1, sets=["tensor"])
def test_wrong():
    tiny.launch()
    assert "result" == "reference"
"""


def test_only_the_calls_inside_the_window_count(pytester):
    pytester.makepyfile(test_it=WINDOW)
    result = pytester.runpytest_subprocess("-p", "no:dash", "--ncubble-record")
    result.assert_outcomes(passed=2, failed=3)
    lines = [line for line in result.outlines if line.startswith("test_it.py::test_")]
    assert [line for line in lines if "test_call: pass" in line and "6 launches" in line]
    assert [line for line in lines if "test_process: pass" in line and "6 launches" in line]  # 5 calls, 1 fixture
    assert [line for line in lines if "test_nothing: failed: nothing measured: no kernel was launched" in line]
    assert [line for line in lines if "test_renamed: failed: nothing measured: no kernel that matches" in line]
    assert [line for line in lines if "test_wrong: failed: the test failed under ncu" in line]


def test_a_machine_that_hides_its_gpu_skips_unless_told_otherwise(pytester, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("NCUBBLE_REQUIRE_GPU", raising=False)
    pytester.makepyfile("import pytest\n@pytest.mark.tensor_util(min=1)\ndef test_it():\n    pass\n")
    pytester.runpytest_subprocess("-p", "no:dash").assert_outcomes(skipped=1)
    pytester.runpytest_subprocess("-p", "no:dash", "--ncubble-required").assert_outcomes(failed=1)
