"""The kernel page: sections, stalls by what holds warps up, depths, advice, and what comes late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dash import Dash, no_update
from dash.exceptions import PreventUpdate

from ncubble.analysis.changes.change import Change
from ncubble.analysis.details.source_columns import class_rows
from ncubble.analysis.model.depths import Depths
from ncubble.analysis.model.predict import Prediction
from ncubble.dashboard.pages.kernel import layout as kernel
from ncubble.dashboard.pages.kernel.advice import changes
from ncubble.dashboard.pages.kernel.head import clock_control
from ncubble.dashboard.pages.kernel.layout import PANELS, panel, view_at
from ncubble.dashboard.pages.kernel.stalls import class_figure
from ncubble.dashboard.ui.figures import depth_figure
from tests.helpers import dashboard_frames as frames

GEMM = "0123456789abcdef"


def test_metrics_that_could_not_be_read_are_read_at_the_next_click(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Dash()
    kernel.register(app, frames.store(tmp_path))
    opens = next(one for name, one in app.callback_map.items() if "metrics-open" in name)["callback"].__wrapped__
    address, whole = f"{GEMM}/0", PANELS["kernel-metrics"]
    monkeypatch.setitem(PANELS, "kernel-metrics", whole._replace(build=lambda view: 1 // 0))
    failed, filled = opens(1, "", address, "")
    assert "could not be shown" in frames.sent(failed) and filled == ""
    monkeypatch.setitem(PANELS, "kernel-metrics", whole)
    shown, filled = opens(2, "", address, "")
    assert "metrics-grid" in frames.sent(shown) and filled == "yes"
    assert opens(3, "yes", address, "") == (no_update, no_update)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["ncu", "--clock-control", "none", "app"], "not locked"),
        (["ncu", "--clock-control=none", "app"], "not locked"),
        (["ncu", "app"], "locked to base by ncu"),
        (["ncu", "app", "--clock-control", "none"], "locked to base by ncu"),
        (["ncu", "--clock-control", "none", "app", "--clock-control=base"], "not locked"),
        ([], "not collected"),
    ],
)
def test_clocks_are_told_by_the_options_of_ncu_alone(argv: list[str], said: str) -> None:
    program = argv[argv.index("app") :] if argv else []
    assert clock_control(argv, program) == said


def code(*lines: tuple[str, dict[str, float]]) -> pd.DataFrame:
    """Instructions of (opcode, samples by reason)."""
    reasons = sorted({reason for _, samples in lines for reason in samples})
    frame = pd.DataFrame({"opcode": [opcode for opcode, _ in lines]})
    frame["samples"] = [sum(samples.values()) for _, samples in lines]
    for reason in reasons:
        frame[reason] = [samples.get(reason, 0.0) for _, samples in lines]
    return frame


def test_all_samples_are_counted_once() -> None:
    source = frames.source(0)
    rows = class_rows(source)
    assert sum(row.share for row in rows) == pytest.approx(100.0)
    assert all(sum(row.reasons.values()) == pytest.approx(row.share) for row in rows)
    assert class_rows(source.iloc[0:0]) == []


def test_parts_are_shared_out_whole() -> None:
    source = code(("DEPBAR", {"long_scoreboard": 50.0}), ("BAR.SYNC", {"barrier": 20.0, "wait": 30.0}))
    weights = pd.DataFrame({"data_wait": [50.0, 0.0], "sync_wait": [0.0, 20.0], "issue": [0.0, 30.0]})
    parts = {"tensor_busy": 60.0, "data_wait": 25.0, "sync_wait": 10.0, "issue": 5.0}
    rows = class_rows(source, weights, parts)
    given = {row.name: row.parts for row in rows}
    assert given["copy_wait"] == pytest.approx({"data_wait": 25.0})
    assert given["barrier"] == pytest.approx({"sync_wait": 10.0, "issue": 5.0})
    texts = [label.text for label in class_figure(rows).layout.annotations]
    assert texts[0] == "50.0 % → data wait <b>25.0 %</b>"


def test_the_class_figure_is_stacked_to_the_share_of_each_class() -> None:
    rows = class_rows(frames.source(0))
    drawn = class_figure(rows)
    total = np.sum([trace.x for trace in drawn.data], axis=0)
    assert total == pytest.approx([row.share for row in rows], abs=0.01)
    hostile = frames.source(0).rename(columns={"barrier": frames.HOSTILE})
    assert "<img" not in frames.sent(class_figure(class_rows(hostile)).to_plotly_json())


def depths(**depths: tuple[float, float, float, float] | None) -> Depths:
    """By ``d`` and the depth: busy share, its bounds, cycles."""
    names = ("tensor_elapsed_pct", "low", "high", "cycles")
    predicted = {
        int(name[1:]): Prediction(**dict(zip(names, given, strict=True))) if given else None
        for name, given in depths.items()
    }
    return Depths(2, "sass", predicted, [])


def test_depths_that_are_not_identified_stand_apart_in_the_figure() -> None:
    drawn = depth_figure(depths(d1=None, d2=(60, 60, 60, 1000), d3=(80, 70, 90, 752)), "tensor pipe")
    by_name = {trace.name: list(trace.x) for trace in drawn.data}
    assert by_name == {"predicted": [3], "measured": [2], "not identified": [1]}
    assert list(drawn.data[0].error_y.array) == [10.0]
    assert drawn.data[0].customdata[0] == pytest.approx([70, 90, -24.8])


def test_the_page_draws_what_it_has_and_names_links_for_keys(tmp_path: Path) -> None:
    view = frames.view(frames.store(tmp_path), search="?range=10,20")
    late = [panel(view, place) for place, known in PANELS.items() if known.stage is not None]
    page = frames.sent([kernel.layout(view.store, view.entry, view.address), late])
    for name in ("account", "timeline", "stalls", "stall-classes"):
        assert f'"name": "{name}", "type": "drawn"' in page or f'"type": "drawn", "name": "{name}"' in page
    assert '"range": [10.0, 20.0]' in page
    assert '"id": "next-launch"' in page and '"id": "previous-launch"' not in page
    assert f'"href": "/source/{GEMM}/0"' in page
    assert page.count("View as table") == 4
    assert "--set warp_states" in page
    shown_anchors = [anchor for anchor in kernel.SECTIONS if f'"data-anchor": "{anchor}"' in page]
    assert shown_anchors == [anchor for anchor in kernel.SECTIONS if anchor != "measured"]


def test_what_comes_late_has_a_place_and_is_made_for_any_launch(tmp_path: Path) -> None:
    store = frames.store(tmp_path)
    for key, launch in ((GEMM, 0), (GEMM, 1), ("fedcba9876543210", 1), ("00000000deadbeef", 2)):
        view = frames.view(store, key, launch)
        page = frames.sent(kernel.layout(store, view.entry))
        for place in PANELS:
            assert f'"id": "{place}"' in page
            assert "could not be shown" not in frames.sent(panel(view, place)), (key, launch, place)


def test_a_panel_that_fails_says_so_and_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncubble.dashboard.pages.kernel.view.judged_account", lambda *_, **__: 1 / 0)
    view = frames.view(frames.store(tmp_path))
    assert "This section could not be shown: division by zero" in frames.sent(panel(view, "kernel-timeline"))
    assert "could not be shown" not in frames.sent(panel(view, "kernel-limits"))


def test_changes_come_in_their_order_with_gain_interval_and_what_blocks_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = frames.view(frames.store(tmp_path))
    known = Change(kind="stages", text="use 3 stages", part="data_wait", gain_pct=12.5, low=4.0, high=15.4)
    blocked = Change(kind="tile_n", text="use 256 columns", gain_pct=9.0, blocked="registers: it would spill")
    judged = replace(view.judged, changes=[known, Change(kind="ctas", text="try it"), blocked])
    monkeypatch.setattr(type(view), "judged", property(lambda self: judged))
    page = frames.sent(changes(view))
    assert page.index("Use 3 stages") < page.index("Try it") < page.index("Use 256 columns")
    assert "(4 to 15)" in page and "gain not known" in page and "Registers: it would spill." in page
    assert "Acts on data wait: 6.0 % of the time." in page
    judged = replace(judged, changes=[])
    assert "this report has no data to say what to change. Profile with" in frames.sent(changes(view))


@pytest.mark.parametrize(
    "address", [None, "", "zzz", f"{GEMM}/99", f"{GEMM}/x", f"{GEMM}/{'9' * 40}", "../../etc/passwd"]
)
def test_an_address_that_is_no_launch_changes_nothing(tmp_path: Path, address: str | None) -> None:
    with pytest.raises(PreventUpdate):
        view_at(frames.store(tmp_path), address)
