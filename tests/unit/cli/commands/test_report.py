"""What `ncubble report` prints for people, pipes and odd names."""

import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from ncubble.analysis.ablation.result import Ablation, MeasuredPart
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.results import ReportResult, judge_all
from ncubble.analysis.report.report import open_reports
from ncubble.cli.commands.report.render import print_launch, print_result, print_summary
from ncubble.cli.labels import full_labels, short_labels
from ncubble.cli.render import printable
from ncubble.dashboard.data.rows import launch_row
from ncubble.profiling.runs.run import Run
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames
from tests.helpers.ablations import ABLATED, ablation
from tests.helpers.dashboard_frames import verdict

MAIN = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()"]


@pytest.fixture(scope="module")
def one():
    return judge_all(*open_reports([ROOT / "tensor_core_gemm" / "stages1-plain"])).verdicts[0]


def command(*arguments, **options):
    return subprocess.run([*MAIN, *arguments], capture_output=True, text=True, timeout=120, check=False, **options)


def drawn(launch, width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_summary(out, [launch])
    print_launch(out, launch, launch.label)
    return out.file.getvalue()


def test_a_folder_without_reports_is_named(tmp_path):
    done = command("report", str(tmp_path))
    assert done.returncode == 3
    assert f"no report below {tmp_path}" in done.stderr
    errors = json.loads(command("report", str(tmp_path), "--json").stdout)["errors"]
    assert [error["report"] for error in errors] == [str(tmp_path)]


def test_a_closed_pipe_is_not_a_regression():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [*MAIN, "report", str(ROOT / "softmax_online"), "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("label", ["", " ", "\x1b[31mred", "[red]x[/]", "two\nlines", "odd\udcff"])
def test_no_label_breaks_the_table_or_reaches_the_terminal_raw(one, label):
    text = drawn(replace(one, label=label, kernel="k\x1b]0;title\x07", device="\x9b1m"), 120)
    assert not {"\x1b", "\x07", "\x9b", "\udcff"} & set(text)
    assert "[red]x[/]" in text or label != "[red]x[/]"


def test_control_characters_are_spelled_out_and_other_text_is_not():
    assert printable("µs ≤ a b\x1b[2J\n") == "µs ≤ a b\\x1b[2J\\n"


@pytest.mark.parametrize(
    "member", [{"name": ["x"]}, {"name": "x", "parameters": [1]}, {"name": "x", "shape": [1]}, {"stages": "three"}]
)
def test_a_manifest_with_wrong_kernel_facts_is_refused_by_name_of_the_member(tmp_path, member):
    shutil.copy(ROOT / "softmax_online" / "default" / "report.ncu-repz", tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, "kernel": member}))
    done = command("report", str(tmp_path), "--json")
    assert done.returncode == 3
    assert f"kernel {list(member)[-1]} has the wrong type" in json.loads(done.stdout)["errors"][0]["error"]


def test_a_manifest_without_kernel_facts_is_fine(tmp_path):
    shutil.copy(ROOT / "softmax_online" / "default" / "report.ncu-repz", tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, "kernel": {"name": None, "stages": None}}))
    assert Run.load(tmp_path).label == tmp_path.name


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_keeps_names_and_verdicts_readable_at_any_width(one, width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_summary(out, [one])
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "tensor_core_gemm" in lines[1]
    assert "data wait" in lines[1]
    assert ("█" in lines[1]) == (width >= 80)


def test_a_launch_without_account_is_drawn_without_a_bar(one):
    bare = replace(one, account=None, unit=None, merged={}, causes=[], cause="unknown", disease=None)
    bare = replace(bare, duration_ns=None, dram_pct=None, tensor_elapsed_pct=None, compute_capability=None)
    assert "unknown" in drawn(bare, 120)


def test_launches_of_one_report_are_told_apart(one):
    out = Console(file=io.StringIO(), width=120, highlight=False)
    print_summary(out, [replace(one, launch=number) for number in range(45)])
    assert all(f"#{number}" in out.file.getvalue() for number in range(45))
    assert "#" not in drawn(one, 120)


def test_a_contradiction_is_printed_in_the_summary_and_in_full(one):
    doubt = "suspicious: 3 CTAs, but the grid has 4; the file may be damaged"
    assert drawn(replace(one, integrity="suspicious", warnings=[doubt, "a note"]), 120).count(doubt) == 2
    assert one.integrity == "ok"


def labelled(*labels, report="runs/{}", shapes=()):
    shapes = shapes or [{}] * len(labels)
    return [
        verdict("k", 1.0, "none", label=label, report=report.format(number), shape=shape)
        for number, (label, shape) in enumerate(zip(labels, shapes, strict=True))
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["gemm stages=1 vec=16"], ["gemm"]),
        (["gemm stages=1 vec=16", "gemm stages=2 vec=16"], ["gemm stages=1", "gemm stages=2"]),
        (["gemm s=1 v=16", "gemm s=2 v=16", "gemm s=2 v=4"], ["gemm s=1", "gemm", "gemm v=4"]),
        (["gemm s=1", "copy s=1"], ["gemm", "copy"]),
        (["gemm s=1", "gemm s=1"], ["gemm (0)", "gemm (1)"]),
        (["my run", "two=1 words"], ["my run", "two=1 words"]),
        (["", "a  b=1"], ["", "a  b=1"]),
    ],
)
def test_runs_are_named_by_what_sets_them_apart(labels, expected):
    assert short_labels(labelled(*labels)) == expected


SHAPES = [{"m": 4096, "k": 512}, {"m": 4096, "k": 1024}, {"m": 4096, "k": 512}, {"m": 64, "k": 64}]


def test_launches_of_several_shapes_are_named_by_the_dimensions_that_differ():
    launches = labelled("gemm s=1", "gemm s=1", "copy s=1", "gemm s=2", shapes=SHAPES)
    assert short_labels(launches) == ["gemm k=512", "gemm k=1024", "copy", "gemm s=2"]
    assert full_labels(launches) == ["gemm s=1 k=512", "gemm s=1 k=1024", "copy s=1", "gemm s=2"]


def test_the_same_shape_again_is_named_by_its_folder_too():
    launches = labelled("gemm s=1", "gemm s=1", "gemm s=1", shapes=SHAPES[:3])
    assert short_labels(launches) == ["gemm k=512 (0)", "gemm k=1024", "gemm k=512 (2)"]


@pytest.mark.parametrize("details", [False, True])
def test_two_recordings_that_differ_in_shape_alone_are_told_apart(capsys, details):
    result = judge_all(*open_reports([ROOT / "attention_fwd" / name for name in ("default", "dim64")]))
    assert {launch.label for launch in result.verdicts} == {"attention_fwd path=tma causal=0 stages=4"}
    assert [launch.shape["dim"] for launch in result.verdicts] == [128, 64]
    print_result(ReportResult(result.verdicts * (1 if details else 2)), details)
    said = capsys.readouterr().out
    assert said.count("dim=128") == said.count("dim=64") == (1 if details else 2)
    assert "tokens=" not in said


def test_launches_of_one_report_need_no_folder_name():
    assert short_labels(labelled("gemm s=1", "gemm s=1", report="runs/x")) == ["gemm", "gemm"]


def test_every_recorded_run_has_a_short_name_of_its_own():
    launches = judge_all(*open_reports([ROOT])).verdicts
    names = short_labels(launches)
    assert len(set(names)) == len(names) and max(map(len, names)) <= 48
    assert {name.partition(" ")[0] for name in names} == {launch.label.partition(" ")[0] for launch in launches}


def test_full_labels_stay_in_the_details_and_in_json(one):
    assert "copy=plain" in one.label and "copy=plain vec=16" in drawn(one, 200)
    out = Console(file=io.StringIO(), width=200, highlight=False)
    print_summary(out, [one])
    assert "copy=plain" not in out.file.getvalue()


@pytest.mark.parametrize("width", [80, 110])
def test_an_explanation_names_counters_borders_and_instructions(width):
    done = command(
        "report", str(ROOT / "tensor_core_gemm" / "stages1"), "--explain", env={**os.environ, "COLUMNS": str(width)}
    )
    assert done.returncode == 0, done.stderr
    flat = " ".join(done.stdout.split())
    assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed = 34.7" in flat
    assert "series tensor, steady level" in flat and "ramp ends" in flat and "warp samples: unit" in flat
    assert "tensor_core_gemm.cu:126 BAR.SYNC" in flat and "long_scoreboard" in flat
    assert max(map(len, done.stdout.splitlines())) <= width


def test_an_explanation_in_json_stands_beside_the_account():
    path = str(ROOT / "sdpa_fp8_stage_c_wmma" / "cp_async1")
    explained = json.loads(command("report", path, "--explain", "--json").stdout)["launches"][0]
    plain = json.loads(command("report", path, "--json").stdout)["launches"][0]
    assert explained.pop("explain")["timeline"] is None and explained == plain


def measured_lines(launch, measured, width=120):
    """By the name of a part: its row; and the text before the table."""
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_launch(out, launch, launch.label, measured)
    said = out.file.getvalue()
    assert max(map(len, said.splitlines())) <= width
    return {line[:12].strip(): line[12:].split() for line in said.splitlines()}, " ".join(said.split())


@pytest.mark.parametrize("width", [80, 120, 200])
def test_measured_shares_stand_beside_the_estimate(width):
    launch = judge_all(*open_reports([ABLATED])).verdicts[0]
    rows, said = measured_lines(launch, Ablation.load(ABLATED), width)
    assert rows["% of time"] == ["est.", "measured"]
    assert rows["data wait"][:2] == ["24.2", "30.3"]
    assert rows["copy cost"][:2] == ["7.5", "2.9"]
    assert rows["tail"][0] == "1.4" and not rows["tail"][1][0].isdigit()
    assert (
        "Measured by ablation (machine code, 5 rounds): data wait is the largest cost, 30.3 ± 0.2 % of the time, "
        "as estimated." in said
    )


def test_parts_that_were_only_measured_together_share_a_row(one):
    rows, _ = measured_lines(one, ablation([MeasuredPart("data_wait+copy_cost", 44.0, 38.5, 0.4, None)]))
    assert rows["data wait"][1] == rows["copy cost"][1] == "together"
    assert rows["together"] == ["44.0", "38.5", "data", "wait", "+", "copy", "cost"]


def test_parts_that_the_account_lacks_are_measured_all_the_same(one):
    bare = replace(one, account={"tensor_busy": 60.0, "idle": 40.0}, causes=[], cause="unknown", disease=None)
    rows, _ = measured_lines(bare, ablation([MeasuredPart("sync_wait", None, -2.5, 0.4, None)]))
    assert rows["sync wait"] == ["–", "-2.5"]


def test_nothing_measured_is_drawn_as_before(one):
    assert "measured" not in measured_lines(one, None)[1]


def test_a_damaged_ablation_is_said_after_the_verdict(tmp_path):
    run = shutil.copytree(ABLATED, tmp_path / "run")
    (run / "ablation.json").write_text("{")
    done = command("report", str(run))
    assert done.returncode == 3 and "data wait" in done.stdout and "ablation.json" in done.stderr


def test_the_verdict_is_measured_where_its_cause_was(one):
    copies = ablation([MeasuredPart("copy_cost", 8.0, 43.1, 0.3, 43.1)])
    assert "→ copy cost, measured: " in measured_lines(one, copies)[1].replace(" (no async)", "")
    said = drawn(as_measured(one, copies), 200)
    assert "copy cost (no async), measured" in said.splitlines()[1]
    assert "measured" not in measured_lines(one, ablation([]))[1].split("Measured")[0]


@pytest.mark.parametrize("parts", [[], [("copy_cost", 43.1)], [("data_wait+copy_cost", 38.5)], [("sync_wait", 3.0)]])
def test_the_overview_names_the_cause_that_the_report_names(one, parts):
    measured = ablation([MeasuredPart(name, None, pct, 0.1, None) for name, pct in parts])
    row = launch_row(frames.gemm(), 0, one, measured)
    arrow = measured_lines(one, measured, 200)[1].split("→ ")[1].split(":")[0]
    cause, disease = row["cause"].removesuffix(" (measured)"), f" ({row['disease']})" if row["disease"] else ""
    assert arrow == cause + disease + (", measured" if "(measured)" in row["cause"] else "")


@pytest.mark.parametrize(("run", "differs"), [("gemm_tma/stages2", True), ("tensor_core_gemm/stages2", False)])
def test_an_explanation_says_where_the_account_is_simulated(run: str, differs: bool) -> None:
    said = " ".join(command("report", str(ROOT / run), "--explain").stdout.split())
    assert ("The account above comes from the simulated loop." in said) is differs
