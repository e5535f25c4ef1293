"""Contradictions inside a report are told, and intact reports contain none."""

import math
import shutil

import pandas as pd
import pytest

from ncubble.analysis.account.plausibility import doubts
from ncubble.analysis.diagnosis.judge import launch_verdict
from ncubble.analysis.diagnosis.results import judge
from ncubble.analysis.report import cache as store
from ncubble.analysis.report.report import Report, open_reports
from ncubble.recordings import REPEATS, ROOT

RUN = ROOT / "tensor_core_gemm" / "stages2"


@pytest.fixture
def tampered(tmp_path, monkeypatch):
    """Open a copy of a run after one of its cached tables was changed by ``change(table)``."""

    def open_one(table, change):
        monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
        copy = tmp_path / "run"
        shutil.copytree(RUN, copy, dirs_exist_ok=True)
        (whole,), _ = open_reports([copy])
        file = store.file_of(whole.frame.sha256, table)
        frame = pd.read_parquet(file)
        change(frame)
        frame.to_parquet(file)
        store.seal(file.parent)
        return Report.open(copy)

    return open_one


def metric(name, factor):
    def change(frame):
        frame.loc[frame["metric"] == name, "value"] *= factor

    return change


@pytest.mark.parametrize(
    ("name", "factor", "told"),
    [
        ("gpu__time_duration.sum", 2.0, "duration times SM clock"),
        ("gpu__time_duration.sum", -1.0, "duration_ns is"),
        ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 64.0, "tensor is busy for"),
        ("launch__grid_dim_x", 3.0, "CTAs, but the grid"),
    ],
)
def test_a_value_that_cannot_be_is_told(tampered, name, factor, told):
    report = tampered("metrics", metric(name, factor))
    assert any(told in text for text in doubts(report.launch(0)))


def test_a_lost_sample_is_told_and_stands_before_all_other_notes(tampered):
    def lose(frame):
        rows = frame.index[frame["metric"].str.endswith("long_scoreboard") & (frame["value"] > 5)]
        frame.loc[rows[0], "value"] -= 1

    report = tampered("samples", lose)
    first = launch_verdict(report.launch(0)).warnings[0]
    assert first.startswith("suspicious: ") and "over the instructions, but" in first


@pytest.mark.parametrize(
    ("table", "column", "change", "told"),
    [
        ("samples", "value", lambda value: value + 1, "over the instructions, but"),
        ("code", "sass", lambda _: "", "not in the code"),
        ("timeline", "value", lambda value: value - 1000, "a sampled series goes from"),
        ("code", "sass", lambda _: "N/A", "not in the code"),
        ("timeline", "value", lambda _: 1e-186, "holds 1e-186"),
        ("timeline", "t_ns", lambda t: t + 10**9, "ns apart"),
    ],
)
def test_a_changed_cell_that_contradicts_the_others_is_told(tampered, table, column, change, told):
    def one(frame):
        cells = frame[column].to_list()
        cells[-7] = change(cells[-7])
        frame[column] = cells

    report = tampered(table, one)
    assert any(told in text for text in doubts(report.launch(0))), doubts(report.launch(0))


def test_a_grid_without_one_of_its_dimensions_is_told(tampered):
    def rename(frame):
        frame["metric"] = frame["metric"].astype(str).replace("launch__block_dim_z", "launch__block_dim_q")

    assert any("lack a dimension" in text for text in doubts(tampered("metrics", rename).launch(0)))


def test_a_sampled_address_inside_an_instruction_is_told():
    report = Report.open(RUN)
    source = report.launch(0).source
    report.memo(0)["source"] = source.assign(pc=source["pc"] + (source.index == 9) * 4)
    assert any("inside instructions" in text for text in doubts(report.launch(0)))


def test_any_throughput_beyond_its_peak_is_told(tampered):
    report = tampered("metrics", metric("l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed", 1e6))
    assert any("l1tex__lsuin_requests" in text for text in doubts(report.launch(0)))


@pytest.mark.parametrize("value", [float("inf"), float(2**64 - 1)])
@pytest.mark.parametrize("name", ["launch__registers_per_thread", "launch__grid_dim_x"])
def test_a_launch_value_beyond_any_count_is_told_and_hides_nothing(tampered, name, value):
    report = tampered("metrics", metric(name, value))
    (found,), failed = judge(report)
    assert failed == []
    assert any(f"suspicious: {name} is" in text for text in found.warnings)


def test_cycles_that_were_not_collected_contradict_nothing(tampered):
    def drop(frame):
        frame["metric"] = frame["metric"].astype(str).replace(r".*cycles_elapsed\.(max|avg)$", "other", regex=True)

    report = tampered("metrics", drop)
    assert math.isnan(report.launch(0).identity["cycles"])
    assert not any("cycles" in text for text in doubts(report.launch(0)))


def test_intact_reports_contradict_nothing():
    reports, failures = open_reports([ROOT, REPEATS])
    assert not failures
    assert [doubts(launch) for report in reports for launch in report if doubts(launch)] == []


def test_public_reports_contradict_nothing(foreign_reports):
    reports, _ = open_reports(foreign_reports)
    assert [report.path.name for report in reports for launch in report if doubts(launch)] == []
