"""What is compared: launches as plain values, gathered into repeats, and matched across sides.
Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.launch import Launch, LaunchIdentity
from ncubble.analysis.report.launch_key import MATCHES, LaunchKey
from ncubble.analysis.report.samples import stall_shares
from ncubble.text.values import number

Matches = list[tuple["Group | None", ...]]


@dataclass(frozen=True, kw_only=True)
class ComparedLaunch(LaunchKey):
    """One launch, by its key, with all that a comparison reads of it.

    ``values`` holds numbers by metric, NaN where not collected (times in ns, clock in Hz, sizes in
    bytes, shares in percent of elapsed time or of the peak); ``stalls`` percent of warp samples by
    reason, empty where there are none; ``measured`` the account as an ablation measured it, None
    unless it measured every set of parts.
    """

    report: str
    key: str
    launch: int
    ncu_version: str
    verdict: LaunchVerdict
    values: Mapping[str, float]
    stalls: Mapping[str, float]
    measured: Mapping[str, float] | None = None

    @property
    def account(self) -> Mapping[str, float]:
        """Parts in percent of elapsed SM cycles, by estimate; empty where the report holds no
        utilization of any unit."""
        return self.verdict.account or {}


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


def compared_launch(launch: Launch, verdict: LaunchVerdict, ablation: Ablation | None = None) -> ComparedLaunch:
    """One launch, its verdict and what was measured of it, as plain values."""
    row, run = launch.identity, launch.report.run
    numbers = {
        "duration_ns": _finite(verdict.duration_ns),
        "cycles": _finite(verdict.cycles),
        "sm_clock_hz": _finite(verdict.sm_clock_hz),
        "tensor_elapsed_pct": _finite(verdict.tensor_elapsed_pct),
        "dram_pct": _finite(verdict.dram_pct),
        "ldgsts": _finite(verdict.async_copy["ldgsts"]),
        "tma": _finite(verdict.async_copy["tma"]),
        **_geometry(row),
    }
    return ComparedLaunch(
        report=str(run.path),
        key=str(launch.report.key),
        launch=launch.number,
        label=launch.label,
        kernel=verdict.kernel,
        demangled=row.demangled or row.kernel,
        shape=json.dumps(run.manifest.kernel_of(launch.number).get("shape") or {}, sort_keys=True),
        grid=row.grid,
        block=row.block,
        nvtx=row.nvtx,
        device=verdict.device or "",
        ncu_version=row.ncu_version,
        verdict=verdict,
        values=numbers,
        stalls=dict(stall_shares(launch.source)),
        measured=ablation.account(verdict.account or {}) if ablation else None,
    )


def _geometry(row: LaunchIdentity) -> dict[str, float]:
    """Numbers of the launch configuration: registers a thread, bytes of shared memory a CTA, CTAs
    and threads a CTA."""
    known = [size for size in (row.smem_static_B, row.smem_dynamic_B) if math.isfinite(size)]
    return {
        "registers": _finite(row.registers),
        "smem_B": math.fsum(known) if known else math.nan,
        "ctas": _product(row.grid),
        "threads": _product(row.block),
    }


def _product(extent: str) -> float:
    """128.0 of ``4,32,1``; NaN of what is no extent."""
    try:
        return float(math.prod(int(part) for part in extent.split(",")))
    except ValueError:
        return math.nan


def _finite(value: float | None) -> float:
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
    """The partner in ``other`` of each group of ``first`` that has one, by its index: the groups
    that share most (``MATCHES``), among equals in the order of appearance."""
    partner_of: dict[int, Group] = {}
    free = list(other)
    for parts in MATCHES.values():
        for index, group in enumerate(first):
            if index in partner_of:
                continue
            wanted = group.first.only(*parts)
            if partner := next((candidate for candidate in free if candidate.first.only(*parts) == wanted), None):
                partner_of[index] = partner
                free.remove(partner)
    alone = [index for index in range(len(first)) if index not in partner_of]
    if len(alone) == 1 and len(free) == 1:
        partner_of[alone[0]] = free[0]
    return partner_of
