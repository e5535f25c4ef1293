"""Profiling for real: needs an NVIDIA GPU and ncu with counter permission."""

import subprocess
import sys
import time

import pytest

from ncubble.chips import load_chips
from ncubble.errors import MeasurementError
from ncubble.profiling import failures
from ncubble.profiling.doctor import check_counters, check_gpu, check_ncu
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, Target, resolve
from ncubble.profiling.ncu import Filters, find_ncu
from ncubble.profiling.recorders import capsules, ncu
from ncubble.profiling.recorders.ncu import NcuSettings
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject
from ncubble.profiling.tiny import KERNEL
from tests.helpers.on_gpu import WAITING, compiled

pytestmark = pytest.mark.gpu


def profile(program, out, *settings, timeout_s=None, **more):
    return ncu.profile(Session(Subject(program), out, timeout_s=timeout_s), NcuSettings(*settings, **more))


TINY = [sys.executable, "-m", "ncubble.profiling.tiny"]


def test_the_doctor_finds_gpu_ncu_and_counters():
    assert [check.status for check in (check_gpu(), check_ncu(), check_counters())] == ["ok"] * 3


def test_the_default_sets_take_at_most_twelve_passes_and_every_metric_comes_back(tmp_path):
    program = [sys.executable, "-m", "ncubble.kernels", "tensor_core_gemm", "--once", "--no-verify", "-p", "stages=3"]
    begun = time.monotonic()
    manifest = profile(program, tmp_path / "run", filters=Filters(kernel="tensor_core_gemm")).manifest
    assert time.monotonic() - begun < 20
    assert manifest.outcome == "ok"
    assert manifest.report["missing"] == []
    (launch,) = manifest.report["launches"]
    assert launch["passes"] <= 12
    assert manifest.kernel["stages"] == 3
    assert manifest.build["registers"] > 0


@pytest.mark.parametrize("name", ["async", "tensor", "dram", "stalls", "pipeline", "timeline", "source", "warp_states"])
def test_each_set_is_known_to_this_ncu_and_chip(tmp_path, name):
    manifest = profile(TINY, tmp_path / "run", [name]).manifest
    assert manifest.report["launches"][0]["kernel"] == KERNEL
    assert manifest.report["missing"] == []


def test_the_report_holds_what_the_manifest_says(tmp_path):
    import ncu_report

    run = profile(TINY, tmp_path / "run", DEFAULT_SETS)
    actions = [action for group in ncu_report.load_report(str(run.report)) for action in group]
    assert [action.name() for action in actions] == [KERNEL]
    assert actions[0].metric_by_name("gpu__time_duration.sum").value() > 0


def test_a_metric_without_a_value_is_listed_and_one_without_rollup_refused(tmp_path):
    manifest = profile(TINY, tmp_path / "run", ["dram"], ["sm__no_such_counter.sum"]).manifest
    assert manifest.report["missing"] == ["sm__no_such_counter.sum"]
    with pytest.raises(failures.NcuRejectedError, match="sm__no_such_counter"):
        profile(TINY, tmp_path / "other", [], ["sm__no_such_counter"])


@pytest.mark.parametrize(
    ("program", "kind", "says"),
    [
        (TINY, failures.NoKernelError, KERNEL),
        ([sys.executable, "-c", "pass"], failures.NoKernelError, "launched no kernel"),
        ([sys.executable, "-c", "import sys; sys.exit('no weights')"], failures.ProgramFailedError, "no weights"),
    ],
)
def test_a_program_without_a_matching_kernel_leaves_nothing_and_says_why(tmp_path, program, kind, says):
    with pytest.raises(kind, match=says):
        profile(program, tmp_path / "run", ["dram"], filters=Filters(kernel="^gemm$"))
    assert list(tmp_path.iterdir()) == []


def test_the_time_limit_holds(tmp_path):
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    begun = time.monotonic()
    with pytest.raises(MeasurementError):
        profile(program, tmp_path / "run", ["dram"], timeout_s=4.0)
    assert time.monotonic() - begun < 15
    assert list(tmp_path.iterdir()) == []


def test_a_child_process_is_profiled_too(tmp_path):
    program = [sys.executable, "-c", f"import subprocess; subprocess.run({TINY!r}, check=True)"]
    assert profile(program, tmp_path / "run", ["dram"]).manifest.report["launches"][0]["kernel"] == KERNEL


@pytest.mark.parametrize("chip", ["ga100", "ad102", "gh100", "gb100", "gb202"])
def test_every_name_of_the_default_sets_is_a_counter_of_the_chip(chip):
    capability = next(item.capability for item in load_chips().values() if item.generation == chip)
    argv = [find_ncu().path, "--query-metrics", "--chip", chip]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    known = {line.split()[0] for line in listed.splitlines() if "__" in line.split(" ")[0]}
    asked = resolve(DEFAULT_SETS, target=Target(capability)).metrics
    # PC samples and per-instruction metrics are in no list of counters.
    listable = [name for name in asked if "__" in name and ":" not in name and not name.startswith("smsp__pcsamp")]
    assert {name.split(".")[0] for name in listable} <= known


def test_kernels_that_wait_are_left_out_unless_they_are_wanted(tmp_path):
    program = [compiled(WAITING, tmp_path)]

    def kernels(name, **filters):
        launches = profile(program, tmp_path / name, ["dram"], filters=Filters(**filters)).manifest.report["launches"]
        return [launch["kernel"] for launch in launches]

    assert kernels("default") == ["product"] * 6
    assert kernels("all", without="") == ["ncclDevKernel_x", "product"] * 6
    assert kernels("named", kernel="nccl", without="") == ["ncclDevKernel_x"] * 6
    assert kernels("any", kernel=".") == ["product"] * 6
    assert kernels("others", without="^pro|duct$") == ["ncclDevKernel_x"] * 6
    assert kernels("both", kernel="x|product", without="nccl", count=1) == ["product"]
    session = Session(Subject(program), tmp_path / "captured")
    with session.open():
        (session.work / "capsules").mkdir()
        captured = capsules.record(session, Filters(), session.work / "capsules")
    assert [capsule.kernel for capsule in captured.capsules] == ["product"]
    assert captured.refused == [("ncclDevKernel_x", "it is left out (--without)")]


def test_options_are_passed_on_to_ncu(tmp_path):
    import ncu_report

    program = [compiled(WAITING, tmp_path)]
    run = profile(program, tmp_path / "interval", filters=Filters(count=1), options=[("pm-sampling-interval", "2000")])
    assert (run.manifest.outcome, run.manifest.report["missing"]) == ("ok", [])
    options = [("section", "LaunchStats"), ("replay-mode", "application")]
    run = profile(program, tmp_path / "application", ["dram"], filters=Filters(count=2), options=options)
    assert [launch["kernel"] for launch in run.manifest.report["launches"]] == ["product"] * 2
    assert all(launch["passes"] > 1 for launch in run.manifest.report["launches"])
    actions = [action for group in ncu_report.load_report(str(run.report)) for action in group]
    assert all(action.metric_by_name("launch__waves_per_multiprocessor") is not None for action in actions)
    with pytest.raises(failures.NcuRejectedError, match="NoSuchSection"):
        profile(TINY, tmp_path / "other", options=[("section", "NoSuchSection")])


def test_a_program_that_fails_after_its_kernels_is_kept(tmp_path):
    program = [compiled(WAITING, tmp_path), "3"]
    manifest = profile(program, tmp_path / "run", ["dram"], keep_failed=True).manifest
    assert manifest.outcome == "failed"
    assert "exit code 3" in manifest.notes[0] and "this version is refused" in manifest.notes[0]
    assert len(manifest.report["launches"]) == 6 and manifest.report["missing"] == []
    with pytest.raises(failures.ProgramFailedError, match="this version is refused"):
        profile(program, tmp_path / "other", ["dram"])
    assert not (tmp_path / "other").exists()
