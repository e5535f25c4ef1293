"""Repeats: all launches of one kernel in one configuration, gathered over any number of reports,
and whether they can be believed: values that contradict each other, machine code that is the same.

This is the unit that the gate compares. Pure functions over ``Report`` objects.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from ncubble.analysis.account.plausibility import contradictions
from ncubble.analysis.diagnosis.results import CONTRADICTIONS
from ncubble.analysis.gate.accounts import Account, account_of, gather
from ncubble.analysis.gate.metrics import METRICS, GateMetric
from ncubble.analysis.gate.noise import Sample
from ncubble.analysis.report.launch_key import KernelKey, LaunchKey
from ncubble.analysis.report.report import Launch, Report
from ncubble.errors import NcubbleError
from ncubble.profiling.runs import Manifest

MOST_ACCOUNTS = 10
"""Maximum launches of a group whose bubble account is computed: each requires reading all its
samples."""
MOST_LISTED = 8
"""Maximum launches listed individually."""
REMEDY = "copy the files or profile again"
_COUNTER = re.compile(r"(?!launch__|device__|profiler__)\w+__.*\.(min|avg|max|sum)")
"""Metrics that differ between two launches of a kernel, however alike these are."""
_ADDRESS = re.compile(r"0x[0-9a-f]{9,}")
"""Branch targets depend on the load address; constants have at most eight digits."""


@dataclass(frozen=True)
class SuspiciousLaunch:
    """A launch that ``ncubble report`` labels suspicious: run or file, number, and why."""

    path: str
    launch: int
    contradictions: tuple[str, ...]

    def __str__(self) -> str:
        """``runs/gemm launch 0: 128 CTAs, but the grid of 3x2x1 has 6``."""
        return f"{self.path} launch {self.launch}: {'; '.join(self.contradictions)}"


def _contradictions(launch: Launch) -> tuple[str, ...]:
    """Also what keeps a launch from being examined: it is not known to be sound."""
    try:
        exact, measured = contradictions(launch)
    except NcubbleError as error:
        return (f"its values cannot be examined ({error.message})",)
    except CONTRADICTIONS:  # what NumPy says of them helps nobody
        return ("its values contradict each other so that they cannot be examined",)
    return *exact, *measured


def listed(launches: Sequence[SuspiciousLaunch | str], are: str = "suspicious") -> list[str]:
    """A text for each launch; of many the last text counts the rest."""
    rest = len(launches) - MOST_LISTED
    return [*map(str, launches[:MOST_LISTED]), *([f"{rest} more launches are {are}"] if rest > 0 else [])]


@dataclass
class Repeats:
    """Values of every gate counter for one kernel on one GPU model; lists run over launches and may
    hold NaN.

    ``run_of``, ``gpu_of`` and ``clock_of`` say of each launch which report it is from (its key), on
    which GPU it ran (UUID, empty where unknown) and at which SM clock (Hz, NaN where unknown);
    ``sources`` names report and launch. ``copies`` says of which launches another was given, too:
    these count once.
    """

    key: KernelKey
    device: str
    compute_capability: str
    values: dict[str, list[float]] = field(default_factory=dict)
    run_of: list[str] = field(default_factory=list)
    gpu_of: list[str] = field(default_factory=list)
    clock_of: list[float] = field(default_factory=list)
    ncu_versions: set[str] = field(default_factory=set)
    drivers: set[str] = field(default_factory=set)
    builds: list[dict[str, Any]] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)
    geometry: list[dict[str, Any]] = field(default_factory=list)
    reports: list[dict[str, str]] = field(default_factory=list)
    started: set[str] = field(default_factory=set)
    launches: int = 0
    sources: list[tuple[Report, int]] = field(default_factory=list, repr=False)
    copies: list[str] = field(default_factory=list)

    def only(self, launches: Sequence[int]) -> Repeats:
        """These launches of it, by their number in the lists."""
        run_of = [self.run_of[index] for index in launches]
        return replace(
            self,
            values={name: [known[index] for index in launches] for name, known in self.values.items()},
            run_of=run_of,
            gpu_of=[self.gpu_of[index] for index in launches],
            clock_of=[self.clock_of[index] for index in launches],
            sources=[self.sources[index] for index in launches],
            reports=[report for report in self.reports if report["key"] in run_of],
            launches=len(launches),
        )

    @property
    def clocks_hz(self) -> list[float]:
        """The SM clocks that are known."""
        return [clock for clock in self.clock_of if clock == clock]

    @property
    def gpus(self) -> set[str]:
        """UUIDs of the GPUs that are known."""
        return set(self.gpu_of) - {""}

    def counter(self, metric: GateMetric) -> str:
        """The first counter of ``metric`` with values that can be real; empty where none has."""
        return next((name for name in metric.counters if self.measured(metric, name)), "")

    def measured(self, metric: GateMetric, counter: str) -> list[float]:
        """The values of ``counter`` that can be real."""
        return [value for value in self.values.get(counter, []) if metric.plausible(value)]

    def sample(self, metric: GateMetric, counter: str) -> Sample:
        """The values of ``counter`` that can be real, each with its run, GPU and clock."""
        values = self.values.get(counter, [])
        real = [index for index, value in enumerate(values) if metric.plausible(value)]
        return Sample(
            tuple(values[i] for i in real),
            tuple(self.clock_of[i] for i in real),
            tuple(self.run_of[i] for i in real),
            tuple(self.gpu_of[i] for i in real),
        )

    @cached_property
    def account(self) -> Account | None:
        """The bubble accounts of up to MOST_ACCOUNTS launches, taken in turns from all reports;
        None where no report allows one."""
        return gather([account_of(launch) for launch in in_turns(self._launches)[:MOST_ACCOUNTS]])

    @cached_property
    def suspicious(self) -> tuple[SuspiciousLaunch, ...]:
        """The launches whose values contradict each other."""
        examined = (
            SuspiciousLaunch(str(launch.report.run.path), launch.number, _contradictions(launch))
            for launch in self._launches
        )
        return tuple(launch for launch in examined if launch.contradictions)

    @cached_property
    def code(self) -> str:
        """Hash of the machine code, if all reports hold it and it is one; else empty."""
        return next(iter(self._codes)) if len(self._codes) == 1 else ""

    @property
    def _launches(self) -> list[Launch]:
        return [report.launch(number) for report, number in self.sources if isinstance(report, Report)]

    @property
    def builds_told(self) -> int:
        """How many builds these launches are known to be of, by their machine code; 0 where none is
        told."""
        named = {str(build["code_sha256"]) for build in self.builds if build.get("code_sha256")}
        return max(len(named), len(self._codes - {""}))

    @cached_property
    def _codes(self) -> set[str]:
        """Hashes of the first launch of every report, empty where it holds no machine code."""
        first = {launch.report.key: launch for launch in reversed(self._launches)}
        return {code_of(launch) for launch in first.values()}


def in_turns(launches: Sequence[Launch]) -> list[Launch]:
    """The first launch of every report, then the second of every report, and so on."""
    seen: Counter[str] = Counter()
    ranked = []
    for launch in launches:
        ranked.append((seen[launch.report.key], launch))
        seen[launch.report.key] += 1
    return [launch for _, launch in sorted(ranked, key=lambda pair: pair[0])]


def collect(reports: Iterable[Report], *, by_nvtx: bool = True, kernel: str = "") -> tuple[list[Repeats], list[str]]:
    """Group all launches by GPU model and key, in order of appearance; also returns notes on what
    was left out.

    A report given twice counts once, and so does a launch whose counters all have the values of
    another one, in whatever file: the same measurement is no second repeat. ``kernel`` keeps the
    keys whose label or name it matches (regular expression, searched). ``by_nvtx=False`` leaves
    NVTX ranges out of the key.
    """
    groups: dict[tuple[str, str], Repeats] = {}
    seen: dict[str, str] = {}
    notes: list[str] = []
    for report in reports:
        if report.key in seen:
            notes.append(f"{report.run.path}: same content as {seen[report.key]}, counted once")
            continue
        seen[report.key] = str(report.run.path)
        _add_report(groups, report, by_nvtx)
    pattern = re.compile(kernel)
    chosen = [item for item in groups.values() if pattern.search(item.key.label) or pattern.search(item.key.kernel)]
    once = [_without_copies(group) for group in chosen]
    return once, [*notes, *(f"{text}, counted once" for group in once for text in listed(group.copies, "copies"))]


def _without_copies(group: Repeats) -> Repeats:
    """``group`` with each measurement once. Launches with equal gate values are compared in all
    counters: of short kernels, two launches may agree in the former by chance."""
    first: dict[tuple[float, ...], list[int]] = {}
    kept: list[int] = []
    for index, (report, number) in enumerate(group.sources):
        values = tuple(known[index] for known in group.values.values())
        alike = first.setdefault(tuple(value for value in values if value == value), [])
        same = next((other for other in alike if _same_counters(group.sources[other], (report, number))), None)
        if same is None:
            alike.append(index)
            kept.append(index)
            continue
        twin, at = group.sources[same]
        group.copies.append(f"{report.run.path} launch {number}: same values as {twin.run.path} launch {at}")
    return group.only(kept) if group.copies else group


def _same_counters(one: tuple[Report, int], other: tuple[Report, int]) -> bool:
    """Whether all counters that both launches have are equal; a launch without any is no copy."""
    before, now = (report.scalars(number) for report, number in (one, other))
    shared = [name for name in before if name in now and _COUNTER.match(name)]
    return bool(shared) and all(before[name] == now[name] for name in shared if before[name] == before[name])


def _add_report(groups: dict[tuple[str, str], Repeats], report: Report, by_nvtx: bool) -> None:
    launches = report.launches
    counters = [counter for metric in METRICS if not metric.column for counter in metric.counters]
    table = report.wide(counters)
    facts = [_facts_of(row, report.run.manifest) for _, row in launches.iterrows()]
    named = launches.loc[[bool(fact) for fact in facts], ["grid", "block"]]
    # A launch with its own facts is identified by them, whatever its grid.
    several = not report.run.manifest.launches and named.drop_duplicates().shape[0] > 1
    for kernel, (_, row) in zip(facts, launches.iterrows(), strict=True):
        names = ("kernel", "demangled", "grid", "block", "device", *(["nvtx"] if by_nvtx else []))
        launch = LaunchKey(**{name: _text(row[name]) for name in names})
        key, device = KernelKey.of(launch, kernel, several), launch.device
        group = groups.setdefault((device, key.canonical), Repeats(key, device, _text(row["compute_capability"])))
        _add_launch(group, row, table.loc[row["launch"]].to_dict(), report)


def _facts_of(row: pd.Series, manifest: Manifest) -> Mapping[str, Any]:
    """What the run's manifest says of a launch: empty unless it names the launch's function, or
    none at all."""
    kernel = manifest.kernel_of(int(row["launch"]))
    function = str(kernel.get("function") or "")
    names_it = not function or re.match(rf"{re.escape(function)}(?![A-Za-z0-9_])", str(row["kernel"]))
    return kernel if kernel.get("name") and names_it else {}


def _text(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _add_launch(group: Repeats, row: pd.Series, counters: dict[Any, float], report: Report) -> None:
    columns = {metric.counters[0]: float(row[metric.column]) for metric in METRICS if metric.column}
    for counter, value in {**counters, **columns}.items():
        group.values.setdefault(counter, []).append(value)
    group.launches += 1
    clock, manifest = float(row["sm_clock_hz"]), report.run.manifest
    group.clock_of.append(clock if clock > 0 and math.isfinite(clock) else math.nan)
    group.run_of.append(report.key)
    group.gpu_of.append(_text(manifest.device.get("uuid")))
    group.sources.append((report, int(row["launch"])))
    group.ncu_versions |= {_text(row["ncu_version"])} - {""}
    group.drivers |= {_text(manifest.device.get("driver"))} - {""}
    group.started |= {manifest.started} - {""}
    sizes = ("registers", "smem_static_B", "smem_dynamic_B")
    geometry: dict[str, Any] = {name: int(row[name]) if pd.notna(row[name]) else None for name in sizes}
    geometry |= {name: _text(row[name]) for name in ("grid", "block")}
    gpu = {"gpu": group.gpu_of[-1]} if group.gpu_of[-1] else {}
    origin = {"name": report.run.path.name, "key": report.key, **gpu}
    lists = ((group.geometry, geometry), (group.builds, manifest.build), (group.commits, manifest.git))
    for items, item in (*lists, (group.reports, origin)):
        if item and item not in items:
            items.append(item)


def code_of(launch: Launch) -> str:
    """Hash of the SASS of one launch; empty where it was not collected."""
    sass = launch.source["sass"].tolist()
    return code_hash(sass) if sass else ""


def code_hash(sass: Iterable[str]) -> str:
    """SHA-256 of instructions in the order of their address, wherever the code was loaded."""
    text = "\n".join(" ".join(line.split()) for line in sass)
    first = _ADDRESS.search(text)
    base = int(first[0], 16) if first else 0
    return hashlib.sha256(_ADDRESS.sub(lambda match: f"{int(match[0], 16) - base:+d}", text).encode()).hexdigest()
