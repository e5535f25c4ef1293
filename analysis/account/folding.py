"""Brings accounts with different splits to the same parts: parts that one of them cannot split are
merged in all. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def merged_by_any(accounts: Iterable[Mapping[str, Iterable[str]]]) -> dict[str, set[str]]:
    """Finer parts of each coarse part over several accounts, so that equal names mean the same in
    all. ``accounts`` holds the merged parts of each: finer parts by coarse part."""
    coarser: dict[str, set[str]] = {}
    for merged in accounts:
        for coarse, finer in merged.items():
            coarser.setdefault(str(coarse), set()).update(str(name) for name in finer)
    for coarse, finer in coarser.items():
        # A coarse part whose finer parts belong to another coarse part belongs to it, too.
        finer.update(name for name, held in coarser.items() if name != coarse and held < finer)
    return coarser


def folded(account: Mapping[str, float], merged: Mapping[str, set[str]]) -> dict[str, float]:
    """``account`` with finer parts added to the coarser ones that ``merged`` names; its sum stays
    what it was."""
    shares = {name: float(share) for name, share in account.items()}
    for coarse in sorted(merged, key=lambda name: len(merged[name])):
        held = [shares.pop(name) for name in list(shares) if name in merged[coarse]]
        if held or coarse in shares:
            shares[coarse] = shares.get(coarse, 0.0) + math.fsum(held)
    return shares
