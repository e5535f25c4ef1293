"""The state of a kernel page in its address:
``/kernel/KEY/LAUNCH?range=12.5,80&show=metrics&metric=tensor``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ncubble.dashboard.pages.address_codec import LAUNCH_ID, Address, flag, matching, parameter, text

LONGEST_FIND = 100
_RANGE = re.compile(r"(-?\d{1,12}(?:\.\d{1,6})?),(-?\d{1,12}(?:\.\d{1,6})?)")


def _range(given: str) -> tuple[float, float] | None:
    match = _RANGE.fullmatch(given)
    if match is None:
        return None
    start, end = float(match[1]), float(match[2])
    return (start, end) if end > start else None


@dataclass(frozen=True)
class KernelAddress(Address):
    """``range_us`` is the stretch of the timeline that is shown, in µs from its start (None: all);
    ``find`` is what is searched in the table of metrics, which ``show`` opens; ``against`` is the
    pinned launch whose metrics stand beside."""

    PATH: ClassVar[str] = "/kernel"
    LONGEST: ClassVar[int] = 2048
    range_us: tuple[float, float] | None = parameter(
        "range", None, _range, lambda ends: ",".join(f"{end:.6f}" for end in ends)
    )
    show: bool = flag("show", "metrics")
    find: str = text("metric", LONGEST_FIND)
    against: str = matching("against", LAUNCH_ID)

    @property
    def metrics(self) -> bool:
        """Whether the table of metrics is open."""
        return self.show or bool(self.find)


WHOLE = KernelAddress()
"""The page with the whole timeline."""
