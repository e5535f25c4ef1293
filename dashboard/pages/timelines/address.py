"""Addresses of the Timelines page: ``/timelines?run=ID&from=NS&to=NS&launch=N``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ncubble.dashboard.pages.address_codec import Address, matching, number


@dataclass(frozen=True)
class TimelinesAddress(Address):
    """A run by its id, the ends of a window in ns after its first interval, and the launch whose
    warps are drawn below its streams."""

    PATH: ClassVar[str] = "/timelines"
    LONGEST: ClassVar[int] = 1024
    run: str = matching("run", "[0-9a-f]{16}")
    start: int | None = number("from", digits=15)
    end: int | None = number("to", digits=15)
    launch: int | None = number("launch", digits=9)

    @property
    def window(self) -> tuple[float, float] | None:
        """The window, or None for the whole run, where an end lacks or they are in the wrong
        order."""
        if self.start is None or self.end is None or self.start >= self.end:
            return None
        return float(self.start), float(self.end)
