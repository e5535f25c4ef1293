"""What `ncubble report` prints for people, pipes and odd names."""

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace

import pytest
from rich.console import Console
from rich.text import Text

from ncubble.analysis.ablation.result import Ablation, MeasuredPart
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis.groups import LaunchGroup
from ncubble.analysis.diagnosis.results import judge_all
from ncubble.analysis.diagnosis.verdict import Place
from ncubble.analysis.report.report import open_reports
from ncubble.api.reporting import LaunchReport
from ncubble.api.reports import read
from ncubble.cli.accounts import (
    folded,
    full_labels,
    place_text,
    print_launch,
    print_report,
    print_summary,
    short_labels,
)
from ncubble.cli.main import main
from ncubble.dashboard.data.rows import launch_row
from ncubble.recordings import H100, ROOT, VALIDATION
from tests.helpers import dashboard_frames as frames
from tests.helpers.ablations import ABLATED, ablation
from tests.helpers.dashboard_frames import verdict

MAIN = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()"]


@pytest.fixture(scope="module")
def one():
    return judge_all(*open_reports([ROOT / "tensor_core_gemm" / "stages1-plain"])).verdicts[0]


def command(*arguments, columns="80"):
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setenv("COLUMNS", columns)
        with redirect_stdout(out), redirect_stderr(err):
            main([*arguments])
    return subprocess.CompletedProcess(arguments, ended.value.code or 0, out.getvalue(), err.getvalue())


def drawn(launch, width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_summary(out, [LaunchGroup((launch,))])
    print_launch(out, launch, launch.label)
    return out.file.getvalue()


def test_a_launch_ends_with_the_line_that_waits_and_the_command_that_tries_its_changes(tmp_path):
    said = " ".join(command("report", str(ROOT / "tensor_core_gemm" / "stages1")).stdout.split())
    assert "it waits at tensor_core_gemm.cu:126: __syncthreads();" in said
    assert "try them: ncubble try tensor_core_gemm -p stages=1" in said
    triton = command("report", str(VALIDATION / "changes/h100/07"), "--kernel", "gemm_k_major").stdout
    assert "ncubble try --kernel '^gemm_k_major$' -- python -m benchmarks" in " ".join(triton.split())
    bare = shutil.copy(ROOT / "tensor_core_gemm" / "stages1" / "report.ncu-repz", tmp_path)
    assert "try them" not in command("report", str(bare)).stdout
    best = command("report", str(ROOT / "gemm_ws" / "default")).stdout
    assert "nothing is known to gain 3 %" in best and "try them" not in best


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
            [*MAIN, "report", str(H100 / "softmax_online"), "--json"],
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


@pytest.mark.parametrize(
    "member", [{"name": ["x"]}, {"name": "x", "parameters": [1]}, {"name": "x", "shape": [1]}, {"stages": "three"}]
)
def test_a_manifest_with_wrong_kernel_facts_is_refused_by_name_of_the_member(tmp_path, member):
    shutil.copy(H100 / "softmax_online" / "default" / "report.ncu-repz", tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, "kernel": member}))
    done = command("report", str(tmp_path), "--json")
    assert done.returncode == 3
    assert f"field 'kernel.{list(member)[-1]}' is" in json.loads(done.stdout)["errors"][0]["error"]


@pytest.mark.parametrize("width", [80, 100])
def test_a_long_verdict_is_folded_and_not_cut(one, width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    shift = Change(kind="shared_layout", part="smem_wait", text="swizzle", gain_pct=9.0)
    long = replace(one, changes=[shift], kernel="a_kernel_whose_name_is_long")
    print_summary(out, [LaunchGroup((long, long)), LaunchGroup((long,))])
    text = out.file.getvalue()
    assert text.count("(shared") == text.count("layout)") == 2
    assert max(map(len, text.splitlines())) <= width
    legend = text[text.index("█ tensor busy") : text.index("3 launches")].splitlines()
    assert all(len(line.split()[-1]) > 1 for line in legend)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_keeps_names_and_verdicts_readable_at_any_width(one, width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_summary(out, [LaunchGroup((one,))])
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "tensor_core_gemm" in lines[1]
    assert "data wait" in lines[1]
    assert ("█" in lines[1]) == (width >= 80)


def test_a_launch_without_account_is_drawn_without_a_bar(one):
    bare = replace(one, account=None, unit=None, merged={}, changes=[])
    bare = replace(bare, duration_ns=None, dram_pct=None, tensor_elapsed_pct=None, compute_capability=None)
    assert "unknown" in drawn(bare, 120)


def test_launches_of_one_report_are_told_apart(one):
    out = Console(file=io.StringIO(), width=120, highlight=False)
    print_summary(out, [LaunchGroup((replace(one, launch=number),)) for number in range(45)])
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
    again = [replace(launch, report=f"/r/{place}/run") for launch, place in zip(launches, "abc", strict=True)]
    assert short_labels(again) == ["gemm k=512 (a/run)", "gemm k=1024", "gemm k=512 (c/run)"]
    assert full_labels(again)[0] == "gemm s=1 k=512 (a/run)"


@pytest.mark.parametrize("details", [False, True])
def test_two_recordings_that_differ_in_shape_alone_are_told_apart(capsys, details):
    launches = read([ROOT / "attention_fwd" / name for name in ("default", "dim64")])
    assert {launch.label for launch in launches} == {"attention_fwd path=tma causal=0 stages=4"}
    assert [launch.estimate.shape["dim"] for launch in launches] == [128, 64]
    print_report(LaunchReport(list(launches) * (1 if details else 2), []), details)
    said = capsys.readouterr().out
    assert said.count("dim=128") == said.count("dim=64") == 1
    assert "tokens=" not in said


def test_every_recorded_run_has_a_short_name_of_its_own():
    launches = judge_all(*open_reports([ROOT])).verdicts
    names = short_labels(launches)
    assert len(set(names)) == len(names) and max(map(len, names)) <= 54
    assert {name.partition(" ")[0] for name in names} == {launch.label.partition(" ")[0] for launch in launches}


def test_full_labels_stay_in_the_details_and_in_json(one):
    assert "copy=plain" in one.label and "copy=plain vec=16" in drawn(one, 200)
    out = Console(file=io.StringIO(), width=200, highlight=False)
    print_summary(out, [LaunchGroup((one,))])
    assert "copy=plain" not in out.file.getvalue()


@pytest.mark.parametrize("width", [80, 110])
def test_an_explanation_names_counters_borders_and_instructions(width):
    done = command("report", str(ROOT / "tensor_core_gemm" / "stages1"), "--explain", columns=str(width))
    assert done.returncode == 0, done.stderr
    flat = " ".join(done.stdout.split())
    assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed = 34.7" in flat
    assert (
        "series tensor, steady level" in flat
        and "ramp ends" in flat
        and "warp samples: data wait 18,802, copy cost" in flat
    )
    assert "tensor_core_gemm.cu:126 BAR.SYNC" in flat and "long_scoreboard" in flat
    assert max(map(len, done.stdout.splitlines())) <= width


def test_an_explanation_says_the_load_of_an_sm_in_words_and_breaks_no_number_off() -> None:
    path = str(ROOT / "gemm_tma" / "stages2")
    said = command("report", path, "--explain").stdout
    flat = " ".join(said.split())
    assert "load of an SM with 2 CTAs at a time, of its cycles: tensor busy 65.2 %, load/store unit with" in flat
    assert "data wait 27.82 % = steady idle time × its warp samples" in flat and "sync wait 0.17 % = as data" in flat
    assert max(map(len, said.splitlines())) <= 80
    assert [line for line in said.splitlines() if line.startswith("%") or line.endswith(" =")] == []


def test_an_explanation_in_json_stands_beside_the_account():
    path = str(H100 / "sdpa_fp8_stage_c_wmma" / "cp_async1")
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
    assert rows["data wait"][:2] == ["28.0", "30.3"]
    assert rows["copy cost"][:2] == ["0.0", "2.9"]
    assert rows["tail"][0] == "2.3" and not rows["tail"][1][0].isdigit()
    assert (
        "Measured by ablation (machine code, 5 rounds): data wait is the largest cost, 30.3 ± 0.2 % of the time, "
        "as estimated." in said
    )


def test_parts_that_were_only_measured_together_share_a_row(one):
    rows, _ = measured_lines(one, ablation([MeasuredPart("data_wait+copy_cost", 44.0, 38.5, 0.4, None)]))
    assert rows["data wait"][1] == rows["copy cost"][1] == "together"
    assert rows["together"] == ["44.0", "38.5", "data", "wait", "+", "copy", "cost"]


def test_parts_that_the_account_lacks_are_measured_all_the_same(one):
    bare = replace(one, account={"tensor_busy": 60.0, "idle": 40.0}, changes=[], where={})
    rows, _ = measured_lines(bare, ablation([MeasuredPart("sync_wait", None, -2.5, 0.4, None)]))
    assert rows["sync wait"] == ["–", "-2.5"]


def test_a_damaged_ablation_is_said_after_the_verdict(tmp_path):
    run = shutil.copytree(ABLATED, tmp_path / "run")
    (run / "ablation.json").write_text("{")
    done = command("report", str(run))
    assert done.returncode == 3 and "data wait" in done.stdout and "ablation.json" in done.stderr


def test_the_verdict_is_measured_where_its_cause_was(one):
    waits = ablation([MeasuredPart("data_wait", 8.0, 43.1, 0.3, 43.1)])
    assert one.cause == "data_wait"
    assert ", measured 1." in measured_lines(one, waits)[1]
    assert "measured" not in measured_lines(one, ablation([]))[1].split("Measured")[0]


@pytest.mark.parametrize("parts", [[], [("copy_cost", 43.1)], [("data_wait", 38.5)], [("sync_wait", 3.0)]])
def test_the_overview_names_the_cause_that_the_report_names(one, parts):
    measured = ablation([MeasuredPart(name, None, pct, 0.1, None) for name, pct in parts])
    row = launch_row(frames.gemm(), 0, one, measured)
    arrow = measured_lines(one, measured, 200)[1].split("→ ")[1].split(" 1. ")[0]
    cause, change = row["cause"].removesuffix(" (measured)"), f" ({row['change']})" if row["change"] else ""
    assert arrow == cause + change + (", measured" if "(measured)" in row["cause"] else "")


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_line_that_is_too_long_keeps_its_place_and_its_share(width: int) -> None:
    said = command("report", str(ROOT / "gemm_tma/stages2"), columns=str(width)).stdout
    (waits,) = (line for line in said.splitlines() if line.startswith("data wait"))
    assert "gemm_tma.cu:67  @!P0" in waits and waits.rstrip().endswith("  (27.8 %)")
    assert ("…" in waits) is (width == 80)


def test_a_place_without_room_for_the_instruction_has_none() -> None:
    where = Place("/src/sm_30_intrinsics.hpp", 110, "NOP", 12.34)
    assert [place_text(where, room) for room in (44, 36, 30)] == [
        "sm_30_intrinsics.hpp:110  NOP  (12.3 %)",
        "sm_30_intrinsics.hpp:110  (12.3 %)",
        "sm_30_intrinsics.hp…  (12.3 %)",
    ]


RANKS_ROOT = ROOT.parent / "h200-ranks"


def test_repeated_kernels_share_a_row_that_fits_eighty_columns():
    done = command("report", str(RANKS_ROOT))
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert done.stdout.count("×2") == 4 and "8 launches of 4 kernels" in done.stdout
    shares = [float(line.split()[-4]) for line in lines if "rank" in line]
    assert sum(shares) == pytest.approx(100.0, abs=0.2) and shares == sorted(shares, reverse=True)


def test_every_launch_has_its_row_where_that_is_asked_for():
    said = command("report", str(RANKS_ROOT), "--no-group", columns="120").stdout
    assert "×" not in said and [said.count(f"#{number}") for number in range(4)] == [2, 2, 2, 2]


def test_rows_are_chosen_sorted_and_limited():
    said = command("report", str(ROOT), "--kernel", "^async_copy", "--sort", "busy", "--limit", "2").stdout
    rows = [line for line in said.splitlines() if line.startswith("async_copy")]
    assert len(rows) == 2 and "and 2 more kernels" in said and "gemm" not in said
    shares = json.loads(command("report", str(ROOT), "--json", "--kernel", "^async_copy", "--sort", "busy").stdout)
    busy = [one["account"]["unit_busy"] for one in shares["launches"]]
    assert len(busy) == 4 and busy == sorted(busy)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--kernel", "nothing"], "available: attention_fwd"),
        (["--kernel", "("], "regular expression"),
        (["--sort", "x"], "lost, busy"),
    ],
)
def test_a_choice_that_fits_nothing_is_refused(arguments, named):
    done = command("report", str(ROOT / "attention_fwd"), *arguments)
    assert done.returncode == 2 and named in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("nvjet_sm90_tst_256x128", ["nvjet_", "sm90_tst_", "256x128"]),
        ("two words and more", ["two words", "and more"]),
        ("averyverylongword x", ["averyverylongword", "x"]),
        ("short", ["short"]),
    ],
)
def test_names_end_their_lines_behind_words(name, lines):
    assert folded(Text(name), 10).plain.splitlines() == lines


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--brief"], "--brief without --json"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path, monkeypatch, options, reason):
    monkeypatch.chdir(tmp_path)
    done = command("report", str(ROOT / "gemm_ws"), *options)
    assert done.returncode == 2 and reason in done.stderr and not list(tmp_path.iterdir())
