"""Older names of quantities: read everywhere as what they are called now, with one note."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.rules import parse
from ncubble.cli.pytest_plugin.result import MeasuredKernel
from ncubble.text import values

OLD, NEW = "tensor_active_pct", "tensor_elapsed_pct"
REPOSITORY = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def fresh_note() -> None:
    values._note.cache_clear()


def test_an_old_name_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert [values.current_name(name) for name in (OLD, OLD, "cycles")] == [NEW, NEW, "cycles"]
    said = f"{OLD} is now called {NEW}: the old name is still accepted"
    assert [record.message for record in caplog.records] == [said]


@pytest.mark.parametrize("text", [f"{OLD} >= 50", f"{OLD} 1%", f"{OLD} off"])
def test_a_rule_with_the_old_name_is_of_the_new_one(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert parse(text) == parse(text.replace(OLD, NEW)) and NEW in caplog.text


def test_a_baseline_of_schema_2_is_read_by_the_old_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = next((REPOSITORY / "baselines").rglob("tensor-core-gemm-stages-3-copy-async*.json"))
    now = json.loads(path.read_text())
    assert now["schema"] == 3 and NEW in now["metrics"]
    (tmp_path / "old.json").write_text(path.read_text().replace(NEW, OLD).replace('"schema": 3', '"schema": 2', 1))
    old = baseline_file.load(tmp_path / "old.json")
    assert old.metrics == baseline_file.load(path).metrics and NEW in caplog.text


def test_a_test_asks_for_a_mean_by_either_name(caplog: pytest.LogCaptureFixture) -> None:
    metrics = MeasuredKernel("k", "GPU", 2, {NEW: (40.0, 42.0)}).metrics
    assert metrics[OLD] == metrics[NEW] == 41.0 and NEW in caplog.text
    with pytest.raises(KeyError):
        metrics["no_such_metric"]
