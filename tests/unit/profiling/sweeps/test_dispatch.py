"""Who gets which job, and what happens to it when its worker, its machine or another sweep comes in
between. Workers are played."""

import dataclasses
from concurrent.futures import CancelledError, Future

import pytest

from ncubble.profiling.sweeps import dispatch as module
from ncubble.profiling.sweeps.dispatch import Dispatch, NoWorkerError, SchedulerLostError, Task, Workers
from ncubble.profiling.sweeps.store import Attempt, Machine, Record, Store
from ncubble.profiling.sweeps.worker import Reply
from ncubble.recordings import ROOT
from tests.helpers.sweep_runs import H200, SETTINGS, TOOLS, jobs, records_of

RUN = {path.name: path.read_bytes() for path in (ROOT / "softmax_online" / "default").iterdir()}
OK = Reply(Attempt("ok", seconds=1.0), files=RUN)
FAULT = Reply(Attempt("failed", error="CUDA_ERROR_ILLEGAL_ADDRESS"))


class PlayedWorkers(Workers):
    """``answers`` are what comes of the orders, in turn: a Reply, an exception, or "dies"."""

    def __init__(self, machines, answers=()):
        self.said = []
        super().__init__(self.said.append)
        self.machines, self.answers = machines, list(answers)
        self._joined = [(worker, True) for worker in machines]
        self.started, self.apart, self.closed = [], [], None

    def probe(self, worker, child):
        future = Future()
        if (machine := self.machines[worker]) is not None:
            future.set_result(machine)
        return future

    def start(self, worker, label, order, child, limit_s, machine, apart):
        self.started.append((worker, order["shape"]))
        self.apart.append(apart)
        future, answer = Future(), self.answers.pop(0) if self.answers else OK
        if answer == "dies":
            self._joined += [(worker, False), (worker, True)]
        elif isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    def close(self, busy):
        self.closed = busy


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "POLL_S", 0.001)
    monkeypatch.setattr(module, "FOREIGN_S", 0.01)


def gpu(number, **more):
    return dataclasses.replace(H200, uuid=f"GPU-{number}", **more)


def dispatched(store, workers, sizes, heard=lambda task, record: None, **settings):
    """A sweep for an H200: its tasks, and the state of each."""
    tasks = [Task(job.key(H200, TOOLS), job) for job in jobs(*sizes)]
    records = {}
    work = Dispatch(workers, store, dataclasses.replace(SETTINGS, **settings))
    work.machine = H200

    def settled(task, record):
        records[task.key] = record
        heard(task, record)

    try:
        work.run(tasks, settled)
    finally:
        work.states = [records[task.key].state if task.key in records else None for task in tasks]
        work.records = [records.get(task.key) for task in tasks]
    return work


def test_each_worker_has_one_job_at_a_time(store):
    workers = PlayedWorkers({"a": gpu(1), "b": gpu(2)})
    assert dispatched(store, workers, [1, 2, 3, 4, 5]).states == ["ok"] * 5
    assert {worker for worker, _ in workers.started} == {"a", "b"}
    assert set(workers.apart) == {True} and workers.closed == []


def test_the_kind_of_most_workers_decides_what_the_sweep_is_for(store):
    machines = {"a": gpu(1, device="NVIDIA L4"), "b": gpu(2), "c": gpu(3), "d": Machine(host="d", why_not="no GPU")}
    workers = PlayedWorkers(machines)
    work = Dispatch(workers, store, SETTINGS)
    assert work.gather() == gpu(2)
    assert [name for name, member in work.members.items() if member.works] == ["b", "c"]
    assert "a worker is excluded: host: it has NVIDIA L4, 2025.3.1, 13.0; this sweep is for" in workers.said[1]
    chosen = Dispatch(PlayedWorkers(machines), store, dataclasses.replace(SETTINGS, device="NVIDIA L4"))
    assert chosen.gather() == gpu(1, device="NVIDIA L4")


def test_a_job_that_faults_is_not_tried_again(store):
    work = dispatched(store, PlayedWorkers({"a": gpu(1)}, [OK, FAULT]), [1, 2, 3])
    assert work.states == ["ok", "failed", "ok"]
    assert work.records[1].error == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_a_job_whose_worker_dies_is_tried_again_last_and_then_fails(store):
    workers = PlayedWorkers({"a": gpu(1)}, ["dies", OK, "dies", "dies"])
    work = dispatched(store, workers, [1, 2])
    assert [shape for _, shape in workers.started] == ["n=1", "n=2", "n=1", "n=1"]
    assert work.states == ["failed", "ok"]
    assert "so did 2 before" in work.records[0].error
    assert [one.state for one in work.records[0].attempts] == ["lost"] * 3


@pytest.mark.parametrize(
    "answer", [Reply(Attempt("unable", error="no permission")), ModuleNotFoundError("no permission")]
)
def test_a_machine_that_cannot_measure_is_left_out_and_its_job_goes_elsewhere(store, answer):
    work = dispatched(store, PlayedWorkers({"a": gpu(1), "b": gpu(2)}, [answer]), [1, 2])
    assert work.states == ["ok", "ok"]
    assert "no permission" in work.members["a"].why_not


def test_without_any_machine_that_can_measure_the_sweep_ends_and_says_why(store):
    workers = PlayedWorkers({"a": Machine(host="a", why_not="no GPU"), "b": gpu(2, device="NVIDIA L4")})
    with pytest.raises(NoWorkerError, match=r"a: no GPU\n.*it has NVIDIA L4.*this sweep is for NVIDIA H200"):
        dispatched(store, workers, [1], wait_s=0.1)
    assert records_of(store) == []


def test_a_cluster_that_nobody_joins_is_waited_for_as_long_as_asked(store, monkeypatch):
    monkeypatch.setattr(module, "TELL_S", 0.0)
    workers = PlayedWorkers({})
    with pytest.raises(NoWorkerError, match="none joined the cluster"):
        dispatched(store, workers, [1], wait_s=0.1)
    assert "waiting for a worker: none has joined; the sweep ends after 0.1 s" in workers.said[0]


def test_of_two_workers_on_one_gpu_one_has_a_job_at_a_time(store):
    workers = PlayedWorkers({"a": gpu(1), "b": gpu(1)}, [OK, "dies"])
    assert dispatched(store, workers, [1, 2, 3]).states == ["ok"] * 3
    assert set(workers.apart) == {False}


def test_the_loss_of_the_scheduler_ends_the_sweep_with_what_it_has(store):
    workers = PlayedWorkers({"a": gpu(1)}, [OK, CancelledError()])
    with pytest.raises(SchedulerLostError, match="the same command continues"):
        dispatched(store, workers, [1, 2, 3])
    assert [record.state for record in records_of(store)] == ["ok"]
    with Store(store.folder) as other:
        assert all(other.claim(job.key(H200, TOOLS)) for job in jobs(1, 2, 3))


@pytest.mark.parametrize("record", [True, False])
def test_a_job_of_another_sweep_is_left_to_it_and_taken_over_if_that_ends_without_a_result(store, record):
    workers, key = PlayedWorkers({"a": gpu(1)}), jobs(1)[0].key(H200, TOOLS)
    with Store(store.folder) as other:
        assert other.claim(key)
        if record:
            other.save(Record(key, "failed", None, {}, {}, (Attempt("failed", error="theirs"),)))
        work = dispatched(store, workers, [1, 2], lambda task, record: other.release(key))
    assert work.states == (["failed", "ok"] if record else ["ok", "ok"])
    assert [shape for _, shape in workers.started] == (["n=2"] if record else ["n=2", "n=1"])
