"""Gated tests as pytest users meet them: what passes, what fails and why, and that nothing
unmeasured ever passes.

ncu is played, in the process (``played``) or as a program (tests/data/played_ncu.py); the reports
were recorded.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import zstandard

# Imported here and not in the inner sessions, which forget what they imported: numpy loads only
# once a process.
from ncubble.analysis.gate.history import read
from ncubble.chips import Version
from ncubble.cli.pytest_plugin import gated
from ncubble.cli.pytest_plugin.gated import MeasurePlan
from ncubble.cli.pytest_plugin.result import Gate
from ncubble.profiling import driver as device
from ncubble.profiling import (
    failures,
    provenance,  # noqa: F401
)
from ncubble.profiling.runs import Run
from tests.helpers.damaged_reports import doubled_report
from tests.helpers.fake_machine import install

pytest_plugins = ["pytester"]
DATA = Path(__file__).parents[3] / "data"
RECORDED = Path(__file__).parents[4] / "recordings" / "h200-repeats"
BASELINES = Path(__file__).parents[4] / "baselines"
H200 = device.Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0))
QUIET = ("-p", "no:dash", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
PASSED = [{"when": when, "outcome": "passed", "text": ""} for when in ("setup", "call", "teardown")]
GATED = "import pytest\n@pytest.mark.tensor_util({})\ndef test_gemm():\n    pass\n"


class Played:
    """Stands in for ``gated.record``: leaves a recorded report, and says how the inner test
    ended."""

    def __init__(self) -> None:
        self.report, self.phases, self.error = "stages3", PASSED, None
        self.programs, self.plans, self.orders = [], [], []

    def __call__(self, program, out, plan):
        self.programs.append(program)
        self.plans.append(plan)
        if "ncubble.cli.pytest_plugin.child" in program:
            order = json.loads(Path(program[-2]).read_text())
            self.orders.append(order)
            Path(order["outcome"]).write_text(json.dumps({"phases": self.phases, "notes": []}))
        if self.error is not None:
            raise self.error
        out.mkdir()
        shutil.copy(RECORDED / "tensor_core_gemm" / self.report / "report.ncu-repz", out)
        return Run.load(out)


@pytest.fixture
def played(monkeypatch) -> Played:
    monkeypatch.delenv("NCUBBLE_REQUIRE_GPU", raising=False)
    monkeypatch.setattr(device, "describe", lambda: H200)
    player = Played()
    monkeypatch.setattr(gated, "record", player)
    return player


@pytest.fixture(name="gated")
def _gated(pytester, played):
    """Runs a session over one test whose marker has the given options."""

    def _run(options: str, *arguments: str, source: str = GATED):
        pytester.makepyfile(test_it=source.format(options))
        return pytester.runpytest_inprocess(*QUIET, *arguments)

    return _run


def said(result) -> str:
    return result.stdout.str() + result.stderr.str()


def failed(result) -> str:
    """What the session of one test said that failed."""
    result.assert_outcomes(failed=1)
    return said(result)


def of_another_run(folder: Path) -> None:
    """Baselines of the played report as if they were of other launches: the very same ones prove
    nothing."""
    for file in folder.rglob("*.json"):
        raw = json.loads(file.read_text())
        for number, one in enumerate(raw["reports"]):
            one["key"] = f"{number:016x}"
        raw["launches"]["sm_clock_hz"] = [clock + 1.0 for clock in raw["launches"]["sm_clock_hz"]]
        file.write_text(json.dumps(raw))


def test_the_tensor_pipe_is_busy_enough(gated, played):
    result = gated("min=40, kernel='gemm', repeats=7, sets=['tensor']")
    result.assert_outcomes(passed=1)
    line = "test_it.py::test_gemm: pass: tensor_core_gemm grid 32,32,1 block 256,1,1: tensor 45.0 %"
    assert f"{line}, tensor_elapsed_pct 44.99 (limit tensor_elapsed_pct >= 40), 5 launches" in said(result)
    assert (played.plans[0].filters.kernel, played.plans[0].filters.window) == ("gemm", True)
    assert (played.orders[0]["repeats"], played.orders[0]["warmup"], played.orders[0]["window"]) == (7, 1, True)
    assert played.plans[0].metric_sets == ("tensor",)


@pytest.fixture
def doubled(tmp_path, played) -> None:
    """The played report holds its last launch twice: it is suspicious as a whole."""
    played.report = tmp_path  # beside the recordings
    twice = doubled_report(RECORDED / "tensor_core_gemm" / "stages3")
    (tmp_path / "report.ncu-repz").write_bytes(zstandard.compress(twice))


@pytest.mark.parametrize("options", ["min=10", "rules=['cycles <= 2e6']", "baseline='kept'"])
def test_suspicious_launches_are_not_judged_unless_accepted(gated, doubled, pytester, options):
    (pytester.path / "kept").mkdir()
    text = failed(gated(options))
    assert "are suspicious" in failed(gated("baseline='new'", "--ncubble-record"))
    assert not (pytester.path / "new").exists()
    assert "test_gemm: failed: nothing measured: 5 of 5 launches are suspicious" in text
    assert "launch 0: " in text and "are duplicated or out of order" in text and "--ncubble-allow-suspicious" in text
    accepted = said(gated(options, "--ncubble-allow-suspicious"))
    assert "accepted although suspicious: " in accepted and "launch 4: " in accepted
    assert ("1 passed" in accepted) == (options != "baseline='kept'")  # which holds no baseline


def test_a_test_that_judges_by_hand_does_not_get_suspicious_launches(gated, doubled, tmp_path):
    source = "def test_gemm(ncubble):\n    assert ncubble.report({!r}).tensor_elapsed_pct > 10\n"
    path = str(tmp_path / "report.ncu-repz")
    assert "are suspicious" in failed(gated(path, source=source))
    gated(path, "--ncubble-allow-suspicious", source=source).assert_outcomes(passed=1)


def test_a_baseline_is_recorded_kept_and_regressed_from(gated, played, pytester):
    gated("min=10, baseline='kept'", "--ncubble-record").assert_outcomes(passed=1)
    (file,) = pytester.path.glob("kept/nvidia-h200/*.json")
    result = gated("baseline='kept'")
    result.assert_outcomes(failed=1)
    assert "recorded from these launches" in said(result)
    of_another_run(pytester.path / "kept")
    result = gated("baseline='kept'", "--ncubble-history=hist", "--junitxml=out.xml")
    result.assert_outcomes(passed=1)
    assert "tensor_elapsed_pct +0.00 % from 44.99" in said(result)
    (kept,) = read(pytester.path / "hist").checks
    assert (kept.verdict, kept.paths) == ("pass", ("test_it.py::test_gemm",))
    xml = (pytester.path / "out.xml").read_text()
    assert '<property name="ncubble_verdict" value="pass" />' in xml
    assert 'name="tensor_elapsed_pct[tensor_core_gemm grid 32,32,1 block 256,1,1]" value="44.9' in xml
    played.report = "stages1"
    for place in ("kept", file.relative_to(pytester.path)):
        result = gated(f"baseline={str(place)!r}")
        result.assert_outcomes(failed=1)
        assert "-22.81 %" in said(result)
        assert "regressed" in said(result)


def test_a_baseline_is_only_replaced_by_force_and_never_one_of_this_session(gated, played, pytester):
    apart = GATED.replace("def test_gemm():", "@pytest.mark.parametrize('stages', [3, 4])\ndef test_gemm(stages):")
    gated("baseline='apart/{test}'", "--ncubble-record", source=apart).assert_outcomes(passed=2)
    assert sorted(path.name for path in (pytester.path / "apart").iterdir()) == ["test-gemm-3", "test-gemm-4"]
    two = GATED + "test_again = test_gemm\n"
    result = gated("baseline='kept'", "--ncubble-record", source=two)
    result.assert_outcomes(passed=1, failed=1)
    assert "another test of this session recorded the same baseline" in said(result)
    result = gated("baseline='kept'", "--ncubble-record")
    result.assert_outcomes(failed=1)
    assert "nothing recorded: would overwrite" in said(result)
    played.report = "stages1"
    gated("baseline='kept'", "--ncubble-record", "--ncubble-force").assert_outcomes(passed=1)
    of_another_run(pytester.path / "kept")
    gated("baseline='kept'").assert_outcomes(passed=1)


def test_a_failed_test_records_nothing(gated, played, pytester):
    text = failed(gated("baseline='kept', min=45.5", "--ncubble-record"))
    assert "tensor_elapsed_pct is 44.99, below the limit 'tensor_elapsed_pct >= 45.5' (5 launches, 44.93" in text
    failed(gated("baseline='kept', rules=['cycles <= 8e5', 'cycles 3%']", "--ncubble-record"))
    played.phases = [PASSED[0], {"when": "call", "outcome": "failed", "text": "assert 1 == 2"}, PASSED[2]]
    played.error = failures.ProgramFailedError(1, [])
    result = gated("baseline='kept'", "--ncubble-record")
    result.assert_outcomes(failed=1)
    assert "the test failed under ncu (call):\nassert 1 == 2" in said(result)
    assert not (pytester.path / "kept").exists()


WRONG = {
    "": "it could never fail",
    "50": "50 has no name",
    "minimum=50": "unknown option minimum",
    "min='50'": "min='50': not a percentage",
    "min=float('nan')": "min=nan: not a percentage",
    "min=50, repeats=0": "repeats=0",
    "min=50, kernel='('": "not a regular expression",
    "min=50, sets='tensor'": "sets='tensor': a single string",
    "min=50, scope='test'": "scope='test'",
    "min=50, rules={'cycles': 3}": "rules= 'cycles 3%': a baseline is needed, but none is given",
    "rules=['data_wait <= 10', 'data_wait +2', 'cycles off']": "rules= 'data_wait +2', 'cycles off': a baseline",
    "baseline='.', rules={'speed': 3}": "there is no metric or account part called 'speed'",
    "baseline='nowhere'": "no such baseline file or folder",
}


def test_a_marker_that_asks_for_nothing_sensible_fails_before_anything_runs(gated, played):
    tests = [
        f"@pytest.mark.tensor_util({options})\ndef test_{number}():\n    pass\n" for number, options in enumerate(WRONG)
    ]
    result = gated("".join(tests), source="import pytest\n{}")
    result.assert_outcomes(failed=len(WRONG))
    lines = [line for line in said(result).splitlines() if line.startswith("test_it.py::test_")]
    assert [line for line, says in zip(lines, WRONG.values(), strict=True) if says not in line] == []
    assert played.programs == []


def test_absolute_limits_need_no_baseline(gated, played, pytester):
    result = gated("rules=['cycles <= 2e6', 'tensor_elapsed_pct >= 40']", "--ncubble-history=hist")
    result.assert_outcomes(passed=1)
    assert "cycles 847,496 (limit cycles <= 2000000), tensor_elapsed_pct 44.99 (limit" in said(result)
    assert not (pytester.path / "hist").exists()
    result = gated("min=40, rules=['cycles <= 8e5', 'tensor_elapsed_pct >= 40']")
    result.assert_outcomes(failed=1)
    assert "test_gemm: limit broken: tensor_core_gemm" in said(result) and "above the limit 'cycles <= 8" in said(
        result
    )


def test_a_limit_that_nothing_was_measured_for_fails(gated):
    result = gated("rules=['data_wait <= 99']")  # the report holds no samples: no account
    result.assert_outcomes(failed=1)
    assert "nothing measured: tensor_core_gemm" in said(result) and "profile with the default sets" in said(result)


def test_limits_of_the_project_hold_and_those_of_the_test_come_last(gated, pytester):
    (pytester.path / ".git").mkdir()
    table = pytester.path / "pyproject.toml"
    table.write_text("[tool.ncubble.gate]\nrules = ['cycles <= 8e5']\n")
    assert "above the limit 'cycles <= 800000'" in failed(gated("min=40"))
    gated("min=40, rules=['cycles <= 9e5']").assert_outcomes(passed=1)
    gated("min=40", "--ncubble-no-config").assert_outcomes(passed=1)
    assert "above the limit" in failed(gated("baseline='kept'", "--ncubble-record"))
    table.write_text(
        "[[tool.ncubble.gate.kernels]]\nmatch = 'tensor_core'\nrules = ['data_wait +2', 'cycles <= 9e5']\n"
    )
    result = gated("min=40")  # growth needs a baseline: it waits for one
    result.assert_outcomes(passed=1)
    assert "limit cycles <= 900000" in said(result)
    table.write_text("[[tool.ncubble.gate.kernels]]\nmatch = 'softmax'\nrules = ['cycles <= 8e5']\n")
    result = gated("min=40")
    result.assert_outcomes(passed=1)
    assert "softmax" not in said(result)


def test_a_wrong_table_of_the_project_fails_before_anything_is_measured(gated, played, pytester):
    (pytester.path / ".git").mkdir()
    (pytester.path / "pyproject.toml").write_text("[tool.ncubble.gate]\nrule = ['cycles <= 8e5']\n")
    assert "unknown key 'rule'; nearest: rules" in failed(gated("min=40"))
    assert played.programs == []


def test_a_renamed_kernel_fails_and_what_ran_is_listed(gated, played):
    played.error = failures.NoKernelError("kernel", ["gemm_v2"])
    result = gated("min=40, kernel='^gemm$'")
    result.assert_outcomes(failed=1)
    assert "no kernel that matches kernel='^gemm$' was launched inside the test's call; these ran: gemm_v2" in said(
        result
    )


@pytest.mark.parametrize(
    "error",
    [
        failures.NcuMissingError("ncu was not found", "install it, and put it on PATH"),
        failures.CounterPermissionError(),
    ],
    ids=repr,
)
def test_where_measuring_fails_the_test_fails_with_the_remedy(gated, played, error):
    played.error, played.phases = error, []
    result = gated("min=40")
    result.assert_outcomes(failed=1)
    assert f"nothing measured: {error.message}" in said(result)
    assert error.remedy[:40] in said(result)


@pytest.mark.parametrize(
    ("outcome", "counts"), [("skipped", {"skipped": 1}), ("xfailed", {"xfailed": 1}), ("passed", {"passed": 1})]
)
def test_the_inner_test_says_how_it_ended(gated, played, outcome, counts):
    played.phases = []
    assert "not found in the process" in failed(gated("min=40"))
    played.phases = [PASSED[0], {"when": "call", "outcome": outcome, "text": "as it says"}, PASSED[2]]
    gated("min=40").assert_outcomes(**counts)


def test_a_machine_without_a_gpu_skips_or_fails_as_it_is_told(gated, played, monkeypatch):
    def none():
        raise device.DriverError("no NVIDIA driver")

    monkeypatch.setattr(device, "describe", none)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = gated("min=40")
    result.assert_outcomes(skipped=1)
    assert "test_it.py::test_gemm: skipped: ncubble measured nothing: no GPU (no NVIDIA driver)" in said(result)
    monkeypatch.setenv("NCUBBLE_REQUIRE_GPU", "1")
    result = gated("min=40")
    result.assert_outcomes(failed=1)
    assert "one is required" in said(result)
    assert played.programs == []


def test_marks_of_pytest_hold_as_elsewhere(gated, played):
    marks = (
        "import pytest\npytestmark = [pytest.mark.{}]\n@pytest.mark.tensor_util(min=90)\ndef test_gemm():\n    pass\n"
    )
    gated("xfail(reason='slow')", source=marks).assert_outcomes(xfailed=1)
    assert len(played.programs) == 1
    gated("skipif(True, reason='later')", source=marks).assert_outcomes(skipped=1)
    assert len(played.programs) == 1


FIXTURE = """
import pytest

{}
"""


REFUSED = {
    "profile(print)": "is not an argv",
    "profile('python train.py')": "is not an argv",
    "profile(['prog'], repeat=3)": "unknown option repeat",
    "report('nowhere')": "no such file",
    "catalog('no_such_kernel')": "no_such_kernel",
    "catalog('tensor_core_gemm', parameters={'stages': 99})": "stages=99",
}


def test_what_cannot_be_measured_is_refused(gated, played):
    tests = [
        f"@pytest.mark.tensor_util(min=1)\ndef test_{number}(ncubble):\n    ncubble.{call}\n"
        for number, call in enumerate(REFUSED)
    ]
    result = gated("".join(tests), source=FIXTURE)
    result.assert_outcomes(failed=len(REFUSED))
    lines = [line for line in said(result).splitlines() if line.startswith("test_it.py::test_")]
    assert [line for line, says in zip(lines, REFUSED.values(), strict=True) if says not in line] == []
    assert said(result).partition("short test summary")[0].count("  remedy: ") == len(REFUSED)
    assert played.programs == []


def test_a_program_is_measured_and_held_to_the_marker(gated, played):
    test = "@pytest.mark.tensor_util(min={}, kernel='gemm')\ndef test_it(ncubble):\n    {}"
    body = "result = ncubble.profile(['prog'], repeats=9)\n    assert 44 < result.tensor_elapsed_pct < 46"
    gated(test.format(40, body), source=FIXTURE).assert_outcomes(passed=1)
    assert (played.plans[0].repeats, played.plans[0].kernel) == (9, "gemm")
    result = gated(test.format(60, body), source=FIXTURE)
    result.assert_outcomes(failed=1)
    assert "below the limit 'tensor_elapsed_pct >= 60'" in said(result)
    result = gated(test.format(40, "pass"), source=FIXTURE)
    result.assert_outcomes(failed=1)
    assert "called none of profile, catalog and report" in said(result)


def test_a_program_runs_once_per_repeat(gated, played):
    test = "def test_it(ncubble):\n    assert ncubble.profile(['prog', '-x'], repeats=2).kernel.launches == 5"
    gated(test, source=FIXTURE).assert_outcomes(passed=1)  # the played runs are one file: it counts once
    assert played.programs == [["prog", "-x"]] * 2
    assert not played.plans[0].filters.window


def test_a_report_needs_no_gpu_and_has_metrics(gated, monkeypatch):
    monkeypatch.setattr(device, "describe", lambda: pytest.fail("asked for a GPU"))
    run, other = RECORDED.parent / "h200" / "tensor_core_gemm" / "stages1", RECORDED / "tensor_core_gemm" / "stages3"
    body = f"""
def test_it(ncubble):
    with pytest.raises(pytest.fail.Exception, match="above the limit 'data_wait <= 20'"):
        ncubble.report({str(run)!r}).assert_tensor_util(rules=["data_wait <= 20"])
    both = ncubble.report({str(run)!r}, {str(other)!r})
    assert [kernel.launches for kernel in both.kernels] == [1, 5]
    both.assert_tensor_util(min=30)
    with pytest.raises(Exception, match="choose one with kernel=REGEX"):
        both.tensor_elapsed_pct
    assert 44 < ncubble.report({str(run)!r}, {str(other)!r}, kernel="stages=3").tensor_elapsed_pct < 46
"""
    gated(body, source=FIXTURE).assert_outcomes(passed=1)


def test_where_no_launch_matches_what_ran_is_listed_and_a_damaged_file_keeps_its_own_remedy(gated, pytester):
    packed = (RECORDED / "tensor_core_gemm" / "stages3" / "report.ncu-repz").read_bytes()
    (pytester.path / "cut.ncu-repz").write_bytes(packed[: len(packed) // 2])
    run = RECORDED / "tensor_core_gemm" / "stages3"
    test = "def test_one(ncubble):\n    ncubble.report({!r}, kernel='^gemm$')\n"
    result = gated(test.format(str(run)), source=FIXTURE)
    assert "no launch matches kernel='^gemm$'; these ran: tensor_core_gemm stages=3" in said(result)
    assert "remedy: correct kernel=" in said(result)
    result = gated(test.format("cut.ncu-repz"), source=FIXTURE)
    assert "nothing measured: " in said(result) and "cut.ncu-repz: " in said(result)
    assert "kernel=" not in said(result).partition("remedy: ")[2]


def test_a_report_is_held_to_the_shipped_baselines_and_to_no_other_gpu(gated, pytester):
    shutil.copytree(BASELINES, pytester.path / "h200")
    file = next((pytester.path / "h200").rglob("tensor-core-gemm-stages-3-copy-async-vec-16-*.json"))
    raw = json.loads(file.read_text())
    (pytester.path / "a100").mkdir()
    (pytester.path / "a100" / "gemm.json").write_text(
        json.dumps(raw | {"device": {**raw["device"], "name": "NVIDIA A100"}})
    )
    (pytester.path / "half.json").write_text(file.read_text()[:300])
    run = RECORDED / "tensor_core_gemm" / "stages3"
    test = "@pytest.mark.tensor_util(baseline={!r})\ndef test_it(ncubble):\n    ncubble.report({!r})"
    gated(test.format("h200", str(run)), source=FIXTURE).assert_outcomes(passed=1)
    for place, says in (("a100", "different GPU"), ("half.json", "half-written")):
        result = gated(test.format(place, str(run)), source=FIXTURE)
        result.assert_outcomes(failed=1)
        assert says in said(result)


CHILDREN = """
import os
import unittest
from pathlib import Path
import pytest

def launch(name="tensor_core_gemm"):
    with open(os.environ["PLAYED_LAUNCHES"], "a") as file:
        file.write(name + "\\n")

class TestModel:
    calls = 0

    @pytest.fixture(autouse=True)
    def _model(self):
        yield
        Path("calls").write_text(f"{TestModel.calls}")

    @pytest.mark.tensor_util(min=40, kernel="gemm", sets=["tensor"], repeats=3, warmup=2)
    @pytest.mark.parametrize("x", ["a::b/[c] ü % 'q'"])
    def test_step(self, x, tmp_path):
        (tmp_path / "file").write_text(x)
        TestModel.calls += 1
        launch()

class TestCase(unittest.TestCase):
    @pytest.mark.tensor_util(min=40)
    def test_wrong(self):
        self.assertEqual(launch(), "wrong result")
"""

CONFTEST = """
import os
from ncubble.profiling import driver as device; from ncubble.profiling import session
from ncubble.chips import Version

worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if not os.environ["PLAYED_LAUNCHES"].endswith(worker):
    os.environ["PLAYED_LAUNCHES"] += worker
h200 = device.Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0))
device.describe = session.describe = lambda: h200
"""


def test_bodies_run_in_processes_under_ncu_also_of_two_workers(pytester, monkeypatch):
    install(monkeypatch, pytester.path, "played_ncu", " -SE")
    report = pytester.path / "recorded.ncu-rep"
    packed = (RECORDED / "tensor_core_gemm" / "stages3" / "report.ncu-repz").read_bytes()
    report.write_bytes(zstandard.ZstdDecompressor().stream_reader(packed).read())
    monkeypatch.setenv("PLAYED_REPORT", str(report))
    monkeypatch.setenv("PLAYED_LAUNCHES", str(pytester.path / "launches"))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=CHILDREN)
    result = pytester.runpytest_inprocess(*QUIET, "-n", "2", "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=1)
    assert (pytester.path / "calls").read_text() == "5"
    assert "pass: tensor_core_gemm grid 32,32,1 block 256,1,1: tensor 45.0 %, tensor_elapsed_pct 44.99 (limit" in said(
        result
    )
    assert "the test failed under ncu (call):" in said(result)
    assert "AssertionError: None != 'wrong result'" in said(result)
    assert (pytester.path / "out.xml").read_text().count("<testcase") == 2


def test_every_option_is_documented(repository):
    text = (repository / "docs" / "pytest.md").read_text()
    plugin = (repository / "cli" / "pytest_plugin" / "plugin.py").read_text()
    wanted = [f"`{name}`" for kind in (MeasurePlan, Gate) for name in kind.__dataclass_fields__]
    wanted += [
        name for name in re.findall(r'"(--ncubble-[a-z-]+|ncubble_[a-z_]+)"', plugin) if name != "ncubble_recorded"
    ]
    assert len(wanted) > 12
    assert [name for name in wanted if name not in text] == []
