"""A report of which pages show one launch at a time: what is large is read of that launch alone, and let go again.

A report of 100 launches whose code and samples are read whole takes a quarter of a second and some 100 MB.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ncubble.analysis.report.report import Report

if TYPE_CHECKING:
    import pandas as pd

KEPT = 3
"""Launches of a report whose code and samples are kept: a page asks for them in several requests."""


class LeanReport(Report):
    """``Report`` with ``source_of`` and ``timeline_of`` that read one launch. All else is as there."""

    @classmethod
    def of(cls, report: Any) -> Any:
        """The same report without the frames that were read; what is no ``Report`` stays as it is."""
        return cls(report.run, report._file) if type(report) is Report else report

    def __init__(self, run: Any, source: Any) -> None:
        super().__init__(run, source)
        self._alone: OrderedDict[tuple[str, int], pd.DataFrame] = OrderedDict()
        self._reading = threading.Lock()

    def source_of(self, launch: int) -> pd.DataFrame:
        """The source frame of one launch, rows numbered from 0. One object for all callers: do not write to it."""
        return self._one("source", launch, lambda: self._source_alone(launch).reset_index(drop=True))

    def timeline_of(self, launch: int) -> pd.DataFrame:
        """The timeline of one launch. One object for all callers: do not write to it."""
        from ncubble.analysis.report import series as timeline

        return self._one("timeline", launch, lambda: timeline.tidy(self._table("timeline", launch)))

    @property
    def held_B(self) -> int:  # noqa: N802 - a unit, as in column names
        """About how many bytes the frames have that were read so far: eight a cell."""
        with self._reading:
            alone = list(self._alone.values())
        return super().held_B + sum(8 * frame.size for frame in alone)

    def _one(self, name: str, launch: int, read: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """A frame of one launch. Requests for the same one may read it twice; the lock is not held meanwhile."""
        with self._reading:
            if (found := self._alone.get((name, launch))) is not None:
                self._alone.move_to_end((name, launch))
                return found
        frame = read()
        release()
        with self._reading:
            self._alone[name, launch] = frame
            while len(self._alone) > 2 * KEPT:
                self._alone.popitem(last=False)
        return frame


def release() -> None:
    """Give memory back that the reader of tables has taken for whole columns."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
