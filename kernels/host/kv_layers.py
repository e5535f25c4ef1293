"""Layers over streams, as in a model that generates text: a token goes through all layers, and each
layer keeps what it saw of every token.

A stream has its share of the layers. The next token follows at once, so that streams work on
different tokens; an event says when a token has left the stream before. ``grow`` is how a layer's
cache gets room for one more token: it is as large as it can get from the start, or new memory is
allocated, the old rows are copied, and the old memory is freed, in the order of the stream
(``async``) or by calls that the CPU waits for (``sync``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncubble.kernels.host.driver import KEEP_ALL, HostDriver
from ncubble.kernels.run.device import Gpu, Stream
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case

COMPILED = ()
"""Parameters that affect the device code."""

FLOAT = 4  # bytes


class KvLayers:
    """One prepared model. ``arrays`` holds the bytes of x and y in pinned memory."""

    def __init__(self, case: Case, kernel: Any, driver: HostDriver) -> None:
        chosen, shape = case.parameters, case.shape
        self._case, self._kernel, self._driver = case, kernel, driver
        self._grow, self._layers = str(chosen["grow"]), int(chosen["layers"])
        self._lanes = driver.lanes("nonblocking", int(chosen["streams"]))
        self._tokens, self._row = shape["tokens"], shape["batch"] * shape["width"] * FLOAT
        whole = self._tokens * self._row
        self.arrays = {"x": driver.pinned(whole), "y": driver.pinned(whole + GUARD)}
        # Buffers between the layers, for all tokens: no layer waits for the next one to read.
        self._states = [driver.reserve(whole) for _ in range(self._layers + 1)]
        self._pool = driver.pool(KEEP_ALL) if self._grow == "async" else None
        self._caches = [driver.reserve(whole) if self._grow == "reserved" else 0 for _ in range(self._layers)]

    @property
    def held(self) -> int:
        """Bytes that the caches took at most."""
        if self._pool is not None:
            return self._pool.reserved
        # A growing cache coexists with its old copy for a while, in one layer at a time.
        old = self._tokens - 1 if self._grow == "sync" else 0
        return (self._layers * self._tokens + old) * self._row

    def run(self) -> None:
        """Queues all tokens between two points of the main stream; with ``sync`` the CPU takes part
        until the end."""
        driver, whole = self._driver, self._tokens * self._row
        driver.to_device(driver.main, self._states[0], self.arrays["x"])
        driver.fork(self._lanes)
        for token in range(self._tokens):
            for layer in range(self._layers):
                self._step(layer, token)
        if self._grow != "reserved":
            for layer in range(self._layers):
                self._release(self._lane(layer), self._caches[layer])
        driver.join(self._lanes)
        driver.to_host(driver.main, self.arrays["y"][:whole], self._states[-1])

    def poison(self) -> None:
        """Sets what lies between the layers to 0xFF."""
        for pointer in self._states:
            self._driver.fill(self._driver.main, pointer, POISON, self._tokens * self._row)

    def _lane(self, layer: int) -> Stream:
        return self._lanes[layer * len(self._lanes) // self._layers]

    def _step(self, layer: int, token: int) -> None:
        """A token through a layer: its row joins the cache, all rows of which give the result."""
        driver, lane = self._driver, self._lane(layer)
        if layer and (before := self._lane(layer - 1)) is not lane:
            driver.follow(lane, driver.mark(before))
        source, target = (self._states[layer + place] + token * self._row for place in (0, 1))
        self._make_room(lane, layer, token)
        cache = self._caches[layer]
        driver.copy(lane, cache + token * self._row, source, self._row)
        grid, block = self._case.grid[0], self._case.block[0]
        sizes = np.int32(token + 1), np.int32(self._case.shape["batch"])
        driver.launch(lane, self._kernel, grid, block, source, cache, target, *sizes)

    def _make_room(self, lane: Stream, layer: int, token: int) -> None:
        """Room for one more row in the layer's cache."""
        if self._grow == "reserved":
            return
        old, nbytes = self._caches[layer], (token + 1) * self._row
        new = self._pool.allocate(lane, nbytes) if self._pool is not None else self._driver.allocate(nbytes)
        if token:
            self._driver.copy(lane, new, old, token * self._row)
            self._release(lane, old)
        self._caches[layer] = new

    def _release(self, lane: Stream, pointer: int) -> None:
        if self._pool is not None:
            self._pool.free(lane, pointer)
            return
        self._driver.settle(self._driver.mark(lane))
        self._driver.free(pointer)


def make(case: Case, gpu: Gpu, kernel: Any) -> KvLayers:
    """The model of ``case``; what ``host_program`` calls."""
    return KvLayers(case, kernel, HostDriver(gpu))
