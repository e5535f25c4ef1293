"""What if: settings that were recorded or tried stand as measured, others as predicted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ncubble.analysis.changes.change import Change
from ncubble.analysis.changes.tried import Tried, TriedChange, TriedRound
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.pages.kernel.what_if import Alternative, alternatives, section
from ncubble.recordings import CHECKS, LANES, ROOT
from tests.helpers import dashboard_frames as frames

GEMM = ROOT / "gemm_tma"


def view_of(run: Path, *others: Path) -> LaunchView:
    """The launch of a run, in a store with others."""
    store = ReportStore([run, *others, LANES], checks=CHECKS).start()
    assert store.wait(60)
    row = next(row for row in store.rows() if row["path"] == str(run))
    entry = store.find(str(row["id"]).partition("/")[0], 0)
    assert entry is not None
    return LaunchView(store, entry)


def by_settings(view: LaunchView) -> dict[str, Alternative]:
    return {one.settings: one for one in alternatives(view)}


def test_a_recorded_launch_stands_in_place_of_the_prediction() -> None:
    alone = by_settings(view_of(GEMM / "stages2"))["stages=3"]
    assert (alone.source, alone.launch) == ("predicted", "") and alone.low is not None
    view = view_of(GEMM / "stages2", GEMM / "stages3", ROOT / "triton_gemm" / "stages4")
    found = by_settings(view)
    assert found["stages=3"].source == "measured" and found["stages=3"].saves_pct == pytest.approx(21.1, abs=0.1)
    assert found["stages=4"].source == "predicted", "the launch of another kernel says nothing of this one"
    page = frames.sent(section(view))
    assert f'"href": "/kernel/{found["stages=3"].launch}"' in page and "/compare?launch=" in page
    assert "ncubble try gemm_tma -p stages=2" in page


def test_a_launch_that_computes_less_is_no_setting_of_the_same_work() -> None:
    runs = ROOT / "attention_fwd"
    found = by_settings(view_of(runs / "cp_async", runs / "default", runs / "causal"))
    assert found["path=tma"].source == "measured" and not [name for name in found if "causal" in name]


def test_a_figure_of_depths_needs_one_that_is_predicted() -> None:
    assert "Predicted utilization by stages" in frames.sent(section(view_of(GEMM / "stages2")))
    triton = view_of(ROOT / "triton_gemm" / "stages1")
    assert "Predicted utilization by stages" not in frames.sent(section(triton))


def test_predicted_accounts_sum_to_100_and_lose_the_part_that_goes() -> None:
    view = view_of(GEMM / "stages2")
    now, after = view.verdict.account or {}, by_settings(view)["stages=3"].account
    assert sum(after.values()) == pytest.approx(100.0)
    assert after["data_wait"] < now["data_wait"] and after["tensor_busy"] > now["tensor_busy"]
    assert max(found.saves_pct or 0.0 for found in alternatives(view)) <= view.verdict.changes[0].gain_pct + 0.01


def test_tried_changes_are_shown_as_tried_and_a_change_without_a_gain_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "stages2"
    shutil.copytree(GEMM / "stages2", run)
    made = TriedChange(
        kind="stages", name="stages", before=2, after=4, outcome="ok", gain_pct=18.0, low=17.0, high=19.0
    )
    refused = replace(made, after=8, outcome="refused")
    tried = TriedRound(settings={"stages": 2}, us=237.0, sm_mhz=1700, built=None, changes=[made, refused])  # type: ignore[arg-type]
    known = Tried(kernel="gemm_tma", language="catalog", device="NVIDIA H200", compared="", rounds=[tried])
    monkeypatch.setattr(Tried, "load", lambda _: known)
    view = view_of(run)
    unknown = Change(kind="tile_n", before=128, after="twice", text="twice the columns")
    verdict = replace(view.verdict, changes=[*view.verdict.changes, unknown])
    monkeypatch.setattr(LaunchView, "verdict", property(lambda _: verdict))
    found = by_settings(view)
    assert (found["stages=4"].source, found["stages=4"].saves_pct) == ("tried", 18.0) and "stages=8" not in found
    assert found["tile columns=256"].source == "unknown: try it" and alternatives(view)[-1].saves_pct is None


def test_the_card_leads_to_the_other_pages_of_the_kernel() -> None:
    page = frames.sent(section(view_of(ROOT / "tensor_core_gemm" / "stages2", ROOT / "tensor_core_gemm" / "stages3")))
    assert "/sweep?kernel=tensor_core_gemm&x=stages" in page
    assert "Timeline trace-tensor_core_gemm-stages1" in page and "trace-gemm_ws" not in page
    assert page.count("Checks against its baseline") == 1 and "/checks?kernel=tensor-core-gemm-stages-2-" in page


def test_the_command_suits_the_language_of_the_kernel(tmp_path: Path) -> None:
    assert "ncubble try --kernel '^triton_gemm$' -- " in frames.sent(section(view_of(ROOT / "triton_gemm" / "stages4")))
    bare = tmp_path / "report.ncu-repz"
    shutil.copy(GEMM / "stages2" / "report.ncu-repz", bare)
    assert "ncubble try --vary NAME=V,V --build CMD -- PROGRAM" in frames.sent(section(view_of(bare)))
