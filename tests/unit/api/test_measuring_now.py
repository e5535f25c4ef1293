"""``ncubble check`` measures and judges in one go: ``--profile KERNEL``, ``--profile-all``, ``--
CMD``."""

import json
from pathlib import Path

import pytest

from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.baseline import record
from ncubble.analysis.gate.settings import GateSettings
from ncubble.api import measuring
from ncubble.api.measuring import CheckInputs, CheckRequest, measure_now
from ncubble.chips import Version
from ncubble.cli.main import main
from ncubble.errors import UsageError
from ncubble.profiling.driver import Device
from ncubble.profiling.failures import CounterPermissionError, NcuMissingError, NoGpuError, ProgramFailedError
from ncubble.profiling.session import Observer
from tests.helpers.gate_frames import gemm, groups, report
from tests.helpers.played_runs import SPEED, Player

SMALL = {"m": 256, "n": 256, "k": 256}


@pytest.fixture
def player(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gpu = Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0))
    monkeypatch.setattr(measuring, "require_gpu", lambda: gpu)
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


KERNEL = ("--profile", "tensor_core_gemm", "-p", "stages=3", "-p", "m=256,n=256,k=256")


def test_a_kernel_is_measured_and_judged_and_its_run_kept(capsys, player):
    store(baseline())
    Path(SPEED).write_text("0.95")
    code, out, err = run(capsys, *KERNEL, "--json")
    answer = json.loads(out)
    assert (code, answer["kernels"][0]["verdict"]) == (1, "regressed")
    (kept,) = Path("runs").iterdir()
    assert kept.name.startswith("tensor_core_gemm-stages3-m256-n256-k256-20") and str(kept) in err
    (request,) = player.requests
    assert request.program[-6:] == ["--launches", "5", "-p", "stages=3", "-p", "m=256,n=256,k=256"]
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


def take(*names, baselines=(), program=None, **more):
    """What is measured of a request; keys of settings are among ``more``."""
    settings = {key: more.pop(key) for key in list(more) if key in GateSettings.__dataclass_fields__}
    asked = {"profile": program is None, "program": program, **more}
    request = CheckRequest(tuple(map(Path, names)), GateSettings(**settings), **asked)
    request.validate()
    return measure_now(request, list(baselines), Observer())


def test_rounds_are_processes_and_runs_of_their_own(player):
    small = {"rounds": 3, "repeats": 2, "sets": ("tensor", "dram")}
    taken = take("tensor_core_gemm", of_kernel=("stages=3",), out=Path("here"), **small)
    assert taken.paths == [Path("here/1"), Path("here/2"), Path("here/3")]
    assert all(request.sets == ("tensor", "dram") for request in player.requests)
    assert all(request.program[7:9] == ["--launches", "2"] for request in player.requests)
    several = take("tensor_core_gemm", "gemm_tma", out=Path("o"))
    assert several.paths == [Path("o/tensor_core_gemm"), Path("o/gemm_tma")]


def test_a_program_is_measured_with_the_launches_that_settings_choose(capsys, player):
    store(baseline())
    Path("ncubble.toml").write_text('[gate]\nskip = 1\nnvtx = "step/"\nsets = ["tensor"]\n')
    argv = ("--kernel", "^gemm$", "--setting", "count=5", "--setting", "timeout=9", "--no-history")
    assert run(capsys, *argv, "--", "true", "--profile", "-p", "x")[0] == 0
    (request,) = player.requests
    assert request.program == ["true", "--profile", "-p", "x"]
    filters = request.filters
    assert (filters.kernel, filters.nvtx, filters.skip, filters.count) == ("^gemm$", "step/", 1, 5)
    assert (request.sets, request.timeout_s) == (("tensor",), 9.0)


def test_all_kernels_with_a_baseline_are_measured(player):
    foreign = record(groups(report(kernel={}, key="foreign")), "2026-11-20T12:00:00+00:00")[0]
    known = [baseline(2), baseline(3), foreign]
    taken = take("more", baselines=known, require_all=True)
    assert [request.program[-8:] for request in player.requests] == [
        [*("-p", f"stages={stages}"), *("-p", "m=256", "-p", "n=256", "-p", "k=256")] for stages in (2, 3)
    ]
    assert taken.paths[0] == Path("more") and len(taken.paths) == 3
    assert taken.options(CheckRequest().options).require_all
    assert "gemm grid 32,32,1 block 256,1,1: no kernel of the catalog" in " ".join(taken.notes)
    assert take(baselines=known, require_all=True, kernel="stages=2").baselines == known[:1]
    with pytest.raises(UsageError, match="no baseline of NVIDIA H200"):
        take(baselines=known, require_all=True, kernel="stages=9")


def test_two_checks_of_one_second_take_two_folders(tmp_path):
    assert measuring.fresh(tmp_path / "run") == tmp_path / "run"
    for name in ("run", "run-2"):
        (tmp_path / name).mkdir()
    assert measuring.fresh(tmp_path / "run") == tmp_path / "run-3"


def test_one_kernel_that_fails_hides_no_other(capsys, player):
    store(baseline(2), baseline(3))
    player.answers[0] = ProgramFailedError(3, ["no"])
    code, out, _ = run(capsys, "--profile", "--all", "--json", "--no-history")
    answer = json.loads(out)
    assert code == 3
    assert {kernel["label"].split()[1]: kernel["verdict"] for kernel in answer["kernels"]} == {
        "stages=2": "nothing_measured",
        "stages=3": "pass",
    }
    assert "exit code 3" in answer["errors"][0]["error"]


def test_what_fails_for_all_ends_the_check_and_leaves_nothing(player, monkeypatch):
    player.answers[1] = CounterPermissionError()
    with pytest.raises(CounterPermissionError):
        take(baselines=[baseline(2), baseline(3)], require_all=True)
    assert not list(Path("runs").glob("*"))
    monkeypatch.undo()
    with pytest.raises((NoGpuError, NcuMissingError)):
        take(baselines=[baseline()], require_all=True)


@pytest.mark.parametrize(
    ("names", "asked", "says"),
    [
        ([], {}, "nothing to check"),
        (["runs"], {"of_kernel": ("a=1",)}, "-p is for what is measured now"),
        (["runs"], {"out": Path("x")}, "--out is for what is measured now"),
        ([], {"profile": True}, "either kernels of the catalog or a program"),
        (["x"], {"program": ("true",)}, "either kernels of the catalog or a program"),
        ([], {"program": ("true",), "of_kernel": ("a=1",)}, "-p is for kernels of the catalog"),
        (["a", "b"], {"profile": True, "of_kernel": ("a=1",)}, "-p is for one kernel"),
        ([], {"profile": True, "require_all": True, "of_kernel": ("m=1",)}, "-p does not go with --profile --all"),
        ([], {"profile": True, "require_all": True, "program": ("true",)}, "does not go with --profile --all"),
        (["x"], {"against": "main", "baseline": Path("y")}, "--against and --baseline"),
        (["x"], {"kernel": "("}, "not a regular expression"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(names, asked, says):
    with pytest.raises(UsageError) as refused:
        CheckRequest(tuple(map(Path, names)), **asked).validate()
    assert says in refused.value.message and refused.value.remedy


@pytest.mark.parametrize(
    ("names", "asked", "says"),
    [
        (["nowhere"], {}, "there is no kernel 'nowhere'"),
        (["tensor_core_gemm"], {"of_kernel": ("stages=99",)}, "stages=99"),
        ([], {"program": ("./none",)}, "no such program: './none'"),
        ([], {"program": ()}, "no program is named"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(player, names, asked, says):
    with pytest.raises(UsageError) as refused:
        take(*names, **asked)
    assert says in refused.value.message
    assert player.requests == [] and not Path("runs").exists()


def test_a_filter_of_measured_launches_hides_no_kernel_of_the_other_side():
    asked = CheckRequest(kernel="^gemm$").options
    assert CheckInputs([], baselines=[]).options(asked).kernel == ""
    assert CheckInputs([Path("runs")], "^gemm$").options(asked).kernel == "^gemm$"
