"""Change points: steps in series, what is a kernel's change and what a machine's, and how they are
told."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.analysis.history.file import HistoryReader, append
from ncubble.analysis.history.output import changed, commits, confidence, interval, size
from ncubble.analysis.history.rows import COLUMNS as HISTORY_COLUMNS
from ncubble.analysis.history.rows import Occasion, rows
from ncubble.analysis.history.steps import find_steps
from ncubble.analysis.history.trend import COLUMNS, TrendSeries, all_series, series_of
from ncubble.cli import main
from ncubble.errors import MeasurementError, UsageError
from ncubble.recordings import CHECKS
from tests.helpers.gate_frames import groups, recorded, report

WHEN = datetime(2026, 9, 1, tzinfo=UTC)


def noise(length: int, seed: int = 1, sd: float = 0.2) -> np.ndarray:
    return sd * np.random.default_rng(seed).standard_normal(length)


def stepped(length: int, *steps: tuple[int, float], seed: int = 1, sd: float = 0.2) -> list[float]:
    places = np.arange(length)
    return list(100 + noise(length, seed, sd) + sum(change * (places >= place) for place, change in steps))


def row(index: int, mean: float, **more: Any) -> dict[str, Any]:
    plain = {
        "check": f"c{index}",
        "checked": pd.Timestamp(WHEN + timedelta(days=index)),
        **{"id": "gemm-1", "label": "gemm", "device": "NVIDIA H200", "kernel": "gemm"},
        **{"metric": "tensor_elapsed_pct", "unit": "%", "better": "higher", "gated": True, "counter": "c"},
        **{"mean": mean, "sd": 0.1, "n": 5, "git_sha": f"{index:040x}", "git_dirty": False, "checked_sha": None},
        **{"gpu": ["GPU-1"], "driver": "580", "ncu_version": "2025.3", "reports": [f"{index:016x}"]},
    }
    return plain | more


def series(values: list[float], **more: Any) -> TrendSeries:
    """A series of these means; a list in ``more`` has one entry for each."""
    each = {name: value for name, value in more.items() if isinstance(value, list)}
    whole = {name: value for name, value in more.items() if name not in each}
    return series_of(
        [row(i, mean, **whole, **{name: one[i] for name, one in each.items()}) for i, mean in enumerate(values)]
    )


class TestSteps:
    def test_a_step_is_found_at_its_place_with_its_size_and_interval(self) -> None:
        (step,) = find_steps(stepped(30, (12, -1.0))).steps
        assert step.first <= 12 <= step.last and abs(step.index - 12) <= 1
        assert abs(step.change + 1.0) < step.half_width < 0.4 and step.p_value < 1e-6

    @pytest.mark.parametrize("sd", [0.0, 0.1, 3.0])
    def test_what_does_not_change_has_no_step(self, sd: float) -> None:
        assert not find_steps(stepped(40, sd=sd)).steps

    def test_false_steps_are_as_rare_as_stated(self) -> None:
        false = sum(bool(find_steps(stepped(20, seed=seed)).steps) for seed in range(300))
        assert false <= 6  # 1 % are 3; more than 6 have a chance of 3 %

    def test_a_level_that_comes_and_goes_is_two_steps(self) -> None:
        found = find_steps(stepped(40, (18, -1.0), (23, 1.0)))
        assert [step.index for step in found.steps] == [18, 23]

    def test_one_odd_check_is_no_step_and_hides_none(self) -> None:
        values = stepped(30, (20, 0.8))
        values[8] -= 5
        found = find_steps(values)
        assert [step.index for step in found.steps] == [20] and found.odd == (8,)
        assert abs(found.fitted[8] - found.fitted[7]) < 1e-6

    def test_several_odd_checks_hide_nothing(self) -> None:
        values = stepped(30, (20, -0.8), seed=2)
        for place in (3, 11, 26):
            values[place] -= 3
        found = find_steps(values)
        assert [step.index for step in found.steps] == [20] and found.odd == (3, 11, 26)

    def test_the_last_check_alone_is_no_step(self) -> None:
        assert not find_steps([*stepped(20), 90.0]).steps

    def test_a_step_together_with_a_new_setup_is_not_searched(self) -> None:
        values, setups = stepped(20, (10, -2.0)), [0] * 10 + [1] * 10
        assert find_steps(values).steps and not find_steps(values, setups=setups).steps

    def test_a_step_within_a_setup_is_found_beside_a_new_one(self) -> None:
        values = stepped(30, (10, -2.0), (20, -1.0), seed=2)
        (step,) = find_steps(values, setups=[0] * 10 + [1] * 20).steps
        assert step.index == 20 and step.change == pytest.approx(-1, abs=0.3)

    def test_machines_that_take_turns_tell_together(self) -> None:
        setups = [index % 3 for index in range(30)]
        values = [value + 3 * setup for value, setup in zip(stepped(30, (15, -0.8)), setups, strict=True)]
        assert not find_steps(values).steps
        assert [step.index for step in find_steps(values, setups=setups).steps] == [15]

    def test_the_spread_of_repeats_bounds_what_few_checks_can_prove(self) -> None:
        values = [100.0, 100.001, 100.0, 99.5, 99.501, 99.5]
        assert find_steps(values).steps
        assert not find_steps(values, variances=[0.25] * 6).steps

    def test_exact_values_that_move_are_sure(self) -> None:
        (step,) = find_steps([7.0] * 4 + [8.0] * 4).steps
        assert step.index == 4 and step.change == pytest.approx(1) and step.p_value < 1e-12

    @pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [0.0] * 9])
    def test_short_and_empty_series_have_none(self, values: list[float]) -> None:
        found = find_steps(values)
        assert not found.steps and len(found.fitted) == len(values)

    def test_many_steps_that_come_and_go_are_found(self) -> None:
        places = list(range(10, 100, 10))
        values = stepped(100, *((place, 3.0 * (-1) ** (place // 10)) for place in places))
        assert [step.index for step in find_steps(values).steps] == places

    def test_a_setup_for_every_check_has_none(self) -> None:
        assert not find_steps(stepped(8, (4, -9)), setups=list(range(8))).steps


class TestSeries:
    def test_a_change_tells_commit_size_and_direction(self) -> None:
        one = series(stepped(30, (12, -1.8)))
        (change,) = one.changes
        assert (change.index, change.direction) == (12, "worse")
        assert change.low_pct is not None and change.change_pct is not None and change.high_pct is not None
        assert change.low_pct < -1.8 < change.high_pct and size(change, "%").startswith("-1.")
        assert commits(one, change) == f"{12:040x}"[:10] + ", as before"
        assert confidence(change) == "> 99.99 %" and " to " in interval(change)
        assert one.level == pytest.approx(98.2, abs=0.2)

    @pytest.mark.parametrize(("better", "said"), [("lower", "better"), ("higher", "worse"), ("neutral", "moved")])
    def test_the_direction_is_that_of_the_metric(self, better: str, said: str) -> None:
        assert [one.direction for one in series(stepped(30, (12, -1.8)), better=better).changes] == [said]

    @pytest.mark.parametrize(
        ("name", "values", "said"),
        [
            ("gpu", [["GPU-1"], ["GPU-2"]], "GPU 1 → 2"),
            ("gpu", [None, ["GPU-2"]], "GPU not collected → 2"),
            ("driver", ["580", "590"], "driver 580 → 590"),
            ("ncu_version", ["2025.3", "2026.1"], "ncu 2025.3 → 2026.1"),
            ("counter", ["a", "b"], "counter a → b"),
        ],
    )
    def test_what_a_new_machine_moves_is_named_and_no_change(self, name: str, values: list[Any], said: str) -> None:
        one = series(stepped(30, (12, -1.8)), **{name: [values[i >= 12] for i in range(30)]})
        (boundary,) = one.boundaries
        assert not one.changes and boundary.index == 12 and changed(boundary) == said
        assert boundary.change_pct == pytest.approx(-1.8, abs=0.3)

    def test_gpus_that_take_turns_have_one_boundary_each(self) -> None:
        one = series(stepped(30), gpu=[[f"GPU-{i % 3}"] for i in range(30)])
        assert [boundary.index for boundary in one.boundaries] == [1, 2]

    def test_reports_that_are_checked_again_count_once(self) -> None:
        one = series([100.0] * 3 + [99.0] * 20, reports=[["a"], ["b"], ["c"], *[["d"]] * 20], sd=0.0)
        assert len(one.checks) == 4 and one.again == 19 and not one.changes

    def test_reports_that_are_not_named_count_each(self) -> None:
        assert len(series([100.0] * 9, reports=[None] * 9).checks) == 9

    def test_a_sure_change_that_matters_to_no_one_is_not_told(self) -> None:
        assert not series([100.0] * 10 + [100.1] * 10, sd=0.0).changes
        assert series([100.0] * 10 + [100.4] * 10, sd=0.0).changes

    def test_a_level_of_zero_has_no_percentage(self) -> None:
        (change,) = series([0.0] * 10 + [3.0] * 10, sd=0.0, unit="points").changes
        assert change.change_pct is None and size(change, "points") == "+3 points" and interval(change) == ""

    def test_values_that_are_missing_are_gaps(self) -> None:
        values = stepped(30, (12, -1.8), seed=2)
        values[3] = values[20] = math.nan
        one = series(values)
        assert len(one.checks) == 28 and [change.index for change in one.changes] == [11]


class TestHistories:
    def test_the_recorded_checks_of_one_commit_hold_no_change(self) -> None:
        found = all_series(HistoryReader(CHECKS).read().table.select(list(COLUMNS)).to_pandas())
        assert len(found) == 24 and sum(one.enough for one in found) == 20
        assert not [one for one in found if one.changes or one.boundaries]

    def test_a_planted_loss_of_2_percent_is_found_in_them(self) -> None:
        rows = HistoryReader(CHECKS).read().table.select(list(COLUMNS)).to_pandas()
        late = rows["checked"] >= rows["checked"].drop_duplicates().sort_values().iloc[4]
        rows["mean"] = rows["mean"].where(~late, rows["mean"] * 0.98)
        found = [one for one in all_series(rows) if one.gated and one.enough and one.metric == "tensor_elapsed_pct"]
        assert [[change.direction for change in one.changes] for one in found] == [["worse"], ["worse"]]

    def test_an_empty_history_has_no_series(self) -> None:
        assert set(COLUMNS) <= set(HISTORY_COLUMNS.names)
        assert all_series(pd.DataFrame([], columns=list(COLUMNS))) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve checks; the seventh and those after it lost 4 %."""
    made = tmp_path_factory.mktemp("checks")
    for day in range(12):
        values = [(43.0 if day < 6 else 41.3) + 0.02 * (day % 3) + 0.01 * repeat for repeat in range(5)]
        manifest = {"git": {"sha": f"{day + 1:x}" * 40, "dirty": False}}
        result = check(groups(report(values, key=f"{day:016x}", manifest=manifest)), recorded(report()), CheckOptions())
        append(made, rows(result, Occasion(checked=WHEN + timedelta(days=day))))
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["trend", *arguments])


class TestCommand:
    def test_it_prints_what_changed_when_and_at_which_commit(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "150")
        done = run(str(folder))
        assert done.exit_code == 0
        assert "▼ worse -3.95 % on 2026-09-07" in done.stdout
        assert "at 7777777777 after 6666666666, confidence > 99.99 %" in done.stdout
        assert "dram_pct" not in done.stdout and "dram_pct" in run(str(folder), "--all").stdout

    def test_json_holds_the_numbers(self, folder: Path) -> None:
        told = json.loads(run(str(folder), "--json", "--changed").stdout)
        (one,) = told["series"]
        (change,) = one["changes"]
        assert (told["schema"], one["metric"], change["sha"]) == (1, "tensor_elapsed_pct", "7" * 40)
        assert change["last_sha_before"] == "6" * 40 and change["checked"] == "2026-09-07T00:00:00+00:00"
        assert change["change_pct"] == pytest.approx(-3.95, abs=0.01) and change["direction"] == "worse"

    def test_kernels_are_chosen_by_name_and_a_wrong_name_is_told_what_there_is(self, folder: Path) -> None:
        assert "tensor_core_gemm" in run(str(folder), "--kernel", "stages=3").stdout
        for arguments in (["--kernel", "nonsense"], ["--kernel", "nonsense", "--json"]):
            error = run(str(folder), *arguments).exception
            assert isinstance(error, MeasurementError) and error.exit_code == 3
            assert "'nonsense'; available:\n  tensor_core_gemm stages=3" in error.message
        assert isinstance(run(str(folder), "--kernel", "(").exception, UsageError)

    def test_without_any_change_it_says_how_much_was_searched(self) -> None:
        done = run(str(CHECKS), "--changed")
        assert done.exit_code == 0 and done.stdout.startswith("no change in 9 series\n")
        assert "2 series have fewer than" in done.stdout
        assert json.loads(run(str(CHECKS), "--changed", "--json").stdout)["series"] == []

    @pytest.mark.parametrize("arguments", [[], ["none"], ["empty"], ["empty", "--json"]])
    def test_without_a_history_it_says_where_one_comes_from(
        self, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty").mkdir()
        error = run(*arguments).exception
        assert isinstance(error, UsageError) and error.exit_code == 2
        assert error.message.startswith((arguments or ["checks"])[0]) and "ncubble check RUN" in error.remedy

    def test_damaged_files_are_named_and_the_rest_is_shown(self, tmp_path: Path, folder: Path) -> None:
        (tmp_path / "broken.parquet").write_bytes(b"PAR1")
        assert run(str(tmp_path)).exit_code == 3
        for path in folder.glob("*.parquet"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        done = run(str(tmp_path))
        assert done.exit_code == 3 and "broken.parquet" in done.stderr and "-3.95 %" in done.stdout

    @pytest.mark.parametrize("columns", [60, 100])
    def test_it_is_no_wider_than_the_terminal(
        self, columns: int, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        for arguments in ([str(folder), "--all"], [str(CHECKS), "--all"]):
            told = run(*arguments).stdout
            assert max(map(len, told.splitlines())) <= columns
            assert "tensor_elapsed_pct" in told and "…" not in told
