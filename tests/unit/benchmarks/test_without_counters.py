"""What is read without counters against what counters tell, on the recordings that ship."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from ncubble.analysis.report.report import Report


@pytest.fixture(scope="module")
def coarse(repository: Path) -> ModuleType:
    return importlib.import_module("benchmarks.probe.coarse")


@pytest.fixture(scope="module")
def from_code(repository: Path) -> ModuleType:
    return importlib.import_module("benchmarks.ablation.from_code")


def test_traces_stand_beside_profiles_of_the_same_kernels(coarse: ModuleType) -> None:
    rows = list(coarse.shipped())
    assert {row.case for row in rows} == set(coarse.PAIRS) and len(rows) == len(coarse.PAIRS) * len(coarse.GROUPS)
    for case in coarse.PAIRS:
        whole = [row for row in rows if row.case == case and row.group != "data + copy"]
        assert sum(row.trace for row in whole) == pytest.approx(100.0, abs=0.1)
        assert sum(row.profile for row in whole) == pytest.approx(100.0, abs=0.3)
    data = [row for row in rows if row.group == "data_wait"]
    assert sum(abs(row.off) <= coarse.TARGET for row in data) >= 3
    assert all(row.within or abs(row.off) < 1.0 for row in rows if row.group == "data + copy")
    text = coarse.table(rows)
    assert "| within 5 points |" in text and text.count("\n") == len(coarse.PAIRS) + 3


def test_a_recorded_listing_is_moved_to_its_begin(from_code: ModuleType, repository: Path) -> None:
    source = Report.open(repository / "recordings" / "h200" / "gemm_tma" / "stages2").launch(0).source
    moved = from_code.relative(source)
    (bssy,) = moved.loc[moved["opcode"] == "BSSY", "sass"].head(1)
    target = int(bssy.rpartition("0x")[2], 16)
    assert moved.loc[moved["pc"] == target - 16, "opcode"].tolist() == ["BSYNC"]
    assert from_code.same_parts(source, "tensor") is True


def test_without_branches_nothing_is_moved_and_without_a_base_nothing_is_said(from_code: ModuleType) -> None:
    straight = pd.DataFrame({"pc": [0], "sass": ["EXIT"], "opcode": ["EXIT"]})
    assert from_code.relative(straight) is straight
    lost = pd.DataFrame({"pc": [0], "sass": ["BRA 0x7f0000000018"], "opcode": ["BRA"]})
    assert from_code.relative(lost) is None
