"""Predictions of depth joined with what was measured, and what the command makes of them: on
fabricated sweeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.validation import page
from benchmarks.validation.__main__ import main
from benchmarks.validation.prediction.score import join, score, score_prediction
from benchmarks.validation.prediction.views import prediction_notes, prediction_tables
from ncubble.errors import ReportError

MEASURED = {1: 40.0, 2: 60.0, 3: 70.0, 4: 71.0}
WRITTEN, STARTED = "2026-11-21T18:00:00Z", "2026-11-21T19:00:00+00:00"


def prediction(start: int, to: int, off: float | None = 2.0) -> dict[str, Any]:
    value = None if off is None else MEASURED.get(to, 50.0) + off
    told = value and {"tensor_elapsed_pct": value, "cycles": 1e6, "low": value - 5, "high": value + 5}
    names = {"family": "gemm", "config": "gemm 128x128", "split": "test", "from_stages": start, "to_stages": to}
    return {**names, "predicted": told, "baselines": {"no_change": MEASURED[start]}}


def launch(stages: int) -> dict[str, Any]:
    return {
        "family": "gemm",
        "config": "gemm 128x128",
        "stages": stages,
        "tensor_elapsed_pct": MEASURED[stages],
        "cycles": 1e6,
    }


def folder(place: Path, written: str = WRITTEN, started: str = STARTED) -> Path:
    """Every depth predicted from depth 2, deeper by two points too much; nothing can be said of
    depth 1."""
    predictions = [prediction(2, 1, None), prediction(2, 3), prediction(2, 4), prediction(2, 5)]
    measured = {"started": started, "device": {"name": "GPU"}, "launches": [launch(stages) for stages in MEASURED]}
    (place / "predictions.json").write_text(json.dumps({"written": written, "predictions": predictions}))
    (place / "measured.json").write_text(json.dumps(measured))
    return place


def test_a_prediction_meets_its_measurement_and_the_depth_that_may_be_kept(tmp_path: Path) -> None:
    files = [json.loads((folder(tmp_path) / name).read_text()) for name in ("predictions.json", "measured.json")]
    rows, missing = join(*files)
    assert {row["to_stages"]: row["measured_pct"] for row in rows} == {1: 40.0, 3: 70.0, 4: 71.0, 2: 60.0}
    kept = rows[-1]
    assert kept["from_stages"] == kept["to_stages"] == 2 and kept["predicted"] is None and kept["baselines"] == {}
    assert missing == {}, "a depth that was not measured does not exist"


def test_a_sweep_that_was_not_measured_is_named() -> None:
    other = {**prediction(2, 3), "config": "gemm 64x64"}
    rows, missing = join({"predictions": [prediction(2, 3), other]}, {"launches": [launch(2), launch(3)]})
    assert {row["config"] for row in rows} == {"gemm 128x128"}
    assert missing == {"gemm 64x64": "was not measured"}


def test_a_depth_that_was_predicted_for_itself_is_kept_once() -> None:
    rows, _ = join({"predictions": [prediction(2, 2), prediction(2, 3)]}, {"launches": [launch(2), launch(3)]})
    assert [(row["to_stages"], bool(row["predicted"])) for row in rows] == [(2, True), (3, True)]


def test_the_result_is_scored_and_shown(tmp_path: Path) -> None:
    result = score_prediction(folder(tmp_path))
    ours = result["scores"]["splits"]["test"]["methods"]["predicted"]
    assert ours["mae"] == pytest.approx(2.0) and ours["coverage_pct"] == 100.0
    assert ours["regret_pct"] == pytest.approx(0.0) and result["scores"]["targets"]["test"]["mae"]["met"]
    tables = {table.name: table for table in prediction_tables(result)}
    assert [row[1] for row in tables["methods"].rows] == ["ours", "no change"]
    assert tables["methods"].rows[0][2] == "gemm 128x128, 2 to 3 stages"
    for table in tables.values():
        assert {len(row) for row in table.rows} == {len(table.header)}, table.name
    assert [note.partition(":")[0] for note in prediction_notes(result)] == ["held out"]


def test_a_second_set_is_scored_and_shown_apart(tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    result = score_prediction(folder(folder(second).parent))
    assert {name: part["asked"] for name, part in result["scores"]["splits"].items()} == {"test": 3, "second": 3}
    assert set(result["scores"]["targets"]) == {"test", "second"}
    assert result["second"]["written"] == WRITTEN
    tables = {table.name: table for table in prediction_tables(result)}
    assert [row[0] for row in tables["families"].rows] == ["held out", "", "second held-out set", ""]
    assert [note.partition(":")[0] for note in prediction_notes(result)] == ["held out", "second held-out set"]
    folder(second, written="2026-11-21T20:00:00+00:00")
    with pytest.raises(ReportError, match="nothing was predicted"):
        score_prediction(tmp_path)


def test_targets_are_not_for_what_was_fitted() -> None:
    fitted = {**prediction(2, 3), "split": "dev", "measured_pct": 70.0, "measured_cycles": 1e6}
    told = score([fitted, {**fitted, "split": "test"}])
    assert list(told["splits"]) == ["dev", "test"] and list(told["targets"]) == ["test"]


def test_what_was_written_after_the_measurement_is_no_prediction(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="nothing was predicted"):
        score_prediction(folder(tmp_path, written="2026-11-21T20:00:00+00:00"))


def test_the_command_writes_its_part_of_the_page(tmp_path: Path, repository: Path) -> None:
    shutil.copy(repository / "docs" / "validation" / page.PAGE, tmp_path)
    assert main(["prediction", "--folder", str(folder(tmp_path)), "--write", str(tmp_path)]) == 0
    assert "| gemm | 3 | 33.3 | 2.0 |" in (tmp_path / page.PAGE).read_text()
    written = json.loads((tmp_path / "prediction.json").read_text())
    assert written["scores"]["splits"]["test"]["asked"] == 3 and "rows" not in written
    assert {path.name for path in tmp_path.glob("*.svg")} == {"prediction-depths.svg", "prediction-errors.svg"}
