"""Parallel coordinates of the Sweep page: where they stand, what they draw, and what browsers
get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plotly.utils import PlotlyJSONEncoder

from ncubble.analysis.sweeps.parallel import ParallelCoordinates, parallel_coordinates
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import SweepAddress
from ncubble.dashboard.pages.sweep.layout import layout
from ncubble.dashboard.pages.sweep.parallel import MOST_TICKS, TITLE, TONES, marking, parallel_figure, section
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames
from tests.helpers.sweep_rows import row

H200 = "NVIDIA H200"


def tree(component: Any) -> str:
    return json.dumps(component, cls=PlotlyJSONEncoder, ensure_ascii=False)


def drawn_of(rows: list[dict[str, Any]]) -> ParallelCoordinates:
    drawn = parallel_coordinates(rows)
    assert drawn is not None
    return drawn


@pytest.fixture(scope="module")
def recorded() -> ReportStore:
    """All variants of a recorded GEMM: stages, width of copies, kind of copies."""
    store = ReportStore([ROOT.parent / "h200-repeats" / "tensor_core_gemm", ROOT / "triton_gemm"])
    assert store.start().wait(120)
    return store


def test_the_card_stands_where_two_parameters_differ_and_waits_to_be_seen(recorded: ReportStore) -> None:
    sent = tree(layout(recorded, SweepAddress("tensor_core_gemm", "stages")))
    assert TITLE in sent and "sweep-parallel-asked" in sent and "sweep-axes" not in sent
    alone = tree(layout(recorded, SweepAddress("triton_gemm", "stages")))
    assert "Sweep of stages" in alone and TITLE not in alone


def test_the_section_has_a_figure_and_the_same_numbers_as_a_table(recorded: ReportStore) -> None:
    sent = tree(section(recorded, SweepAddress("tensor_core_gemm", "stages", H200)))
    for wanted in ("8 configurations over stages, copy, vec, time, µs", "least time, µs", "plain", "/kernel/"):
        assert wanted in sent, wanted
    cycles = tree(section(recorded, SweepAddress("tensor_core_gemm", "stages", H200, y="cycles-best")))
    assert "least cycles" in cycles
    assert "no longer loaded" in tree(section(recorded, SweepAddress("tensor_core_gemm", "stages", "L4")))


def test_every_line_crosses_every_axis_and_is_drawn_once_in_its_tone() -> None:
    drawn = drawn_of([row(i, 1e5 + i, stages=i % 4, vec=i // 4) for i in range(16)])
    figure, axes = parallel_figure(drawn), len(drawn.axes)
    figure.checked.to_dict()  # raises ValueError for any member that plotly does not know
    data = figure.to_plotly_json()["data"]
    assert len(data) == 1 + len(TONES) + 1
    assert len(data[0]["x"]) == 16 * (axes + 1) == sum(len(trace["x"]) for trace in data[1:-1])
    marks = marking(drawn)
    assert sorted(line for lines in marks["tones"] for line in lines) == list(range(16))
    assert [axis["name"] for axis in marks["axes"]][:3] == ["stages", "vec", "time, µs"]
    assert marks["axes"][2]["low"] == pytest.approx(100.0)


def test_ticks_are_few_and_names_from_reports_are_text() -> None:
    evil = frames.HOSTILE
    rows = [row(i, 1e5 + i, parameters={evil: f"{evil}{i}", "n": i * i}) for i in range(40)]
    plain = parallel_figure(drawn_of(rows)).to_plotly_json()
    assert "<img" not in json.dumps(plain)
    ticks = [at for at in plain["data"][-1]["x"] if at == 1]
    assert 1 < len(ticks) <= MOST_TICKS


def test_an_empty_store_has_no_section(tmp_path: Path) -> None:
    assert "no longer loaded" in tree(section(ReportStore([tmp_path]), SweepAddress("gemm", "stages", H200)))
