"""Programs whose streams depend on each other, on a driver that runs a stream as early or as late
as its events allow: a dependency that lacks shows as a wrong result."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.host.event_graph import EventGraph
from ncubble.kernels.host.kv_layers import KvLayers
from ncubble.kernels.host.stream_priority import URGENT, StreamPriority
from ncubble.kernels.run.verify import GUARD, draw_inputs
from ncubble.kernels.spec.case import make_case
from tests.helpers.late_driver import LateDriver


class OrderedDriver(LateDriver):
    """Runs its streams in the order of their numbers, or against it, each until an event stops
    it."""

    main = "main"

    def __init__(self, newest_first, kernel):
        super().__init__()
        self._kernel, self._newest_first = kernel, newest_first
        self._queues, self._marks, self._happened = defaultdict(deque), itertools.count(), set()
        self._numbers = itertools.count(1)

    def lanes(self, kind, count):
        return [next(self._numbers) for _ in range(count)]

    def later(self, lane, word, work=lambda: None):
        self.log.append((word, lane))
        self._queues[lane].append(work)

    def mark(self, lane):
        event = next(self._marks)
        self.later(lane, "mark", lambda: self._happened.add(event))
        return event

    moment = mark

    def follow(self, lane, event):
        self._queues[lane].append(event)

    def fork(self, lanes):
        event = self.mark(self.main)
        for lane in lanes:
            self.follow(lane, event)

    def join(self, lanes):
        for lane in lanes:
            self.follow(self.main, self.mark(lane))

    def settle(self, event):
        """Runs no more than it must."""
        self.log.append(("settle", event))
        while event not in self._happened:
            assert self._turn(), "the host waits forever"

    def drain(self):
        while self._turn():
            pass

    def _turn(self):
        """One piece of work of the first stream that may go on."""
        for lane in sorted(self._queues, key=str, reverse=self._newest_first):
            queue = self._queues[lane]
            while queue and isinstance(queue[0], int) and queue[0] in self._happened:
                queue.popleft()
            if queue and not isinstance(queue[0], int):
                queue.popleft()()
                return True
        return False

    def prioritized(self, highest):
        return "high" if highest else "low"

    def copy(self, lane, target, source, nbytes):
        def move():
            into, out = self._place(target, nbytes), self._place(source, nbytes)
            into[:] = out

        self.later(lane, "copy", move)

    def _place(self, pointer, nbytes):
        """Bytes within an allocation."""
        base = max(start for start in self.alive if start <= pointer)
        assert pointer + nbytes <= base + len(self.memory[base]), "beyond what was allocated"
        return self.memory[base][pointer - base :][:nbytes]

    _bytes = _place

    def launch(self, lane, kernel, grid, block, *arguments):
        self.later(lane, "kernel", lambda: self._kernel(self._place, grid, *arguments))


def double(place, grid, x, y, count):
    place(y, 4 * count).view(np.float32)[:] = 2 * place(x, 4 * count).view(np.float32)


def attend(place, grid, x, cache, y, tokens, batch):
    """A token's attention to the rows of its cache, per sequence and head."""
    size = 4 * batch * 1024
    assert grid == min(batch, 64)
    keys = place(cache, tokens * size).view(np.float32).reshape(tokens, -1, 64).astype(np.float64)
    query = place(x, size).view(np.float32).reshape(-1, 64)
    weights = np.exp(np.einsum("hd,thd->ht", query, keys) / 8)
    mean = np.einsum("ht,thd->hd", weights, keys) / weights.sum(axis=1, keepdims=True)
    place(y, size).view(np.float32)[:] = mean.reshape(-1).astype(np.float32)


def results(program, kernel, name, parameters, shape, newest_first=False):
    """The driver, after two runs on fresh inputs whose results were right; all on the device was
    poisoned before."""
    driver = OrderedDriver(newest_first, kernel)
    case = make_case(find_spec(name), parameters, shape)
    made = program(case, "kernel", driver)
    for seed in range(2):
        inputs = draw_inputs(case, seed)
        for key, value in inputs.items():
            made.arrays[key][:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        for array in case.spec.outputs:
            made.arrays[array.name].fill(0xFF)
        made.poison()
        made.run()
        driver.drain()
        rows = np.arange(case.extent(case.spec.outputs[0])[0])
        for key, right in case.reference(inputs, rows).items():
            came = made.arrays[key][:-GUARD].view(np.float32).reshape(right.shape)
            np.testing.assert_allclose(came, right, atol=2e-5)
            assert (made.arrays[key][-GUARD:] == 0xFF).all()
    return driver


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("order", ["events", "host", "one"])
def test_b_and_d_come_after_what_they_need_in_every_order(order, newest_first):
    results(EventGraph, double, "event_graph", {"order": order}, {"n": 100}, newest_first)


def test_without_its_events_the_graph_is_wrong(monkeypatch):
    monkeypatch.setattr(EventGraph, "_after", lambda *_: None)
    with pytest.raises(AssertionError):
        results(EventGraph, double, "event_graph", {}, {"n": 100}, newest_first=True)


def test_events_let_the_host_queue_all_without_waiting():
    waits = {
        order: len(results(EventGraph, double, "event_graph", {"order": order}, {"n": 8}).words("settle"))
        for order in ("events", "one", "host")
    }
    assert waits == {"events": 0, "one": 0, "host": 4}


@pytest.mark.parametrize("n", [2**17, 2**17 + 4, 2**18 + 1000])
@pytest.mark.parametrize("priority", ["same", "high"])
def test_every_element_is_in_the_large_kernel_or_in_the_small_one(priority, n):
    driver = results(StreamPriority, double, "stream_priority", {"priority": priority}, {"n": n})
    lanes = [lane for word, lane in driver.log if word == "kernel"][:5]
    assert lanes == ["low"] * 4 + ["high" if priority == "high" else "low"]


def test_too_little_work_to_be_late_is_refused():
    with pytest.raises(UsageError, match="below 131072"):
        make_case(find_spec("stream_priority"), {}, {"n": 4 * URGENT})


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("grow", ["reserved", "async", "sync"])
def test_tokens_go_through_all_layers_whatever_stream_runs_first(grow, streams, newest_first):
    shape = {"tokens": 5, "batch": 2}
    driver = results(KvLayers, attend, "kv_layers", {"grow": grow, "streams": streams}, shape, newest_first)
    between, runs = 5, 2
    made = 4 if grow == "reserved" else runs * 5 * 4  # once for each layer, or for each of its tokens
    assert len(driver.words("allocate")) == between + made


def test_caches_that_grow_are_given_back():
    for grow in ("async", "sync"):
        driver = results(KvLayers, attend, "kv_layers", {"grow": grow}, {"tokens": 3, "batch": 1})
        assert len(driver.alive) == 5  # what lies between the layers


def test_a_token_waits_for_the_stream_before(monkeypatch):
    monkeypatch.setattr(OrderedDriver, "follow", lambda *_: None)
    with pytest.raises((AssertionError, ValueError)):
        results(KvLayers, attend, "kv_layers", {"grow": "reserved"}, {"tokens": 3, "batch": 1}, newest_first=True)
