"""Building blocks of the pages: cards, notes, stat tiles, tables and figures that follow the theme.

Everything that comes out of a report is passed as a string child: React shows it as text. No
component that takes markup or an address from a report is used here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component
from plotly.basedatatypes import BaseFigure

from ncubble.analysis.account.palette import HATCH_NAMES, SIDE_STYLES, text_color
from ncubble.analysis.compare.sides import letter
from ncubble.dashboard.ui.drawn import Figure
from ncubble.errors import NcubbleError

log = logging.getLogger(__name__)
Child = Component | str
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


def figure(name: str, drawn: Figure | BaseFigure, label: str, class_name: str = "", tools: bool = False) -> Component:
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
            dcc.Graph(id={"type": "figure", "name": name}, config=config, responsive=True),
            _downloads(name),
        ],
        className=f"figure {class_name}".strip(),
        role="figure",
        style={"height": f"{height}px"} if height else {},
        **aria(label=label),
    )


def _downloads(name: str) -> Component:
    """Buttons that save a figure as it is drawn; ``assets/download.js`` acts on them."""
    buttons = []
    for kind in ("PNG", "SVG"):
        said: dict[str, Any] = {
            "data-figure": name,
            "data-format": kind.lower(),
            **aria(label=f"Save {name} as {kind}"),
        }
        buttons.append(html.Button(kind, className="download", title=f"Save this figure as {kind}", **said))
    return html.Div(buttons, className="downloads")


def bare(drawn: Figure | BaseFigure) -> dict[str, Any]:
    """The figure as JSON-ready data without the template that plotly puts into every figure, and
    sized by its place."""
    plain = drawn.to_plotly_json()
    layout = {name: value for name, value in plain["layout"].items() if name != "template"}
    return {**plain, "layout": {**layout, "autosize": True}}


def card(title: str, children: Sequence[Child], hint: str = "", class_name: str = "") -> Component:
    """A titled box; ``hint`` is one muted line beside the title."""
    head = [html.H2(title)] + ([html.Span(hint, className="hint")] if hint else [])
    return html.Section([html.Div(head, className="card-head"), *children], className=f"card {class_name}".strip())


def guarded(title: str, build: Callable[[], Component]) -> Component:
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


def not_collected(what: str, flag: str) -> Component:
    """The state of a section whose data the report does not hold, with the option that collects
    them."""
    return note("empty", f"Not collected: this report holds no {what}. Profile with", flag)


def stat(label: str, value: str, detail: str = "") -> Component:
    """One number with its name; ``not collected`` is shown muted."""
    missing = value == "not collected"
    children = [html.Dt(label), html.Dd(value, className="missing" if missing else "")]
    if detail:
        children.append(html.Dd(detail, className="detail"))
    return html.Div(children, className="stat")


def facts(pairs: Iterable[tuple[str, str]]) -> Component:
    """Name and value pairs in one flowing line."""
    items = []
    for name, value in pairs:
        shown = html.Dd(value, className="missing" if value == "not collected" else "", title=value)
        items.append(html.Div([html.Dt(name), shown]))
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


def meter(share: float, whole: float = 100.0, color: str = "var(--accent)") -> Component:
    """A small bar for ``share`` of ``whole``, beside a number in a table."""
    width = max(0.0, min(100.0, 100.0 * share / whole)) if whole > 0 else 0.0
    return html.Span(html.Span(style={"width": f"{width:.1f}%", "background": color}), className="meter")


def swatch(color: str, hatch: str = "") -> Component:
    """The coloured square that stands for a part of the account in its bar."""
    return html.Span(className=f"swatch {HATCH_NAMES.get(hatch, '')}".strip(), style={"background": color})
