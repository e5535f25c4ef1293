"""Lines and bars of the Sweep page as pure functions of series, which are told apart by colour,
symbol and dash. No figure names a theme."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ncubble.analysis.account.palette import SIDE_STYLES, Side
from ncubble.analysis.sweeps.model import PointSpread, SweepPoint, SweepSeries, as_number, logarithmic, ordered
from ncubble.dashboard.ui.figures import Drawn, Figure, filled, safe
from ncubble.text.values import short_name

MOST_SERIES = 6
"""Maximum series in a figure; more would be unreadable."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
LINES_PX = 330
Reading = Callable[[SweepSeries, SweepPoint], PointSpread | None]
"""The drawn value of a point; the series is needed for values relative to its best."""
Spreads = Sequence[tuple[SweepPoint, PointSpread]]


def style_of(index: int) -> tuple[Side, str]:
    """Colour and dash, and symbol, of one series."""
    return SIDE_STYLES[1:][index % (len(SIDE_STYLES) - 1)], SYMBOLS[index % len(SYMBOLS)]


def series_figure(
    series: Sequence[SweepSeries], names: Sequence[str], read: Reading, axes: tuple[str, str], unit: str, best: str = ""
) -> Figure:
    """One line per series over the values of the parameter, or one group of bars per value that is
    no number; whiskers from least to most of launches at one value.

    ``axes`` are the titles of x and y, ``unit`` stands behind numbers, ``best`` (``low`` or
    ``high``) names the end of each series that is marked.
    """
    values = ordered(point.value for own in series for point in own.points)
    numeric = all(as_number(value) is not None for value in values)
    ends, traces = [0.0], list[Drawn]()
    for index, (own, name) in enumerate(zip(series, names, strict=True)):
        spreads = [(point, spread) for point in own.points if (spread := read(own, point)) is not None]
        ends += [end for _, spread in spreads for end in (spread.low, spread.high)]
        if spreads:
            traces.append((_line if numeric else _bars)(index, name, spreads, unit, best))
    layout = lines_layout(values, axes) | {"hovermode": "closest", "showlegend": len(series) > 1}
    layout["yaxis"] |= {"range": [1.14 * min(ends), 1.14 * max(ends) or 1.0]}
    return Figure(traces, layout | {"barmode": "group", "bargap": 0.3})


def lines_layout(values: Sequence[str], axes: tuple[str, str]) -> Drawn:
    """The layout that figures of lines share; ``axes`` are the titles of x and y."""
    return {
        "height": LINES_PX,
        "margin": {"l": 8, "r": 18, "t": 30, "b": 44},
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
        "xaxis": {**axis_of(values), "title": {"text": safe(axes[0]), "standoff": 8}},
        "yaxis": {"title": {"text": axes[1], "standoff": 6}, "automargin": True},
    }


def axis_of(values: Sequence[str]) -> Drawn:
    """The axis that fits the values of a parameter: categories, numbers, or their logarithms."""
    at = [as_number(value) for value in values]
    if any(value is None for value in at):
        return {"type": "category", "categoryorder": "array", "categoryarray": [safe(value) for value in values]}
    ticks: Drawn = {"tickmode": "array", "tickvals": at, "ticktext": [safe(value) for value in values]}
    return {"type": "log" if logarithmic(values) else "linear", **(ticks if len(values) <= 14 else {})}


def _line(index: int, name: str, spreads: Spreads, unit: str, best: str) -> Drawn:
    style, symbol = style_of(index)
    return _common(index, name, spreads, unit, best) | {
        "type": "scatter",
        "x": [point.at for point, _ in spreads],
        "mode": "lines+markers+text",
        "textposition": "top center" if best == "high" else "bottom center",
        "line": {"color": style.color, "width": 2, "dash": style.dash},
        "marker": {"color": style.color, "symbol": symbol, "size": 9},
    }


def _bars(index: int, name: str, spreads: Spreads, unit: str, best: str) -> Drawn:
    style, _ = style_of(index)
    return _common(index, name, spreads, unit, best) | {
        "type": "bar",
        "x": [safe(point.value) for point, _ in spreads],
        "textposition": "outside",
        "textangle": 0,
        "constraintext": "none",
        "marker": filled(style.color, style.hatch),
    }


def _common(index: int, name: str, spreads: Spreads, unit: str, best: str) -> Drawn:
    """What a line and bars of one series share: values, whiskers, the word at the best, and what
    hovering tells."""
    means = [spread.mean for _, spread in spreads]
    marked = {"low": min(means), "high": max(means)}.get(best)
    return {
        "name": safe(short_name(name, 60)),
        "y": [round(mean, 5) for mean in means],
        "text": ["best" if len(means) > 1 and mean == marked else "" for mean in means],
        "textfont": {"size": 11},
        "error_y": {
            **whiskers([spread for _, spread in spreads], 5),
            "color": style_of(index)[0].color,
            "thickness": 1.4,
            "width": 4,
        },
        "customdata": [
            [launches_in_words(spread), safe(point.value), str(point.typical()["id"])] for point, spread in spreads
        ],
        "cliponaxis": False,
        "hovertemplate": f"%{{customdata[1]}}: <b>%{{y:,.4~g}} {unit}</b>, %{{customdata[0]}}"
        "<extra>%{fullData.name}</extra>",
    }


def whiskers(spreads: Collection[PointSpread], digits: int) -> Drawn:
    """Error bars from least to most."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [round(spread.high - spread.mean, digits) for spread in spreads],
        "arrayminus": [round(spread.mean - spread.low, digits) for spread in spreads],
    }


def launches_in_words(spread: PointSpread) -> str:
    """``1 launch``, or how many there are and how far they spread."""
    if spread.n == 1:
        return "1 launch"
    return f"mean of {spread.n} launches, {spread.low:,.4g} to {spread.high:,.4g}"
