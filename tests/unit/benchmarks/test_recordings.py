"""The shipped recordings: whole, small, with provenance, and reported with exactly the values that
they hold."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.analysis.diagnosis.results import report_json
from ncubble.analysis.report.report import open_reports
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import FULL, H100, ROOT

RUNS = list(find_runs([ROOT, H100]))
READ = """
import json, sys, ncu_report
rows = []
for path in sys.argv[1:]:
    for part in ncu_report.load_report(path):
        for action in part:
            value = lambda name: action.metric_by_name(name).value()
            rows.append({
                "report": path,
                "tensor_elapsed_pct": value("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
                "duration_ns": value("gpu__time_duration.sum"),
                "dram_pct": value("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
            })
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def reported():
    return report_json([ROOT, H100])


def launch_of(reported, *words):
    found = [one for one in reported["launches"] if set(words) <= set(one["label"].split())]
    assert len(found) == 1, words
    return found[0]


def test_every_value_is_the_one_that_ncu_report_reads(reported):
    paths = [str(Run.load(path).report) for path in RUNS]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=True)
    truth = json.loads(done.stdout)
    assert len(truth) == len(reported["launches"]) >= 20
    for expected, one in zip(truth, reported["launches"], strict=True):
        assert Path(expected["report"]).parent == Path(one["report"])
        for name in ("tensor_elapsed_pct", "duration_ns", "dram_pct"):
            assert one[name] == expected[name], (one["label"], name)


def test_every_account_sums_to_100_and_nothing_failed(reported):
    assert reported["errors"] == []
    for one in reported["launches"]:
        assert sum(one["account"].values()) == pytest.approx(100.0, abs=0.01), one["label"]
        assert one["unit"], one["label"]
        # Shorter launches have fewer than 20 samples of the timeline, from which ramp and tail are
        # read.
        assert one["merged"] == {} or one["duration_ns"] < 30_000, one["label"]


@pytest.mark.parametrize(
    ("words", "cause", "kind"),
    [
        (("tensor_core_gemm", "stages=1", "copy=async"), "data_wait", "stages"),
        (("tensor_core_gemm", "stages=1", "copy=plain"), "data_wait", "copies"),
        (("triton_gemm", "stages=1"), "data_wait", "stages"),
        (("triton_gemm", "stages=2"), "data_wait", "stages"),
        (("gemm_tma", "stages=1"), "data_wait", "stages"),
        (("gemm_tma", "stages=2"), "data_wait", "stages"),
        (("gemm_mma_swizzled", "layout=plain"), "smem_wait", "shared_layout"),
        (("sdpa_fp8_stage_c_wmma", "use_cp_async=0"), "data_wait", "copies"),
        (("async_copy_manual",), "bytes", "bytes"),
        (("async_copy_tma",), "bytes", "bytes"),
    ],
)
def test_the_first_change_is_the_one_that_the_kernel_was_built_to_need(reported, words, cause, kind):
    found = launch_of(reported, *words)
    assert (found["cause"], found["changes"][0]["kind"]) == (cause, kind)


def test_depth_takes_the_data_wait_away_where_it_is_the_cause(reported):
    waits = [launch_of(reported, "triton_gemm", f"stages={n}")["account"]["data_wait"] for n in (1, 2, 3, 4)]
    assert waits[0] > waits[1] > 10.0 and max(waits[2:]) < 3.0


def test_a_part_names_a_line_of_the_kernels_own_source(reported):
    place = launch_of(reported, "tensor_core_gemm", "stages=1", "copy=async")["where"]["data_wait"][0]
    assert Path(place["file"]).name == "tensor_core_gemm.cu" and place["line"] > 0 and place["pct"] > 20


def test_recordings_are_small_compressed_and_say_where_they_come_from():
    files = [path for folder in (ROOT, H100) for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 12 << 20
    for path in RUNS:
        manifest = Run.load(path).manifest
        assert manifest.outcome == "ok" and manifest.git["sha"] and manifest.git["dirty"] is False, path
        assert ("H100" in manifest.device["name"]) == (H100 in path.parents) and manifest.kernel["bytes"], path
        assert manifest.report["file"].endswith(".ncu-repz") and manifest.report["missing"] == [], path
        assert max(launch["passes"] for launch in manifest.report["launches"]) <= 12, path


def test_the_full_recordings_hold_all_rules_and_warp_states():
    reports, failures = open_reports([FULL])
    assert len(reports) == 4 and not failures
    for report in reports:
        assert len(report.rules) >= 5, report.path
        assert "stall_long_scoreboard" in set(report.timeline["metric"]), report.path
        assert report.run.manifest.git["dirty"] is False, report.path
