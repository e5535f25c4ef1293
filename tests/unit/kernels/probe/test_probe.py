"""Slots of the probe: which warp writes where, and what of it is kept."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ncubble.analysis.traces.probe import WARP, parse_dumps
from ncubble.kernels.run.probe import MARK_B, ProbeRecorder
from tests.helpers.fake_gpu import FakeGpu

CONFIG = struct.Struct("<QQQIIII8Q")
"""``bubble::Config``: three pointers; slots, capacity, numbered, spare; a bit for each SM."""


class ProbedGpu(FakeGpu):
    """Holds the probe's configuration, and writes what warps would that start in the order of
    ``numbers``."""

    def symbol(self, kernel: object, name: str) -> tuple[int, int]:
        self.config = self.allocate(CONFIG.size)
        return self.config, CONFIG.size

    def start(self, numbers: list[int]) -> None:
        _, warps, started, slots, _, numbered, *_ = CONFIG.unpack(self.memory[self.config].tobytes())
        for turn, number in enumerate(numbers):
            slot = number if numbered else turn
            self.memory[started].view(np.uint32)[0] += 1
            if slot < slots:
                self.memory[warps].view(WARP)[slot]["begin_ns"] = 1000 + number


def recorder(slots: int = 6, launches: int = 1, marks: int = 3) -> tuple[ProbedGpu, ProbeRecorder]:
    gpu = ProbedGpu()
    return gpu, ProbeRecorder(gpu, None, slots, marks, launches=launches)


def kept(found: ProbeRecorder) -> list[int]:
    """The numbers of the warps in a dump, by slot."""
    (dump,) = parse_dumps(found.dump(), "here")
    return [int(each) - 1000 for each in dump.warps["begin_ns"]]


def test_where_every_sm_is_recorded_a_warp_has_the_slot_of_its_number():
    gpu, found = recorder()
    found.aim(range(132))
    gpu.start([4, 0, 3])
    assert found.apart()
    assert kept(found) == [0, 3, 4]


@pytest.mark.parametrize(
    ("slots", "launches", "sms"),
    [(6, 1, 131), (6, 2, 132), ((1 << 30) // (3 * MARK_B) + 1, 1, 132)],
    ids=["some SMs", "two launches", "no room"],
)
def test_elsewhere_warps_take_turns(slots, launches, sms, monkeypatch):
    monkeypatch.setattr(ProbedGpu, "allocate", lambda self, size: FakeGpu.allocate(self, min(size, 4096)))
    gpu, found = recorder(slots, launches)
    found.aim(range(sms))
    gpu.start([4, 0, 3])
    assert not found.numbered
    assert gpu.memory[found._pointers[1]].view(WARP)["begin_ns"][:3].tolist() == [1004, 1000, 1003]


def test_two_probes_of_one_warp_are_seen_and_can_be_told_to_take_turns():
    gpu, found = recorder()
    found.aim(range(132))
    gpu.start([0, 1, 1])
    assert not found.apart()
    found.clear()
    found.aim(range(132), numbered=False)
    gpu.start([0, 1, 1])
    assert found.apart()
    assert kept(found) == [0, 1, 1]
