"""Sweeps on real Dask workers whose jobs crash, hang, fault, or take their worker along; and sweeps
that are cut off.

Nothing is measured: ``tests/data/stub_sweep.py`` plays the child process of a job.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import dask
import pytest

from ncubble.cli.main import main
from ncubble.errors import UsageError
from ncubble.profiling import orphans
from ncubble.profiling.sweeps import cluster as sweep_cluster
from ncubble.profiling.sweeps.store import Store
from ncubble.profiling.sweeps.team import NoWorkerError, SchedulerLostError
from tests.helpers.sweep_runs import CHILD, DATA, H200, Stub, jobs, run

COMMAND = f"""
import sys
from ncubble.cli.commands.sweep import sweep
sweep.CHILD = {CHILD!r}
from ncubble.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    before = dict(os.environ)
    yield Stub(tmp_path_factory.mktemp("sweep"))
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def client(stub):
    # Which would close the nanny of each worker that is restarted, if the cluster did not see to
    # it.
    pytest.importorskip("distributed")  # its settings come with it, and would go with this one
    hostile = dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"})
    with hostile, sweep_cluster.local(["GPU-1", "GPU-2"]) as found:
        yield found


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def until(true, limit_s=60.0):
    deadline = time.monotonic() + limit_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


def gone(stub):
    """What is left of any job's processes after a while: nothing."""
    until(lambda: not stub.left)
    return stub.left


def test_a_sweep_measures_what_is_missing_and_nothing_else(client, store, stub):
    stub.behave({})
    found = run(client, store, jobs(1, 2))
    assert {size: record.state for size, record in found.items()} == {1: "ok", 2: "ok"}
    assert sorted(stub.begun) == [1, 2]
    assert {record.attempts[0].gpu for record in found.values()} <= {"GPU-1", "GPU-2"}
    stub.behave({})
    found = run(client, store, jobs(1, 2, 3))
    assert sorted(found) == [1, 2, 3]
    assert stub.begun == [3]


def test_jobs_that_crash_hang_or_fault_are_recorded_and_the_sweep_goes_on(client, store, stub):
    stub.behave({1: "segfault", 2: "hang", 3: "sticky", 4: "refused"})
    assert "time limit of 0.8 s" in run(client, store, jobs(2), limit_s=0.8)[2].error
    found = run(client, store, jobs(1, 2, 3, 4, 5))
    assert [found[size].state for size in range(1, 6)] == ["failed"] * 4 + ["ok"]
    assert "ended by SIGSEGV" in found[1].error
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in found[3].error
    assert "shared memory" in found[4].error
    assert stub.left == []
    stub.behave({})
    assert run(client, store, jobs(1))[1].state == "failed"
    assert run(client, store, jobs(1), retry_failed=True)[1].state == "ok"
    assert stub.begun == [1]


def test_a_job_that_kills_its_worker_is_tried_again_and_then_failed(client, store, stub):
    stub.behave({1: "worker"})
    found = run(client, store, jobs(1, 2))
    assert [found[size].state for size in (1, 2)] == ["failed", "ok"]
    assert "so did 1 before" in found[1].error
    assert stub.begun.count(1) == 2
    assert gone(stub) == []


def test_a_machine_without_permission_fails_no_job(client, store, stub):
    stub.behave({1: "permission", 2: "permission"})
    with pytest.raises(NoWorkerError, match="ERR_NVGPUCTRPERM"):
        run(client, store, jobs(1, 2))
    assert list(store.records()) == []


def test_two_sweeps_on_one_store_share_the_work(client, store, stub):
    from distributed import Client

    stub.behave({})
    found = []

    def other():  # with a client of its own, as another command has
        with Client(client.cluster, set_as_default=False) as second, Store(store.folder) as own:
            found.append(run(second, own, jobs(*range(1, 6))))

    thread = threading.Thread(target=other)
    thread.start()
    found.append(run(client, store, jobs(*range(5, 0, -1))))
    thread.join()
    assert sorted(stub.begun) == list(range(1, 6))
    assert [{record.state for record in one.values()} for one in found] == [{"ok"}] * 2
    assert [len(one) for one in found] == [5, 5]


def test_a_gpu_cannot_be_named_twice():
    with pytest.raises(UsageError, match="named twice"), sweep_cluster.local(["GPU-1", "GPU-1"]):
        pass


def command(store, *more):
    line = [
        sys.executable,
        "-P",
        "-c",
        COMMAND,
        "sweep",
        "saxpy",
        "--catalog",
        str(DATA / "catalog"),
        "--out",
        str(store),
    ]
    return [*line, *more]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_command_that_is_cut_off_leaves_no_process_and_a_store_to_go_on_with(
    client, store, stub, capsys, monkeypatch, number, code
):
    stub.behave({2: "slow"})
    arguments = ["-g", "n=1,2", "--gpus", "GPU-1"]
    with subprocess.Popen(command(store.folder, *arguments), stderr=subprocess.PIPE, text=True) as process:
        assert until(lambda: 2 in stub.begun)
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == code
    assert "the same command continues" in said or number == signal.SIGKILL
    assert gone(stub) == []
    stub.behave({})
    assert {record.state for record in run(client, store, jobs(1, 2)).values()} == {"ok"}
    assert stub.begun == [2]
    if number == signal.SIGINT:
        _shows_what_is_held(store.folder, arguments, capsys, monkeypatch)


def _shows_what_is_held(folder, arguments, capsys, monkeypatch):
    """The command over a store that holds everything: nothing is started but the child that
    describes the machine."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("ncubble.cli.commands.sweep.sweep.CHILD", CHILD)
    with pytest.raises(SystemExit) as ended:
        main([*command(folder, *arguments)[4:], "--json"])
    assert not ended.value.code
    result = json.loads(capsys.readouterr().out)
    assert (result["held"], result["measured"], [job["state"] for job in result["jobs"]]) == (2, 0, ["ok"] * 2)
    assert result["jobs"][0]["launches"][0]["duration_ns"] > 0


def test_the_loss_of_the_scheduler_leaves_no_process_and_a_store_to_go_on_with(stub, store, tmp_path):
    stub.behave({2: "slow"})
    address = tmp_path / "scheduler.json"
    scheduler = [
        *_dask("scheduler"),
        "--scheduler-file",
        str(address),
        "--port",
        "0",
        *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
        "--host",
        "127.0.0.1",
    ]
    worker = [
        "env",
        "CUDA_VISIBLE_DEVICES=GPU-1",
        *_dask("worker"),
        "--scheduler-file",
        str(address),
        "--nthreads",
        "1",
        "--no-dashboard",
        "--no-nanny",
    ]
    env = os.environ | {"CUDA_VISIBLE_DEVICES": "GPU-1", "PYTHONPATH": str(DATA.parents[1])}  # for tests.helpers
    with _running(scheduler, env=env) as first:
        assert until(address.exists)
        with _running(worker, env=env):
            threading.Thread(target=lambda: until(lambda: 2 in stub.begun) and first.kill()).start()
            with sweep_cluster.running(str(address)) as client, pytest.raises(SchedulerLostError, match="after 1 of 2"):
                run(client, store, jobs(1, 2))
    assert gone(stub) == []
    assert [record.state for record in store.records()] == ["ok"]


@contextmanager
def _running(argv, **more):
    """A quiet process, which does not outlive the block; a Dask worker would end by itself, but
    takes longer."""
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def _dask(what):
    return [sys.executable, "-m", f"distributed.cli.dask_{what}"]


def test_nothing_of_a_job_outlives_a_worker_that_is_killed(stub):
    stub.behave({1: "stubborn"})
    code = f"""
from ncubble.profiling.sweeps.worker import run_job
run_job({dict(jobs(1)[0].order)!r}, {CHILD!r}, 60.0, {asdict(H200)!r})
"""
    with subprocess.Popen([sys.executable, "-c", code]) as worker:
        assert until(lambda: stub.begun == [1])
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
