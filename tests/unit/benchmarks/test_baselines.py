"""The shipped baselines: of every rung that a check should guard, and of nothing that has gone."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from ncubble.analysis.gate.baseline import Baseline
from ncubble.analysis.gate.baseline_file import load_store
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.spec.case import make_case

AWAITED: dict[str, int] = {}
"""How many baselines of a kernel are planned but not recorded yet."""


@pytest.fixture
def record(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return importlib.import_module("benchmarks.record")


@pytest.fixture
def stored(repository: Path) -> tuple[Baseline, ...]:
    """Of an H200, and of an H100 what no H200 recorded."""
    found = []
    for folder in sorted((repository / "baselines").iterdir()):
        baselines, errors = load_store(folder)
        assert not errors
        found += baselines
    return tuple(found)


def planned(record: ModuleType) -> set[str]:
    """Labels of what is recorded for a baseline."""
    chosen = [item for item in record.plan() if item.repeats]
    return {make_case(find_spec(item.kernel), item.parameters, item.shape).label for item in chosen}


def test_every_rung_has_a_baseline_or_a_reason_for_none(record, stored):
    guarded = {label.split()[0] for label in planned(record)} | {one.key.label.split()[0] for one in stored}
    reasons = {
        spec.name: [why for name, why in record.UNGUARDED.items() if re.fullmatch(name, spec.name)] for spec in SPECS
    }
    for name, found in reasons.items():
        assert len(found) == (name not in guarded), f"{name}: a baseline, or one reason in UNGUARDED of record.py"
    assert all(any(re.fullmatch(name, spec.name) for spec in SPECS) for name in record.UNGUARDED)


def test_every_baseline_that_is_planned_is_recorded(record, stored):
    missing = [label.split()[0] for label in planned(record) - {one.key.label for one in stored}]
    assert {name: missing.count(name) for name in missing} == AWAITED


def test_every_baseline_is_of_a_kernel_as_the_catalog_has_it(stored):
    for one in stored:
        case = make_case(find_spec(str(one.key.kernel)), one.key.parameters, one.key.shape)
        assert case.label == one.key.label
