"""Which launches a figure of all of them draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncubble.analysis.launches.table import LaunchRows

MOST_POINTS = 2000


def worth_drawing(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> tuple[LaunchRows, int]:
    """Rows that hold every one of ``fields``, at most ``MOST_POINTS``, those with most recoverable
    time first kept; and how many lack one."""
    packed = LaunchRows.of(rows)
    complete = np.flatnonzero(~np.isnan([packed.numbers(name) for name in fields]).any(axis=0))
    lacking = len(rows) - len(complete)
    if len(complete) > MOST_POINTS:
        recoverable = np.nan_to_num(packed.numbers("recoverable_ns")[complete])
        complete = complete[np.argsort(-recoverable, kind="stable")[:MOST_POINTS]]
    return packed.at(complete), lacking
