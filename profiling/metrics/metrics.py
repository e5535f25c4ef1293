"""Metric sets: what ncu collects, why, and under which name on which chip.

The sets are TOML files in ``profiling/metrics/sets``; malformed ones are rejected. ``resolve``
turns set names into the flat lists of an ncu command line for one chip and one version of ncu.
``slim`` cuts ncu's own section files down to the series that the analysis reads: ncu samples a
series alone in a pass when it is named on the command line; only a section file puts many into one
pass, in groups tuned per chip. The stock PM-sampling section collects 32 series on an H200, of
which few are read here. If it is not found, or has an unexpected form, it is used completely, with
a note.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from ncubble.chips import Version, generation_of, generations, parse_version
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


PREFIX = "Ncubble_"
_ALWAYS = ("profiler__", "gpc__cycles_elapsed", "gpu__time_duration")
_IDENTIFIER = re.compile(r'^(\s*Identifier:\s*")(\w+)(")', re.MULTILINE)
_OPENING = re.compile(r"\bMetrics\s*\{")


@dataclass(frozen=True)
class Slimmed:
    """The replaced selection, and the section folders for ncu (none: its own)."""

    selection: MetricSelection
    folders: tuple[Path, ...] = ()


def prepare(folder: Path, selection: MetricSelection, stock: Path | None) -> Slimmed:
    """Write slim versions of the sections in ``selection.slim`` into ``folder``; ``stock`` holds
    ncu's own files."""
    names = [name for name in selection.sections if name in selection.slim]
    if not names:
        return Slimmed(selection)
    texts = {name: _slim_file(stock, name, selection.slim[name]) for name in names}
    done = {name: text for name, text in texts.items() if text}
    notes = tuple(
        f"section {name} collected in full: its section file of ncu was not found" for name in names if name not in done
    )
    selection = replace(selection, notes=(*selection.notes, *notes))
    if not done or stock is None:
        return Slimmed(selection)
    folder.mkdir()
    for name, text in done.items():
        (folder / f"{PREFIX}{name}.section").write_text(text, encoding="utf-8")
    sections = tuple(PREFIX + name if name in done else name for name in selection.sections)
    return Slimmed(replace(selection, sections=sections), (folder, stock))


def _slim_file(stock: Path | None, name: str, stems: Sequence[str]) -> str:
    file = stock / f"{name}.section" if stock else None
    if file is None or not file.is_file():
        return ""
    return slim(file.read_text(encoding="utf-8", errors="replace"), stems)


def slim(text: str, stems: Sequence[str]) -> str:
    """A section without the metrics whose names hold none of ``stems``, under a name of its own; ""
    if none is left."""
    blocks = list(_innermost(text))
    kept = [block for block in blocks if any(stem in text[slice(*block)] for stem in stems)]
    if not kept or not _IDENTIFIER.search(text):
        return ""
    for start, end in reversed(blocks):
        if (start, end) not in kept and not any(stem in text[start:end] for stem in _ALWAYS):
            text = text[:start] + text[end:]
    return _IDENTIFIER.sub(rf"\g<1>{PREFIX}\g<2>\g<3>", text, count=1)


def _innermost(text: str) -> Iterator[tuple[int, int]]:
    """Borders of each ``Metrics { … }`` that holds no other, in order."""
    for match in _OPENING.finditer(text):
        end = _closing(text, match.end() - 1)
        if end and not _OPENING.search(text, match.end(), end):
            yield match.start(), end


def _closing(text: str, start: int) -> int:
    """Position behind the brace that closes the one at ``start``; 0 where none does."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.end()
    return 0


def stock_sections(ncu: str, release: str) -> Path | None:
    """Folder of ncu's own section files: the user's deployed copy of this release, or the
    installation's."""
    version = ".".join(release.split(".")[:3])
    real = Path(ncu).resolve()
    places = [
        Path.home() / "Documents" / "NVIDIA Nsight Compute" / version / "Sections",
        *(parent / "sections" for parent in list(real.parents)[:3]),
        Path("/opt/nvidia/nsight-compute") / version / "sections",
    ]
    return next((place for place in places if (place / "PmSampling.section").is_file()), None)
