"""A run appears whole or not at all, and each failure says what it is. ncu is played by
tests/data/fake_ncu.py."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import failures, session, staging
from ncubble.profiling.driver import DriverError
from ncubble.profiling.ncu import Filters
from ncubble.profiling.provenance import Facts
from ncubble.profiling.recorders import ncu
from ncubble.profiling.recorders.ncu import NcuSettings
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.subject import Place, Subject
from tests.helpers.fake_machine import install

QUIET = [sys.executable, "-c", "print('hello')"]


@pytest.fixture(autouse=True)
def _gpu_machine(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path)
    stock = tmp_path / "bin" / "sections"
    stock.mkdir()
    (stock / "PmSampling.section").write_text('Identifier: "PmSampling"\nMetrics { Name: "sm__cycles_active.avg" }\n')
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nobody")
    monkeypatch.chdir(tmp_path)


def profile(program=QUIET, out="run", observer=None, force=False, timeout_s=None, **settings):
    session = Session(Subject(program), Path(out), force, timeout_s, observer or Observer())
    return ncu.profile(session, NcuSettings(**settings))


def leftovers(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir() if path.name != "bin")


def test_a_run_is_whole_and_says_how_it_came_to_be(tmp_path):
    run = profile(out="runs/first", filters=Filters(kernel="gemm"))
    manifest = run.manifest
    assert sorted(path.name for path in Path("runs/first").iterdir()) == ["report.ncu-repz", "run.json"]
    assert (manifest.outcome, manifest.ncu_version, manifest.argv[0]) == ("ok", "2025.3.1.0", "python")
    assert manifest.metric_set == ["pipeline", "timeline", "source"]
    assert manifest.device == {"name": "NVIDIA H200", "compute_capability": "9.0", "driver": "580.82"}
    assert manifest.report["launches"] == [{"kernel": "gemm", "passes": 10}] * 2
    assert manifest.report["sha256"] == hashlib.sha256(run.report.read_bytes()).hexdigest()
    assert manifest.report["bytes"] == run.report.stat().st_size < manifest.report["raw_bytes"]
    assert manifest.started <= manifest.ended
    assert manifest.started.endswith("Z")
    assert manifest.notes == []
    assert ".ncubble-" not in " ".join(manifest.ncu_argv)
    assert "Ncubble_PmSampling" in manifest.ncu_argv
    assert json.loads(zstandard.ZstdDecompressor().decompress(run.report.read_bytes()))["launches"] == 2


def test_facts_of_the_program_reach_the_manifest_and_win_over_ours():
    facts = {"kernel": {"name": "gemm"}, "device": {"name": "mine"}, "clocks": {"sm_mhz": 1700}, "build": 3, "other": 1}
    code = f"import os, pathlib; pathlib.Path(os.environ['NCUBBLE_FACTS']).write_text({json.dumps(facts)!r})"
    manifest = profile([sys.executable, "-c", code]).manifest
    assert manifest.kernel == {"name": "gemm"}
    assert manifest.device["name"] == "mine"
    assert manifest.device["driver"] == "580.82"
    assert manifest.build == {}
    assert any("'build' ignored" in note for note in manifest.notes)
    assert not Path("run/facts.json").exists()


def test_facts_of_launches_belong_to_the_launches_that_were_profiled():
    told = tuple({"name": f"gemm{number}", "function": "gemm"} for number in range(4))
    assert Facts(launches=told).of_launches(["gemm"] * 4).launches == told
    assert Facts(launches=told).of_launches(["gemm"] * 3, skipped=1).launches == told[1:]
    assert Facts(launches=told).of_launches(["gemm"] * 2, skipped=1, limited=True).launches == told[1:3]
    other = Facts(launches=told).of_launches(["gemm"] * 3)
    assert other.launches == () and "4 entries for 3 launches" in other.notes[0]
    wrong = Facts(launches=told).of_launches(["gemm", "reduce"], limited=True)
    assert wrong.launches == () and "its function names differ" in wrong.notes[0]
    assert Facts().of_launches(["gemm"]).notes == ()


def test_broken_facts_are_noted_and_do_not_cost_the_run():
    code = "import os, pathlib; pathlib.Path(os.environ['NCUBBLE_FACTS']).write_text('{oops')"
    manifest = profile([sys.executable, "-c", code]).manifest
    assert manifest.outcome == "ok"
    assert any("facts file ignored: Expecting" in note for note in manifest.notes)


def test_progress_and_output_are_heard_of():
    doing, printed = [], []
    profile(observer=Observer(doing.append, lambda stream, text: printed.append((stream, text))))
    assert [text for text in doing if "passes" in text] == ["launch 0: gemm, 10 passes", "launch 1: gemm, 10 passes"]
    assert ("stdout", "hello\n") in printed


@pytest.mark.parametrize(
    ("lost", "outcome"),
    [("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "incomplete"), ("lts__t_sectors.sum", "ok")],
)
def test_a_metric_without_a_value_is_listed_and_a_required_one_makes_the_run_incomplete(monkeypatch, lost, outcome):
    monkeypatch.setenv("FAKE_NCU_ABSENT", lost)
    manifest = profile().manifest
    assert (manifest.outcome, manifest.report["missing"]) == (outcome, [lost])


@pytest.mark.parametrize(
    ("mode", "kind", "says"),
    [
        ("permission", failures.CounterPermissionError, "ERR_NVGPUCTRPERM"),
        ("nokernel", failures.NoKernelError, "void scale<float>(int)"),
        ("nolaunch", failures.NoKernelError, "launched no kernel"),
        ("replay", failures.ReplayError, "gemm"),
        ("metric", failures.NcuRejectedError, "sm__nonsense"),
        ("unreadable", failures.NcuFailedError, "cannot read the report it wrote"),
    ],
)
def test_a_failure_says_what_it_is_and_leaves_nothing(monkeypatch, tmp_path, mode, kind, says):
    monkeypatch.setenv("FAKE_NCU", mode)
    with pytest.raises(kind, match=says.replace("(", r"\(").replace(")", r"\)")):
        profile()
    assert leftovers(tmp_path) == []


def test_a_failing_program_is_quoted(tmp_path):
    program = [sys.executable, "-c", "import sys; sys.stderr.write('no such weights\\n'); sys.exit(5)"]
    with pytest.raises(failures.ProgramFailedError, match=r"exit code 5[\s\S]*no such weights"):
        profile(program)
    assert leftovers(tmp_path) == []


def test_without_a_gpu_that_is_what_is_said(monkeypatch):

    def none():
        raise DriverError("no NVIDIA driver")

    monkeypatch.setattr(session, "describe", none)
    monkeypatch.setenv("FAKE_NCU", "nolaunch")
    with pytest.raises(failures.NoGpuError, match="no NVIDIA driver"):
        profile()


def test_ncu_missing_or_too_old_or_not_ncu(monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_NCU_VERSION", "2022.4.1.0")
    with pytest.raises(failures.NcuUnusableError, match=r"2022\.4; 2024\.1 or newer"):
        profile()
    monkeypatch.setenv("NCUBBLE_NCU", "/bin/true")
    with pytest.raises(failures.NcuUnusableError, match="no version"):
        profile()
    monkeypatch.delenv("NCUBBLE_NCU")
    monkeypatch.setattr("ncubble.profiling.ncu._PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(failures.NcuMissingError, match="not found"):
        profile()


def alive(marker):
    """Ids of the processes with ``marker`` in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def test_the_time_limit_ends_the_whole_process_group(monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_NCU", "slow")
    begun = time.monotonic()
    with pytest.raises(MeasurementError, match="after 2 profiled launches"):
        profile(timeout_s=1.5)
    assert time.monotonic() - begun < 10
    assert alive(str(tmp_path / "bin" / "ncu")) == []
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_leaves_no_trace(monkeypatch, tmp_path, number, code):
    monkeypatch.setenv("FAKE_NCU", "slow")
    argv = ["profile", "--out", "run", "--", "/bin/true"]
    main = f"from ncubble.cli.main import main; main({argv!r})"
    command = subprocess.Popen([sys.executable, "-c", main], stderr=subprocess.PIPE, start_new_session=True)
    for _ in range(100):
        if list(tmp_path.glob(".ncubble-*")) and alive(str(tmp_path / "bin" / "ncu")):
            break
        time.sleep(0.1)
    time.sleep(0.3)
    os.kill(command.pid, number)
    command.communicate(timeout=20)
    assert command.returncode == code
    assert alive(str(tmp_path / "bin" / "ncu")) == []
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("where", ["compress", "save", "publish"])
def test_a_full_disk_leaves_nothing(monkeypatch, tmp_path, where):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    target = {"compress": "recorders.ncu.compress", "save": "session.Manifest.save", "publish": "staging._publish"}
    monkeypatch.setattr(f"ncubble.profiling.{target[where]}", full)
    with pytest.raises(failures.DiskError, match="no space left"):
        profile()
    assert leftovers(tmp_path) == []


def test_an_existing_run_is_kept_unless_forced():
    first = profile().manifest.report
    before = Path("run/run.json").read_text()
    with pytest.raises(UsageError, match="run exists"):
        profile()
    assert Path("run/run.json").read_text() == before
    again = profile(force=True, sets=["tensor"]).manifest
    assert first != again.report and again.metric_set == ["tensor"]
    assert sorted(path.name for path in Path("run").iterdir()) == ["report.ncu-repz", "run.json"]


def test_a_failing_replacement_keeps_the_old_run(monkeypatch):
    profile()
    before = Path("run/run.json").read_text()
    monkeypatch.setenv("FAKE_NCU", "permission")
    with pytest.raises(failures.CounterPermissionError):
        profile(force=True)
    assert Path("run/run.json").read_text() == before


def test_force_never_replaces_what_is_not_a_run(tmp_path):
    thesis = tmp_path / "work"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("years")
    with pytest.raises(UsageError, match="not a run directory"):
        profile(out=thesis, force=True)
    assert (thesis / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize("file", ["changes.json", "elites.json", "launch-1/run.json"])
def test_runs_of_tried_changes_and_of_several_launches_may_be_replaced(tmp_path, file):
    run = tmp_path / "tried"
    (run / file).parent.mkdir(parents=True)
    (run / file).touch()
    staging.check_target(run, force=True)
    (run / "launch-2").mkdir()  # of somebody else: it is no run
    with pytest.raises(UsageError, match="not a run directory"):
        staging.check_target(run, force=True)


def test_a_link_is_never_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    with pytest.raises(UsageError, match="not a run directory"):
        staging.check_target(tmp_path / "run", force=True)


def test_a_program_is_profiled_in_the_folder_and_with_the_facts_of_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "there" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\npwd > where\necho $MARK >> where\n")
    program.chmod(0o755)
    monkeypatch.setenv("NCUBBLE_NCU", "bin/ncu")  # relative to here, not to there
    place = Place(program.parent, {"MARK": "x"}, {"sha": "1", "dirty": False})
    run = ncu.profile(Session(Subject(["./program"], place=place), Path("run")))
    assert (program.parent / "where").read_text().split() == [str(program.parent), "x"]
    assert run.manifest.git == {"sha": "1", "dirty": False}
    assert "MARK" not in os.environ
