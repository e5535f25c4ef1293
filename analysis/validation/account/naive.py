"""The account that a reader makes of stall reasons alone: what ours is held against.

All time in which the unit is idle is shared out by warp samples, each put down to the part that the
name of its stall reason suggests. Names are all that it knows: no instructions around a sample, no
timeline, no waits that hide behind a busy pipe. ``selected`` is no stall and takes no share.
"""

from __future__ import annotations

from collections.abc import Mapping

PART_OF = {
    "long_scoreboard": "data_wait",
    "lg_throttle": "copy_cost",
    "short_scoreboard": "smem_wait",
    "mio_throttle": "smem_wait",
    "barrier": "sync_wait",
    "membar": "sync_wait",
    "drain": "epilogue",
}
OTHERS = "issue"
SELECTED = "selected"


def naive_account(samples: Mapping[str, float], busy_pct: float) -> dict[str, float]:
    """Parts in percent of elapsed cycles, ``busy_pct`` left out, from warp ``samples`` by stall
    reason.

    The parts sum to 100 - ``busy_pct``; without samples all of it is ``issue``.
    """
    room = 100.0 - busy_pct
    parts = dict.fromkeys((*PART_OF.values(), OTHERS), 0.0)
    stalls = {reason: count for reason, count in samples.items() if reason != SELECTED}
    total = sum(stalls.values())
    if not total:
        return {**parts, OTHERS: room}
    for reason, count in stalls.items():
        parts[PART_OF.get(reason, OTHERS)] += room * count / total
    return parts
