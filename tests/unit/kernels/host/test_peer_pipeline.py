"""The pipeline over two GPUs, on fake ones whose streams run in any order that their events allow:
a missing wait shows as a wrong result."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from ncubble.errors import MeasurementError
from ncubble.kernels.catalog.host import PEER_PIPELINE
from ncubble.kernels.host import driver as two_gpus
from ncubble.kernels.host.driver import GpuPair
from ncubble.kernels.host.peer_pipeline import GUARD, MIB, PeerPipeline
from ncubble.kernels.spec.case import make_case
from tests.helpers.fake_gpu import FakeGpu

ODD = 5 * MIB // 4 + 5  # five chunks of 1 MiB, and five elements


class LatePair:
    """Two GPUs whose streams run only in ``sync``, a step at a time. ``late``: the streams in the
    order in which they are kept waiting; else any."""

    def __init__(self, seed=0, late=()):
        self.memory, self.lanes, self.log = {}, [], []
        self._addresses, self._random, self._late = itertools.count(1 << 20, 1 << 24), np.random.default_rng(seed), late
        self.main = self.lane(0)

    def lane(self, gpu):
        made = SimpleNamespace(gpu=gpu, number=len(self.lanes), queue=[], reached=self.event(gpu))
        self.lanes.append(made)
        return made

    def event(self, gpu):
        return SimpleNamespace(gpu=gpu, asked=0, happened=0)

    def record(self, event, lane):
        assert event.gpu == lane.gpu, "an event is recorded by streams of its own GPU"
        event.asked += 1
        number = event.asked

        def happen():
            event.happened = number

        lane.queue.append((lambda: True, happen))

    def follow(self, lane, event):
        number = event.asked
        lane.queue.append((lambda: event.happened >= number, lambda: None))

    def fork(self, lanes):
        self.record(self.main.reached, self.main)
        for lane in lanes:
            self.follow(lane, self.main.reached)

    def join(self, lanes):
        for lane in lanes:
            self.record(lane.reached, lane)
            self.follow(self.main, lane.reached)

    def reserve(self, gpu, nbytes):
        place = gpu, next(self._addresses)
        self.memory[place[1]] = np.zeros(nbytes, np.uint8)
        return place

    def _bytes(self, pointer, nbytes):
        base = max(address for address in self.memory if address <= pointer)
        return self.memory[base][pointer - base :][:nbytes]

    def copy(self, lane, target, source, nbytes):
        def move():
            self.log.append("copy")
            np.copyto(self._bytes(target[1], nbytes), self._bytes(source[1], nbytes))

        assert (source[0], target[0]) == (0, 1)
        lane.queue.append((lambda: True, move))

    def launch(self, lane, kernel, grid, block, x, y, count):
        assert (grid - 1) * 4 * block < count <= grid * 4 * block

        def double():
            self.log.append(f"kernel {lane.gpu}")
            source = self._bytes(x, 4 * count).view(np.float32)
            np.multiply(source, 2, out=self._bytes(y, 4 * count).view(np.float32))

        lane.queue.append((lambda: True, double))

    def fill(self, place, byte, nbytes):
        self._bytes(place[1], nbytes).fill(byte)

    def upload(self, place, host):
        np.copyto(self._bytes(place[1], host.nbytes), host)

    def download(self, place, host):
        self.sync()
        np.copyto(host, self._bytes(place[1], host.nbytes))

    def count(self, begins):
        self.log.append("counts" if begins else "no longer")

    def sync(self):
        while any(lane.queue for lane in self.lanes):
            free = [lane for lane in self.lanes if lane.queue and lane.queue[0][0]()]
            assert free, "streams synchronize with each other"
            ranked = [lane for lane in free if lane.number not in self._late] or free
            ranked[self._random.integers(len(ranked))].queue.pop(0)[1]()


def run(pair, n=ODD, seed=0, **parameters):
    made = PeerPipeline(make_case(PEER_PIPELINE, {"chunk": 1, **parameters}, {"n": n}), "kernel", pair)
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    for _ in range(2):  # the second run finds events and buffers as the first left them
        np.copyto(made.arrays["x"], x.view(np.uint8))
        made.arrays["y"].fill(0)
        made.poison()
        made.run()
        result = made.arrays["y"]
        assert (result[-GUARD:] == 0xFF).all()
        np.testing.assert_array_equal(result[:-GUARD].view(np.float32), 4 * x)
    return made


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("via", ["copy", "read", "write"])
def test_every_element_arrives_in_whichever_order_streams_run(via, slots, overlap):
    for seed, late in itertools.product(range(2), ((), (1,), (2,), (3,))):
        run(LatePair(seed, late), via=via, slots=slots, overlap=overlap)


@pytest.mark.parametrize("n", [1, MIB // 4, ODD])
def test_any_number_of_elements_is_handed_over(n):
    run(LatePair(), n)


class Forgetful(LatePair):
    """Forgets the n-th kind of wait: one event for all its recordings."""

    def __init__(self, forgotten, late):
        super().__init__(0, late)
        self._forgotten, self._made = forgotten, itertools.count()

    def event(self, gpu):
        made = super().event(gpu)
        made.number = next(self._made) if hasattr(self, "_made") else -1
        return made

    def follow(self, lane, event):
        if event.number not in self._forgotten:
            super().follow(lane, event)


# Events of a pipeline in the order of their making: one of each of three streams, then by slot.
MADE, COPIED, USED = range(3, 5), range(5, 7), range(7, 9)


@pytest.mark.parametrize(
    ("via", "forgotten", "late"),
    [
        ("copy", MADE, (1,)),
        ("copy", COPIED, (2,)),
        ("copy", USED, (3,)),
        ("read", MADE, (1,)),
        ("read", USED, (3,)),
        ("write", MADE, (1,)),
        ("write", USED, (3,)),
    ],
)
def test_no_wait_can_be_left_out(via, forgotten, late):
    with pytest.raises(AssertionError):
        run(Forgetful(forgotten, late), via=via)


def test_without_overlap_the_gpus_take_turns():
    pair = LatePair(late=(2, 3))
    run(pair, overlap=0)
    assert pair.log == ["counts", "no longer", *["kernel 0", "copy", "kernel 1"] * 6] * 2


def test_a_ring_lets_the_producer_run_ahead_by_its_slots():
    pair = LatePair(late=(2, 3))
    run(pair, slots=2)
    assert pair.log[2:6] == ["kernel 0", "kernel 0", "copy", "kernel 0"]


@pytest.mark.parametrize("step", ["produce", "copy", "consume"])
def test_a_step_of_two_gpus_can_run_alone(step):
    pair = LatePair()
    made = run(pair)
    pair.log.clear()
    made.run((step,))
    pair.sync()
    assert set(pair.log) == {{"produce": "kernel 0", "copy": "copy", "consume": "kernel 1"}[step]}


def driver_of(monkeypatch, count, reachable=True):
    answers = {
        "cuDeviceGetCount": count,
        "cuDeviceGet": 0,
        "cuDevicePrimaryCtxRetain": 0,
        "cuDeviceCanAccessPeer": int(reachable),
    }
    monkeypatch.setattr(two_gpus, "call_driver", lambda name, *_: (answers.get(name, 0),))


def test_one_gpu_is_refused_with_what_to_do(monkeypatch):
    driver_of(monkeypatch, 1)
    with pytest.raises(MeasurementError, match="two GPUs are needed; visible: 1") as refused:
        GpuPair(FakeGpu())
    assert "CUDA_VISIBLE_DEVICES" in str(refused.value.remedy)


def test_gpus_that_cannot_reach_each_other_are_refused(monkeypatch):
    pytest.importorskip("cuda.bindings")
    driver_of(monkeypatch, 2, reachable=False)
    with pytest.raises(MeasurementError, match="GPU 0 cannot access the memory of GPU 1"):
        GpuPair(FakeGpu())


def test_launches_are_counted_on_both_gpus():
    assert make_case(PEER_PIPELINE, {"chunk": 1}, {"n": ODD}).launches == 12
