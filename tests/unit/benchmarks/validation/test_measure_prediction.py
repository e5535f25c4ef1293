"""What ``validate prediction --measure`` profiles and writes, in which order, with a stand-in for
the profiler."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.validation.prediction import measure as measure_prediction
from ncubble.errors import MeasurementError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS


@pytest.fixture
def profiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[str], int]]:
    """Folder, sets and launches of every run that was asked for; predictions are made of
    nothing."""
    runs: list[tuple[str, Sequence[str], int]] = []

    def profile_plan(entries: Sequence[Mapping[str, Any]], out: Path, sets: Sequence[str]) -> None:
        runs.append((f"{out.parent.relative_to(out.parents[1])}/{out.name}", sets, len(entries)))
        out.mkdir(parents=True)
        (out / "run.json").write_text("{}")

    told = SimpleNamespace(started="2026-11-21T18:00:00Z", device={}, ncu_version="2025.3", git={})
    monkeypatch.setattr(measure_prediction, "profile_plan", profile_plan)
    monkeypatch.setattr(measure_prediction.Run, "load", lambda _: SimpleNamespace(manifest=told))
    monkeypatch.setattr(measure_prediction.record, "predicted", lambda _, dev, split: [{"dev": dev, "split": split}])
    monkeypatch.setattr(measure_prediction.record, "measured", lambda _: [{"stages": 2}])
    return runs


def test_the_second_set_is_measured_alone(profiled: list[tuple[str, Sequence[str], int]], tmp_path: Path) -> None:
    measure_prediction.measure(tmp_path, second=True)
    assert [path.name for path in tmp_path.iterdir()] == ["second"]
    predictions = json.loads((tmp_path / "second" / "predictions.json").read_text())["predictions"]
    assert predictions == [{"dev": [], "split": "second"}]
    assert json.loads((tmp_path / "second" / "measured.json").read_text())["launches"] == [{"stages": 2}]
    sets = [found for _, found, _ in profiled]
    half = len(sets) // 2
    assert sets == [DEFAULT_SETS] * half + [measure_prediction.SLIM] * half, "profiles first, then all depths"
    assert sum(count for name, _, count in profiled if name.startswith("measured")) <= 45


def test_predictions_that_are_there_are_kept(profiled: list[tuple[str, Sequence[str], int]], tmp_path: Path) -> None:
    (tmp_path / "predictions.json").write_text("before")
    measure_prediction.measure(tmp_path)
    assert (tmp_path / "predictions.json").read_text() == "before"
    assert not (tmp_path / "second").exists()


def test_nothing_measured_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise MeasurementError("no GPU")

    monkeypatch.setattr(measure_prediction, "profile_plan", fails)
    with pytest.raises(MeasurementError, match="nothing was profiled"):
        measure_prediction.measure(tmp_path, second=True)
