"""Reads the metric sets and aliases of ``profiling/metrics/sets/*.toml``; malformed files are
rejected.

The third kind of file there, names by generation, is read by ``generations``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from ncubble.chips import Version, generations, parse_version
from ncubble.errors import UsageError

DIRECTIONS = ("higher", "lower", "neutral")
_FOLDER = "ncubble.profiling.metrics.sets"
_ALIASES = "aliases"
GENERATIONS = "generations"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Metric:
    """One metric of a set.

    ``name`` is ncu's name, ``unit`` as ncu prints it for base units, ``direction`` the better
    direction, ``role`` the part of the analysis that uses it. ``required``: the account needs it.
    ``chips`` renames it per chip (empty text: that chip lacks it), ``only`` lists the chips that
    have it, ``min_cc`` the first capability that does.
    """

    name: str
    unit: str
    direction: str
    role: str
    about: str
    required: bool = False
    min_cc: Version | None = None
    only: tuple[str, ...] = ()
    chips: Mapping[str, str] = field(default_factory=dict)

    def on(self, chip: str | None, capability: Version | None) -> str:
        """The name on ``chip``; empty if the chip lacks it. An unknown chip of known capability
        follows ``min_cc``."""
        if self.min_cc and capability and capability < self.min_cc:
            return ""
        if self.only and chip and chip not in self.only:
            return ""
        return self.chips.get(chip, self.name) if chip else self.name


@dataclass(frozen=True)
class MetricSet:
    """One file: metrics and ncu sections that answer one question.

    ``since`` holds the first ncu with a section, ``slim`` the metrics to keep of a section, by
    parts of names.
    """

    name: str
    title: str
    include: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    since: Mapping[str, Version] = field(default_factory=dict)
    slim: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ncu_set: str = ""
    import_source: bool = False
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class Alias:
    """An alternative metric name, the actual name, and why they differ."""

    name: str
    metric: str
    why: str
    chips: Mapping[str, str] = field(default_factory=dict)

    def on(self, chip: str | None) -> str:
        """ncu's name on ``chip``."""
        return self.chips.get(chip, self.metric) if chip else self.metric


@cache
def load_sets() -> dict[str, MetricSet]:
    """All sets by name. Raises UsageError naming the file for anything that is not a set."""
    names = sorted(item.name.removesuffix(".toml") for item in files(_FOLDER).iterdir() if item.name.endswith(".toml"))
    sets = {name: parse_set(name, table(name)) for name in names if name not in (_ALIASES, GENERATIONS)}
    for member in sets.values():
        for included in member.include:
            if included not in sets or sets[included].include:
                raise malformed(member.name, f"include {included!r} is not a set, or is itself a union")
    return sets


@cache
def load_aliases() -> dict[str, Alias]:
    """All aliases by alternative name."""
    entries = [build(Alias, _ALIASES, entry) for entry in table(_ALIASES)[_ALIASES]]
    return {alias.name: alias for alias in entries}


def parse_set(name: str, content: Mapping[str, Any]) -> MetricSet:
    """A set from its TOML table; raises UsageError for unknown keys, wrong words, repeated or empty
    names."""
    known = {"title", "include", "sections", "since", "slim", "ncu_set", "import_source", "metrics"}
    if unknown := sorted(set(content) - known):
        raise malformed(name, f"unknown keys {unknown}")
    if not content.get("title"):
        raise malformed(name, "no title")
    metrics = tuple(_parse_metric(name, entry) for entry in content.get("metrics", []))
    names = [metric.name for metric in metrics]
    if repeated := sorted({item for item in names if names.count(item) > 1}):
        raise malformed(name, f"repeated metrics {repeated}")
    sections = tuple(content.get("sections", ()))
    since = {section: parse_version(text) for section, text in content.get("since", {}).items()}
    slim = {section: tuple(stems) for section, stems in content.get("slim", {}).items()}
    if stray := sorted({*since, *slim} - set(sections)):
        raise malformed(name, f"'since' or 'slim' for sections not in the set: {stray}")
    member = MetricSet(
        name=name,
        title=content["title"],
        include=tuple(content.get("include", ())),
        sections=sections,
        since=since,
        slim=slim,
        ncu_set=content.get("ncu_set", ""),
        import_source=content.get("import_source", False),
        metrics=metrics,
    )
    if not (member.include or member.sections or member.ncu_set or member.metrics):
        raise malformed(name, "it collects nothing")
    return member


def _parse_metric(origin: str, entry: Mapping[str, Any]) -> Metric:
    values = dict(entry)
    if "min_cc" in values:
        values["min_cc"] = parse_version(values["min_cc"])
    values["only"] = tuple(values.get("only", ()))
    metric = build(Metric, origin, values)
    if metric.direction not in DIRECTIONS:
        raise malformed(origin, f"{metric.name}: direction {metric.direction!r} is not one of {', '.join(DIRECTIONS)}")
    if not (metric.name and metric.role and metric.about):
        raise malformed(origin, f"metric {metric.name!r} lacks name, role or about")
    if strange := sorted({*metric.chips, *metric.only} - generations()):
        raise malformed(origin, f"{metric.name}: unknown chips {strange}")
    return metric


def build(kind: type[_T], origin: str, values: Mapping[str, Any]) -> _T:
    """``kind(**values)``; raises UsageError naming the file ``origin`` for unknown or missing
    members."""
    try:
        return kind(**values)
    except TypeError as error:
        raise malformed(origin, str(error)) from error


def table(name: str) -> dict[str, Any]:
    """The TOML table of one file of this folder. Raises UsageError for a missing file or invalid
    TOML."""
    try:
        return tomllib.loads((files(_FOLDER) / f"{name}.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise malformed(name, f"invalid TOML ({error})") from error


def malformed(name: str, why: str) -> UsageError:
    """The error for a file with wrong content."""
    return UsageError(f"profiling/metrics/sets/{name}.toml: {why}", "correct the file, or reinstall ncubble")
