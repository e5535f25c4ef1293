"""Ramp, tail and gaps between waves, from the PM-sampling timeline. Pure functions.

Per sample let ``a`` be the share of SM cycles with a CTA and ``v`` the share with the unit busy. In
the steady state the unit is busy for ``r`` of the active time. A sample loses ``1 - a`` to missing
CTAs and ``max(0, a*r - v)`` against the steady state. Losses before the unit first reaches half its
steady level are ramp. The tail begins where SMs run out of CTAs for good (``a`` stays below 85 %: a
partial last wave), or where the unit last is at half its steady level. Losses in dips between are
gaps between waves. The steady idle time itself, ``a*(1 - r)``, is not theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

MIN_SAMPLES = 20
"""Minimum samples to resolve phases: a kernel of 30 µs at the shortest interval of 1.5 µs."""
FULL = 0.85
"""Share of SM cycles with a CTA above which the GPU counts as full: within waves it drops to 0.9
(Triton GEMM, H200)."""
DIP = 0.7
"""A sample below this share of the steady level is a dip: noise of neighbouring samples stays
within it (SM timelines of GEMMs)."""


@dataclass(frozen=True)
class Phases:
    """Loss of each phase in percent of kernel time, the steady level, and the borders in ns from
    the first sample."""

    ramp: float
    tail: float
    wave_gap: float
    steady: float
    start_ns: int
    ramp_end_ns: int
    tail_start_ns: int
    end_ns: int
    dips: tuple[tuple[int, int], ...]


def phases(busy: pd.Series, active: pd.Series) -> Phases | None:
    """Phases of a kernel from ``busy`` (% of peak, indexed by t_ns, which is 0 where it begins) and
    ``active`` (any unit; empty if not sampled).

    None if the timeline is too short, or the unit was never busy.
    """
    if len(busy) < MIN_SAMPLES or not busy.max() > 0:
        return None
    level = busy.to_numpy(dtype=float) / 100.0
    running = _running(busy, active)
    first, last = running.nonzero()[0][[0, -1]]
    first = first if len(active) == len(busy) else int(np.searchsorted(busy.index.to_numpy(), 0))
    if last - first + 1 < MIN_SAMPLES:
        return None
    times = busy.index.to_numpy()[first : last + 1]
    v, a = level[first : last + 1], _share_active(busy, active)[first : last + 1]
    ratio = np.divide(v, a, out=np.zeros_like(v), where=a > 0.5)
    r = min(1.0, float(np.quantile(ratio[ratio > 0], 0.6))) if (ratio > 0).any() else 0.0
    lost = np.clip(1.0 - a, 0.0, 1.0) + np.clip(a * r - v, 0.0, 1.0)
    up = np.nonzero(v >= 0.5 * r)[0]
    if not len(up):
        return None
    begin, end = int(up[0]), int(up[-1])
    if (full := np.nonzero(a[begin:] >= FULL)[0]).size:
        end = min(end, begin + int(full[-1]))
    inside = np.arange(len(v))
    dip = (v < DIP * r) & (inside > begin) & (inside < end)
    share = 100.0 * lost / len(v)
    return Phases(
        ramp=float(share[:begin].sum()),
        tail=float(share[end + 1 :].sum()),
        wave_gap=float(share[dip].sum()),
        steady=100.0 * r,
        start_ns=int(times[0]),
        ramp_end_ns=int(times[begin]),
        tail_start_ns=int(times[end]),
        end_ns=int(times[-1]),
        dips=_stretches(dip, times),
    )


def _running(busy: pd.Series, active: pd.Series) -> np.ndarray:
    """Samples inside the kernel. The series goes on after its end, and DRAM may still write back
    then."""
    if len(active) == len(busy) and active.max() > 0:
        return np.asarray(active > 0.01 * active.max())
    return np.asarray(busy > 0)


def _share_active(busy: pd.Series, active: pd.Series) -> np.ndarray:
    """Share of SM cycles with a CTA per sample, by the largest sample but for outliers; 1 where it
    was not sampled."""
    if len(active) != len(busy) or not active.max() > 0:
        return np.ones(len(busy))
    values = active.to_numpy(dtype=float)
    largest = np.quantile(values, 0.95) or values.max()  # a short kernel in a long series: most samples are 0
    return np.asarray(np.clip(values / largest, 0.0, 1.0))


def _stretches(mask: np.ndarray, times: np.ndarray) -> tuple[tuple[int, int], ...]:
    """(from, to) of each run of true samples, in ns."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(int), [0]))))
    return tuple(
        (int(times[a]), int(times[min(b, len(times) - 1)])) for a, b in zip(edges[::2], edges[1::2], strict=True)
    )
