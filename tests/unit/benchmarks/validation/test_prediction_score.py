"""Scores of predicted depths, the baselines beside them, and the sweeps that they are measured
on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.validation.prediction.record import BASELINES, baselines
from benchmarks.validation.prediction.score import score
from benchmarks.validation.subjects import depth_sweeps, second_sweeps
from ncubble.analysis.model.pipeline import Pipeline, pipeline_of
from ncubble.analysis.report.report import Report
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.spec.case import make_case
from ncubble.recordings import ROOT

MEASURED = {1: 40.0, 2: 60.0, 3: 80.0, 4: 79.0}


def rows(told: Mapping[int, float | None], start: int = 1, **more: Any) -> list[dict[str, Any]]:
    """A sweep predicted from ``start``: the percentages of ``told`` by depth, intervals of ± 5."""
    return [
        {
            "family": "gemm", "config": "cube", "split": "test", "from_stages": start, "to_stages": depth,
            "measured_pct": pct, "measured_cycles": 1000.0 / pct, "baselines": {"no_change": MEASURED[start]},
            "predicted": None if (value := told.get(depth)) is None else {
                "tensor_elapsed_pct": value, "cycles": 1000.0 / value, "low": value - 5.0, "high": value + 5.0,
            },
            **more,
        }
        for depth, pct in MEASURED.items()
    ]  # fmt: skip


def test_perfect_predictions() -> None:
    found = score(rows(MEASURED))
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
    assert ours["no_change"]["regret_pct"] == pytest.approx(100 * (80 - 79) / 80)  # all are alike: the deepest
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
    found = score([*rows(MEASURED), *rows({2: 50.0}, split="dev", family="other")])
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
