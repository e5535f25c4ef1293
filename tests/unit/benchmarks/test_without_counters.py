"""What is read without counters against what counters tell, on the recordings that ship."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def coarse(repository: Path) -> ModuleType:
    return importlib.import_module("benchmarks.probe.coarse")


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
