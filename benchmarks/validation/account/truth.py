"""What each part of the account of one ablated kernel truly costs, in points of its kernel time.

A variant is a kernel built without some parts, measured as often as the whole one. Parts of the
main loop share what vanishes with them (``account.shares``). A ``wgmma`` loop is never without its
barrier alone. The tail is told by a shape whose grid is whole waves. What is neither busy nor
vanishes with any variant is ``rest``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from benchmarks.validation.page import Result
from ncubble.analysis.account.shares import MEASURE, NONE, TAIL, overlaps, removed, shared_out
from ncubble.errors import ReportError


@dataclass(frozen=True)
class Truth:
    """One case. All shares in percent of its elapsed cycles.

    ``parts``: by part of the account, or parts joined by ``JOINED``, and ``rest``; absent where no
    variant tells. ``alone``: what vanishes with each variant. ``overlaps``: what vanishes with two
    parts less what vanishes with each alone; below 0 the same time vanishes with either.
    ``excluded``: variants that count for nothing, and why.
    """

    cycles: float
    spread_pct: float
    parts: Mapping[str, float]
    alone: Mapping[str, float]
    overlaps: Mapping[str, float]
    excluded: Mapping[str, str]


def truth(variants: Mapping[str, Result], busy_pct: float) -> Truth:
    """The truth of one case from the measured ``variants`` (an object of ``cases`` in
    ``ablation.json``).

    ``busy_pct``: share of the whole kernel's cycles in which its unit was busy. Raises ReportError
    where variants are missing that the shares cannot do without.
    """
    whole = variants.get(NONE)
    if whole is None or not all(value > 0 for value in whole["cycles"] or [0.0]):
        raise ReportError("the whole kernel was not measured", MEASURE)
    base = fmean(whole["cycles"])
    excluded = {word: why for word, cell in variants.items() if (why := _unusable(cell, whole))}
    alone = {
        word: 100.0 * (1.0 - fmean(cell["cycles"]) / cell["work"] / base)
        for word, cell in variants.items()
        if word != NONE and word not in excluded
    }
    gone = {removed(word): pct for word, pct in alone.items() if word != TAIL}
    spread = 100.0 * (max(whole["cycles"]) - min(whole["cycles"])) / base
    try:
        parts = shared_out(gone, alone.get(TAIL), busy_pct)
    except ReportError as error:
        left_out = "".join(f"; {word} {why}" for word, why in excluded.items())
        raise ReportError(error.message + left_out, error.remedy) from error
    return Truth(base, spread, parts, alone, overlaps(alone), excluded)


def _unusable(cell: Result, whole: Result) -> str:
    """Why a variant cannot be held against the whole kernel; "" where it can."""
    if not cell["cycles"] or not all(value > 0 for value in cell["cycles"]):
        return "no cycles were measured"
    if cell["products"] is None or whole["products"] is None:
        return "its products were not counted"
    if not math.isclose(cell["products"], whole["products"] * cell["work"], rel_tol=1e-6):
        return f"executed {cell['products']:.0f} products, not {whole['products'] * cell['work']:.0f}"
    return ""
