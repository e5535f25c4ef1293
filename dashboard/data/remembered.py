"""What follows from the rows of a store, kept until there are others: looked up by every request,
computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ncubble.dashboard.data.store import ReportStore

T = TypeVar("T")
Rows = Sequence[Mapping[str, Any]]


@dataclass
class Remembered(Generic[T]):
    """The result of ``build`` for the list of rows that a store holds, which it replaces when
    anything changes.

    One slot: threads that come at once wait for the first.
    """

    build: Callable[[Rows], T]
    _slot: tuple[Rows, T] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, store: ReportStore) -> T:
        """The result for what ``store`` holds now."""
        rows: Rows = store.rows()
        with self._lock:
            if self._slot is None or self._slot[0] is not rows:
                self._slot = (rows, self.build(rows))
            return self._slot[1]
