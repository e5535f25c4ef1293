"""Source lines ranked by what their instructions were measured to cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ncubble.analysis.ablation.result import MeasuredLine, MeasuredPart
from ncubble.analysis.account.parts import JOINED
from ncubble.analysis.account.shares import PART_OF
from ncubble.analysis.account.stalls import classify
from ncubble.text.values import string

if TYPE_CHECKING:
    import pandas as pd

MOST = 12
"""Maximum lines."""


def ranked(source: pd.DataFrame, unit: str, parts: Sequence[MeasuredPart]) -> list[MeasuredLine]:
    """The lines that cost most. The cost of a part is split by the stall samples that the account
    puts down to it."""
    weights = classify(source, unit)
    costs: defaultdict[tuple[str, int, str, str], float] = defaultdict(float)
    for part in parts:
        columns = [name for name in part.part.split(JOINED) if name in weights]
        samples = weights[columns].sum(axis=1)
        if part.measured <= 0 or samples.sum() <= 0:
            continue
        for row in samples.index[samples > 0]:
            costs[(*_place(source.loc[row].to_dict()), part.part)] += float(
                part.measured * samples[row] / samples.sum()
            )
    return list(_largest(costs))


def on_one_line(
    source: pd.DataFrame, rows: Mapping[str, Sequence[int]], parts: Sequence[MeasuredPart]
) -> list[MeasuredLine]:
    """The lines of parts all of whose instructions stand on one: without samples nothing splits the
    cost of the others. ``rows``: the instructions of each part that was taken away."""
    costs: dict[tuple[str, int, str, str], float] = {}
    for part in parts:
        own = [row for word, name in PART_OF.items() if name in part.names for row in rows.get(word, ())]
        places = {_place(source.loc[row].to_dict()) for row in own}
        if part.measured > 0 and len(places) == 1:
            costs[(*places.pop(), part.part)] = part.measured
    return list(_largest(costs))


def _place(cells: Mapping[object, object]) -> tuple[str, int, str]:
    """File, line and text of a row; rows of one line count together."""
    file, line = string(cells.get("file")), cells.get("line")
    if file and isinstance(line, (int, float)) and line == line and line > 0:
        return file, int(line), ""
    return "", 0, str(cells.get("sass"))


def _largest(costs: Mapping[tuple[str, int, str, str], float]) -> Iterator[MeasuredLine]:
    for (file, line, sass, part), pct in sorted(costs.items(), key=lambda item: -item[1])[:MOST]:
        yield MeasuredLine(file or None, line or None, sass, part, pct)
