"""Many launches as columns: what groups of them sum to, in milliseconds for 100,000.

``groups`` does the same for verdicts of one report, without numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class LaunchColumns:
    """One element per launch, NaN where not collected: ``time_ns``, ``lost_ns`` (recoverable idle
    time) and ``busy_pct`` of the counted unit; ``tensor`` where that is the tensor pipe; ``kernel``
    is a code into ``kernels``.

    Accounts lie one behind the other: ``part`` (a code into ``parts``) has ``pct`` in launch
    ``of``.
    """

    time_ns: Floats
    lost_ns: Floats
    busy_pct: Floats
    tensor: NDArray[np.bool_]
    kernels: list[str]
    kernel: Codes
    parts: list[str]
    part: Codes
    pct: Floats
    of: Codes
    totals: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> LaunchColumns:
        """Of rows with ``name``, ``duration_ns``, ``recoverable_ns``, ``busy``, ``unit``,
        ``account`` (pairs of part and percent) and ``measured``, which stands in its place."""
        accounts = [row.get("measured") or row.get("account") or () for row in rows]
        kernel, kernels = coded([row["name"] for row in rows])
        part, parts = coded([name for account in accounts for name, _ in account])
        lengths = [len(account) for account in accounts]
        return cls(
            numbers([row.get("duration_ns") for row in rows]),
            numbers([row.get("recoverable_ns") for row in rows]),
            numbers([row.get("busy") for row in rows]),
            np.array([row.get("unit") == "tensor" for row in rows], bool),
            kernels,
            kernel,
            parts,
            part,
            numbers([pct for account in accounts for _, pct in account]),
            np.repeat(np.arange(len(rows)), lengths),
        )

    def __len__(self) -> int:
        return len(self.time_ns)


def coded(values: Sequence[Any]) -> tuple[Codes, list[Any]]:
    """A code for each value, and the distinct values in the order of their codes."""
    known: dict[Any, int] = {}
    codes = np.fromiter((known.setdefault(value, len(known)) for value in values), np.int64, len(values))
    return codes, list(known)


def numbers(values: Sequence[Any]) -> Floats:
    """Values as floats, NaN for what is none."""
    return np.fromiter((float(one) if one is not None else np.nan for one in values), np.float64, len(values))


def sums(values: Floats, codes: Codes, count: int) -> Floats:
    """What the known ``values`` of each of ``count`` groups sum to; NaN where none is known."""
    known = ~np.isnan(values)
    total = np.bincount(codes[known], values[known], count).astype(np.float64)  # whole numbers where none is given
    total[np.bincount(codes[known], minlength=count) == 0] = np.nan
    return total


def means(values: Floats, time_ns: Floats, codes: Codes, count: int) -> Floats:
    """Means of the known ``values`` of each group, weighted by time, or unweighted where no time is
    known; NaN where no value is."""
    known = ~np.isnan(values)
    time = np.where(np.isnan(time_ns), 0.0, time_ns)[known]
    codes, values = codes[known], values[known]
    weight = np.bincount(codes, time, count)
    flat = np.bincount(codes, minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.bincount(codes, values * time, count) / weight
        plain = np.bincount(codes, values, count) / flat
    return np.where(weight > 0.0, weighted, plain)


def share_pct(time_ns: float | None, total_ns: float) -> float | None:
    """Percent of the whole time; None where either is not known."""
    return round(100.0 * time_ns / total_ns, 4) if time_ns is not None and total_ns > 0.0 else None
