"""The places in the source that carry most of some weight: lines, or instructions where there are
no lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

Weights = pd.Series | np.ndarray


def hottest(source: pd.DataFrame, weights: Weights, most: int) -> list[dict[str, Any]]:
    """Up to ``most`` places with a share of ``weights`` (one number per row of ``source``), largest
    share first.

    Each has ``file`` and ``line`` (None where the report has no line information), the ``sass`` of
    its heaviest instruction, and its ``share`` of all weight, 0 to 1.
    """
    weight = np.asarray(weights, dtype=float)
    total = weight.sum()
    if not total > 0:
        return []
    place = _places(source)
    sums = np.bincount(place, weight)
    heaviest = np.zeros(len(sums), dtype=int)
    ascending = np.argsort(weight, kind="stable")
    heaviest[place[ascending]] = ascending  # of several rows of a place, the last one written stays
    top = [number for number in np.argsort(-sums, kind="stable")[:most] if sums[number] > 0]
    return [_described(source.iloc[heaviest[number]], sums[number] / total) for number in top]


def _places(source: pd.DataFrame) -> np.ndarray:
    """A number for each row: the same for all instructions of one line."""
    if not (source["line"] > 0).any():
        return np.arange(len(source))
    files, _ = pd.factorize(source["file"])
    keys = files * (int(source["line"].max()) + 1) + source["line"].to_numpy()
    return np.asarray(pd.factorize(keys)[0])


def _described(row: pd.Series, share: float) -> dict[str, Any]:
    return {"file": row["file"] or None, "line": int(row["line"]) or None, "sass": row["sass"], "share": float(share)}
