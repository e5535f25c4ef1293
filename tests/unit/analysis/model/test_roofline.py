"""Roofs of the GPUs of many launches."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ncubble.analysis.model.roofs import BUS, GUIDED, STATED, Subject, roofs_of, speeds
from tests.helpers.roofline_rows import row

OPS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"


FP32 = {OPS.format("fadd"): 10.0, OPS.format("fmul"): 20.0, OPS.format("ffma"): 100.0}


CLOCKS = {"smsp__cycles_elapsed.avg.per_second": 1e9, "sm__cycles_elapsed.avg.per_second": 1e9}


IDLE = {"sm__inst_executed_pipe_fp64.sum": 0.0, "sm__inst_executed_pipe_fma_type_fp16.sum": 0.0}


WEIGHTED = "derived__smsp__sass_thread_inst_executed_op_{}_pred_on_x{}"


TRAFFIC = {"dram__bytes_read.sum": 3e6, "dram__bytes_write.sum": 1e6}


HBM = {"device__attribute_global_memory_bus_width": 6144.0, "dram__cycles_elapsed.avg.per_second": 3.0e9}


def subject(scalars: dict[str, float], **changes: Any) -> Subject:
    base: dict[str, Any] = {"duration_ns": 1e6, "clock_hz": 1e9, "tensor_pct": 0.0, "compute_capability": "9.0"}
    return Subject(scalars, **{**base, **changes})


def test_flops_of_the_run_come_first() -> None:
    found = speeds(subject({**FP32, **CLOCKS, **TRAFFIC}, flops=2e9))
    assert (found["tflops"], found["flops_from"]) == (2.0, "run")
    assert (found["dram_gbs"], found["intensity"]) == (4.0, 500.0)


def test_counters_give_flops_where_the_run_names_none() -> None:
    found = speeds(subject({**FP32, **CLOCKS, **TRAFFIC, **IDLE}))
    assert found["tflops"] == pytest.approx(230 * 1e9 / 1e12)
    assert found["flops_from"] == "counters: FP32"


@pytest.mark.parametrize("tensor_pct", [40.0, None])
def test_flops_are_not_known_where_tensor_work_is_not_counted(tensor_pct: float | None) -> None:
    found = speeds(subject({**FP32, **CLOCKS, **TRAFFIC, **IDLE}, tensor_pct=tensor_pct))
    assert (found["tflops"], found["intensity"], found["flops_from"]) == (None, None, None)
    assert found["dram_gbs"] == 4.0


def test_tensor_work_that_is_counted_adds_up_without_integers() -> None:
    tensor = {
        "sm__ops_path_tensor_src_fp16.sum.per_cycle_elapsed": 1000.0,
        "sm__ops_path_tensor_src_int8.sum.per_cycle_elapsed": 5000.0,
        "sm__ops_path_tensor_src_fp16.sum.peak_sustained": 8000.0,
        "sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off.sum.peak_sustained": 4000.0,
    }
    found = speeds(subject({**FP32, **CLOCKS, **TRAFFIC, **IDLE, **tensor}, tensor_pct=40.0))
    assert found["tflops"] == pytest.approx(1.23)
    assert found["roofs"]["tensor FP16"] == [4.0, STATED]  # the dense peak, not the sparse one


def test_work_on_8_bits_is_counted_against_its_own_dense_roof() -> None:
    stem = "sm__ops_path_tensor_src_fp8_sparsity_{}.sum.{}"  # as ncu names them on a H100
    tensor = {
        stem.format("off", "per_cycle_elapsed"): 882024.6,
        stem.format("on", "per_cycle_elapsed"): 0.0,
        stem.format("off", "peak_sustained"): 1081344.0,
        stem.format("on", "peak_sustained"): 2162688.0,
    }
    found = speeds(subject({**FP32, **CLOCKS, **TRAFFIC, **IDLE, **tensor}, tensor_pct=81.6))
    assert found["tflops"] == pytest.approx(0.230 + 882.02)
    assert found["roofs"]["tensor FP8"] == [1081.3, STATED]


@pytest.mark.parametrize("lacking", list(IDLE))
def test_flops_are_not_known_where_a_pipe_may_have_worked_uncounted(lacking: str) -> None:
    others = {name: value for name, value in IDLE.items() if name != lacking}
    for told in (others, {**others, lacking: 5.0}):
        assert speeds(subject({**FP32, **CLOCKS, **told}))["tflops"] is None


def test_the_pipe_of_halves_tells_what_it_did_on_old_gpus_only() -> None:
    told = {**FP32, **CLOCKS, "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active": 0.0}
    told["sm__inst_executed_pipe_fp16.sum.pct_of_peak_sustained_active"] = 0.0
    known = {cc: speeds(subject(told, compute_capability=cc))["tflops"] is not None for cc in ("7.5", "8.6", "")}
    assert known == {"7.5": True, "8.6": False, "": False}


def test_operations_of_halves_count_twice_however_they_are_reported() -> None:
    halves = {OPS.format("hadd"): 1.0, OPS.format("hmul"): 10.0, OPS.format("hfma"): 100.0}
    weighted = {WEIGHTED.format("hadd", 2): 2.0, WEIGHTED.format("hmul", 2): 20.0, WEIGHTED.format("hfma", 4): 400.0}
    base = {**FP32, **CLOCKS, "sm__inst_executed_pipe_fp64.sum": 0.0}
    for one in (halves, weighted, {**weighted, OPS.format("hfma"): 100.0}):
        found = speeds(subject({**base, **one}))
        assert found["tflops"] == pytest.approx(0.230 + 0.422) and found["flops_from"] == "counters: FP32, FP16"
    del weighted[WEIGHTED.format("hadd", 2)]
    assert speeds(subject({**base, **weighted}))["tflops"] is None


def test_nothing_is_known_of_an_empty_report() -> None:
    found = speeds(Subject({}, None, None))
    assert found == {"tflops": None, "dram_gbs": None, "intensity": None, "flops_from": None, "roofs": {}}


def test_values_that_are_no_numbers_are_missing_values() -> None:
    found = speeds(subject({**FP32, **CLOCKS, "dram__bytes_read.sum": math.nan, "dram__bytes_write.sum": math.inf}))
    assert found["dram_gbs"] is None and found["intensity"] is None


def test_roofs_say_where_they_come_from() -> None:
    guided = {"device__attribute_multiprocessor_count": 132.0}
    stated = {"sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 16896.0}
    assert speeds(subject(HBM))["roofs"]["DRAM"] == [4608.0, BUS]
    assert speeds(subject({**HBM, "dram__bytes.sum.peak_sustained": 1536.0}))["roofs"]["DRAM"] == [4608.0, STATED]
    assert speeds(subject(guided))["roofs"]["FP32"] == [33.792, GUIDED]
    assert speeds(subject({**guided, **stated}))["roofs"]["FP32"] == [33.792, STATED]
    assert "FP32" not in speeds(subject(guided, compute_capability="99.0"))["roofs"]
    halves = speeds(subject(guided, dtype="float16", tensor_pct=50.0))["roofs"]
    assert halves["tensor FP16"] == [540.67, GUIDED]
    bytes_ = speeds(subject(guided, dtype="float8_e4m3fn", tensor_pct=50.0))["roofs"]
    assert bytes_["tensor FP8"] == [1081.3, GUIDED] and "tensor FP16" not in bytes_


def test_a_memory_roof_that_a_launch_exceeds_is_not_drawn() -> None:
    assert {roof.name for roof in roofs_of([row(0), row(1, dram_gbs=9000.0)])} == {"FP32"}


def test_a_compute_roof_that_a_launch_exceeds_is_not_drawn() -> None:
    def names(*rows: dict[str, Any]) -> set[str]:
        return {roof.name for roof in roofs_of(rows)}

    tensor = {"DRAM": [4800.0, BUS], "FP32": [60.0, GUIDED], "tensor FP16": [900.0, STATED]}
    assert names(row(0), row(1, tflops=70.0, tensor=0.0)) == {"DRAM"}
    assert names(row(0), row(1, tflops=70.0, tensor=50.0)) == {"DRAM", "FP32"}  # its tensor work has no roof
    assert names(row(0), row(1, tflops=70.0, tensor=None)) == {"DRAM", "FP32"}
    assert names(row(0, roofs=tensor), row(1, tflops=800.0, tensor=80.0, roofs=tensor)) == set(tensor)
    assert names(row(0, roofs=tensor), row(1, tflops=990.0, tensor=80.0, roofs=tensor)) == {"DRAM", "FP32"}


def test_gpus_of_one_short_name_have_roofs_of_their_own() -> None:
    small, large = "NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-80GB"
    rows = [
        row(0, gpu="A100", device=small, dram_gbs=1400.0, roofs={"DRAM": [1555.0, BUS]}),
        row(1, gpu="A100", device=large, dram_gbs=1900.0, roofs={"DRAM": [2039.0, BUS]}),
        row(2, gpu="H200", device="NVIDIA H200"),
    ]
    found = {roof.gpu: roof.peak for roof in roofs_of(rows) if roof.name == "DRAM"}
    assert found == {small: 1555.0, large: 2039.0, "H200": 4800.0}


def test_roofs_are_drawn_for_the_commonest_gpus_only() -> None:
    rows = [row(i, gpu=f"G{i % 7}") for i in range(70)]
    assert len({roof.gpu for roof in roofs_of(rows)}) == 3
