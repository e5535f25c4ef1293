"""Which launches an exported file holds: chosen from the rows of a store, or matched across sides
of a comparison."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ncubble.analysis.compare.compare import Group, compared_launch, groups, match
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import MOST_SIDES, CompareAddress
from ncubble.dashboard.pages.page import launch_at
from ncubble.errors import UsageError
from ncubble.profiling.runs import find_runs

Row = Mapping[str, Any]


def chosen(rows: Sequence[Row], launches: Collection[int] = (), kernel: str = "") -> list[Row]:
    """The rows of these launch numbers (none: all) whose kernel matches ``kernel``, in the order
    given.

    Raises UsageError where ``kernel`` is no regular expression, or where nothing is left of what
    was there.
    """
    try:
        wanted = re.compile(kernel)
    except re.error as error:
        raise UsageError(
            f"--kernel {kernel!r} is not a regular expression: {error}", "escape special characters such as ( and *"
        ) from error
    numbered = [row for row in rows if not launches or row["launch"] in launches]
    if rows and not numbered:
        there = sorted({row["launch"] for row in rows})
        raise UsageError(f"no launch {', '.join(map(str, launches))}", f"launches: {_listed(there)}")
    matching = [row for row in numbered if wanted.search(row["demangled"]) or wanted.search(row["kernel"])]
    if numbered and not matching:
        names = list(dict.fromkeys(row["kernel"] for row in numbered))
        raise UsageError(f"no kernel matches {kernel!r}", f"available: {_listed(names)}")
    return matching


def _listed(values: Sequence[Any], most: int = 12) -> str:
    shown = ", ".join(str(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def entry_of(store: ReportStore, row: Row) -> Entry:
    """The launch of a row. Raises UsageError where it is gone meanwhile."""
    entry = launch_at(store, row["id"])
    if entry is None:
        raise UsageError(f"{row['path']}: it changed while it was read", "try again")
    return entry


def comparisons(store: ReportStore, rows: Sequence[Row], paths: Sequence[Path]) -> list[tuple[str, CompareAddress]]:
    """Launches that belong together across ``paths``, as (title, query of the Compare page); A is
    of the first path.

    Matched as ``ncubble compare`` does. Raises UsageError where there are more paths than a
    comparison has sides, where a path has no launch, or where no kernel is on two sides.
    """
    if len(paths) > MOST_SIDES:
        raise UsageError(
            f"{len(paths)} sides, but a comparison takes at most {MOST_SIDES}", f"name at most {MOST_SIDES} paths"
        )
    sides = [_side(store, rows, path, paths[:place]) for place, path in enumerate(paths)]
    matched, _ = match(sides)
    if not matched:
        raise UsageError("nothing to compare: no kernel is on more than one side", "look at ncubble report A B")
    known = [[group for group in partners if group is not None] for partners in matched]
    return [(groups[0].title, CompareAddress(tuple(map(_address, groups)))) for groups in known]


def _side(store: ReportStore, rows: Sequence[Row], path: Path, before: Sequence[Path]) -> list[Group]:
    """The launches of one side, in order; a run that lies below two of the paths belongs to the
    first."""
    taken = {str(run) for run in find_runs(before)}
    own = {str(run) for run in find_runs([path])}
    mine = sorted((row for row in rows if row["path"] in own - taken), key=lambda row: (row["path"], row["launch"]))
    if not mine:
        why = "it is already on another side" if own & taken else "no launch to compare"
        why = next((twin.error for twin in store.duplicates() if twin.where in own), why)
        raise UsageError(f"{path}: {why}", "name reports with different content, or choose with --launch and --kernel")
    entries = (entry_of(store, row) for row in mine)
    return groups(compared_launch(entry.launch, entry.verdict) for entry in entries)


def _address(group: Group) -> str:
    return f"{group.first.key[:16]}/{group.first.launch}"
