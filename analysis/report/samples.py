"""Warp samples of a ``source`` frame by stall reason."""

from __future__ import annotations

import pandas as pd

NOT_STALLS = frozenset({"launch", "pc", "sass", "opcode", "file", "line", "samples", "executed"})
"""Columns of a ``source`` frame that are not sample counts of a stall reason."""


def stall_columns(source: pd.DataFrame) -> list[str]:
    """The columns of a ``source`` frame that count samples by stall reason."""
    return [str(name) for name in source.columns if name not in NOT_STALLS]


UNKNOWN = "???"
"""Opcode of code that NVIDIA's reader cannot disassemble, such as for chips it no longer
supports."""


def without_text(source: pd.DataFrame) -> pd.Series:
    """Of each instruction, whether its text is missing."""
    return source["opcode"].isin(["", UNKNOWN])


def stall_shares(source: pd.DataFrame) -> list[tuple[str, float]]:
    """(reason, percent of all warp samples), largest first; empty where no samples were
    collected."""
    totals = {reason: float(source[reason].sum()) for reason in stall_columns(source)}
    whole = sum(totals.values())
    if whole <= 0:
        return []
    shares = [(reason, 100.0 * count / whole) for reason, count in totals.items() if count > 0]
    return sorted(shares, key=lambda item: -item[1])
