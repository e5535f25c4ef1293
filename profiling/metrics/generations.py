"""Metric names and gaps by chip and ncu version: ``generations.toml``, typed. The analysis takes
names from here and never compares versions itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from ncubble.chips import Version, generations, parse_version
from ncubble.profiling.metrics.metrics import GENERATIONS, build, malformed, table

KINDS = ("tensor", "pipe", "memory")


@dataclass(frozen=True)
class Unit:
    """A unit with its busy share, by counter stems (names without rollup). The busiest of
    ``counters`` is used, else the busiest of ``single``. ``directions`` gives the two counters
    whose sum a counter is. ``issue`` proves use only. ``chips`` are those that have the unit
    (empty: all), ``series`` is its short name in the timeline, ``set`` the metric set that collects
    it.
    """

    name: str
    kind: str
    set: str
    counters: tuple[str, ...]
    single: tuple[str, ...] = ()
    issue: tuple[str, ...] = ()
    directions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chips: tuple[str, ...] = ()
    series: str = ""

    def on(self, chip: str | None) -> bool:
        """Whether ``chip`` has this unit. A unit that only some chips have is not expected of an
        unknown one."""
        return not self.chips or chip in self.chips


@dataclass(frozen=True)
class Gap:
    """Something that only later chips (``cc``) or ncu versions (``ncu``) provide; ``source``
    documents it."""

    name: str
    what: str
    source: str
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


@dataclass(frozen=True)
class Generations:
    """The whole file. ``series`` maps the counter of a PM-sampling series to its short name."""

    units: tuple[Unit, ...]
    quantities: Mapping[str, tuple[str, ...]]
    ratios: Mapping[str, tuple[tuple[str, str], ...]]
    prefixes: tuple[str, ...]
    series: Mapping[str, str]
    gaps: Mapping[str, Gap]

    def of_kind(self, kind: str) -> dict[str, Unit]:
        """Units of one of ``KINDS``, by name, in the order of the file."""
        return {unit.name: unit for unit in self.units if unit.kind == kind}


@cache
def load_generations() -> Generations:
    """The shipped file. Raises UsageError if it is malformed."""
    return parse_generations(table(GENERATIONS))


@cache
def series_prefix() -> re.Pattern[str]:
    """Prefixes of PM-sampling series names, in all versions."""
    return re.compile("(?:" + "|".join(load_generations().prefixes) + ")")


def parse_generations(content: Mapping[str, Any]) -> Generations:
    """The file's content from its TOML table; raises UsageError naming what is wrong."""
    wanted = {"units", "quantities", "ratios", "timeline", "gaps"}
    if set(content) != wanted:
        raise malformed(GENERATIONS, f"unknown or missing tables {sorted(set(content) ^ wanted)}")
    units = tuple(_unit(entry) for entry in content["units"])
    gaps = tuple(_gap(entry) for entry in content["gaps"])
    _once("units", [unit.name for unit in units])
    _once("gaps", [gap.name for gap in gaps])
    series = [(counter, short) for short, counters in content["timeline"]["series"].items() for counter in counters]
    _once("timeline series", [counter for counter, _ in series])
    if strange := sorted({unit.series for unit in units if unit.series} - {short for _, short in series}):
        raise malformed(GENERATIONS, f"units name missing timeline series: {strange}")
    return Generations(
        units=units,
        quantities=MappingProxyType({name: _names(name, items) for name, items in content["quantities"].items()}),
        ratios=MappingProxyType({name: _pairs(name, items) for name, items in content["ratios"].items()}),
        prefixes=tuple(_prefix(text) for text in content["timeline"]["prefixes"]),
        series=MappingProxyType(dict(series)),
        gaps=MappingProxyType({gap.name: gap for gap in gaps}),
    )


def _unit(entry: Mapping[str, Any]) -> Unit:
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    unit = build(Unit, GENERATIONS, values)
    unit = replace(unit, directions={name: tuple(parts) for name, parts in unit.directions.items()})
    if unit.kind not in KINDS:
        raise malformed(GENERATIONS, f"unit {unit.name!r}: kind {unit.kind!r} is not one of {', '.join(KINDS)}")
    if strange := sorted(set(unit.chips) - generations()):
        raise malformed(GENERATIONS, f"unit {unit.name!r}: unknown chips {strange}")
    if strange := sorted(set(unit.directions) - set(unit.counters)):
        raise malformed(GENERATIONS, f"unit {unit.name!r}: directions for counters it does not have: {strange}")
    stems = _names(f"unit {unit.name!r}", [*unit.counters, *unit.single, *unit.issue])
    if dotted := [stem for stem in stems if "." in stem]:
        raise malformed(GENERATIONS, f"unit {unit.name!r}: stems carry no rollup: {dotted}")
    return unit


def _gap(entry: Mapping[str, Any]) -> Gap:
    values = {key: parse_version(value) if key in ("cc", "ncu") else value for key, value in entry.items()}
    gap = build(Gap, GENERATIONS, values)
    if not (gap.cc or gap.ncu) or not gap.source:
        raise malformed(GENERATIONS, f"gap {gap.name!r} needs a capability or an ncu version, and a source")
    return gap


def _names(where: str, names: Iterable[Any]) -> tuple[str, ...]:
    given = tuple(names)
    if not given or any(not isinstance(name, str) or "__" not in name for name in given):
        raise malformed(GENERATIONS, f"{where}: {given} must all be metric names")
    _once(where, list(given))
    return given


def _pairs(where: str, items: Iterable[Iterable[Any]]) -> tuple[tuple[str, str], ...]:
    pairs = [_names(where, item) for item in items]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise malformed(GENERATIONS, f"{where}: a share needs pairs of metrics")
    return tuple((pair[0], pair[1]) for pair in pairs)


def _prefix(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise malformed(GENERATIONS, f"prefix {text!r} is not a regular expression ({error})") from error
    return text


def _once(where: str, names: list[str]) -> None:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise malformed(GENERATIONS, f"{where}: repeated {repeated}")
