"""Plans of many launches: what is refused before there is a GPU, what runs in which order, and
whose facts are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.validation import batch
from benchmarks.validation.measure import _kept, product_counter
from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.run.launch import VARIABLE
from ncubble.profiling.runs import Manifest, Run
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.one_launch import OneLaunch

SMALL = {"m": 256, "n": 128, "k": 64}
GEMM = {"kernel": "tensor_core_gemm", "parameters": {"stages": 2}, "shape": SMALL}


def plan(folder: Path, content: Any) -> Path:
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "not a plan"),
        ({"kernel": "tensor_core_gemm"}, "expected `array`"),
        ([], "is empty"),
        ([{"parameters": {}}], r"'\[0\]' object missing required field `kernel`"),
        ([GEMM, {**GEMM, "launches": 0}], r"\[1\]\.launches' is 0"),
        ([{**GEMM, "shape": "m=4"}], r"\[0\]\.shape' is 'm=4'"),
        ([{**GEMM, "stages": 2}], "unknown field `stages`"),
        ([{**GEMM, "kernel": "tensor_core_gem"}], "there is no kernel"),
        ([{**GEMM, "parameters": {"stages": 9}}], "stages=9 is not allowed"),
        ([{"kernel": "stream_pipeline"}], "driven by the host"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_by_its_entry(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        batch.read_plan(plan(tmp_path, content))


def test_the_program_names_what_is_wrong_and_ends_with_the_code_of_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch.main([str(tmp_path / "missing.json")]) == 2
    assert "missing.json: not a plan" in capsys.readouterr().err


@pytest.mark.usefixtures("compiler")
def test_every_case_runs_in_turn_and_tells_the_facts_of_each_of_its_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, gpu = tmp_path / "facts.json", FakeGpu()
    monkeypatch.setenv(VARIABLE, str(told))
    items = batch.read_plan(plan(tmp_path, [{**GEMM, "launches": 2}, {**GEMM, "parameters": {"stages": 3}}]))
    batch.execute(items, gpu)  # type: ignore[arg-type]
    assert [word for word in gpu.log if word in ("launch", "free")] == ["launch", "launch", "free", "launch", "free"]
    facts = json.loads(told.read_text())
    assert [one["stages"] for one in facts["launches"]] == [2, 2, 3]
    assert facts["device"]["name"] == gpu.facts.name


def test_a_run_that_is_there_is_taken_for_its_own_plan_only() -> None:
    entries = [GEMM, {**GEMM, "parameters": {"stages": 3}, "launches": 2}]
    items = batch.checked(entries)
    facts = list(batch.launch_facts(items))
    kept = Run(Path("run"), Path("run/report.ncu-rep"), Manifest(launches=facts))
    assert _kept(kept, items) is kept
    first = Run(Path("run"), Path("run/report.ncu-rep"), Manifest(launches=facts[:1]))
    assert _kept(first, items, count=1) is first
    for other in (facts[:2], facts[::-1], []):
        with pytest.raises(UsageError, match="launches are not the planned ones"):
            _kept(Run(Path("run"), Path("run/report.ncu-rep"), Manifest(launches=other)), items)


def test_products_of_a_kernel_without_mmas_are_its_ffmas_whatever_moves_constants() -> None:
    busy, hmma = (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
    )
    ffma = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    assert product_counter(OneLaunch({busy: 0.1, hmma: 8192.0, ffma: 6e10})) == ffma  # type: ignore[arg-type]
    assert product_counter(OneLaunch({busy: 50.0, hmma: 1e6, ffma: 1e3})) == hmma  # type: ignore[arg-type]
    with pytest.raises(MeasurementError, match="no products were counted"):
        product_counter(OneLaunch({busy: 50.0}))  # type: ignore[arg-type]
