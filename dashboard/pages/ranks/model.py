"""What the Ranks page shows: the rows of the store, matched over ranks
(``analysis.compare.ranks``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.compare.ranks import ByRank, RankLaunch, by_rank
from ncubble.dashboard.data.index import signature_of
from ncubble.dashboard.data.store import ReportStore
from ncubble.errors import NcubbleError
from ncubble.profiling.runs.ranks import Rank, numbered, rank_of
from ncubble.profiling.runs.run import Run

_last: tuple[list[dict[str, Any]], ByRank] = ([], ByRank())
"""Rows of a store, which makes a new list of them when they change, and what was matched of
them."""


def matched(store: ReportStore) -> ByRank:
    """The programs of all ranks that the store knows."""
    global _last
    known, found = _last
    if known is not (rows := store.rows()):
        found = match(rows)
        _last = rows, found
    return found


def match(unsorted: Sequence[dict[str, Any]]) -> ByRank:
    """Match the launches of rows of a store."""
    rows = sorted(unsorted, key=lambda row: (row["path"], row["launch"]))
    ranks = ranks_of(sorted({Path(row["path"]) for row in rows}))
    return by_rank(
        [RankLaunch(rank, verdict_of(row), row["grid"] or "", row["block"] or "") for row, rank in _with(rows, ranks)]
    )


def _with(rows: Sequence[dict[str, Any]], ranks: Mapping[Path, Rank]) -> list[tuple[dict[str, Any], Rank]]:
    return [(row, rank) for row in rows if (rank := ranks.get(Path(row["path"]))) is not None]


def ranks_of(paths: Sequence[Path]) -> dict[Path, Rank]:
    """The rank of each path that one is told of."""
    told = {path: rank for path in paths if (rank := _rank_at(path, signature_of(path))) is not None}
    return {**numbered([path for path in paths if path not in told]), **told}


@lru_cache(maxsize=65_536)
def _rank_at(path: Path, signature: tuple[int, ...]) -> Rank | None:
    try:
        return rank_of(Run.load(path))
    except NcubbleError:  # an upload that was named, or a run that vanished
        return None


def verdict_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of a row of the store is matched; a part that a row leaves out is 0 where there is an
    account."""
    account = dict(row["account"])
    return {
        "report": row["path"],
        "launch": row["launch"],
        "id": row["id"],
        "kernel": row["kernel"],
        "label": f"{row['name']} {row['label']}".strip(),
        "duration_ns": row["duration_ns"],
        "tensor_elapsed_pct": row["tensor"],
        "dram_pct": row["dram"],
        "account": {part: account.get(part, 0.0) for part in PARTS} if account else None,
    }
