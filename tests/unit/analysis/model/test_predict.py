"""Prediction of depth: its physics on made-up pipelines, and recorded sweeps."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncubble.analysis.model.pipeline import Pipeline, Residency, Unidentified, pipeline_of
from ncubble.analysis.model.predict import predict
from ncubble.analysis.report.report import Report
from ncubble.recordings import H100, ROOT

RESIDENCY = Residency(2, 2, 64_000.0, 32_000.0, 1024.0, 233_472.0, 232_448.0)
STARVED = Pipeline(
    stages=2, stages_from="manifest", ctas=2.0, warps=4.0, grid=8.0, iterations=64.0, cycle=1600.0, busy=400.0,
    tile_B=32_000.0, waiting=0.5, copying=0.05, outside=40.0, memory=0.2, delay=0.5, asynchronous=False,
    plain=False, compiled=False, busy_pct=48.0, elapsed=409_600.0, measured_on="9.0", residency=RESIDENCY,
)  # fmt: skip


def test_ends_are_not_pipelined() -> None:
    """Of two kernels that differ in what stands outside their loops alone, depth gains less where
    that is more."""
    short, long = (predict(replace(STARVED, outside=outside), 3) for outside in (40.0, 300.0))
    assert short is not None
    assert long is not None
    assert long.tensor_elapsed_pct < short.tensor_elapsed_pct - 3.0


def test_depth_cures_waits_up_to_the_pipe() -> None:
    sweep = [predict(STARVED, depth) for depth in (1, 2, 3)]
    shares = [told.tensor_elapsed_pct for told in sweep if told]
    assert len(shares) == 3
    assert shares[0] < shares[1] == STARVED.busy_pct < shares[2] <= 100.0
    ideal = STARVED.busy_pct * STARVED.cycle / (STARVED.ctas * STARVED.busy)
    assert shares[2] <= ideal


def test_the_present_depth_is_as_measured() -> None:
    told = predict(STARVED, 2)
    assert told is not None
    assert (told.tensor_elapsed_pct, told.cycles, told.low, told.high) == (48.0, 409_600.0, 48.0, 48.0)


PIPELINES = st.builds(
    Pipeline,
    stages=st.integers(1, 6), stages_from=st.just("given"), ctas=st.sampled_from((1.0, 2.0, 4.0)),
    warps=st.sampled_from((1.0, 4.0, 8.0, 12.0)), grid=st.just(8.0), iterations=st.floats(2, 500),
    cycle=st.floats(1000, 5000), busy=st.floats(20, 250), tile_B=st.floats(1000, 60_000), waiting=st.floats(0, 0.9),
    copying=st.floats(0, 0.1), outside=st.floats(0, 500), memory=st.floats(0, 1.2),
    delay=st.floats(0, 1),
    asynchronous=st.booleans(), plain=st.just(False), compiled=st.just(False), busy_pct=st.just(0.0),
    elapsed=st.floats(1e4, 1e6), measured_on=st.just("9.0"), residency=st.none(),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(now=PIPELINES, packed=st.floats(0.5, 1.0))
def test_predictions_are_monotonic_bounded_and_conserve_work(now: Pipeline, packed: float) -> None:
    now = replace(now, busy_pct=100.0 * packed * now.ctas * now.busy / now.cycle)
    sweep = [told for depth in range(1, 9) if (told := predict(now, depth))]
    assert len(sweep) == 8
    for told in sweep:
        assert 0.0 < told.low <= told.tensor_elapsed_pct <= told.high <= 100.0
        assert told.tensor_elapsed_pct * told.cycles == pytest.approx(now.busy_pct * now.elapsed)
    cycles = [told.cycles for told in sweep]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(cycles))


def _recorded(kernel: str, *variants: str) -> dict[int, Pipeline]:
    sweep = {}
    for variant in variants:
        report = Report.open(ROOT / kernel / variant)
        now = pipeline_of(report.launch(0))
        assert isinstance(now, Pipeline)
        sweep[now.stages] = now
    return sweep


@pytest.fixture(scope="module")
def sweeps() -> dict[str, dict[int, Pipeline]]:
    return {
        "tensor_core_gemm": _recorded("tensor_core_gemm", "stages1", "stages4"),
        "gemm_tma": _recorded("gemm_tma", "stages1", "stages3"),
        "triton_gemm": _recorded("triton_gemm", "stages2", "stages3"),
    }


def test_recorded_sweeps(sweeps: dict[str, dict[int, Pipeline]]) -> None:
    """Errors in points of utilization, every depth from every other. The limits are the targets of
    the validation; of Triton's GEMM, copies are issued faster the deeper its ring is
    (docs/validation)."""
    for name, sweep in sweeps.items():
        pairs = [(told, sweep[one], now) for now in sweep.values() for one in sweep if (told := predict(now, one))]
        errors = [abs(told.tensor_elapsed_pct - there.busy_pct) for told, there, now in pairs if there is not now]
        naive = [abs(now.busy_pct - there.busy_pct) for _, there, now in pairs if there is not now]
        assert fmean(errors) <= (10.0 if name == "triton_gemm" else 5.0), name
        assert max(errors) <= 12.0, name
        assert fmean(errors) <= fmean(naive) + 0.5, name


@pytest.mark.parametrize(
    ("kernel", "variant", "stages", "iterations"),
    [
        ("gemm_tma", "stages3", 3, 64),
        ("tensor_core_gemm", "stages1", 1, 128),
        ("triton_gemm", "stages3", 3, 64),
        ("async_pipeline", "stages3", 3, 256),
        ("gemm_mma_swizzled", "default", 4, 64),
        ("tiled_matmul", "default", 1, 256),
        ("attention_fwd", "cp_async", 4, 128),  # 64 tiles of K and 64 of V
        ("gemm_ws", "default", 4, 256),
    ],
)
def test_depth_and_iterations_are_read_off_the_code(
    kernel: str, variant: str, stages: int, iterations: int, tmp_path: Path
) -> None:
    file = tmp_path / "bare.ncu-repz"
    shutil.copy(ROOT / kernel / variant / "report.ncu-repz", file)
    bare = Report.open(file)
    now = pipeline_of(bare.launch(0))
    assert isinstance(now, Pipeline)
    assert (now.stages, now.stages_from) == (stages, "sass")
    assert now.iterations == iterations


def test_memory_bound_kernels_have_no_depth() -> None:
    report = Report.open(H100 / "softmax_online" / "default")
    now = pipeline_of(report.launch(0))
    assert isinstance(now, Unidentified)
    assert "dram" in now.reason
