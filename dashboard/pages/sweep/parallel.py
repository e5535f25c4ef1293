"""All launches of a kernel over all parameters in which they differ, as parallel coordinates: built
when they come into view.

Lines are SVG and not plotly's ``parcoords``: that needs WebGL, which remote desktops and virtual
machines often lack, and has neither hover texts nor clicks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.analysis.account.parts import part_label
from ncubble.analysis.sweeps.model import SweepPoint
from ncubble.analysis.sweeps.parallel import BUSY, CYCLES, TIME, ParallelAxis, ParallelCoordinates, parallel_coordinates
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import SweepAddress
from ncubble.dashboard.pages.page import in_browser
from ncubble.dashboard.ui.components import Child, aria, as_table, card, counted, figure, guarded, joined, note, swatch
from ncubble.dashboard.ui.figures import Drawn, Figure, safe
from ncubble.text.values import SI_TIME, device_of, short_name

TITLE = "All parameters at once"
HEIGHT_PX = 360
AXIS_PX = 96
"""Width per axis; a figure with more axes than fit is scrolled."""
MOST_TICKS = 14
LONGEST_LABEL = 18
TONES = ("#2f6fd0", "#5b8fd0", "#86a5bd", "#b0a487", "#d39a4c", "#dd7a26", "#d9480f")
"""Colours of lines from best to worst, legible in light and dark themes."""
_HINT = "one line per configuration; drag along an axis to select a range; click a line to open its launch"


def coordinates_of(store: ReportStore, address: SweepAddress) -> ParallelCoordinates | None:
    """The sweep at an address whose GPU is a full name; None where nothing is."""
    rows = [row for row in store.rows() if row.get("kernel") == address.kernel and device_of(row) == address.gpu]
    took = TIME if address.y.startswith(TIME) else CYCLES
    member = "tensor" if any(row.get("unit") == "tensor" for row in rows) else BUSY
    return parallel_coordinates(rows, address.fixed, took, address.parameter, member)


def places(store: ReportStore, address: SweepAddress) -> list[Component]:
    """The card whose content comes when it is in view; none where launches differ in one parameter
    only."""
    if coordinates_of(store, address) is None:
        return []
    waiting = html.Div("Drawn when scrolled into view.", id="sweep-parallel", className="hint")
    asked = dcc.Store(id="sweep-parallel-asked")
    where = dcc.Store(id="sweep-parallel-address", data=address.query())
    return [card(TITLE, [waiting, asked, where], _HINT)]


def section(store: ReportStore, address: SweepAddress) -> list[Component]:
    """The figure, what it leaves out, and its lines as a table."""
    drawn = coordinates_of(store, address)
    if drawn is None:
        return [note("empty", "These launches are no longer loaded.")]
    columns = [_column(axis) for axis in drawn.axes]
    names = [str(column["name"]) for column in columns]
    color = next(name for name, axis in zip(names, drawn.axes, strict=True) if axis.name == drawn.color)
    ends = ("most", "least") if drawn.color == BUSY else ("least", "most")
    keys = [html.Span([swatch(tone), f"{end} {color}"]) for tone, end in zip((TONES[0], TONES[-1]), ends, strict=True)]
    label = f"{counted(len(drawn.lines), 'configuration')} over {joined(names)}; the table below holds the numbers"
    placed = figure("sweep-parallel", parallel_figure(drawn), label)
    wide = html.Div(placed, style={"minWidth": f"{AXIS_PX * len(columns)}px"})
    clear = html.Button("Clear ranges", id="sweep-clear", className="button small hidden")
    return [
        html.Div(wide, className="parallel-scroll", tabIndex=0, role="group", **aria(label=TITLE)),
        html.Div(keys, className="legend bare"),
        html.Div([html.Span(id="sweep-marked", className="hint", role="status"), clear], className="lane-hint"),
        *_left_out(drawn),
        dcc.Store(id="sweep-axes", data=marking(drawn)),
        html.Div(_numbers(drawn, columns), id="sweep-lines"),
    ]


def _left_out(drawn: ParallelCoordinates) -> list[Component]:
    texts = []
    if drawn.lacking:
        texts.append(f"{counted(drawn.lacking, 'configuration')} without all of these measurements left out.")
    if drawn.beyond:
        texts.append(
            f"The {len(drawn.lines)} fastest are drawn, {drawn.beyond:,} more are not; fix a parameter to see them."
        )
    if drawn.left_out:
        texts.append(f"They also differ in {joined([short_name(name, 40) for name in drawn.left_out])}.")
    return [html.P(" ".join(texts), className="hint")] if texts else []


def parallel_figure(drawn: ParallelCoordinates) -> Figure:
    """A line per configuration over all axes, each from 0 to 1: all in grey, and on top those that
    ``assets/parallel.js`` keeps, a trace per tone."""
    tones, columns = drawn.tones(len(TONES)), [_column(axis) for axis in drawn.axes]
    hovers = [_hover(drawn, columns, line) for line in range(len(drawn.lines))]
    traces = [_lines(drawn, range(len(drawn.lines)), hovers) | {"opacity": 0.16, "hoverinfo": "skip"}]
    traces[0] |= {"line": {"color": "#8a8f98", "width": 1.2}, "hovertemplate": None}
    for tone, color in enumerate(TONES):
        chosen = [line for line, own in enumerate(tones) if own == tone]
        traces.append(_lines(drawn, chosen, hovers) | {"line": {"color": color, "width": 2}})
    titles = [f"<b>{safe(short_name(column['name'], LONGEST_LABEL))}</b>" for column in columns]
    layout = {
        "height": HEIGHT_PX,
        "margin": {"l": 84, "r": 24, "t": 44, "b": 16},
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "select",
        "xaxis": {
            "side": "top", "tickmode": "array", "tickvals": list(range(len(titles))), "ticktext": titles,
            "range": [-0.08, len(titles) - 0.92], "fixedrange": True, "showgrid": True, "gridwidth": 2, "tickangle": 0,
        },
        "yaxis": {"range": [-0.06, 1.06], "fixedrange": True, "visible": False},
    }  # fmt: skip
    return Figure([*traces, _tick_texts(drawn, columns)], layout)


def _lines(drawn: ParallelCoordinates, lines: Iterable[int], hovers: Sequence[str]) -> Drawn:
    """Lines one after the other, with a gap behind each."""
    points = [(line, at) for line in lines for at in (*range(len(drawn.axes)), None)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [at for _, at in points],
        "y": [None if at is None else _share(drawn.axes[at], line) for line, at in points],
        "customdata": [None if at is None else ["", hovers[line], _id(drawn, line)] for line, at in points],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
        "connectgaps": False,
    }


def _share(axis: ParallelAxis, line: int) -> float:
    return round(axis.share(axis.at[line]), 4)


def _id(drawn: ParallelCoordinates, line: int) -> str:
    return str(drawn.lines[line].typical()["id"])


def _hover(drawn: ParallelCoordinates, columns: Sequence[Drawn], line: int) -> str:
    texts = [f"{safe(short_name(column['name'], 40))} <b>{safe(column['texts'][line])}</b>" for column in columns]
    return "<br>".join(texts)


def _tick_texts(drawn: ParallelCoordinates, columns: Sequence[Drawn]) -> Drawn:
    """The values of coordinates, every so many of them, and the ends of measured axes."""
    texts: list[tuple[int, float, str]] = []
    for place, (axis, column) in enumerate(zip(drawn.axes, columns, strict=True)):
        if axis.ticks:
            shown = range(0, len(axis.ticks), -(-len(axis.ticks) // MOST_TICKS))
            texts += [(place, axis.share(at), short_name(axis.ticks[at], LONGEST_LABEL)) for at in shown]
        else:
            ends = {axis.at.index(end): end for end in (min(axis.at), max(axis.at))}
            texts += [(place, axis.share(end), column["texts"][line]) for line, end in ends.items()]
    return {
        "type": "scatter",
        "mode": "text",
        "x": [place for place, _, _ in texts],
        "y": [round(share, 4) for _, share, _ in texts],
        "text": [f"{safe(text)} " for _, _, text in texts],
        "textposition": "middle left",
        "textfont": {"size": 11},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def marking(drawn: ParallelCoordinates) -> Drawn:
    """What the browser marks ranges with: of each axis name, ends in the unit shown and the share
    of each line; and the lines of each tone."""
    tones = drawn.tones(len(TONES))
    axes = []
    for axis in drawn.axes:
        scale, (low, high) = _unit(axis)[0], axis.ends
        shares = [_share(axis, line) for line in range(len(axis.at))]
        axes.append({"name": _column(axis)["name"], "low": low / scale, "high": high / scale, "shares": shares})
    groups = [[line for line, own in enumerate(tones) if own == tone] for tone in range(len(TONES))]
    return {"axes": axes, "tones": groups}


def _unit(axis: ParallelAxis) -> tuple[float, str]:
    """By what values of an axis are divided, and the unit that they have then."""
    if axis.ticks or axis.name != TIME:
        return 1.0, "" if axis.ticks or axis.name == CYCLES else "%"
    return next((pair for pair in SI_TIME if max(axis.at) >= pair[0]), SI_TIME[-1])


def _column(axis: ParallelAxis) -> Drawn:
    """``name`` with its unit, and ``texts``: the value of each line."""
    if axis.ticks:
        return {"name": axis.name, "texts": [axis.ticks[int(at)] for at in axis.at]}
    scale, unit = _unit(axis)
    name = axis.name if axis.name in (TIME, CYCLES, BUSY) else part_label(axis.name)
    form = {TIME: ",.4g", CYCLES: ",.0f"}.get(axis.name, ".1f")
    return {"name": f"{name}, {unit}" if unit else name, "texts": [format(at / scale, form) for at in axis.at]}


def _numbers(drawn: ParallelCoordinates, columns: Sequence[Drawn]) -> Component:
    cells = zip(*(column["texts"] for column in columns), strict=True)
    rows: list[list[Child]] = [[*texts, _link(point)] for texts, point in zip(cells, drawn.lines, strict=True)]
    numeric = [at for at, axis in enumerate(drawn.axes) if not axis.ticks]
    head = [*(column["name"] for column in columns), "launches"]
    return as_table("Configurations, best first", head, rows, numeric)


def _link(point: SweepPoint) -> Component:
    row = point.typical()
    title = f"{row['path']}, launch {row['launch']}"
    return dcc.Link(counted(len(point.rows), "launch", "launches"), href=f"/kernel/{row['id']}", title=title)


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks: the figure when it is in view; marked ranges go into the address, and the
    table keeps the lines within them (``assets/parallel.js``)."""

    @app.callback(
        Output("sweep-parallel", "children"),
        Output("sweep-parallel", "className"),
        Input("sweep-parallel-asked", "data"),
        State("sweep-parallel-address", "data"),
        prevent_initial_call=True,
    )
    def draw(asked: Any, query: Any) -> tuple[Any, Any]:
        if not asked or not isinstance(query, str):
            return no_update, no_update
        address = SweepAddress.parse(query)
        return guarded(TITLE, lambda: html.Div(section(store, address))), ""

    inputs = [Input({"type": "figure", "name": "sweep-parallel"}, name) for name in ("figure", "selectedData")]
    outputs = (Output("sweep-marked", "children"), Output("sweep-clear", "className"))
    clear = Input("sweep-clear", "n_clicks")
    functions = {"mark": (*outputs, *inputs, clear, State("sweep-axes", "data"))}
    in_browser(app, "ncubble_parallel", functions, prevent_initial_call=True)
