"""The fix of errors about paths: the nearest path that exists, or the command that reads what is
there."""

from pathlib import Path

import pytest

from ncubble.errors import ReportError, UsageError
from ncubble.profiling.runs import REPORTS, Run, holding, missing, require_paths, without_report
from ncubble.recordings import ROOT


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("runs/gema", "runs/gemm"),
        ("runz/gemm", "runs/gemm"),
        ("runs/gemm/report.ncu-rep", "runs/gemm/report.ncu-repz"),
        ("runs/gemm/kernel.cu", ""),
        ("runz/other", ""),
        ("elsewhere", ""),
    ],
)
def test_a_misspelt_path_names_the_nearest(
    wrong: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs" / "gemm").mkdir(parents=True)
    (tmp_path / "runs" / "gemm" / "report.ncu-repz").touch()
    monkeypatch.chdir(tmp_path)
    error = missing(Path(wrong))
    assert error.message == f"{wrong}: no such file or directory"
    assert error.remedy == (f"did you mean {near}?" if near else "check the path")
    with pytest.raises(UsageError, match=wrong):
        require_paths([Path("runs"), Path(wrong)])


@pytest.mark.parametrize(
    ("place", "command"),
    [
        (ROOT / "gemm_tma/stages2", "report"),
        (ROOT.parent / "h100-program/train", "report"),
        (ROOT.parent / "h200-lanes/streams-torch", "streams"),
        (ROOT.parent / "h200-lanes/trace-both", "trace"),
        (ROOT.parent / "h200-checks", "trend"),
        (ROOT / "gemm_tma/stages2/report.ncu-repz", "report"),
    ],
)
def test_recordings_name_the_command_that_reads_them(place: Path, command: str) -> None:
    assert holding(place).endswith(f": ncubble {command} {place}")


def test_what_is_known_to_be_no_report_says_what_it_is(tmp_path: Path) -> None:
    for name in ("x.nsys-rep", "notes.txt", "activity.parquet", "kernel.cu"):
        (tmp_path / name).touch()
    assert holding(tmp_path / "x.nsys-rep").startswith("it is a report of Nsight Systems")
    assert holding(tmp_path / "activity.parquet") == (
        f"name its folder; it holds a recording of streams: ncubble streams {tmp_path}"
    )
    assert holding(tmp_path / "notes.txt") == holding(tmp_path / "kernel.cu") == holding(tmp_path / "gone") == ""
    with pytest.raises(ReportError, match="not a report file name\n  remedy: it is a report of Nsight Systems"):
        Run.load(tmp_path / "x.nsys-rep")
    (tmp_path / "empty").mkdir()
    assert without_report([tmp_path / "empty"]).remedy == REPORTS
    (tmp_path / "activity.parquet").unlink()
    assert without_report([tmp_path / "empty", tmp_path]).remedy.startswith("it holds reports of Nsight Systems")


def test_a_dataset_names_query(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").touch()
    assert holding(tmp_path) == f"it holds a dataset: ncubble query {tmp_path}"


def test_what_lies_a_level_below_is_named_too(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ablation.json").touch()
    assert f"ncubble ablate {tmp_path / 'run'}" in without_report([tmp_path]).remedy
