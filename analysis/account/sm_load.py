"""Load of an SM while it has CTAs, which the account needs besides warp samples. Shares of active
cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ncubble.analysis.account.units import cta_share
from ncubble.analysis.report.report import Launch
from ncubble.profiling.metrics.generations import load_generations

WAVEFRONT_B = 128
"""Bytes per cycle through the data stage of L1 and shared memory."""
LIMITS = ("registers", "shared_mem", "warps", "blocks")
"""Limits of the CTAs per SM."""
COPY_PASSES = 2
"""An LDGSTS passes the load/store unit as a request, and what comes back is written to shared
memory."""
BOX_CYCLES = 10.0
"""Cycles of TMA for a box, however small: a GEMM of boxes of 256 bytes gets one in that time
(planted_boxes, H200)."""


@dataclass(frozen=True)
class SmLoad:
    """``resident``: CTAs of an SM at a time. ``busy``: the bounding unit. ``copies``, ``reads``:
    the load/store unit, by LDGSTS and by shared loads. ``data_pipe``: its data stage. ``boxes``:
    TMA, by the number of its boxes. NaN if the report lacks it."""

    resident: float = math.nan
    busy: float = math.nan
    copies: float = math.nan
    reads: float = math.nan
    data_pipe: float = math.nan
    boxes: float = math.nan

    @property
    def contended(self) -> float:
        """The load/store unit's time for the copies of a CTA, as far as the shared loads of other
        CTAs take as much."""
        return float(np.minimum(self.copies, self.reads)) * (self.resident - 1.0) / self.resident

    @property
    def copies_ahead(self) -> float:
        """Of the time that a shared load waits in a queue behind copies and loads, the copies'
        part."""
        both = self.copies + self.reads
        return self.copies / both if both > 0 else 0.0

    @property
    def reads_ahead(self) -> float:
        """Of what passes the data stage, the part of shared loads."""
        return float(np.minimum(1.0, self.reads / self.data_pipe)) if self.data_pipe > 0 else 0.0


def sm_load(launch: Launch, busy_pct: float) -> SmLoad:
    """The load of a launch whose bounding unit is busy for ``busy_pct`` of elapsed cycles."""
    active, share = launch.value("sm__cycles_active.avg"), cta_share(launch)
    sms = launch.first(load_generations().quantities["sms"])
    cycles = active * sms if active > 0 and sms > 0 else math.nan
    part = share if share > 0 else math.nan
    return SmLoad(
        resident=_resident(launch, sms),
        busy=float(np.minimum(1.0, busy_pct / 100.0 / part)),
        copies=COPY_PASSES * _copied_bytes(launch) / WAVEFRONT_B / cycles,
        reads=launch.first(load_generations().quantities["shared_read_wavefronts"]) / cycles,
        data_pipe=launch.first(load_generations().quantities["lsu_data_pipe_pct"]) / 100.0 / part,
        boxes=BOX_CYCLES * launch.first(load_generations().quantities["tma"]) / cycles,
    )


def _copied_bytes(launch: Launch) -> float:
    """Bytes that came into L1, which are those of LDGSTS but for few; NaN without LDGSTS, or with
    TMA beside it."""
    quantities = load_generations().quantities
    if not launch.first(quantities["ldgsts"]) > 0 or launch.first(quantities["tma"]) > 0:
        return math.nan
    return launch.first(quantities["fill_bytes"])


def _resident(launch: Launch, sms: float) -> float:
    """CTAs of an SM at a time, as far as there are that many."""
    limits = [launch.value(f"launch__occupancy_limit_{what}") for what in LIMITS]
    known = [limit for limit in limits if limit > 0]
    ctas = launch.value("launch__grid_size")
    if not known or not ctas > 0 or not sms > 0:
        return math.nan
    return max(1.0, min([*known, math.ceil(ctas / sms)]))
