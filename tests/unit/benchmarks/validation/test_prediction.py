"""Predictions of depth: joined with what was measured, scored, shown, and measured in order."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.validation import measure, page
from benchmarks.validation.__main__ import main
from benchmarks.validation.measure import BASELINES, baselines
from benchmarks.validation.prediction import join, prediction_notes, prediction_tables, score, score_prediction
from benchmarks.validation.subjects import depth_sweeps, second_sweeps
from ncubble.analysis.model.pipeline import Pipeline, pipeline_of
from ncubble.analysis.report.report import Report
from ncubble.errors import MeasurementError, ReportError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.metrics.metrics import DEFAULT_SETS
from ncubble.recordings import ROOT

TOLD = {1: 40.0, 2: 60.0, 3: 70.0, 4: 71.0}
WRITTEN, STARTED = "2026-11-21T18:00:00Z", "2026-11-21T19:00:00+00:00"


def prediction(start: int, to: int, off: float | None = 2.0) -> dict[str, Any]:
    value = None if off is None else TOLD.get(to, 50.0) + off
    told = value and {"tensor_elapsed_pct": value, "cycles": 1e6, "low": value - 5, "high": value + 5}
    names = {"family": "gemm", "config": "gemm 128x128", "split": "test", "from_stages": start, "to_stages": to}
    return {**names, "predicted": told, "baselines": {"no_change": TOLD[start]}}


def launch(stages: int) -> dict[str, Any]:
    return {
        "family": "gemm",
        "config": "gemm 128x128",
        "stages": stages,
        "tensor_elapsed_pct": TOLD[stages],
        "cycles": 1e6,
    }


def folder(place: Path, written: str = WRITTEN, started: str = STARTED) -> Path:
    """Every depth predicted from depth 2, deeper by two points too much; nothing can be said of
    depth 1."""
    predictions = [prediction(2, 1, None), prediction(2, 3), prediction(2, 4), prediction(2, 5)]
    measured = {"started": started, "device": {"name": "GPU"}, "launches": [launch(stages) for stages in TOLD]}
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
    targets, methods = prediction_tables(result)
    assert [row[1] for row in methods.rows] == ["ours", "no change"]
    for table in (targets, methods):
        assert {len(row) for row in table.rows} == {len(table.header)}, table.name
    assert [note.partition(":")[0] for note in prediction_notes(result)] == ["held out"]


def test_a_second_set_is_scored_and_shown_apart(tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    result = score_prediction(folder(folder(second).parent))
    assert {name: part["asked"] for name, part in result["scores"]["splits"].items()} == {"test": 3, "second": 3}
    assert set(result["scores"]["targets"]) == {"test", "second"}
    assert result["second"]["written"] == WRITTEN
    assert {row[0] for row in prediction_tables(result)[1].rows} == {"held out", "second held-out set", ""}
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
    assert "| held out | ours | 2 | 2.0 |" in (tmp_path / page.PAGE).read_text()
    written = json.loads((tmp_path / "prediction.json").read_text())
    assert written["scores"]["splits"]["test"]["asked"] == 3 and "rows" not in written


SWEEP = {1: 40.0, 2: 60.0, 3: 80.0, 4: 79.0}


def rows(told: Mapping[int, float | None], start: int = 1, **more: Any) -> list[dict[str, Any]]:
    """A sweep predicted from ``start``: the percentages of ``told`` by depth, intervals of ± 5."""
    return [
        {
            "family": "gemm", "config": "cube", "split": "test", "from_stages": start, "to_stages": depth,
            "measured_pct": pct, "measured_cycles": 1000.0 / pct, "baselines": {"no_change": SWEEP[start]},
            "predicted": None if (value := told.get(depth)) is None else {
                "tensor_elapsed_pct": value, "cycles": 1000.0 / value, "low": value - 5.0, "high": value + 5.0,
            },
            **more,
        }
        for depth, pct in SWEEP.items()
    ]  # fmt: skip


def test_perfect_predictions() -> None:
    found = score(rows(SWEEP))
    ours = found["splits"]["test"]["methods"]["predicted"]
    assert (ours["n"], ours["mae"], ours["bias"], ours["mape_pct"], ours["coverage_pct"]) == (3, 0.0, 0.0, 0.0, 100.0)
    assert ours["rank"] == pytest.approx(1.0)
    assert ours["regret_pct"] == 0.0
    assert found["splits"]["test"]["methods"]["no_change"]["mae"] == pytest.approx((20 + 40 + 39) / 3)
    assert all(target["met"] for target in found["targets"]["test"].values())


def test_errors_bias_worst_and_coverage() -> None:
    ours = score(rows({2: 64.0, 3: 70.0, 4: 79.0}))["splits"]["test"]["methods"]["predicted"]
    assert ours["mae"] == pytest.approx(14 / 3)
    assert ours["bias"] == pytest.approx(-2.0)
    assert ours["coverage_pct"] == pytest.approx(200 / 3)
    assert (ours["worst"]["to_stages"], ours["worst"]["error"]) == (3, pytest.approx(-10.0))


def test_regret_is_what_the_chosen_depth_loses() -> None:
    ours = score(rows({2: 75.0, 3: 70.0, 4: 74.0}))["splits"]["test"]["methods"]
    assert ours["predicted"]["regret_pct"] == pytest.approx(100 * (80 - 60) / 80)  # 2 is chosen, 3 was best
    assert ours["no_change"]["regret_pct"] == pytest.approx(50.0)  # all are alike: the shallowest
    assert ours["no_change"]["rank"] == 0.0


def test_what_was_not_identified_is_counted_and_not_scored() -> None:
    found = score(rows({2: 60.0}))
    assert found["splits"]["test"]["asked"] == 3
    assert found["splits"]["test"]["not_identified_pct"] == pytest.approx(200 / 3)
    assert found["splits"]["test"]["methods"]["predicted"]["n"] == 1
    assert found["splits"]["test"]["methods"]["no_change"]["n"] == 1  # over the same depths
    nothing = score(rows({}))
    assert nothing["splits"]["test"]["methods"]["predicted"]["mae"] is None
    assert nothing["targets"]["test"]["mae"]["met"] is None
    assert score([]) == {"splits": {}, "families": {}, "targets": {}}


def test_splits_and_families_are_scored_apart() -> None:
    found = score([*rows(SWEEP), *rows({2: 50.0}, split="dev", family="other")])
    assert found["splits"]["test"]["methods"]["predicted"]["mae"] == 0.0
    assert found["splits"]["dev"]["methods"]["predicted"]["mae"] == 10.0
    assert {name: set(families) for name, families in found["families"].items()} == {"test": {"gemm"}, "dev": {"other"}}


def test_baselines_of_a_starved_launch() -> None:
    told = baselines(Report.open(ROOT / "gemm_tma" / "stages1").launch(0))
    assert all(set(found) == set(BASELINES) for found in told.values())
    present = told[1]
    assert len({round(value, 9) for value in present.values()}) == 1  # all agree on the present depth
    for name in ("linear", "little"):
        sweep = [told[depth][name] for depth in (1, 2, 3)]
        assert sweep == sorted(sweep)
        assert sweep[0] < sweep[2] <= 100.0
    assert told[3]["no_change"] == present["no_change"]


def test_sweeps_exist_and_fit_a_budget() -> None:
    first, second = list(depth_sweeps()), list(second_sweeps())
    sweeps = [*first, *second]
    assert len({subject.name for subject, _ in sweeps}) == len(sweeps), "nothing that was seen is kept apart again"
    assert {subject.split for subject, _ in first} == {"dev", "test"}
    assert {subject.split for subject, _ in second} == {"second"}
    assert sum(len(depths) for _, depths in first) <= 100
    assert sum(len(depths) for _, depths in second) <= 45
    for subject, depths in sweeps:
        assert len(depths) >= 3
        for depth in depths:
            entry = subject.entry(stages=depth)
            make_case(find_spec(subject.kernel), entry["parameters"], entry["shape"])


def test_residency_of_other_depths_is_that_of_the_catalog() -> None:
    """From one profile, the CTAs per SM of every other depth are those that the occupancy rules
    give its real size."""
    report = Report.open(ROOT / "gemm_tma" / "stages3")
    now = pipeline_of(report.launch(0))
    assert isinstance(now, Pipeline)
    assert now.residency is not None
    spec = find_spec("gemm_tma")
    for depth in range(1, 7):
        case = make_case(spec, {"stages": depth}, {})
        assert now.residency.ctas(depth) == occupancy((9, 0), 256, 90, case.smem).ctas


def test_what_the_present_code_predicts_stands_beside_and_is_no_rival() -> None:
    known = [
        {**row, "today": row["predicted"] and {**row["predicted"], "tensor_elapsed_pct": row["measured_pct"] + 1.0}}
        for row in rows({2: 70.0, 3: 70.0, 4: 70.0})
    ]
    part = score(known)["splits"]["test"]
    assert part["methods"]["today"]["mae"] == pytest.approx(1.0) and part["methods"]["predicted"]["mae"] > 5.0
    assert score(known)["targets"]["test"]["best_baseline_mae"]["limit"] == part["methods"]["no_change"]["mae"]
    assert "today" not in score(rows({2: 70.0}))["splits"]["test"]["methods"]


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
    monkeypatch.setattr(measure, "profile_plan", profile_plan)
    monkeypatch.setattr(measure.Run, "load", lambda _: SimpleNamespace(manifest=told))
    monkeypatch.setattr(measure, "predicted", lambda _, dev, split: [{"dev": dev, "split": split}])
    monkeypatch.setattr(measure, "measured", lambda _: [{"stages": 2}])
    return runs


def test_the_second_set_is_measured_alone(profiled: list[tuple[str, Sequence[str], int]], tmp_path: Path) -> None:
    measure.measure_prediction(tmp_path, second=True)
    assert [path.name for path in tmp_path.iterdir()] == ["second"]
    predictions = json.loads((tmp_path / "second" / "predictions.json").read_text())["predictions"]
    assert predictions == [{"dev": [], "split": "second"}]
    assert json.loads((tmp_path / "second" / "measured.json").read_text())["launches"] == [{"stages": 2}]
    sets = [found for _, found, _ in profiled]
    half = len(sets) // 2
    assert sets == [DEFAULT_SETS] * half + [measure.SLIM] * half, "profiles first, then all depths"
    assert sum(count for name, _, count in profiled if name.startswith("measured")) <= 45


def test_predictions_that_are_there_are_kept(profiled: list[tuple[str, Sequence[str], int]], tmp_path: Path) -> None:
    (tmp_path / "predictions.json").write_text("before")
    measure.measure_prediction(tmp_path)
    assert (tmp_path / "predictions.json").read_text() == "before"
    assert not (tmp_path / "second").exists()


def test_nothing_measured_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise MeasurementError("no GPU")

    monkeypatch.setattr(measure, "profile_plan", fails)
    with pytest.raises(MeasurementError, match="nothing was profiled"):
        measure.measure_prediction(tmp_path, second=True)
