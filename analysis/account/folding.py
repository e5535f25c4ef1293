"""Accounts that split time differently, brought to the same parts: what one of them cannot split is
merged in all.

Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def merged_by_any(accounts: Iterable[Mapping[str, Iterable[str]]]) -> dict[str, set[str]]:
    """Which finer parts a coarser one stands for in any of several accounts: then in all of them,
    so that parts of a name mean the same. ``accounts`` holds what each of them merged: the finer
    parts by the coarse one."""
    coarser: dict[str, set[str]] = {}
    for merged in accounts:
        for coarse, finer in merged.items():
            coarser.setdefault(str(coarse), set()).update(str(name) for name in finer)
    for coarse, finer in coarser.items():  # a coarse part whose finer ones another one holds is held by it, too
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
