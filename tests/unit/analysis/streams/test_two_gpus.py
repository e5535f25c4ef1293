"""One process on two GPUs, played: what one waits for of the other, and what is only the way
between them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.streams.account import DeviceAccount, account_json, accounts, stream_lanes
from ncubble.analysis.streams.gaps import by_cause
from ncubble.analysis.streams.recording import PEER, read
from ncubble.analysis.traces.lanes import read_lanes
from ncubble.recordings import LEVELS
from tests.helpers.stream_frames import Script

SECOND = {"device": 1, "context": 2}
OTHER = {"context": 2}
WAY = {"flags": PEER, "source": 3, "target": 3, "extra": 0 << 32 | 1}
BACK = {**SECOND, **WAY}


def both(script: Script) -> tuple[DeviceAccount, DeviceAccount]:
    """The accounts of GPU 0 and GPU 1, whose parts sum."""
    first, second = accounts(script.recording())
    for account in (first, second):
        assert sum(by_cause(account.gaps).values()) == account.idle_ns
    return first, second


def parts(account: DeviceAccount) -> dict[str, float]:
    """Idle us by cause."""
    return {name: ns / 1e3 for name, ns in by_cause(account.gaps).items()}


def handed(stream: int = 1) -> Script:
    """GPU 0 works from 10 to 60 us, GPU 1 from 10 to 20, and GPU 0 records event 9 then."""
    return Script().kernel(0, 10, 60).event(2.5, 1, 9).kernel(3, 10, 20, stream=stream, **SECOND)


def shown_elsewhere(name: str = "cuMemcpyPeerAsync") -> Script:
    """GPU 1's stream 24 waits for GPU 0 and copies, as CUPTI tells it: the wait in the context that
    is current, the copy on a stream of the driver's own on GPU 0."""
    script = handed().wait(6, 24, 9).copy((7, 8), 62, 90, stream=10, name=name, **WAY)
    return script.event(9, 24, 4, **OTHER).wait(10, 1, 4, **OTHER).kernel(11, 93, 99, **SECOND)


CASES = {
    # The hand-over belongs to what was waited for.
    "an event of the other GPU": (handed().wait(6, 1, 9, **OTHER).kernel(7, 64, 80, **SECOND), {"other_gpu": 44}),
    "a wait that names the current context": (
        handed(stream=24).wait(6, 24, 9).kernel(7, 64, 80, stream=24, **SECOND),
        {"other_gpu": 44},
    ),
    "a stream without work hands on what it waits for": (
        handed().wait(4, 3, 9).event(5, 3, 4).wait(6, 1, 4, **OTHER).kernel(7, 64, 80, **SECOND),
        {"other_gpu": 44},
    ),
    "what a stream waited for before its last work is not handed on twice": (
        handed().wait(3.6, 2, 9, **OTHER).copy((4, 5), 61, 62, stream=2, **BACK).event(5, 2, 4, **OTHER)
        .wait(6, 1, 4, **OTHER).kernel(7, 64, 80, **SECOND),
        {"other_gpu": 40, "dependency": 4},
    ),
    "an event that has happened holds nothing": (
        handed().wait(70, 1, 9, **OTHER).kernel(71, 75, 80, **SECOND),
        {"launch_gap": 55},
    ),
    "a copy is the way, and what it waited for is the other GPU": (
        handed().wait(6, 2, 9, **OTHER).copy((7, 8), 62, 90, stream=2, **BACK).event(9, 2, 4, **OTHER)
        .wait(10, 1, 4, **OTHER).kernel(11, 93, 99, **SECOND),
        {"other_gpu": 40, "dependency": 33},
    ),
    "the same for a copy in the stream of the kernel": (
        handed().wait(6, 1, 9, **OTHER).copy((7, 8), 62, 90, **BACK).kernel(11, 93, 99, **SECOND),
        {"other_gpu": 42, "dependency": 31},
    ),
    "the same for a copy that the other GPU pushes": (
        handed().copy((6, 7), 60, 90, **WAY).event(8, 1, 5).wait(9, 1, 5, **OTHER).kernel(11, 93, 99, **SECOND),
        {"other_gpu": 40, "dependency": 33},
    ),
    "a host that waited first is blamed for what it queued late": (
        Script().kernel(0, 10, 20, **SECOND).calls("cudaStreamSynchronize_v3020", 5, 40).kernel(41, 45, 60)
        .event(43, 1, 9).wait(44, 1, 9, **OTHER).kernel(46, 63, 80, **SECOND),
        {"host_sync": 35, "other_gpu": 8},
    ),
    "a copy that CUPTI shows on a stream of the driver": (shown_elsewhere(), {"other_gpu": 40, "dependency": 33}),
}  # fmt: skip


@pytest.mark.parametrize(("script", "expected"), CASES.values(), ids=CASES)
def test_what_a_gpu_waits_for_of_another_one_is_told(script: Script, expected: dict[str, float]) -> None:
    assert parts(both(script)[1]) == expected


def test_the_evidence_names_the_other_gpu_and_the_way() -> None:
    second = both(CASES["an event of the other GPU"][0])[1]
    assert second.gaps[0].evidence == "an event of GPU 0, which had not finished a square"
    _, second = both(CASES["the same for a copy in the stream of the kernel"][0])
    assert "P2P copy from GPU 0 to GPU 1" in second.lanes["tag"].tolist()


def test_a_producer_that_waits_for_a_free_slot_waits_for_the_consumer() -> None:
    script = Script().kernel(0, 10, 20).kernel(2, 10, 70, **SECOND).event(5, 1, 9, **OTHER)
    first, second = both(script.wait(6, 1, 9).kernel(7, 73, 80))
    assert parts(first) == {"other_gpu": 53} and second.idle_ns == 0


def test_work_behind_a_copy_between_gpus_is_the_other_gpu_once_the_copy_is_over() -> None:
    script = Script().kernel(0, 10, 20).event(2, 1, 3).wait(3, 2, 3, **OTHER).copy((4, 5), 24, 40, stream=2, **BACK)
    script.event(6, 2, 4, **OTHER).wait(7, 1, 4, **OTHER).kernel(8, 43, 90, **SECOND)
    first, _ = both(script.event(9, 1, 5, **OTHER).wait(9.5, 1, 5).kernel(9.7, 93, 99))
    assert parts(first) == {"dependency": 20, "other_gpu": 53}
    assert first.gaps[0].evidence == "an event of GPU 1, which had not finished a square"


def test_a_copy_between_gpus_is_an_engine_of_the_one_that_does_it() -> None:
    first, second = (account_json(account) for account in both(handed().copy((6, 7), 20, 50, stream=2, **BACK)))
    assert (first["bytes_peer"], second["bytes_peer"]) == (0, 10**6)
    assert {one["engine"]: one["busy_us"] for one in second["engines"]} == {"SMs": 10, "P2P": 30}
    assert [one["engine"] for one in first["engines"]] == ["SMs"]


@pytest.mark.parametrize(
    ("script", "stream"),
    {
        "put where it was queued": (shown_elsewhere(), "stream 24"),
        "between calls of different streams it stays": (
            handed().wait(6, 24, 9).copy((7, 8), 62, 90, stream=10, **WAY).event(9, 25, 4, **OTHER),
            "stream 10",
        ),
        "on a stream that the program uses it stays": (shown_elsewhere().event(60, 10, 8), "stream 10"),
    }.items(),
)
def test_copies_that_cupti_shows_on_a_stream_of_the_driver(script: str, stream: tuple[Script, str]) -> None:
    played, expected = stream
    first, _ = both(played)
    lanes = set(first.lanes["lane"])
    assert expected in lanes and not {"stream 10", "stream 24"} - {expected} & lanes, script
    assert account_json(first)["bytes_peer"] == 10**6


def test_engines_of_one_gpu_do_not_hold_copies_of_the_other() -> None:
    script = Script().copy((0, 1), 10, 90).kernel(2, 10, 20, **SECOND).copy((3, 4), 40, 60, stream=2, **SECOND)
    _, second = both(script.kernel(5, 62, 70, stream=2, **SECOND))
    assert "copy engine was busy" not in second.gaps[0].evidence


def test_gpus_that_take_turns_wait_for_each_other_in_the_recording_that_ships() -> None:
    devices = accounts(read(LEVELS / "streams-peer-serial"))
    assert [device.device for device in devices] == [0, 1]
    for device in devices:
        assert by_cause(device.gaps)["other_gpu"] > 0.7 * device.idle_ns


@pytest.mark.parametrize("name", ["streams-peer", "streams-peer-serial", "streams-levels"])
def test_the_lanes_of_recordings_that_ship_are_what_the_account_gives_today(name: str) -> None:
    today, note = stream_lanes(accounts(read(LEVELS / name)))
    columns = ["group", "lane", "start_ns", "end_ns", "tag"]
    kept, made = (
        lanes.rows[columns].astype(dict.fromkeys(("group", "lane", "tag"), str)).sort_values(columns, ignore_index=True)
        for lanes in (read_lanes(LEVELS / name), today)
    )
    pd.testing.assert_frame_equal(kept, made, check_dtype=False)
    assert not note


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
