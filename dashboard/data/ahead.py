"""Results that are made before they are asked for, while the browser loads scripts or draws those
before."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 4
"""Results that wait to be taken; those of pages that were left are not."""
FRESH_S = 5.0
"""How old a result may be when it is taken."""


class Ahead:
    """Results by name, made by one thread, each for whoever takes it first."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "ncubble-ahead")
        self._lock = threading.Lock()
        self._begun: OrderedDict[Hashable, tuple[float, Future[Any]]] = OrderedDict()

    def begin(self, name: Hashable, make: Callable[[], object]) -> None:
        """Have ``make`` called, in place of whatever still waits for that."""
        with self._lock:
            for other in [other for other, (_, future) in self._begun.items() if future.cancel() or other == name]:
                del self._begun[other]
            while len(self._begun) >= MOST:
                self._begun.popitem(last=False)
            self._begun[name] = time.monotonic(), self._thread.submit(make)

    def take(self, name: Hashable, make: Callable[[], T]) -> T:
        """What was begun under ``name``, once it is made, else what ``make`` returns. Raises what
        making it raises."""
        with self._lock:
            began, future = self._begun.pop(name, (0.0, None))
        if future is None or future.cancel() or time.monotonic() - began > FRESH_S:
            return make()
        result: T = future.result()
        return result
