"""The Sweep page: sweeps found among rows, addresses, figures, predictions beside measurements, and
the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.utils import PlotlyJSONEncoder

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.model.predict import Prediction
from ncubble.analysis.sweeps.depths import Depth, depth_predictions, depths_of, judged, profiles
from ncubble.analysis.sweeps.sweeps import PointSpread, Sweep, SweepSeries, logarithmic, sweeps
from ncubble.dashboard.app.app import content as page
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import SweepAddress
from ncubble.dashboard.pages.sweep import layout
from ncubble.dashboard.pages.sweep.figures import axis_of, parts_figure, prediction_figure, series_figure
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames
from tests.helpers.sweep_rows import UNSPLIT, row, sweep_over


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


def drawn(one: Sweep, **options: Any) -> go.Figure:
    axes = (one.parameter, "busy")
    return series_figure(one.series, one.names(), one.busy, axes, "%", **options)


def depth(number: int, measured: float | None, predicted: float | None) -> Depth:
    busy = None if measured is None else PointSpread(measured, measured, measured, 1)
    told = None if predicted is None else Prediction(predicted, 1000.0, predicted - 5, predicted + 5)
    return Depth(number, busy, None, told, "")


def test_every_figure_is_one_that_plotly_takes() -> None:
    one = sweep_over([row(i, 1e5 + i, stages=1 + i // 2, vec=16 - 12 * (i % 2)) for i in range(8)])
    depths = [depth(1, 30.0, 33.0), depth(2, 50.0, 50.0)]
    figures = [
        drawn(one, best="high"),
        parts_figure(one.series, one.names(), "stages"),
        prediction_figure(depths, 2, "stages"),
    ]
    for figure in figures:
        go.Figure(figure.to_dict())  # raises ValueError for any member that plotly does not know
        assert figure.data


def test_a_series_has_colour_symbol_and_dash_and_whiskers_from_least_to_most() -> None:
    one = sweep_over(
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
    one = sweep_over([row(0, parameters={"path": "tma"}), row(1, parameters={"path": "cp_async"})], "path")
    figure = drawn(one)
    assert list(figure.data[0].x) == ["cp_async", "tma"] and figure.data[0].type == "bar"
    go.Figure(figure.to_dict())  # raises ValueError for any member that plotly does not know


def test_parts_keep_their_colours_and_hatches_and_sum_to_100() -> None:
    one = sweep_over([row(0), row(1, stages=3, account=UNSPLIT), row(2, vec=4), row(3, stages=3, vec=4)])
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
    address = SweepAddress(one.kernel, one.parameter)
    sent = frames.sent(layout.sweep_page(frames.store(tmp_path), sweeps(rows), one, address))
    for name in ("dangerously", "srcDoc", '"Iframe"', '"type": "A"', "could not be shown"):
        assert name not in sent, name


def test_a_choice_by_prediction_is_held_against_the_best_depth() -> None:
    depths = [
        depth(1, 30.0, 33.0),
        depth(2, 50.0, 50.0),
        depth(3, 60.0, 58.0),
        depth(4, 70.0, 57.4),
        depth(5, None, 90.0),
    ]
    assert judged("stages", depths, 2) == [
        "Predicted from stages 2: 5.9 points of utilization off on average over 3 other measured depths.",
        "Best by prediction: stages 3, which reaches 60.0 %; by measurement: 4, 70.0 %. "
        "Following the prediction loses 10.0 points (14.3 %).",
    ]
    flat = judged("stages", [depth(2, 50.0, 50.0), depth(3, 50.5, 51.0)], 2)
    assert flat[1:] == [
        "The measured depths span 0.5 points: their order is not significant.",
        "Best by prediction and by measurement: stages 3, 50.5 %.",
    ]
    assert "predictions cannot be checked" in judged("stages", [depth(2, 50.0, 50.0)], 2)[0]


@pytest.fixture(scope="module")
def recorded() -> ReportStore:
    """Three depths of a recorded Triton GEMM, read as users read them."""
    store = ReportStore([ROOT / "triton_gemm" / name for name in ("stages1", "stages2", "stages3")])
    assert store.start().wait(120)
    return store


def test_a_recorded_sweep_is_predicted_from_one_of_its_launches(recorded: ReportStore) -> None:
    one = sweep_over(recorded.rows())
    series: SweepSeries = one.series[0]
    assert [point.value for point in profiles(series)] == ["2", "3", "1"]
    key, _, launch = str(profiles(series)[0].typical()["id"]).partition("/")
    entry = recorded.find(key, int(launch))
    assert entry is not None
    told = depth_predictions(entry.launch, 2)
    depths = {held.depth: held for held in depths_of(series, told)}
    assert depths[2].error == pytest.approx(0.0, abs=0.05)
    assert depths[3].error is not None and abs(depths[3].error) < 10 and depths[3].busy
    assert depths[1].predicted is None and "a different loop" in depths[1].refusal
    assert depths[5].busy is None and depths[5].predicted


def test_the_page_of_a_recorded_sweep_has_every_section(recorded: ReportStore) -> None:
    sent = frames.sent(page(recorded, "/sweep", "?kernel=triton_gemm&x=stages")[0])
    for wanted_text in (
        "Sweep of stages",
        "Best: ",
        "compare the two",
        "sweep-busy",
        "sweep-time",
        "sweep-parts",
        "View as table",
        "Predicted from stages 2",
        "a different loop",
        "predicted from here",
    ):
        assert wanted_text in sent, wanted_text
    assert "could not be shown" not in sent
    start = str(profiles(sweep_over(recorded.rows()).series[0])[1].typical()["id"])
    other = frames.sent(page(recorded, "/sweep", f"?kernel=triton_gemm&x=stages&from={start}")[0])
    assert "Predicted from stages 3" in other


def test_the_page_lists_what_was_swept_and_links_to_it(recorded: ReportStore) -> None:
    sent = frames.sent(page(recorded, "/sweep")[0])
    assert "1 sweep: " in sent and SweepAddress("triton_gemm", "stages", "NVIDIA H200").href() in sent
    assert "stages of triton_gemm matters most: 1 takes 1.77 times as long as 3." in sent
    assert page(recorded, "/sweep")[1] == "Sweep · ncubble"
    lost = frames.sent(page(recorded, "/sweep", "?kernel=gemm_ws&x=stages")[0])
    assert "No such sweep" in lost and SweepAddress("triton_gemm", "stages", "NVIDIA H200").href() in lost


def test_without_sweeps_the_page_says_how_to_record_one(tmp_path: Path) -> None:
    alone = frames.sent(page(frames.store(tmp_path, [frames.gemm()]), "/sweep")[0])
    assert "None of the 2 launches here differ" in alone and "-g stages=1,2,3" in alone


def test_sweeps_may_still_come_while_reports_are_read(tmp_path: Path) -> None:
    store = ReportStore([tmp_path / "a.ncu-rep"])
    assert "Reading reports" in frames.sent(layout.layout(store, SweepAddress())) and "Reading" in frames.sent(
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
    assert {one.gpu: len(one.rows) for one in every} == {devices[0]: 2, devices[2]: 2}
    assert {one.gpu_shown for one in every} == set(devices)  # the short name would name both
    assert layout.choose(every, SweepAddress("gemm", "stages", devices[2])) in every
    assert layout.choose(every, SweepAddress("gemm", "stages", "A100")) in every
    (alone,) = [one for one in sweeps(rows[:2]) if one.parameter == "stages"]
    assert (alone.gpu, alone.gpu_shown) == (devices[0], "A100")


def test_more_series_than_a_figure_holds_are_counted(tmp_path: Path) -> None:
    rows = [row(i, stages=1 + i % 2, vec=i // 2) for i in range(20)]
    (one,) = [one for one in sweeps(rows) if one.parameter == "stages"]
    sent = frames.sent(layout.sweep_page(frames.store(tmp_path), sweeps(rows), one, SweepAddress("gemm", "stages")))
    assert "4 more series are not drawn" in sent and '"could not be shown' not in sent
