"""Figures of the Sweep page as pure functions of series: lines and bars by value of the parameter,
accounts by value, and predicted beside measured depths. No figure names a theme."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ncubble.analysis.account.palette import SIDE_STYLES, Side
from ncubble.analysis.account.parts import PARTS, part_label, part_style
from ncubble.analysis.sweeps.depths import Depth
from ncubble.analysis.sweeps.sweeps import PointSpread, SweepPoint, SweepSeries, as_number, logarithmic, ordered
from ncubble.dashboard.ui.figures import Drawn, Figure, axis_name, filled, safe, stacked, whiskers
from ncubble.text.values import short_name

MOST_SERIES = 6
"""Maximum series in a figure; more would be unreadable."""
LINES_PX, PANEL_PX = 330, 250
LEAST_SHARE = 7.0
"""Minimum percent for a part of an account to show its number."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
MEASURED, PREDICTED = SIDE_STYLES[1], SIDE_STYLES[2]
Reading = Callable[[SweepPoint], PointSpread | None]
"""The drawn value of a point."""
Spreads = Sequence[tuple[SweepPoint, PointSpread]]


def style_of(index: int) -> Side:
    """Colour, dash and hatch of one series."""
    return SIDE_STYLES[1:][index % (len(SIDE_STYLES) - 1)]


# --- Values of series ---


def series_figure(
    series: Sequence[SweepSeries], names: Sequence[str], read: Reading, axes: tuple[str, str], unit: str, best: str = ""
) -> Figure:
    """One line per series over the values of the parameter, or one group of bars per value that is
    no number, told apart by colour, symbol and dash; whiskers from least to most of launches at one
    value.

    ``axes`` are the titles of x and y, ``unit`` stands behind numbers, ``best`` (``low`` or
    ``high``) names the end of each series that is marked.
    """
    values = ordered(point.value for own in series for point in own.points)
    numeric = all(as_number(value) is not None for value in values)
    ends, traces = [0.0], list[Drawn]()
    for index, (own, name) in enumerate(zip(series, names, strict=True)):
        spreads = [(point, spread) for point in own.points if (spread := read(point)) is not None]
        ends += [end for _, spread in spreads for end in (spread.low, spread.high)]
        if spreads:
            shape = _line(index, spreads, best) if numeric else _bars(index, spreads)
            traces.append(_common(index, name, spreads, unit, best) | shape)
    layout = _lines_layout(values, axes) | {"hovermode": "closest", "showlegend": len(series) > 1}
    layout["yaxis"] |= {"range": [1.14 * min(ends), 1.14 * max(ends) or 1.0]}
    return Figure(traces, layout | {"barmode": "group", "bargap": 0.3})


def _lines_layout(values: Sequence[str], axes: tuple[str, str]) -> Drawn:
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


def _line(index: int, spreads: Spreads, best: str) -> Drawn:
    style = style_of(index)
    return {
        "type": "scatter",
        "x": [point.at for point, _ in spreads],
        "mode": "lines+markers+text",
        "textposition": "top center" if best == "high" else "bottom center",
        "line": {"color": style.color, "width": 2, "dash": style.dash},
        "marker": {"color": style.color, "symbol": SYMBOLS[index % len(SYMBOLS)], "size": 9},
    }


def _bars(index: int, spreads: Spreads) -> Drawn:
    style = style_of(index)
    return {
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
        "error_y": _whiskers((spread for _, spread in spreads), style_of(index).color),
        "customdata": [[_launches(spread), safe(point.value), str(point.typical()["id"])] for point, spread in spreads],
        "cliponaxis": False,
        "hovertemplate": f"%{{customdata[1]}}: <b>%{{y:,.4~g}} {unit}</b>, %{{customdata[0]}}"
        "<extra>%{fullData.name}</extra>",
    }


def _whiskers(spreads: Iterable[PointSpread], color: str) -> Drawn:
    return whiskers([(spread.low, spread.mean, spread.high) for spread in spreads], color)


def _launches(spread: PointSpread) -> str:
    """``1 launch``, or how many there are and how far they spread."""
    if spread.n == 1:
        return "1 launch"
    return f"mean of {spread.n} launches, {spread.low:,.4g} to {spread.high:,.4g}"


# --- Accounts ---


def parts_figure(series: Sequence[SweepSeries], names: Sequence[str], parameter: str, unit: str = "") -> Figure:
    """The accounts by value of the parameter, stacked to 100 %: one panel per series, three panels
    in a row."""
    columns = 2 if len(series) == 4 else min(3, len(series))
    rows = -(-len(series) // columns)
    titles: list[Drawn] = []
    layout: Drawn = {
        "barmode": "stack",
        "bargap": 0.18,
        "showlegend": False,
        "height": 36 + rows * PANEL_PX,
        "margin": {"l": 8, "r": 12, "t": 26, "b": 44},
        "grid": {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.12, "ygap": 0.38},
        "annotations": titles,
    }
    for panel, (own, name) in enumerate(zip(series, names, strict=True)):
        layout[axis_name("xaxis", panel)] = {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [safe(point.value) for point in own.points],
            "showgrid": False,
            "title": {"text": safe(parameter), "standoff": 4, "font": {"size": 11}},
        }
        layout[axis_name("yaxis", panel)] = {
            "range": [0, 100],
            "ticksuffix": " %",
            "dtick": 25,
            "automargin": True,
            "showticklabels": not panel % columns,
        }
        if len(series) > 1:
            title = {"text": f"<b>{safe(short_name(name, 64 // columns + 14))}</b>", "showarrow": False}
            inside = {f"{axis}ref": f"{axis_name(axis, panel)} domain" for axis in "xy"}
            titles.append({**title, **inside, "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"})
    return Figure([trace for panel, own in enumerate(series) for trace in _stack(own, panel, unit)], layout)


def _stack(series: SweepSeries, panel: int, unit: str) -> list[Drawn]:
    accounts = [point.account[0] for point in series.points]
    names = [name for name in PARTS if any(account.get(name) for account in accounts)]
    names += sorted({name for account in accounts for name in account} - set(PARTS))
    return [_part(name, series, panel, unit) for name in names]


def _part(name: str, series: SweepSeries, panel: int, unit: str) -> Drawn:
    style, label = part_style(name), safe(part_label(name, unit))
    values = [safe(point.value) for point in series.points]
    shares = [point.account[0].get(name, 0.0) for point in series.points]
    texts = [f"<b>{share:.0f}</b>" if share >= LEAST_SHARE else "" for share in shares]
    hover = f"%{{x}} <b>{label}</b> %{{y:.2f}} %<br>%{{customdata}}"
    counts = [point.account[1] for point in series.points]
    return {
        **stacked([round(share, 3) for share in shares], values, style, label, texts, 12, hover),
        **{"orientation": "v", "x": values, "y": [round(share, 3) for share in shares]},
        "customdata": ["1 launch" if count == 1 else f"mean of {count} launches" for count in counts],
        "xaxis": axis_name("x", panel),
        "yaxis": axis_name("y", panel),
    }


# --- Predicted and measured depths ---


def prediction_figure(depths: Sequence[Depth], present: int, parameter: str) -> Figure:
    """Measured and predicted busy share in percent by depth.

    Measured: solid with filled symbols; predicted: dashed with open ones, with the bounds of the
    prediction. A ring stands around the depth that was predicted from, ``present``.
    """
    measured = {depth.depth: depth.busy for depth in depths if depth.busy}
    predicted = {
        depth.depth: PointSpread(expected.tensor_elapsed_pct, expected.low, expected.high, 1)
        for depth in depths
        if (expected := depth.predicted)
    }
    spans = [[_launches(spread)] for spread in measured.values()]
    bounds = [[f"{bound.low:,.4g} to {bound.high:,.4g}"] for bound in predicted.values()]
    filled_mark, open_mark = {"symbol": "circle", "size": 9}, {"symbol": "diamond-open", "size": 10}
    told = _points("measured", measured, spans, MEASURED.color, "solid", filled_mark)
    foreseen = _points("predicted", predicted, bounds, PREDICTED.color, "dash", open_mark | {"line": {"width": 2}})
    foreseen["error_y"] = _whiskers(predicted.values(), PREDICTED.color)
    traces = [told, foreseen]
    if present in predicted:
        ring = {"symbol": "circle-open", "size": 19, "color": PREDICTED.color, "line": {"width": 2}}
        here = {"x": [present], "y": [predicted[present].mean], "name": "predicted from here", "marker": ring}
        traces.append({"type": "scatter", "mode": "markers", "hoverinfo": "skip", **here})
    values = [str(depth.depth) for depth in depths if depth.busy or depth.predicted]
    layout = _lines_layout(values, (parameter, "unit busy, % of elapsed cycles"))
    layout["yaxis"] |= {"rangemode": "tozero"}
    return Figure(traces, layout)


def _points(
    name: str, spreads: dict[int, PointSpread], beside: list[list[str]], color: str, dash: str, marker: Drawn
) -> Drawn:
    return {
        "type": "scatter",
        "x": list(spreads),
        "y": [round(spread.mean, 3) for spread in spreads.values()],
        "name": name,
        "mode": "lines+markers",
        "line": {"color": color, "width": 2, "dash": dash},
        "marker": {"color": color, **marker},
        "customdata": beside,
        "cliponaxis": False,
        "hovertemplate": f"{name} at %{{x}}: <b>%{{y:,.5~g}} %</b><br>%{{customdata[0]}}<extra></extra>",
    }
