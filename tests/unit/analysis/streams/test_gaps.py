"""Each cause of an idle GPU, played: what `ncubble streams` calls it, and that the parts sum to the
idle time."""

import numpy as np
import pytest

from ncubble.analysis.streams.account import accounts
from ncubble.analysis.streams.gaps import by_cause
from ncubble.analysis.streams.recording import PAGEABLE, PINNED
from tests.helpers.stream_frames import BLOCKING, DEFAULT_STREAM, NON_BLOCKING, Script

SYNC, COPY, DEFAULT = "cudaStreamSynchronize_v3020", "cudaMemcpy_v3020", {"stream": DEFAULT_STREAM}


def first(**streams: int) -> Script:
    """A kernel at 10 to 20 us in stream 1."""
    return Script(**streams).kernel(0, 10, 20)


def on_default() -> Script:
    """A kernel at 10 to 20 us in the legacy default stream."""
    return Script().kernel(0, 10, 20, **DEFAULT)


def polled() -> Script:
    """A host that asks for an event from 5 to 24 us, again and again."""
    script = first()
    for time in range(5, 25, 2):
        script.calls("cudaEventQuery_v3020", time, time + 1)
    return script


CASES = {
    "behind a copy of its stream": (
        first().copy((3, 4), 20, 80).kernel(5, 81, 90),
        {"dependency": 61},
    ),
    "behind an event of another stream": (
        first().copy((3, 4), 12, 70, stream=2).event(5, 2, 9).wait(6, 1, 9).kernel(8, 71, 90),
        {"dependency": 51},
    ),
    "an event that was recorded before the copy is not waited for": (
        first().event(2.5, 2, 9).copy((3, 4), 12, 70, stream=2).wait(6, 1, 9).kernel(8, 40, 90),
        {"launch_gap": 20},
    ),
    "behind a copy that waits for its engine": (
        first().copy((3, 4), 12, 50, stream=2).copy((4, 5), 50, 80).kernel(6, 80, 90),
        {"dependency": 60},
    ),
    "a pageable copy that keeps the host": (
        first().copy((3, 90), 22, 88, stream=2, up=False, pageable=True).kernel(91, 95, 99),
        {"pageable_copy": 75},
    ),
    "behind a pageable upload of its own stream": (
        first().copy((3, 80), 21, 82, pageable=True).kernel(81, 85, 99),
        {"pageable_copy": 65},
    ),
    "the host waits for a pageable copy": (
        first().copy((3, 25), 22, 60, stream=2, pageable=True).calls(SYNC, 26, 62).kernel(63, 65, 70),
        {"pageable_copy": 40, "launch_gap": 3, "host_sync": 2},
    ),
    "a blocking stream behind the default stream": (
        first(s1=BLOCKING).copy((3, 4), 20, 80, **DEFAULT, up=False).kernel(6, 81, 90),
        {"default_stream": 61},
    ),
    "a stream that does not block beside the default stream": (
        first(s1=NON_BLOCKING).copy((3, 4), 20, 80, **DEFAULT, up=False).kernel(6, 60, 90),
        {"launch_gap": 40},
    ),
    "the default stream behind a blocking stream": (
        Script(s1=BLOCKING).kernel(0, 10, 20, **DEFAULT).copy((3, 4), 20, 80).kernel(6, 81, 90, **DEFAULT),
        {"default_stream": 61},
    ),
    "behind a download of the default stream": (
        on_default().copy((3, 4), 20, 80, **DEFAULT, up=False).kernel(6, 81, 90, **DEFAULT),
        {"default_stream": 61},
    ),
    "the host waits for its download before it queues": (
        on_default().copy((3, 82), 20, 80, **DEFAULT, up=False, name=COPY).kernel(83, 88, 90, **DEFAULT),
        {"host_sync": 68},
    ),
    "the host waits for an asynchronous download": (
        on_default().copy((3, 4), 20, 80, **DEFAULT, up=False).calls(SYNC, 5, 82).kernel(83, 88, 90, **DEFAULT),
        {"host_sync": 68},
    ),
    "a thread that waits for its download holds up no other thread": (
        on_default()
        .copy((3, 82), 20, 80, **DEFAULT, up=False, name=COPY)
        .kernel(83, 88, 90, **DEFAULT, thread=6),
        {"default_stream": 60, "launch_gap": 8},
    ),
    "the host waits before it queues": (first().calls(SYNC, 5, 60).kernel(62, 70, 80), {"host_sync": 50}),
    "a wait is blamed for no more than it took": (
        first().calls(SYNC, 15, 22).kernel(60, 63, 73),
        {"host_sync": 7, "launch_gap": 36},
    ),
    "a host that asks again and again waits": (polled().kernel(25, 30, 40), {"host_sync": 10}),
    "an upload queued after a wait that could have run before": (
        Script().kernel(0, 10, 220).calls("cudaDeviceSynchronize_v3020", 50, 222)
        .copy((223, 225), 230, 279, stream=2).kernel(226, 280, 290, stream=2),
        {"host_sync": 60},
    ),
    "an upload queued after a wait that could not have run before": (
        Script().kernel(0, 10, 220).calls("cudaDeviceSynchronize_v3020", 50, 222)
        .copy((223, 225), 230, 279).kernel(226, 280, 290),
        {"dependency": 50, "host_sync": 10},
    ),
    "behind a kernel of its stream": (first().kernel(5, 22, 32), {"launch_gap": 2}),
    "an upload that the default stream held": (
        on_default()
        .copy((0.5, 0.7), 20, 80, **DEFAULT, up=False)
        .copy((1, 1.5), 80, 140, **DEFAULT)
        .kernel(2, 140, 150, **DEFAULT),
        {"default_stream": 78.5, "dependency": 41.5},
    ),
    "an upload that came late": (
        on_default()
        .copy((0.5, 0.7), 20, 80, **DEFAULT, up=False)
        .copy((60, 60.5), 80, 140, **DEFAULT)
        .kernel(61, 140, 150, **DEFAULT),
        {"default_stream": 60, "dependency": 60},
    ),
    "the host is busy elsewhere": (first().kernel(90, 95, 105), {"launch_gap": 75}),
    "nothing explains it": (first().kernel(3, 500, 510), {"unknown": 480}),
    "downloads after the last kernel": (first().copy((3, 4), 20, 50, up=False), {"drain": 30}),
    "another thread allocates while the kernel is queued": (
        first().calls("cudaMalloc_v3020", 15, 78, thread=6).kernel(4, 80, 90),
        {"allocation": 58, "launch_gap": 2},
    ),
    "driver calls within runtime calls say why and do not count twice": (
        first().calls("cudaLaunchKernelExC_v11060", 20, 80).calls("cuMemAlloc_v2", 21, 79).kernel(81, 85, 95),
        {"allocation": 60, "launch_gap": 5},
    ),
}  # fmt: skip


def parts(script: Script) -> dict[str, float]:
    """Idle us by cause."""
    account = script.account()
    assert sum(by_cause(account.gaps).values()) == account.idle_ns
    return {name: ns / 1e3 for name, ns in by_cause(account.gaps).items()}


@pytest.mark.parametrize(("script", "expected"), CASES.values(), ids=CASES)
def test_a_cause_is_told_and_its_time(script: Script, expected: dict[str, float]) -> None:
    assert parts(script) == expected


@pytest.mark.parametrize(
    ("script", "evidence"),
    [
        (CASES["behind a copy of its stream"][0], "behind an H2D copy in its stream (1)"),
        (first().calls("cuModuleLoadData", 20, 80).kernel(82, 90, 100), "the host loaded code in cuModuleLoadData"),
    ],
)
def test_the_evidence_names_what_the_kernel_stands_behind(script: Script, evidence: str) -> None:
    assert script.account().gaps[0].evidence == evidence


ALLOCATING = (
    *("cudaMalloc_v3020", "cudaFree_v3020", "cuMemAllocFromPoolAsync", "cudaMallocHost_v3020", "cuMemHostAlloc"),
    *("cudaHostRegister_v4000", "cuMemFree_v2"),
)


@pytest.mark.parametrize("name", ALLOCATING)
def test_a_host_that_allocates_when_it_should_queue_is_an_allocation_stall(name: str) -> None:
    assert parts(first().calls(name, 21, 91).kernel(92, 100, 110)) == {"allocation": 70, "launch_gap": 10}


def test_a_pool_that_gives_memory_back_in_a_synchronization_is_an_allocation_stall() -> None:
    script = first()
    script.row("pool", start=58, end=58, correlation=script.call(SYNC, 5, 60), flags=3)
    assert parts(script.kernel(65, 70, 80)) == {"allocation": 40, "host_sync": 10}


def test_a_kernel_without_a_call_is_unknown() -> None:
    script = first()
    script.row("kernel", "square", 90, 99, stream=1, correlation=0, channel=1)
    assert parts(script) == {"unknown": 70}


def test_nodes_of_a_graph_wait_for_each_other() -> None:
    script = Script()
    launched = script.call("cudaGraphLaunch_v10000", 0, 5)
    for stream, start, end in ((1, 10, 20), (2, 20, 90), (1, 91, 99)):
        kind = "copy" if stream == 2 else "kernel"
        script.row(kind, "node", start, end, stream=stream, correlation=launched, graph=4, flags=1, channel=1)
    assert parts(script) == {"dependency": 70, "launch_gap": 1}


@pytest.mark.parametrize(("memory", "cause"), [(PINNED, "host_sync"), (PAGEABLE, "pageable_copy")])
def test_a_host_that_copies_on_another_device_is_seen_to_wait(memory: int, cause: str) -> None:
    script = first()
    number = script.call(COPY, 15, 90)
    script.row("copy", "", 20, 89, context=2, device=1, stream=9, correlation=number, flags=1, source=memory, target=3)
    one, other = accounts(script.kernel(92, 100, 110).recording())
    assert (one.device, other.device, other.copies) == (0, 1, 1)
    assert one.gaps[0].cause == cause


def any_script(rng: np.random.Generator, asked_until: float) -> Script:
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
            script.calls(name, asked, asked + rng.uniform(0, 60), int(rng.choice([5, 6])))
        if rng.random() < 0.3:
            script.event(asked, stream, 3).wait(asked + 1, int(rng.choice([1, 2])), 3)
    return script


@pytest.mark.parametrize("asked_until", [5.0, 200.0])
def test_the_parts_sum_to_the_idle_time_of_any_recording(asked_until: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        account = any_script(rng, asked_until).account()
        assert sum(by_cause(account.gaps).values()) == account.idle_ns
        assert all(sum(gap.parts.values()) == gap.ns and gap.evidence for gap in account.gaps)
        busy = account.concurrency.busy_ns.get("SMs", 0.0)
        assert account.idle_ns + busy == pytest.approx(account.span_ns)
