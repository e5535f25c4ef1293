"""Building blocks of the pages: cards, notes, stat tiles, tables and figures that follow the theme.

Everything that comes out of a report is passed as a string child: React shows it as text. No
component that takes markup or an address from a report is used here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import dash_ag_grid as dag
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import HATCH_NAMES, SIDE_STYLES, VerdictStyle, text_color
from ncubble.analysis.account.parts import Style, part_label, part_style
from ncubble.analysis.compare.compare import letter
from ncubble.dashboard.ui.figures import Figure
from ncubble.errors import NcubbleError
from ncubble.text.values import NOT_COLLECTED, short_name

log = logging.getLogger(__name__)
Child = Component | str
T = TypeVar("T")
MOST_CHOICES = 24
MOST_PROBLEMS = 200
GRAPH_CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "responsive": True,
    "modeBarButtonsToRemove": ["toImage", "lasso2d", "select2d", "autoScale2d", "toggleSpikelines"],
}


def aria(**attributes: str) -> dict[str, Any]:
    """``aria-`` attributes for a component, whose hyphens no keyword argument can carry."""
    return {f"aria-{name}": value for name, value in attributes.items()}


_CLEAR, _HIDDEN = "rgba(0,0,0,0)", {"visible": False}
UNDRAWN: dict[str, Any] = {
    "data": [],
    "layout": {"paper_bgcolor": _CLEAR, "plot_bgcolor": _CLEAR, "xaxis": _HIDDEN, "yaxis": _HIDDEN},
}
"""Used until the browser has added the template: plotly's default background is white, also in dark
pages."""


def figure(name: str, drawn: Figure, label: str, class_name: str = "", tools: bool = False) -> Component:
    """A figure that follows the theme: the page keeps it without one, and the browser adds the
    template in use.

    ``label`` says in words what is drawn, for those who do not see it; ``tools`` shows plotly's
    buttons on hover.
    """
    config: Any = {**GRAPH_CONFIG, "displayModeBar": "hover" if tools else False}
    data = bare(drawn)
    height = data["layout"].get("height")
    return html.Div(
        [
            dcc.Store(id={"type": "drawn", "name": name}, data=data),
            dcc.Graph(id={"type": "figure", "name": name}, figure=UNDRAWN, config=config, responsive=True),
            _downloads(name),
        ],
        className=f"figure {class_name}".strip(),
        role="figure",
        style={"height": f"{height}px"} if height else {},
        **aria(label=label),
    )


def _downloads(name: str) -> Component:
    """Buttons that save a figure as it is drawn; ``assets/download.js`` acts on them."""
    buttons = [
        html.Button(
            kind,
            className="download",
            title=f"Save this figure as {kind}",
            **{"data-figure": name, "data-format": kind.lower(), **aria(label=f"Save {name} as {kind}")},
        )
        for kind in ("PNG", "SVG")
    ]
    return html.Div(buttons, className="downloads")


def bare(drawn: Figure) -> dict[str, Any]:
    """The figure as JSON-ready data, sized by its place."""
    plain = drawn.to_plotly_json()
    return {**plain, "layout": {**plain["layout"], "autosize": True}}


def card(title: str, children: Sequence[Child], hint: str = "", class_name: str = "") -> Component:
    """A titled box; ``hint`` is one muted line beside the title."""
    head = [html.H2(title)] + ([html.Span(hint, className="hint")] if hint else [])
    return html.Section([html.Div(head, className="card-head"), *children], className=f"card {class_name}".strip())


def guarded(title: str, build: Callable[[], T]) -> T | Component:
    """The card that ``build`` makes; if it fails, a card that says so: one section never takes the
    page down."""
    try:
        return build()
    except Exception as error:
        if not isinstance(error, NcubbleError):
            log.exception("section %r failed", title)
        return card(title, [note("error", f"This section could not be shown: {error}")])


def note(kind: str, text: str, command: str = "") -> Component:
    """A message in a box: ``kind`` is empty, error or info; ``command`` is what to type, set
    apart."""
    children: list[Child] = [html.Span(text)]
    if command:
        children.append(html.Code(command))
    return html.Div(children, className=f"note note-{kind}", role="alert" if kind == "error" else "note")


def nothing_found(title: str, promise: str, command: str, file: str, paths: Sequence[object]) -> Component:
    """The card of recordings of which none was found: what they would show, the command that makes
    one, and where ``file`` was looked for."""
    more = f" and {len(paths) - 6} more" if len(paths) > 6 else ""
    where = [html.Code(f"{path}") for path in paths[:6]]
    looked = html.P(["None was found. Searched for ", html.Code(file), " in run directories below ", *where, more])
    return card(title, [note("empty", f"{promise} To record it:", command), looked])


def not_collected(what: str, flag: str) -> Component:
    """The state of a section whose data the report does not hold, with the option that collects
    them."""
    return note("empty", f"Not collected: this report has no {what}. Profile with", flag)


def stat(label: str, value: str, detail: str = "", meaning: str = "") -> Component:
    """One number with its name, whose ``meaning`` shows on hover; ``not collected`` is muted."""
    children = [html.Dt(label), html.Dd(value, className="missing" if value == NOT_COLLECTED else "")]
    if detail:
        children.append(html.Dd(detail, className="detail"))
    return html.Div(children, className="stat", title=meaning)


def page_head(title: str, lead: Child | Sequence[Child], *more: Component, answer: str = "") -> Component:
    """The head of a page: its title, a line of what it shows, what stands beside it, and below, in
    large letters, what the page finds."""
    found = [html.P(answer, className="sentence")] if answer else []
    return html.Div([html.H1(title), html.P(lead, className="lead"), *more, *found], className="page-head")


def hint(*children: Child, **attributes: Any) -> Component:
    """A muted text."""
    return html.Span(list(children) if len(children) > 1 else children[0], className="hint", **attributes)


def items(texts: Iterable[Child], class_name: str = "", **attributes: Any) -> Component:
    """A list with one item for each of ``texts``."""
    return html.Ul([html.Li(text) for text in texts], className=class_name, **attributes)


def crumbs(label: str, *links: Component) -> Component:
    """Links that lead out of a page, or on to its neighbours; ``label`` names them to readers of
    screens."""
    return html.Nav(links, className="crumbs", **aria(label=label))


def neighbours(ids: Sequence[str], own: str, href: Callable[[str], str]) -> list[Component]:
    """Links to the launches before and after the one with the id ``own`` in its report; ``href``
    gives the address of an id. The keys ``[`` and ``]`` follow them."""
    index = list(ids).index(own) if own in ids else 0
    around = ((index - 1, "‹ previous", "previous-launch"), (index + 1, "next ›", "next-launch"))
    return [
        dcc.Link(text, href=href(ids[at]), className="button", id=name)
        for at, text, name in around
        if 0 <= at < len(ids)
    ]


def near(path: object) -> str:
    """A path as seen from the working directory where it lies below that, else its last parts."""
    whole = Path(str(path))
    with suppress(OSError, ValueError):  # the working directory is gone, or elsewhere
        return str(whole.relative_to(Path.cwd()))
    return str(Path("…", *whole.parts[-3:])) if len(whole.parts) > 4 else str(whole)


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 file``, ``2 files``, ``1,200 launches``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def joined(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def capital(text: str) -> str:
    """The text with a large first letter, as a sentence begins."""
    return f"{text[:1].upper()}{text[1:]}"


def current(chosen: bool) -> dict[str, Any]:
    """The attribute of the chosen entry of a list, and none for the others."""
    return aria(current="true") if chosen else {}


def choice(text: str, href: str, chosen: bool) -> Component:
    """A link that stands for a choice; the one in use says so."""
    name = f"button small {'current' if chosen else ''}".strip()
    return html.Span(dcc.Link(short_name(text, 40), href=href, className=name), **current(chosen))


def problem_list(title: str, problems: Sequence[tuple[str, str, str]], kind: str = "error") -> Component:
    """(where, why, remedy) of what is wrong, folded below a title if it is more than a few errors;
    ``kind`` as in ``note``."""
    entries = []
    for where, why, remedy in problems[:MOST_PROBLEMS]:
        remedies = html.Span(f"Remedy: {remedy}" if remedy else "", className="remedy")
        entries.append(html.Li([html.Code(where), html.Span(" ".join(why.split())), remedies]))
    if len(problems) > MOST_PROBLEMS:
        entries.append(html.Li(f"and {len(problems) - MOST_PROBLEMS:,} more"))
    is_open = kind == "error" and len(problems) <= 3
    return html.Details([html.Summary(title), html.Ul(entries)], className=f"note note-{kind}", open=is_open)


def choices(name: str, links: Sequence[tuple[str, str, bool]]) -> Component:
    """One line of a definition list: a name, and (text, address, in use) of each choice."""
    cells = [choice(*link) for link in links[:MOST_CHOICES]]
    if len(links) > MOST_CHOICES:
        cells.append(html.Span(f"{len(links) - MOST_CHOICES} more", className="hint"))
    return html.Div([html.Dt(name), html.Dd(cells)])


def sign(style: VerdictStyle, **attributes: Any) -> Component:
    """The sign of a verdict in its colour, for which words stand beside it."""
    return html.Span(style.sign, style={"color": style.color}, className="sign", **attributes)


def segments(
    name: str, options: Iterable[tuple[str, ...]], chosen: str, label: str, before: str = "", class_name: str = ""
) -> Component:
    """A choice of one among few, with the id ``name``: (value, text, perhaps a title) of each;
    ``before`` stands before it, ``label`` is for readers of screens."""
    items: Any = [dict(zip(("value", "label", "title"), option, strict=False)) for option in options]
    radios = dcc.RadioItems(items, chosen, id=name, className=f"segments {class_name}".strip(), inline=True)
    return html.Div([*([hint(before)] if before else []), radios], role="group", **aria(label=label))


def search_field(name: str, label: str, placeholder: str = "", **properties: Any) -> list[Component]:
    """A search field with the id ``name`` and its label, which only readers of screens see."""
    field = dcc.Input(id=name, type="search", placeholder=placeholder or label, className="search", **properties)
    return [html.Label(label, htmlFor=name, className="visually-hidden"), field]


def absent(text: str = NOT_COLLECTED, **attributes: Any) -> Component:
    """What stands in a table where a report holds no value."""
    return html.Span(text, className="missing", **attributes)


def parts_legend(names: Iterable[str], unit: str = "") -> Component:
    """Colours and hatches of parts of the account; their meaning on hover. ``unit`` names the busy
    unit."""
    return legend((part_label(name, unit), part_style(name)) for name in names)


def legend(styles: Iterable[tuple[str, Style]]) -> Component:
    """Names beside their colours and hatches; the meaning on hover."""
    items = [html.Span([swatch(style.color, style.hatch), text], title=style.meaning) for text, style in styles]
    return html.Div(items, className="legend bare")


def facts(pairs: Iterable[tuple[str, str]]) -> Component:
    """Name and value pairs in one flowing line."""
    items = [
        html.Div([html.Dt(name), html.Dd(value, className="missing" if value == NOT_COLLECTED else "")])
        for name, value in pairs
    ]
    return html.Dl(items, className="facts")


def badge(side: int) -> Component:
    """The letter that stands for one side of a comparison, in its colour."""
    style = SIDE_STYLES[side % len(SIDE_STYLES)]
    return html.Span(
        letter(side), className="badge", style={"background": style.color, "color": text_color(style.color)}
    )


def table(head: Sequence[str], rows: Sequence[Sequence[Child]], caption: str, numeric: Sequence[int] = ()) -> Component:
    """A plain table; columns whose index is in ``numeric`` are set right-aligned with tabular
    digits."""
    kind = ["num" if index in numeric else "" for index in range(len(head))]
    header = html.Tr([html.Th(text, className=kind[i], scope="col") for i, text in enumerate(head)])
    body = [html.Tr([html.Td(cell, className=kind[i]) for i, cell in enumerate(row)]) for row in rows]
    parts = [html.Caption(caption, className="visually-hidden"), html.Thead(header), html.Tbody(body)]
    return html.Div(html.Table(parts, className="plain"), className="table-scroll")


def as_table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[Child]], numeric: Sequence[int] = ()
) -> Component:
    """The numbers of a figure, folded away below it."""
    return html.Details([html.Summary("View as table"), table(head, rows, caption, numeric)], className="as-table")


def meter(share: float, whole: float = 100.0, color: str = "var(--accent)") -> Component:
    """A small bar for ``share`` of ``whole``, beside a number in a table."""
    width = max(0.0, min(100.0, 100.0 * share / whole)) if whole > 0 else 0.0
    return html.Span(html.Span(style={"width": f"{width:.1f}%", "background": color}), className="meter")


def metered(text: str, share: float, whole: float = 100.0, color: str = "var(--accent)") -> Component:
    """A number behind its bar."""
    return html.Span([meter(share, whole, color), text], className="metered")


def part_name(label: str, *styles: Style) -> Component:
    """The name of a part of the account behind the squares that stand for it; its meaning on
    hover."""
    squares = [swatch(style.color, style.hatch) for style in styles]
    return html.Span([*squares, label], className="part-name", title=" ".join(style.meaning for style in styles))


def swatch(color: str, hatch: str = "") -> Component:
    """The coloured square that stands for a part of the account in its bar."""
    return html.Span(className=f"swatch {HATCH_NAMES.get(hatch, '')}".strip(), style={"background": color})


# --- Tables of AG Grid ---

_THEME = {
    "backgroundColor": "var(--surface)",
    "foregroundColor": "var(--text)",
    "accentColor": "var(--accent)",
    "borderColor": "var(--border)",
    "headerBackgroundColor": "var(--surface-2)",
    "chromeBackgroundColor": "var(--surface-2)",
    "oddRowBackgroundColor": "var(--surface)",
    "fontFamily": "inherit",
    "browserColorScheme": "inherit",
    "checkboxUncheckedBorderColor": "var(--control)",
    "inputBorder": "1px solid var(--control)",
    "pickerButtonBorder": "1px solid var(--control)",
}
_SIZES = "fontSize: 13, headerFontSize: 12, spacing: 6, cellHorizontalPadding: 10, wrapperBorder: false"
GRID_THEME = f"themeQuartz.withParams({{{', '.join(f'{k}: {v!r}' for k, v in _THEME.items())}, {_SIZES}}})"
"""AG Grid's theme with the page's own colour tokens, so that it follows light and dark by
itself."""


def ag_grid(
    name: str,
    columns: Sequence[dict[str, Any]],
    options: dict[str, Any],
    *,
    column: dict[str, Any] | None = None,
    **parts: Any,
) -> Any:
    """A table with the id ``name`` that fills its place.

    ``options`` are AG Grid's beside those that all tables share, ``column`` is what columns have
    beside sorting, filtering and resizing, ``parts`` are further properties of the component.
    """
    shared = {
        "theme": {"function": GRID_THEME},
        "rowHeight": 34,
        "headerHeight": 36,
        "tooltipShowDelay": 400,
        "animateRows": False,
        "enableCellTextSelection": True,
    }
    return dag.AgGrid(
        id=name,
        columnDefs=columns,
        defaultColDef={
            "sortable": True,
            "resizable": True,
            "filter": True,
            **({"suppressHeaderMenuButton": True} if column is None else column),
        },
        dashGridOptions=shared | options,
        **({"style": {"height": "100%", "width": "100%"}} | parts),
    )
