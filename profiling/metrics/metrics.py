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

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from ncubble.chips import Version, generation_of
from ncubble.errors import UsageError
from ncubble.records import WrongFieldError, typed
from ncubble.text.remedies import nearest

_FOLDER = "ncubble.profiling.metrics.sets"
_ALIASES = "aliases"
GENERATIONS = "generations"
_T = TypeVar("_T")
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Shipped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a shipped TOML file: a wrong word or type is refused when it is read."""


class Metric(Shipped, frozen=True):
    """One metric of a set.

    ``name`` is ncu's name, ``unit`` as ncu prints it for base units, ``direction`` the better
    direction, ``role`` the part of the analysis that uses it. ``required``: the account needs it.
    ``chips`` renames it per chip (empty text: that chip lacks it), ``only`` lists the chips that
    have it, ``min_cc`` the first capability that does.
    """

    name: Text
    unit: str
    direction: Literal["higher", "lower", "neutral"]
    role: Text
    about: Text
    required: bool = False
    min_cc: Version | None = None
    only: tuple[str, ...] = ()
    chips: dict[str, str] = msgspec.field(default_factory=dict)

    def on(self, chip: str | None, capability: Version | None) -> str:
        """The name on ``chip``; empty if the chip lacks it. An unknown chip of known capability
        follows ``min_cc``."""
        if self.min_cc and capability and capability < self.min_cc:
            return ""
        if self.only and chip and chip not in self.only:
            return ""
        return self.chips.get(chip, self.name) if chip else self.name


class MetricSet(Shipped, frozen=True):
    """One file: metrics and ncu sections that answer one question.

    ``since`` holds the first ncu with a section, ``slim`` the metrics to keep of a section, by
    parts of names, ``without`` metrics of included sets that are left out.
    """

    name: Text
    title: Text
    include: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    since: dict[str, Version] = msgspec.field(default_factory=dict)
    slim: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    ncu_set: str = ""
    import_source: bool = False
    metrics: tuple[Metric, ...] = ()


class Alias(Shipped, frozen=True):
    """An alternative metric name, the actual name, and why they differ."""

    name: str
    metric: str
    why: str
    chips: dict[str, str] = msgspec.field(default_factory=dict)


@cache
def load_sets() -> dict[str, MetricSet]:
    """All sets by name. Raises UsageError naming the file for anything that is not a set."""
    names = sorted(item.name.removesuffix(".toml") for item in files(_FOLDER).iterdir() if item.name.endswith(".toml"))
    return {name: shipped(name, MetricSet, name=name) for name in names if name not in (_ALIASES, GENERATIONS)}


@cache
def load_aliases() -> dict[str, Alias]:
    """All aliases by alternative name."""
    return {alias.name: alias for alias in shipped(_ALIASES, dict[str, list[Alias]])[_ALIASES]}


def shipped(name: str, kind: type[_T], /, **more: str) -> _T:
    """The TOML file of this folder, with ``more`` members, as ``kind``. Raises UsageError where it
    is missing or damaged."""
    try:
        return typed(tomllib.loads((files(_FOLDER) / f"{name}.toml").read_text(encoding="utf-8")) | more, kind)
    except (OSError, tomllib.TOMLDecodeError, WrongFieldError) as error:
        raise UsageError(f"profiling/metrics/sets/{name}.toml: {error}", "reinstall ncubble") from error


DEFAULT_SETS: tuple[str, ...] = ("pipeline", "timeline", "source")

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


def resolve(sets: Sequence[str], metrics: Iterable[str] = (), target: Target | None = None) -> MetricSelection:
    """The selection for ``sets`` (by name) and further ``metrics``, with the names of ``target``.
    Aliases unknown to ncu are replaced, with a note. Metrics of a set that the chip lacks are
    omitted. Raises UsageError for an unknown set, a metric that cannot be one (naming the nearest)
    or that the chip lacks.
    """
    target = target or Target()
    members = _expand(sets)
    known = {metric.name: metric for member in load_sets().values() for metric in member.metrics}
    notes: list[str] = []
    without = {name for member in members for name in member.without}
    wanted = [metric for member in members for metric in member.metrics if metric.name not in without]
    further: list[str] = []
    for name in metrics:
        if name not in known:
            further.append(_foreign(name, known, target, notes))
        elif known[name].on(generation_of(target.capability), target.capability):
            wanted.append(known[name])
        else:
            raise UsageError(
                f"metric {name!r}: not available on compute capability {target.capability}", "leave it out"
            )
    names = {metric.on(generation_of(target.capability), target.capability): metric.required for metric in wanted}
    sections = []
    for member in members:
        for section in member.sections:
            if target.ncu and target.ncu < (since := member.since.get(section, target.ncu)):
                notes.append(f"section {section} skipped: ncu {target.ncu} is older than {since}")
            else:
                sections.append(section)
    selection = MetricSelection(
        sets=tuple(sets),
        metrics=tuple(dict.fromkeys(filter(None, [*names, *further]))),
        sections=tuple(dict.fromkeys(sections)),
        ncu_sets=tuple(dict.fromkeys(member.ncu_set for member in members if member.ncu_set)),
        required=frozenset(name for name, required in names.items() if name and required),
        slim={section: stems for member in members for section, stems in member.slim.items()},
        import_source=any(member.import_source for member in members),
        notes=tuple(dict.fromkeys(notes)),
    )
    if not (selection.metrics or selection.sections or selection.ncu_sets):
        raise UsageError("nothing to collect: neither a metric set nor a metric is named", "name at least one --set")
    return selection


def _expand(names: Sequence[str]) -> list[MetricSet]:
    """The named sets and the sets they include, without duplicates, included sets first."""
    known = load_sets()
    ordered: dict[str, MetricSet] = {}
    for name in names:
        if name not in known:
            raise UsageError(f"unknown metric set {name!r}{nearest(name, known)}", f"sets: {', '.join(sorted(known))}")
        for member in (*known[name].include, name):
            ordered.setdefault(member, known[member])
    return list(ordered.values())


def _foreign(name: str, known: Iterable[str], target: Target, notes: list[str]) -> str:
    """ncu's name of a metric that is in no set; adds to ``notes`` what was changed."""
    if alias := load_aliases().get(name):
        real = alias.chips.get(generation_of(target.capability) or "", alias.metric)
        if real != name:
            notes.append(f"{name} collected as {real}: {alias.why}")
        return real
    if ("__" not in name and ":" not in name) or not _NCU_NAME.fullmatch(name):
        raise UsageError(
            f"unknown metric {name!r}{nearest(name, [*known, *load_aliases()])}",
            "metrics look like sm__cycles_active.avg; `ncu --query-metrics` lists those of a chip",
        )
    notes.append(f"{name} is in no set of ncubble: passed to ncu unchanged")
    return name


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
