"""Idle time of the unit, sample by sample, by the part of the account that it belongs to. Pure
functions of arrays.

Where a phase was found (ramp, gap between waves, tail), its loss is what ``analysis.phases``
counts: missing CTAs, and what the unit stays below its steady level. All other idle time is steady:
the account shares it out by warp samples, which have no time stamp, so every sample's steady idle
time is split in the account's proportions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ncubble.analysis.account.parts import LAUNCH_SHAPE, WORK, display_order
from ncubble.analysis.account.phases import Phases

SMALL = 1.0
"""Steady parts below this percent of kernel time are merged into ``other``: thinner bands are
invisible."""
Bands = dict[str, np.ndarray]


def idle_bands(busy: pd.Series, active: pd.Series | None, phases: Phases, parts: Mapping[str, float]) -> Bands:
    """Percent of each sample by part, in display order, at the times of ``busy`` (percent, indexed
    by t_ns).

    Busy and bands together are 100 in every sample of the kernel, and 0 outside it. ``active`` is
    the series of SMs with a CTA in any unit, None where it was not sampled with ``busy``;
    ``phases`` as of ``analysis.phases``.
    """
    times, level = busy.index.to_numpy(dtype=float), np.clip(busy.to_numpy(dtype=float), 0.0, 100.0)
    inside = (times >= phases.start_ns) & (times <= phases.end_ns)
    with_cta = _share_active(busy, active)
    lost = 100.0 * (1.0 - with_cta) + np.clip(with_cta * phases.steady - level, 0.0, 100.0)
    idle = np.where(inside, 100.0 - level, 0.0)
    bands: Bands = {}
    steady = idle.copy()
    for part, within in _phases_of(times, phases).items():
        bands[part] = np.where(within & inside, np.minimum(lost, idle), 0.0)
        steady -= bands[part]
    for part, share in _steady_shares(parts).items():
        bands[part] = np.clip(steady, 0.0, 100.0) * share
    return {name: bands[name] for name in display_order(bands) if bands[name].any()}


def _share_active(busy: pd.Series, active: pd.Series | None) -> np.ndarray:
    """Share of SM cycles with a CTA, as ``analysis.phases`` reads it; 1 where it was not sampled
    along."""
    if active is None or len(active) != len(busy) or not active.max() > 0:
        return np.ones(len(busy))
    values = active.to_numpy(dtype=float)
    full = float(np.quantile(values, 0.95))
    return np.asarray(np.clip(values / full, 0.0, 1.0)) if full > 0 else np.ones(len(busy))


def _phases_of(times: np.ndarray, phases: Phases) -> dict[str, np.ndarray]:
    gap = np.zeros(len(times), dtype=bool)
    for start, end in phases.dips:
        gap |= (times >= start) & (times < end)
    return {"ramp": times < phases.ramp_end_ns, "tail": times > phases.tail_start_ns, "wave_gap": gap}


def _steady_shares(parts: Mapping[str, float]) -> dict[str, float]:
    """How steady idle time divides among parts, 0 to 1; all of it is ``other`` where the account
    has none."""
    known = {name: value for name, value in parts.items() if name not in (*WORK, *LAUNCH_SHAPE) and value > 0}
    total = sum(known.values())
    if total <= 0:
        return {"other": 1.0}
    large = {name: value / total for name, value in known.items() if value >= SMALL or name == "other"}
    rest = 1.0 - sum(large.values())
    return {**large, "other": large.get("other", 0.0) + rest} if rest > 1e-9 else large
