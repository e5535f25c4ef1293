"""What an exported file holds: pages of launches behind a table, or of comparisons, made as the app
makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.export.choice import Row, entry_of
from ncubble.dashboard.export.names import Rename, renamed, renamer
from ncubble.dashboard.export.page import Section, document, index
from ncubble.dashboard.export.static_html import Context, StaticFigure, figures
from ncubble.dashboard.pages.compare import layout as compare
from ncubble.dashboard.pages.compare.address import CompareAddress
from ncubble.dashboard.pages.kernel import layout as kernel
from ncubble.dashboard.pages.kernel.address import KernelAddress
from ncubble.dashboard.ui.components import note
from ncubble.text import values

MOST_PAGES = 24
"""Pages of one file. Each adds 15 to 550 kB; beyond that a file is slow to open, and the app is the
better place."""
MOST_WHOLE = 4
"""Pages up to which each holds its thousands of metrics; beyond, one file per launch does."""
LARGE = {"kernel-metrics": f"Left out of a file of more than {MOST_WHOLE} launches. Export this one alone with"}
COLUMNS = ("Kernel", "Parameters", "Duration", "Recoverable, at most", "Busy", "DRAM", "Cause", "GPU")

NUMERIC = (2, 3, 4, 5)

Step = Callable[[int, int], None]


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
    """What callbacks would fill in on a kernel page, by the id of the place: ``pages.kernel.LATE``.
    Each made once.

    Without ``whole``, a note stands in the place of what is large.
    """
    made: dict[str, Callable[[], Any]] = {
        name: cache(partial(build, store, entry)) for name, build in kernel.LATE.items()
    }
    if not whole:
        made |= {name: partial(note, "empty", text, f"--launch {entry.number}") for name, text in LARGE.items()}
    return made


def page_figures(store: ReportStore, entry: Entry) -> list[StaticFigure]:
    """Every figure of a launch's page, in its order."""
    return figures(kernel.layout(store, entry), late_sections(store, entry))


def comparison_figures(store: ReportStore, address: CompareAddress) -> list[StaticFigure]:
    """Every figure of a comparison's page, in its order."""
    return figures(compare.layout(store, address))


def launches_file(
    store: ReportStore, rows: Sequence[Row], theme: str, problems: Sequence[str] = (), step: Step = _silent
) -> File:
    """The pages of these launches; several get a table in front that links them. ``step`` hears how
    far it has come."""
    shown = rows[:MOST_PAGES]
    anchors, rename = {KernelAddress().of_launch(row["id"]): anchor_of(row) for row in shown}, _rename(store)
    sections = _stepped((_kernel(store, row, anchors, rename) for row in shown), len(shown), step)
    left = len(rows) - len(shown)
    head = (
        renamed(_head(f"{len(shown)} launches", shown, left, problems), rename) if len(rows) > 1 or problems else None
    )
    title = title_of(shown[0]) if len(shown) == 1 else f"{len(shown)} launches"
    return File(document(title, sections, head, theme), tuple(str(row["id"]) for row in shown), left)


def comparisons_file(
    store: ReportStore,
    found: Sequence[tuple[str, CompareAddress]],
    theme: str,
    problems: Sequence[str] = (),
    step: Step = _silent,
) -> File:
    """The Compare pages of these launches; several get a list in front that links them. ``step`` as
    above."""
    shown, rename = found[:MOST_PAGES], _rename(store)
    left = len(found) - len(shown)
    made = (
        Section(
            f"comparison-{number}", title, renamed(compare.layout(store, address), rename), _own(number, len(shown))
        )
        for number, (title, address) in enumerate(shown)
    )
    sections = _stepped(made, len(shown), step)
    head = renamed(_list(shown, left, problems), rename) if len(found) > 1 or problems else None
    title = shown[0][0] if len(shown) == 1 else f"{len(shown)} comparisons"
    ids = dict.fromkeys(one for _, address in shown for one in address.launches)
    return File(document(f"Compare {title}", sections, head, theme), tuple(ids), left)


def anchor_of(row: Row) -> str:
    """The id of a launch's page in the file."""
    return f"launch-{row['id'].replace('/', '-')}"


def _kernel(store: ReportStore, row: Row, anchors: dict[str, str], rename: Rename) -> Section:
    entry, anchor = entry_of(store, row), anchor_of(row)
    made = late_sections(store, entry, len(anchors) <= MOST_WHOLE)
    late = {name: partial(_renamed, build, rename) for name, build in made.items()}
    own = Context(anchors, f"{anchor}-", late, grouped=len(anchors) > 1)
    return Section(anchor, title_of(row), renamed(kernel.layout(store, entry), rename), own)


def _renamed(build: Callable[[], Any], rename: Rename) -> Any:
    return renamed(build(), rename)


def _rename(store: ReportStore) -> Rename:
    """Names in place of the paths of all reports, those that could not be read among them."""
    return renamer([*(str(row["path"]) for row in store.rows()), *(one.where for one in store.failures())])


def _own(number: int, pages: int) -> Context:
    return Context(prefix=f"comparison-{number}-", grouped=pages > 1)


def title_of(row: Row) -> str:
    """What a launch is called in titles: its kernel, and the parameters of its run."""
    return f"{values.short_name(str(row['name']), 60)} {row['label']}".strip()


def _head(title: str, rows: Sequence[Row], left: int, problems: Sequence[str]) -> Component:
    lines = [(anchor_of(row), _cells(row)) for row in rows]
    return _front(title, index(lines, COLUMNS, NUMERIC), left, problems)


def _cells(row: Row) -> list[str]:
    took, gain = values.duration(row["duration_ns"]), values.duration(row["recoverable_ns"])
    busy, dram = values.percent(row["busy"]), values.percent(row["dram"])
    name = values.short_name(str(row["name"]), 80)
    return [name, row["label"], took, gain, busy, dram, row["cause"], row["gpu"] or values.NOT_COLLECTED]


def _list(found: Sequence[tuple[str, CompareAddress]], left: int, problems: Sequence[str]) -> Component:
    lines = [
        (f"comparison-{number}", [title, str(len(address.launches))]) for number, (title, address) in enumerate(found)
    ]
    return _front(f"{len(found)} comparisons", index(lines, ("Kernel", "Sides"), (1,)), left, problems)


def _front(title: str, table: Component, left: int, problems: Sequence[str]) -> Component:
    notes = [note("error", text) for text in problems]
    if left:
        notes.append(
            note("info", f"{left} more were chosen; a file holds {MOST_PAGES}. Choose with", "--launch, --kernel")
        )
    head = html.Div(html.H1(title), className="page-head", id="index")
    return html.Section([head, *notes, html.Div(table, className="card")], className="export-head")
