"""Explanations of metrics, their table, and the address of the kernel page."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncubble.analysis.report.report import open_reports
from ncubble.dashboard.pages.kernel import metrics as kernel_metrics
from ncubble.dashboard.pages.kernel.metrics import UNEXPLAINED, explain, metric_rows, si
from ncubble.profiling.metrics.metrics import load_sets
from ncubble.profiling.runs import find_runs
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        (
            "sm__inst_executed_pipe_fp16.sum.per_second",
            "SM: warp instructions executed, of the FP16 pipe; summed over all of them, per second.",
        ),
        (
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
            "L1 and texture cache: sectors of 32 bytes that were looked up, of the load/store unit, global memory, "
            "loads, hits; summed over all of them.",
        ),
        (
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
            "SM sub-partition (a scheduler with its warps): warps per issue that were stalled: long scoreboard, "
            "per issued instruction; as a ratio.",
        ),
        ("launch__waves_per_multiprocessor", "Waves: the grid divided by the CTAs that the GPU holds at once."),
        ("device__attribute_max_pitch", "A property of the GPU, as reported by the driver: max pitch."),
        ("sm__ctas_launched.max", "SM: CTAs launched; the maximum over all of them."),
        ("pmsampling:sm__cycles_active.avg", "Sampled over time. SM: cycles with work; averaged over all of them."),
        (
            "derived__sm__inst_executed_pipe_tensor_x512",
            "SM: warp instructions executed, of the tensor pipe, times 512.",
        ),
    ],
)
def test_an_explanation_is_put_together_from_the_name(metric: str, wanted: str) -> None:
    assert explain(metric) == wanted


@pytest.mark.parametrize(
    "metric",
    ["", "nonsense", "sm__new_counter.sum", "sm__inst_executed_pipe_quantum.sum", "xyz__cycles_active.avg",
     "sm__inst_executed.sum.per_parsec", "sm__", "__", "a.b.c", frames.HOSTILE],
)  # fmt: skip
def test_a_name_with_an_unknown_piece_is_not_guessed(metric: str) -> None:
    assert explain(metric) == ""


def test_what_the_sets_say_comes_first() -> None:
    metric = next(one for one in load_sets()["tensor"].metrics if one.name == "sm__cycles_active.min")
    assert explain(metric.name) == metric.about


def test_every_metric_of_the_recordings_is_explained() -> None:
    if not any(find_runs([ROOT])):
        pytest.skip("no recorded run yet")
    reports, _ = open_reports([ROOT], details=False)
    names = {str(name) for report in reports for name in report.metrics["metric"].unique()}
    assert len(names) > 300
    assert sorted(name for name in names if not explain(name)) == []


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1.755e9, "hz", "1.755 GHz"),
        (1.657e9, "cycle/s", "1.657 G cycle/s"),
        (253984.0, "ns", "254 µs"),
        (0.5, "us", "500 ns"),
        (0.0, "ns", "0 s"),
        (66560.0, "byte/block", "66.56 kB/block"),
        (34.7123, "%", "34.71 %"),
        (4194304.0, "inst", "4.194 M inst"),
        (112.0, "register/thread", "112 register/thread"),
        (0.0031, "inst/cycle", "0.0031 inst/cycle"),
        (1024.0, "", "1024"),
        (3.878788, "", "3.879"),
        (-5.0, "", "-5"),
    ],
)
def test_values_have_si_prefixes(value: float, unit: str, shown: str) -> None:
    assert si(value, unit) == shown


def test_rows_keep_the_raw_value_and_say_what_was_not_collected() -> None:
    values = {"device__attribute_x": 1.0, "sm__cycles_active.avg": 0.1 + 0.2, "zz__odd": float("nan")}
    first, second, last = metric_rows({name: (value, "cycle") for name, value in values.items()})
    assert (first["metric"], first["raw"]) == ("sm__cycles_active.avg", 0.1 + 0.2)
    assert first["exact"] == "0.30000000000000004 cycle"
    assert (second["value"], second["raw"], second["explained"]) == ("not collected", None, UNEXPLAINED)
    assert last["metric"] == "device__attribute_x"


@pytest.mark.parametrize(
    ("name", "each"),
    [
        ("derived__pct_occupancy_per_register_count", "size or count"),
        ("launch__occupancy_per_block_size", "size or count"),
        ("pmsampling:smsp__x.avg", "sample"),
        ("derived__avg_thread_executed", "instruction"),
        ("derived__derivative_avg_thread_executed_true", "instruction"),
        ("derived__memory_l1_conflicts_shared_nway", "instruction"),
    ],
)
def test_a_sum_over_sizes_samples_or_instructions_is_not_shown_as_a_value(name: str, each: str) -> None:
    (row,) = metric_rows({name: (4761.0, "%/register")})
    assert (row["value"], row["raw"]) == ("several values", None)
    assert row["exact"] == f"one per {each}; their sum is meaningless"


def test_metrics_stand_beside_those_of_the_pinned_launch() -> None:
    now = {"a": (120.0, "ns"), "b": (1.0, ""), "c": (5.0, "%"), "d": (0.0, "")}
    pinned = {"a": (100.0, "ns"), "b": (0.0, ""), "d": (0.0, "")}
    rows = {row["metric"]: row for row in metric_rows(now, pinned)}
    assert (rows["a"]["before_words"], rows["a"]["change_words"]) == ("100 ns", "+20.0")
    assert (rows["b"]["before"], rows["b"]["change"]) == (0.0, None)
    assert (rows["c"]["before_words"], rows["c"]["change_words"]) == ("not collected", "")
    assert rows["d"]["change_words"] == "+0.0"


def test_the_table_is_sent_when_it_is_asked_for(tmp_path: Path) -> None:
    report = frames.gemm()
    report.numbers[0] = {"sm__cycles_active.avg": 5.0, frames.HOSTILE: 1.0}
    store = frames.store(tmp_path, [report])
    assert "AgGrid" not in str(kernel_metrics.section(frames.view(store)).to_plotly_json())
    assert kernel_metrics.counted(frames.view(store)) == "2 of this launch, with descriptions"
    opened = str(kernel_metrics.section(frames.view(store, search="?show=metrics&metric=cycles")))
    assert "AgGrid" in opened and "quickFilterText': 'cycles'" in opened
    assert "no description known" in opened
