"""Accounts over time: of what runs at each instant, percent by part. Pure functions over arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ncubble.analysis.account.parts import PARTS

UNKNOWN = "no account"
"""Counter name for kernels that are not matched, or whose report has no account."""
_STEP_PCT = 0.05
"""Smaller changes are not written."""


def shares(accounts: Sequence[Mapping[str, float] | None]) -> tuple[list[str], np.ndarray]:
    """The parts that occur in ``accounts``, in the order of ``PARTS``, and a row of percent for
    each account; None is ``UNKNOWN`` in full."""
    rows = [account or {UNKNOWN: 100.0} for account in accounts]
    occurring = {part for row in rows for part, pct in row.items() if pct > 0}
    parts = [part for part in (*PARTS, UNKNOWN) if part in occurring]
    table = np.array([[row.get(part, 0.0) for part in parts] for row in rows], float).reshape(len(rows), len(parts))
    return parts, table


def over_time(
    starts: np.ndarray, ends: np.ndarray, accounts: np.ndarray, table: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Times at which percentages change, and a row of percent by part from each on.

    ``accounts`` are rows of ``table``. Where several kernels run, each counts alike: the mean of
    their accounts. Rows sum to 100, or to 0 where nothing runs. What takes no time is left out.
    """
    lasting = ends > starts
    starts, ends, accounts = starts[lasting], ends[lasting], accounts[lasting]
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    signs = np.repeat([1.0, -1.0], len(starts))[order]
    running = np.cumsum(signs)
    last = np.append(np.diff(times[order]) > 0, True) if len(times) else np.zeros(0, bool)
    rows = np.empty((int(last.sum()), table.shape[1]))
    among = np.maximum(running[last], 1.0)
    for part in range(table.shape[1]):  # one part at a time: a long trace has millions of kernels
        rows[:, part] = np.cumsum(signs * np.tile(table[accounts, part], 2)[order])[last] / among
    rows[np.abs(rows) < 1e-6] = 0.0
    return _changes(times[order][last], rows)


def _changes(times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without rows that are as the one before."""
    if not len(times):
        return times, rows
    changed = np.append(True, (np.abs(np.diff(rows, axis=0)) >= _STEP_PCT).any(axis=1))
    return times[changed], rows[changed]
