"""Describes data missing from a report, whether they could have been collected, and how.

"Made without it" and "this GPU or this ncu has none" are different things, and only the first has a
remedy on the same machine. Which is which is data (``profiling/generations``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ncubble.analysis.account import phases
from ncubble.analysis.account.account import MIN_SAMPLES, BubbleAccount, unread_samples
from ncubble.analysis.account.units import (
    ACTIVE,
    ELAPSED,
    MEMORY,
    PIPES,
    TENSOR,
    capability_of,
    cta_share,
    lacking_units,
    other_shares,
    uses_tensor,
)
from ncubble.analysis.report.report import Launch
from ncubble.chips import Version, parse_version
from ncubble.errors import UsageError
from ncubble.profiling.metrics.generations import Unit, load_generations

_STEMS = {"tensor pipe": TENSOR, **PIPES, **MEMORY}
_CYCLES = load_generations().ratios["cta_share"][0]
SECTIONS = {
    "source": "SourceCounters",
    "timeline": "PmSampling",
    "tensor": "ComputeWorkloadAnalysis",
    "async": "MemoryWorkloadAnalysis",
    "dram": "SpeedOfLight",
}
"""Nsight Compute's section that collects what each of our sets does; ``--set full`` has all."""


@dataclass(frozen=True)
class Lack:
    """Missing data of a report: ``short`` for a table column, ``text`` with the remedy."""

    short: str
    text: str


def no_account(launch: Launch) -> Lack:
    """Why there is no ``busy_of`` of this launch, which counters an account takes on its GPU, and
    how to get them."""
    used, known = uses_tensor(launch), other_shares(launch)
    lacking = [unit for unit in lacking_units(launch) if used is not False or unit.kind != "tensor"]
    tensor = [unit for unit in lacking if unit.kind == "tensor"]
    if failed := _without_value(launch):
        why = f"ncu stored nan for every utilization counter, e.g. {failed[0]}"
        return Lack("values (all nan)", f"{why}. {_collect(launch, lacking)}")
    if per_active := _per_active(launch):
        why = f"utilization of {', '.join(per_active)} was only collected per active cycle"
        return Lack("elapsed cycles", f"{why}. {_ask_for(launch, _CYCLES, ['tensor'])}")
    if used:
        why = "the kernel issues MMAs, but the utilization of the tensor pipe was not collected"
        return Lack("tensor utilization", f"{why}. {_collect(launch, tensor)}")
    if known and tensor:
        why = "it is unknown whether the kernel uses the tensor pipe: its utilization was not collected, only that of "
        return Lack("tensor utilization", f"{why}{', '.join(known)} was. {_collect(launch, tensor)}")
    why = "no utilization per elapsed cycle was collected for any unit that could bound the kernel"
    return Lack("any utilization", f"{why}. {_collect(launch, lacking)}")


def _collect(launch: Launch, units: Iterable[Unit]) -> str:
    chosen = list(units)
    return _ask_for(launch, [unit.counters[0] + ELAPSED for unit in chosen], [unit.set for unit in chosen])


def _ask_for(launch: Launch, counters: Iterable[str], sets: Iterable[str]) -> str:
    """Which counters to collect, and two ways to do so. Any ncu takes names."""
    names = list(dict.fromkeys(sets))
    flags = " ".join(f"--set {name}" for name in names)
    how = f"`ncubble profile {flags}`" if recorded_by_ncubble(launch) else f"`{_ncu_with(names)}`"
    return f"Collect {', '.join(counters)} with {how}, or by name with `ncu --metrics`"


def recorded_by_ncubble(launch: Launch) -> bool:
    """Whether a run of ncubble made the report; others have Nsight Compute's sections, no sets."""
    return bool(launch.report.run.manifest.metric_set)


def _ncu_with(sets: Iterable[str]) -> str:
    return "ncu " + " ".join(f"--section {SECTIONS[name]}" for name in sets)


def _set(launch: Launch, name: str) -> str:
    """How to collect what a set does."""
    if recorded_by_ncubble(launch):
        return f"collect the set {name!r}"
    return f"collect it with {_ncu_with([name])}, or --set full"


def _without_value(launch: Launch) -> list[str]:
    """Counters of utilization that the launch names without a number, if it has no number for any
    of them."""
    names = [stem + rollup for stems in _STEMS.values() for stem in stems for rollup in (ELAPSED, ACTIVE)]
    named = [name for name in names if name in launch.scalars]
    return named if all(math.isnan(launch.value(name)) for name in named) else []


def _per_active(launch: Launch) -> list[str]:
    """Units with a share of active cycles that cannot be converted to elapsed cycles."""
    if not math.isnan(cta_share(launch)):
        return []
    return [
        unit for unit, stems in _STEMS.items() if any(not math.isnan(launch.value(stem + ACTIVE)) for stem in stems)
    ]


def of_account(launch: Launch, account: BubbleAccount) -> list[Lack]:
    """Missing data that would split an account further."""
    lacks = [no_samples(launch)] if account.weights is None else []
    if account.phases is None:
        lacks.append(no_timeline(launch))
        if math.isnan(cta_share(launch)):
            lacks.append(
                Lack(
                    "cycles with a CTA",
                    f"time in which SMs have no CTA is not separated: {' and '.join(_CYCLES)} were not collected "
                    f"({_set(launch, 'tensor')})",
                )
            )
    return lacks


def no_samples(launch: Launch) -> Lack:
    """Why idle time is not split by warp samples."""
    source = launch.source
    count = source["samples"].sum() if len(source) else 0.0
    why = "idle time is not split: "
    if count >= MIN_SAMPLES:
        unread = unread_samples(source)
        return Lack(
            "machine code",
            (
                f"{why}{unread:.0f} of {count:.0f} warp samples are at instructions whose text is missing "
                "from the report (copy the file again, or profile again)"
            ),
        )
    if count > 0:
        return Lack(
            "enough warp samples",
            f"{why}{count:.0f} warp samples, but a split needs {MIN_SAMPLES} (profile a longer launch)",
        )
    if launch.first(load_generations().quantities["samples"]) > 0:
        return Lack(
            "warp samples by instruction",
            f"{why}the report has only the total of warp samples, not samples per instruction "
            f"({_set(launch, 'source')})",
        )
    return Lack("warp samples", f"{why}the report was made without warp samples ({_set(launch, 'source')})")


def no_timeline(launch: Launch) -> Lack:
    """Why ramp, tail and wave gaps are not separated: too few samples, none supported by this GPU
    and ncu, or none requested."""
    why = "ramp, tail and wave gaps are not separated: "
    if (count := _samples_within(launch)) >= phases.MIN_SAMPLES:
        return Lack(
            "a timeline of its unit", f"{why}the timeline shows neither the unit nor issued instructions active"
        )
    if count:
        return Lack(
            "a longer timeline",
            (
                f"{why}{count} PM samples within the kernel, but phases need {phases.MIN_SAMPLES} (profile "
                "a longer launch, or sample at a shorter --pm-sampling-interval)"
            ),
        )
    gap = load_generations().gaps["timeline"]
    if reason := gap.of_chip(capability_of(launch)):
        return Lack("a timeline (this GPU has none)", f"{why}{reason}")
    if reason := gap.of_ncu(_ncu_of(launch)):
        return Lack("a timeline (this ncu has none)", f"{why}{reason} ({_set(launch, 'timeline')}, with a later one)")
    return Lack("a timeline", f"{why}the report was made without a PM-sampling timeline ({_set(launch, 'timeline')})")


def _samples_within(launch: Launch) -> int:
    """PM samples in which SMs had CTAs; all samples where that was not sampled. The series go on
    after the kernel."""
    rows = launch.timeline
    active = rows.loc[rows["metric"] == "sm_active", "value"]
    if len(active) and active.max() > 0:
        return int((active > 0.01 * active.max()).sum())
    return int(rows["metric"].value_counts().max()) if len(rows) else 0


def _ncu_of(launch: Launch) -> Version | None:
    try:
        return parse_version(launch.identity.ncu_version)
    except UsageError:
        return None
