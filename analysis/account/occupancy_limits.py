"""Limits of the CTAs per SM: the count allowed by each resource, the binding one, and what one more
CTA would need.

The counts are those of the report (section ``Occupancy``). What one more CTA needs is computed, and
only reported if the same arithmetic reproduces the report's count for this launch: an SM's
registers are handed out in units of 256 per warp, a quarter of them to each scheduler; shared
memory in units of 128 B, of the size that is configured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

WARP = 32
MOST_THREADS = 1024
"""Maximum threads of a CTA (all compute capabilities)."""
LARGEST = 1e15
"""Larger counts come from damaged files."""
SCHEDULERS = 4
REGISTER_UNIT = 256
"""Registers are allocated to a warp in multiples of this (compute capability 7.0 to 12.0)."""
REGISTER_STEP = 8
SHARED_UNIT_B = 128
RESOURCES = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "CTA slots": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
_ATTRIBUTE = "device__attribute_"
_SETMAXNREG = re.compile(r"USETMAXREG\S* (?:\w+, )?(0x[0-9a-f]+|\d+)")


@dataclass(frozen=True)
class Limit:
    """One resource: ``ctas`` per SM that it allows (NaN: not collected), what a CTA ``uses`` and an
    SM ``has`` of it in words, and what one more CTA would need of it: empty where it has room, or
    where that is not told."""

    resource: str
    ctas: float
    uses: str = ""
    has: str = ""
    one_more: str = ""


@dataclass(frozen=True)
class Limits:
    """Launch and occupancy of one launch; NaN where not collected, percentages of the warps that an
    SM can hold.

    ``ctas`` is what the tightest resource allows on an SM, ``binding`` which those are.
    ``grid_ctas`` is the whole grid, ``cluster`` the CTAs of a cluster (0: launched without),
    ``clusters`` how many fit the GPU at once.
    """

    limits: tuple[Limit, ...]
    ctas: float
    binding: tuple[str, ...]
    warps: float
    grid_ctas: float
    sms: float
    waves: float
    theoretical_pct: float
    achieved_pct: float
    cluster: float
    clusters: float

    @property
    def known(self) -> bool:
        """Whether any limit was collected."""
        return not math.isnan(self.ctas)

    @property
    def grid_binds(self) -> bool:
        """Whether the grid has fewer CTAs than the SMs could hold at once."""
        return self.known and 0 < self.grid_ctas < self.ctas * self.sms


def limits_of(scalars: Mapping[str, float]) -> Limits:
    """The limits of one launch, from its scalar metrics."""
    get = _Values(scalars)
    allowed = {name: get(metric) for name, metric in RESOURCES.items()}
    # Versions without barriers, and launches without registers, report 0 or omit it: that limits
    # nothing.
    known = {name: value for name, value in allowed.items() if value >= 1}
    ctas = min(known.values(), default=math.nan)
    threads = get("launch__block_size")
    warps = math.ceil(threads / WARP) if 0 < threads <= MOST_THREADS else math.nan
    limits = tuple(_limit(name, known.get(name, math.nan), ctas, warps, get) for name in RESOURCES)
    return Limits(
        limits=limits,
        ctas=ctas,
        binding=tuple(name for name, value in known.items() if value == ctas),
        warps=warps,
        grid_ctas=get("launch__grid_size"),
        sms=_first(get("launch__sm_count"), get(f"{_ATTRIBUTE}multiprocessor_count")),
        waves=get("launch__waves_per_multiprocessor"),
        theoretical_pct=_theoretical(get, ctas, warps),
        achieved_pct=get(ACHIEVED),
        cluster=get("launch__cluster_size"),
        clusters=get("launch__cluster_max_active"),
    )


class _Values:
    """Values by name; NaN for what is not there, or is no size that any GPU has."""

    def __init__(self, scalars: Mapping[str, float]) -> None:
        self._scalars = scalars

    def __call__(self, name: str) -> float:
        value = float(self._scalars.get(name, math.nan))
        return value if abs(value) <= LARGEST else math.nan


def _first(*values: float) -> float:
    return next((value for value in values if not math.isnan(value)), math.nan)


def _theoretical(get: _Values, ctas: float, warps: float) -> float:
    """From the report, else from the limits."""
    reported = get("sm__maximum_warps_per_active_cycle_pct")
    most = get(f"{_ATTRIBUTE}max_warps_per_multiprocessor")
    return reported if not math.isnan(reported) else 100.0 * ctas * warps / most


def _limit(name: str, allowed: float, ctas: float, warps: float, get: _Values) -> Limit:
    wanted = ctas + 1
    describe = _DESCRIBED.get(name)
    if describe is None or math.isnan(allowed):
        return Limit(name, allowed, one_more="fewer per CTA" if allowed < wanted else "")
    uses, has, need = describe(allowed, wanted, warps, get)
    return Limit(name, allowed, uses, has, need if allowed < wanted else "")


def ctas_by_registers(per_thread: float, warps: float, sm_registers: float) -> int:
    """CTAs of ``warps`` warps that fit the registers of an SM."""
    per_warp = math.ceil(per_thread * WARP / REGISTER_UNIT) * REGISTER_UNIT
    return int(math.floor(sm_registers / SCHEDULERS / per_warp) * SCHEDULERS // warps) if per_warp > 0 else 0


def setmaxnreg(sass: Iterable[str]) -> str:
    """How warpgroups share out registers among themselves, in a sentence; empty where they do
    not."""
    counts = [int(match[1], 0) for text in sass if (match := _SETMAXNREG.search(text))]
    if not counts:
        return ""
    each = " or ".join(map(str, sorted(set(counts))))
    return (
        f"setmaxnreg gives the threads of a warpgroup {each} registers while they run. The count above is that of the "
        "launch, by which CTAs fit an SM."
    )


def registers_for(ctas: float, warps: float, sm_registers: float) -> int:
    """The most registers a thread may have so that ``ctas`` fit; 0 where even the fewest are too
    many."""
    counts = range(REGISTER_STEP * 32 - REGISTER_STEP, 0, -REGISTER_STEP)
    return next((count for count in counts if ctas_by_registers(count, warps, sm_registers) >= ctas), 0)


def _registers(allowed: float, wanted: float, warps: float, get: _Values) -> tuple[str, str, str]:
    used, sm = get("launch__registers_per_thread"), get(f"{_ATTRIBUTE}max_registers_per_multiprocessor")
    if math.isnan(used + sm + warps):
        return "", "", ""
    uses, has = f"{used:.0f} per thread, {warps:.0f} warps", f"{sm / 1024:.0f} Ki registers"
    if ctas_by_registers(used, warps, sm) != allowed:
        return uses, has, ""
    count = registers_for(wanted, warps, sm)
    less = f"{used - count:.0f} register{'' if used - count == 1 else 's'}"
    need = f"{less} per thread fewer ({count})" if count else "fewer warps per CTA"
    return uses, has, need


def _shared(allowed: float, wanted: float, _: float, get: _Values) -> tuple[str, str, str]:
    driver = get("launch__shared_mem_per_block_driver")
    own = get("launch__shared_mem_per_block_static") + get("launch__shared_mem_per_block_dynamic")
    sm, most = get("launch__shared_mem_config_size"), get(f"{_ATTRIBUTE}max_shared_memory_per_multiprocessor")
    if math.isnan(own + sm):
        return "", "", ""
    reserved = driver if driver >= 0 else 0.0
    uses, has = f"{kib(own)} plus {kib(reserved)} for the driver", f"{kib(sm)} as configured"
    per_cta = _up(own + reserved)
    if per_cta <= 0 or sm // per_cta != allowed:
        return uses, has, ""
    room = math.floor(sm / wanted / SHARED_UNIT_B) * SHARED_UNIT_B - reserved
    need = f"{kib(own - room)} less per CTA ({kib(room)})" if room >= 0 else "less than the driver needs"
    if most // per_cta >= wanted:
        need = f"a larger carve-out (the SM has up to {kib(most)}), or {need}"
    return uses, has, need


def _up(size: float) -> float:
    return math.ceil(size / SHARED_UNIT_B) * SHARED_UNIT_B


def _warps(allowed: float, wanted: float, warps: float, get: _Values) -> tuple[str, str, str]:
    most = get(f"{_ATTRIBUTE}max_warps_per_multiprocessor")
    if math.isnan(most + warps):
        return "", "", ""
    fewer = most // wanted
    need = f"at most {fewer:.0f} warps per CTA ({fewer * WARP:.0f} threads)" if most // warps == allowed else ""
    return f"{warps:.0f} warps", f"{most:.0f} warps", need


def _slots(allowed: float, wanted: float, warps: float, get: _Values) -> tuple[str, str, str]:
    return "1 slot", f"{allowed:.0f} slots", "not possible: the SM has no more slots; give each CTA more work"


def kib(size: float) -> str:
    """Bytes in KiB, with one decimal unless integer."""
    whole = size / 1024
    return f"{whole:.0f} KiB" if whole == int(whole) else f"{whole:.1f} KiB"


_DESCRIBED: Mapping[str, Callable[[float, float, float, _Values], tuple[str, str, str]]] = {
    "registers": _registers,
    "shared memory": _shared,
    "warps": _warps,
    "CTA slots": _slots,
}
"""For each resource: what a CTA takes, what an SM has, and what one more CTA would need."""
