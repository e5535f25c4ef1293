"""Programs whose streams depend on each other, on a driver that runs a stream as early or as late
as its events allow: a dependency that lacks shows as a wrong result. And the references that
results are held against."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.host import EVENT_GRAPH, KV_LAYERS, WARP_PIPELINE
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


# References.


def test_layers_attend_to_the_tokens_up_to_their_own():
    case = make_case(KV_LAYERS, {"layers": 4}, {"tokens": 5, "batch": 2})
    inputs = draw_inputs(case, 0)
    x = inputs["x"].astype(np.float64)
    for _ in range(4):
        y = np.empty_like(x)
        for token in range(5):
            for batch in range(2):
                for head in range(0, 1024, 64):
                    part = slice(head, head + 64)
                    keys = x[: token + 1, batch, part]
                    weights = np.exp(keys @ x[token, batch, part] / 8)
                    y[token, batch, part] = weights @ keys / weights.sum()
        x = y
    np.testing.assert_allclose(case.reference(inputs, np.array([0, 4]))["y"], x[[0, 4]], atol=1e-12)


def test_a_token_too_few_is_outside_the_tolerance():
    case = make_case(KV_LAYERS, {}, {"tokens": 6, "batch": 2})
    inputs = draw_inputs(case, 0)
    right = case.reference(inputs, np.array([5]))["y"]
    less = case.reference({"x": np.concatenate([inputs["x"][:4], inputs["x"][5:]])}, np.array([4]))["y"]
    assert (np.abs(right - less) > case.tolerance.absolute).mean() > 0.9


@pytest.mark.parametrize("work", [512, 2048])
def test_a_step_too_many_of_the_pipeline_or_an_input_that_lacks_is_seen(work):
    case = make_case(WARP_PIPELINE, {"work": work}, {"n": 4096})
    inputs, rows = draw_inputs(case, 1), np.arange(4096)
    right = case.reference(inputs, rows)["c"]
    without = case.reference({**inputs, "a": np.zeros_like(inputs["a"])}, rows)["c"]
    assert (np.abs(right - without) > case.tolerance.absolute).mean() > 0.9


def test_results_of_the_event_graph_are_of_both_paths():
    case = make_case(EVENT_GRAPH, {}, {"n": 4})
    found = case.reference({"x": np.arange(4), "w": np.ones(4)}, np.array([1, 3]))
    assert found["y"].tolist() == [8, 24] and found["z"].tolist() == [8, 8]


def test_launches_of_a_pipeline_see_a_chunk():
    case = make_case(WARP_PIPELINE, {"chunk": 1}, {"n": 5 * 2**18 + 1024})
    assert (case.launches, case.grid) == (6, (132, 1, 1))
    assert case.grid_on(10) == (10, 1, 1)
