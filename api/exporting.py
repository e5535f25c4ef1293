"""Pages of the dashboard as one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.api.reports import ReportPath, as_paths
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs import find_runs, require_paths, without_report
from ncubble.store import draft_of, require_target
from ncubble.text.values import expression, some

if TYPE_CHECKING:
    from ncubble.dashboard.data.store import ReportStore
    from ncubble.dashboard.pages.addresses import CompareAddress

PAGES = (".html", ".htm")
POLL_S = 0.1
Row = Mapping[str, Any]
"""A row of the table of launches."""


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """What ``ncubble.export`` wrote: the ``file`` and its size in ``bytes``, the ids of the
    ``launches`` in it, and how many of those chosen it leaves out. ``errors``: reports that could
    not be read."""

    file: str
    bytes: int
    launches: Sequence[str]
    left_out: int
    errors: Sequence[str]


def export(
    paths: ReportPath | Sequence[ReportPath],
    out: ReportPath,
    *,
    launches: Sequence[int] = (),
    kernel: str = "",
    compare: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ExportedFile:
    """Write pages of launches into one HTML file that needs no server.

    ``launches`` and ``kernel`` (a regular expression) choose among the launches of ``paths``;
    ``compare`` writes their comparison with the first path. ``force`` replaces a file.
    ``progress(done, total)`` is called as reports are read, then as pages are made.

    Raises UsageError for a request that cannot be met, ReportError if no report can be read,
    MeasurementError if there is none, or if the file cannot be written.
    """
    from ncubble.analysis.program.record import is_program
    from ncubble.dashboard.export import page

    chosen, target = as_paths([paths]), Path(out)
    if compare and len(chosen) < 2:
        named = some(chosen) or "no path"
        raise UsageError(f"{named}: a comparison needs two sides", "name two paths or more: --compare A B")
    require_paths(chosen)
    if target.suffix.lower() not in PAGES:
        what = target.suffix or "no file extension"
        raise UsageError(f"{target}: cannot be written as {what}", "a page ends in .html")
    require_target(target, force, "-o")
    step = progress or (lambda done, total: None)
    store, errors = _read(chosen, step)
    rows = chosen_rows(store.rows(), launches, kernel)
    if compare:
        made = page.comparisons_file(store, comparisons(store, rows, chosen), errors, step)
    else:
        programs = [path for path in chosen if path.is_dir() and is_program(path)]
        made = page.launches_file(store, rows, errors, step, programs)
    content = made.text.encode("utf-8", "backslashreplace")
    try:
        with draft_of(target, shared=True) as draft:
            draft.write_bytes(content)
    except PermissionError as error:
        raise UsageError(f"{target.parent}: {error.strerror}", "choose another place for the file") from error
    except OSError as error:
        raise MeasurementError(f"{target}: {error.strerror}", "free disk space, or choose another place") from error
    return ExportedFile(
        file=str(target), bytes=len(content), launches=made.launches, left_out=made.left_out, errors=errors
    )


def chosen_rows(rows: Sequence[Row], launches: Sequence[int] = (), kernel: str = "") -> list[Row]:
    """The rows of these launch numbers (none: all) whose kernel matches, in the order given. Raises
    UsageError where nothing is left of what was there."""
    wanted = expression(kernel, f"--kernel {kernel!r}")
    numbered = [row for row in rows if not launches or row["launch"] in launches]
    if rows and not numbered:
        there = sorted({row["launch"] for row in rows})
        raise UsageError(f"no launch {', '.join(map(str, launches))}", f"launches: {some(there, 12)}")
    matching = [row for row in numbered if wanted.search(row["demangled"]) or wanted.search(row["kernel"])]
    if numbered and not matching:
        names = list(dict.fromkeys(row["kernel"] for row in numbered))
        raise UsageError(f"no kernel matches {kernel!r}", f"available: {some(names, 12)}")
    return matching


def comparisons(store: ReportStore, rows: Sequence[Row], paths: Sequence[Path]) -> list[tuple[str, CompareAddress]]:
    """Launches that belong together across ``paths``, as (title, query of the Compare page); A is
    of the first path. Matched as ``ncubble.compare`` does.

    Raises UsageError where there are more paths than a comparison has sides, where a path has no
    launch of its own (a run that lies below two of the paths belongs to the first), or where no
    kernel is on two sides.
    """
    from ncubble.analysis.compare.compare import compared_launch, groups, match
    from ncubble.dashboard.export.page import entry_of
    from ncubble.dashboard.pages.addresses import MOST_SIDES, CompareAddress

    if len(paths) > MOST_SIDES:
        raise UsageError(f"{len(paths)} sides, but a comparison takes at most {MOST_SIDES}", "name fewer paths")
    sides, taken = [], set[str]()
    for path in paths:
        own = {str(run) for run in find_runs([path])}
        mine = sorted((row for row in rows if row["path"] in own - taken), key=lambda row: (row["path"], row["launch"]))
        if not mine:
            why = "it is already on another side" if own & taken else "no launch to compare"
            why = next((twin.error for twin in store.duplicates() if twin.where in own), why)
            remedy = "name reports with different content, or choose with --launch and --kernel"
            raise UsageError(f"{path}: {why}", remedy)
        entries = (entry_of(store, row) for row in mine)
        sides.append(groups(compared_launch(entry.launch, entry.verdict) for entry in entries))
        taken |= own
    matched, _ = match(sides)
    if not matched:
        raise UsageError("nothing to compare: no kernel is on more than one side", "look at ncubble report A B")
    known = [[group for group in partners if group is not None] for partners in matched]
    return [
        (groups[0].title, CompareAddress(tuple(f"{one.first.key[:16]}/{one.first.launch}" for one in groups)))
        for groups in known
    ]


def _read(paths: Sequence[Path], step: Callable[[int, int], None]) -> tuple[ReportStore, list[str]]:
    """The store of all reports, and those that could not be read, in words."""
    from ncubble.dashboard.data.store import ReportStore

    store = ReportStore(list(paths)).start()
    while not store.wait(POLL_S):
        step(store.progress().done, store.progress().total)
    failures = store.failures()
    if not store.rows() and failures:
        raise ReportError(f"{failures[0].where}: {failures[0].error}", failures[0].remedy)
    if not store.rows():
        error = without_report(paths)
        raise MeasurementError(error.message, error.remedy)
    remedies = [f"\n  remedy: {lost.remedy}" if lost.remedy else "" for lost in failures]
    return store, [f"{lost.where}: {lost.error}{more}" for lost, more in zip(failures, remedies, strict=True)]
