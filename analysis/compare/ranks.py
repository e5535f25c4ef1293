"""Reports of one program on many GPUs side by side: the same launch of every rank, and how far
ranks lie apart.

A launch is matched by kernel, grid, block and the how-many-eth of these it is in its rank. Pure
over ``RankLaunch``; ``place`` makes those of reports.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from ncubble.analysis.account.parts import display_order
from ncubble.analysis.compare.spreads import RankSpread, spread_of, why_slower
from ncubble.analysis.report.launch_key import LaunchKey
from ncubble.profiling.ranks import Rank, numbered, rank_of
from ncubble.records import JsonObject

if TYPE_CHECKING:
    from ncubble.analysis.ablation.result import Ablation
    from ncubble.analysis.diagnosis.results import ReportResult, Unread
    from ncubble.analysis.diagnosis.verdict import LaunchVerdict
    from ncubble.analysis.report.report import Launch, Report

SCHEMA = 1
GPU = "gpu"
"""Source of ranks if one report has launches of several GPUs: the order of their bus addresses."""
VALUES = ("duration_ns", "cycles", "sm_clock_hz", "tensor_elapsed_pct", "dram_pct")
_BUS = tuple(f"device__attribute_pci_{part}_id" for part in ("domain", "bus", "device"))


@dataclass(frozen=True)
class RankLaunch:
    """A launch and the rank that ran it. ``key``: equal for launches that ranks of one program have
    in common. ``values``: those of ``VALUES`` and the parts of the account, None where not
    collected. ``measured``: the account as an ablation measured it, None unless it measured every
    set of parts."""

    rank: Rank
    key: LaunchKey
    report: str
    launch: int
    label: str
    values: Mapping[str, float | None]
    measured: Mapping[str, float] | None = None

    @classmethod
    def of(cls, rank: Rank, launch: Launch, verdict: LaunchVerdict, ablation: Ablation | None = None) -> RankLaunch:
        """One launch of a report, its verdict and what was measured of it. A label that was taken
        from the file's name is no label of the program's: the kernel's name stands for it."""
        named = launch.report.run.manifest.kernel_of(launch.number).get("name")
        label = verdict.label if named else verdict.kernel
        key = LaunchKey(kernel=verdict.kernel, grid=launch.identity.grid, block=launch.identity.block)
        values = {name: getattr(verdict, name) for name in VALUES} | (verdict.account or {})
        measured = ablation.account(verdict.account or {}) if ablation else None
        return cls(rank, key, verdict.report, verdict.launch, label, values, measured)


@dataclass(frozen=True)
class Matched:
    """One launch on all ranks: ``ordinal`` counts launches of this kernel, grid and block from 0.

    ``values`` by name (``VALUES`` and parts of the account), those that at least one rank holds.
    ``skew_pct`` is (longest - shortest) / median duration; ``slowest`` the rank that took longest;
    None without durations. ``why``: what makes the slowest slower than the fastest, a sentence or
    empty. ``missing`` are ranks of the program that have no such launch. Parts are
    as ``measured`` by ablation where every rank was, and estimates otherwise.
    """

    kernel: str
    grid: str
    block: str
    ordinal: int
    label: str
    values: Mapping[str, RankSpread]
    skew_pct: float | None
    slowest: int | None
    missing: tuple[int, ...]
    launches: Mapping[int, tuple[str, int]]
    measured: bool = False
    why: str = ""

    @property
    def apart_ns(self) -> float:
        """Longest minus shortest duration in ns; 0 without durations."""
        times = self.values.get("duration_ns")
        return times.max - times.min if times else 0.0


@dataclass(frozen=True)
class Program:
    """All launches of one program. ``ranks`` has for each rank its ``launches`` and ``duration_ns``
    in all."""

    name: str
    sources: tuple[str, ...]
    size: int | None
    ranks: Mapping[int, Mapping[str, float]]
    matched: tuple[Matched, ...]

    @property
    def incomplete(self) -> int:
        """How many launches are missing from the reports of some ranks."""
        return sum(bool(launch.missing) for launch in self.matched)


@dataclass
class ByRank:
    """Everything that was asked for: programs, paths whose rank nothing tells, what to know beside
    them, and what could not be read."""

    programs: list[Program] = field(default_factory=list)
    unranked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[Unread] = field(default_factory=list)

    def to_json(self) -> JsonObject:
        """The object of ``ncubble report --by-rank --json``."""
        return {"schema": SCHEMA, **asdict(self), "errors": [error._asdict() for error in self.errors]}


def place(reports: Sequence[Report], result: ReportResult) -> tuple[list[RankLaunch], list[str]]:
    """Every launch with its rank, and the paths of reports whose rank nothing tells. ``result``:
    the verdicts of ``reports``."""
    by_report: defaultdict[str, list[tuple[LaunchVerdict, Ablation | None]]] = defaultdict(list)
    for verdict, ablation in zip_longest(result.verdicts, result.ablations):
        by_report[verdict.report].append((verdict, ablation))
    by_number = numbered([report.path for report in reports])
    placed: list[RankLaunch] = []
    unranked: list[str] = []
    for report in reports:
        rank = rank_of(report.run) or by_number.get(report.path)
        of_launch = _gpus(report) if rank is None else {}
        if rank is None and not of_launch:
            unranked.append(str(report.path))
            continue
        for verdict, ablation in by_report[str(report.path)]:
            if (chosen := rank or of_launch.get(verdict.launch)) is not None:
                placed.append(RankLaunch.of(chosen, report.launch(verdict.launch), verdict, ablation))
    return placed, unranked


def _gpus(report: Report) -> dict[int, Rank]:
    """The GPU of each launch as its rank, where a report holds launches of several."""
    places = report.wide(_BUS)
    place_of = {int(launch): tuple(row) for launch, row in zip(places.index, places.to_numpy().tolist(), strict=True)}
    known = sorted({place for place in place_of.values() if not any(math.isnan(part) for part in place)})
    if len(known) < 2:
        return {}
    return {
        launch: Rank(known.index(place), len(known), GPU, str(report.path))
        for launch, place in place_of.items()
        if place in known
    }


def by_rank(placed: Sequence[RankLaunch], unranked: Iterable[str] = ()) -> ByRank:
    """Match the launches of each program."""
    result = ByRank(unranked=list(unranked))
    programs: defaultdict[str, list[RankLaunch]] = defaultdict(list)
    for launch in placed:
        programs[launch.rank.program].append(launch)
    if _one_program(programs):
        programs = defaultdict(list, {_common(list(programs)): list(placed)})
    for name, launches in programs.items():
        result.programs.append(_program(name, launches))
    result.notes += _notes(result.programs)
    shown = sum(len(launch.launches) for program in result.programs for launch in program.matched if launch.measured)
    if partly := sum(bool(launch.measured) for launch in placed) - shown:
        result.notes.append(f"{partly} of the launches were ablated, but not on all ranks, so estimates are compared")
    return result


def _one_program(programs: Mapping[str, Sequence[RankLaunch]]) -> bool:
    """Whether names that all differ are still ranks of one program: each has one rank, and no two
    the same."""
    ranks = [{launch.rank.rank for launch in launches} for launches in programs.values()]
    return len(ranks) > 1 and all(len(each) == 1 for each in ranks) and len(set.union(*ranks)) == len(ranks)


def _common(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    same = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return f"{first[:same]}*"


def _program(name: str, launches: Sequence[RankLaunch]) -> Program:
    sizes = [launch.rank.size for launch in launches if launch.rank.size]
    size = max(sizes, default=None)
    here = sorted({launch.rank.rank for launch in launches})
    expected = range(size) if size and size <= 4096 else here
    counted: Counter[tuple[int, LaunchKey]] = Counter()
    rows: defaultdict[tuple[LaunchKey, int], dict[int, RankLaunch]] = defaultdict(dict)
    for launch in launches:
        rank, key = launch.rank.rank, launch.key
        rows[key, counted[rank, key]][rank] = launch
        counted[rank, key] += 1
    totals = {
        rank: {
            "launches": sum(launch.rank.rank == rank for launch in launches),
            "duration_ns": math.fsum(
                launch.values["duration_ns"] or 0.0 for launch in launches if launch.rank.rank == rank
            ),
        }
        for rank in here
    }
    sources = tuple(dict.fromkeys(launch.rank.source for launch in launches))
    return Program(
        name, sources, size, totals, tuple(_matched(*key, members, expected) for key, members in rows.items())
    )


def _matched(key: LaunchKey, ordinal: int, members: Mapping[int, RankLaunch], expected: Iterable[int]) -> Matched:
    measured = all(launch.measured for launch in members.values())
    shown = {rank: _shown(launch, measured) for rank, launch in members.items()}
    parts = display_order(name for values in shown.values() for name in values if name not in VALUES)
    values = {
        name: spread
        for name in (*VALUES, *parts)
        if (spread := spread_of({rank: values.get(name) for rank, values in shown.items()})) is not None
    }
    times = values.get("duration_ns")
    return Matched(
        key.kernel,
        key.grid,
        key.block,
        ordinal,
        _label(members.values()),
        values,
        100.0 * (times.max - times.min) / times.median if times and times.median else None,
        times.max_rank if times else None,
        tuple(rank for rank in expected if rank not in members),
        {rank: (launch.report, launch.launch) for rank, launch in sorted(members.items())},
        measured,
        why_slower(shown[times.max_rank], shown[times.min_rank]) if times else "",
    )


def _shown(launch: RankLaunch, measured: bool) -> Mapping[str, float | None]:
    """``VALUES`` and the account, measured or estimated."""
    if not measured:
        return launch.values
    return {**{name: launch.values.get(name) for name in VALUES}, **(launch.measured or {})}


def _label(members: Collection[RankLaunch]) -> str:
    """What all ranks call it; the kernel's name where each is called by its file."""
    labels = {member.label for member in members}
    return labels.pop() if len(labels) == 1 else next(iter(members)).key.kernel


def _notes(programs: Sequence[Program]) -> list[str]:
    notes = []
    for program in programs:
        if program.incomplete:
            counts = f"{program.incomplete} of {len(program.matched)}"
            notes.append(f"{program.name}: {counts} launches are missing from the reports of some ranks")
        if program.size and max(program.ranks) >= program.size:
            notes.append(f"{program.name}: also contains ranks of a larger program, perhaps of an earlier run")
        if GPU in program.sources:
            notes.append(f"{program.name}: one report with launches of several GPUs: each GPU counts as a rank")
        if "name" in program.sources:
            notes.append(f"{program.name}: ranks are taken from file names")
    return notes


def largest(matched: Sequence[Matched], count: int) -> list[Matched]:
    """The ``count`` launches whose ranks lie furthest apart in time, in their own order."""
    apart = sorted(matched, key=lambda launch: -launch.apart_ns)
    chosen = {id(launch) for launch in apart[:count]}
    return [launch for launch in matched if id(launch) in chosen]


def most_apart(launch: Matched) -> tuple[str, RankSpread] | None:
    """The part of the account in which ranks differ most, if by a percent point at least."""
    parts = {name: spread for name, spread in launch.values.items() if name not in VALUES and spread.n > 1}
    name = max(parts, key=lambda part: parts[part].max - parts[part].min, default=None)
    return (name, parts[name]) if name is not None and parts[name].max - parts[name].min >= 1.0 else None
