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
from statistics import median
from typing import TYPE_CHECKING, Any

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.report.launch_key import LaunchKey
from ncubble.profiling.runs.ranks import Rank, numbered, rank_of

if TYPE_CHECKING:
    from ncubble.analysis.diagnosis.results import Unread
    from ncubble.analysis.diagnosis.verdict import LaunchVerdict
    from ncubble.analysis.report.launch import Launch
    from ncubble.analysis.report.report import Report

SCHEMA = 1
GPU = "gpu"
"""Source of a rank where one report holds launches of several GPUs: the order of their places on
the bus."""
VALUES = ("duration_ns", "tensor_elapsed_pct", "dram_pct")
_BUS = tuple(f"device__attribute_pci_{part}_id" for part in ("domain", "bus", "device"))


@dataclass(frozen=True)
class RankLaunch:
    """A launch and the rank that ran it. ``key``: equal for launches that ranks of one program have
    in common. ``values``: those of ``VALUES`` and the parts of the account, None where not
    collected."""

    rank: Rank
    key: LaunchKey
    report: str
    launch: int
    label: str
    values: Mapping[str, float | None]

    @classmethod
    def of(cls, rank: Rank, launch: Launch, verdict: LaunchVerdict) -> RankLaunch:
        """One launch of a report and its verdict. A label that was taken from the file's name is no
        label of the program's: the kernel's name stands for it."""
        named = launch.report.run.manifest.kernel_of(launch.number).get("name")
        label = verdict.label if named else verdict.kernel
        key = LaunchKey(kernel=verdict.kernel, grid=launch.identity.grid, block=launch.identity.block)
        values = {"duration_ns": verdict.duration_ns, "tensor_elapsed_pct": verdict.tensor_elapsed_pct}
        values |= {"dram_pct": verdict.dram_pct, **(verdict.account or {})}
        return cls(rank, key, verdict.report, verdict.launch, label, values)


@dataclass(frozen=True)
class RankSpread:
    """A value over the ranks that have it; ``min_rank`` and ``max_rank`` are the first ones with
    the extremes."""

    n: int
    min: float
    median: float
    max: float
    min_rank: int
    max_rank: int


@dataclass(frozen=True)
class Matched:
    """One launch on all ranks: ``ordinal`` counts launches of this kernel, grid and block from 0.

    ``values`` by name (``VALUES`` and parts of the account), those that at least one rank holds.
    ``skew_pct`` is (longest - shortest) / median duration; ``slowest`` the rank that took longest;
    None without durations. ``missing`` are ranks of the program that have no such launch.
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

    @property
    def apart_ns(self) -> float:
        """Longest minus shortest duration in ns; 0 without durations."""
        times = self.values.get("duration_ns")
        return times.max - times.min if times else 0.0


@dataclass(frozen=True)
class RankTime:
    """Duration in ns and account in percent of one rank; an empty account where there is none."""

    duration_ns: float
    account: Mapping[str, float]

    def part_ns(self, part: str) -> float:
        """The time of a part of the account."""
        return self.duration_ns * self.account.get(part, 0.0) / 100


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
        """How many launches are not in the reports of all ranks."""
        return sum(bool(launch.missing) for launch in self.matched)


@dataclass
class ByRank:
    """Everything that was asked for: programs, paths whose rank nothing tells, and what to know
    beside them."""

    programs: list[Program] = field(default_factory=list)
    unranked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def place(reports: Sequence[Report], verdicts: Iterable[LaunchVerdict]) -> tuple[list[RankLaunch], list[str]]:
    """Every launch with its rank, and the paths of reports whose rank nothing tells."""
    by_report: defaultdict[str, list[LaunchVerdict]] = defaultdict(list)
    for verdict in verdicts:
        by_report[verdict.report].append(verdict)
    by_number = numbered([report.path for report in reports])
    placed: list[RankLaunch] = []
    unranked: list[str] = []
    for report in reports:
        rank = rank_of(report.run) or by_number.get(report.path)
        of_launch = _gpus(report) if rank is None else {}
        if rank is None and not of_launch:
            unranked.append(str(report.path))
            continue
        for verdict in by_report[str(report.path)]:
            if (chosen := rank or of_launch.get(verdict.launch)) is not None:
                placed.append(RankLaunch.of(chosen, report.launch(verdict.launch), verdict))
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
    values = {
        name: spread
        for name in (*VALUES, *PARTS)
        if (spread := spread_of({rank: launch.values.get(name) for rank, launch in members.items()})) is not None
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
    )


def _label(members: Collection[RankLaunch]) -> str:
    """What all ranks call it; the kernel's name where each is called by its file."""
    labels = {member.label for member in members}
    return labels.pop() if len(labels) == 1 else next(iter(members)).key.kernel


def spread_of(values: Mapping[int, float | None]) -> RankSpread | None:
    """How a value lies over ranks; None where no rank holds it."""
    known = {rank: value for rank, value in sorted(values.items()) if value is not None}
    if not known:
        return None
    low, high = min(known, key=lambda rank: known[rank]), max(known, key=lambda rank: known[rank])
    return RankSpread(len(known), known[low], float(median(known.values())), known[high], low, high)


def _notes(programs: Sequence[Program]) -> list[str]:
    notes = []
    for program in programs:
        if program.incomplete:
            counts = f"{program.incomplete} of {len(program.matched)}"
            notes.append(f"{program.name}: {counts} launches are not in the reports of all ranks")
        if program.size and max(program.ranks) >= program.size:
            notes.append(f"{program.name}: holds ranks of a larger program too, perhaps of an earlier run")
        if GPU in program.sources:
            notes.append(f"{program.name}: one report with launches of several GPUs: each GPU counts as a rank")
        if "name" in program.sources:
            notes.append(f"{program.name}: ranks are told by the names of files")
    return notes


def largest(matched: Sequence[Matched], count: int) -> list[Matched]:
    """The ``count`` launches whose ranks lie furthest apart in time, in their own order."""
    apart = sorted(matched, key=lambda launch: -launch.apart_ns)
    chosen = {id(launch) for launch in apart[:count]}
    return [launch for launch in matched if id(launch) in chosen]


def most_apart(launch: Matched) -> tuple[str, RankSpread] | None:
    """The part of the account in which ranks differ most, if by a percent point at least."""
    parts = {name: spread for name, spread in launch.values.items() if name in PARTS and spread.n > 1}
    name = max(parts, key=lambda part: parts[part].max - parts[part].min, default=None)
    return (name, parts[name]) if name is not None and parts[name].max - parts[name].min >= 1.0 else None


def as_json(result: ByRank, errors: Iterable[Unread]) -> dict[str, Any]:
    """The object of ``ncubble report --by-rank --json``."""
    return {"schema": SCHEMA, **asdict(result), "errors": [error._asdict() for error in errors]}
