"""What a check prints and writes: JSON, JUnit, Markdown, and the commands around them."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from ncubble.analysis.gate import annotations
from ncubble.analysis.gate import output as gate_output
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
from ncubble.analysis.report.report import ReportFailure
from ncubble.cli import gate as gate_render
from ncubble.cli.main import main
from ncubble.errors import ReportError
from tests.helpers.gate_frames import FakeReport, gemm, groups, recorded, report

HOSTILE = "x|y`<script>alert(1)</script>[a](http://h)@all\x1b[31m\x00\n*b*[red]\u202e"


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314


def result_of(name: str = "tensor_core_gemm", errors: Any = ()) -> GateResult:
    slow, lost = gemm(1, name=name), gemm(9, name=name)
    base = recorded(report(kernel=gemm(name=name)), report(kernel=slow))
    now = [report(kernel=gemm(name=name)), report([40.0] * 5, kernel=slow), report(kernel=lost)]
    return check(groups(*now), base, CheckOptions(), errors)


def test_json_holds_the_numbers_behind_each_verdict() -> None:
    found = json.loads(json.dumps(gate_output.as_json(result_of(errors=[("f", "bad")])), allow_nan=False))
    assert (found["schema"], found["verdict"], found["exit_code"]) == (1, "regressed", 1)
    assert found["counts"] == {"pass": 1, "regressed": 1, "not_comparable": 1}
    assert found["errors"] == [{"file": "f", "error": "bad"}]
    metric = found["kernels"][1]["metrics"][0]
    assert (metric["name"], metric["verdict"], metric["now"]["n"]) == ("tensor_elapsed_pct", "regressed", 5)
    assert metric["change_pct"] == pytest.approx(-metric["loss_pct"]) == pytest.approx(-6.98, abs=0.01)
    assert 0.5 <= metric["decision_pct"] < metric["detectable_pct"]


def test_junit_counts_failures_and_errors() -> None:
    suite = parsed(gate_output.junit(result_of(errors=[("f.ncu-rep", "bad")]))).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "6",
        "failures": "1",
        "errors": "2",
    }
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "43 -> 40 %" in failure.get("message", "")


def test_junit_of_nothing_is_an_error_not_an_empty_success() -> None:
    suite = parsed(gate_output.junit(GateResult(()))).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")


def test_hostile_names_stay_text_everywhere() -> None:
    result = result_of(HOSTILE, [(HOSTILE, HOSTILE)])
    names = {case.get("classname") for case in parsed(gate_output.junit(result)).iter("testcase")}
    assert any("<script>" in str(name) and "\x00" not in str(name) for name in names)
    text = gate_output.markdown(result)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {8}
    for forbidden in ("<script", "](", "@all", "\x1b", "*b*", "\u202e", "`"):
        assert forbidden not in text
    console = Console(record=True, width=200, force_terminal=True, file=io.StringIO())
    gate_render.print_result(result, console)
    shown = console.export_text()
    assert "[red]" in shown
    assert "\x1b[31m" not in shown


def test_markdown_says_verdict_reason_and_numbers() -> None:
    text = gate_output.markdown(result_of())
    assert text.startswith(gate_output.MARKDOWN_MARK)
    assert "failed&#58; regression" in text
    assert "**regressed**" in text
    assert "no baseline for this kernel" in text


def test_many_kernels_without_a_baseline_are_one_line_for_people_and_all_in_json() -> None:
    lost = [report(kernel=gemm(stages)) for stages in (1, 2, 4, 5, 6)]
    result = check(groups(report(), *lost), recorded(), CheckOptions())
    console = Console(record=True, width=200, file=io.StringIO())
    gate_render.print_result(result, console)
    for text in (console.export_text(), gate_output.markdown(result)):
        assert text.count("no baseline") == 1
        assert "5 kernels have no baseline" in text and "and 2 more" in text
        assert "stages=2" in text and "stages=5" not in text
    assert len(gate_output.as_json(result)["kernels"]) == 6
    few = check(groups(report(), *lost[:3]), recorded(), CheckOptions())
    assert gate_output.markdown(few).count("no baseline") == 3
    damaged = check(groups(*lost), [], CheckOptions(), [("b.json", "damaged")])
    assert "no baseline among what could be read" in gate_output.markdown(damaged)


class Commands:
    """The command line over made-up reports: a path ``name`` opens the report of that name, another
    one each time."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.reports: dict[str, FakeReport] = {"good": report(), "bad": report([40.0] * 5)}
        self.capsys, self.opened = capsys, itertools.count()
        patch.chdir(folder)
        patch.setattr("ncubble.analysis.report.report.open_reports", self.open)

    def open(self, paths: list[Path], progress: Any = None, **_: Any) -> tuple[list[FakeReport], list[ReportFailure]]:
        failures = [ReportFailure(path, ReportError("damaged")) for path in paths if str(path) not in self.reports]
        found = [self.reports[str(path)] for path in paths if str(path) in self.reports]
        return [self._anew(one) for one in found], failures

    def _anew(self, one: FakeReport) -> FakeReport:
        again = next(self.opened)
        launches = one.launches.assign(sm_clock_hz=one.launches["sm_clock_hz"] + again)
        return dataclasses.replace(one, key=f"{one.key} {again}", launches=launches)

    def __call__(self, *argv: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(list(argv))
        out, err = self.capsys.readouterr()
        code = caught.value.code
        assert code is None or isinstance(code, int)
        return code or 0, out, err


@pytest.fixture
def ncubble(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)


def test_record_show_and_check(ncubble: Commands) -> None:
    code, out, err = ncubble("baseline", "good")
    assert (code, "recorded in baselines/nvidia-h200:\n  tensor_core_gemm stages=3" in out) == (0, True), err
    code, out, _ = ncubble("baseline")
    assert (code, "43 ± 0.09 %" in out) == (0, True), out
    code, out, _ = ncubble("check", "good")
    assert (code, "gate passed (1 kernel checked)" in out) == (0, True), out
    code, out, _ = ncubble("check", "bad", "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "regressed")
    assert ncubble("check", "good", "damaged")[0] == 3


def test_baselines_fit_a_narrow_terminal(ncubble: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    label = next(iter(recorded())).key.label
    noisy = report([43.0, 45.0, 41.0, 44.0, 42.0])
    ncubble.reports["good"] = noisy
    _, out, err = ncubble("baseline", "good")
    assert label in out
    assert f"warning: {label}" in err
    _, shown, _ = ncubble("baseline")
    assert label in shown
    assert "43 ± 3.68 %" in shown
    assert max(map(len, [*out.splitlines(), *err.splitlines(), *shown.splitlines()])) <= 80


def test_outputs_are_written_and_only_their_own_kind_is_replaced(ncubble: Commands) -> None:
    ncubble("baseline", "good")
    argv = ("check", "bad", "--junit", "out/j.xml", "--markdown", "m.md")
    assert ncubble(*argv)[0] == 1
    assert ncubble(*argv)[0] == 1
    assert parsed(Path("out/j.xml").read_text()).tag == "testsuites"
    Path("m.md").write_text("# notes of mine\n")
    code, _, err = ncubble(*argv)
    assert (code, "m.md" in err, Path("m.md").read_text()) == (2, True, "# notes of mine\n")


def test_recording_refuses_damaged_reports_and_existing_baselines(ncubble: Commands) -> None:
    code, _, err = ncubble("baseline", "good", "broken")
    assert (code, "broken: damaged" in err, Path("baselines").exists()) == (3, True, False)
    assert ncubble("baseline", "good")[0] == 0
    assert ncubble("baseline", "good")[0] == 2
    assert ncubble("baseline", "good", "--force")[0] == 0


def test_a_broken_baseline_file_is_no_pass(ncubble: Commands) -> None:
    ncubble("baseline", "good")
    Path("baselines/half.json").write_text('{"schema": 1,')
    code, out, _ = ncubble("check", "good")
    assert (code, "half.json" in out) == (3, True), out
    code, _, err = ncubble("baseline")
    assert (code, "half.json" in err) == (3, True)


@pytest.mark.parametrize(
    "argv",
    [
        ("check", "good"),
        ("check", "good", "--baseline", "none.json"),
        ("check", "good", "--kernel", "("),
        ("check", "good", "--rule", "speed 1%"),
        ("check", "good", "--baseline", ".", "--junit", "out", "--markdown", "./out"),
        ("baseline", "good", "--setting", "min_repeats=1"),
        ("baseline",),
    ],
)
def test_wrong_requests_are_usage_errors(ncubble: Commands, argv: tuple[str, ...]) -> None:
    code, out, err = ncubble(*argv)
    assert (code, out) == (2, "")
    assert "remedy:" in err


def test_one_file_can_be_written_and_named(ncubble: Commands) -> None:
    assert ncubble("baseline", "good", "-o", "gemm.json")[0] == 0
    ncubble.reports["shallow"] = report([33.0] * 5, kernel=gemm(1))
    assert ncubble("check", "shallow", "--baseline", "gemm.json")[0] == 1
    ncubble.reports["two"] = report([43.0] * 10, [5e5] * 10, grid=["1,1,1"] * 5 + ["2,1,1"] * 5)
    code, _, err = ncubble("baseline", "two", "-o", "two.json")
    assert (code, "one file cannot hold 2" in err) == (2, True)


def test_a_filter_that_leaves_nothing_measures_nothing(ncubble: Commands) -> None:
    ncubble("baseline", "good")
    code, out, _ = ncubble("check", "good", "--kernel", "softmax")
    assert (code, "nothing measured" in out) == (3, True)


def test_a_name_of_a_megabyte_is_shortened_everywhere() -> None:
    name = f"gemm<{'A' * (1 << 20)}>"
    result = check(groups(report(kernel={"name": name, "parameters": {"x": "y"}})), recorded(), CheckOptions())
    console = Console(record=True, width=200, file=io.StringIO())
    gate_render.print_result(result, console)
    outputs = [
        console.export_text(),
        gate_output.markdown(result),
        gate_output.junit(result),
        annotations.sarif(result),
    ]
    assert max(map(len, [*outputs, *annotations.marks(result), json.dumps(gate_output.as_json(result))])) < 10_000
