"""The Compare page: its address, its figures, and the page as a component tree."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from ncubble.analysis.account.palette import SIDE_STYLES, contrast
from ncubble.analysis.compare.compare import Group, compare_groups
from ncubble.analysis.details.tracks import window
from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.app.app import content as page
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.data.texts import Texts
from ncubble.dashboard.pages.addresses import MOST_SIDES, CompareAddress
from ncubble.dashboard.pages.compare import figures
from ncubble.dashboard.pages.compare.figures import Sampled, overlaid_figure
from ncubble.dashboard.pages.compare.layout import MOST_SUGGESTED, suggest, suggestions
from ncubble.dashboard.pages.page import largest_difference
from ncubble.recordings import ROOT, SHIPPED
from tests.helpers import dashboard_frames as frames
from tests.helpers.ablations import ABLATED
from tests.helpers.compare_subjects import FULL, group, subject

BOTH = ("0123456789abcdef/0", "0123456789abcdef/1")
PAIR = CompareAddress(BOTH).query()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ReportStore:
    return frames.store(tmp_path_factory.mktemp("reports"))


def shown(store: ReportStore, search: str) -> str:
    return frames.sent(page(store, "/compare", search)[0])


def test_the_accounts_stand_below_each_other_and_sum_to_100() -> None:
    other = Group((subject(verdict={"account": {**FULL, "data_wait": 10.0, "tensor_busy": 70.0}}),))
    drawn = figures.accounts_figure(compare_groups([group(1e5), other]))
    assert [sum(trace.x[side] for trace in drawn.data) for side in (0, 1)] == pytest.approx([100.0, 100.0])
    assert list(drawn.data[0].y) == ["<b>A</b>", "<b>B</b>"] and drawn.layout.yaxis.autorange == "reversed"
    bare = Group((subject(verdict={"account": None}),))
    gapped = figures.accounts_figure(compare_groups([group(1e5), bare, group(1e5)]))
    assert list(gapped.data[0].y) == ["<b>A</b>", "<b>C</b>"]


def test_every_figure_is_one_that_plotly_takes() -> None:
    compared = compare_groups(
        [group(1e5, stalls={"barrier": 100.0}), group(2e5, stalls={"barrier": 100.0}), group(3e5)]
    )
    drawn = [figures.accounts_figure(compared), figures.changes_figure(compared), figures.stalls_figure(compared)]
    for figure in [*drawn, overlaid_figure([sampled(0, 100_000), sampled(1, 50_000)])]:
        go.Figure(figure.to_dict())  # raises ValueError for any member that plotly does not know
        assert figure.data


def test_differences_in_time_have_the_colours_of_parts_or_of_sides() -> None:
    one = figures.changes_figure(compare_groups([group(1e5), group(2e5)]))
    assert sum(trace.x[0] for trace in one.data) == pytest.approx(100.0)
    assert one.layout.showlegend is False and len({trace.marker.color for trace in one.data}) == len(FULL)
    two = figures.changes_figure(compare_groups([group(1e5), group(2e5), group(3e5)]))
    assert [trace.name for trace in two.data] == ["B - A", "C - A"]
    assert [sum(trace.x) for trace in two.data] == pytest.approx([100.0, 200.0])
    assert [trace.marker.color for trace in two.data] == [SIDE_STYLES[1].color, SIDE_STYLES[2].color]


def test_stall_reasons_are_grouped_by_side_and_their_names_are_text() -> None:
    one = Group((subject(stalls={frames.HOSTILE: 70.0, "barrier": 30.0}),))
    other = Group((subject(stalls={"barrier": 100.0}),))
    drawn = figures.stalls_figure(compare_groups([one, other]))
    assert [trace.name for trace in drawn.data] == ["A", "B"]
    assert "<img" not in frames.sent(drawn.to_plotly_json())
    assert list(drawn.data[1].x) == [100.0, 0.0]


def sampled(side: int, end_ns: int) -> Sampled:
    times = np.arange(0, end_ns + 1, 1000)
    rows = [
        pd.DataFrame({"launch": 0, "t_ns": times, "metric": name, "value": 50.0, "unit": "%"})
        for name in ("tensor", "sm_active")
    ]
    seen = window(pd.concat(rows, ignore_index=True))
    assert seen is not None
    return Sampled(side, seen)


@pytest.mark.parametrize(("relative", "ends"), [(False, [100.0, 50.0]), (True, [100.0, 100.0])])
def test_timelines_share_a_start_and_if_asked_a_length(relative: bool, ends: list[float]) -> None:
    drawn = overlaid_figure([sampled(0, 100_000), sampled(1, 50_000)], relative)
    tensor = [trace for trace in drawn.data if trace.yaxis == "y"]
    assert [trace.name for trace in tensor] == ["A", "B"]
    assert [trace.x[0] for trace in tensor] == [0.0, 0.0]
    assert [trace.x[-1] for trace in tensor] == pytest.approx(ends)
    assert ("%" in drawn.layout.xaxis.title.text) is relative


def test_a_track_that_one_side_lacks_is_drawn_for_the_other() -> None:
    one, other = sampled(0, 100_000), sampled(1, 50_000)
    other.window.tracks[:] = [track for track in other.window.tracks if track[1] == "tensor"]
    drawn = overlaid_figure([one, other])
    assert [trace.name for trace in drawn.data] == ["A", "B", "A"]


def test_sides_differ_without_colour_and_stand_out_from_both_surfaces() -> None:
    assert min(contrast(style.color, ground) for style in SIDE_STYLES for ground in ("#ffffff", "#17202b")) >= 3.0
    assert len({style.hatch for style in SIDE_STYLES}) == len({style.color for style in SIDE_STYLES}) == MOST_SIDES
    assert len({style.dash for style in SIDE_STYLES[:4]}) == 4


def test_the_page_compares_two_launches_in_every_section(store: ReportStore) -> None:
    sent = shown(store, PAIR)
    for wanted in ("B takes 310.0 µs, 22.5 % less than A", "Bubble accounts", "Timelines", "Measurements", "Stall"):
        assert wanted in sent, wanted
    assert "could not be shown" not in sent and "<!-- ncubble compare -->" in sent
    assert sent.count("View as table") == 2 and "Tracks of the timelines in numbers" in sent
    assert page(store, "/compare", PAIR)[1] == "Compare · ncubble"


def test_sides_can_be_swapped_added_and_removed(store: ReportStore) -> None:
    third = "00000000deadbeef/0"
    two, three = shown(store, PAIR), shown(store, CompareAddress((*BOTH, third)).query())
    assert CompareAddress(BOTH[::-1]).href() in two and "Swap A and B" in two and "Add another launch" in two
    assert CompareAddress((*BOTH, third)).href() in two and CompareAddress(BOTH[1:]).href() in two
    assert CompareAddress((BOTH[1], BOTH[0], third)).href() in three
    assert CompareAddress((BOTH[0], third)).href() in three


def test_launches_of_one_report_that_were_not_chosen_are_repeats(store: ReportStore, tmp_path: Path) -> None:
    report = frames.gemm()
    report.launches = pd.concat([report.launches, report.launches.assign(launch=[2, 3])], ignore_index=True)
    report.verdicts |= {2: report.verdicts[0], 3: report.verdicts[1]}
    repeated = frames.store(tmp_path, [report])
    assert "2 launches" in shown(repeated, PAIR)
    alone = shown(repeated, CompareAddress(("0123456789abcdef/0", "0123456789abcdef/2")).query())
    assert "launch 0" in alone and "launch 2" in alone


def test_what_reports_lack_is_said_with_the_option_that_collects_it(store: ReportStore) -> None:
    sent = shown(store, CompareAddress(("fedcba9876543210/0", "fedcba9876543210/1")).query())
    assert "--set timeline" in sent and "--set source" in sent and "could not be shown" not in sent


def test_hostile_names_and_addresses_are_text(store: ReportStore) -> None:
    sent = shown(store, CompareAddress(("00000000deadbeef/0", "00000000deadbeef/1")).query())
    for name in ("dangerously", "srcDoc", '"Iframe"', '"type": "A"'):
        assert name not in sent, name
    assert "could not be shown" not in sent
    assert "javascript:" not in shown(store, "?launch=javascript:alert(1)&launch=0123456789abcdef/0")


def test_sides_are_chosen_one_after_the_other(store: ReportStore) -> None:
    none, one = shown(store, ""), shown(store, "?launch=" + BOTH[0])
    assert "Choose the first launch" in none and CompareAddress(BOTH[:1]).href() in none
    assert "Choose a launch to compare with it" in one and CompareAddress(BOTH).href() in one
    assert '"href": "/compare"' in one and CompareAddress((BOTH[0], BOTH[0])).href() not in one


def test_without_a_choice_the_largest_difference_stands_as_an_example() -> None:
    store = ReportStore([ROOT / "gemm_tma"]).start()
    assert store.wait(60)
    start = shown(store, "")
    assert start.index("Choose the first launch") < start.index("For example") < start.index("B takes")
    assert "stages=1" in start[start.index("reference") - 900 : start.index("reference") + 300]
    assert "For example" not in shown(store, "?launch=" + BOTH[0]), "the address names a launch"


def test_the_example_and_its_sweep_leave_out_an_edited_kernel_that_is_slower() -> None:
    store = ReportStore([ROOT / "gemm_mma_swizzled", SHIPPED / "h200-gate"]).start()
    assert store.wait(60)
    swept, best, worst = largest_difference(store) or pytest.fail("no sweep")
    assert [len(point.rows) for point in (best, worst)] == [1, 1] and swept.ratio == pytest.approx(4.21, abs=0.01)
    assert "wait_for_all_copies" not in shown(store, "").partition("For example")[2]


def test_a_full_comparison_and_an_empty_store_say_what_to_do(tmp_path: Path) -> None:
    store = frames.store(tmp_path, [frames.hostile(MOST_SIDES)])
    full = CompareAddress(tuple(f"00000000deadbeef/{i}" for i in range(MOST_SIDES)))
    assert f"holds up to {MOST_SIDES} launches" in shown(store, full.query())
    assert "There are no launches yet" in shown(frames.store(tmp_path, []), "")


def candidate(number: int, **changes: Any) -> dict[str, Any]:
    base = {"id": f"{number:016x}/0", "kernel": "gemm", "name": "gemm", "label": f"stages={number}", "launch": 0}
    return {
        **base,
        "demangled": "gemm",
        "shape": "m=1",
        "gpu": "H200",
        "cause": "none",
        "path": f"r/{number}",
        **changes,
    }


def test_launches_are_found_by_all_words_and_those_taken_are_left_out() -> None:
    rows = [
        candidate(1),
        candidate(2, gpu="A100"),
        candidate(3, **dict.fromkeys(("name", "kernel", "demangled"), "softmax")),
    ]
    among = Texts(LaunchRows.of(rows))
    found, _ = suggest(among, "GEMM a100")
    assert [row["id"] for row, _ in found] == [rows[1]["id"]]
    found, _ = suggest(among, "gemm", [rows[0]["id"]])
    assert [row["id"] for row, _ in found] == [rows[1]["id"]]
    assert suggest(among, "nothing") == ([], 0) and suggest(among, "")[1] == 3


def test_partners_of_the_same_kernel_come_first_and_no_more_than_fit() -> None:
    rows = [candidate(i, kernel=f"k{i}") for i in range(100)] + [candidate(500), candidate(501, label="stages=9")]
    found, total = suggest(Texts(LaunchRows.of(rows)), "", (), candidate(9))
    assert [row["label"] for row, _ in found[:2]] == ["stages=500", "stages=9"]
    assert len(found) == MOST_SUGGESTED and total == 102


def test_kernels_of_the_tensor_pipe_are_suggested_first() -> None:
    among = Texts(LaunchRows.of([candidate(1, unit="fma"), candidate(2, unit="tensor")]))
    assert [row["unit"] for row, _ in suggest(among, "")[0]] == ["tensor", "fma"]


def test_repeats_of_one_report_are_one_suggestion() -> None:
    rows = [candidate(1, id=f"{1:016x}/{i}", launch=i) for i in range(5)] + [candidate(1, id=f"{2:016x}/0")]
    found, total = suggest(Texts(LaunchRows.of(rows)), "gemm")
    assert [count for _, count in found] == [5, 1] and total == 2


def test_what_is_typed_becomes_links_that_add_a_side(store: ReportStore) -> None:
    links, said = suggestions(store, "wmma_gemm_deep", CompareAddress(BOTH[:1]))
    assert len(links) == 1 and said == "1 configuration" and CompareAddress(BOTH).href() in frames.sent(links)
    assert suggestions(store, "zzz", CompareAddress(()))[1].startswith("No launch matches all of these words")


def test_a_launch_that_is_not_there_is_named(store: ReportStore) -> None:
    sent = shown(store, f"{PAIR}&launch=0123456789abcdef/99")
    assert "No launch has this address: 0123456789abcdef/99" in sent and "B takes" in sent
    sent = shown(store, f"{PAIR}&launch=foo")
    assert "1 launch of the address: not found." in sent and "B takes" in sent and "left out" not in sent


def test_launches_may_still_come_while_reports_are_read(tmp_path: Path) -> None:
    store = ReportStore([tmp_path / "a.ncu-rep"])
    assert "Reading reports" in shown(store, PAIR)


def test_a_kernel_page_leads_to_comparisons_with_others_of_its_kernel(tmp_path: Path) -> None:
    twin = frames.gemm()
    twin.key = "89abcdef01234567"
    store = frames.store(tmp_path, [frames.gemm(), twin])
    sent = frames.sent(page(store, "/kernel/0123456789abcdef/0")[0])
    assert CompareAddress(("0123456789abcdef/0",)).href() in sent
    alone = frames.sent(page(frames.store(tmp_path), "/kernel/0123456789abcdef/0")[0])
    assert "Compare with another launch" not in alone


def test_measured_accounts_are_named_and_negative_parts_stand_left_of_zero(tmp_path: Path) -> None:
    shares = {"tensor_busy": 60.0, "data_wait": 45.0, "sync_wait": -5.0}
    comparison = compare_groups([Group((subject(measured=shares),)) for _ in range(2)])
    assert list(figures.accounts_figure(comparison).layout.xaxis.range) == [-5.0, 105.0]
    store = ReportStore([ABLATED, shutil.copytree(ROOT / "gemm_tma" / "stages3", tmp_path / "other")]).start()
    assert store.wait(60)
    search = CompareAddress(tuple(row["id"] for row in store.rows())).query()
    assert "accounts are estimates on all sides, because only A was measured by ablation" in shown(store, search)
    shutil.copy(ABLATED / "ablation.json", tmp_path / "other")
    assert "% of elapsed SM cycles, measured" in shown(store, search)
