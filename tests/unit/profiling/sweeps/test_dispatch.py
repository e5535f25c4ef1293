"""Who gets which job, and what happens to it when its worker, its machine or another sweep comes in
between."""

import dataclasses
import queue

import pytest

from ncubble.profiling.sweeps.dispatch import Dispatch, Task
from ncubble.profiling.sweeps.job import Attempt, Machine, Reply
from ncubble.profiling.sweeps.pool import Event
from ncubble.profiling.sweeps.store import Record, Store
from ncubble.profiling.sweeps.team import NoWorkerError, SchedulerLostError, Team
from ncubble.recordings import ROOT
from tests.helpers.sweep_runs import H200, TOOLS, jobs

RUN = {path.name: path.read_bytes() for path in (ROOT / "softmax_online" / "default").iterdir()}
OK = Reply(Attempt("ok", seconds=1.0), files=RUN)
FAULT = Reply(Attempt("failed", error="CUDA_ERROR_ILLEGAL_ADDRESS"), suspect=True)


class Pool:
    """Plays workers: ``answers`` are what comes of the orders, in turn: a Reply, or "dies"."""

    def __init__(self, machines, answers=()):
        self.events, self.connected, self.address = queue.SimpleQueue(), True, "tcp://x"
        self.machines, self.answers = machines, list(answers)
        self.started, self.restarted, self.apart = [], [], []
        for worker in machines:
            self.events.put(Event("joined", worker))

    def probe(self, worker):
        self.events.put(Event("probed", worker, self.machines[worker]))

    def start(self, worker, name, order, machine, apart):
        self.started.append((worker, order["shape"]))
        self.apart.append(apart)
        answer = self.answers.pop(0) if self.answers else OK
        if answer == "silent":
            return
        if answer == "waits":
            self.events.put(Event("waits", worker, "waiting for GPU-1: another sweep measures on it", name))
            answer = OK
        if answer == "scheduler":
            self.connected = False
        elif answer == "dies":
            self.events.put(Event("left", worker))
            self.events.put(Event("joined", worker))
        else:
            self.events.put(Event("done" if isinstance(answer, Reply) else "broken", worker, answer, name))

    def give_up(self, worker):
        pass

    def restart(self, worker):
        self.restarted.append(worker)
        self.events.put(Event("left", worker))
        self.events.put(Event("joined", worker))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def gpu(number, **more):
    return dataclasses.replace(H200, uuid=f"GPU-{number}", **more)


def dispatched(store, pool, sizes, **more):
    tasks = [Task(job.key(H200, TOOLS), job) for job in jobs(*sizes)]
    records = {}
    team = Team(TOOLS, H200.kind(TOOLS))
    work = Dispatch(pool, store, tasks, team, lambda task, record: records.update({task.key: record}), **more)
    return work, tasks, records


def states(tasks, records):
    return [records[task.key].state if task.key in records else None for task in tasks]


def test_each_worker_has_one_job_at_a_time(store):
    pool = Pool({"a": gpu(1), "b": gpu(2)})
    work, tasks, records = dispatched(store, pool, [1, 2, 3, 4, 5])
    work.run()
    assert states(tasks, records) == ["ok"] * 5
    assert {worker for worker, _ in pool.started} == {"a", "b"}
    assert {True} == set(pool.apart[1:])


def test_a_job_that_faults_is_not_tried_again_and_its_worker_is_restarted(store):
    pool = Pool({"a": gpu(1)}, [OK, FAULT])
    work, tasks, records = dispatched(store, pool, [1, 2, 3])
    work.run()
    assert states(tasks, records) == ["ok", "failed", "ok"]
    assert pool.restarted == ["a"]
    assert store.find(tasks[1].key, "x").error == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_a_job_whose_worker_dies_is_tried_again_last_and_then_fails(store):
    pool = Pool({"a": gpu(1)}, ["dies", OK, "dies", "dies"])
    work, tasks, records = dispatched(store, pool, [1, 2], tries=3)
    work.run()
    assert [shape for _, shape in pool.started] == ["n=1", "n=2", "n=1", "n=1"]
    assert states(tasks, records) == ["failed", "ok"]
    assert "so did 2 before" in records[tasks[0].key].error
    assert [one.state for one in records[tasks[0].key].attempts] == ["lost"] * 3


def test_a_machine_that_cannot_measure_is_left_out_and_its_job_goes_elsewhere(store):
    unable = Reply(Attempt("unable", error="no permission"))
    pool = Pool({"a": gpu(1), "b": gpu(2)}, [unable])
    work, tasks, records = dispatched(store, pool, [1, 2])
    work.run()
    assert states(tasks, records) == ["ok", "ok"]
    assert work.team.left_out == {"a": "host: no permission"}


def test_without_any_machine_that_can_measure_the_sweep_ends_and_says_why(store):
    pool = Pool({"a": Machine(host="a", why_not="no GPU"), "b": gpu(2, device="NVIDIA L4")})
    work, _, _ = dispatched(store, pool, [1], wait_s=0.1)
    with pytest.raises(NoWorkerError, match=r"a: no GPU\n.*it has NVIDIA L4.*this sweep is for NVIDIA H200"):
        work.run()
    assert list(store.records()) == []


def test_of_two_workers_on_one_gpu_the_second_waits_until_the_first_is_gone(store):
    pool = Pool({"a": gpu(1), "b": gpu(1)}, [OK, "dies"])
    pool.machines["a2"] = gpu(1)
    work, tasks, records = dispatched(store, pool, [1, 2, 3])
    work.run()
    assert states(tasks, records) == ["ok"] * 3
    assert [worker for worker, _ in pool.started][:3] == ["a", "a", "b"]


def test_the_loss_of_the_scheduler_ends_the_sweep_with_what_it_has(store):
    work, tasks, records = dispatched(store, Pool({"a": gpu(1)}, [OK, "scheduler"]), [1, 2, 3])
    with pytest.raises(SchedulerLostError, match="after 1 of 3 jobs"):
        work.run()
    assert states(tasks, records) == ["ok", None, None]
    assert [record.state for record in store.records()] == ["ok"]
    with Store(store.folder) as other:
        assert all(other.claim(task.key) for task in tasks)


def test_a_job_that_another_sweep_has_is_left_to_it(store):
    pool = Pool({"a": gpu(1)})
    work, tasks, records = dispatched(store, pool, [1, 2])
    with Store(store.folder) as other:
        assert other.claim(tasks[0].key)
        other.save(Record(tasks[0].key, "failed", attempts=(Attempt("failed", error="theirs"),)))
        work._asked_foreign = 0.0
        work.observe = lambda task, record: (records.update({task.key: record}), other.release(tasks[0].key))
        work.run()
    assert states(tasks, records) == ["failed", "ok"]
    assert [shape for _, shape in pool.started] == ["n=2"]


def test_a_job_is_taken_over_from_a_sweep_that_ends_without_a_result(store):
    pool = Pool({"a": gpu(1)})
    work, tasks, records = dispatched(store, pool, [1, 2])
    with Store(store.folder) as other:
        assert other.claim(tasks[0].key)
        work.observe = lambda task, record: (records.update({task.key: record}), other.release(tasks[0].key))
        work.run()
    assert states(tasks, records) == ["ok", "ok"]


def test_what_a_worker_cannot_even_unpickle_is_its_own_fault(store):
    pool = Pool({"a": gpu(1), "b": gpu(2)}, ["ModuleNotFoundError: ncubble"])
    work, tasks, records = dispatched(store, pool, [1, 2])
    work.run()
    assert states(tasks, records) == ["ok", "ok"]
    assert work.team.left_out == {"a": "host: ModuleNotFoundError: ncubble"}


def test_a_worker_that_is_silent_for_longer_than_a_job_can_take_is_replaced(store, monkeypatch):
    monkeypatch.setattr("ncubble.profiling.sweeps.dispatch._SILENT_S", 0.1)
    said = []
    pool = Pool({"a": gpu(1)}, ["silent"])
    work, tasks, records = dispatched(store, pool, [1, 2], limit_s=0.1, tell=said.append)
    work.run()
    assert states(tasks, records) == ["ok", "ok"]
    assert pool.restarted == ["a"] and "has been silent" in said[0]
    assert [one.state for one in records[tasks[0].key].attempts] == ["lost", "ok"]


def test_a_job_that_waits_for_its_gpu_says_so_and_is_not_taken_for_silent(store, monkeypatch):
    monkeypatch.setattr("ncubble.profiling.sweeps.dispatch._SILENT_S", 0.1)
    said = []
    pool = Pool({"a": gpu(1)}, ["waits"])
    work, tasks, records = dispatched(store, pool, [1], limit_s=10.0, tell=said.append)
    work.run()
    assert states(tasks, records) == ["ok"]
    assert said == ["saxpy n=1: waiting for GPU-1: another sweep measures on it"]


def test_a_worker_whose_driver_does_not_answer_is_named(store, monkeypatch):
    monkeypatch.setattr("ncubble.profiling.sweeps.dispatch._TELL_S", 0.0)
    monkeypatch.setattr("ncubble.profiling.sweeps.dispatch.PROBE_LIMIT_S", 0.1)
    said = []
    pool = Pool({"a": gpu(1)})
    pool.probe = lambda worker: None
    work, _, _ = dispatched(store, pool, [1], wait_s=0.1, tell=said.append)
    with pytest.raises(NoWorkerError, match="a: its GPU's driver has not answered"):
        work.run()
    assert "waiting for a worker" in said[0]
