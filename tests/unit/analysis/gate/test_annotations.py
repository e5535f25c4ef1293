"""Annotations of GitHub Actions: escaping, order, what is left out, places in the repository, and
the job's summary."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.gate.accounts import CodePlace, Move
from ncubble.analysis.gate.annotations import MOST, Annotation, CheckoutFiles, line_near, line_of, located, marks
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
from ncubble.api.checking import CheckResult
from ncubble.cli import check as gate_command
from ncubble.cli.check import annotate, quoted
from ncubble.recordings import ROOT
from tests.helpers.gate_frames import gemm, groups, recorded, report


@dataclass(frozen=True)
class Moved:
    part: str
    points: float
    file: str
    line: int | None
    place: CodePlace | None = None


def judged(*tensor: float, **options: Any) -> GateResult:
    """A check of kernels of 3, 4, … stages with these means against 43 %."""
    reports = [
        report([mean + 0.01 * i for i in range(5)], kernel=gemm(3 + k), key=f"{k:016x}")
        for k, mean in enumerate(tensor)
    ]
    known = recorded(*(report(kernel=gemm(3 + k), key=f"b{k:015x}") for k in range(len(tensor))))
    return check(groups(*reports), known, CheckOptions(), **options)


def with_moved(result: GateResult, *moved: Moved) -> GateResult:
    for kernel in result.kernels:
        object.__setattr__(kernel, "moved", moved)
    return result


def test_a_regression_is_an_error_with_its_numbers() -> None:
    (line,) = marks(judged(40.0))
    assert line.startswith("::error title=ncubble%3A regression::tensor_core_gemm stages=3")
    assert re.search(r"tensor_elapsed_pct 43 -> 40.02 %25 \(-6.93 %25, fails beyond -[\d.]+ %25\)", line)
    assert "NVIDIA H200" in line


def test_the_source_line_that_moved_is_marked() -> None:
    result = with_moved(
        judged(40.0), Moved("data_wait", 4.21, "/build/repo/kernels/gemm.cu", 126), Moved("tail", 1, "", None)
    )
    (line,) = marks(result, lambda one: (located(one.file, {"kernels/gemm.cu"}.__contains__), one.line))
    assert line.startswith("::error title=ncubble%3A regression,file=kernels/gemm.cu,line=126::")
    assert "data wait +4.2 points at /build/repo/kernels/gemm.cu:126; tail +1.0 points" in line


def test_what_was_not_judged_is_a_warning_and_a_gain_a_notice() -> None:
    assert [line.partition(" ")[0] for line in marks(judged(43.0, 45.0))] == ["::notice"]
    (line,) = marks(check(groups(report(kernel=gemm(5))), recorded(report()), CheckOptions()))
    assert line.startswith("::warning title=ncubble%3A not comparable::") and "no baseline" in line
    (line,) = marks(judged(errors=[("a%b.ncu-rep", "damaged\nfile")]))
    assert line == "::warning title=ncubble%3A could not read::a%25b.ncu-rep: damaged file"
    (line,) = marks(GateResult(()))
    assert "which does not count as a pass" in line


def test_a_pass_says_nothing() -> None:
    assert marks(judged(43.0)) == []


def test_the_heaviest_come_first_and_the_tenth_names_the_rest() -> None:
    lines = marks(judged(*(42.0 - 0.5 * (k % 7) - 0.01 * k for k in range(14))))
    assert len(lines) == MOST and all(line.startswith("::error ") for line in lines)
    losses = [float(match[1]) for line in lines if (match := re.search(r"\((-[\d.]+) %25", line))]
    assert losses == sorted(losses) and len(losses) == MOST - 1
    assert "5 more failures, the less severe ones: tensor_core_gemm stages=" in lines[-1]
    assert lines[-1].count("tensor_core_gemm") == 5


def test_text_of_a_report_ends_neither_property_nor_line() -> None:
    odd = "a,b:c%\r\n::error::x"
    line = line_of(Annotation("regression", "error", odd, "gemm", odd, 3, title=odd))
    assert "\n" not in line and "\r" not in line
    head, _, message = line.partition("::error ")[2].partition("::")
    assert head == "title=ncubble%3A a%2Cb%3Ac%25 %3A%3Aerror%3A%3Ax,file=a%2Cb%3Ac%25 %3A%3Aerror%3A%3Ax,line=3"
    assert message == "a,b:c%25 ::error::x"


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("/home/a/work/repo/kernels/cuda/gemm.cu", "kernels/cuda/gemm.cu"),
        ("kernels/cuda/gemm.cu", "kernels/cuda/gemm.cu"),
        ("./gemm.cu", "gemm.cu"),
        ("gemm.cu", "gemm.cu"),
        ("/elsewhere/gemm.cu", ""),
        ("/repo/kernels/../../secret", ""),
        ("C:\\work\\kernels\\cuda\\gemm.cu", "kernels/cuda/gemm.cu"),
        ("/usr/include/mma.hpp", ""),
        ("", ""),
    ],
)
def test_a_source_file_is_found_in_the_repository_by_the_end_of_its_path(file: str, found: str) -> None:
    assert located(file, {"kernels/cuda/gemm.cu", "gemm.cu"}.__contains__) == found


SOURCE = "a();\n\nloop_sync();  // wait\n" + "b();\n" * 20 + "loop_sync();  // wait\n"
BARRIER = "loop_sync(); // wait"


@pytest.mark.parametrize(
    ("line", "text", "found"),
    [(3, BARRIER, 3), (7, BARRIER, 3), (9, BARRIER, 0), (27, BARRIER, 24), (3, "c();", 0), (5, "", 5), (99, "", 0)],
)
def test_a_line_is_where_its_text_stands_near_by(line: int, text: str, found: int) -> None:
    assert line_near(SOURCE.split("\n"), line, text) == found


class TestCheckout:
    @pytest.fixture
    def checkout(self, tmp_path: Path) -> CheckoutFiles:
        (tmp_path / "kernels" / "cuda").mkdir(parents=True)
        (tmp_path / "kernels" / "cuda" / "gemm.cu").write_text(SOURCE)
        for command in (["init", "-q"], ["add", "kernels"]):
            subprocess.run(["git", *command], cwd=tmp_path, check=True)
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / "gemm.cu").write_text(SOURCE)
        return CheckoutFiles(tmp_path)

    def move(self, line: int | None, text: str, sass: bool = False) -> Move:
        return Move("data_wait", 4.2, CodePlace("data_wait", "gemm.cu", line, text, 4.2, sass))

    def test_a_bare_name_is_the_one_tracked_file_of_that_name(self, checkout: CheckoutFiles) -> None:
        assert checkout.locate(self.move(5, BARRIER)) == ("kernels/cuda/gemm.cu", 3)
        assert checkout.locate(self.move(5, "BAR.SYNC", sass=True)) == ("kernels/cuda/gemm.cu", 5)

    def test_another_text_or_no_line_marks_nothing(self, checkout: CheckoutFiles) -> None:
        assert checkout.locate(self.move(5, "other();")) == ("", 0)
        assert checkout.locate(self.move(None, BARRIER)) == ("", 0)

    def test_of_two_files_of_a_name_none_is_guessed(self, checkout: CheckoutFiles) -> None:
        subprocess.run(["git", "add", "build"], cwd=checkout.root, check=True)
        assert checkout.locate(self.move(3, BARRIER)) == ("", 0)

    def test_without_git_the_files_that_lie_there_are_searched(self, checkout: CheckoutFiles) -> None:
        shutil.rmtree(checkout.root / ".git")
        shutil.rmtree(checkout.root / "build")
        assert checkout.locate(self.move(3, BARRIER)) == ("kernels/cuda/gemm.cu", 3)


class TestRunner:
    def test_names_of_kernels_are_no_commands_of_the_runner(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(ValueError), quoted(True):
            sys.stdout.write("::add-mask::secret\n")
            raise ValueError
        first, inner, last = capsys.readouterr().out.splitlines()
        assert first.startswith("::stop-commands::ncubble-") and inner == "::add-mask::secret"
        assert last == f"::{first.removeprefix('::stop-commands::')}::"
        with quoted(False):
            pass
        assert capsys.readouterr().out == ""

    def test_the_summary_gets_the_comment_and_keeps_what_it_held(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        summary = tmp_path / "summary.md"
        summary.write_text("# earlier\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        annotate(CheckResult(judged(40.0)), json=False)
        text = summary.read_text()
        assert text.startswith("# earlier\n<!-- ncubble check -->") and "**regressed**" in text

    def test_a_summary_that_would_be_refused_is_cut(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gate_command, "LARGEST_SUMMARY_B", 400)
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
        annotate(CheckResult(judged(*[40.0] * 5)), json=False)
        text = (tmp_path / "summary.md").read_text()
        assert len(text.encode()) <= 400 and text.endswith("has room for 1 MiB)\n")

    @pytest.mark.parametrize("checkout", [True, False])
    def test_files_are_looked_for_in_the_checkout_or_the_workspace(
        self, checkout: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        root = tmp_path / "trusted" if checkout else tmp_path
        (root / "kernels").mkdir(parents=True)
        (root / "kernels" / "gemm.cu").write_text("")
        (root / ".git").mkdir() if checkout else None
        monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
        monkeypatch.chdir(root / "kernels" if checkout else root)
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        annotate(CheckResult(with_moved(judged(40.0), Moved("data_wait", 4.2, "/x/kernels/gemm.cu", 7))), json=False)
        assert "file=kernels/gemm.cu,line=7" in capsys.readouterr().out


def test_the_command_annotates_and_keeps_its_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from ncubble.cli import main

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "baselines").mkdir()
    runs = str(ROOT / "gemm_tma" / "stages2")
    done = CliRunner().invoke(
        main.app, ["check", runs, "--baseline", str(tmp_path / "baselines"), "--no-history", "--github"]
    )
    assert done.exit_code == 3 and "::warning title=ncubble" in done.stdout
    assert "::stop-commands::" in done.stdout and (tmp_path / "summary.md").read_text()
    done = CliRunner().invoke(
        main.app, ["check", runs, "--baseline", str(tmp_path / "baselines"), "--no-history", "--github", "--json"]
    )
    assert json.loads(done.stdout)["exit_code"] == 3 and "::warning" in done.stderr
