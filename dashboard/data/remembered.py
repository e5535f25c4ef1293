"""What follows from the rows of a store, kept until there are others: looked up by every request,
computed once."""

from __future__ import annotations

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

    One slot, replaced as a whole: threads that come at once may compute the same twice, and never
    see half of it.
    """

    build: Callable[[Rows], T]
    _slot: tuple[Rows, T] | None = field(default=None, repr=False)

    def of(self, store: ReportStore) -> T:
        """The result for what ``store`` holds now."""
        rows: Rows = store.rows()
        slot = self._slot
        if slot is not None and slot[0] is rows:
            return slot[1]
        result = self.build(rows)
        self._slot = (rows, result)
        return result
