"""Means over launches of which those of a family are alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

DRAWS, SEED = 2000, 19
Row = dict[str, Any]


def interval(rows: Sequence[Row], of: Callable[[Row], list[float]]) -> tuple[float | None, list[float] | None]:
    """The mean of all values ``of`` the rows, and where 95 % of the means lie that families drawn
    anew give; no interval for fewer than five families."""
    families: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        families[row["family"]] += of(row)
    values = [np.array(members) for members in families.values() if members]
    if not values:
        return None, None
    mean = float(np.concatenate(values).mean())
    if len(values) < 5:
        return mean, None
    sums, counts = np.array([members.sum() for members in values]), np.array([len(members) for members in values])
    drawn = np.random.default_rng(SEED).integers(len(values), size=(DRAWS, len(values)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return mean, [float(bound) for bound in np.percentile(means, (2.5, 97.5))]
