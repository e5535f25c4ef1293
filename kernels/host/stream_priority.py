"""A small kernel that is queued while a large one fills the GPU, on a stream of higher priority or
of the same.

The large one is ``ROUNDS`` launches over parts of x on a stream of lowest priority. When the first
is done, so that the second has the SMs, the host queues the small one: the last ``URGENT``
elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncubble.kernels.host.driver import HostDriver
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case

COMPILED = ("work",)
"""Parameters that affect the device code."""

FLOAT = 4  # bytes
ROUNDS, URGENT = 4, 2**14  # launches of the large kernel; elements of the small one


class StreamPriority:
    """One prepared pair of streams. ``arrays`` holds the bytes of x and y in pinned memory."""

    def __init__(self, case: Case, kernel: Any, driver: HostDriver) -> None:
        self._case, self._kernel, self._driver = case, kernel, driver
        count = case.shape["n"]
        self._bulk = driver.prioritized(highest=False)
        self._urgent = driver.prioritized(highest=case.parameters["priority"] == "high")
        self.arrays = {"x": driver.pinned(count * FLOAT), "y": driver.pinned(count * FLOAT + GUARD)}
        self._places = driver.reserve(count * FLOAT), driver.reserve(count * FLOAT)

    def run(self) -> None:
        """Queues all of it between two points of the main stream; the CPU waits for a part of
        it."""
        driver, count, lanes = self._driver, self._case.shape["n"], (self._bulk, self._urgent)
        driver.to_device(driver.main, self._places[0], self.arrays["x"])
        driver.fork(lanes)
        part = (count - URGENT) // ROUNDS // 4 * 4
        self._launch(self._bulk, 0, part)
        begun = driver.mark(self._bulk)
        for turn in range(1, ROUNDS):
            self._launch(self._bulk, turn * part, part if turn + 1 < ROUNDS else count - URGENT - turn * part)
        driver.settle(begun)
        start = driver.moment(self._urgent)
        self._launch(self._urgent, count - URGENT, URGENT)
        self.span = start, driver.moment(self._urgent)  # the small kernel, from when it could begin
        driver.join(lanes)
        driver.to_host(driver.main, self.arrays["y"][: count * FLOAT], self._places[1])

    def poison(self) -> None:
        """Sets the results on the device to 0xFF."""
        self._driver.fill(self._driver.main, self._places[1], POISON, self._case.shape["n"] * FLOAT)

    def _launch(self, lane: Any, first: int, count: int) -> None:
        block = self._case.block[0]
        x, y = (place + first * FLOAT for place in self._places)
        self._driver.launch(lane, self._kernel, -(-count // (4 * block)), block, x, y, np.int32(count))


def make(case: Case, gpu: Gpu, kernel: Any) -> StreamPriority:
    """The pair of streams of ``case``; what ``host_program`` calls."""
    return StreamPriority(case, kernel, HostDriver(gpu))
