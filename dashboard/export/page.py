"""One file that holds pages of the dashboard, made as the app makes them: styles, script and data
inside, nothing to load.

A policy in the file allows the scripts that were put there, by their hashes, and nothing else: were
a name in a report to reach the page as markup after all, it could neither run nor fetch anything.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any

from dash import html

from ncubble import __version__
from ncubble.analysis.traces.lanes import run_id
from ncubble.dashboard.app.serving import script_hash
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.export.static_html import Context, Late, data, render
from ncubble.dashboard.pages.addresses import CompareAddress, KernelAddress, ProgramAddress
from ncubble.dashboard.pages.compare import layout as compare
from ncubble.dashboard.pages.kernel import layout as kernel
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.pages.page import launch_at
from ncubble.dashboard.pages.program import layout as program
from ncubble.dashboard.ui.components import note, table
from ncubble.dashboard.ui.figures import TEMPLATES
from ncubble.dashboard.ui.plotly_js import plotly_js
from ncubble.errors import UsageError
from ncubble.text import values
from ncubble.text.markup import escape as in_markdown

HERE = Path(__file__).resolve().parents[1]
MOST_PAGES = 24
"""Maximum pages in a file. Each adds 15 to 550 kB; larger files open slowly, and the app is the
better choice."""
MOST_WHOLE = 4
"""Up to this many pages, each holds its thousands of metrics; with more, export one file per launch
to get them."""
LARGE = {
    "kernel-metrics": (
        f"Omitted from files with more than {MOST_WHOLE} launches. To include it, export this launch alone with"
    )
}
COLUMNS = ("Kernel", "Parameters", "Duration", "Recoverable, at most", "Busy", "DRAM", "Cause", "GPU")
NUMERIC = ("Duration", "Recoverable, at most", "Busy", "DRAM", "Sides")
NAMED = 2
"""Trailing path components that name a run."""
Row = Mapping[str, Any]
Step = Callable[[int, int], None]
Anchors = Mapping[str, str]
"""Ids in the file by addresses of the dashboard."""


@dataclass(frozen=True)
class File:
    """An exported file: its text, the addresses of the launches in it, and how many of those chosen
    it leaves out."""

    text: str
    launches: tuple[str, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Page:
    """A page in the file: ``anchor`` is its id, ``name`` what its pictures are called after,
    ``make`` gives its tree and what its rendering knows. ``cells`` are those of its line in the
    table in front; without any, it has none."""

    anchor: str
    name: str
    make: Callable[[], tuple[Any, Context]]
    cells: tuple[str, ...] = ()


def _silent(done: int, total: int) -> None:
    """Nobody is told."""


def launches_file(
    store: ReportStore,
    rows: Sequence[Row],
    problems: Sequence[str] = (),
    step: Step = _silent,
    programs: Sequence[Path] = (),
) -> File:
    """The pages of these launches; several get a table in front that links them. ``step`` hears how
    far it has come. ``programs``: recorded ones, whose pages come first and link their kernels."""
    shown = rows[:MOST_PAGES]
    anchors = {KernelAddress().of_launch(row["id"]): f"launch-{row['id'].replace('/', '-')}" for row in shown}
    pages = [
        Page(f"program-{run_id(run)}", f"Program {run.name}", partial(_program, store, run, anchors))
        for run in programs
    ]
    pages += [
        Page(anchor, title_of(row), partial(_kernel, store, row, anchors), _cells(row))
        for row, anchor in zip(shown, anchors.values(), strict=True)
    ]
    left = len(rows) - len(shown)
    text = _file(store, "launches", COLUMNS, pages, left, problems, step)
    return File(text, tuple(str(row["id"]) for row in shown), left)


def comparisons_file(
    store: ReportStore,
    comparisons: Sequence[tuple[str, CompareAddress]],
    problems: Sequence[str] = (),
    step: Step = _silent,
) -> File:
    """The Compare pages of these launches; several get a list in front that links them. ``step`` as
    above."""
    shown = comparisons[:MOST_PAGES]
    pages = [
        Page(
            f"comparison-{number}",
            name,
            lambda address=address: (compare.layout(store, address), Context()),  # type: ignore[misc]
            (name, str(len(address.launches))),
        )
        for number, (name, address) in enumerate(shown)
    ]
    left = len(comparisons) - len(shown)
    text = _file(store, "comparisons", ("Kernel", "Sides"), pages, left, problems, step)
    return File(text, tuple(dict.fromkeys(launch for _, address in shown for launch in address.launches)), left)


def late_sections(store: ReportStore, entry: Entry, whole: bool = True) -> Late:
    """What callbacks would fill in on a kernel page, by the id of the place: ``PANELS``. Each
    made once. Without ``whole``, a note stands in the place of what is large."""
    view = LaunchView(store, entry)
    sections: dict[str, Callable[[], Any]] = {
        place: cache(partial(kernel.panel, view, place)) for place in kernel.PANELS
    }
    if not whole:
        sections |= {name: partial(note, "empty", text, f"--launch {entry.number}") for name, text in LARGE.items()}
    return sections


def entry_of(store: ReportStore, row: Row) -> Entry:
    """The launch of a row. Raises UsageError where it is gone meanwhile."""
    entry = launch_at(store, row["id"])
    if entry is None:
        raise UsageError(f"{row['path']}: it changed while it was read", "try again")
    return entry


def title_of(row: Row) -> str:
    """What a launch is called in titles: its kernel, and the parameters of its run."""
    return f"{values.short_name(str(row['name']), 60)} {row['label']}".strip()


def renamer(paths: Iterable[str]) -> Callable[[str], str]:
    """What puts the last parts of each of ``paths`` in place of the whole of it, wherever that
    stands in a text of HTML, also as Markdown for copying: exported files go to others and must not
    show this machine's folders."""
    names = {path: "/".join(Path(path).parts[-NAMED:]) for path in paths if len(Path(path).parts) > NAMED}
    names |= {in_markdown(path): in_markdown(name) for path, name in names.items()}
    names |= {escape(path): escape(name) for path, name in names.items()}
    if not names:
        return str
    # Longest first: one run may be inside another.
    known = re.compile("|".join(re.escape(path) for path in sorted(names, key=len, reverse=True)))
    return lambda text: known.sub(lambda match: names[match[0]], text)


def _kernel(store: ReportStore, row: Row, anchors: Anchors) -> tuple[Any, Context]:
    entry = entry_of(store, row)
    parts = late_sections(store, entry, len(anchors) <= MOST_WHOLE)
    return kernel.layout(store, entry), Context(anchors, late=parts)


def _program(store: ReportStore, run: Path, anchors: Anchors) -> tuple[Any, Context]:
    cards = html.Div(program.cards(store, run, ProgramAddress()), className="program-page")
    return cards, Context(anchors)


def _cells(row: Row) -> tuple[str, ...]:
    took, gain = values.duration(row["duration_ns"]), values.duration(row["recoverable_ns"])
    busy, dram = values.percent(row["busy"]), values.percent(row["dram"])
    name = values.short_name(str(row["name"]), 80)
    return name, row["label"], took, gain, busy, dram, row["cause"], row["gpu"] or values.NOT_COLLECTED


def _file(
    store: ReportStore,
    kind: str,
    columns: Sequence[str],
    pages: Sequence[Page],
    left: int,
    problems: Sequence[str],
    step: Step,
) -> str:
    """The text of a file: one page after the other is made and drawn. Paths of all reports, those
    that could not be read among them, are shortened."""
    listed = [page for page in pages if page.cells]
    several, back = f"{len(listed)} {kind}", len(listed) + left > 1 or bool(problems)
    rename = renamer([*(str(row["path"]) for row in store.rows()), *(lost.where for lost in store.failures())])
    articles = [_front(several, columns, listed, left, problems)] if back else []
    for done, page in enumerate(pages):
        step(done, len(pages))
        articles.append(_article(page, back, len(pages) > 1))
    step(len(pages), len(pages))
    title = listed[0].name if len(listed) == 1 else several
    return document(title if kind == "launches" else f"Compare {title}", "".join(map(rename, articles)))


def _front(title: str, columns: Sequence[str], pages: Sequence[Page], left: int, problems: Sequence[str]) -> str:
    """The table that links all pages, below what could not be read or is left out."""
    notes = [note("error", text) for text in problems]
    if left:
        text = f"{left} more were chosen, but a file holds {MOST_PAGES}. Choose with"
        notes.append(note("info", text, "--launch, --kernel"))
    lines: list[list[Any]] = [[html.A(page.cells[0], href=f"#{page.anchor}"), *page.cells[1:]] for page in pages]
    numeric = [place for place, name in enumerate(columns) if name in NUMERIC]
    head = html.Div(html.H1(title), className="page-head", id="index")
    index = html.Div(table(columns, lines, f"The {title} of this file", numeric), className="card")
    return render(html.Section([head, *notes, index], className="export-head"))


def _article(page: Page, back: bool, grouped: bool) -> str:
    tree, context = page.make()
    context.prefix, context.grouped = f"{page.anchor}-", grouped
    named = f'id="{escape(page.anchor)}" data-page="{escape(page.name)}"'
    link = '<a class="to-index" href="#index">to the table</a>' if back else ""
    return f'<article {named} class="exported">{link}{render(tree, context)}</article>'


def document(title: str, body: str) -> str:
    """The whole file around the HTML of its pages. Equal input gives equal text: the time of
    writing is not in it."""
    checked = {"system": " checked"}
    choices = "".join(
        f'<label><input type="radio" name="theme" value="{name}"{checked.get(name, "")}> {name}</label>'
        for name in ("system", "light", "dark")
    )
    policy = (
        f"default-src 'none'; script-src {' '.join(map(script_hash, scripts()))}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="ncubble {__version__}">
<title>{escape(title)} · ncubble</title><style>{styles()}</style></head><body>
<header class="topbar"><span class="brand"><span class="logo"></span>ncubble</span>
<span class="loading-state" id="drawing-state">Figures need scripts; texts and tables are complete without them.</span>
<div class="segments" role="radiogroup" aria-label="Colour theme">{choices}</div></header>
<main id="page">{body}</main>
<script type="application/json" id="templates">{data(TEMPLATES)}</script>
{"".join(f"<script>{script}</script>" for script in scripts())}</body></html>
"""


@cache
def scripts() -> tuple[str, ...]:
    """What figures need of plotly.js, the buttons that save figures, and what draws the page, in
    this order."""
    own = (HERE / "assets" / "download.js", HERE / "static" / "export.js")
    return (plotly_js(), *(path.read_text(encoding="utf-8") for path in own))


@cache
def styles() -> str:
    """All styles of the app in the order in which it loads them, then those of exported files; the
    logo inside."""
    sheets = [*sorted((HERE / "assets").glob("*.css")), HERE / "static" / "export.css"]
    logo = base64.b64encode((HERE / "assets" / "icon.svg").read_bytes()).decode()
    text = "\n".join(path.read_text(encoding="utf-8") for path in sheets)
    return text.replace('url("icon.svg")', f'url("data:image/svg+xml;base64,{logo}")')
