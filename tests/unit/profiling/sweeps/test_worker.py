"""A job's surroundings: what it inherits, whose turn it is on a GPU, and how long anything is
waited for."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ncubble.profiling import orphans, processes, ranks
from ncubble.profiling.sweeps import worker as sweep_worker
from ncubble.profiling.sweeps.store import Machine
from ncubble.store import lock_path
from tests.helpers.sweep_runs import CHILD, H200, Stub, jobs

TELLS = """
import json, os, sys
from pathlib import Path
known = {name: os.environ.get(name) for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "RANK", "SLURM_JOB_ID")}
result = {"state": "failed", "error": json.dumps(known), "remedy": "", "exit_code": 3}
(Path(sys.argv[-1]) / "result.json").write_text(json.dumps(result))
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_job_has_no_rank_though_its_worker_was_started_as_one(monkeypatch):
    for name in ranks.VARIABLES:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    reply = sweep_worker.run_job({}, ("-c", TELLS), 20.0, H200)
    assert reply.attempt.error.count("null") == 3
    assert '"SLURM_JOB_ID": "7"' in reply.attempt.error


def test_a_job_waits_for_its_gpu_says_so_and_gives_up(monkeypatch):
    monkeypatch.setattr("ncubble.store.SIGN_S", 0.1)
    said = []
    with lock_path("gpu-GPU-1").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        threading.Timer(0.4, lambda: fcntl.flock(other, fcntl.LOCK_UN)).start()
        reply = sweep_worker.run_job({}, ("-c", TELLS), 20.0, Machine(uuid="GPU-1"), say=said.append)
        assert reply.attempt.state == "failed"  # it ran
        assert said == ["waiting for GPU GPU-1, locked by an unidentified process; gives up after 3600 s"]
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr(sweep_worker, "BUSY_S", 0.1)
        reply = sweep_worker.run_job({}, ("-c", ""), 20.0, Machine(uuid="GPU-1"))
    assert (reply.attempt.state, "GPU GPU-1: locked for more than 0.1 s" in reply.attempt.error) == ("unable", True)


def test_a_link_in_the_place_of_the_lock_is_no_job_that_failed(tmp_path):
    lock_path("gpu-GPU-1").symlink_to(tmp_path / "elsewhere")
    reply = sweep_worker.run_job({}, ("-c", ""), 20.0, Machine(uuid="GPU-1"))
    assert (reply.attempt.state, reply.attempt.exit_code) == ("unable", 3)
    assert "is a symbolic link, where ncubble keeps a lock file; remove it" in reply.attempt.error
    assert not (tmp_path / "elsewhere").exists()


def test_what_does_not_end_is_waited_for_no_longer_than_stated(monkeypatch):
    """SIGKILL does not reach a process that waits in a driver; here, one that nobody has killed
    plays it."""
    monkeypatch.setattr(sweep_worker, "LET_GO_S", 0.2)
    monkeypatch.setattr(sweep_worker, "BRIEF_S", 0.1)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as held:
        said = []
        mine = (held.pid, orphans._started(held.pid))
        late = sweep_worker._let_go([mine], said.append)
        assert late == f"the driver has not released process {held.pid} after 0.2 s"
        assert "waiting for the driver to release" in said[0]
        held.kill()
        held.wait()
        assert orphans.outlast([mine], 5.0) == []


def test_what_could_not_be_asked_at_first_is_ended_all_the_same(monkeypatch):
    """As one that is within execve, and has no environment to be known by."""
    truly, asked = orphans._marked, []

    def scan():
        asked.append(1)
        return ([], True) if len(asked) == 1 else truly()

    monkeypatch.setattr(orphans, "_marked", scan)
    with subprocess.Popen(["sleep", "60"], env={orphans.MARK: "999999999-1-0", "PATH": os.environ["PATH"]}) as left:
        orphans.end_orphans()
        assert left.wait(5) == -signal.SIGKILL


def test_a_process_without_environment_is_known_and_one_within_execve_is_not(tmp_path):
    with subprocess.Popen(["sleep", "60"], env={}) as empty:
        empty_now = Path(f"/proc/{empty.pid}/stat")
        while b"sleep" not in Path(f"/proc/{empty.pid}/cmdline").read_bytes():
            time.sleep(0.001)
        assert not orphans._within_execve(empty_now)
        fields = empty_now.read_text().rpartition(")")[2].split()
        empty.kill()
    for start, end, within in (("0", "0", True), ("4096", "8192", True), ("4096", "4096", False)):
        played = [*fields[:47], start, end, *fields[49:]]
        (tmp_path / "stat").write_text(f"1 (sleep) {' '.join(played)}")
        assert orphans._within_execve(tmp_path / "stat") is within
    assert not orphans._within_execve(tmp_path / "gone")


@pytest.fixture
def stub(tmp_path_factory, monkeypatch):
    before = dict(os.environ)
    yield Stub(tmp_path_factory.mktemp("sweep"))
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("segfault", "ended by SIGSEGV"),
        ("sticky", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("refused", "shared memory"),
        ("hang", "time limit of 1.5 s"),
    ],
)
def test_a_job_that_goes_wrong_is_told_and_leaves_nothing(stub, tmp_path, what, says):
    stub.behave({1: what})
    reply = sweep_worker.run_job(jobs(1)[0].order, CHILD, 1.5 if what == "hang" else 60.0, H200)
    assert (reply.attempt.state, says in reply.attempt.error, reply.files) == ("failed", True, {})
    assert stub.left == []
    assert not list(tmp_path.glob(f"{sweep_worker.PREFIX}*"))


def test_nothing_of_a_job_outlives_a_worker_that_is_killed(stub):
    stub.behave({1: "stubborn"})
    code = f"""
from ncubble.profiling.sweeps.store import Machine
from ncubble.profiling.sweeps.worker import run_job
run_job({dict(jobs(1)[0].order)!r}, {CHILD!r}, 60.0, Machine(uuid="GPU-1"))
"""
    with subprocess.Popen([sys.executable, "-c", code]) as worker:
        deadline = time.monotonic() + 60
        while stub.begun != [1] and time.monotonic() < deadline:
            time.sleep(0.02)
        worker.kill()
    orphans.end_orphans()  # as the next worker does: this job ignores SIGTERM, and its child has a session of its own
    assert stub.left == []


def test_a_child_that_was_started_for_a_dead_parent_ends_at_once(tmp_path):
    env = {**os.environ, orphans.PARENT: "1"}
    done = subprocess.run([sys.executable, *CHILD, str(tmp_path)], env=env, capture_output=True, check=False)
    assert done.returncode == 1


def test_a_mark_names_a_process_and_not_its_successor_of_the_same_number():
    own = orphans.mark("0")
    assert orphans._supervised(own)
    pid, started, _ = own.split("-")
    assert not orphans._supervised(f"{pid}-{int(started) + 1}-0")
    assert not orphans._supervised("nonsense")
    assert Path(f"/proc/{pid}").exists()


def test_a_program_that_cannot_be_ended_does_not_hold_up_whoever_ends_it(monkeypatch):
    monkeypatch.setattr(processes, "_GRACE_S", 0.1)
    monkeypatch.setattr(processes, "_STUCK_S", 0.1)
    monkeypatch.setattr(processes, "_signal_group", lambda group, number: None)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as held:
        processes.end_group(held)
        assert held.poll() is None
        held.kill()
