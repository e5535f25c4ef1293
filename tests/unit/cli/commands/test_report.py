"""What `ncubble report` prints for people, pipes and odd names."""

import io
import json
import os
import shutil
import subprocess
import sys

import pytest
from rich.console import Console

from ncubble.analysis.diagnosis.results import report_json
from ncubble.cli.commands.report.render import print_launch, print_result, print_summary
from ncubble.cli.labels import full_labels, short_labels
from ncubble.cli.render import printable
from ncubble.profiling.runs.run import Run
from ncubble.recordings import ROOT

MAIN = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()"]


@pytest.fixture(scope="module")
def one():
    return report_json([ROOT / "tensor_core_gemm" / "stages1-plain"])["launches"][0]


def command(*arguments, **options):
    return subprocess.run([*MAIN, *arguments], capture_output=True, text=True, timeout=120, check=False, **options)


def drawn(launch, width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_summary(out, [launch])
    print_launch(out, launch, launch["label"])
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
    text = drawn({**one, "label": label, "kernel": "k\x1b]0;title\x07", "device": "\x9b1m"}, 120)
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
    bare = {**one, "account": None, "unit": None, "merged": {}, "causes": [], "cause": "unknown", "disease": None}
    bare |= {"duration_ns": None, "dram_pct": None, "tensor_elapsed_pct": None, "compute_capability": None}
    assert "unknown" in drawn(bare, 120)


def test_launches_of_one_report_are_told_apart(one):
    out = Console(file=io.StringIO(), width=120, highlight=False)
    print_summary(out, [{**one, "launch": number} for number in range(45)])
    assert all(f"#{number}" in out.file.getvalue() for number in range(45))
    assert "#" not in drawn(one, 120)


def test_a_contradiction_is_printed_in_the_summary_and_in_full(one):
    doubt = "suspicious: 3 CTAs, but the grid has 4; the file may be damaged"
    assert drawn(one | {"integrity": "suspicious", "warnings": [doubt, "a note"]}, 120).count(doubt) == 2
    assert one["integrity"] == "ok"


def labelled(*labels, report="runs/{}", shapes=()):
    shapes = shapes or [{}] * len(labels)
    return [
        {"label": label, "report": report.format(number), "shape": shape}
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
    result = report_json([ROOT / "attention_fwd" / name for name in ("default", "dim64")])
    assert {launch["label"] for launch in result["launches"]} == {"attention_fwd path=tma causal=0 stages=4"}
    assert [launch["shape"]["dim"] for launch in result["launches"]] == [128, 64]
    shown = {**result, "launches": result["launches"] * (1 if details else 2)}
    print_result(shown, details)
    said = capsys.readouterr().out
    assert said.count("dim=128") == said.count("dim=64") == (1 if details else 2)
    assert "tokens=" not in said


def test_launches_of_one_report_need_no_folder_name():
    assert short_labels(labelled("gemm s=1", "gemm s=1", report="runs/x")) == ["gemm", "gemm"]


def test_every_recorded_run_has_a_short_name_of_its_own():
    launches = report_json([ROOT])["launches"]
    names = short_labels(launches)
    assert len(set(names)) == len(names) and max(map(len, names)) <= 48
    assert {name.partition(" ")[0] for name in names} == {one["label"].partition(" ")[0] for one in launches}


def test_full_labels_stay_in_the_details_and_in_json(one):
    assert "copy=plain" in one["label"] and "copy=plain vec=16" in drawn(one, 200)
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
