"""Launches of one kernel taken together: their time, their common account and their main cause."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import recoverable_ns

SMALL_SHARE_PCT = 1.0
"""Several kernels below this share of the time are folded into one line."""
FOLDED_SHARE_PCT = 20.0
"""Maximum share of the time that is folded."""
FEW = 3
"""Up to this many small kernels are shown individually."""
UNJUDGED = "unknown"
"""The cause of a launch whose report does not say what to change."""


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
        """Time that a launch without bubbles would save (``recoverable_ns``); 0 where that is not
        known."""
        return sum(recoverable_ns(launch) or 0.0 for launch in self.launches)

    @cached_property
    def verdict(self) -> LaunchVerdict:
        """All launches as one: durations and cycles are sums, percentages means by time, and cause
        and places are those of the longest launch with the main cause."""
        if len(self.launches) == 1:
            return self.launches[0]
        times = [launch.duration_ns or 0.0 for launch in self.launches]
        cause = main_cause([launch.cause for launch in self.launches], times)
        typical = max((one for one in self.launches if one.cause == cause), key=lambda one: one.duration_ns or 0.0)
        return replace(
            typical,
            duration_ns=self.time_ns or None,
            cycles=sum(launch.cycles or 0.0 for launch in self.launches) or None,
            account=common_account([launch.account for launch in self.launches], times),
            sm_clock_hz=weighted_mean([one.sm_clock_hz for one in self.launches], times),
            dram_pct=weighted_mean([one.dram_pct for one in self.launches], times),
            tensor_elapsed_pct=weighted_mean([one.tensor_elapsed_pct for one in self.launches], times),
        )


def groups_of(launches: Iterable[LaunchVerdict]) -> list[LaunchGroup]:
    """Launches of one report, label, kernel, problem and bounding unit together, in the order of
    the first of each."""
    found: defaultdict[tuple[str, ...], list[LaunchVerdict]] = defaultdict(list)
    for launch in launches:
        shape = json.dumps(launch.shape, sort_keys=True)
        found[launch.report, launch.label, launch.kernel, shape, launch.unit or ""].append(launch)
    return [LaunchGroup(tuple(members)) for members in found.values()]


ORDERS: dict[str, Callable[[LaunchGroup], Any]] = {
    "time": lambda group: -group.time_ns,
    "lost": lambda group: (group.verdict.unit != "tensor", -group.lost_ns, -group.time_ns),
    "busy": lambda group: 101.0 if group.busy_pct is None else group.busy_pct,
    "dram": lambda group: -(group.verdict.dram_pct or 0.0),
    "read": lambda group: 0.0,
}
"""Values of ``--sort``: most time, kernels of the tensor pipe first and most time lost, least busy,
most DRAM traffic, as read."""


def shown_and_rest(groups: Sequence[LaunchGroup], limit: int | None) -> tuple[list[LaunchGroup], list[LaunchGroup]]:
    """The groups that get a row, and those that share one: all behind ``limit``, or without it the
    small ones (``folded``)."""
    if limit is not None:
        return list(groups[:limit]), list(groups[limit:])
    hidden = folded([group.time_ns for group in groups], [group.verdict.unit == "tensor" for group in groups])
    shown = [group for place, group in enumerate(groups) if place not in hidden]
    return shown, [group for place, group in enumerate(groups) if place in hidden]


def folded(times: Sequence[float], tensor: Sequence[bool]) -> set[int]:
    """Places of the groups that share a row, by the time of each: those of little time, if there
    are more than a few, and never more of the time together than ``FOLDED_SHARE_PCT``. Kernels of
    the tensor pipe (``tensor``) are small among their own kind only."""
    own = [place for place, its in enumerate(tensor) if its]
    other = [place for place, its in enumerate(tensor) if not its]
    of_tensor = _smallest(times, own, sum(times[place] for place in own))
    small = of_tensor + _smallest(times, other, sum(times))
    return set(small) if len(small) > FEW else set()


def _smallest(times: Sequence[float], places: Sequence[int], total: float) -> list[int]:
    small, spent = list[int](), 0.0
    for place in sorted(places, key=lambda place: times[place]):
        spent += times[place]
        if times[place] >= total * SMALL_SHARE_PCT / 100.0 or spent > total * FOLDED_SHARE_PCT / 100.0:
            break
        small.append(place)
    return small


def main_cause(causes: Sequence[str], times: Sequence[float]) -> str:
    """The cause that most of the time has, among launches that were judged; ``unknown`` only where
    none was. ``causes`` must not be empty."""
    spent: defaultdict[str, float] = defaultdict(float)
    for cause, time in zip(causes, times, strict=True):
        spent[cause] += time
    return max(spent, key=lambda cause: (cause != UNJUDGED, spent[cause]))


def common_account(accounts: Sequence[Mapping[str, float] | None], times: Sequence[float]) -> dict[str, float] | None:
    """The mean of the launches that have an account, by time; None where none has."""
    known = [(account, time) for account, time in zip(accounts, times, strict=True) if account]
    spent = [time for _, time in known]
    parts = dict.fromkeys(part for account, _ in known for part in account)
    means = {part: weighted_mean([account.get(part, 0.0) for account, _ in known], spent) for part in parts}
    return {part: mean or 0.0 for part, mean in means.items()} or None


def weighted_mean(values: Sequence[float | None], times: Sequence[float]) -> float | None:
    """Mean of what is known, weighted by time; unweighted where no time is known."""
    known = [(value, time) for value, time in zip(values, times, strict=True) if value is not None]
    weight = sum(time for _, time in known)
    if not weight:
        return sum(value for value, _ in known) / len(known) if known else None
    return sum(value * time for value, time in known) / weight
