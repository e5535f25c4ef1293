"""The Sweep page: sweeps found among rows, addresses, figures, predictions beside measurements, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.utils import PlotlyJSONEncoder

from ncubble.analysis.account.parts import PARTS
from ncubble.dashboard.app.routes import content as page
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.sweep import layout
from ncubble.dashboard.pages.sweep.address import MOST_FIXED, SweepAddress
from ncubble.dashboard.pages.sweep.coordinates import template_arguments
from ncubble.dashboard.pages.sweep.detail import sweep_page
from ncubble.dashboard.pages.sweep.figures import axis_of, parts_figure, series_figure
from ncubble.dashboard.pages.sweep.model import Series, Sweep, as_number, logarithmic, ordered, sweeps, timed
from ncubble.dashboard.pages.sweep.noise import noise_words, p_value, welch
from ncubble.dashboard.pages.sweep.predicted import sentences
from ncubble.dashboard.pages.sweep.prediction import Depth, Told, held_against, is_depth, profiles, told_by, verdict
from ncubble.dashboard.pages.sweep.prediction_figure import prediction_figure
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames

SPLIT = [["tensor_busy", 60.0], ["data_wait", 30.0], ["issue", 10.0]]
UNSPLIT = [["tensor_busy", 50.0], ["idle", 50.0]]


def row(number: int = 0, took: float | None = 1e5, **changes: Any) -> dict[str, Any]:
    """A row of the overview, with what sweeps read of it; ``stages`` and ``k`` stand for parameters and shape."""
    base = {
        "id": f"0123456789abcdef/{number}",
        "kernel": "gemm",
        "name": "gemm",
        "demangled": "gemm",
        "gpu": "H200",
        "launch": number,
        "path": f"runs/{number}",
        "duration_ns": took,
        "cycles": None if took is None else took * 1.75,
        "tensor": 60.0,
        "busy": 60.0,
        "unit": "tensor",
        "account": SPLIT,
        "parameters": {"stages": changes.pop("stages", 2), "vec": changes.pop("vec", 16)},
        "dims": {"m": 4096, "k": changes.pop("k", 4096)},
        "shape": "",
    }
    return {**base, **changes}


def found(rows: list[dict[str, Any]], parameter: str = "stages") -> Sweep:
    (one,) = [one for one in sweeps(rows) if one.parameter == parameter]
    return one


def foreign(number: int, demangled: str, geometry: str, took: float = 1e5) -> dict[str, Any]:
    return row(number, took, demangled=demangled, shape=geometry, parameters={}, dims={})


def tree(component: Any) -> str:
    return json.dumps(component, cls=PlotlyJSONEncoder, ensure_ascii=False)


def test_launches_that_differ_in_one_parameter_are_a_series_and_others_are_their_own() -> None:
    rows = [
        row(i, 1e5 / stages, stages=stages, vec=vec)
        for i, (stages, vec) in enumerate([(1, 16), (2, 16), (1, 4), (2, 4)])
    ]
    one = found([*rows, row(9, stages=3, vec=8), row(10, stages=7, gpu="A100")])
    assert one.gpu == "H200" and one.values() == ["1", "2"]
    assert [dict(series.fixed)["vec"] for series in one.series] == ["4", "16"]
    assert one.varying() == {"vec": ["4", "16"]} and one.names() == ["vec=4", "vec=16"]
    assert len(one.narrowed([("vec", "4")]).series) == 1 and one.narrowed([("vec", "5")]).series == ()


def test_one_value_alone_is_no_sweep() -> None:
    assert sweeps([row(0), row(1)]) == [] and sweeps([]) == []
    assert sweeps([row(0, None, busy=None, cycles=None), row(1, stages=3)]) == []


def test_repeats_are_averaged_counted_and_their_spread_is_kept() -> None:
    one = found([row(0, 100.0, stages=1), row(1, 120.0, stages=1), row(2, 50.0, stages=4)])
    point = one.series[0].points[0]
    spread = point.spread("duration_ns")
    assert spread and (spread.mean, spread.low, spread.high, spread.n) == (110.0, 100.0, 120.0, 2)
    best, worst, of = one.series[0].ends() or (None, None, None)
    assert best and worst and (best.value, worst.value, of) == ("4", "1", "duration_ns")
    assert one.ratio == pytest.approx(2.2)


def test_values_stand_in_order_numbers_first_and_digits_in_texts_count() -> None:
    assert ordered(["16", "4", "128x64", "64x128", "2"]) == ["2", "4", "16", "64x128", "128x64"]
    assert (
        as_number("0.5") == 0.5 and as_number("nan") is None and as_number("1e5") is None and as_number("64x64") is None
    )


@pytest.mark.parametrize(
    ("values", "log"),
    [
        (["32", "64", "128"], True),
        (["1", "2", "3", "4"], False),
        (["1", "16"], True),
        (["0", "16"], False),
        (["a"], False),
    ],
)
def test_values_far_apart_stand_on_a_logarithmic_axis(values: list[str], log: bool) -> None:
    assert logarithmic(values) is log
    assert (axis_of(values)["type"] == "log") is log


def test_accounts_whose_idle_time_is_split_stand_for_a_value() -> None:
    rows = [row(0, stages=1, account=UNSPLIT), row(1, stages=1), row(2, stages=2, account=UNSPLIT)]
    points = found(rows).series[0].points
    assert points[0].account() == ({"tensor_busy": 60.0, "data_wait": 30.0, "issue": 10.0}, 1)
    assert points[0].typical()["id"].endswith("/1")
    assert points[1].account()[0] == {"tensor_busy": 50.0, "idle": 50.0}


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
    one = found([row(i, parameters={"flags": "x" * 500 + str(i)}) for i in range(2)], "flags")
    assert len(one.values()) == 2 and max(len(value) for value in one.values()) <= 60


def test_the_unit_is_the_tensor_pipe_if_any_launch_counts_it() -> None:
    one = found([row(0, unit="DRAM", busy=90.0, tensor=5.0), row(1, stages=3)])
    assert one.unit() == "tensor" and [one.busy(one.series[0], p).mean for p in one.series[0].points] == [5.0, 60.0]  # type: ignore[union-attr]
    others = found([row(0, unit="FMA", busy=90.0), row(1, stages=3, unit="LSU", busy=80.0)])
    assert others.unit() == "" and others.busy(others.series[0], others.series[0].points[0]).mean == 90.0  # type: ignore[union-attr]


def test_times_are_shown_as_they_are_or_against_the_best_of_their_series() -> None:
    series = found([row(0, 200.0), row(1, 100.0, stages=3)]).series[0]
    assert [timed("time", series, point).mean for point in series.points] == [200.0, 100.0]  # type: ignore[union-attr]
    assert [timed("cycles-best", series, point).mean for point in series.points] == [2.0, 1.0]  # type: ignore[union-attr]
    lacking = found([row(0, None), row(1, None, stages=3)]).series[0]
    assert timed("time-best", lacking, lacking.points[0]) is None and lacking.ends() is None


def two_points(best: list[float], worst: list[float]) -> tuple[Any, Any]:
    rows = [row(i, one, stages=2) for i, one in enumerate(worst)] + [row(9, one, stages=3) for one in best]
    series = found(rows).series[0]
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


def test_welch_agrees_with_scipy() -> None:
    from scipy.stats import ttest_ind

    one, other = [1.0, 2.0, 4.0], [3.0, 5.0, 9.0, 4.0]
    assert welch(one, other) == pytest.approx(ttest_ind(one, other, equal_var=False).pvalue)
    assert (welch([1.0, 1.0], [1.0, 1.0]), welch([1.0, 1.0], [2.0, 2.0])) == (1.0, 0.0)


def test_an_address_is_read_as_it_was_written() -> None:
    one = SweepAddress("a b&c", "stages", "H200", (("tile", "128=x"), ("k", "1")), "cycles-best", "0123456789abcdef/3")
    assert SweepAddress.parse(one.href().partition("?")[2]) == one
    assert SweepAddress.parse(one.fixing("k", None).partition("?")[2]).fixed == (("tile", "128=x"),)
    assert SweepAddress.parse(one.fixing("k", "2").partition("?")[2]).fixed == (("tile", "128=x"), ("k", "2"))
    assert SweepAddress("gemm", "stages").href() == "/sweep?kernel=gemm&x=stages"


@pytest.mark.parametrize(
    "search", [None, "", "?y=area", "?from=../etc", "?fix=", "?fix==2", "?kernel=" + "x" * 600, "?%ff"]
)
def test_what_makes_no_sense_is_left_out_of_an_address(search: str | None) -> None:
    assert SweepAddress.parse(search) == SweepAddress()


def test_an_address_is_read_up_to_a_length() -> None:
    assert len(SweepAddress.parse("&".join(f"fix=n{i}=1" for i in range(10_000))).fixed) == MOST_FIXED
    assert SweepAddress.parse("x=" + "a" * SweepAddress.LONGEST + "&kernel=gemm").kernel == ""


def drawn(one: Sweep, **options: Any) -> go.Figure:
    return series_figure(one.series, one.names(), one.busy, (one.parameter, "busy"), "%", **options)


def test_every_figure_is_one_that_plotly_takes() -> None:
    one = found([row(i, 1e5 + i, stages=1 + i // 2, vec=16 - 12 * (i % 2)) for i in range(8)])
    depths = [
        Depth(
            2,
            one.series[0].points[0].spread("busy"),
            None,
            SimpleNamespace(tensor_active_pct=60.0, cycles=1.0, low=60.0, high=60.0),
            "",
        )
    ]
    figures = [
        drawn(one, best="high"),
        parts_figure(one.series, one.names(), "stages"),
        prediction_figure(depths, 2, "stages"),
    ]
    for figure in figures:
        go.Figure(figure.to_dict())  # raises ValueError for any member that plotly does not know
        assert figure.data


def test_a_series_has_colour_symbol_and_dash_and_whiskers_from_least_to_most() -> None:
    one = found(
        [
            row(0, stages=1, vec=4),
            row(1, stages=2, vec=4, tensor=40.0),
            row(2, stages=2, vec=4, tensor=50.0),
            row(3, stages=1),
            row(4),
        ]
    )
    figure = drawn(one, best="high")
    assert len({(t.line.color, t.line.dash, t.marker.symbol) for t in figure.data}) == 2
    line = next(trace for trace in figure.data if trace.name == "vec=4")
    assert list(line.x) == [1.0, 2.0] and list(line.y) == [60.0, 45.0] and list(line.text) == ["best", ""]
    assert list(line.error_y["array"]) == [0.0, 5.0] and list(line.error_y["arrayminus"]) == [0.0, 5.0]
    assert "lines" in line.mode and figure.layout.showlegend


def test_values_that_are_no_numbers_are_bars_side_by_side() -> None:
    one = found([row(0, parameters={"path": "tma"}), row(1, parameters={"path": "cp_async"})], "path")
    figure = drawn(one)
    assert list(figure.data[0].x) == ["cp_async", "tma"] and figure.data[0].type == "bar"
    go.Figure(figure.to_dict())  # raises ValueError for any member that plotly does not know


def test_parts_keep_their_colours_and_hatches_and_sum_to_100() -> None:
    one = found([row(0), row(1, stages=3, account=UNSPLIT), row(2, vec=4), row(3, stages=3, vec=4)])
    figure = parts_figure(one.series, one.names(), "stages")
    for axis in ("x", "x2"):
        bars = [trace for trace in figure.data if trace.xaxis == axis]
        assert [sum(trace.y[at] for trace in bars) for at in (0, 1)] == pytest.approx([100.0, 100.0])
    wait = next(trace for trace in figure.data if trace.name == "data wait")
    assert wait.marker.color == PARTS["data_wait"].color
    assert [note.text for note in figure.layout.annotations] == ["<b>vec=4</b>", "<b>vec=16</b>"]


def test_names_and_values_from_reports_are_text_in_figures_and_pages(tmp_path: Path) -> None:
    evil = frames.HOSTILE
    rows = [
        row(i, kernel=evil, name=evil, parameters={evil: f"{evil}{i}", "t": t}, path=evil) for i, t in enumerate("aabb")
    ]
    one = next(one for one in sweeps(rows) if one.parameter != "t")
    for figure in (drawn(one), parts_figure(one.series, one.names(), one.parameter)):
        assert "<img" not in json.dumps(figure.to_plotly_json(), cls=PlotlyJSONEncoder)
    sent = tree(sweep_page(frames.store(tmp_path), sweeps(rows), one, SweepAddress(one.kernel, one.parameter)))
    for name in ("dangerously", "srcDoc", '"Iframe"', '"type": "A"', "could not be shown"):
        assert name not in sent, name


def depth(number: int, measured: float | None, predicted: float | None, cycles: float = 1000.0) -> Depth:
    told = (
        None
        if predicted is None
        else SimpleNamespace(tensor_active_pct=predicted, cycles=cycles, low=predicted - 5, high=predicted + 5)
    )
    points = (
        [] if measured is None else found([row(0, stages=number, busy=measured), row(1, stages=99)]).series[0].points
    )
    return Depth(number, points[0].spread("busy") if points else None, None, told, "")


def test_a_choice_by_prediction_is_held_against_the_best_depth() -> None:
    depths = [
        depth(1, 30.0, 33.0),
        depth(2, 50.0, 50.0),
        depth(3, 60.0, 58.0),
        depth(4, 70.0, 58.2),
        depth(5, None, 90.0),
    ]
    result = verdict(depths, 2)
    assert result and (result.chosen, result.best, result.n) == (3, 4, 3)
    assert result.regret_pct == pytest.approx(100 * 10 / 70) and result.mean_error == pytest.approx((3 + 2 + 11.8) / 3)
    said = " ".join(sentences("stages", Told(2, {}, {}), result))
    assert "5.6 points of utilization off" in said and "loses 10.0 points (14.3 %)" in said
    assert verdict([depth(2, 50.0, 50.0)], 2) is None
    assert "nothing can be held against it" in sentences("stages", Told(2, {}, {}), None)[0]


def test_a_depth_is_a_parameter_of_whole_numbers_that_is_called_so() -> None:
    series = found([row(0), row(1, stages=3)]).series
    assert is_depth("stages", series) and is_depth("num_stages", series) and not is_depth("vec", series)
    texts = found([row(0, stages="a"), row(1, stages=3)]).series
    assert not is_depth("stages", texts)


@pytest.fixture(scope="module")
def recorded() -> ReportStore:
    """Three depths of a recorded Triton GEMM, read as users read them."""
    store = ReportStore([ROOT / "triton_gemm" / name for name in ("stages1", "stages2", "stages3")])
    assert store.start().wait(120)
    return store


def test_a_recorded_sweep_is_predicted_from_one_of_its_launches(recorded: ReportStore) -> None:
    one = found(recorded.rows())
    series: Series = one.series[0]
    assert [point.value for point in profiles(series)] == ["2", "3", "1"]
    key, _, launch = str(profiles(series)[0].typical()["id"]).partition("/")
    entry = recorded.find(key, int(launch))
    assert entry is not None
    told = told_by(entry, 2)
    depths = {held.depth: held for held in held_against(series, told)}
    assert depths[2].error == pytest.approx(0.0, abs=0.05)
    assert depths[3].error is not None and abs(depths[3].error) < 10 and depths[3].busy
    assert depths[1].predicted is None and "another loop" in depths[1].refusal
    assert depths[5].busy is None and depths[5].predicted
    assert told_by(entry, 2) is told


def test_the_page_of_a_recorded_sweep_has_every_section(recorded: ReportStore) -> None:
    sent = tree(page(recorded, "/sweep", "?kernel=triton_gemm&x=stages")[0])
    for wanted_text in (
        "Sweep of stages",
        "Best: ",
        "compare the two",
        "sweep-busy",
        "sweep-time",
        "sweep-parts",
        "View as table",
        "Predicted from stages 2",
        "another loop",
        "predicted from here",
    ):
        assert wanted_text in sent, wanted_text
    assert "could not be shown" not in sent
    start = str(profiles(found(recorded.rows()).series[0])[1].typical()["id"])
    other = tree(page(recorded, "/sweep", f"?kernel=triton_gemm&x=stages&from={start}")[0])
    assert "Predicted from stages 3" in other


def test_the_page_lists_what_was_swept_and_links_to_it(recorded: ReportStore) -> None:
    sent = tree(page(recorded, "/sweep")[0])
    assert "1 sweep: " in sent and SweepAddress("triton_gemm", "stages", "NVIDIA H200").href() in sent
    assert page(recorded, "/sweep")[1] == "Sweep · ncubble"
    lost = tree(page(recorded, "/sweep", "?kernel=gemm_ws&x=stages")[0])
    assert "No sweep is like that" in lost and SweepAddress("triton_gemm", "stages", "NVIDIA H200").href() in lost


def test_without_sweeps_the_page_says_how_to_record_one(tmp_path: Path) -> None:
    alone = tree(page(frames.store(tmp_path, [frames.gemm()]), "/sweep")[0])
    assert "None of the 2 launches here differ" in alone and "-p stages=2" in alone


def test_sweeps_may_still_come_while_reports_are_read(tmp_path: Path) -> None:
    store = ReportStore([tmp_path / "a.ncu-rep"])
    assert "Reading reports" in tree(layout.layout(store, SweepAddress())) and "Reading" in tree(
        layout.layout(store, SweepAddress("a", "b"))
    )


def test_a_gpu_and_fixed_parameters_choose_among_series() -> None:
    rows = [row(i, stages=1 + i % 2, vec=4 + 12 * (i // 2 % 2), gpu="H200" if i < 4 else "A100") for i in range(6)]
    every = sweeps(rows)
    chosen = layout.choose(every, SweepAddress("gemm", "stages", fixed=(("vec", "4"),)))
    assert chosen and chosen.gpu == "H200" and [dict(one.fixed)["vec"] for one in chosen.series] == ["4"]
    other = layout.choose(every, SweepAddress("gemm", "stages", "A100"))
    assert other and other.gpu == "A100"
    assert layout.choose(every, SweepAddress("gemm", "stages", "L4")) is None


def test_gpus_of_one_short_name_are_swept_apart(tmp_path: Path) -> None:
    devices = ["NVIDIA A100-PCIE-40GB"] * 2 + ["NVIDIA A100-SXM4-80GB"] * 2
    rows = [row(i, stages=2 + i % 2, gpu="A100", device=name) for i, name in enumerate(devices)]
    every = [one for one in sweeps(rows) if one.parameter == "stages"]
    assert {one.gpu: one.launches for one in every} == {devices[0]: 2, devices[2]: 2}
    assert {one.gpu_shown for one in every} == set(devices)  # the short name would name both
    assert layout.choose(every, SweepAddress("gemm", "stages", devices[2])) in every
    assert layout.choose(every, SweepAddress("gemm", "stages", "A100")) in every
    (alone,) = [one for one in sweeps(rows[:2]) if one.parameter == "stages"]
    assert (alone.gpu, alone.gpu_shown) == (devices[0], "A100")


def test_more_series_than_a_figure_holds_are_counted(tmp_path: Path) -> None:
    rows = [row(i, stages=1 + i % 2, vec=i // 2) for i in range(20)]
    (one,) = [one for one in sweeps(rows) if one.parameter == "stages"]
    sent = tree(sweep_page(frames.store(tmp_path), sweeps(rows), one, SweepAddress("gemm", "stages")))
    assert "4 more series are not drawn" in sent and '"could not be shown' not in sent
