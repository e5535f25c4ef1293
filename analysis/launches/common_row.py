"""Rows of launches as one row: what is summed, what is averaged by time, and whose cause it has.

Rows are those of the dashboard's table; the rules are those of ``diagnosis.groups``, which
``ncubble report`` follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncubble.analysis.account.parts import display_order, part_label
from ncubble.analysis.diagnosis.groups import UNJUDGED, main_cause
from ncubble.analysis.diagnosis.words import biggest_bubble
from ncubble.analysis.launches.columns import MEANS, SUMS, Codes, Floats, LaunchColumns, mean_of_columns
from ncubble.analysis.launches.table import LaunchRows
from ncubble.text.values import number

Row = Mapping[str, Any]
TYPICAL = ("cause", "cause_key", "disease", "at")
"""Columns taken from the typical launch: the longest one with the main cause."""


def common_row(rows: Sequence[Row], kinds: Sequence[Row], columns: LaunchColumns, places: Codes) -> dict[str, Any]:
    """``rows``, at least two, as one; they are those of ``columns`` at ``places``, and ``kinds``
    those of ``kinds_of``. With ``count``, and ``judged``, the launches whose cause is known.

    ``several`` names the fields whose values differ and are neither summed nor averaged: they are
    None. ``cause_pct`` is the mean of the launches with that cause.
    """
    packed = LaunchRows.of(rows)
    values, time = columns.values[places], columns.of(SUMS[0])[places]
    totals = [*_sums(values[:, : len(SUMS)]), *mean_of_columns(values[:, len(SUMS) :], time)]
    account = _account(columns, places, time)
    alike, judged = _main(columns, places, time)
    typical = rows[int(alike[np.nan_to_num(time[alike]).argmax()])]
    cost = mean_of_columns(columns.cause_pct[places[alike], None], time[alike])[0]
    bubble = biggest_bubble(account)
    shares = [(name, round(account[name], 4)) for name in display_order(account)]
    known: dict[str, Any] = {name: _rounded(value) for name, value in zip((*SUMS, *MEANS), totals, strict=True)}
    known |= {name: typical.get(name) for name in TYPICAL}
    known |= {
        "cause_pct": _rounded(cost),
        "account": shares,
        "measured": shares if all(packed.distinct("measured")) else None,
        "bubble": part_label(bubble[0]) if bubble else None,
        "bubble_key": bubble[0] if bubble else None,
        "bubble_pct": _rounded(bubble[1]) if bubble else None,
        "count": len(rows),
        "judged": judged,
        "parameters": _shared([row.get("parameters") or {} for row in kinds]),
        "dims": _shared([row.get("dims") or {} for row in kinds]),
    }
    first = rows[0]
    beside = [name for name in first if name not in known and name != "id"]
    several = [name for name in beside if packed.differs(name)]
    return {**{name: None if name in several else first[name] for name in beside}, **known, "several": several}


def kinds_of(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """One of the rows of each parameters and problem, and how many runs there are."""
    packed = LaunchRows.of(rows)
    _, first = packed.combined(("label", "shape"))
    return list(packed.at(first)), len(packed.distinct("path"))


def _sums(values: Floats) -> list[float]:
    """Of each column what is known; NaN where nothing is."""
    known = np.where(np.isnan(values).all(axis=0), np.nan, np.nansum(values, axis=0))
    return [float(total) for total in known]


def _account(columns: LaunchColumns, places: Codes, time: Floats) -> dict[str, float]:
    """The mean account, without the parts that no launch has."""
    means = mean_of_columns(columns.accounts[places], time)
    return {part: float(pct) for part, pct in zip(columns.parts, means, strict=True) if pct > 0.0}


def _main(columns: LaunchColumns, places: Codes, time: Floats) -> tuple[Codes, int]:
    """Which of ``places`` have the main cause, and how many have any."""
    causes = columns.cause[places]
    there, codes = np.unique(causes, return_inverse=True)
    spent = np.bincount(codes, np.nan_to_num(time), len(there))
    names = [columns.causes[cause] for cause in there]
    chosen = names.index(main_cause(names, spent.tolist()))
    unjudged = sum(int((codes == place).sum()) for place, name in enumerate(names) if name == UNJUDGED)
    return np.flatnonzero(codes == chosen), len(places) - unjudged


def _shared(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all have, with the same value."""
    first = given[0]
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in given)}


def _rounded(value: float) -> float | None:
    known = number(value)
    return None if known is None else round(known, 4)
