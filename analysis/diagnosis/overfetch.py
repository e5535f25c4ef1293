"""What a kernel without tensor work loses to sectors that are fetched and that nobody asked for.

Its busiest server (DRAM, L2, or the L1 data pipe behind the LSU) is then full of work that
coalesced accesses do without. The cure is bounded by the bytes that were asked for, and by the
server that is full next.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.diagnosis.diseases import OVERFETCH
from ncubble.analysis.diagnosis.facts import LaunchFacts
from ncubble.analysis.model.gain import KEPT, Gain

FULL_PCT = 60.0
"""Busy share of a server above which its work bounds the kernel (Nsight's rule ``SOLBottleneck``
calls less latency-bound)."""
NEXT_PCT = 80.0
"""Busy share of another server above which coalesced accesses would gain next to nothing."""


@dataclass(frozen=True)
class Overfetch:
    """``pct``: percent of kernel time in which the busiest server works for nobody. ``gain``: what
    coalesced accesses give back, in percent of kernel time."""

    pct: float
    gain: Gain


def overfetch(account: BubbleAccount, facts: LaunchFacts) -> Overfetch | None:
    """The loss to sectors that nobody asked for; None where it does not bound the kernel, or where
    TMA copies, whose bytes nothing counts by access, are among its loads.

    Expected is that the kernel fills its next server as far as it fills the present one.
    """
    busy, kept = account.parts["unit_busy"], needed(facts)
    needless = 1.0 - kept.get(account.unit, 1.0)
    if facts.bulk or busy < FULL_PCT or needless < 1.0 - 1.0 / OVERFETCH:
        return None
    left = max(pct * kept.get(unit, 1.0) for unit, pct in facts.shares.items())
    expected = 100.0 * (1.0 - left / busy)
    return Overfetch(busy * needless, Gain(expected, KEPT * expected, 100.0 - left)) if left < NEXT_PCT else None


def needed(facts: LaunchFacts) -> dict[str, float]:
    """Share of a server's present work that coalesced accesses leave (0 to 1), by its name; 1 where
    the report does not tell."""
    return {
        "dram": facts.dram_needed if facts.dram_needed < 1.0 else 1.0,
        "l2": 1.0 / max(1.0, facts.fetched if facts.fetched > 0 else facts.sectors),
        "lsu": 1.0 / max(1.0, facts.fetched, facts.sectors),
    }
