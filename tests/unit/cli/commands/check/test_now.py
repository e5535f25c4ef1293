"""``ncubble check`` measures and judges in one go: ``--profile KERNEL``, ``--profile-all``, ``--
CMD``."""

import json
from pathlib import Path

import pytest

from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.baseline import record
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.cli.commands.check import now as gate_now
from ncubble.cli.commands.check.now import CheckInputs, check_request, take
from ncubble.cli.commands.check.options import Measuring
from ncubble.cli.main import main
from ncubble.errors import UsageError
from ncubble.profiling.failures import CounterPermissionError, NcuMissingError, NoGpuError, ProgramFailedError
from tests.helpers.gate_frames import gemm, groups, report
from tests.helpers.played_runs import SPEED, Player

SMALL = {"m": 256, "n": 256, "k": 256}


@pytest.fixture
def player(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gate_now, "_device", lambda: "NVIDIA H200")
    return Player({**gemm(), "shape": SMALL}).install(monkeypatch)


def baseline(stages=3, **more):
    facts = {**gemm(stages), "shape": SMALL, **more}
    return record(groups(report(kernel=facts, key=json.dumps(facts))), "2026-11-20T12:00:00+00:00")[0]


def store(*baselines):
    baseline_file.save((Path("baselines") / item.place, item) for item in baselines)


def run(capsys, *argv):
    with pytest.raises(SystemExit) as ended:
        main(["check", *argv])
    output = capsys.readouterr()
    return ended.value.code or 0, output.out, output.err


KERNEL = ("--profile", "tensor_core_gemm", "-p", "stages=3", "--shape", "m=256,n=256,k=256")


def test_a_kernel_is_measured_and_judged_and_its_run_kept(capsys, player):
    store(baseline())
    Path(SPEED).write_text("0.95")
    code, out, err = run(capsys, *KERNEL, "--json")
    answer = json.loads(out)
    assert (code, answer["kernels"][0]["verdict"]) == (1, "regressed")
    (kept,) = Path("runs").iterdir()
    assert kept.name.startswith("tensor_core_gemm-stages3-m256-n256-k256-20") and str(kept) in err
    (request,) = player.requests
    assert request.program[-6:] == ["--launches", "5", "-p", "stages=3", "--shape", "m=256,n=256,k=256"]
    assert request.sets == ("pipeline", "timeline", "source")
    assert request.filters.kernel == "tensor_core_gemm"
    assert Path("checks/history.jsonl").is_file()


def test_a_folder_that_is_called_like_a_kernel_is_not_read_instead(capsys, player):
    store(baseline())
    Path("tensor_core_gemm").mkdir()
    assert run(capsys, *KERNEL, "--no-history")[0] == 0
    assert len(player.requests) == 1
    Path("tensor_core_gemm").rmdir()
    code, _, err = run(capsys, "tensor_core_gemm")
    assert code == 2
    assert "`ncubble check --profile tensor_core_gemm`" in err
    assert len(player.requests) == 1


def test_rounds_are_processes_and_runs_of_their_own(player):
    asked = Measuring(profile=True, parameters=("stages=3",), rounds=3, repeat=2, quick=True, out=Path("here"))
    taken = take(asked, [Path("tensor_core_gemm")], "", [])
    assert taken.paths == [Path("here/1"), Path("here/2"), Path("here/3")]
    assert all(request.sets == ("tensor", "dram") for request in player.requests)
    assert all(request.program[7:9] == ["--launches", "2"] for request in player.requests)
    assert taken.options(CheckOptions()) == CheckOptions()


def test_several_kernels_have_a_folder_each(player):
    names = [Path("tensor_core_gemm"), Path("gemm_tma")]
    assert take(Measuring(profile=True, out=Path("o")), names, "", []).paths == [
        Path("o/tensor_core_gemm"),
        Path("o/gemm_tma"),
    ]


def test_a_program_is_measured_with_its_filters(capsys, player):
    store(baseline())
    argv = ("--kernel", "^gemm$", "--skip", "1", "--count", "5", "--nvtx", "step/", "--set", "tensor")
    code, _, _ = run(capsys, *argv, "--timeout", "9", "--no-history", "--", "true", "--profile", "-p", "x")
    assert code == 0
    (request,) = player.requests
    assert request.program == ["true", "--profile", "-p", "x"]
    assert (request.filters.kernel, request.filters.nvtx, request.filters.skip, request.filters.count) == (
        "^gemm$",
        "step/",
        1,
        5,
    )
    assert (request.sets, request.timeout_s) == (("tensor",), 9.0)


def test_all_kernels_with_a_baseline_are_measured(player):
    foreign = record(groups(report(kernel={}, key="foreign")), "2026-11-20T12:00:00+00:00")[0]
    known = [baseline(2), baseline(3), foreign]
    taken = take(Measuring(profile_all=True), [Path("more")], "", known)
    assert [request.program[-4:] for request in player.requests] == [
        ["-p", f"stages={stages}", "--shape", "m=256,n=256,k=256"] for stages in (2, 3)
    ]
    assert taken.paths[0] == Path("more") and len(taken.paths) == 3
    assert taken.options(CheckOptions()).require_all
    assert "gemm grid 32,32,1 block 256,1,1: no kernel of the catalog" in " ".join(taken.notes)
    assert take(Measuring(profile_all=True), [], "stages=2", known).baselines == known[:1]


def test_two_checks_of_one_second_take_two_folders(tmp_path):
    assert gate_now.fresh(tmp_path / "run") == tmp_path / "run"
    for name in ("run", "run-2"):
        (tmp_path / name).mkdir()
    assert gate_now.fresh(tmp_path / "run") == tmp_path / "run-3"


def test_one_kernel_that_fails_hides_no_other(capsys, player):
    store(baseline(2), baseline(3))
    player.answers[0] = ProgramFailedError(3, ["no"])
    code, out, _ = run(capsys, "--profile-all", "--json", "--no-history")
    answer = json.loads(out)
    assert code == 3
    assert {kernel["label"].split()[1]: kernel["verdict"] for kernel in answer["kernels"]} == {
        "stages=2": "nothing_measured",
        "stages=3": "pass",
    }
    assert "exit code 3" in answer["errors"][0]["error"]


def test_what_fails_for_all_ends_the_check_and_leaves_nothing(player):
    player.answers[1] = CounterPermissionError()
    with pytest.raises(CounterPermissionError):
        take(Measuring(profile_all=True), [], "", [baseline(2), baseline(3)])
    assert not list(Path("runs").glob("*"))


def test_without_a_gpu_or_its_baselines_that_is_said(player, monkeypatch):
    with pytest.raises(UsageError, match="no baseline of NVIDIA H200"):
        take(Measuring(profile_all=True), [], "stages=9", [baseline()])
    monkeypatch.undo()
    with pytest.raises((NoGpuError, NcuMissingError)):
        take(Measuring(profile_all=True), [], "", [baseline()])


@pytest.mark.parametrize(
    ("names", "asked", "says"),
    [
        ([], {}, "nothing to check"),
        (["runs"], {"repeat": 3}, "--repeat is for what is measured now"),
        (["runs"], {"out": Path("x")}, "--out is for what is measured now"),
        ([], {"profile": True}, "either kernels of the catalog or a program"),
        (["x"], {"profile": True, "program": ["true"]}, "either kernels of the catalog or a program"),
        ([], {"program": ["true"], "parameters": ("a=1",)}, "-p is for kernels of the catalog"),
        (["x"], {"profile": True, "quick": True, "sets": ("tensor",)}, "--quick and --set"),
        (["x"], {"profile": True, "build": "make"}, "--build is for --against"),
        (["x"], {"profile": True, "skip_same": True}, "--skip-same is for --against"),
        (["x"], {"profile": True, "profile_all": True}, "--profile and --profile-all"),
        ([], {"profile_all": True, "shape": "m=1"}, "--shape does not go with --profile-all"),
        ([], {"profile_all": True, "program": ["true"]}, "does not go with --profile-all"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(names, asked, says):
    with pytest.raises(UsageError) as refused:
        check_request(Measuring(**asked), [Path(name) for name in names])
    assert says in refused.value.message and refused.value.remedy


@pytest.mark.parametrize(
    ("names", "asked", "says"),
    [
        (["nowhere"], {"profile": True}, "there is no kernel 'nowhere'"),
        (["tensor_core_gemm"], {"profile": True, "parameters": ("stages=99",)}, "stages=99"),
        ([], {"program": ["./none"]}, "no such program: './none'"),
        ([], {"program": []}, "no program is named"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(player, names, asked, says):
    with pytest.raises(UsageError) as refused:
        take(Measuring(**asked), [Path(name) for name in names], "", [])
    assert says in refused.value.message
    with pytest.raises(UsageError, match="not a regular expression"):
        take(Measuring(**asked), [Path(name) for name in names], "(", [])
    assert player.requests == [] and not Path("runs").exists()


def test_a_filter_of_measured_launches_hides_no_kernel_of_the_other_side():
    asked = CheckOptions(kernel="^gemm$")
    assert CheckInputs([], baselines=[]).options(asked).kernel == ""
    assert CheckInputs([Path("runs")], "^gemm$").options(asked).kernel == "^gemm$"
