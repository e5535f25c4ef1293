"""What ``ncubble export`` writes, chooses, refuses and says, on made-up reports."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path
from typing import Any

import plotly.offline
import pytest
import typer
from dash import html

import ncubble
from ncubble.api import exporting
from ncubble.cli import export as cli_export
from ncubble.cli.main import main
from ncubble.dashboard.data import store as report_store
from ncubble.dashboard.export import page as export_page
from ncubble.dashboard.export.page import renamer
from ncubble.dashboard.pages.addresses import CompareAddress
from ncubble.dashboard.pages.kernel.layout import Panel
from ncubble.errors import MeasurementError, ReportError, UsageError
from tests.helpers import dashboard_frames as frames
from tests.helpers.ablations import ABLATED
from tests.helpers.recorded_programs import torch_program

SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@pytest.fixture(autouse=True)
def _without_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without the five megabytes of plotly.js, which nothing here runs."""
    own = ("window.Plotly = {};", *export_page.scripts()[1:])
    monkeypatch.setattr(export_page, "scripts", lambda: own)


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that reads as the made-up reports, whatever is in it."""
    opened = frames.store(tmp_path)
    monkeypatch.setattr(report_store, "ReportStore", lambda paths: opened)
    return tmp_path


def write(reports: Path, *options: str) -> Path:
    """Run the command; the file that it wrote."""
    out = reports / "out.html"
    assert ask(reports, "-o", out, *options) == 3  # one of the made-up reports is damaged
    return out


def ask(*given: object) -> int:
    """Run ``ncubble export`` alone; its exit code. Errors come as they are raised."""
    app = typer.Typer()
    app.command()(cli_export.export)
    code = typer.main.get_command(app).main([str(one) for one in given], standalone_mode=False)
    return int(code or 0)


def test_one_launch_becomes_one_page_with_everything_inside(reports: Path) -> None:
    text = write(reports, "--kernel", "wmma_gemm<").read_text()
    assert text.count("<article ") == 1 and "wmma_gemm" in text
    for title in ("Bubble account", "Timeline", "What to change", "Stall reasons", "Hottest instructions"):
        assert f">{title}</h2>" in text, title
    assert "file ends inside block 3" in text  # the damaged one is named in the file
    assert not re.search(r'\b(?:src|href)="(?!#)', SCRIPT.sub("", text))
    assert "icon.svg" not in text and "@import" not in text


def test_a_recorded_program_comes_before_its_kernels_and_links_them(tmp_path: Path) -> None:
    run, out = torch_program(tmp_path / "train"), tmp_path / "out.html"
    assert ask(run, "-o", out) == 0
    text = out.read_text()
    first, *kernels = re.findall(r'<article id="([^"]+)"', text)
    assert first.startswith("program-") and len(kernels) == 4
    assert "lost between kernels 65.3 %" in text
    assert f'href="#{kernels[0]}"' in text[text.index('id="program-') : text.index(f'id="{kernels[0]}"')]
    assert not re.search(r'\b(?:src|href)="(?!#)', SCRIPT.sub("", text))
    assert str(tmp_path) not in text


def test_what_was_measured_is_in_the_file(tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    assert ask(ABLATED, "-o", out) == 0
    text = out.read_text()
    said = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    assert "data wait 28.03 % 67.0 µs 30.3 ± 0.2 %" in said
    assert "Measured by ablation" in said and "data wait 28.0 30.3 0.2 30.6" in said
    assert str(ABLATED) not in text and "/source/" not in text


def test_several_launches_come_behind_a_table_that_links_them(reports: Path) -> None:
    text = write(reports).read_text()
    anchors = re.findall(r'<article id="([\w-]+)"', text)
    assert len(anchors) == 8 and len(set(anchors)) == 8
    linked = re.findall(r'<td><a href="#([\w-]+)">', text)
    assert linked == anchors
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"', text))
    assert targets <= set(ids)


def test_equal_input_gives_equal_files(reports: Path) -> None:
    for name in ("a.html", "b.html"):
        ncubble.export(reports, reports / name, launches=[0])
    assert (reports / "a.html").read_bytes() == (reports / "b.html").read_bytes()


def test_names_from_reports_are_text(reports: Path) -> None:
    text = write(reports).read_text()
    assert frames.HOSTILE not in text and "<img" not in SCRIPT.sub("", text)
    assert "&lt;img src=x onerror=" in text


def test_the_policy_allows_exactly_the_scripts_of_the_file(reports: Path) -> None:
    text = write(reports, "--launch", "0").read_text()
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', text)
    assert policy is not None
    allowed = re.findall(r"sha256-([\w+/=]+)", policy[1])
    found = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in SCRIPT.findall(text)]
    assert allowed == found and len(found) == 3
    assert "default-src &#x27;none&#x27;" in policy[1] and "unsafe-eval" not in policy[1]
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script")


def test_scripts_can_stand_inside_a_page() -> None:
    for script in (plotly.offline.get_plotlyjs(), *export_page.scripts()):
        assert not re.search(r"</script|<script|<!--|\r", script, re.IGNORECASE)
    assert "</style" not in export_page.styles()


def test_launches_beyond_the_limit_are_left_out_and_said(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_page, "MOST_PAGES", 3)
    told = ncubble.export(reports, reports / "out.html")
    assert len(told.launches) == 3 and told.left_out == 5
    assert "5 more were chosen" in (reports / "out.html").read_text()


def test_what_callbacks_fill_in_is_in_the_file_unless_it_is_large(
    reports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {"kernel-metrics": Panel("Metrics", lambda view: html.P(f"metrics of {view.id}"), None)}
    page = lambda store, entry: html.Div(html.Div("wait", id="kernel-metrics"))  # noqa: E731
    monkeypatch.setattr(export_page.kernel, "PANELS", parts)
    monkeypatch.setattr(export_page.kernel, "layout", page)
    few = write(reports, "--kernel", "wmma_gemm").read_text()
    assert "metrics of 0123456789abcdef/0" in few and "wait" not in few.partition("<main")[2].partition("<script")[0]
    many = write(reports, "--force").read_text()
    assert "metrics of" not in many and many.count("<code>--launch 0</code>") == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "{}/there.html"], "exists"),
        (["-o", "{}"], "is a directory|cannot be written as"),
        (["-o", "{}/none/out.html"], "no such directory"),
        (["-o", "{}/out.png"], "cannot be written as .png"),
        (["-o", "{}/out"], "no file extension"),
        (["-o", "{}/out.html", "--launch", "77"], "no launch 77"),
        (["-o", "{}/out.html", "--kernel", "nothing_like_it"], "no kernel matches"),
        (["-o", "{}/out.html", "--kernel", "("], "not a regular expression"),
        (["-o", "{}/out.html", "--compare"], "needs two sides"),
    ],
)
def test_requests_that_cannot_be_met_are_said_with_a_remedy(reports: Path, options: list[str], said: str) -> None:
    (reports / "there.html").write_text("mine")
    with pytest.raises(UsageError, match=said) as error:
        ask(reports, *(one.format(reports) for one in options))
    assert error.value.remedy and error.value.exit_code == 2
    assert (reports / "there.html").read_text() == "mine"
    assert not list(reports.glob(".ncubble-*"))


def test_a_path_that_is_not_there_ends_the_command_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path / "gone"), "-o", str(tmp_path / "x.html")])
    assert ended.value.code == 2
    assert "no such file" in capsys.readouterr().err


def test_a_damaged_report_alone_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.ncu-rep").write_bytes(b"NVR\0garbage")
    with pytest.raises(ReportError, match=r"bad\.ncu-rep") as error:
        ncubble.export(tmp_path / "bad.ncu-rep", tmp_path / "out.html")
    assert error.value.exit_code == 3 and error.value.message.count("bad.ncu-rep") == 1
    assert not (tmp_path / "out.html").exists()


def test_a_folder_without_reports_says_so(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="no report below"):
        ncubble.export(tmp_path, tmp_path / "out.html")


def test_force_replaces_and_a_failure_leaves_what_was_there(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = reports / "out.html"
    out.write_text("old")
    monkeypatch.setattr(os, "fsync", _no_space)
    with pytest.raises(MeasurementError, match="No space"):
        ncubble.export(reports, out, launches=[0], force=True)
    assert out.read_text() == "old" and not list(reports.glob(".out*"))
    monkeypatch.undo()
    monkeypatch.setattr(report_store, "ReportStore", lambda paths: frames.store(reports))
    ncubble.export(reports, out, launches=[0], force=True)
    os.umask(mask := os.umask(0))
    assert out.read_text() != "old" and out.stat().st_mode & 0o777 == 0o666 & ~mask


def _no_space(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_rows_are_chosen_in_their_order() -> None:
    rows: list[dict[str, Any]] = [
        {"launch": n, "kernel": f"k{n % 2}", "demangled": f"void k{n % 2}<int>()"} for n in (3, 1, 2)
    ]
    assert [row["launch"] for row in exporting.chosen_rows(rows)] == [3, 1, 2]
    assert [row["launch"] for row in exporting.chosen_rows(rows, (1, 2))] == [1, 2]
    assert [row["launch"] for row in exporting.chosen_rows(rows, (), "k1<int>")] == [3, 1]
    assert exporting.chosen_rows([], (5,), "x") == []


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Three runs: a GEMM, a slower one, and a copy of the first."""
    first, second, copy = frames.gemm(), frames.gemm(), frames.gemm()
    second.key, second.run = "aaaabbbbccccdddd", frames._run("slower", first.run.manifest)
    copy.run = frames._run("copy")
    opened = frames.store(tmp_path, [first, second, copy])
    monkeypatch.setattr(report_store, "ReportStore", lambda paths: opened)
    monkeypatch.setattr(exporting, "find_runs", list)
    monkeypatch.setattr(exporting, "require_paths", lambda paths: None)
    return first.run.path, second.run.path, Path(opened.duplicates()[0].where)


def test_launches_that_belong_together_are_compared(pair: tuple[Path, Path, Path], tmp_path: Path) -> None:
    told = ncubble.export(pair[:2], tmp_path / "out.html", launches=[0], compare=True)
    assert list(told.launches) == ["0123456789abcdef/0", "aaaabbbbccccdddd/0"]
    text = (tmp_path / "out.html").read_text()
    assert "all differences are relative to A" in text and 'class="markdown-text"' in text and "use as A" not in text
    both = ncubble.export(pair[:2], tmp_path / "both.html", compare=True)
    assert len(both.launches) == 4 and "2 comparisons" in (tmp_path / "both.html").read_text()


def test_sides_without_a_launch_of_their_own_are_no_comparison(pair: tuple[Path, ...], tmp_path: Path) -> None:
    for other, said in (
        (pair[2], "same content as"),
        (pair[0], "already on another side"),
        (tmp_path, "no launch to compare"),
    ):
        with pytest.raises(UsageError, match=said):
            ncubble.export([pair[0], other], tmp_path / "out.html", compare=True)
    with pytest.raises(UsageError, match="no path: a comparison needs two sides"):
        ncubble.export([], tmp_path / "out.html", compare=True)


def test_more_sides_than_a_comparison_holds_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(9)]
    with pytest.raises(UsageError, match="9 sides, but a comparison takes at most 8") as error:
        exporting.comparisons(frames.store(tmp_path), [], paths)
    assert error.value.exit_code == 2


def test_files_name_runs_by_the_end_of_their_paths(
    pair: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = report_store.ReportStore([])
    assert opened.wait(60) or opened.start().wait(60)
    folder = "/home/somebody/private"
    rows = [{**row, "path": f"{folder}/runs/{Path(row['path']).name}"} for row in opened.rows()]
    monkeypatch.setattr(opened, "rows", lambda: rows)
    lines = [html.P(f"{row['path']}, launch 0", title=row["path"]) for row in opened.rows()]
    monkeypatch.setattr(export_page.kernel, "layout", lambda store, entry: html.Div([*lines, html.Div(id="late")]))
    late = Panel("Late", lambda view: html.B(lines[0].children), 0)
    monkeypatch.setattr(export_page.kernel, "PANELS", {"late": late})
    monkeypatch.setattr(export_page.compare, "layout", lambda store, search: html.Div(lines))
    problems = [f"{opened.rows()[0]['path']}/report.ncu-rep: cut short"]
    one = export_page.launches_file(opened, opened.rows()[:1], problems).text
    two = export_page.comparisons_file(opened, [("gemm", CompareAddress((opened.rows()[0]["id"],)))]).text
    name = f"runs/{Path(opened.rows()[0]['path']).name}"
    for text in (one, two):
        assert folder not in text and f'title="{name}"' in text and f">{name}, launch 0" in text
    assert f"<b>{name}, launch 0</b>" in one and f"{name}/report.ncu-rep: cut short" in one


def test_a_path_below_another_keeps_its_own_name() -> None:
    rename = renamer(["/a/b/c", "/a/b/c/d/e", "x/y", "one"])
    assert rename("/a/b/c/d/e and /a/b/c/f, x/y") == "d/e and b/c/f, x/y"
    assert renamer(["/x/y&z/q<"])('title="/x/y&amp;z/q&lt;"') == 'title="y&amp;z/q&lt;"'
    assert (
        renamer(["/home/me/tri_ton/a_b"])("in /home/me/tri&amp;#95;ton/a&amp;#95;b") == "in tri&amp;#95;ton/a&amp;#95;b"
    )
