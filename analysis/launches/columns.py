"""Many launches as columns: what groups of them sum to, in milliseconds for 100,000.

``diagnosis.groups`` does the same for verdicts of one report, without numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.analysis.launches.table import LaunchRows

MEASURED = " (measured)"
"""Suffix of a cause that was measured."""
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Row = Mapping[str, Any]
SUMS = ("duration_ns", "recoverable_ns", "cycles")
MEANS = ("busy", "tensor", "dram", "occupancy", "clock_ghz", "tflops", "dram_gbs")
"""Columns averaged by time: rates and shares of time."""


@dataclass(frozen=True)
class LaunchColumns:
    """One element per launch: ``kernel``, ``cause`` and ``tensor`` (whether the counted unit is the
    tensor pipe) as codes into ``kernels`` and ``causes`` and as bool. ``device``: a code for each
    GPU model, -1 where it is not known.

    ``values`` has a column for each of SUMS and MEANS, NaN where not collected; ``accounts`` one
    for each of ``parts``, NaN in all of them where a launch has no account; ``cause_pct`` is what
    the cause costs.
    """

    kernels: list[str]
    kernel: Codes
    device: Codes
    causes: list[str]
    cause: Codes
    cause_pct: Floats
    tensor: NDArray[np.bool_]
    values: Floats
    parts: list[str]
    accounts: Floats

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> LaunchColumns:
        """Of rows of the dashboard. What an ablation ``measured`` stands in place of the
        ``account``."""
        packed = LaunchRows.of(rows)
        kernel, kernels = packed.coded("name")
        models, names = packed.coded("device")
        known = coded([None, *names])[0]
        cause, causes = packed.coded("cause")
        plain, causes = coded([str(words).removesuffix(MEASURED) for words in causes])
        accounts, parts = _accounts(packed)
        values = np.array([packed.numbers(name) for name in (*SUMS, *MEANS)]).T
        units, tensor = packed.coded("unit")
        return cls(
            kernels,
            kernel,
            known[1:][models] - 1,
            causes,
            plain[cause],
            packed.numbers("cause_pct"),
            np.array([unit == "tensor" for unit in tensor], bool)[units],
            values,
            parts,
            accounts,
        )

    def __len__(self) -> int:
        return len(self.kernel)

    def of(self, name: str) -> Floats:
        """One of SUMS or MEANS."""
        return self.values[:, (*SUMS, *MEANS).index(name)]


def _accounts(rows: LaunchRows) -> tuple[Floats, list[str]]:
    """A row for each account, and the parts of its columns."""
    measured, first = rows.coded("measured")
    estimated, second = rows.coded("account")
    there = np.array([bool(account) for account in first], bool)[measured]
    given = [account or () for account in (*first, *second)]
    flat: list[Any] = list(chain.from_iterable(chain.from_iterable(given)))  # name, share, name, share …
    part, parts = coded(flat[::2])
    lengths = np.fromiter(map(len, given), np.int64, len(given))
    found = np.full((len(given), len(parts)), np.nan)
    found[lengths > 0] = 0.0
    found[np.repeat(np.arange(len(given)), lengths), part] = numbers(flat[1::2])
    return found[np.where(there, measured, len(first) + estimated)], parts


def coded(values: Sequence[Any]) -> tuple[Codes, list[Any]]:
    """A code for each value, and the distinct values in the order of their codes."""
    known = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return np.fromiter(map(known.__getitem__, values), np.int64, len(values)), list(known)


def numbers(values: Sequence[Any]) -> Floats:
    """Values as floats, NaN for what is none."""
    return np.array(values, np.float64)


def sums(values: Floats, codes: Codes, count: int) -> Floats:
    """What the known ``values`` of each of ``count`` groups sum to; NaN where none is known."""
    known = ~np.isnan(values)
    total = np.bincount(codes[known], values[known], count).astype(np.float64)  # whole numbers unless given
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


def mean_of_columns(values: Floats, time_ns: Floats) -> Floats:
    """The mean of each column of ``values`` (launches × columns) by the rule of ``means``."""
    known = ~np.isnan(values)
    weight = np.nan_to_num(time_ns)[:, None] * known
    weighted = (np.nan_to_num(values) * weight).sum(axis=0) / np.where(
        weight.sum(axis=0) > 0.0, weight.sum(axis=0), np.nan
    )
    plain = np.nan_to_num(values).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    mean: Floats = np.where(np.isnan(weighted), plain, weighted)
    return mean


def share_pct(time_ns: float | None, total_ns: float) -> float | None:
    """Percent of the whole time; None where either is not known."""
    return round(100.0 * time_ns / total_ns, 4) if time_ns is not None and total_ns > 0.0 else None
