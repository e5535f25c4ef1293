"""What `ncubble compare` prints, and how it ends."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ncubble.analysis.compare.compare import Group, compare_groups
from ncubble.cli.compare import print_comparison
from ncubble.cli.main import main
from ncubble.recordings import ROOT
from tests.helpers.ablations import ABLATED
from tests.helpers.compare_subjects import subject

ONE, OTHER = str(ROOT / "gemm_tma" / "stages1"), str(ROOT / "gemm_tma" / "stages3")


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``ncubble compare``."""
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *arguments])
    told = capsys.readouterr()
    code = stopped.value.code
    return (code if isinstance(code, int) else 0), told.out, told.err


def test_two_runs_are_compared_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, ONE, OTHER)
    assert code == 0
    words = " ".join(out.split())
    assert "B takes" in words and "data wait falls most" in words
    line = next(line for line in out.splitlines() if line.startswith("data wait"))
    assert "points" in line and line.split()[2:4] == [line.split()[2], "%"]


def test_markdown_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = ended(capsys, ONE, OTHER, "--markdown", "-")
    code, told, _ = ended(capsys, ONE, OTHER, "--json")
    found: dict[str, Any] = json.loads(told)
    assert code == 0 and found["schema"] == 1 and found["errors"] == []
    (said,) = found["comparisons"][0]["sentences"]
    assert said in text and text.startswith("<!-- ncubble compare -->\n### ncubble compare: B is faster\n")
    picture = text.split("```text\n")[1].split("```")[0].splitlines()
    assert picture[0].split() == ["duration", "A", "█" * 40, "298.0", "µs"], "the longest is drawn whole"
    waits = [
        line.split() for line in picture[picture.index(next(x for x in picture if x.startswith("data wait"))) :][:2]
    ]
    assert [len(words[-3]) for words in waits] == [16, 1] and waits[0][:3] == ["data", "wait", "A"]


def test_three_sides_have_a_column_each(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ended(capsys, ONE, OTHER, str(ROOT / "gemm_tma" / "stages6"))
    assert "C - A" in out and "C takes" in out


def test_many_kernels_are_summed_up_unless_details_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ROOT / "triton_gemm")
    _, out, _ = ended(capsys, folder, folder)
    assert "5 comparisons; --details for their tables" in out and "SM clock" not in out
    assert "SM clock" in ended(capsys, folder, folder, "--details")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([ONE], "1 side is named"),
        ([ONE] * 9, "9 sides are named"),
        ([ONE, OTHER, "--markdown", "-", "--json"], "both write to stdout"),
    ],
)
def test_usage_errors_name_the_remedy(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    code, _, err = ended(capsys, *arguments)
    assert code == 2 and said in err and "remedy:" in err


def test_a_damaged_side_is_named_and_the_others_are_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "broken.ncu-rep").write_bytes(b"NVR\0 no report")
    code, out, err = ended(capsys, ONE, OTHER, str(tmp_path))
    assert code == 3 and "B takes" in out and "broken.ncu-rep" in err


def test_a_folder_without_reports_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = ended(capsys, ONE, str(tmp_path))
    assert code == 3 and f"no report below {tmp_path}" in err


def test_kernels_without_partner_are_listed_and_nothing_compared_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = ended(capsys, str(ROOT / "gemm_tma"), str(ROOT / "gemm_ws"))
    assert code == 3 and "nothing to compare" in err
    out = " ".join(out.split())
    assert out.count("no launch of this kernel in B") == 4 and out.count("no launch of this kernel in A") == 2


def test_names_in_a_report_cannot_steer_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=140, highlight=False)
    odd = Group((subject("\x1b[31mred\x07", device="\x9b1m", stalls={"\x1b[2J": 100.0}),))
    print_comparison(console, compare_groups([odd, odd]))
    assert not {"\x1b", "\x07", "\x9b"} & set(console.file.getvalue())  # type: ignore[attr-defined]


def test_what_was_measured_is_compared_and_a_damaged_file_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = shutil.copytree(ABLATED, tmp_path / "other")
    ablation = json.loads((other / "ablation.json").read_text())
    ablation["parts"][0]["measured"] -= 20.0
    (other / "ablation.json").write_text(json.dumps(ablation))
    code, out, _ = ended(capsys, str(ABLATED), str(other))
    assert code == 0 and "data wait falls most, by 20.0 points" in out and "% of elapsed SM cycles, measured" in out
    (other / "ablation.json").write_text("{")
    code, out, err = ended(capsys, str(ABLATED), str(other))
    assert (
        code == 3
        and "ablation.json: not an ablation" in err
        and "estimates on all sides, because only A" in " ".join(out.split())
    )


def test_three_sides_fit_80_columns_without_a_cut_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    sides = [str(ROOT / "tensor_core_gemm" / f"stages{number}") for number in (1, 2, 3)]
    _, out, _ = ended(capsys, *sides)
    assert max(map(len, out.splitlines())) <= 80 and "…" not in out
    assert [line.split() for line in out.splitlines() if line.endswith("- A  ")] == [
        ["A", "B", "B", "-", "A"],
        ["A", "C", "C", "-", "A"],
    ]


def test_markdown_goes_to_a_file_that_only_it_may_replace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "new" / "comment.md"
    for _ in range(2):
        code, out, _ = ended(capsys, ONE, OTHER, "--markdown", str(file))
        assert code == 0 and "tensor busy" in out and file.read_text().startswith("<!-- ncubble compare -->")
    file.write_text("mine")
    code, _, err = ended(capsys, ONE, OTHER, "--markdown", str(file))
    assert code == 2 and "not written by ncubble" in err and file.read_text() == "mine"


def test_a_side_that_could_not_be_read_is_not_said_to_lack_kernels(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = ended(capsys, str(tmp_path / "nowhere"), ONE)
    assert code == 3
    assert "no launch was read of A" in " ".join(out.split())
    assert err.startswith("ncubble: ")  # not with an empty line, where no progress bar is drawn
