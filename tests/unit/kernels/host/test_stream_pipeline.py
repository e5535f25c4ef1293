"""The host's pipeline on a driver whose work is done as late as it may be: a missing wait shows as
a wrong result."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.catalog.host import PIPELINE_LEVELS, SHARED, STREAM_PIPELINE, WARP_PIPELINE
from ncubble.kernels.host import stream_pipeline
from ncubble.kernels.host.driver import KEEP_ALL, Signal
from ncubble.kernels.host.stream_pipeline import GUARD, MIB, StreamPipeline
from ncubble.kernels.run import launch
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.spec.case import make_case
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.late_driver import LateDriver

ODD = 3 * MIB // 4 + 5  # three chunks of 1 MiB, and five elements


def pipeline(n=ODD, spec=STREAM_PIPELINE, ring="slots", **parameters):
    driver = LateDriver()
    case = make_case(spec, {"chunk": 1, "streams": 2, **parameters}, {"n": n})
    return StreamPipeline(case, "kernel", driver, case.parameters[ring]), driver


def run(made, driver, seed=0, **options):
    """The inputs and the output of a run."""
    *inputs, output = made.arrays.values()
    for number, each in enumerate(inputs):
        draws = np.random.default_rng([seed, number])
        each.view(np.float32)[:] = draws.standard_normal(each.size // 4, dtype=np.float32)
    output.fill(0xFF)
    made.run(**options)
    driver.drain()
    return sum(each.view(np.float32) for each in inputs), output[:-GUARD].view(np.float32)


@pytest.mark.parametrize("n", [1, MIB // 4, ODD])
@pytest.mark.parametrize("alloc", ["reserved", "async", "sync"])
@pytest.mark.parametrize("memory", ["pinned", "pageable", "staged"])
@pytest.mark.parametrize("kind", ["nonblocking", "blocking", "default"])
def test_every_element_comes_back_doubled(memory, alloc, kind, n):
    made, driver = pipeline(n, memory=memory, alloc=alloc, stream_kind=kind, slots=2)
    for seed in range(3):
        x, y = run(made, driver, seed)
        np.testing.assert_array_equal(y, 2 * x)
        assert (made.arrays["y"][-GUARD:] == 0xFF).all()


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("slots", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("streams", [1, 3, 8])
def test_a_pinned_ring_of_any_size_serves_any_number_of_streams(streams, slots, threads):
    made, driver = pipeline(memory="staged", streams=streams, slots=slots, threads=threads)
    for seed in range(2):
        x, y = run(made, driver, seed)
        np.testing.assert_array_equal(y, 2 * x)


def test_slots_are_copied_by_several_threads_at_one_time(monkeypatch):
    """Each of two copies waits for the other to begin: one thread alone would wait forever."""
    made, driver = pipeline(memory="staged", slots=2, threads=2)
    meet, copy = threading.Barrier(2), np.copyto
    patched = {**vars(np), "copyto": lambda *pair: (meet.wait(10), copy(*pair))}
    monkeypatch.setattr(stream_pipeline, "np", SimpleNamespace(**patched))
    x, y = run(made, driver)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("n", [1024, MIB // 4, ODD // 1024 * 1024])
@pytest.mark.parametrize("alloc", ["reserved", "async", "sync"])
@pytest.mark.parametrize("memory", ["pinned", "staged"])
def test_a_pipeline_of_two_inputs_brings_both_to_the_kernel(memory, alloc, n):
    made, driver = pipeline(n, WARP_PIPELINE, "ring", memory=memory, alloc=alloc)
    both, c = run(made, driver)
    np.testing.assert_array_equal(c, 2 * both)
    assert (made.arrays["c"][-GUARD:] == 0xFF).all()


@pytest.mark.parametrize("alloc", ["reserved", "async"])
def test_every_chunk_brings_its_part_of_a_shorter_array_and_runs_all_layers(alloc):
    parameters = {"chunk": 1, "streams": 2, "layers": 8, "alloc": alloc}
    case, driver = make_case(PIPELINE_LEVELS, parameters, {"n": 3 * MIB // 4 + 4096}), LateDriver()
    made = StreamPipeline(case, "kernel", driver, 0)
    a, b = (made.arrays[name].view(np.float32) for name in "ab")
    assert a.size == SHARED * b.size
    assert [[one.size for one in chunk.sources] for chunk in made._chunks][2:] == [[2**18, 2**16], [4096, 1024]]
    assert np.shares_memory(made._chunks[3].sources[1], b[-1024:])
    made.run()
    driver.drain()
    assert len(driver.words("kernel")) == 8 * len(made._chunks)


@pytest.mark.parametrize("alloc", ["reserved", "async"])
def test_a_graph_is_made_once_and_replayed_with_one_launch(alloc):
    made, driver = pipeline(MIB, WARP_PIPELINE, "ring", alloc=alloc, launch="graph")
    for seed in range(3):
        if alloc == "async":
            driver.alive |= set(driver.memory)  # the graph owns what it allocates
        both, c = run(made, driver, seed)
        np.testing.assert_array_equal(c, 2 * both)
    assert len(driver.words("capture")) == 1


@pytest.mark.parametrize("setting", [{"memory": "staged"}, {"memory": "pageable"}, {"alloc": "sync"}])
def test_a_graph_of_work_of_the_host_is_refused(setting):
    with pytest.raises(UsageError, match="replays only device work"):
        make_case(WARP_PIPELINE, {"launch": "graph", **setting})


def test_chunks_take_the_streams_in_turn_which_wait_for_the_timed_one_and_it_for_them():
    made, driver = pipeline(streams=3)
    run(made, driver)
    steps = driver.words("upload", "kernel", "download")
    assert steps == [(word, lane) for lane in (1, 2, 3, 1) for word in ("upload", "kernel", "download")]
    assert driver.log[-1] == ("join", (1, 2, 3))
    assert driver.words("fork", "upload")[0] == ("fork", (1, 2, 3))


def test_reserved_memory_is_made_once_for_each_stream():
    made, driver = pipeline(streams=2)
    assert len(driver.words("allocate")) == 4
    run(made, driver)
    run(made, driver)
    assert len(driver.words("allocate")) == 4 and not driver.words("free")


@pytest.mark.parametrize(("threshold", "nbytes"), [("zero", 0), ("max", KEEP_ALL)])
def test_stream_ordered_memory_is_given_back_in_the_order_of_the_stream(threshold, nbytes):
    made, driver = pipeline(alloc="async", threshold=threshold)
    run(made, driver)
    assert made.buffers.pool.threshold == nbytes
    assert Counter(driver.words("allocate_async", "free_async")) == {
        **{("allocate_async", lane): 4 for lane in (1, 2)},
        **{("free_async", lane): 4 for lane in (1, 2)},
    }
    assert not driver.alive and not driver.words("settle")


def test_memory_that_the_cpu_frees_is_freed_after_its_chunk():
    made, driver = pipeline(alloc="sync")
    run(made, driver)
    assert not driver.alive
    words = [word for word, _ in driver.words("settle", "free", "allocate")]
    assert words[:4] == ["allocate"] * 4
    freed = [index for index, word in enumerate(words) if word == "free"]
    assert len(freed) == 8
    assert all("settle" in words[index - 2 : index] for index in freed)


def test_a_stray_operation_follows_every_chunk_and_the_default_stream_is_one_stream():
    made, driver = pipeline(stray=1)
    run(made, driver)
    assert [word for word, _ in driver.words("download", "stray")] == ["download", "stray"] * 4
    made, driver = pipeline(stream_kind="default", streams=4)
    run(made, driver)
    assert {lane for _, lane in driver.words("upload", "kernel", "download")} == {0}


@pytest.mark.parametrize("step", ["upload", "kernel", "download"])
def test_a_step_can_run_alone(step):
    made, driver = pipeline()
    run(made, driver, steps=(step,))
    assert {word for word, _ in driver.words("upload", "kernel", "download")} == {step}


def test_a_chunk_that_no_kernel_wrote_is_not_a_number():
    made, driver = pipeline()
    run(made, driver)
    made.poison()
    _, y = run(made, driver, steps=("upload", "download"))
    assert np.isnan(y).all()


def test_a_signal_ends_a_wait_and_its_absence_is_an_error():
    signal = Signal()
    ctypes.CDLL(None).sem_post(signal._semaphore)
    signal.wait(1)
    with pytest.raises(MeasurementError, match=r"did not reach its callback within 0\.05 s"):
        signal.wait(0.05)


def test_a_prepared_pipeline_is_verified_like_any_kernel():
    made, driver = pipeline()
    gpu = FakeGpu()
    gpu.sync = driver.drain
    case = make_case(STREAM_PIPELINE, {"chunk": 1, "streams": 2}, {"n": ODD})
    ready = Prepared(case, gpu, None, (), made.run, program=made)
    x = np.arange(ODD, dtype=np.float32)
    ready.upload({"x": x})
    ready.poison()
    assert np.isnan(ready.outputs()[0]["y"]).all()
    ready.run()
    outputs, overrun = ready.outputs()
    np.testing.assert_array_equal(outputs["y"], 2 * x)
    assert overrun == ()
    made.arrays["y"][-1] = 0
    assert ready.outputs()[1] == ("y",)


@pytest.fixture
def built(monkeypatch):
    """The cases that were compiled; nothing is."""
    seen = []

    def build(case, arch, more):
        seen.append(case)
        resources = SimpleNamespace(registers=14, smem_static_B=0, spill_B=0)
        facts = {"resources": resources, "sha256": "0", "warnings": ()}
        return SimpleNamespace(cubin=b"\x7fELF", compiler="nvcc", flags=(), **facts)

    monkeypatch.setattr(launch, "build", build)
    monkeypatch.setattr(launch, "code_hash", lambda cubin: "0")
    return seen


def own_program(folder, text):
    (folder / "own.py").write_text(text)
    return make_case(replace(STREAM_PIPELINE, folder=folder, program="own.py"), {"work": 64})


PROGRAM = "from types import SimpleNamespace\nmake = lambda *_: SimpleNamespace(run=None)\n"


def test_one_binary_serves_all_settings_of_the_host_where_it_names_those_of_the_device(built, tmp_path):
    ready = prepare(own_program(tmp_path, f'COMPILED = ("work",)\n{PROGRAM}'), FakeGpu())
    assert built[0].defines == ("WORK=64",)
    assert ready.build.registers == 14 and ready.case.parameters["streams"] == 4
    prepare(own_program(tmp_path, PROGRAM), FakeGpu())
    assert {"WORK=64", "STREAMS=4"} <= set(built[1].defines)


def test_a_program_without_make_is_refused(built, tmp_path):
    with pytest.raises(UsageError, match=r"own\.py: no function make"):
        prepare(own_program(tmp_path, ""), FakeGpu())
    assert not built


def test_launches_and_their_grid_follow_the_chunks():
    case = make_case(STREAM_PIPELINE, {"chunk": 1}, {"n": ODD})
    assert case.launches == 4
    assert case.grid == (MIB // 4 // 1024, 1, 1)
    assert make_case(STREAM_PIPELINE, {"chunk": 64}, {"n": 5}).grid == (1, 1, 1)
