"""Four streams whose work depends on each other: A -> B -> D, and C apart from them.

A brings x up and doubles it, B doubles that, D doubles it again and brings y down. C does as much
with w, in steps of its own. ``order`` says who sees to it that B comes after A, and D after B:
events between the streams, the host that waits for a stream before it queues on the next one, or
one stream for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncubble.kernels.host.driver import HostDriver
from ncubble.kernels.run.device import Gpu, Stream
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case

COMPILED = ("work",)
"""Parameters that affect the device code."""

FLOAT, STEPS = 4, 3  # bytes; kernels on the way from x to y, and from w to z


class EventGraph:
    """One prepared graph of streams. ``arrays`` holds the bytes of x, w, y and z in pinned
    memory."""

    def __init__(self, case: Case, kernel: Any, driver: HostDriver) -> None:
        self._case, self._kernel, self._driver = case, kernel, driver
        self._order = str(case.parameters["order"])
        self._nbytes = case.shape["n"] * FLOAT
        self._lanes = driver.lanes("nonblocking", 1 if self._order == "one" else 4)
        self.arrays = {
            array.name: driver.pinned(self._nbytes + (GUARD if array.output else 0)) for array in case.spec.arrays
        }
        # States of each path: the upload, then after each kernel; the last is downloaded.
        self._states = {name: [driver.reserve(self._nbytes) for _ in range(STEPS + 1)] for name in "xw"}

    def run(self) -> None:
        """Queues A, B, C and D in this order, between two points of the main stream."""
        driver, (a, b, c, d) = self._driver, (*self._lanes, *self._lanes, *self._lanes, *self._lanes)[:4]
        driver.fork(self._lanes)
        self._up(a, "x")
        self._double(a, "x", 0)
        self._after(b, a)
        self._double(b, "x", 1)
        self._up(c, "w")
        for step in range(STEPS):
            self._double(c, "w", step)
        self._down(c, "w", "z")
        self._after(d, b)
        self._double(d, "x", 2)
        self._down(d, "x", "y")
        driver.join(self._lanes)

    def poison(self) -> None:
        """Sets all states on the device to 0xFF: what runs before its time passes on what is no
        number."""
        for pointer in (pointer for states in self._states.values() for pointer in states):
            self._driver.fill(self._driver.main, pointer, POISON, self._nbytes)

    def _after(self, lane: Stream, before: Stream) -> None:
        """Lets what follows on ``lane`` come after what was queued on ``before``."""
        if self._order == "events":
            self._driver.follow(lane, self._driver.mark(before))
        elif self._order == "host":
            self._driver.settle(self._driver.mark(before))

    def _up(self, lane: Stream, name: str) -> None:
        self._driver.to_device(lane, self._states[name][0], self.arrays[name])

    def _down(self, lane: Stream, name: str, result: str) -> None:
        self._driver.to_host(lane, self.arrays[result][: self._nbytes], self._states[name][STEPS])

    def _double(self, lane: Stream, name: str, step: int) -> None:
        grid, block = self._case.grid[0], self._case.block[0]
        source, target = self._states[name][step : step + 2]
        self._driver.launch(lane, self._kernel, grid, block, source, target, np.int32(self._case.shape["n"]))


def make(case: Case, gpu: Gpu, kernel: Any) -> EventGraph:
    """The graph of ``case``; what ``host_program`` calls."""
    return EventGraph(case, kernel, HostDriver(gpu))
