"""What is compared: launches as plain values, gathered into repeats, and matched across sides.
Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from ncubble.analysis.report.launch import Launch
from ncubble.analysis.report.launch_key import LaunchKey
from ncubble.analysis.report.samples import stall_shares
from ncubble.text.values import number, string

Matches = list[tuple["Group | None", ...]]


@dataclass(frozen=True, kw_only=True)
class ComparedLaunch(LaunchKey):
    """One launch, by its key, with all that a comparison reads of it.

    ``values`` holds numbers by metric, NaN where not collected (times in ns, clock in Hz, sizes in
    bytes, shares in percent of elapsed time or of the peak); ``stalls`` percent of warp samples by
    reason, empty where there are none.
    """

    report: str
    key: str
    launch: int
    ncu_version: str
    verdict: Mapping[str, Any]
    values: Mapping[str, float]
    stalls: Mapping[str, float]

    @property
    def account(self) -> Mapping[str, float]:
        """Parts in percent of elapsed SM cycles; empty where the report holds no utilization of any
        unit."""
        return self.verdict.get("account") or {}


@dataclass(frozen=True)
class Group:
    """Repeats: launches of one kernel in one configuration, in order of appearance; at least
    one."""

    subjects: tuple[ComparedLaunch, ...]

    @property
    def first(self) -> ComparedLaunch:
        """The launch that stands for all of them where they agree: name, geometry, GPU."""
        return self.subjects[0]

    @property
    def title(self) -> str:
        """Label of the run and name of the kernel, where the one does not begin with the other."""
        label, kernel = self.first.label, self.first.kernel
        return label if label.partition(" ")[0] == kernel else f"{label} {kernel}".strip()


def letter(side: int) -> str:
    """``A`` for side 0, ``Z`` for 25, ``A2`` for 26."""
    again, index = divmod(side, len(ascii_uppercase))
    return ascii_uppercase[index] + (str(again + 1) if again else "")


def compared_launch(launch: Launch, verdict: Mapping[str, Any]) -> ComparedLaunch:
    """One launch and its verdict, as plain values."""
    row, run = launch.identity, launch.report.run
    copies = verdict.get("async_copy") or {}
    numbers = {name: _finite(verdict.get(name)) for name in ("duration_ns", "cycles", "sm_clock_hz")}
    for name in ("cycles", "sm_clock_hz"):
        numbers[name] = _finite(row[name]) if math.isnan(numbers[name]) else numbers[name]
    numbers |= {name: _finite(verdict.get(name)) for name in ("tensor_elapsed_pct", "dram_pct")}
    numbers |= {name: _finite(copies.get(name)) for name in ("ldgsts", "tma")} | _geometry(row)
    return ComparedLaunch(
        report=str(run.path),
        key=str(launch.report.key),
        launch=launch.number,
        label=launch.label,
        kernel=str(verdict.get("kernel") or row["kernel"]),
        demangled=string(row["demangled"]) or str(row["kernel"]),
        shape=json.dumps(run.manifest.kernel_of(launch.number).get("shape") or {}, sort_keys=True),
        grid=string(row["grid"]),
        block=string(row["block"]),
        nvtx=string(row["nvtx"]),
        device=string(verdict.get("device")),
        ncu_version=string(row["ncu_version"]),
        verdict=verdict,
        values=numbers,
        stalls=dict(stall_shares(launch.source)),
    )


def _geometry(row: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of the launch configuration: registers a thread, bytes of shared memory a CTA, CTAs
    and threads a CTA."""
    memory = [_finite(row[name]) for name in ("smem_static_B", "smem_dynamic_B")]
    known = [size for size in memory if not math.isnan(size)]
    return {
        "registers": _finite(row["registers"]),
        "smem_B": math.fsum(known) if known else math.nan,
        "ctas": _product(string(row["grid"])),
        "threads": _product(string(row["block"])),
    }


def _product(extent: str) -> float:
    """128.0 of ``4,32,1``; NaN of what is no extent."""
    try:
        return float(math.prod(int(part) for part in extent.split(",")))
    except ValueError:
        return math.nan


def _finite(value: Any) -> float:
    """``value`` as a finite float, else NaN."""
    result = number(value)
    return math.nan if result is None else result


def groups(subjects: Iterable[ComparedLaunch]) -> list[Group]:
    """Gather repeats, in order of appearance. The same launch of the same report content counts
    once."""
    gathered: dict[LaunchKey, dict[tuple[str, int], ComparedLaunch]] = {}
    for launch in subjects:
        gathered.setdefault(launch.of_repeats, {}).setdefault((launch.key, launch.launch), launch)
    return [Group(tuple(launches.values())) for launches in gathered.values()]


_LEVELS = ("of_any_device", "of_problem", "of_configuration", "of_geometry", "of_instance", "of_function")
"""What two groups must share to be partners, strictest first; among equals the order of appearance
decides."""


def match(sides: Sequence[Sequence[Group]]) -> tuple[Matches, list[tuple[int, Group]]]:
    """Partners of every group of the first side on each other side (None: it has none there), and
    what is left over.

    A last group left on both sides is paired whatever it is called: two kernels for the same work.
    A group of the first side without any partner is left over, too; so are (side, group) of the
    others that no group of the first took.
    """
    first = list(sides[0])
    columns = [partners(first, side) for side in sides[1:]]
    rows: Matches = [(group, *(column.get(index) for column in columns)) for index, group in enumerate(first)]
    taken = [{id(group) for group in column.values()} for column in columns]
    left = [(0, group) for group, *others in rows if group and not any(others)]
    for place, side in enumerate(sides[1:], 1):
        left += [(place, group) for group in side if id(group) not in taken[place - 1]]
    return [row for row in rows if any(row[1:])], left


def partners(first: Sequence[Group], other: Sequence[Group]) -> dict[int, Group]:
    """The partner in ``other`` of each group of ``first`` that has one, by its index."""
    partner_of: dict[int, Group] = {}
    free = list(other)
    for level in _LEVELS:
        for index, group in enumerate(first):
            if index in partner_of:
                continue
            wanted = getattr(group.first, level)
            if (
                partner := next((candidate for candidate in free if getattr(candidate.first, level) == wanted), None)
            ) is not None:
                partner_of[index] = partner
                free.remove(partner)
    alone = [index for index in range(len(first)) if index not in partner_of]
    if len(alone) == 1 and len(free) == 1:
        partner_of[alone[0]] = free[0]
    return partner_of
