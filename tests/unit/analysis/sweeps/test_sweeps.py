"""Sweeps among launches: coordinates, series, noise, and predictions beside measurements."""

from __future__ import annotations

from typing import Any

import pytest

from ncubble.analysis.sweeps.depths import is_depth
from ncubble.analysis.sweeps.sweeps import as_number, noise_words, ordered, p_value, sweeps, template_arguments
from tests.helpers.sweep_rows import UNSPLIT, row, sweep_over


def foreign(number: int, demangled: str, geometry: str, took: float = 1e5) -> dict[str, Any]:
    return row(number, took, demangled=demangled, shape=geometry, parameters={}, dims={})


def test_launches_that_differ_in_one_parameter_are_a_series_and_others_are_their_own() -> None:
    rows = [
        row(i, 1e5 / stages, stages=stages, vec=vec)
        for i, (stages, vec) in enumerate([(1, 16), (2, 16), (1, 4), (2, 4)])
    ]
    one = sweep_over([*rows, row(9, stages=3, vec=8), row(10, stages=7, gpu="A100")])
    assert one.gpu == "H200" and one.values() == ["1", "2"]
    assert [dict(series.fixed)["vec"] for series in one.series] == ["4", "16"]
    assert one.varying() == {"vec": ["4", "16"]} and one.names() == ["vec=4", "vec=16"]
    assert len(one.narrowed([("vec", "4")]).series) == 1 and one.narrowed([("vec", "5")]).series == ()


def test_one_value_alone_is_no_sweep() -> None:
    assert sweeps([row(0), row(1)]) == [] and sweeps([]) == []
    assert sweeps([row(0, None, busy=None, cycles=None), row(1, stages=3)]) == []


def test_repeats_are_averaged_counted_and_their_spread_is_kept() -> None:
    one = sweep_over([row(0, 100.0, stages=1), row(1, 120.0, stages=1), row(2, 50.0, stages=4)])
    point = one.series[0].points[0]
    spread = point.spread("duration_ns")
    assert spread and (spread.mean, spread.low, spread.high, spread.n) == (110.0, 100.0, 120.0, 2)
    best, worst, of = one.series[0].ends or (None, None, None)
    assert best and worst and (best.value, worst.value, of) == ("4", "1", "duration_ns")
    assert one.ratio == pytest.approx(2.2)


def test_an_edited_kernel_is_no_repeat_of_the_one_before_it() -> None:
    edited = [row(number, 5e5, stages=3, code="edited") for number in (2, 3, 4)]
    swept = sweep_over([row(0, 2e5, code="b"), row(1, 1e5, stages=3, code="a"), *edited])
    assert swept.ratio == pytest.approx(2.0)
    assert [len(point.rows) for point in swept.series[0].points] == [1, 1]
    assert [point.typical()["code"] for point in swept.series[0].points] == ["b", "a"]
    assert sweep_over([row(0, None, cycles=None, code="b"), row(0, 2e5, code="c"), row(1, 1e5, stages=3)]).ratio == 2.0


def test_values_stand_in_order_numbers_first_and_digits_in_texts_count() -> None:
    assert ordered(["16", "4", "128x64", "64x128", "2"]) == ["2", "4", "16", "64x128", "128x64"]
    assert (
        as_number("0.5") == 0.5 and as_number("nan") is None and as_number("1e5") is None and as_number("64x64") is None
    )


def test_accounts_whose_idle_time_is_split_stand_for_a_value() -> None:
    rows = [row(0, stages=1, account=UNSPLIT), row(1, stages=1), row(2, stages=2, account=UNSPLIT)]
    points = sweep_over(rows).series[0].points
    assert points[0].account == ({"tensor_busy": 60.0, "data_wait": 30.0, "issue": 10.0}, 1)
    assert points[0].typical()["id"].endswith("/1")
    assert points[1].account[0] == {"tensor_busy": 50.0, "idle": 50.0}


def test_a_shape_is_swept_dimension_by_dimension_and_as_a_whole() -> None:
    rows = [
        row(0, dims={"m": 1024, "k": 1024}),
        row(1, dims={"m": 2048, "k": 2048}),
        row(2, dims={"m": 2048, "k": 1024}),
    ]
    assert {one.parameter: one.values() for one in sweeps(rows)} == {
        "k=m": ["1024", "2048"],
        "m": ["1024", "2048"],
        "k": ["1024", "2048"],
    }
    assert {one.kind for one in sweeps(rows)} == {"shape"}


def test_blocks_of_foreign_launches_are_a_sweep_where_the_work_is_the_same() -> None:
    rows = [
        foreign(0, "gemm", "grid 64,1,1 × block 128,1,1"),
        foreign(1, "gemm", "grid 32,1,1 × block 256,1,1"),
        foreign(2, "gemm", "grid 32,1,1 × block 16,32,1"),
        foreign(3, "gemm", "grid 77,1,1 × block 512,1,1"),
    ]
    (one,) = sweeps(rows)
    assert (one.parameter, one.kind, one.values()) == ("block", "launch", ["128", "256"])


def test_arguments_of_a_template_are_parameters_but_long_types_are_another_code() -> None:
    geometry = "grid 64,1,1 × block 128,1,1"
    rows = [foreign(i, f"void gemm<(int){tile}, float>(float*)", geometry) for i, tile in enumerate((32, 64))]
    (one,) = sweeps(rows)
    assert (one.parameter, one.values()) == ("template argument 1", ["32", "64"])
    types = [foreign(i, f"void gemm<Policy<{'x' * 40}{i}>>(float*)", geometry) for i in range(2)]
    assert sweeps(types) == []


@pytest.mark.parametrize(
    ("demangled", "arguments"),
    [
        ("void ns::gemm<(int)128, (bool)1, a::b<int, 2>>(float*)", ["128", "1", "a::b<int, 2>"]),
        ("gemm(float*)", []),
        ("void gemm<lambda(int, int)>", ["lambda(int, int)"]),
        ("void gemm<1, 2", []),
    ],
)
def test_template_arguments_are_split_at_their_own_level(demangled: str, arguments: list[str]) -> None:
    assert template_arguments(demangled, "gemm") == arguments


def test_long_and_odd_values_are_told_apart_and_kept_short() -> None:
    rows = [row(i, parameters={"flags": "x" * 500 + str(i), "on": bool(i), "list": [i]}) for i in range(2)]
    assert sweeps(rows) == []  # they differ in three parameters
    one = sweep_over([row(i, parameters={"flags": "x" * 500 + str(i)}) for i in range(2)], "flags")
    assert len(one.values()) == 2 and max(len(value) for value in one.values()) <= 60


def test_the_unit_is_the_tensor_pipe_if_any_launch_counts_it() -> None:
    one = sweep_over([row(0, unit="DRAM", busy=90.0, tensor=5.0), row(1, stages=3)])
    assert one.unit == "tensor" and [one.busy(point).mean for point in one.series[0].points] == [5.0, 60.0]  # type: ignore[union-attr]
    others = sweep_over([row(0, unit="FMA", busy=90.0), row(1, stages=3, unit="LSU", busy=80.0)])
    assert others.unit == "" and others.busy(others.series[0].points[0]).mean == 90.0  # type: ignore[union-attr]


def two_points(best: list[float], worst: list[float]) -> tuple[Any, Any]:
    rows = [row(i, one, stages=2) for i, one in enumerate(worst)] + [row(9, one, stages=3) for one in best]
    series = sweep_over(rows).series[0]
    return series.points[1], series.points[0]


def test_noise_explains_what_repeats_cannot_tell_apart() -> None:
    shape = [-1.0, -0.5, 0.0, 0.5, 1.0]
    tight = two_points([99.2 + 0.0127 * one for one in shape], [100 + 0.0127 * one for one in shape])
    loose = two_points([98 + 2.5 * one for one in shape], [100 + 3.8 * one for one in shape])
    assert noise_words(*tight, "duration_ns", 2) == ""  # 0.8 %, but 80 standard deviations
    assert "noise alone can explain (p = 0." in noise_words(*loose, "duration_ns", 2)


def test_best_and_worst_of_many_points_differ_by_chance_more_often() -> None:
    ends = two_points([98.0, 98.6, 99.2], [99.6, 100.2, 100.8])
    two, four = (p_value(*ends, "duration_ns", points) for points in (2, 4))
    assert two and four and two < 0.05 < four == pytest.approx(6 * two)
    assert noise_words(*ends, "duration_ns", 2) == "" and "of 4 values" in noise_words(*ends, "duration_ns", 4)


def test_nothing_is_said_of_noise_without_repeats_on_both_sides() -> None:
    for best, worst in (([1e5], [1.001e5, 1.002e5]), ([1e5, 1.001e5], [1.002e5])):
        assert noise_words(*two_points(best, worst), "duration_ns", 2) == ""


def test_the_p_value_of_two_points_is_that_of_welch_s_test() -> None:
    from scipy.stats import ttest_ind

    one, other = [1.0, 2.0, 4.0], [3.0, 5.0, 9.0, 4.0]
    expected = ttest_ind(one, other, equal_var=False).pvalue
    assert p_value(*two_points(one, other), "duration_ns", 2) == pytest.approx(expected)
    assert p_value(*two_points([1.0, 1.0], [1.0, 1.0]), "duration_ns", 2) == 1.0
    assert p_value(*two_points([1.0, 1.0], [2.0, 2.0]), "duration_ns", 2) == 0.0


def test_a_depth_is_a_parameter_of_whole_numbers_that_is_called_so() -> None:
    series = sweep_over([row(0), row(1, stages=3)]).series
    assert is_depth("stages", series) and is_depth("num_stages", series) and not is_depth("vec", series)
    texts = sweep_over([row(0, stages="a"), row(1, stages=3)]).series
    assert not is_depth("stages", texts)
