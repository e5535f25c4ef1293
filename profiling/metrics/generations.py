"""Metric names and gaps by chip and ncu version: ``generations.toml``, typed. The analysis takes
names from here and never compares versions itself.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Literal

from msgspec import Meta, field

from ncubble.chips import Version
from ncubble.profiling.metrics.metrics import GENERATIONS, Shipped, Text, shipped

Stem = Annotated[str, Meta(pattern="^[^.]+__[^.]+$")]
"""A counter without its rollup."""
Name = Annotated[str, Meta(pattern="__")]
Names = Annotated[tuple[Name, ...], Meta(min_length=1)]


class Unit(Shipped, frozen=True):
    """A unit with its busy share, by counter stems (names without rollup). The busiest of
    ``counters`` is used, else the busiest of ``single``. ``directions`` gives the two counters
    whose sum a counter is. ``issue`` proves use only. ``chips`` are those that have the unit
    (empty: all), ``series`` is its short name in the timeline, ``set`` the metric set that collects
    it, empty where none does.
    """

    name: str
    kind: Literal["tensor", "pipe", "memory"]
    counters: Annotated[tuple[Stem, ...], Meta(min_length=1)]
    set: str = ""
    single: tuple[Stem, ...] = ()
    issue: tuple[Stem, ...] = ()
    directions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chips: tuple[str, ...] = ()
    series: str = ""

    def on(self, chip: str | None) -> bool:
        """Whether ``chip`` has this unit. A unit that only some chips have is not expected of an
        unknown one."""
        return not self.chips or chip in self.chips


class Gap(Shipped, frozen=True):
    """Something that only later chips (``cc``) or ncu versions (``ncu``) provide; ``source``
    documents it."""

    what: str
    source: Text
    cc: Version | None = None
    ncu: Version | None = None

    def of_chip(self, capability: Version | None) -> str:
        """Why this chip does not provide it, in words; empty if it does, or if the chip is
        unknown."""
        if self.cc and capability and capability < self.cc:
            return f"compute capability {capability} has no {self.what} (from {self.cc} on)"
        return ""

    def of_ncu(self, ncu: Version | None) -> str:
        """Why a report of this ncu does not have it, in words; empty if it can, or if the version
        is unknown."""
        if self.ncu and ncu and ncu < self.ncu:
            return f"this report is from ncu {ncu}; {self.what} needs {self.ncu} or later"
        return ""


class Timeline(Shipped, frozen=True):
    """``prefixes`` of PM-sampling series (regular expressions), and their counters by short
    name."""

    prefixes: tuple[str, ...]
    series: dict[str, tuple[str, ...]]


class Generations(Shipped, frozen=True):
    """The whole file. ``ratios`` are pairs of metrics whose quotient is a share."""

    units: tuple[Unit, ...]
    quantities: dict[str, Names]
    ratios: dict[str, tuple[tuple[Name, Name], ...]]
    timeline: Timeline
    gaps: dict[str, Gap]

    def of_kind(self, kind: str) -> dict[str, Unit]:
        """Units of one kind, by name, in the order of the file."""
        return {unit.name: unit for unit in self.units if unit.kind == kind}


@cache
def load_generations() -> Generations:
    """The shipped file. Raises UsageError if it is malformed."""
    return shipped(GENERATIONS, Generations)


@cache
def series_prefix() -> re.Pattern[str]:
    """Prefixes of PM-sampling series names, in all versions."""
    return re.compile("(?:" + "|".join(load_generations().timeline.prefixes) + ")")


@cache
def series_names() -> dict[str, str]:
    """The short name of each counter of a PM-sampling series."""
    return {counter: short for short, counters in load_generations().timeline.series.items() for counter in counters}
