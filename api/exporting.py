"""Pages of the dashboard as one file, and figures as pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.api.reports import ReportPath, as_paths
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs import find_runs, require_paths, without_report
from ncubble.store import draft_of, require_target
from ncubble.text.remedies import known_names
from ncubble.text.values import expression, some

if TYPE_CHECKING:
    from ncubble.dashboard.data.store import ReportStore
    from ncubble.dashboard.export.static_html import StaticFigure
    from ncubble.dashboard.pages.addresses import CompareAddress

PAGES, PICTURES = (".html", ".htm"), (".png", ".svg", ".pdf")
THEMES = ("system", "light", "dark")
LIST = "list"
"""The figure that stands for the names of all."""
POLL_S = 0.1
Row = Mapping[str, Any]
"""A row of the table of launches."""


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """What ``ncubble.export`` wrote: the ``file`` and its size in ``bytes``, the ids of the
    ``launches`` in it, and how many of those chosen it leaves out. ``figures``: names of figures,
    with what each shows, where they were asked for. ``errors``: reports that could not be read."""

    file: str | None = None
    bytes: int = 0
    launches: Sequence[str] = ()
    left_out: int = 0
    figures: dict[str, str] = field(default_factory=dict)
    errors: Sequence[str] = ()


def export(
    paths: ReportPath | Sequence[ReportPath],
    out: ReportPath | None = None,
    *,
    launches: Sequence[int] = (),
    kernel: str = "",
    compare: bool = False,
    figure: str = "",
    theme: str = "system",
    width: int = 1100,
    height: int | None = None,
    scale: float = 2.0,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ExportedFile:
    """Write pages of launches into one HTML file that needs no server, or a figure as a picture.

    ``launches`` and ``kernel`` (a regular expression) choose among the launches of ``paths``;
    ``compare`` writes their comparison with the first path. ``figure`` names the one to write as
    .png, .svg or .pdf, with ``width`` and ``height`` in CSS pixels and ``scale`` pixels of a PNG
    for each; ``"list"`` writes nothing and returns the names. ``force`` replaces a file.
    ``progress(done, total)`` is called as reports are read, then as pages are made.

    Raises UsageError for a request that cannot be met, ReportError if no report can be read,
    MeasurementError if there is none, if the file cannot be written, or if pictures need what this
    machine lacks.
    """
    chosen, target = as_paths([paths]), None if out is None else Path(out)
    _refuse(chosen, target, theme, figure, compare, force)
    step = progress or (lambda done, total: None)
    store, errors = _read(chosen, step)
    rows = chosen_rows(store.rows(), launches, kernel)
    compared = comparisons(store, rows, chosen) if compare else []
    if figure:
        title, drawn, ids = _figures(store, rows, compared)
        if figure == LIST or target is None:
            return ExportedFile(launches=ids, figures={one.name: one.label for one in drawn}, errors=errors)
        content = _picture(title, drawn, figure, target.suffix.lower().lstrip("."), (width, height, scale, theme))
        left_out = 0
    else:
        from ncubble.analysis.program.record import is_program
        from ncubble.dashboard.export import page

        if compare:
            made = page.comparisons_file(store, compared, theme, errors, step)
        else:
            programs = [path for path in chosen if path.is_dir() and is_program(path)]
            made = page.launches_file(store, rows, theme, errors, step, programs)
        content, ids, left_out = made.text.encode("utf-8", "backslashreplace"), made.launches, made.left_out
    assert target is not None  # noqa: S101 - only a list of figures needs none
    try:
        with draft_of(target, shared=True) as draft:
            draft.write_bytes(content)
    except PermissionError as error:
        raise UsageError(f"{target.parent}: {error.strerror}", "choose another place for the file") from error
    except OSError as error:
        raise MeasurementError(f"{target}: {error.strerror}", "free disk space, or choose another place") from error
    return ExportedFile(file=str(target), bytes=len(content), launches=ids, left_out=left_out, errors=errors)


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


def _refuse(paths: Sequence[Path], out: Path | None, theme: str, figure: str, compare: bool, force: bool) -> None:
    """Raises UsageError for an invalid request, before any report is read."""
    if theme not in THEMES:
        raise UsageError(f"theme {theme!r}: unknown theme", f"choose one of {', '.join(THEMES)}")
    if compare and len(paths) < 2:
        raise UsageError(f"{paths[0]}: a comparison needs two sides", "name two paths or more: --compare A B")
    require_paths(paths)
    if out is None:
        if figure != LIST:
            raise UsageError("no output file", "name a file: --out out.html")
        return
    if out.suffix.lower() not in (PICTURES if figure else PAGES):
        what = out.suffix or "no file extension"
        of_page = "a page ends in .html; a picture needs --figure"
        remedy = f"a figure needs an ending of {', '.join(PICTURES)}" if figure else of_page
        raise UsageError(f"{out}: cannot be written as {what}", remedy)
    require_target(out, force, "-o")


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


def _figures(
    store: ReportStore, rows: Sequence[Row], compared: Sequence[tuple[str, CompareAddress]]
) -> tuple[str, list[StaticFigure], Sequence[str]]:
    """Title and figures of the page to export as a picture, and its launches."""
    from ncubble.dashboard.export.page import comparison_figures, entry_of, page_figures, title_of

    if len(compared) > 1:
        raise UsageError(f"{len(compared)} comparisons, and a picture shows one", "choose with --kernel or --launch")
    if compared:
        title, asked = compared[0]
        return f"{title}, compared", comparison_figures(store, asked), asked.launches
    if len(rows) > 1:
        raise UsageError(f"{len(rows)} launches, and a picture shows one", "choose with --launch or --kernel")
    return title_of(rows[0]), page_figures(store, entry_of(store, rows[0])), [str(rows[0]["id"])]


def _picture(
    title: str, drawn: Sequence[StaticFigure], name: str, kind: str, size: tuple[int, int | None, float, str]
) -> bytes:
    from ncubble.dashboard.export.pictures import Look, image

    known = {figure.name: figure for figure in drawn}
    if name not in known:
        none = "the data for its figures were not collected"
        raise UsageError(f"no figure {name!r}", known_names(name, known, "figures") if known else none)
    width, height, scale, theme = size
    look = Look(width, height, scale, "dark" if theme == "dark" else "light")
    return image(known[name].figure, f"{title} · {name}", kind, look)
