"""Sweeps on real Dask workers, which jobs and tests kill; and who can connect to their processes:
nobody from elsewhere, and with TLS only who has the certificate.

Nothing is measured: ``tests/data/stub_sweep.py`` plays the child process of a job.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.sweeps import cluster as sweep_cluster
from ncubble.profiling.sweeps.cluster import SchedulerLostError, WorkerCall, common_machine, measured
from ncubble.profiling.sweeps.store import Attempt, Machine, Record, Reply, Store
from ncubble.profiling.sweeps.worker import NoWorkerError
from tests.helpers.sweep_runs import CHILD, DATA, H200, TOOLS, Stub, jobs, records_of

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
_LISTENS = "0A"
SERVE = """
import time
import distributed

options = {"protocol": "tls://", "host": "127.0.0.1", "dashboard_address": None, "n_workers": 1, "processes": False}
with distributed.LocalCluster(security=distributed.Security(require_encryption=True), **options) as cluster:
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def processes(pid: int) -> list[int]:
    """A process and all that it started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(one for task in tasks for child in task.read_text().split() for one in processes(int(child)))]


def listening(pids: list[int]) -> list[str]:
    """Addresses, as the kernel writes them, on which processes accept connections."""
    lines = [
        line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
    ]
    addresses = {f"socket:[{line[9]}]": line[1] for line in lines if line[3] == _LISTENS}
    opened = {str(one.readlink()) for pid in pids for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()}
    return [addresses[one] for one in opened if one in addresses]


def test_scheduler_workers_and_their_pages_listen_on_this_host_only() -> None:
    before = set(listening([os.getpid()]))
    with sweep_cluster.local(["GPU-1"]):
        found = set(listening(processes(os.getpid()))) - before
    assert len(found) >= 4, "scheduler, nanny, worker, and what Dask serves over HTTP"
    assert all(address.startswith("0100007F:") for address in found), found


def certificate(folder: Path, *argv: str) -> None:
    subprocess.run(["openssl", *argv], check=True, capture_output=True, cwd=folder)


def authority(folder: Path) -> dict[str, str]:
    """Settings of Dask for a certificate of a new authority, as docs/sweeps.md makes them."""
    folder.mkdir()
    certificate(
        folder, "req", "-x509", *_CURVE, "-days", "1", "-subj", "/CN=ca", "-keyout", "ca-key.pem", "-out", "ca.pem"
    )
    certificate(folder, "req", *_CURVE, "-subj", "/CN=dask", "-keyout", "dask-key.pem", "-out", "dask.csr")
    signing = ("-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "1", "-out", "dask.pem")
    certificate(folder, "x509", "-req", "-in", "dask.csr", *signing)
    parts = {"cert": "dask.pem", "key": "dask-key.pem"}
    own = {
        f"distributed.comm.tls.{part}.{kind}": str(folder / file)
        for part in ("scheduler", "worker", "client")
        for kind, file in parts.items()
    }
    return {"distributed.comm.tls.ca-file": str(folder / "ca.pem"), **own}


@pytest.fixture(autouse=True)
def _no_client_is_left() -> Iterator[None]:
    """A client that was refused closes itself when it is collected. If that happens while another
    one starts, both wait for one lock, for ever."""
    yield
    gc.collect()


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return authority(tmp_path / "ours")


@pytest.fixture
def encrypted(settings: dict[str, str]) -> Iterator[str]:
    """The address of a cluster that speaks TLS only."""
    with dask.config.set(settings), served(settings) as address:
        yield address


@contextmanager
def served(settings: dict[str, str]) -> Iterator[str]:
    """A cluster in a process of its own: its end may wait for connections that were refused."""
    named = {f"DASK_{name.upper().replace('.', '__').replace('-', '_')}": value for name, value in settings.items()}
    argv = [sys.executable, "-c", SERVE]
    with subprocess.Popen(argv, env=os.environ | named, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            assert cluster.stdout is not None
            yield cluster.stdout.readline().strip()
        finally:
            cluster.kill()


@needs_openssl
def test_a_cluster_with_tls_serves_who_has_its_certificate(encrypted: str, settings: dict[str, str]) -> None:
    assert encrypted.startswith("tls://127.0.0.1:")
    with sweep_cluster.running(encrypted) as client:
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3


@needs_openssl
def test_a_cluster_with_tls_serves_nobody_else(
    encrypted: str, settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_cluster, "_CONNECT_S", 2)
    theirs = dask.config.set(authority(tmp_path / "theirs"))
    with theirs, pytest.raises(MeasurementError, match="certificate"), sweep_cluster.running(encrypted):
        pass
    with dask.config.set(dict.fromkeys(settings)):
        with pytest.raises(UsageError, match="no TLS certificate") as refused, sweep_cluster.running(encrypted):
            pass
        assert "distributed.comm.tls" in refused.value.remedy


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "ucx://node:8786", "tcp://[fe80::1]:8786"])
def test_a_scheduler_without_tls_on_another_host_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[float] = []
    client = SimpleNamespace(scheduler=SimpleNamespace(address=address), close=lambda timeout: closed.append(timeout))
    monkeypatch.setattr(distributed, "Client", lambda **_: client)
    with pytest.raises(UsageError, match="has no TLS") as refused, sweep_cluster.running(address):
        pass
    assert "--protocol tls" in refused.value.remedy and closed


@pytest.mark.parametrize("start", [lambda: sweep_cluster.local(["0", "1"]), lambda: sweep_cluster.running("tcp://x:1")])
def test_without_cryptography_no_cluster_is_started_or_asked(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setattr(distributed, "Client", None)
    monkeypatch.setattr(distributed, "SpecCluster", None)
    with pytest.raises(MeasurementError, match="cryptography") as refused, start():
        pass
    assert "[cluster]" in refused.value.remedy


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    before = dict(os.environ)
    yield Stub(tmp_path)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as opened:
        yield opened


def until(true: Callable[[], bool], limit_s: float = 60.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


CALL = WorkerCall(CHILD, 60.0, H200.kind(TOOLS), TOOLS, "ncubble-test")


def settled(client: Any, store: Store, sizes: tuple[int, ...], said: list[str]) -> dict[int, Record]:
    """A sweep on the workers of ``client``; the record of each size."""
    todo = {str(job.about["shape"]["n"]): job for job in jobs(*sizes)}
    replies = measured(client, todo, CALL, said.append)
    return {int(key): store.settle(f"{int(key):016x}", todo[key], reply) for key, reply in replies}


def test_two_gpus_share_the_jobs_and_a_job_that_kills_its_worker_is_tried_again(store: Store, stub: Stub) -> None:
    stub.behave({1: "worker"})
    # Which closes the nanny of each worker that is restarted, unless the cluster sees to it.
    hostile = dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"})
    said: list[str] = []
    with hostile, sweep_cluster.local(["GPU-1", "GPU-2"]) as client:
        machine, number = common_machine(client, CHILD, TOOLS, "ncubble-test")
        assert (machine.kind(TOOLS), number) == (H200.kind(TOOLS), 2)
        found = settled(client, store, (1, 2, 3, 4), said)
    assert [found[size].state for size in (1, 2, 3, 4)] == ["failed", "ok", "ok", "ok"]
    assert "so did 2 before" in found[1].error and "it is retried" in said[0]
    assert stub.begun.count(1) == 3
    assert {found[size].attempts[-1].gpu for size in (2, 3, 4)} <= {"GPU-1", "GPU-2"}
    assert until(lambda: not stub.left)


def test_the_loss_of_the_scheduler_leaves_no_process_and_a_store_to_go_on_with(
    store: Store, stub: Stub, tmp_path: Path
) -> None:
    stub.behave({2: "slow"})
    address = tmp_path / "scheduler.json"
    own = ("--scheduler-file", str(address), "--no-dashboard")
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", *own, "--port", "0", "--host", "127.0.0.1"]
    scheduler += ["--dashboard-address", "127.0.0.1:0"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", *own, "--nthreads", "1", "--no-nanny"]
    env = os.environ | {"CUDA_VISIBLE_DEVICES": "GPU-1", "PYTHONPATH": str(DATA.parents[1])}  # for tests.helpers
    with _running(scheduler, env) as first:
        assert until(address.exists)
        with _running(worker, env):
            threading.Thread(target=lambda: until(lambda: 2 in stub.begun) and first.kill()).start()
            with sweep_cluster.running(str(address)) as client, pytest.raises(SchedulerLostError):
                settled(client, store, (1, 2), [])
    assert until(lambda: not stub.left)
    assert [record.state for record in records_of(store)] == ["ok"]


def test_a_scheduler_that_dies_before_the_first_job_is_named_and_waiting_is_said() -> None:
    def lost(*_: object, **__: object) -> None:
        raise OSError("closed")

    client = SimpleNamespace(status="running", scheduler_info=lambda **_: {"workers": {}}, wait_for_workers=lost)
    said: list[str] = []
    with pytest.raises(SchedulerLostError):
        common_machine(client, CHILD, TOOLS, "ncubble-test", say=said.append)
    assert "waiting for a worker" in said[0]


@contextmanager
def _running(argv: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A quiet process, which does not outlive the block; a Dask worker would end by itself, but
    takes longer."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, env=env, **quiet) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


class PlayedClient:
    """A client of ``workers`` that answers orders in turn with ``answers``: a reply, an exception,
    or "dies"."""

    status = "running"

    def __init__(self, workers: Sequence[str], answers: Sequence[Reply | Exception | str]) -> None:
        self.workers, self.answers = list(workers), list(answers)
        self.given: list[tuple[str, str]] = []

    def scheduler_info(self, **_: int) -> dict[str, dict[str, None]]:
        return {"workers": dict.fromkeys(self.workers)}

    def submit(self, call: WorkerCall, order: Any, label: str, *, workers: list[str], **_: Any) -> Future[Reply]:
        self.given.append((workers[0], label))
        future, answer = Future[Reply](), self.answers.pop(0)
        if isinstance(answer, Reply):
            future.set_result(answer)
        elif isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            self.workers[self.workers.index(workers[0])] += "'"  # a new one takes its place
        return future

    def subscribe_topic(self, *_: Any) -> None: ...

    unsubscribe_topic = run = subscribe_topic


OK, UNABLE = Reply(Attempt("ok"), H200), Reply(Attempt("unable", error="no permission"), H200)


def played(workers: Sequence[str], *answers: Reply | Exception | str, jobs_: int = 3) -> tuple[PlayedClient, list[str]]:
    """A sweep on played workers; the client, and the states of the jobs as they come."""
    client, said = PlayedClient(workers, answers), list[str]()
    todo = {str(size): job for size, job in enumerate(jobs(*range(1, jobs_ + 1)))}
    return client, [reply.attempt.state for _, reply in measured(client, todo, CALL, said.append)]


def test_a_worker_has_one_job_at_a_time_and_a_job_that_fails_is_not_tried_again() -> None:
    client, states = played(["a", "b"], OK, Reply(Attempt("failed", error="fault"), H200), OK)
    assert sorted(states) == ["failed", "ok", "ok"]
    assert [worker for worker, _ in client.given] == ["a", "b", "a"]


def test_a_job_whose_worker_dies_is_tried_again_after_the_others_and_then_fails() -> None:
    client, states = played(["a"], "dies", OK, "dies", "dies", jobs_=2)
    assert [label for _, label in client.given] == ["saxpy n=1", "saxpy n=2", "saxpy n=1", "saxpy n=1"]
    assert states == ["ok", "failed"]


@pytest.mark.parametrize("answer", [UNABLE, ModuleNotFoundError("no permission")])
def test_a_worker_that_cannot_measure_is_left_out_and_its_job_goes_elsewhere(
    answer: Reply | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, states = played(["a", "b"], answer, OK, OK, OK)
    assert states == ["ok"] * 3 and [worker for worker, _ in client.given] == ["a", "b", "b", "b"]
    monkeypatch.setattr(sweep_cluster, "HOPELESS_S", 0.0)
    with pytest.raises(NoWorkerError, match="no permission"):
        played(["a"], answer)


def test_a_cluster_without_workers_is_waited_for_and_a_lost_scheduler_ends_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweep_cluster, "WAIT_S", 0.1)
    with pytest.raises(NoWorkerError, match="none joined the cluster"):
        played([])
    with pytest.raises(SchedulerLostError, match="the same command continues"):
        played(["a"], OK, CancelledError())


def test_a_worker_of_another_kind_refuses_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sweep_cluster, "machine_here", lambda child, sweep: Machine("NVIDIA L4", host="h", tools=H200.tools)
    )
    attempt = CALL(jobs(1)[0].order, "saxpy").attempt
    assert attempt.state == "unable"
    assert attempt.error.startswith("it has NVIDIA L4, 2025.3.1, 13.0; this sweep is for NVIDIA H200")
