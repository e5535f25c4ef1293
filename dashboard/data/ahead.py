"""Results that are made before they are asked for, while the browser loads scripts or draws those
before."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 4
"""Results that wait to be taken; those of pages that were left are not."""
FRESH_S = 5.0
"""How old a result may be when it is taken."""


class Ahead:
    """Results by name, made by one thread, each for whoever takes it first."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], object]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._begun: OrderedDict[Hashable, tuple[float, Future[Any]]] = OrderedDict()
        self._thread: threading.Thread | None = None

    def begin(self, name: Hashable, make: Callable[[], object]) -> None:
        """Have ``make`` called, in place of whatever still waits for that."""
        with self._lock:
            old = time.monotonic() - FRESH_S
            for other, (began, left) in list(self._begun.items()):
                if left.cancel() or other == name or began < old:
                    del self._begun[other]
            while len(self._begun) >= MOST:
                self._begun.popitem(last=False)
            future: Future[Any] = Future()
            self._begun[name] = time.monotonic(), future
            self._waiting.put((future, make))
            if self._thread is None:  # a daemon: the end of the program does not wait for it
                self._thread = threading.Thread(target=self._work, name="ncubble-ahead", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            future, make = self._waiting.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(make())
                except BaseException as error:  # raised where the result is taken
                    future.set_exception(error)

    def take(self, name: Hashable, make: Callable[[], T]) -> T:
        """What was begun under ``name``, once it is made, else what ``make`` returns. Raises what
        making it raises."""
        with self._lock:
            began, future = self._begun.pop(name, (0.0, None))
        if future is None or future.cancel() or time.monotonic() - began > FRESH_S:
            return make()
        result: T = future.result()
        return result
