"""Contradictions inside a report are told, and intact reports contain none."""

import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.account.plausibility import disagreements, doubts
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.diagnosis.results import judge
from ncubble.analysis.report import cache
from ncubble.analysis.report.report import Report, open_reports
from ncubble.recordings import H100, REPEATS, ROOT
from tests.helpers.damaged_reports import (
    doubled_report,
    report_with_empty_field,
    report_without_series,
    report_without_times,
    tampered_run,
)

RUN = ROOT / "tensor_core_gemm" / "stages2"
RUNS = REPEATS / "tensor_core_gemm" / "stages1"


@pytest.fixture
def tampered(tmp_path, monkeypatch):
    """Open a copy of a run after one of its cached tables was changed by ``change(table)``."""

    def open_one(table, change):
        (whole,), _ = open_reports([RUN])
        sha256 = whole.frame.sha256
        shared = cache.folder_of(sha256, "scalars").parent
        monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
        verdicts = shutil.ignore_patterns("verdicts-*")  # another test may have judged what is not tampered with
        shutil.copytree(shared, cache.folder_of(sha256, "scalars").parent, ignore=verdicts)
        return Report.open(tampered_run(RUN, tmp_path / "run", table, change))

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
        ("launch__grid_dim_x", 3.0, "launch__grid_size is"),
        ("l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed", 1e6, "l1tex__lsuin_requests"),
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
        ("timeline", "value", lambda value: value - 1000, "a sampled series ranges from"),
        ("code", "sass", lambda _: "N/A", "not in the code"),
        ("timeline", "value", lambda _: 1e-186, "contains 1e-186"),
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


SERIES = [("lts__throughput", 110.0, False), ("lts__throughput", 200.0, True), ("lts__hit_rate", -27.0, False)]


@pytest.mark.parametrize(("name", "value", "doubted"), SERIES)
def test_series_may_exceed_their_nominal_peak_a_little(tampered, name, value, doubted):
    def change(frame):
        names = frame["metric"].astype(str)
        frame["metric"] = names.str.replace("lts__throughput", name)
        frame.loc[frame.index[names.str.contains("lts__throughput")][7], "value"] = value

    said = doubts(tampered("timeline", change).launch(0))
    assert any("a sampled series ranges from" in text for text in said) is doubted


@pytest.mark.parametrize("text", ["", "N/A"])
def test_an_account_without_machine_code_is_merged_and_says_so(tampered, text):
    def lose(frame):
        frame["sass"] = text

    intact = launch_verdict(Report.open(RUN).launch(0))
    verdict = launch_verdict(tampered("code", lose).launch(0))
    assert "copy_cost" in intact.account and "copy_cost" not in verdict.account
    assert "copy_cost" in verdict.merged["idle"] and verdict.cause == "unknown"
    assert verdict.account["tensor_busy"] == pytest.approx(intact.account["tensor_busy"])
    assert verdict.integrity == "ok"  # as of a kernel whose only function ncu did not save
    assert any("at instructions whose text is missing from the report" in note for note in verdict.warnings)


def test_code_that_no_reader_disassembles_is_merged_but_no_damage(tampered):
    """As of Volta, which CUDA 13 dropped."""

    def forget(frame):
        frame["sass"] = "???"

    verdict = launch_verdict(tampered("code", forget).launch(0))
    assert "copy_cost" in verdict.merged["idle"] and verdict.integrity == "ok"


def test_a_report_in_which_a_launch_stands_twice_is_suspicious_as_a_whole(tmp_path):
    copy = tmp_path / "twice.ncu-rep"
    copy.write_bytes(doubled_report(RUNS))
    doubled = Report.open(copy)
    assert len(doubled.launches) == 6
    told = "are duplicated or out of order"
    assert all(any(told in text for text in doubts(launch)) for launch in doubled)


@pytest.mark.parametrize(
    ("column", "cell", "wrong"),
    [
        ("speedup_pct", -3.0, "estimates a gain of -3 %"),
        ("speedup_pct", 100.5, "estimates a gain of 100.5 %"),
        ("speedup_pct", math.nan, "estimates a gain of nan %"),
        ("speedup_kind", "", "(optimization, neither local nor global) estimates a gain of 25 %"),
        ("kind", "warning", "(warning, global) estimates a gain of 25 %"),
        ("kind", "", "(of unknown kind, global) estimates a gain of 25 %"),
    ],
)
def test_a_rule_whose_estimate_cannot_be_is_told(tampered, column, cell, wrong):
    def change(frame):
        frame[column] = frame[column].astype(object).where(frame["rule"] != "LaunchConfiguration", cell)

    (text,) = doubts(tampered("rules", change).launch(0))
    assert wrong in text


def _lose(column):
    return lambda frame: frame.assign(**{column: ""})


def _twice(frame):
    return frame.loc[[*frame.index, 0]]


def _without_estimates(frame):
    return frame.assign(speedup_pct=math.nan, speedup_kind="")


def _without_text(frame):
    launch = frame["rule"] == "LaunchConfiguration"
    return _without_estimates(frame).assign(message=frame["message"].astype(str).mask(launch, ""))


def _every_second_unread(frame):
    return frame.assign(sass=frame["sass"].astype(str).where(frame.index % 2 == 0, "???"))


def _renamed(frame):
    return frame.assign(metric=frame["metric"].astype(str).replace("launch__grid_size", "launch__other"))


@pytest.mark.parametrize(
    ("table", "change", "told"),
    [
        ("rules", _lose("message"), "lacks its text"),
        ("rules", _lose("section"), "lacks its name"),
        ("rules", _twice, "is duplicated"),
        ("rules", _without_text, "LaunchConfiguration lacks its text"),
        ("code", _every_second_unread, "not in the code"),
        ("metrics", _renamed, "has no launch__grid_size"),
        ("actions", lambda frame: frame.assign(kernel="tensor_"), "the launch is called"),  # cut by a NUL
        ("actions", lambda frame: frame.assign(demangled="tensor_"), "the launch is called"),
    ],
)
def test_a_table_that_lost_or_gained_something_is_told(tampered, table, change, told):
    said = doubts(tampered(table, change).launch(0))
    assert any(told in text for text in said), said


@pytest.mark.parametrize("pct", [100.0, 4e-5, 0.0])
def test_an_estimate_may_be_nothing_or_all_of_the_time(tampered, pct):
    """0 as UncoalescedGlobalAccess of ncu 2023.2 says."""

    def change(frame):
        frame["speedup_pct"] = pct

    assert doubts(tampered("rules", change).launch(0)) == []


def _first_step_short(frame):
    first = frame["t_ns"] == frame.groupby("metric", observed=True)["t_ns"].transform("min")
    frame.loc[first, "t_ns"] += 1000


def _first_step_long(frame):
    first = frame["t_ns"] == frame.groupby("metric", observed=True)["t_ns"].transform("min")
    frame.loc[first, "t_ns"] -= 3500


def _slower_in_another_pass(frame):
    """As a launch of 2.5 us that took 3,324 cycles, or 3,700 by its clock."""
    frame.loc[frame["metric"] == "sm__cycles_elapsed.max", "value"] *= 0.88
    others = r"sm__cycles_elapsed\.(avg|min|sum|max\.per_second)$"
    return frame[~frame["metric"].astype(str).str.match(others)]


def _with(values):
    """Metrics in addition, or instead."""

    def change(frame):
        kept = frame[~frame["metric"].isin(values)]
        more = kept.iloc[[0] * len(values)].assign(metric=list(values), value=list(values.values()))
        return pd.concat([kept, more], ignore_index=True)

    return change


def _idle_before(frame):
    """A series that begins 150 us before its kernel."""
    first = frame.groupby("metric", observed=True, sort=False).head(1)
    before = [first.assign(t_ns=first["t_ns"] + step, value=0.0) for step in range(0, 100 * 1504, 1504)]
    later = frame.assign(t_ns=frame["t_ns"] + 100 * 1504)
    return pd.concat([*before, later]).sort_values(["metric", "t_ns"], ignore_index=True)


SHARE, UNLIKE = "pct_of_peak_sustained_elapsed", "dram__bytes.{}.peak_sustained"
CONTROLLERS = {f"dram__cycles_active.avg.{SHARE}": 10.059079510752541}
CONTROLLERS |= {f"gpu__dram_throughput.{rollup}.{SHARE}": 11.6 for rollup in ("min", "avg", "max", "sum")}
CHANNELS = {
    f"dram__cycles_active.max.{SHARE}": 8.6,
    f"dram__cycles_active.avg.{SHARE}": 10.059079510752541,
    "dram__cycles_active.max": 35568.0,
    "dram__cycles_active.avg": 33163.0,
}
WIDTHS = {UNLIKE.format("avg"): 30.0, UNLIKE.format("max"): 32.0}


@pytest.mark.parametrize(
    ("table", "change"),
    [("metrics", _with(CONTROLLERS)), ("metrics", _with(CHANNELS | WIDTHS)), ("timeline", _idle_before)],
)
def test_what_reports_of_a_b200_show_is_no_doubt(tampered, table, change):
    """Controllers of DRAM that are busier than its pins, channels of two widths, and a series that
    begins early."""
    assert doubts(tampered(table, change).launch(0)) == []


def test_channels_of_one_width_are_in_proportion(tampered):
    assert any("on an average of" in text for text in doubts(tampered("metrics", _with(CHANNELS)).launch(0)))


@pytest.mark.parametrize(("behind", "doubted"), [(128, False), (64, True)])
def test_another_function_begins_at_a_multiple_of_128_bytes(tampered, behind, doubted):
    report = tampered("files", lambda frame: None)
    source = report.launch(0).source.assign(pc=lambda code: code["pc"] - code["pc"].iloc[-1] - 16 + (1 << 20) + behind)
    called = source.tail(3).assign(sass="", opcode="", executed=math.nan, pc=lambda code: code["pc"] + 48)
    report.memo(0)["source"] = pd.concat([source, called], ignore_index=True)
    assert any("not in the code" in text for text in doubts(report.launch(0))) is doubted


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("rules", _without_estimates),
        ("timeline", _first_step_short),
        ("timeline", _first_step_long),
        ("metrics", _slower_in_another_pass),
    ],
)
def test_what_whole_public_reports_show_is_no_doubt(tampered, table, change):
    """Rules of ncu 2023.2 without estimates, and first intervals of a Tesla T4 and a RTX 5090,
    too."""
    assert doubts(tampered(table, change).launch(0)) == []


def test_a_called_function_whose_code_was_not_saved_is_no_doubt(tampered):
    report = tampered("files", lambda frame: None)
    source = report.launch(0).source
    called = source.tail(9).assign(sass="", opcode="", executed=math.nan, pc=source["pc"].tail(9) + (1 << 16))
    report.memo(0)["source"] = pd.concat([source.iloc[:-9], called], ignore_index=True)
    assert not any("not in the code" in text for text in doubts(report.launch(0)))


def _all(name, value=None, factor=1.0):
    def change(frame):
        rows = frame["metric"].astype(str).str.startswith(name)
        frame.loc[rows, "value"] = frame.loc[rows, "value"] * factor if value is None else value

    return change


def _each_metric_elsewhere(frame):
    """Samples and reasons go each their own way among the instructions."""
    order = np.random.default_rng(1)
    for name in frame["metric"].unique():
        rows = frame.index[frame["metric"] == name]
        frame.loc[rows, "value"] = order.permutation(frame.loc[rows, "value"].to_numpy())


def _executed_elsewhere(frame):
    rows = frame.index[frame["metric"] == "inst_executed"]
    frame.loc[rows, "value"] = frame.loc[rows, "value"].to_numpy()[::-1]


def _start(frame):
    return frame[frame["t_ns"] < frame["t_ns"].quantile(0.15)]


@pytest.mark.parametrize(
    ("table", "change", "told"),
    [
        ("samples", _each_metric_elsewhere, "by stall reason"),
        ("samples", _executed_elsewhere, "was executed"),
        ("metrics", _all("sm__pipe_tensor_cycles_active", 0.0), "MMAs were executed"),
        ("metrics", _all("sm__pipe_tensor_cycles_active", 0.0), "the series tensor averages"),
        (
            "metrics",
            _all("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", factor=0.9),
            "of active cycles",
        ),
        ("metrics", _all("sm__inst_executed_pipe_tensor_op_hmma", factor=0.5), "but the code ran"),
        ("metrics", _all("smsp__inst_executed_op_ldgsts", factor=2.0), "but the code ran"),
        ("metrics", _all("smsp__inst_executed.", factor=2.0), "but the code ran"),
        ("metrics", _all("gpu__time_duration", factor=1.1), "its rate times the duration"),
        ("metrics", _all("gpu__time_duration", factor=2.0), "SMs are active over"),
        ("metrics", _all("dram__bytes", factor=1.1), "B of DRAM traffic"),
        ("metrics", _all("sm__cycles_active.sum", factor=2.0), "times its average"),
        ("metrics", _all("lts__t_sectors.max.pct", factor=1.2), "on an average of"),
        ("metrics", _all("launch__occupancy_limit_registers", 1.0), "launch__waves_per_multiprocessor is"),
        ("metrics", _all("sm__maximum_warps_per_active_cycle_pct", factor=2.0), "warps fit"),
        ("metrics", _all("launch__shared_mem_per_block_dynamic", factor=2.0), "allocated is"),
        ("metrics", _all("sm__warps_active", factor=4.0), "an achieved occupancy of"),
        ("timeline", _start, "SMs are active over"),
        ("timeline", _all("TPC.TriageCompute.sm__pipe_tensor", factor=0.5), "the series tensor averages"),
    ],
)
def test_values_that_break_a_law_are_told(tampered, table, change, told):
    said = doubts(tampered(table, change).launch(0))
    assert any(told in text for text in said), said


def test_a_kind_of_doubt_is_told_once_with_the_number_of_others(tampered):
    said = [text for text in doubts(tampered("samples", _each_metric_elsewhere).launch(0)) if "by stall reason" in text]
    assert len(said) == 1 and re.search(r"\(and \d+ more of this kind\)", said[0])


@pytest.mark.parametrize("path", ["result.19.3", "result.19.3.1"])
def test_a_rule_whose_result_was_emptied_is_told(tmp_path, path):
    """NVIDIA's reader shows such a rule as one that found nothing."""
    copy = tmp_path / "report.ncu-rep"
    copy.write_bytes(report_with_empty_field(RUN, path))
    report = Report.open(copy)
    assert len(report.rules) < len(Report.open(RUN).rules) or (report.rules["message"] == "").any()
    assert any("has no message" in text for text in doubts(report.launch(0)))


def test_a_series_whose_times_are_lost_is_told(tmp_path):
    """NVIDIA's reader shows such a report as one in which it was never collected; that of the DRAM
    is lost with it, but has no average that would tell."""
    copy = tmp_path / "report.ncu-rep"
    copy.write_bytes(report_without_times(RUN, "TPC.TriageCompute.sm__inst_executed_pipe_fma_realtime"))
    (text,) = doubts(Report.open(copy).launch(0))
    assert "the report has no sampling times for fma" in text


@pytest.mark.parametrize(
    ("every", "wrong"), [(False, "metrics have neither value nor series"), (True, "no series has samples")]
)
def test_series_that_lost_their_samples_are_told(tmp_path, every, wrong):
    """NVIDIA's reader shows such a report as one in which they were never collected."""
    copy = tmp_path / "report.ncu-rep"
    copy.write_bytes(report_without_series(RUN, every))
    assert any(wrong in text for text in doubts(Report.open(copy).launch(0)))


def test_a_sampled_address_inside_an_instruction_is_told():
    report = Report.open(RUN)
    source = report.launch(0).source
    report.memo(0)["source"] = source.assign(pc=source["pc"] + (source.index == 9) * 4)
    assert any("inside instructions" in text for text in doubts(report.launch(0)))


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
    assert math.isnan(report.launch(0).identity.cycles)
    assert not any("cycles" in text for text in doubts(report.launch(0)))


def test_intact_reports_contradict_nothing():
    reports, failures = open_reports([ROOT, H100, REPEATS])
    assert not failures
    assert [doubts(launch) for report in reports for launch in report if doubts(launch)] == []


def test_public_reports_contradict_nothing(foreign_reports):
    reports, _ = open_reports(foreign_reports)
    assert [report.path.name for report in reports for launch in report if doubts(launch)] == []


WHOLE = {"c.min": 2.0, "c.avg": 3.0, "c.max": 5.0, "c.sum": 30.0}
SHARE = {f"c.{name}.pct_of_peak_sustained_elapsed": 40.0 for name in ("min", "avg", "max", "sum")}


def test_rollups_that_agree_are_not_mentioned():
    assert list(disagreements(WHOLE | SHARE | {"launch__grid_size": 7.0, "other.avg": 1.0})) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"c.avg": 6.0}, "c: an average of 6 between 2 and 5"),
        ({"c.min": 3.5}, "c: an average of 3 between 3.5 and 5"),
        ({"c.sum": 31.0}, "c: a sum of 31 and an average of 3"),
        ({"c.sum.pct_of_peak_sustained_elapsed": 41.0}, "c.pct_of_peak_sustained_elapsed: 41 % in total"),
        ({"c.max.pct_of_peak_sustained_elapsed": 34.0}, "an average of 40 between 40 and 34"),
    ],
)
def test_a_rollup_that_contradicts_the_others_is_told(changed, told):
    (said,) = disagreements(WHOLE | SHARE | changed)
    assert told in said


def test_values_that_are_missing_contradict_nothing():
    assert list(disagreements({"c.avg": math.nan, "c.max": 1.0, "d.min": 4.0, "d.max": 3.0})) == []


def test_shares_may_pass_their_extremes_by_what_units_differ():
    assert list(disagreements(SHARE | {"c.max.pct_of_peak_sustained_elapsed": 36.0})) == []
    active = {name.replace("elapsed", "active"): value for name, value in SHARE.items()}
    assert list(disagreements(active | {"c.max.pct_of_peak_sustained_active": 20.0})) == []
