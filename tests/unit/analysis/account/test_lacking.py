"""What is said of a report that lacks something: which counter, whether it could be had, and what
to do."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest

from ncubble.analysis.account.account import build
from ncubble.analysis.account.evidence import Evidence
from ncubble.analysis.account.lacking import no_account, of_account
from ncubble.analysis.account.units import Busy, busy_of
from tests.helpers.one_launch import OneLaunch

NAN = math.nan
ELAPSED, ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
TENSOR = "sm__pipe_tensor_cycles_active"
EMPTY = pd.DataFrame({"samples": pd.Series(dtype=float)})


def said(metrics, *code, **identity):
    launch = OneLaunch(metrics, code, **identity)
    assert busy_of(launch) is None
    return no_account(launch).text


def gaps(metrics, *code, **identity):
    found = build(Evidence(busy=Busy("fma", 40.0, "fma"), with_cta=0.9, source=EMPTY))
    return " / ".join(lack.text for lack in of_account(OneLaunch(metrics, code, **identity), found))


def test_an_mma_without_the_tensor_pipe_asks_for_that_alone():
    text = said({"gpu__dram_throughput" + ELAPSED: 60.0}, ("HMMA.16816.F32", 5.0, 0.0))
    assert "the kernel issues MMAs, but the utilization of the tensor pipe was not collected" in text
    assert TENSOR + ELAPSED in text and "`ncubble profile --set tensor`" in text and "dram" not in text


def test_without_code_and_tensor_counters_other_units_do_not_make_an_account():
    text = said({"gpu__dram_throughput" + ELAPSED: 60.0})
    assert "it is unknown whether the kernel uses the tensor pipe" in text and "that of dram was" in text
    assert f"Collect {TENSOR}{ELAPSED} with `ncubble profile --set tensor`" in text


@pytest.mark.parametrize(
    ("capability", "has", "has_not"),
    [
        ("8.0", ["sm__inst_executed_pipe_fp16"], ["sm__pipe_tc_cycles_active"]),
        ("8.9", [], ["sm__inst_executed_pipe_fp16", "sm__pipe_tc_cycles_active"]),
        ("10.0", ["sm__pipe_tc_cycles_active"], ["sm__inst_executed_pipe_fp16"]),
    ],
)
def test_a_launch_without_any_counter_names_those_of_its_chip(capability, has, has_not):
    text = said({}, capability=capability, ncu="2020.3.1")
    assert "no utilization per elapsed cycle was collected" in text
    for stem in [TENSOR, "gpu__dram_throughput", "lts__throughput", *has]:
        assert stem + ELAPSED in text
    assert not [stem for stem in has_not if stem in text]
    assert "--set tensor --set async --set dram" in text and "`ncu --metrics`" in text


def test_code_without_mma_asks_for_no_tensor_counter():
    assert "tensor_cycles" not in said({}, ("FFMA", 9.0, 3.0))


def test_shares_of_active_cycles_ask_for_the_cycles_that_scale_them():
    text = said({TENSOR + ACTIVE: 62.0, "sm__inst_executed_pipe_alu" + ACTIVE: 12.0})
    assert "tensor pipe, alu was only collected per active cycle" in text
    assert "Collect sm__cycles_active.avg, sm__cycles_elapsed.avg with" in text


def test_counters_that_hold_nan_were_asked_for_and_not_measured():
    text = said({TENSOR + ELAPSED: NAN, "lts__throughput" + ELAPSED: NAN})
    assert "ncu stored nan" in text and TENSOR + ELAPSED in text
    assert no_account(OneLaunch({TENSOR + ELAPSED: NAN})).short == "values (all nan)"


def test_a_chip_without_pm_sampling_is_told_from_an_old_ncu_and_from_a_report_made_without():
    old_chip = gaps({}, capability="7.0", ncu="2025.1.0")
    assert "compute capability 7.0 has no PM sampling" in old_chip and "set 'timeline'" not in old_chip
    old_ncu = gaps({}, capability="8.6", ncu="2022.1.1")
    assert "this report is from ncu 2022.1; PM sampling needs 2024.1 or later" in old_ncu
    assert "with a later one" in old_ncu
    without = gaps({}, capability="8.6", ncu="2025.1.0")
    assert "made without a PM-sampling timeline (collect the set 'timeline')" in without
    assert "made without a PM-sampling timeline" in gaps({}, capability="", ncu="unknown")


def test_only_samples_within_the_kernel_count():
    text = gaps({}, series={"fma": [50] * 14 + [0] * 40, "sm_active": [99] * 14 + [0] * 40})
    assert "14 PM samples within the kernel, but phases need 20" in text
    assert "12 PM samples" in gaps({}, series={"fma": [50] * 12})
    unseen = gaps({}, series={"dram": [9] * 40, "sm_active": [99] * 40})
    assert "the timeline shows neither the unit nor issued instructions" in unseen


def test_warp_samples_are_missed_as_too_few_as_a_total_only_or_altogether():
    assert "30 warp samples, but a split needs 50" in gaps({}, ("FFMA", 9.0, 30.0))
    total = gaps({"smsp__pcsamp_sample_count": 900.0})
    assert "has only the total of warp samples, not samples per instruction" in total
    assert "made without warp samples (collect the set 'source')" in gaps({})


def test_reports_of_plain_ncu_are_told_its_sections():
    plain = gaps({}, sets=())
    assert "without warp samples (collect it with ncu --section SourceCounters, or --set full)" in plain
    assert "(collect it with ncu --section PmSampling, or --set full)" in plain and "the set '" not in plain
    without = said({}, capability="8.0", sets=())
    assert "`ncu --section ComputeWorkloadAnalysis" in without and "ncubble profile" not in without


def test_cycles_without_a_cta_are_missed_aloud():
    assert "sm__cycles_active.avg and sm__cycles_elapsed.avg were not collected" in gaps({})
    assert "told apart" not in gaps({"sm__cycles_active.avg": 90.0, "gpc__cycles_elapsed.max": 100.0})


def test_what_lacks_is_null_in_json_and_never_zero(foreign_like):
    shown = json.loads(json.dumps(foreign_like))
    assert shown["account"] is None and shown["unit"] is None and shown["cause"] == "unknown"
    assert shown["tensor_elapsed_pct"] is None and shown["dram_pct"] is None
    assert shown["async_copy"] == {"ldgsts": None, "tma": None}


@pytest.fixture
def foreign_like(monkeypatch: pytest.MonkeyPatch):
    """The verdict of a launch of which only its geometry was collected, as of basic reports of ncu
    2020.3."""
    from pathlib import Path

    from ncubble.analysis.diagnosis.diagnose import launch_verdict
    from ncubble.profiling.runs import Run

    launch = OneLaunch({}, capability="8.0", ncu="2020.3.1")
    vars(launch)["identity"] = replace(launch.identity, kernel="k", device="A100")
    launch.report.launches = pd.DataFrame(columns=["launch", "duration_ns", "cycles"])
    texts = ["section", "rule", "title", "message", "kind", "speedup_kind"]
    launch.report.rules = pd.DataFrame(columns=["launch", *texts, "speedup_pct"])
    launch.report.path, launch.report.run = "a.ncu-rep", Run(Path("a.ncu-rep"), Path("a.ncu-rep"))
    monkeypatch.setattr("ncubble.analysis.diagnosis.diagnose.doubts", lambda launch: [])  # it has no code to doubt
    monkeypatch.setattr("ncubble.analysis.diagnosis.diagnose.account_of", lambda launch: None)
    return launch_verdict(launch).to_json()
