"""Change points: steps in series, what is a kernel's change and what a machine's, and how they are
told."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from ncubble.analysis.gate.history import KeptCheck, KeptKernel, KeptMetric, Point, read
from ncubble.analysis.gate.steps import find_steps
from ncubble.analysis.gate.trend import TrendSeries, all_series, series_of
from ncubble.recordings import CHECKS

WHEN = datetime(2026, 9, 1, tzinfo=UTC)


def noise(length: int, seed: int = 1, sd: float = 0.2) -> np.ndarray:
    return sd * np.random.default_rng(seed).standard_normal(length)


def stepped(length: int, *steps: tuple[int, float], seed: int = 1, sd: float = 0.2) -> list[float]:
    places = np.arange(length)
    return list(100 + noise(length, seed, sd) + sum(change * (places >= place) for place, change in steps))


def point(index: int, mean: float, **more: Any) -> Point:
    """A check on day ``index``; ``more`` are members of its kernel or metric."""
    kernel = {"id": "gemm-1", "label": "gemm", "device": "NVIDIA H200", "git_sha": f"{index:040x}"}
    kernel |= {"gpu": ("GPU-1",), "driver": "580", "ncu_version": "2025.3", "reports": (f"{index:016x}",)}
    metric = {"name": "tensor_elapsed_pct", "unit": "%", "better": "higher", "gated": True, "counter": "c"}
    metric |= {"mean": None if math.isnan(mean) else mean, "sd": 0.1, "n": 5}
    for name, value in more.items():
        (metric if name in KeptMetric.__struct_fields__ else kernel)[name] = value
    check = KeptCheck(3, f"c{index}", WHEN + timedelta(days=index), "pass", 0)
    return Point(check, KeptKernel(**kernel), KeptMetric(**metric))


def series(values: list[float], **more: Any) -> TrendSeries:
    """A series of these means; a list in ``more`` has one entry for each."""
    each = {name: value for name, value in more.items() if isinstance(value, list)}
    whole = {name: value for name, value in more.items() if name not in each}
    return series_of(
        [point(i, mean, **whole, **{name: one[i] for name, one in each.items()}) for i, mean in enumerate(values)]
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

    def test_several_odd_checks_hide_nothing(self) -> None:
        values = stepped(30, (20, -0.8), seed=2)
        for place in (3, 11, 26):
            values[place] -= 3
        found = find_steps(values)
        assert [step.index for step in found.steps] == [20] and found.odd == (3, 11, 26)

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

    @pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [0.0] * 9])
    def test_short_and_empty_series_have_none(self, values: list[float]) -> None:
        found = find_steps(values)
        assert not found.steps and len(found.fitted) == len(values)

    def test_many_steps_that_come_and_go_are_found(self) -> None:
        places = list(range(10, 100, 10))
        values = stepped(100, *((place, 3.0 * (-1) ** (place // 10)) for place in places))
        assert [step.index for step in find_steps(values).steps] == places


class TestSeries:
    def test_a_change_tells_commit_size_and_direction(self) -> None:
        one = series(stepped(30, (12, -1.8)))
        (change,) = one.changes
        assert (change.index, change.direction) == (12, "worse")
        assert change.low_pct is not None and change.change_pct is not None and change.high_pct is not None
        assert change.low_pct < -1.8 < change.high_pct and change.size("%").startswith("-1.")
        assert one.commits(change) == f"{12:040x}"[:10] + ", as before"
        assert change.confidence == "> 99.99 %" and " to " in change.interval
        assert one.level == pytest.approx(98.2, abs=0.2)

    @pytest.mark.parametrize(("better", "said"), [("lower", "better"), ("higher", "worse"), ("neutral", "moved")])
    def test_the_direction_is_that_of_the_metric(self, better: str, said: str) -> None:
        assert [one.direction for one in series(stepped(30, (12, -1.8)), better=better).changes] == [said]

    @pytest.mark.parametrize(
        ("name", "values", "said"),
        [
            ("gpu", [("GPU-1",), ("GPU-2",)], "GPU 1 → 2"),
            ("gpu", [(), ("GPU-2",)], "GPU not collected → 2"),
            ("driver", ["580", "590"], "driver 580 → 590"),
            ("ncu_version", ["2025.3", "2026.1"], "ncu 2025.3 → 2026.1"),
            ("counter", ["a", "b"], "counter a → b"),
        ],
    )
    def test_what_a_new_machine_moves_is_named_and_no_change(self, name: str, values: list[Any], said: str) -> None:
        one = series(stepped(30, (12, -1.8)), **{name: [values[i >= 12] for i in range(30)]})
        (boundary,) = one.boundaries
        assert not one.changes and boundary.index == 12 and boundary.words == said
        assert boundary.change_pct == pytest.approx(-1.8, abs=0.3)

    def test_gpus_that_take_turns_have_one_boundary_each(self) -> None:
        one = series(stepped(30), gpu=[(f"GPU-{i % 3}",) for i in range(30)])
        assert [boundary.index for boundary in one.boundaries] == [1, 2]

    def test_reports_that_are_checked_again_count_once(self) -> None:
        one = series([100.0] * 3 + [99.0] * 20, reports=[("a",), ("b",), ("c",), *[("d",)] * 20], sd=0.0)
        assert len(one.checks) == 4 and one.again == 19 and not one.changes

    def test_a_sure_change_that_matters_to_no_one_is_not_told(self) -> None:
        assert not series([100.0] * 10 + [100.1] * 10, sd=0.0).changes
        assert series([100.0] * 10 + [100.4] * 10, sd=0.0).changes

    def test_a_level_of_zero_has_no_percentage(self) -> None:
        (change,) = series([0.0] * 10 + [3.0] * 10, sd=0.0, unit="points").changes
        assert change.change_pct is None and change.size("points") == "+3 points" and change.interval == ""

    def test_values_that_are_missing_are_gaps(self) -> None:
        values = stepped(30, (12, -1.8), seed=2)
        values[3] = values[20] = math.nan
        one = series(values)
        assert len(one.checks) == 28 and [change.index for change in one.changes] == [11]


class TestHistories:
    def test_the_recorded_checks_of_one_commit_hold_no_change(self) -> None:
        found = all_series(read(CHECKS))
        assert len(found) == 24 and sum(one.enough for one in found) == 20
        assert not [one for one in found if one.changes or one.boundaries]

    def test_a_planted_loss_of_2_percent_is_found_in_them(self) -> None:
        replace = msgspec.structs.replace
        points = [one for one in read(CHECKS).points() if one.metric.name == "tensor_elapsed_pct" and one.metric.gated]
        late = sorted({one.check.checked for one in points})[4]
        lost = [
            one._replace(metric=replace(one.metric, mean=one.metric.mean * (0.98 if one.check.checked >= late else 1)))
            for one in points
        ]
        by_kernel = [series_of([one for one in lost if one.kernel.id == id]) for id in {one.kernel.id for one in lost}]
        found = [[change.direction for change in one.changes] for one in by_kernel if one.enough]
        assert found == [["worse"], ["worse"]]
