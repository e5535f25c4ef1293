"""The host's pipeline on a real GPU: right for every setting, and fast where nothing serializes
it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.host.driver import HostDriver
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu
NAME = "stream_pipeline"
SIZES = (1, 2**20 + 3, 2**22)


def verified(parameters, n, seed=None):
    right(NAME, {"chunk": 1, "work": 64, **parameters}, {"n": n}, seed)


def right(name, parameters, shape, seed=None):
    outcome = execute(KernelRequest(name, parameters, shape, seed=seed, iterations=0, launches=2))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("alloc", ["reserved", "async", "sync"])
@pytest.mark.parametrize("memory", ["pinned", "pageable", "staged"])
def test_memory_of_every_kind(memory, alloc, n):
    verified({"memory": memory, "alloc": alloc}, n)


@pytest.mark.parametrize("streams", range(1, 9))
def test_every_number_of_streams(streams):
    verified({"streams": streams}, 2**22 + 1, streams)


@pytest.mark.parametrize("stray", [0, 1])
@pytest.mark.parametrize("kind", ["nonblocking", "blocking", "default"])
def test_streams_of_every_kind(kind, stray):
    verified({"stream_kind": kind, "stray": stray}, 2**22 + 1)


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 8])
def test_pinned_rings_of_every_size(slots):
    verified({"memory": "staged", "slots": slots}, 2**22 + 1)


@pytest.mark.parametrize("threshold", ["zero", "max"])
def test_pools_of_either_threshold(threshold):
    verified({"alloc": "async", "threshold": threshold}, 2**22 + 1)


@pytest.mark.parametrize("work", [0, 64, 512, 2048])
def test_every_amount_of_work(work):
    verified({"work": work}, 2**20)


@pytest.mark.parametrize("chunk", [2, 4, 8, 16, 32, 64])
def test_every_size_of_a_chunk(chunk):
    verified({"chunk": chunk}, 5_000_001)


@pytest.mark.parametrize("threads", [1, 2, 8, 16])
def test_pinned_rings_that_several_threads_copy(threads):
    verified({"memory": "staged", "slots": 8, "threads": threads}, 2**22 + 1)


PIPES = [
    *({"alloc": alloc, "memory": memory} for alloc in ("reserved", "async", "sync") for memory in ("pinned", "staged")),
    *({"alloc": alloc, "launch": "graph"} for alloc in ("reserved", "async")),
    *({"memory": "pageable"}, {"streams": 1}, {"streams": 8}, {"roles": "fused"}, {"slots": 1}, {"work": 2048}),
]


@pytest.mark.parametrize("n", [1024, 2**20, 5 * 2**18 + 1024])
@pytest.mark.parametrize("parameters", PIPES, ids=str)
def test_the_pipeline_of_warps(parameters, n):
    right("warp_pipeline", {"chunk": 1, **parameters}, {"n": n})


LEVELS = [
    {"streams": 1, "roles": "fused", "slots": 1, "cluster": 1},
    {"streams": 3, "roles": "pipelines", "slots": 2, "cluster": 1},
    *({"streams": 3, "slots": slots, "cluster": cluster} for slots in (1, 2, 4) for cluster in (1, 2, 4)),
    {"slots": 2, "ctas": 4},
]


@pytest.mark.parametrize("n", [4096, 2**20, 5 * 2**18 + 4096])
@pytest.mark.parametrize("parameters", LEVELS, ids=str)
def test_every_level_of_the_pipeline(parameters, n):
    right("pipeline_levels", {"chunk": 1, "layers": 8, **parameters}, {"n": n})


@pytest.mark.parametrize("order", ["events", "host", "one"])
def test_streams_in_the_order_of_their_events(order):
    right("event_graph", {"order": order}, {"n": 100_003})


@pytest.mark.parametrize("priority", ["same", "high"])
def test_streams_of_two_priorities(priority):
    right("stream_priority", {"priority": priority}, {"n": 2**20 + 4})


@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("grow", ["reserved", "async", "sync"])
def test_layers_whose_caches_grow(grow, streams):
    right("kv_layers", {"grow": grow, "streams": streams}, {"tokens": 19, "batch": 3})


@pytest.fixture
def pipelines():
    """Makes a pipeline of given parameters; its second call measures wall time of whole runs in
    milliseconds."""
    gpu = Gpu.open()

    def make(**parameters):
        case = make_case(find_spec(NAME), parameters, {"n": 2**24})
        prepared = prepare(case, gpu)
        prepared.upload(draw_inputs(case, 0))

        def milliseconds(*steps):
            spans = []
            for _ in range(7):
                start = time.perf_counter()
                prepared.program.run(*steps)
                gpu.sync()
                spans.append(1e3 * (time.perf_counter() - start))
            return float(np.median(spans[2:]))

        return prepared, milliseconds

    yield make
    gpu.close()


def test_pinned_memory_and_streams_overlap_what_one_stream_runs_in_a_row(pipelines):
    _, many = pipelines(streams=4)
    _, one = pipelines(streams=1)
    assert many() < 0.75 * one()


def test_the_default_stream_overlaps_nothing(pipelines):
    _, one = pipelines(streams=1)
    _, default = pipelines(stream_kind="default")
    _, stray = pipelines(stream_kind="blocking", stray=1)
    alone = one()
    assert default() > 0.9 * alone
    assert stray() > 0.9 * alone


def test_pageable_memory_is_slower_than_pinned(pipelines):
    _, pinned = pipelines()
    _, pageable = pipelines(memory="pageable")
    assert pinned() < 0.75 * pageable()


def test_a_pinned_ring_with_threads_is_faster_than_pageable_memory(pipelines):
    _, staged = pipelines(memory="staged", slots=8, threads=8)
    _, pageable = pipelines(memory="pageable")
    assert staged() < 0.75 * pageable()


@pytest.mark.parametrize(("threshold", "kept"), [("zero", False), ("max", True)])
def test_the_release_threshold_decides_what_a_pool_keeps(pipelines, threshold, kept):
    prepared, milliseconds = pipelines(alloc="async", threshold=threshold)
    milliseconds()
    assert bool(prepared.program.buffers.pool.reserved) is kept


def test_a_signal_says_that_a_stream_got_there():
    gpu = Gpu.open()
    try:
        driver = HostDriver(gpu)
        (lane,) = driver.lanes("nonblocking", 1)
        signal = driver.signal()
        signal.post(lane)
        signal.wait(10)
    finally:
        gpu.close()
