"""Which counters a share came from: the names and values behind ``units.busy_of`` and ``units.cta_share``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ncubble.analysis.account.units import ACTIVE, DIRECTION, DIRECTIONS, ELAPSED
from ncubble.analysis.report.launch import Launch
from ncubble.profiling.metrics.generations import Unit, load_generations

Counters = dict[str, float]


def of_cta_share(launch: Launch) -> Counters:
    """The pair of counters whose quotient is the share of cycles with a CTA; empty where no pair was collected."""
    for part, whole in load_generations().ratios["cta_share"]:
        values = {part: launch.value(part), whole: launch.value(whole)}
        if values[part] >= 0 and values[whole] > 0:
            return values
    return {}


def of_unit(launch: Launch, name: str) -> tuple[str, Counters]:
    """How a unit's busy share was found, in words, and the counters that it was found from. ``tensor`` is the busiest
    tensor pipe."""
    units = load_generations().of_kind("tensor").values() if name == "tensor" else _named(name)
    found = [one for unit in units for one in _of_pipe(launch, unit)]
    return max(found, key=lambda one: one[2])[:2] if found else ("", {})


def _named(name: str) -> list[Unit]:
    return [unit for unit in load_generations().units if unit.name == name]


def _of_pipe(launch: Launch, unit: Unit) -> list[tuple[str, Counters, float]]:
    """Formula, counters and share by the first counter of a unit, else by each of those of single operations."""
    if whole := next(_shares(launch, unit.counters), None):
        return [whole]
    return list(_shares(launch, unit.single))


def _shares(launch: Launch, stems: Iterable[str]) -> Iterator[tuple[str, Counters, float]]:
    for stem in stems:
        words, values = _elapsed(launch, stem)
        share = math.fsum(values.values())
        if stem not in DIRECTIONS and len(values) > 1:
            active, part, whole = values.values()
            share = active * min(1.0, part / whole)
        if values and not math.isnan(share):
            yield words, values, share


def _elapsed(launch: Launch, stem: str) -> tuple[str, Counters]:
    """As ``units.utilization`` finds it: the sum of both directions, of elapsed cycles, or of active ones."""
    if stem in DIRECTIONS:
        names = [part + DIRECTION for part in DIRECTIONS[stem]]
        return "the sum of both directions", {name: launch.value(name) for name in names}
    if not math.isnan(value := launch.value(stem + ELAPSED)):
        return "the counter", {stem + ELAPSED: value}
    value, cta = launch.value(stem + ACTIVE), of_cta_share(launch)
    if math.isnan(value) or not cta:
        return "", {}
    return "the counter of active cycles × the share of cycles with a CTA", {stem + ACTIVE: value, **cta}
