"""What each part of the account of one ablated kernel truly costs, in points of its kernel time.

A variant is a kernel built without some parts (``ablation``), measured as often as the whole one.
Parts that overlap in the main loop share what vanishes with them by the Shapley value, where every
set of them was measured. A ``wgmma`` loop is never without its barrier alone, so that its parts are
taken away in the order of ``LOOP`` only. Parts that were only removed together are one part here.
The epilogue overlaps with the loop, too, but was only removed first and last: its truth is the mean
of both. The tail is told by a shape whose grid is whole waves. What is neither busy nor vanishes
with any variant is ``rest``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from ncubble.analysis.validation.shapley import shapley
from ncubble.errors import ReportError

LOOP = ("wait", "copy", "sync", "smem")
EPILOGUE, NONE, ALL, TAIL, REST = "epilogue", "none", "all", "tail", "rest"
PART_OF = {"wait": "data_wait", "copy": "copy_cost", "sync": "sync_wait", "smem": "smem_wait", "epilogue": "epilogue"}
"""Parts that variants leave out, and the part of the account that each is the truth of."""
JOINED = "+"
"""Between parts that are only known together: ``data_wait+copy_cost`` where plain loads leave no
wait to remove."""
MEASURE = "measure it anew with --measure"

Gone = dict[frozenset[str], float]


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


def removed(word: str) -> frozenset[str]:
    """The parts that a variant leaves out, as ``kernels/catalog/ablation.py`` has it: without
    copies nothing waits."""
    parts = set(PART_OF) if word == ALL else set(word.split("_")) - {NONE}
    return frozenset(parts | {"wait"} if "copy" in parts else parts)


def truth(variants: Mapping[str, Mapping[str, Any]], busy_pct: float) -> Truth:
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
        parts = _parts(gone, alone.get(TAIL), busy_pct)
    except ReportError as error:
        left_out = "".join(f"; {word} {why}" for word, why in excluded.items())
        raise ReportError(error.message + left_out, error.remedy) from error
    return Truth(base, spread, parts, alone, overlaps(alone), excluded)


def _unusable(cell: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """Why a variant cannot be held against the whole kernel; "" where it can."""
    if not cell["cycles"] or not all(value > 0 for value in cell["cycles"]):
        return "no cycles were measured"
    if cell["products"] is None or whole["products"] is None:
        return "its products were not counted"
    if not math.isclose(cell["products"], whole["products"] * cell["work"], rel_tol=1e-6):
        return f"did {cell['products']:.0f} products, not {whole['products'] * cell['work']:.0f}"
    return ""


def _parts(gone: Gone, tail: float | None, busy_pct: float) -> dict[str, float]:
    everything = frozenset().union(*gone)
    loop = everything - {EPILOGUE}
    parts = _loop_parts({parts: pct for parts, pct in gone.items() if parts <= loop})
    if EPILOGUE in everything:
        parts[EPILOGUE] = (_of(gone, frozenset({EPILOGUE})) + _of(gone, everything) - _of(gone, loop)) / 2
    if tail is not None:
        parts[TAIL] = tail
    return {**parts, REST: 100.0 - busy_pct - _of(gone, everything) - (tail or 0.0)}


def _of(gone: Gone, parts: frozenset[str]) -> float:
    if parts not in gone:
        raise ReportError(f"no usable variant without {' and '.join(sorted(parts))}", MEASURE)
    return gone[parts]


def _loop_parts(gone: Gone) -> dict[str, float]:
    """Shares of the parts of the main loop."""
    players = _players(gone)
    names = list(players)
    sets = {frozenset(name for name in names if players[name] <= parts): pct for parts, pct in gone.items()}
    shares = shapley(sets, names, [(PART_OF["wait"], PART_OF["copy"])])
    if shares is None:
        shares = shapley(sets, names, list(combinations(names, 2)))
    if shares is None:
        raise ReportError(f"too few usable variants to tell {', '.join(names)} apart", MEASURE)
    return shares


def _players(gone: Iterable[frozenset[str]]) -> dict[str, frozenset[str]]:
    """Parts by name in the account, those that were only ever removed together as one."""
    groups: dict[tuple[bool, ...], list[str]] = {}
    for part in LOOP:
        if any(member := tuple(part in parts for parts in gone)):
            groups.setdefault(member, []).append(part)
    return {JOINED.join(PART_OF[part] for part in group): frozenset(group) for group in groups.values()}


def overlaps(alone: Mapping[str, float]) -> dict[str, float]:
    """Per variant of two parts that were also removed alone: what vanishes with both less what
    vanishes with each."""
    pairs: dict[str, Sequence[str]] = {word: word.split("_") for word in alone if word.count("_") == 1}
    return {
        word: alone[word] - sum(alone[part] for part in parts)
        for word, parts in pairs.items()
        if all(part in alone for part in parts)
    }
