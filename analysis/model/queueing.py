"""How much CTAs of one SM hold each other up: mean-value analysis of closed queueing networks.

Resident CTAs take turns at shared pipes. A CTA that is alone needs ``own`` cycles per iteration.
Beside others it also waits where it finds one of them at a pipe, which happens as often as the pipe
is in use without itself (M. Reiser and S. S. Lavenberg, "Mean-value analysis of closed multichain
queuing networks", J. ACM 27, 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

STEPS = 40
"""Halvings of an interval of cycles: to a billionth of a cycle."""


def cycle_time(own: float, demands: Sequence[float], ctas: float) -> float:
    """Cycles of one iteration of each of ``ctas`` CTAs.

    ``demands`` are the cycles for which a CTA occupies each shared pipe in an iteration; pipes may
    work for one CTA at the same time, so that they need not add up to ``own``. Between whole
    numbers of CTAs the result is interpolated. It never falls below what the busiest pipe needs for
    all.
    """
    least = math.hypot(*demands)  # a shorter cycle than this would find others at the pipes more often than they are
    waiting = [0.0] * len(demands)
    before = cycle = own
    for count in range(1, math.ceil(ctas) + 1):
        before = cycle
        cycle = own + sum(demand * queued for demand, queued in zip(demands, waiting, strict=True))
        usual = max(cycle, count * least)
        waiting = [count * demand * (1.0 + queued) / usual for demand, queued in zip(demands, waiting, strict=True)]
    share = 1.0 - (math.ceil(ctas) - ctas)
    return max(before + share * (cycle - before), ctas * max(demands, default=0.0))


def own_time(cycle: float, demands: Sequence[float], ctas: float) -> float:
    """The ``own`` for which ``cycle_time`` is ``cycle``, at least what the first pipe needs for one
    CTA.

    Where the busiest pipe alone explains the cycle, many values do; the largest of them is not
    known, and the smallest is returned."""
    least = min(demands[0], cycle) if demands else 0.0
    return _solve(lambda own: cycle_time(own, demands, ctas), cycle, least)


def flight_time(latency: float, service: float, tiles: float) -> float:
    """Cycles from the request of a tile to its arrival, where so many are on their way at all
    times.

    Each is delayed by ``latency`` and takes its turn at a port, for ``service`` cycles that are
    always the same: one that is served when it comes is half through on average. Between whole
    numbers of tiles the result is interpolated.
    """
    before = at_port = service
    queue = used = 0.0
    for count in range(1, math.ceil(tiles) + 1):
        before, at_port = at_port, max(service * (1.0 + queue - used / 2), count * service - latency)
        rate = count / max(latency + at_port, 1e-9)
        queue, used = rate * at_port, rate * service
    share = 1.0 - (math.ceil(tiles) - tiles)
    return latency + before + share * (at_port - before)


def idle_flight(total: float, service: float, tiles: float) -> float:
    """The ``latency`` for which ``flight_time`` is ``total``; 0 where the port alone takes as
    long."""
    return _solve(lambda latency: flight_time(latency, service, tiles), total, 0.0)


def _solve(rising: Callable[[float], float], result: float, low: float) -> float:
    """The argument from ``low`` to ``result`` for which ``rising`` gives ``result``; ``low`` where
    it gives more."""
    high = result
    if rising(low) >= result:
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < result else (low, middle)
    return low
