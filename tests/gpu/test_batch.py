"""Many cases under one profiler, on a real GPU: each launch keeps its own facts, and its depth is
predicted from."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.validation.measure import profile_plan
from ncubble.analysis.model.depths import depths_of
from ncubble.analysis.report.report import Report

pytestmark = pytest.mark.gpu
CUBE = {"m": 2048, "n": 2048, "k": 2048}


def test_launches_of_one_process_are_told_apart_and_their_depths_predicted(tmp_path: Path) -> None:
    plan = [{"kernel": "tensor_core_gemm", "parameters": {"stages": stages}, "shape": CUBE} for stages in (2, 3)]
    report = Report.open(profile_plan(plan, tmp_path / "run").path)
    assert [facts["stages"] for facts in report.run.manifest.launches] == [2, 3]
    assert [report.run.label_of(launch).split()[1] for launch in (0, 1)] == ["stages=2", "stages=3"]
    known = depths_of(report.launch(1))
    assert (known.stages, known.stages_from) == (3, "sass")
    assert known.predicted[4].tensor_elapsed_pct > 0
