"""Figures as data: what they show, what they leave out, and that nothing from a report becomes
markup."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects
import pytest

from ncubble.analysis.account.parts import CAUSES
from ncubble.analysis.details.tracks import NO_MARKS, Marks, Window, stretches, window
from ncubble.analysis.report.frames import stall_shares
from ncubble.dashboard.pages.kernel.timeline_figure import LaunchTimeline
from ncubble.dashboard.ui.components import bare
from ncubble.dashboard.ui.figures import TEMPLATES, cause_symbol, stall_bar, utilization_data
from tests.helpers import dashboard_frames as frames


def marked(phases: object, shown: Window) -> Marks:
    return Marks.of(phases, frames.PARTS, shown, "tensor")


def test_every_cause_has_a_marker_of_its_own() -> None:
    symbols = [cause_symbol(cause) for cause in CAUSES]
    assert len(set(symbols)) == len(symbols) and cause_symbol("new_cause") not in symbols
    shapes = {cause_symbol(cause).removesuffix("-open") for cause in ("data_wait", "slow_path")}
    assert len(shapes) == 2  # their colours are close
    known = set(plotly.graph_objects.scatter.Marker()._get_validator("symbol").values)
    assert set(symbols) <= known


def test_stall_shares_are_percent_of_all_samples() -> None:
    source = frames.source(0)
    shares = dict(stall_shares(source))
    assert sum(shares.values()) == pytest.approx(100.0)
    assert shares["barrier"] == pytest.approx(100 * source["barrier"].sum() / source["samples"].sum())
    assert stall_shares(source.iloc[0:0]) == []


def test_many_stall_reasons_are_cut_and_the_rest_is_said() -> None:
    shares = [(f"reason_{index}", 5.0) for index in range(20)]
    names = list(stall_bar(shares, limit=12).data[0].y)
    assert len(names) == 13
    assert names[-1] == "8 more"


def test_the_scatter_draws_what_has_both_numbers(tmp_path: Path) -> None:
    rows = frames.store(tmp_path).rows()
    drawn = [point for trace in utilization_data(rows)["data"] for point in trace["customdata"]]
    complete = [row["id"] for row in rows if row["tensor"] is not None and row["dram"] is not None]
    assert sorted(drawn) == sorted(complete)
    assert len(drawn) == len(rows) - 1


def test_the_timeline_starts_at_the_first_active_sample_and_shades_the_phases() -> None:
    shown = window(frames.timeline(0).assign(t_ns=lambda frame: frame["t_ns"] + 10**9))
    assert shown is not None
    later = frames.phases()
    for name in ("start_ns", "ramp_end_ns", "tail_start_ns", "end_ns"):
        setattr(later, name, getattr(later, name) + 10**9)
    later.dips = tuple((start + 10**9, end + 10**9) for start, end in later.dips)
    drawn = LaunchTimeline(shown, marked(later, shown)).figure()
    shaded = [shape for shape in drawn.layout.shapes if shape.type == "rect" and shape.xref == "x"]
    first = min(shaded, key=lambda shape: shape.x0)
    assert (first.x0, first.x1) == pytest.approx((0.0, 12.0))
    assert len(shaded) == 5
    level = [shape for shape in drawn.layout.shapes if shape.type == "line"]
    assert [(shape.yref, shape.y0) for shape in level] == [("y", 52.0)]
    assert {annotation.text for annotation in drawn.layout.annotations} >= {
        "<b>ramp 2.4 %</b>",
        "<b>tail 5.5 %</b>",
        "<b>wave gap</b>",
    }
    assert [trace.name for trace in drawn.data] == ["tensor pipe", "SMs active", "DRAM", "L2"]


def test_labels_of_many_gaps_do_not_pile_up() -> None:
    phases = frames.phases()
    phases.dips = tuple((20_000 + 5_000 * i, 22_000 + 5_000 * i) for i in range(60))
    shown = window(frames.timeline(0))
    assert shown is not None
    drawn = LaunchTimeline(shown, marked(phases, shown)).figure()
    middles = sorted(label.x for label in drawn.layout.annotations if label.xref == "x" and label.yref == "paper")
    assert len(middles) <= 11
    assert min(np.diff(middles)) > 0.08 * 400


def test_without_phases_nothing_is_shaded_and_the_reason_is_said() -> None:
    shown = window(frames.timeline(0))
    assert shown is not None
    assert stretches(None) == []
    assert len(LaunchTimeline(shown, None).figure().layout.shapes) == 0
    assert "No bubbles are marked" in NO_MARKS


def test_tail_that_only_the_counters_saw_is_told_apart() -> None:
    shown = window(frames.timeline(0))
    assert shown is not None
    marks = Marks.of(frames.phases(), {**frames.PARTS, "tail": 8.0}, shown, "tensor")
    assert "tail 8.0 %" in marks.words() and "2.5 points of the tail come from counters (SM cycles" in marks.words()
    assert "<b>tail 8.0 %</b>" in {label.text for label in LaunchTimeline(shown, marks).figure().layout.annotations}


def test_phases_of_a_unit_that_was_not_sampled_are_those_of_issued_instructions() -> None:
    issue = frames.timeline(0).replace({"metric": {"tensor": "issue"}})
    shown = window(issue, "alu")
    assert shown is not None
    marks = Marks.of(frames.phases(), frames.PARTS, shown, "alu")
    assert marks.words().startswith("Shaded: issue slots well below")
    drawn = LaunchTimeline(shown, marks).figure()
    level = next(shape for shape in drawn.layout.shapes if shape.type == "line")
    assert drawn.data[[trace.name for trace in drawn.data].index("issue slots")].yaxis == level.yref


@pytest.mark.parametrize("unit", ["tensor", "dram"])
def test_samples_after_the_end_of_the_kernel_do_not_stretch_the_axis(unit: str) -> None:
    timeline = frames.timeline(0)
    later = timeline.assign(t_ns=timeline["t_ns"] + 402_000, value=0.3)
    written_back = later["metric"] == "dram"
    later.loc[written_back, "value"] = 15.0
    later.loc[later["metric"] == "sm_active", "value"] = 0.0
    shown = window(pd.concat([timeline, later], ignore_index=True), unit)
    assert shown is not None
    assert shown.end_ns == pytest.approx(399_000, abs=1500)
    drawn = LaunchTimeline(shown, None).figure()
    assert drawn.layout.xaxis.range[1] < 410
    assert max(max(trace.x) for trace in drawn.data) <= 402


def test_themes_are_transparent_so_that_the_card_shows_and_no_figure_names_one() -> None:
    assert {template["layout"]["paper_bgcolor"] for template in TEMPLATES.values()} == {"rgba(0,0,0,0)"}
    assert "template" not in bare(stall_bar([("barrier", 100.0)]))["layout"]
    assert TEMPLATES["light"]["layout"]["font"]["color"] != TEMPLATES["dark"]["layout"]["font"]["color"]


def test_hostile_names_are_text_in_every_figure(tmp_path: Path) -> None:
    report = frames.hostile()
    rows = frames.store(tmp_path, [report]).rows()
    shown = window(report.timeline)
    assert shown is not None
    figures = [
        plotly.graph_objects.Figure(utilization_data(rows)),
        stall_bar(stall_shares(report.source)),
        LaunchTimeline(shown, marked(frames.phases(), shown)).figure(),
    ]
    drawn = frames.sent([bare(figure) for figure in figures])
    assert "&lt;img" in drawn and "<img" not in drawn
