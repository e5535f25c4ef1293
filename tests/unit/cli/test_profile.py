"""``ncubble profile`` and ``ncubble doctor`` as a user meets them: arguments, output, exit
codes."""

import json
import re
import sys
from pathlib import Path

import pytest

from ncubble.cli.main import main
from ncubble.profiling.recorders import ncu
from tests.helpers.fake_machine import install
from tests.helpers.played_runs import recorded_request


@pytest.fixture(autouse=True)
def _gpu_machine(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)


def run(capsys, *argv):
    with pytest.raises(SystemExit) as ended:
        main(list(argv))
    output = capsys.readouterr()
    return ended.value.code or 0, output.out, output.err


def test_a_program_is_profiled_and_the_run_named(capsys):
    code, out, err = run(capsys, "profile", "--out", "run", "--", "/bin/echo", "--help", "-p", "x")
    assert code == 0
    assert out.split() == ["run"]
    assert "2 launches, 10 passes each" in err
    assert "ncubble report run" in err
    assert "--help -p x" in err
    assert json.loads(Path("run/run.json").read_text())["argv"] == ["/bin/echo", "--help", "-p", "x"]


def test_json_is_one_object_on_stdout(capsys):
    code, out, _ = run(capsys, "profile", "--out", "run", "--json", "--", "/bin/echo", "noise")
    answer = json.loads(out)
    assert code == 0
    assert (answer["run"], answer["outcome"], answer["file"]) == ("run", "ok", "report.ncu-repz")


def test_a_run_gets_a_name_of_its_own(capsys):
    _, out, _ = run(capsys, "profile", "--", "/bin/echo")
    assert out.startswith("runs/echo-20")
    assert Path(out.strip(), "run.json").is_file()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["profile"], "a catalog kernel, or a program"),
        (["profile", "--"], "no program is named"),
        (["profile", "x", "--", "/bin/true"], "a catalog kernel, or a program"),
        (["profile", "--", "/no/such/program"], "no such program"),
        (["profile", "-p", "stages=3", "--", "/bin/true"], "are for catalog kernels"),
        (["profile", "--set", "tensors", "--", "/bin/true"], "unknown metric set"),
        (["profile", "--metric", "dram_bytes", "--", "/bin/true"], "unknown metric"),
        (["profile", "--kernel", "(", "--", "/bin/true"], "not a regular expression"),
        (["profile", "--count", "0", "--", "/bin/true"], "nothing would be profiled"),
        (["profile", "--cache-control", "warm", "--", "/bin/true"], "--cache-control 'warm'"),
        (["profile", "--ncu", "set=full", "--", "/bin/true"], "--ncu set: not an option"),
        (["profile", "--replay-mode", "range", "--", "/bin/true"], "it takes kernel or application"),
        (["profile", "--pm-sampling-interval", "1us", "--", "/bin/true"], "'1us': unknown value"),
        (["profile", "--without", "(", "--", "/bin/true"], "--without '(': not a regular expression"),
        (["profile", "no_such_kernel"], "no_such_kernel"),
        (["profile", "tensor_core_gemm", "-p", "stages"], "is not name=value"),
        (["profile", "tensor_core_gemm", "-p", "stages=99"], "stages=99"),
        (["profile", "tensor_core_gemm", "-p", "m=big"], "is not name=integer"),
    ],
)
def test_a_wrong_request_ends_with_2_and_says_why(capsys, argv, says):
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert says in err
    assert "remedy" in err
    assert out == ""
    assert not Path("runs").exists()


def test_a_measurement_that_fails_ends_with_3(capsys, monkeypatch):
    monkeypatch.setenv("FAKE_NCU", "permission")
    code, out, err = run(capsys, "profile", "--out", "run", "--", "/bin/true")
    assert (code, out) == (3, "")
    assert "ERR_NVGPUCTRPERM" in err


def said(capsys, *options):
    """What ncu was told, and what the user was."""
    code, _, err = run(capsys, "profile", "--force", "--out", "run", *options, "--", "/bin/true")
    assert code == 0
    return json.loads(Path("run/run.json").read_text())["ncu_argv"], err


def test_options_of_ncu_are_passed_on_by_either_name(capsys):
    own = "--ncu section=LaunchStats --ncu replay-mode=application --pm-sampling-interval 2000 --section Occupancy"
    more = "--cache-control=none --metrics=dram__bytes.sum,l1tex__t_bytes.sum --metric sm__inst_executed.sum"
    argv = " ".join(said(capsys, *own.split(), *more.split())[0])
    for words in ("--replay-mode application", "--pm-sampling-interval 2000", "--cache-control none",
                  "--section LaunchStats --section Occupancy", "l1tex__t_bytes.sum,sm__inst_executed.sum"):  # fmt: skip
        assert words in argv


def test_kernels_that_wait_for_other_gpus_are_left_out_unless_that_is_refused(capsys):
    argv, told = said(capsys)
    named = argv[argv.index("--kernel-name") + 1].removeprefix("regex:")
    assert [bool(re.search(named, name)) for name in ("ncclDevKernel_AllReduce", "gemm_nccl")] == [False, True]
    assert "kernels that wait for other GPUs" in told
    assert "--kernel-name" not in said(capsys, "--without", "")[0]
    argv, told = said(capsys, "--kernel", "nccl|gemm")
    named = argv[argv.index("--kernel-name") + 1].removeprefix("regex:")
    names = ("void ncclDevKernel_AllReduce(ncclDevComm*)", "void ns::gemm<float>(float*)")
    assert [bool(re.search(named, name)) for name in names] == [False, True]
    assert "kernels that wait for other GPUs" in told
    argv, told = said(capsys, "--kernel", "nccl", "--without", "")
    assert "regex:nccl" in argv and "other GPUs" not in told
    argv, _ = said(capsys, "--kernel", "gemm", "--without", "_tma")
    named = argv[argv.index("--kernel-name") + 1].removeprefix("regex:")
    assert [bool(re.search(named, name)) for name in ("my_gemm", "gemm_tma", "copy")] == [True, False, False]


def test_a_program_that_fails_after_its_kernels_is_kept(capsys, monkeypatch):
    monkeypatch.setenv("FAKE_NCU", "late")
    raises = "raise ValueError('no such weights')"
    code, out, err = run(capsys, "profile", "--out", "run", "--", sys.executable, "-c", raises)
    assert (code, out.split()) == (3, ["run"])
    assert "exit code 1" in err and "ValueError: no such weights" in err
    manifest = json.loads(Path("run/run.json").read_text())
    assert manifest["outcome"] == "failed" and len(manifest["report"]["launches"]) == 2
    assert Path("run/report.ncu-repz").is_file()


def test_a_required_metric_lost_ends_with_3_and_keeps_the_run(capsys, monkeypatch):
    monkeypatch.setenv("FAKE_NCU_ABSENT", "sm__cycles_elapsed.max")
    code, _, err = run(capsys, "profile", "--out", "run", "--", "/bin/true")
    assert code == 3
    assert "these metrics have no value (n/a): sm__cycles_elapsed.max" in err
    assert Path("run/run.json").is_file()


def test_a_kernel_of_the_catalog_becomes_one_argv(capsys, monkeypatch):
    seen = []

    def record(session, settings):
        seen.append(recorded_request(session, settings))
        raise SystemExit(0)

    monkeypatch.setattr(ncu, "profile", record)
    run(capsys, "profile", "tensor_core_gemm", "-p", "stages=3", "-p", "m=256,n=256", "--count", "2")
    (request,) = seen
    assert request.program == [
        sys.executable,
        *("-P", "-m", "ncubble.kernels", "tensor_core_gemm"),
        *("--once", "--no-verify", "--launches", "2"),
        *("-p", "stages=3"),
        *("-p", "m=256,n=256"),
    ]
    assert "tensor_core_gemm" in request.filters.kernel
    assert request.out.name.startswith("tensor_core_gemm-stages3-m256-n256-20")


def test_the_doctor_folds_what_viewing_needs_into_one_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "doctor")
    lines = out.splitlines()
    assert lines[1].startswith("to view runs") and "python 3." in lines[1]
    assert lines.index(next(line for line in lines if line.startswith("driver and GPU"))) < 12
    assert max(map(len, lines)) <= 80


def test_the_doctor_answers_everywhere_and_fails_only_when_asked(capsys, monkeypatch):
    monkeypatch.setenv("NCUBBLE_NCU", "/nowhere/ncu")
    code, out, _ = run(capsys, "doctor", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["schema"] == 1
    assert {"name", "need", "status", "detail", "remedy"} == set(answer["checks"][0])
    code, _, err = run(capsys, "doctor", "--gpu")
    assert code == 3
    assert "cannot profile" in err
