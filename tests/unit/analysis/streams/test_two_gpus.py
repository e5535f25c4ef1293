"""One process on two GPUs, played: what one waits for of the other, and what is only the way
between them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.streams.account import DeviceAccount, accounts, as_json, drawn_lanes
from ncubble.analysis.streams.gaps import by_cause
from ncubble.analysis.streams.records import PEER, read
from ncubble.analysis.traces.lanes import LaneRun, read_lanes
from ncubble.recordings import LEVELS
from tests.helpers.stream_frames import Script

SECOND = {"device": 1, "context": 2}
OTHER = {"context": 2}
WAY = {"flags": PEER, "source": 3, "target": 3, "extra": 0 << 32 | 1}


def both(script: Script) -> tuple[DeviceAccount, DeviceAccount]:
    """The accounts of GPU 0 and GPU 1, whose parts sum."""
    first, second = accounts(script.recording())
    for account in (first, second):
        assert sum(by_cause(account.gaps).values()) == account.idle_ns
    return first, second


def parts(account: DeviceAccount) -> dict[str, float]:
    """Idle us by cause."""
    return {name: ns / 1e3 for name, ns in by_cause(account.gaps).items()}


def handed(script: Script) -> Script:
    """GPU 0 works from 10 to 60 us, GPU 1 from 10 to 20, and both record events then."""
    script.kernel(0, 10, 60, stream=1)
    script.event(2.5, stream=1, number=9)
    script.kernel(3, 10, 20, stream=1, **SECOND)
    return script


def test_a_kernel_that_waits_for_an_event_of_another_gpu_says_which_and_for_what() -> None:
    script = handed(Script())
    script.wait(6, stream=1, number=9, **OTHER)
    script.kernel(7, 64, 80, stream=1, **SECOND)
    _, second = both(script)
    assert parts(second) == {"other_gpu": 44}  # the hand-over belongs to what was waited for
    assert second.gaps[0].evidence == "an event of GPU 0, which had not finished a square"
    assert as_json(second)["causes"][0]["cause"] == "other_gpu"


def test_a_wait_that_names_the_current_context_is_one_of_the_streams_own() -> None:
    script = Script()
    script.kernel(0, 10, 60, stream=1)
    script.event(2.5, stream=1, number=9)
    script.kernel(3, 10, 20, stream=24, **SECOND)
    script.wait(6, stream=24, number=9)
    script.kernel(7, 64, 80, stream=24, **SECOND)
    _, second = both(script)
    assert parts(second) == {"other_gpu": 44}


def test_a_stream_without_work_hands_on_what_it_waits_for() -> None:
    script = handed(Script())
    script.wait(4, stream=3, number=9)
    script.event(5, stream=3, number=4)
    script.wait(6, stream=1, number=4, **OTHER)
    script.kernel(7, 64, 80, stream=1, **SECOND)
    _, second = both(script)
    assert parts(second) == {"other_gpu": 44}


def test_what_a_stream_waited_for_before_its_last_work_is_not_handed_on_twice() -> None:
    script = handed(Script())
    script.wait(3.6, stream=2, number=9, **OTHER)
    script.copy((4, 5), 61, 62, stream=2, **SECOND, **WAY)
    script.event(5, stream=2, number=4, **OTHER)
    script.wait(6, stream=1, number=4, **OTHER)
    script.kernel(7, 64, 80, stream=1, **SECOND)
    _, second = both(script)
    assert parts(second) == {"other_gpu": 40, "dependency": 4}


def test_an_event_of_another_gpu_that_has_happened_holds_nothing() -> None:
    script = handed(Script())
    script.wait(70, stream=1, number=9, **OTHER)
    script.kernel(71, 75, 80, stream=1, **SECOND)
    _, second = both(script)
    assert parts(second) == {"launch_gap": 55}


def test_a_copy_is_the_way_and_what_it_waited_for_is_the_other_gpu() -> None:
    script = handed(Script())
    script.wait(6, stream=2, number=9, **OTHER)
    script.copy((7, 8), 62, 90, stream=2, **SECOND, **WAY)
    script.event(9, stream=2, number=4, **OTHER)
    script.wait(10, stream=1, number=4, **OTHER)
    script.kernel(11, 93, 99, stream=1, **SECOND)
    _, second = both(script)
    assert parts(second) == {"other_gpu": 40, "dependency": 33}


def test_the_same_holds_for_a_copy_in_the_stream_of_the_kernel() -> None:
    script = handed(Script())
    script.wait(6, stream=1, number=9, **OTHER)
    script.copy((7, 8), 62, 90, stream=1, **SECOND, **WAY)
    script.kernel(11, 93, 99, stream=1, **SECOND)
    _, second = both(script)
    assert parts(second) == {"other_gpu": 42, "dependency": 31}
    assert "P2P copy from GPU 0 to GPU 1" in second.lanes["tag"].tolist()


def test_a_copy_that_the_other_gpu_pushes_is_the_way_too() -> None:
    script = handed(Script())
    script.copy((6, 7), 60, 90, stream=1, **WAY)
    script.event(8, stream=1, number=5)
    script.wait(9, stream=1, number=5, **OTHER)
    script.kernel(11, 93, 99, stream=1, **SECOND)
    _, second = both(script)
    assert parts(second) == {"other_gpu": 40, "dependency": 33}
    assert second.bytes_peer == 0


def test_a_producer_that_waits_for_a_free_slot_waits_for_the_consumer() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.kernel(2, 10, 70, stream=1, **SECOND)
    script.event(5, stream=1, number=9, **OTHER)
    script.wait(6, stream=1, number=9)
    script.kernel(7, 73, 80, stream=1)
    first, second = both(script)
    assert parts(first) == {"other_gpu": 53}
    assert "GPU 1" in first.gaps[0].evidence
    assert second.idle_ns == 0


def test_work_behind_a_copy_between_gpus_is_the_other_gpu_once_the_copy_is_over() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.event(2, stream=1, number=3)
    script.wait(3, stream=2, number=3, **OTHER)
    script.copy((4, 5), 24, 40, stream=2, **SECOND, **WAY)
    script.event(6, stream=2, number=4, **OTHER)
    script.wait(7, stream=1, number=4, **OTHER)
    script.kernel(8, 43, 90, stream=1, **SECOND)
    script.event(9, stream=1, number=5, **OTHER)
    script.wait(9.5, stream=1, number=5)
    script.kernel(9.7, 93, 99, stream=1)
    first, _ = both(script)
    assert parts(first) == {"dependency": 20, "other_gpu": 53}
    assert first.gaps[0].evidence == "an event of GPU 1, which had not finished a square"


def test_a_host_that_waited_first_is_blamed_for_what_it_queued_late() -> None:
    script = Script()
    script.kernel(0, 10, 20, stream=1, **SECOND)
    script.call("cudaStreamSynchronize_v3020", 5, 40)
    script.kernel(41, 45, 60, stream=1)
    script.event(43, stream=1, number=9)
    script.wait(44, stream=1, number=9, **OTHER)
    script.kernel(46, 63, 80, stream=1, **SECOND)
    _, second = both(script)
    assert second.gaps[0].cause == "host_sync"


def test_a_copy_between_gpus_is_an_engine_of_the_one_that_does_it() -> None:
    script = handed(Script())
    script.copy((6, 7), 20, 50, stream=2, **SECOND, **WAY)
    first, second = both(script)
    assert (first.bytes_peer, second.bytes_peer) == (0, 10**6)
    engines = {one["engine"]: one["busy_us"] for one in as_json(second)["engines"]}
    assert engines == {"SMs": 10, "P2P": 30}
    assert [one["engine"] for one in as_json(first)["engines"]] == ["SMs"]


def shown_elsewhere(script: Script, name: str) -> Script:
    """GPU 1's stream 24 waits for GPU 0 and copies, as CUPTI tells it: the wait in the context that
    is current, the copy on a stream of the driver's own on GPU 0."""
    handed(script)
    script.wait(6, stream=24, number=9)
    script.copy((7, 8), 62, 90, stream=10, name=name, **WAY)
    script.event(9, stream=24, number=4, **OTHER)
    script.wait(10, stream=1, number=4, **OTHER)
    script.kernel(11, 93, 99, stream=1, **SECOND)
    return script


def test_a_copy_that_cupti_shows_on_a_stream_of_the_driver_is_put_where_it_was_queued() -> None:
    first, second = both(shown_elsewhere(Script(), "cuMemcpyPeerAsync"))
    assert parts(second) == {"other_gpu": 40, "dependency": 33}
    assert "stream 24" in first.lanes["lane"].tolist() and "stream 10" not in first.lanes["lane"].tolist()
    assert (first.bytes_peer, second.bytes_peer) == (10**6, 0)


def test_a_copy_between_calls_of_different_streams_stays_where_it_is_shown() -> None:
    script = handed(Script())
    script.wait(6, stream=24, number=9)
    script.copy((7, 8), 62, 90, stream=10, **WAY)
    script.event(9, stream=25, number=4, **OTHER)
    first, _ = both(script)
    assert "stream 10" in first.lanes["lane"].tolist()


def test_a_copy_on_a_stream_that_the_program_uses_is_not_moved() -> None:
    script = shown_elsewhere(Script(), "cudaMemcpyPeerAsync")
    script.event(60, stream=10, number=8)
    first, _ = both(script)
    assert "stream 10" in first.lanes["lane"].tolist()


def test_engines_of_one_gpu_do_not_hold_copies_of_the_other() -> None:
    script = Script()
    script.copy((0, 1), 10, 90, stream=1)
    script.kernel(2, 10, 20, stream=1, **SECOND)
    script.copy((3, 4), 40, 60, stream=2, **SECOND)
    script.kernel(5, 62, 70, stream=2, **SECOND)
    _, second = both(script)
    assert "copy engine was busy" not in second.gaps[0].evidence


def test_gpus_that_take_turns_wait_for_each_other_in_the_recording_that_ships() -> None:
    devices = accounts(read(LEVELS / "streams-peer-serial"))
    assert [device.device for device in devices] == [0, 1]
    for device in devices:
        assert by_cause(device.gaps)["other_gpu"] > 0.7 * device.idle_ns


@pytest.mark.parametrize("name", ["streams-peer", "streams-peer-serial", "streams-levels"])
def test_the_lanes_of_recordings_that_ship_are_what_the_account_gives_today(name: str) -> None:
    today = pd.concat([drawn_lanes(device) for device in accounts(read(LEVELS / name))], ignore_index=True)
    kept = read_lanes(LaneRun(LEVELS / name))[1]
    columns = ["group", "lane", "start_ns", "end_ns", "tag"]
    kept, today = (
        frame[columns].astype(dict.fromkeys(("group", "lane", "tag"), str)).sort_values(columns, ignore_index=True)
        for frame in (kept, today)
    )
    pd.testing.assert_frame_equal(kept, today, check_dtype=False)


@pytest.mark.parametrize("seed", range(6))
def test_the_parts_sum_for_both_gpus_whatever_was_queued(seed: int) -> None:
    rng = np.random.default_rng(seed)
    script, time = Script(), 0.0
    ends = {(gpu, stream): 0.0 for gpu in (0, 1) for stream in (1, 2)}
    for _ in range(60):
        gpu, stream, time = int(rng.integers(2)), int(rng.integers(1, 3)), time + float(rng.uniform(1, 9))
        where = dict(SECOND) if gpu else {}
        begin = max(time + float(rng.uniform(3, 40)), ends[gpu, stream])
        end = ends[gpu, stream] = begin + float(rng.uniform(1, 30))
        kind = int(rng.integers(4))
        if kind == 0:
            script.copy((time, time + 1), begin, end, stream=stream, **where, **WAY)
        elif kind == 1:
            script.event(time, stream, int(rng.integers(3)), context=1 + gpu)
        elif kind == 2:
            script.wait(time, stream, int(rng.integers(3)), context=1 + gpu)
        else:
            script.kernel(time, begin, end, stream=stream, **where)
    both(script)
