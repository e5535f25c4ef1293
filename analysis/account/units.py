"""The unit that bounds a kernel, and its busy share of elapsed time.

The tensor pipe wherever a kernel issues MMAs. For kernels without tensor work it is the busiest
unit, including DRAM and L2, so that their account shows what bounds them. Percentages are of
elapsed cycles; a metric that exists only per active cycle is scaled by the share of cycles with a
CTA. Names of counters by chip and version are data (``profiling/generations``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ncubble.analysis.report.frames import without_text
from ncubble.analysis.report.report import Launch, once_per_launch
from ncubble.chips import Version, generation_of, parse_version
from ncubble.profiling.metrics.generations import Unit, load_generations
from ncubble.sass.opcodes import role

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"
DIRECTION = ".sum.pct_of_peak_sustained_elapsed"
_TENSOR = load_generations().of_kind("tensor")
_OTHERS = load_generations().of_kind("pipe") | load_generations().of_kind("memory")
DIRECTIONS = {counter: parts for unit in _OTHERS.values() for counter, parts in unit.directions.items()}
TENSOR = tuple(stem for unit in _TENSOR.values() for stem in (*unit.counters, *unit.single))
PIPES = {name: unit.counters for name, unit in load_generations().of_kind("pipe").items()}
MEMORY = {name: unit.counters for name, unit in load_generations().of_kind("memory").items()}
INCIDENTAL_PCT = 5.0
"""Below this, and without the code, a busy tensor pipe does not prove MMAs: HFMA2.MMA moves
constants through it (elementwise kernels of public GH200 reports show 1 %, of A100 reports 3.5
%)."""

IN_LSU = 0.9
"""Share of the busy time of L1TEX from which on it is that of the load/store unit."""


@dataclass(frozen=True)
class Busy:
    """The bounding unit, its busy share of elapsed cycles in percent, its timeline series, and
    missing metrics."""

    unit: str
    pct: float
    series: str = ""
    missing: tuple[str, ...] = ()


def capability_of(launch: Launch) -> Version | None:
    """Compute capability of the launch's GPU; None if the report lacks it."""
    text = launch.identity.compute_capability
    return parse_version(text) if text else None


def utilization(launch: Launch, stems: Iterable[str]) -> float:
    """Busy share of elapsed cycles, in percent, from the busiest collected one of ``stems``; NaN if
    none is."""
    return max((value for stem in stems if not math.isnan(value := _elapsed(launch, stem))), default=math.nan)


def tensor_utilization(launch: Launch) -> float:
    """Tensor pipe's busy share of elapsed cycles, in percent; NaN if not collected. If only
    counters of single operations exist, the busiest of them: kernels use one kind of MMA. Likewise
    if a chip counts two tensor pipes separately."""
    return max(_tensor_shares(launch).values(), default=math.nan)


def _tensor_shares(launch: Launch) -> dict[str, float]:
    """Busy share of each tensor pipe that was collected, by the name of the unit."""
    shares = {name: _tensor_share(launch, unit) for name, unit in _TENSOR.items()}
    return {name: value for name, value in shares.items() if not math.isnan(value)}


def tensor_share_of_active(launch: Launch) -> float:
    """Tensor pipe's busy share of active SM cycles, in percent, by the counter of
    ``tensor_utilization``; NaN where its share of active cycles was not collected."""
    stems = [item for unit in _TENSOR.values() for item in shares_by_counter(launch, unit).items()]
    return launch.value(max(stems, key=lambda item: item[1])[0] + ACTIVE) if stems else math.nan


def _tensor_share(launch: Launch, unit: Unit) -> float:
    return max(shares_by_counter(launch, unit).values(), default=math.nan)


def shares_by_counter(launch: Launch, unit: Unit) -> dict[str, float]:
    """Busy shares of a unit by counter: its busiest one that was collected, else those of single
    operations."""
    shares = {stem: _elapsed(launch, stem) for stem in (*unit.counters, *unit.single)}
    known = {stem: share for stem, share in shares.items() if not math.isnan(share)}
    whole = sorted((stem for stem in unit.counters if stem in known), key=lambda stem: -known[stem])[:1]
    return {stem: known[stem] for stem in whole} or known


def counters_of(launch: Launch, stem: str) -> tuple[str, dict[str, float]]:
    """How the busy share of ``stem`` is computed, in words, with the counters: the sum of both
    directions, that of elapsed cycles, or that of active ones times the share with a CTA."""
    if stem in DIRECTIONS:
        names = [part + DIRECTION for part in DIRECTIONS[stem]]
        return "the sum of both directions", {name: launch.value(name) for name in names}
    if not math.isnan(value := launch.value(stem + ELAPSED)):
        return "the counter", {stem + ELAPSED: value}
    value, cta = launch.value(stem + ACTIVE), ratio_counters(launch, "cta_share")
    if math.isnan(value) or not cta:
        return "", {}
    return "the counter of active cycles × the share of cycles with a CTA", {stem + ACTIVE: value, **cta}


def unit_counters(launch: Launch, name: str) -> tuple[str, dict[str, float]]:
    """``counters_of`` the busiest counter of a unit; ``tensor`` is the busiest tensor pipe."""
    units = [unit for unit in load_generations().units if (unit.kind if name == "tensor" else unit.name) == name]
    shares = {stem: pct for unit in units for stem, pct in shares_by_counter(launch, unit).items()}
    return counters_of(launch, max(shares, key=lambda stem: shares[stem])) if shares else ("", {})


def _elapsed(launch: Launch, stem: str) -> float:
    """The busy share that ``counters_of`` describes; NaN where they were not collected."""
    _, counters = counters_of(launch, stem)
    if stem in DIRECTIONS or len(counters) < 2:
        return sum(counters.values()) if counters else math.nan
    return counters[stem + ACTIVE] * cta_share(launch)


def quantity(launch: Launch, name: str) -> float:
    """What generations name ``name``, by the first of its counters that was collected; NaN where
    none was."""
    return launch.first(load_generations().quantities[name])


def ratio_counters(launch: Launch, name: str) -> dict[str, float]:
    """The first pair of counters of a share that is collected, part and whole; empty where none
    is."""
    for pair in load_generations().ratios[name]:
        values = {counter: launch.value(counter) for counter in pair}
        part, whole = values.values()
        if part >= 0 and whole > 0:
            return values
    return {}


def ratio(launch: Launch, name: str) -> float:
    """A share by its ``ratio_counters``, 0 or more; NaN where they are not collected."""
    values = list(ratio_counters(launch, name).values())
    return values[0] / values[1] if values else math.nan


def cta_share(launch: Launch) -> float:
    """Share of elapsed SM cycles in which an SM had a CTA, 0 to 1; NaN where not collected."""
    share = ratio(launch, "cta_share")
    return share if math.isnan(share) else min(1.0, share)


@once_per_launch
def uses_tensor(launch: Launch) -> bool | None:
    """Whether the kernel issues MMAs, from its code or counters; None if unknown.

    Code with execution counts decides. Warp samples alone prove an MMA, but not that there is none;
    nor do counters, unless they are there for every tensor pipe of the chip.
    """
    source = launch.source
    executed = source["executed"].to_numpy(dtype=float)
    ran = (executed > 0) | (source["samples"] > 0).to_numpy()
    if any(role(opcode) == "mma" for opcode in source["opcode"].to_numpy()[ran]):
        return True
    if not np.isnan(executed[ran]).all() and not without_text(source)[ran].any():
        return False
    shares = {name: _use(launch, unit) for name, unit in _TENSOR.items()}
    if any(share >= INCIDENTAL_PCT for share in shares.values()):
        return True
    chip = generation_of(capability_of(launch))
    unknown = any(math.isnan(shares[name]) for name, unit in _TENSOR.items() if unit.on(chip))
    return None if unknown else False


def _use(launch: Launch, unit: Unit) -> float:
    """The largest share of a tensor pipe, of time or of instruction slots; NaN where neither was
    collected."""
    values = [_tensor_share(launch, unit), *(_elapsed(launch, stem) for stem in unit.issue)]
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def other_shares(launch: Launch) -> dict[str, float]:
    """Busy share of elapsed cycles of every unit but the tensor pipe that was collected, in
    percent, by name."""
    shares = {name: utilization(launch, unit.counters) for name, unit in _OTHERS.items()}
    return {name: value for name, value in shares.items() if not math.isnan(value)}


def lacking_units(launch: Launch) -> list[Unit]:
    """Units of this chip whose share was not collected, although a set does."""
    chip = generation_of(capability_of(launch))
    known = _tensor_shares(launch) | other_shares(launch)
    return [unit for unit in load_generations().units if unit.set and unit.name not in known and unit.on(chip)]


@once_per_launch
def busy_of(launch: Launch) -> Busy | None:
    """The unit of this launch's account; None if no utilization was collected."""
    tensor = _tensor_shares(launch)
    used = uses_tensor(launch)
    if used and tensor:
        busiest = max(tensor, key=lambda name: tensor[name])
        return Busy("tensor", min(tensor[busiest], 100.0), _TENSOR[busiest].series)
    known = other_shares(launch)
    if used is not False or not known:
        return None
    unit = max(known, key=lambda name: known[name])
    if unit == "l1tex" and known.get("lsu", 0.0) >= IN_LSU * known[unit]:
        unit = "lsu"  # which part of L1TEX it is
    lacking = tuple(lack.counters[0] + ELAPSED for lack in lacking_units(launch) if lack.kind != "tensor")
    return Busy(unit, min(known[unit], 100.0), _OTHERS[unit].series, lacking)
