"""One launch: account, verdict, frames, figures; with and without what a report may lack."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go
import pytest

import ncubble
from ncubble.analysis.diagnosis.results import ReportResult, Unread
from ncubble.analysis.report.report import Report
from ncubble.api.launch import JudgedReport
from ncubble.errors import ReportError, UsageError
from ncubble.recordings import REPEATS, ROOT
from tests.helpers.ablations import ABLATED

ONE = ROOT / "gemm_tma" / "stages2"


@pytest.fixture(scope="module")
def launch() -> ncubble.ReportLaunch:
    return ncubble.load(ONE)[0]


def test_the_account_sums_to_100_and_begins_with_work(launch: ncubble.ReportLaunch) -> None:
    account = launch.account
    assert account.sum() == pytest.approx(100, abs=0.005)
    assert account.index[0] == "tensor_busy" and account.attrs["unit"] == "tensor"


def test_the_verdict_says_what_to_do(launch: ncubble.ReportLaunch) -> None:
    verdict = launch.verdict
    assert (verdict.cause, verdict.change) == ("data_wait", "stages") and verdict.changes[0].text
    assert verdict.sentence in repr(verdict) and verdict.sentence in repr(launch)
    assert verdict.bubble_pct == pytest.approx(100 - launch.account["tensor_busy"])


def test_details_are_frames_without_the_number_of_the_launch(launch: ncubble.ReportLaunch) -> None:
    assert launch.metrics.loc["sm__cycles_elapsed.max", "value"] == launch.value("sm__cycles_elapsed.max") > 0
    assert list(launch.timeline.columns) == ["t_ns", "metric", "value", "unit"]
    assert launch.source["samples"].sum() > 0
    assert "launch" not in launch.rules


def test_figures_are_plotlys(launch: ncubble.ReportLaunch) -> None:
    figure = launch.plot()
    assert isinstance(figure, go.Figure) and "gemm_tma stages=2" in figure.layout.title.text
    shares = {bar.customdata[0]: bar.y[0] for bar in figure.data if bar.customdata[0]}
    assert shares["data_wait"] == pytest.approx(launch.account["data_wait"])
    drawn = launch.plot_timeline(theme="dark")
    assert isinstance(drawn, go.Figure) and len(drawn.data) > 3
    with pytest.raises(UsageError, match="unknown theme"):
        launch.plot(theme="sepia")


def test_several_launches_are_drawn_by_their_accounts() -> None:
    both = ncubble.load(ONE, ROOT / "gemm_tma" / "stages3")
    assert isinstance(both.plot(), go.Figure) and isinstance(both[:1].plot(), go.Figure)


def test_a_timeline_has_units(launch: ncubble.ReportLaunch) -> None:
    assert launch.timeline.attrs["units"]["t_ns"].startswith("ns")


def test_a_report_without_samples_says_what_to_collect() -> None:
    launch = ncubble.load(REPEATS / "tiled_matmul" / "default")[0]
    assert len(launch.timeline) == 0
    with pytest.raises(ReportError, match="no PM samples"):
        launch.plot_timeline()


def test_without_an_account_there_is_no_series_but_a_row(launch: ncubble.ReportLaunch) -> None:
    judged = JudgedReport(Report.open(ONE))
    vars(judged)["verdicts"] = {0: replace(judged.result.verdicts[0], account=None)}
    lacking = ncubble.ReportLaunch(judged, 0)
    with pytest.raises(ReportError, match="no counters for an account") as refused:
        _ = lacking.account
    assert "profile again" in refused.value.remedy
    assert ncubble.ReportSet((launch, lacking)).accounts.isna().all(axis=1).tolist() == [False, True]


def test_a_launch_that_cannot_be_judged_hides_no_other(launch: ncubble.ReportLaunch) -> None:
    judged = JudgedReport(Report.open(ONE))
    vars(judged)["result"] = ReportResult(errors=[Unread(str(ONE), "launch 0 contradicts itself")])
    broken = ncubble.ReportLaunch(judged, 0)
    both = ncubble.ReportSet((launch, broken))
    assert both.launches["cause"].isna().tolist() == [False, True]
    assert "cannot be judged" in repr(both) and "contradicts itself" in repr(broken)
    assert "contradicts itself" in broken._repr_html_()
    with pytest.raises(ReportError, match="contradicts itself"):
        _ = broken.verdict
    assert [error.error for error in both.errors] == ["launch 0 contradicts itself"]


def test_what_was_measured_stands_beside_the_estimate(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(ABLATED, run)
    launch = ncubble.load(run)[0]
    assert len(launch.measured) > 0 and launch.measured["measured"].notna().all()
    assert "Measured by ablation" in launch.sentence
    assert launch.to_json()["measured"] and launch.plot()
    assert len(ncubble.load(ONE)[0].measured) == 0
