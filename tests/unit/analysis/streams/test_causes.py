"""Each cause of an idle GPU, played: what `ncubble streams` calls it, and that the parts sum to the
idle time."""

import numpy as np
import pytest

from ncubble.analysis.streams import gaps as stream_gaps
from ncubble.analysis.streams.account import accounts, as_json
from ncubble.analysis.streams.engines import work_of
from ncubble.analysis.streams.gaps import by_cause
from ncubble.analysis.streams.queue import Queue
from ncubble.analysis.streams.records import PAGEABLE, PINNED
from tests.helpers.stream_frames import BLOCKING, DEFAULT_STREAM, NON_BLOCKING, Script


def parts(script: Script) -> dict[str, float]:
    """Idle us by cause."""
    account = script.account()
    assert sum(by_cause(account.gaps).values()) == account.idle_ns
    return {name: ns / 1e3 for name, ns in by_cause(account.gaps).items()}


def two_kernels(script: Script, asked: float, start: float) -> Script:
    """A kernel at 10 to 20 us, and one that is asked for and begins as told."""
    script.kernel(0, 10, 20)
    script.kernel(asked, start, start + 10)
    return script


def test_a_kernel_behind_a_copy_of_its_stream_is_a_dependency() -> None:
    script = Script()
    script.kernel(0, 10, 20)
    script.copy((3, 4), 20, 80)
    script.kernel(5, 81, 90)
    assert parts(script) == {"dependency": 61}
    assert "H2D copy" in script.account().gaps[0].evidence


def test_a_kernel_behind_an_event_of_another_stream_is_a_dependency_on_it() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.copy((3, 4), 12, 70, stream=2)
    script.event(5, stream=2, number=9)
    script.wait(6, stream=1, number=9)
    script.kernel(8, 71, 90, stream=1)
    assert parts(script) == {"dependency": 51}
    assert "an event behind an H2D copy of stream 2" in script.account().gaps[0].evidence


def test_an_event_that_was_recorded_before_the_copy_is_not_waited_for() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.event(2.5, stream=2, number=9)
    script.copy((3, 4), 12, 70, stream=2)
    script.wait(6, stream=1, number=9)
    script.kernel(8, 40, 90, stream=1)
    assert parts(script) == {"launch_gap": 20}


def test_a_copy_that_waits_for_its_engine_is_a_dependency_with_the_engine_named() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.copy((3, 4), 12, 50, stream=2)
    script.copy((4, 5), 50, 80, stream=1)
    script.kernel(6, 80, 90, stream=1)
    assert parts(script) == {"dependency": 60}
    assert {gap.cause for gap in script.account().gaps} == {"dependency"}


ALLOCATING = (
    *("cudaMalloc_v3020", "cudaFree_v3020", "cuMemAllocFromPoolAsync", "cudaMallocHost_v3020", "cuMemHostAlloc"),
    *("cudaHostRegister_v4000", "cuMemFree_v2"),
)


@pytest.mark.parametrize("name", ALLOCATING)
def test_a_host_that_allocates_when_it_should_queue_is_an_allocation_stall(name: str) -> None:
    script = Script()
    script.call(name, 21, 91)
    two_kernels(script, 92, 100)
    assert parts(script) == {"allocation": 70, "launch_gap": 10}


def test_a_copy_to_pageable_memory_that_keeps_the_host_is_named() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.copy((3, 90), 22, 88, stream=2, up=False, pageable=True)
    script.kernel(91, 95, 99, stream=1)
    found = parts(script)
    assert found == {"pageable_copy": 75}
    assert script.account().gaps[0].cause == "pageable_copy"


def test_a_pageable_upload_in_the_own_stream_is_no_plain_dependency() -> None:
    script = Script()
    script.kernel(0, 10, 20)
    script.copy((3, 80), 21, 82, pageable=True)
    script.kernel(81, 85, 99)
    assert script.account().gaps[0].cause == "pageable_copy"


def test_a_kernel_of_a_blocking_stream_behind_work_of_the_default_stream_is_serialized() -> None:
    script = Script(s1=BLOCKING)
    script.kernel(0, 10, 20, stream=1)
    script.copy((3, 4), 20, 80, stream=DEFAULT_STREAM, up=False)
    script.kernel(6, 81, 90, stream=1)
    assert parts(script) == {"default_stream": 61}


def test_a_stream_that_does_not_block_is_not_serialized_with_the_default_stream() -> None:
    script = Script(s1=NON_BLOCKING)
    script.kernel(0, 10, 20, stream=1)
    script.copy((3, 4), 20, 80, stream=DEFAULT_STREAM, up=False)
    script.kernel(6, 60, 90, stream=1)
    assert parts(script) == {"launch_gap": 40}


def test_work_on_the_default_stream_waits_for_blocking_streams() -> None:
    script = Script(s1=BLOCKING)
    script.kernel(0, 10, 20, stream=DEFAULT_STREAM)
    script.copy((3, 4), 20, 80, stream=1)
    script.kernel(6, 81, 90, stream=DEFAULT_STREAM)
    assert script.account().gaps[0].cause == "default_stream"


def test_a_download_between_kernels_of_the_default_stream_serializes_them() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=DEFAULT_STREAM)
    script.copy((3, 4), 20, 80, stream=DEFAULT_STREAM, up=False)
    script.kernel(6, 81, 90, stream=DEFAULT_STREAM)
    assert script.account().gaps[0].cause == "default_stream"


def test_a_host_that_waits_for_its_download_before_it_queues_is_host_synchronization() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=DEFAULT_STREAM)
    script.copy((3, 82), 20, 80, stream=DEFAULT_STREAM, up=False, name="cudaMemcpy_v3020")
    script.kernel(83, 88, 90, stream=DEFAULT_STREAM)
    assert parts(script) == {"host_sync": 68}


def test_a_host_that_waits_for_an_asynchronous_download_of_the_default_stream_is_host_synchronization() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=DEFAULT_STREAM)
    script.copy((3, 4), 20, 80, stream=DEFAULT_STREAM, up=False)
    script.call("cudaStreamSynchronize_v3020", 5, 82)
    script.kernel(83, 88, 90, stream=DEFAULT_STREAM)
    assert parts(script) == {"host_sync": 68}


def test_a_thread_that_waits_for_its_download_holds_up_no_other_thread() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=DEFAULT_STREAM)
    script.copy((3, 82), 20, 80, stream=DEFAULT_STREAM, up=False, name="cudaMemcpy_v3020")
    correlation = script.call("cuLaunchKernel", 83, 85, thread=6)
    script.row("kernel", "square", 88, 90, stream=DEFAULT_STREAM, correlation=correlation, channel=1)
    assert parts(script)["default_stream"] == 60


def test_a_host_that_waits_before_it_queues_is_host_synchronization() -> None:
    script = Script()
    script.call("cudaStreamSynchronize_v3020", 5, 60)
    two_kernels(script, 62, 70)
    assert parts(script) == {"host_sync": 50}


def test_a_wait_is_blamed_for_no_more_than_it_took() -> None:
    script = Script()
    script.call("cudaStreamSynchronize_v3020", 15, 22)
    assert parts(two_kernels(script, 60, 63)) == {"host_sync": 7, "launch_gap": 36}


def test_a_host_that_asks_again_and_again_waits() -> None:
    script = Script()
    for time in range(5, 25, 2):
        script.call("cudaEventQuery_v3020", time, time + 1)
    assert parts(two_kernels(script, 25, 30)) == {"host_sync": 10}


def test_an_upload_that_was_queued_after_a_wait_counts_for_the_wait_as_far_as_it_could_have_run_before() -> None:
    for stream, expected in ((2, {"host_sync": 60}), (1, {"host_sync": 10, "dependency": 50})):
        script = Script(s1=NON_BLOCKING, s2=NON_BLOCKING)
        script.kernel(0, 10, 220, stream=1)
        script.call("cudaDeviceSynchronize_v3020", 50, 222)
        script.copy((223, 225), 230, 279, stream=stream)
        script.kernel(226, 280, 290, stream=stream)
        assert parts(script) == expected


def test_a_kernel_behind_a_kernel_of_its_stream_is_a_launch_gap() -> None:
    script = two_kernels(Script(), 5, 22)
    assert parts(script) == {"launch_gap": 2}
    assert script.account().gaps[0].evidence == "between a kernel and the next in its stream"


def test_a_pool_that_gives_memory_back_in_a_synchronization_is_an_allocation_stall() -> None:
    script = Script()
    waited = script.call("cudaStreamSynchronize_v3020", 5, 60)
    script.row("pool", start=58, end=58, correlation=waited, flags=3)
    assert parts(two_kernels(script, 65, 70)) == {"allocation": 40, "host_sync": 10}


def test_an_upload_that_the_default_stream_held_is_serialized_and_one_that_came_late_is_not() -> None:
    for asked, expected in ((1, (78.5, 41.5)), (60, (60, 60))):
        script = Script()
        script.kernel(0, 10, 20, stream=DEFAULT_STREAM)
        script.copy((0.5, 0.7), 20, 80, stream=DEFAULT_STREAM, up=False)
        script.copy((asked, asked + 0.5), 80, 140, stream=DEFAULT_STREAM)
        script.kernel(asked + 1, 140, 150, stream=DEFAULT_STREAM)
        assert parts(script) == dict(zip(("default_stream", "dependency"), expected, strict=True))


def test_a_wait_for_a_pageable_copy_is_the_copys_doing() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.copy((3, 25), 22, 60, stream=2, pageable=True)
    script.call("cudaStreamSynchronize_v3020", 26, 62)
    script.kernel(63, 65, 70, stream=1)
    assert script.account().gaps[0].cause == "pageable_copy"


def test_a_host_that_is_busy_elsewhere_leaves_a_launch_gap() -> None:
    assert parts(two_kernels(Script(), 90, 95)) == {"launch_gap": 75}


def test_code_that_is_loaded_is_named_in_the_evidence() -> None:
    script = Script()
    script.call("cuModuleLoadData", 20, 80)
    assert "loaded code in cuModuleLoadData" in two_kernels(script, 82, 90).account().gaps[0].evidence


def test_what_nothing_explains_is_unknown_and_not_guessed() -> None:
    script = two_kernels(Script(), 3, 500)
    assert parts(script) == {"unknown": 480}


def test_a_kernel_without_a_call_is_unknown() -> None:
    script = Script()
    script.kernel(0, 10, 20)
    script.row("kernel", "square", 90, 99, stream=1, correlation=0, channel=1)
    assert parts(script) == {"unknown": 70}


def test_downloads_after_the_last_kernel_are_no_further_kernel() -> None:
    script = Script()
    script.kernel(0, 10, 20)
    script.copy((3, 4), 20, 50, up=False)
    assert parts(script) == {"drain": 30}


def test_nodes_of_a_graph_wait_for_each_other() -> None:
    script = Script()
    launched = script.call("cudaGraphLaunch_v10000", 0, 5)
    for stream, start, end in ((1, 10, 20), (2, 20, 90), (1, 91, 99)):
        kind = "copy" if stream == 2 else "kernel"
        script.row(kind, "node", start, end, stream=stream, correlation=launched, graph=4, flags=1, channel=1)
    assert parts(script) == {"dependency": 70, "launch_gap": 1}


def test_a_thread_that_allocates_while_another_ones_kernel_is_queued_is_an_allocation_stall() -> None:
    script = Script()
    script.call("cudaMalloc_v3020", 15, 78, thread=6)
    assert parts(two_kernels(script, 4, 80)) == {"allocation": 58, "launch_gap": 2}


@pytest.mark.parametrize(("memory", "cause"), [(PINNED, "host_sync"), (PAGEABLE, "pageable_copy")])
def test_a_host_that_copies_on_another_device_is_seen_to_wait(memory: int, cause: str) -> None:
    script = Script()
    script.kernel(0, 10, 20)
    number = script.call("cudaMemcpy_v3020", 15, 90)
    script.row("copy", "", 20, 89, context=2, device=1, stream=9, correlation=number, flags=1, source=memory, target=3)
    script.kernel(92, 100, 110)
    first, other = accounts(script.recording())
    assert (first.device, other.device, other.copies) == (0, 1, 1)
    assert first.gaps[0].cause == cause


def test_driver_calls_within_runtime_calls_do_not_count_twice_and_say_why() -> None:
    script = Script()
    script.call("cudaLaunchKernelExC_v11060", 20, 80)
    script.call("cuMemAlloc_v2", 21, 79)
    assert parts(two_kernels(script, 81, 85))["allocation"] == 60


def test_overlap_and_busy_time_are_of_engines() -> None:
    script = Script()
    script.copy((0, 1), 10, 50, stream=1)
    script.kernel(2, 30, 70, stream=2)
    script.copy((4, 5), 40, 110, stream=1, up=False)
    account = script.account()
    told = as_json(account)
    assert {row["engine"]: row["busy_pct"] for row in told["engines"]}["H2D"] == pytest.approx(40)
    overlaps = {frozenset(row["engines"]): row["pct_of_least"] for row in told["overlap"]}
    assert overlaps[frozenset({"H2D", "SMs", "D2H"})] == pytest.approx(25)
    assert told["sm_idle_us"] == 60


def any_script(rng: np.random.Generator, asked_until: float = 200) -> Script:
    """Work and calls as they come, all of them asked for until some time."""
    script = Script(s1=BLOCKING, s2=NON_BLOCKING, s3=NON_BLOCKING)
    for _ in range(30):
        asked, start, stream = rng.uniform(0, asked_until), rng.uniform(0, 300), int(rng.choice([1, 2, 3, 7]))
        if rng.random() < 0.5:
            script.kernel(asked, start, start + rng.uniform(0, 20), stream)
        elif rng.random() < 0.5:
            up, pageable = bool(rng.random() < 0.5), bool(rng.random() < 0.3)
            script.copy((asked, asked + rng.uniform(0, 30)), start, start + 10, stream, up, pageable)
        else:
            name = str(rng.choice(["cudaMalloc", "cudaDeviceSynchronize", "cuEventQuery", "cudaFree"]))
            script.call(name, asked, asked + rng.uniform(0, 60), int(rng.choice([5, 6])))
        if rng.random() < 0.3:
            script.event(asked, stream, 3)
            script.wait(asked + 1, int(rng.choice([1, 2])), 3)
    return script


def test_the_parts_sum_to_the_idle_time_of_any_recording() -> None:
    rng = np.random.default_rng(3)
    for _ in range(6):
        account = any_script(rng).account()
        assert sum(by_cause(account.gaps).values()) == account.idle_ns
        assert all(sum(gap.parts.values()) == gap.ns and gap.evidence for gap in account.gaps)
        busy = account.concurrency.busy_ns.get("SMs", 0.0)
        assert account.idle_ns + busy == pytest.approx(account.span_ns)


def test_gaps_that_need_no_look_at_their_moments_are_told_right(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    quick: set[str] = set()
    behind = Script()
    behind.kernel(0, 10, 20)
    behind.copy((3, 4), 15, 80)
    behind.kernel(5, 81, 90)
    for script in (behind, *(any_script(rng, 200 if turn % 2 else 5) for turn in range(8))):
        rows = script.recording().rows
        work = work_of(rows)
        found = stream_gaps.gaps_of(Queue(work, rows), 0)
        monkeypatch.setattr(stream_gaps, "of_one_cause", lambda queue, kernels, *_: np.full(len(kernels), "", object))
        slow = stream_gaps.gaps_of(Queue(work, rows), 0)
        monkeypatch.undo()
        quick |= {gap.cause for gap in found if gap._kernel and not gap._evidence}
        assert [(gap.parts, gap.evidence) for gap in found] == [(gap.parts, gap.evidence) for gap in slow]
    assert quick == {"launch_gap", "dependency"}
