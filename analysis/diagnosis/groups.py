"""Launches of one kernel taken together: their time, their common account and their main cause."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ncubble.analysis.diagnosis.verdict import LaunchVerdict

SMALL_SHARE_PCT = 1.0
"""Kernels with less of the time are folded into one line, where there are several."""
FEW = 3
"""So many small kernels are still shown each."""


@dataclass(frozen=True)
class LaunchGroup:
    """Launches of one kernel at one problem in one report."""

    launches: tuple[LaunchVerdict, ...]

    @property
    def time_ns(self) -> float:
        """Of all launches together; 0 where no duration is known."""
        return sum(launch.duration_ns or 0.0 for launch in self.launches)

    @property
    def busy_pct(self) -> float | None:
        """Of elapsed cycles the bounding unit worked, by the common account; None without one."""
        account = self.verdict.account
        return account["tensor_busy"] + account["unit_busy"] if account else None

    @property
    def lost_ns(self) -> float:
        """Time in which the bounding unit did not work; 0 where that is not known."""
        busy = self.busy_pct
        return 0.0 if busy is None else self.time_ns * (1.0 - busy / 100.0)

    @cached_property
    def verdict(self) -> LaunchVerdict:
        """All launches as one: durations and cycles are sums, percentages means by time, and cause
        and places are those of the longest launch with the cause that most of the time has."""
        if len(self.launches) == 1:
            return self.launches[0]
        spent: defaultdict[str, float] = defaultdict(float)
        for launch in self.launches:
            spent[launch.cause] += launch.duration_ns or 0.0
        cause = max(spent, key=lambda name: spent[name])
        typical = max((one for one in self.launches if one.cause == cause), key=lambda one: one.duration_ns or 0.0)
        return replace(
            typical,
            duration_ns=self.time_ns or None,
            cycles=sum(launch.cycles or 0.0 for launch in self.launches) or None,
            account=_common_account([launch for launch in self.launches if launch.account]),
            sm_clock_hz=_mean(self.launches, lambda one: one.sm_clock_hz),
            dram_pct=_mean(self.launches, lambda one: one.dram_pct),
            tensor_elapsed_pct=_mean(self.launches, lambda one: one.tensor_elapsed_pct),
        )


def groups_of(launches: Iterable[LaunchVerdict]) -> list[LaunchGroup]:
    """Launches of one report, label, kernel, problem and bounding unit together, in the order of
    the first of each."""
    found: defaultdict[tuple[str, ...], list[LaunchVerdict]] = defaultdict(list)
    for launch in launches:
        shape = json.dumps(launch.shape, sort_keys=True)
        found[launch.report, launch.label, launch.kernel, shape, launch.unit or ""].append(launch)
    return [LaunchGroup(tuple(members)) for members in found.values()]


ORDERS: dict[str, Callable[[LaunchGroup], float]] = {
    "time": lambda group: -group.time_ns,
    "lost": lambda group: -group.lost_ns,
    "busy": lambda group: 101.0 if group.busy_pct is None else group.busy_pct,
    "dram": lambda group: -(group.verdict.dram_pct or 0.0),
    "read": lambda group: 0.0,
}
"""What ``--sort`` takes: most time, most time lost, least busy, most DRAM traffic, as read."""


def shown_and_rest(groups: Sequence[LaunchGroup], limit: int | None) -> tuple[list[LaunchGroup], list[LaunchGroup]]:
    """The groups that get a row, and those that share one: all behind ``limit``, or without it the
    small ones, if there are more than a few."""
    if limit is not None:
        return list(groups[:limit]), list(groups[limit:])
    total = sum(group.time_ns for group in groups)
    small = [group for group in groups if group.time_ns < total * SMALL_SHARE_PCT / 100.0]
    if len(small) <= FEW:
        return list(groups), []
    hidden = set(map(id, small))
    return [group for group in groups if id(group) not in hidden], small


def _common_account(launches: Sequence[LaunchVerdict]) -> dict[str, float] | None:
    """Of launches that have one."""
    parts = dict.fromkeys(part for launch in launches for part in launch.account or {})
    return {part: _mean(launches, partial(_pct, part)) or 0.0 for part in parts} or None


def _pct(part: str, launch: LaunchVerdict) -> float:
    return (launch.account or {}).get(part, 0.0)


def _mean(launches: Sequence[LaunchVerdict], value: Callable[[LaunchVerdict], float | None]) -> float | None:
    """Mean of what is known, weighted by time; unweighted where no duration is known."""
    known = [(number, one.duration_ns or 0.0) for one in launches if (number := value(one)) is not None]
    weight = sum(time for _, time in known)
    if not weight:
        return sum(number for number, _ in known) / len(known) if known else None
    return sum(number * time for number, time in known) / weight
