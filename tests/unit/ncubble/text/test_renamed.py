"""Older names of quantities: read everywhere as what they are called now, with one note."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncubble.analysis.datasets import log, sql
from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.parts import DatasetWriter, encode
from ncubble.analysis.datasets.query import Query, run
from ncubble.analysis.datasets.schema import LAUNCHES, REPORTS
from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.history import read
from ncubble.analysis.gate.rules import parse
from ncubble.cli.pytest_plugin.measured import MeasuredKernel
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


def test_checks_of_the_old_name_have_the_new_one() -> None:
    folder = REPOSITORY / "tests" / "data" / "history"
    assert OLD.encode() in next(folder.glob("*.parquet")).read_bytes()
    metrics = {point.metric.name for point in read(folder).points()}
    assert NEW in metrics and OLD not in metrics


def _dataset(folder: Path, old: bool) -> None:
    """A dataset of one report, in the columns of schema 1 if ``old``."""
    log.create(folder)
    launch = {"report": "r", "launch": 0, NEW: 42.0, "cause": "tail"}
    rows = {
        "reports": pa.Table.from_pylist([{"report": "r", "path": "/r", "complete": True}], REPORTS),
        "launches": pa.Table.from_pylist([launch], LAUNCHES),
    }
    DatasetWriter(folder).put(encode([rows]), ["r"])
    if old:
        (file,) = Dataset.open(folder).files("launches")
        table = pq.read_table(file).drop_columns(["tensor_of_active_pct"])
        pq.write_table(table.rename_columns([OLD if name == NEW else name for name in table.column_names]), file)
        for entry in (folder / "log").glob("*.json"):
            content = json.loads(entry.read_text()) | {"schema": 1}
            for part in content["add"]:
                del part["schema"]
            entry.write_text(json.dumps(content))


@pytest.mark.parametrize("old", [False, True])
def test_a_dataset_is_asked_by_either_name(tmp_path: Path, old: bool, caplog: pytest.LogCaptureFixture) -> None:
    _dataset(tmp_path / "dataset", old)
    dataset = Dataset.open(tmp_path / "dataset")
    for name in (NEW, OLD):
        rows = run(dataset, Query(where=[f"{name} > 40"], columns=["launch", name], sort=name))
        assert rows.to_pylist() == [{"launch": 0, NEW: 42.0}]
        assert sql.select(dataset, " ".join(["SELECT", name, "FROM launches"])).to_pylist() == [{NEW: 42.0}]
    assert NEW in caplog.text


def test_a_new_report_joins_a_dataset_of_schema_1(tmp_path: Path) -> None:
    folder = tmp_path / "dataset"
    _dataset(folder, old=True)
    launch = {"report": "s", "launch": 0, NEW: 7.0}
    DatasetWriter(folder).put(encode([{"launches": pa.Table.from_pylist([launch], LAUNCHES)}]), ["s"])
    rows = run(Dataset.open(folder), Query(columns=["report", NEW], sort=NEW)).to_pylist()
    assert rows == [{"report": "s", NEW: 7.0}, {"report": "r", NEW: 42.0}]


def test_a_test_asks_for_a_mean_by_either_name(caplog: pytest.LogCaptureFixture) -> None:
    metrics = MeasuredKernel("k", "GPU", 2, {NEW: (40.0, 42.0)}).metrics
    assert metrics[OLD] == metrics[NEW] == 41.0 and NEW in caplog.text
    with pytest.raises(KeyError):
        metrics["no_such_metric"]
