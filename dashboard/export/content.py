"""What an exported file holds: pages of launches behind a table, or of comparisons, made as the app
makes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.traces.lanes import LaneRun
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.export.choice import Row, entry_of
from ncubble.dashboard.export.page import Section, document, index
from ncubble.dashboard.export.static_html import Context, StaticFigure, figures
from ncubble.dashboard.pages.addresses import CompareAddress, KernelAddress, ProgramAddress
from ncubble.dashboard.pages.compare import layout as compare
from ncubble.dashboard.pages.kernel import late
from ncubble.dashboard.pages.kernel import layout as kernel
from ncubble.dashboard.pages.program import layout as program
from ncubble.dashboard.ui.components import note
from ncubble.text import values
from ncubble.text.markup import escape

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

NUMERIC = (2, 3, 4, 5)

Step = Callable[[int, int], None]
Rename = Callable[[str], str]
NAMED = 2
"""Trailing path components that name a run: exported files go to others and must not show this
machine's folders."""


@dataclass(frozen=True)
class File:
    """An exported file: its text, the addresses of the launches in it, and how many of those chosen
    it leaves out."""

    text: str
    launches: tuple[str, ...]
    left_out: int = 0


def _silent(done: int, total: int) -> None:
    """Nobody is told."""


def _stepped(sections: Iterable[Section], total: int, step: Step) -> Iterator[Section]:
    """The sections one by one: each is drawn before the next is made."""
    for done, section in enumerate(sections):
        step(done, total)
        yield section
    step(total, total)


def late_sections(store: ReportStore, entry: Entry, whole: bool = True) -> dict[str, Callable[[], Any]]:
    """What callbacks would fill in on a kernel page, by the id of the place: ``late.PARTS``. Each
    made once.

    Without ``whole``, a note stands in the place of what is large.
    """
    stage = late.LaunchStage(store, entry)
    sections: dict[str, Callable[[], Any]] = {place: cache(partial(stage.part, place)) for place in late.PARTS}
    if not whole:
        sections |= {name: partial(note, "empty", text, f"--launch {entry.number}") for name, text in LARGE.items()}
    return sections


def page_figures(store: ReportStore, entry: Entry) -> list[StaticFigure]:
    """Every figure of a launch's page, in its order."""
    return figures(kernel.layout(store, entry), late_sections(store, entry))


def comparison_figures(store: ReportStore, address: CompareAddress) -> list[StaticFigure]:
    """Every figure of a comparison's page, in its order."""
    return figures(compare.layout(store, address))


def launches_file(
    store: ReportStore,
    rows: Sequence[Row],
    theme: str,
    problems: Sequence[str] = (),
    step: Step = _silent,
    programs: Sequence[Path] = (),
) -> File:
    """The pages of these launches; several get a table in front that links them. ``step`` hears how
    far it has come. ``programs``: recorded ones, whose pages come first and link their kernels."""
    shown, rename = rows[:MOST_PAGES], _rename(store)
    anchors = {KernelAddress().of_launch(row["id"]): anchor_of(row) for row in shown}
    several = f"{len(shown)} launches"
    title = title_of(shown[0]) if len(shown) == 1 else several
    table = index([(anchor_of(row), _cells(row)) for row in shown], COLUMNS, NUMERIC)
    left = len(rows) - len(shown)
    front = renamed(_front(several, table, left, problems), rename) if len(rows) > 1 or problems else None
    made = [partial(_program, store, run, anchors, rename) for run in programs]
    made += [partial(_kernel, store, row, anchors, rename) for row in shown]
    sections = _stepped((section() for section in made), len(made), step)
    return File(document(title, sections, front, theme), tuple(str(row["id"]) for row in shown), left)


def comparisons_file(
    store: ReportStore,
    comparisons: Sequence[tuple[str, CompareAddress]],
    theme: str,
    problems: Sequence[str] = (),
    step: Step = _silent,
) -> File:
    """The Compare pages of these launches; several get a list in front that links them. ``step`` as
    above."""
    shown, rename = comparisons[:MOST_PAGES], _rename(store)
    several = f"{len(shown)} comparisons"
    title = shown[0][0] if len(shown) == 1 else several
    lines = [(f"comparison-{at}", [name, str(len(address.launches))]) for at, (name, address) in enumerate(shown)]
    left = len(comparisons) - len(shown)
    table = index(lines, ("Kernel", "Sides"), (1,))
    front = renamed(_front(several, table, left, problems), rename) if len(comparisons) > 1 or problems else None
    made = (
        Section(
            anchor,
            name,
            renamed(compare.layout(store, address), rename),
            Context(prefix=f"{anchor}-", grouped=len(shown) > 1),
        )
        for (anchor, _), (name, address) in zip(lines, shown, strict=True)
    )
    sections = _stepped(made, len(shown), step)
    launches = dict.fromkeys(launch for _, address in shown for launch in address.launches)
    return File(document(f"Compare {title}", sections, front, theme), tuple(launches), left)


def anchor_of(row: Row) -> str:
    """The id of a launch's page in the file."""
    return f"launch-{row['id'].replace('/', '-')}"


def _kernel(store: ReportStore, row: Row, anchors: dict[str, str], rename: Rename) -> Section:
    entry, anchor = entry_of(store, row), anchor_of(row)
    parts = late_sections(store, entry, len(anchors) <= MOST_WHOLE)
    parts = {name: partial(_renamed, build, rename) for name, build in parts.items()}
    own = Context(anchors, f"{anchor}-", parts, grouped=len(anchors) > 1)
    return Section(anchor, title_of(row), renamed(kernel.layout(store, entry), rename), own)


def _program(store: ReportStore, run: Path, anchors: dict[str, str], rename: Rename) -> Section:
    anchor = f"program-{LaneRun(run).id}"
    cards = html.Div(program.cards(store, run, ProgramAddress()), className="program-page")
    return Section(anchor, f"Program {run.name}", renamed(cards, rename), Context(anchors, f"{anchor}-", grouped=True))


def _renamed(build: Callable[[], Any], rename: Rename) -> Any:
    return renamed(build(), rename)


def _rename(store: ReportStore) -> Rename:
    """Names in place of the paths of all reports, those that could not be read among them."""
    return renamer([*(str(row["path"]) for row in store.rows()), *(failure.where for failure in store.failures())])


def renamer(paths: Iterable[str]) -> Rename:
    """What puts the last parts of each of ``paths`` in place of the whole of it, wherever that
    stands in a text."""
    names = {path: "/".join(Path(path).parts[-NAMED:]) for path in paths if len(Path(path).parts) > NAMED}
    names |= {escape(path): escape(name) for path, name in names.items()}  # as in Markdown for copying
    if not names:
        return str
    # Longest first: one run may be inside another.
    known = re.compile("|".join(re.escape(path) for path in sorted(names, key=len, reverse=True)))
    return lambda text: known.sub(lambda match: names[match[0]], text)


def renamed(tree: Any, rename: Rename) -> Any:
    """The tree, whose texts, titles and values of text fields are changed in place."""
    if isinstance(tree, str):
        return rename(tree)
    if isinstance(tree, list | tuple):
        return [renamed(child, rename) for child in tree]
    if isinstance(tree, Component):
        for name in ("children", "title", "value", "aria-label"):
            if (value := getattr(tree, name, None)) is not None:
                setattr(tree, name, renamed(value, rename))
    return tree


def title_of(row: Row) -> str:
    """What a launch is called in titles: its kernel, and the parameters of its run."""
    return f"{values.short_name(str(row['name']), 60)} {row['label']}".strip()


def _cells(row: Row) -> list[str]:
    took, gain = values.duration(row["duration_ns"]), values.duration(row["recoverable_ns"])
    busy, dram = values.percent(row["busy"]), values.percent(row["dram"])
    name = values.short_name(str(row["name"]), 80)
    return [name, row["label"], took, gain, busy, dram, row["cause"], row["gpu"] or values.NOT_COLLECTED]


def _front(title: str, table: Component, left: int, problems: Sequence[str]) -> Component:
    notes = [note("error", text) for text in problems]
    if left:
        text = f"{left} more were chosen, but a file holds {MOST_PAGES}. Choose with"
        notes.append(note("info", text, "--launch, --kernel"))
    head = html.Div(html.H1(title), className="page-head", id="index")
    return html.Section([head, *notes, html.Div(table, className="card")], className="export-head")
