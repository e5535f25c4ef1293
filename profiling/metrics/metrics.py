"""Metric sets: what ncu collects, why, and under which name on which chip.

The sets are TOML files in ``profiling/metrics/sets``. ``resolve`` turns set names into the flat
lists of an ncu command line for one chip and one version of ncu.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ncubble.chips import Version, generation_of
from ncubble.errors import UsageError
from ncubble.profiling.metrics.catalog import Alias, Metric, MetricSet, load_aliases, load_sets

DEFAULT_SETS = ("pipeline", "timeline", "source")

# What ncu accepts: unit__counter.rollup[.submetric], group:…, regex:…, pmsampling:…, or a name of
# its own (launch__…).
_NCU_NAME = re.compile(r"(?:(?:group|breakdown|pmsampling|warpsampling|regex):)?[A-Za-z0-9_^$.*+()|\[\]]+")


@dataclass(frozen=True)
class Target:
    """Chip and ncu version of a collection. None if unknown: then names are used as in the sets."""

    capability: Version | None = None
    ncu: Version | None = None


@dataclass(frozen=True)
class MetricSelection:
    """Metrics and sections of one ncu command, with this chip's names, without duplicates, in the
    order of the sets."""

    sets: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    ncu_sets: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    slim: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    import_source: bool = False
    notes: tuple[str, ...] = ()


@dataclass
class _Draft:
    metrics: dict[str, None] = field(default_factory=dict)
    sections: dict[str, None] = field(default_factory=dict)
    ncu_sets: dict[str, None] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    slim: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    import_source: bool = False


def resolve(sets: Sequence[str], metrics: Iterable[str] = (), target: Target | None = None) -> MetricSelection:
    """The selection for ``sets`` (by name) and further ``metrics``, with the names of ``target``.
    Aliases unknown to ncu are replaced, with a note. Metrics of a set that the chip lacks are
    omitted. Raises UsageError for an unknown set, a metric that cannot be one (naming the nearest)
    or that the chip lacks.
    """
    target = target or Target()
    draft = _Draft()
    for member in _expand(sets):
        _add_set(draft, member, target)
    for name in metrics:
        _add_metric_by_name(draft, name, target)
    if not (draft.metrics or draft.sections or draft.ncu_sets):
        raise UsageError(
            "nothing to collect: neither a metric set nor a metric is named", "name at least one --set or --metric"
        )
    return MetricSelection(
        sets=tuple(sets),
        metrics=tuple(draft.metrics),
        sections=tuple(draft.sections),
        ncu_sets=tuple(draft.ncu_sets),
        required=frozenset(draft.required),
        slim=draft.slim,
        import_source=draft.import_source,
        notes=tuple(draft.notes),
    )


def _expand(names: Sequence[str]) -> list[MetricSet]:
    """The named sets and the sets they include, without duplicates, included sets first."""
    known = load_sets()
    ordered: dict[str, MetricSet] = {}

    def visit(name: str) -> None:
        if name not in known:
            raise UsageError(f"unknown metric set {name!r}{_nearest(name, known)}", f"sets: {', '.join(sorted(known))}")
        for included in known[name].include:
            visit(included)
        ordered.setdefault(name, known[name])

    for name in names:
        visit(name)
    return list(ordered.values())


def _add_set(draft: _Draft, member: MetricSet, target: Target) -> None:
    for metric in member.metrics:
        _add_metric(draft, metric, target)
    for section in member.sections:
        since = member.since.get(section)
        if since and target.ncu and target.ncu < since:
            draft.notes[f"section {section} skipped: ncu {target.ncu} is older than {since}"] = None
        else:
            draft.sections[section] = None
    draft.slim.update(member.slim)
    if member.ncu_set:
        draft.ncu_sets[member.ncu_set] = None
    draft.import_source |= member.import_source


def _add_metric(draft: _Draft, metric: Metric, target: Target) -> None:
    name = metric.on(generation_of(target.capability), target.capability)
    if name:
        draft.metrics[name] = None
    if name and metric.required:
        draft.required.add(name)


def _add_metric_by_name(draft: _Draft, name: str, target: Target) -> None:
    known = {metric.name: metric for member in load_sets().values() for metric in member.metrics}
    if name in known:
        if not known[name].on(generation_of(target.capability), target.capability):
            raise UsageError(
                f"metric {name!r}: not available on compute capability {target.capability}", "leave it out"
            )
        _add_metric(draft, known[name], target)
        return
    alias = load_aliases().get(name)
    if alias:
        _add_alias(draft, alias, target)
        return
    if ("__" not in name and ":" not in name) or not _NCU_NAME.fullmatch(name):
        candidates = [*known, *load_aliases()]
        raise UsageError(
            f"unknown metric {name!r}{_nearest(name, candidates)}",
            "metrics look like sm__cycles_active.avg; `ncu --query-metrics` lists those of a chip",
        )
    draft.metrics[name] = None
    draft.notes[f"{name} is in no set of ncubble: passed to ncu unchanged"] = None


def _add_alias(draft: _Draft, alias: Alias, target: Target) -> None:
    name = alias.on(generation_of(target.capability))
    draft.metrics[name] = None
    if name != alias.name:
        draft.notes[f"{alias.name} collected as {name}: {alias.why}"] = None


def _nearest(name: str, candidates: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(candidates), n=3, cutoff=0.5)
    return f"; nearest: {', '.join(near)}" if near else ""
