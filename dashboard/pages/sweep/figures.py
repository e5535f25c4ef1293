"""Figures of the Sweep page as pure functions of series and predictions.

SweepSeries are told apart by colour, symbol and dash; parts of the account by the colours and
hatches that they have everywhere. No figure names a theme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ncubble.analysis.account.palette import SIDE_STYLES, Side, text_color
from ncubble.analysis.account.parts import PARTS, part_label, part_style
from ncubble.analysis.sweeps.model import PointSpread, SweepPoint, SweepSeries, as_number, logarithmic, ordered
from ncubble.dashboard.ui.drawn import Drawn, Figure, figure_of, filled
from ncubble.dashboard.ui.figures import axis_name, safe
from ncubble.text.values import short_name

MOST_SERIES = 6
"""Series that are drawn at once; a figure with more is not read."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
LINES_PX, PARTS_PX = 330, 250
LEAST_SHARE = 7.0
"""Percent from which a part is high enough for its number."""
Reading = Callable[[SweepSeries, SweepPoint], PointSpread | None]
"""What of a point is drawn; of its series, because values may be held against the best in it."""


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
    values, ends, traces = _values(series), [0.0], list[Drawn]()
    numeric = all(as_number(value) is not None for value in values)
    for index, (one, name) in enumerate(zip(series, names, strict=True)):
        found = [(point, spread) for point in one.points if (spread := read(one, point)) is not None]
        ends += [end for _, spread in found for end in (spread.low, spread.high)]
        if found:
            traces.append((_line if numeric else _bars)(index, name, found, unit, best))
    layout = lines_layout(values, axes) | {"hovermode": "closest", "showlegend": len(series) > 1}
    layout["yaxis"] |= {"range": [1.14 * min(ends), 1.14 * max(ends) or 1.0]}
    return figure_of(traces, layout | {"barmode": "group", "bargap": 0.3})


def lines_layout(values: Sequence[str], axes: tuple[str, str]) -> Drawn:
    """The layout that figures of lines share; ``axes`` are the titles of x and y."""
    return {
        "height": LINES_PX,
        "margin": {"l": 8, "r": 18, "t": 30, "b": 44},
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
        "xaxis": {**axis_of(values), "title": {"text": safe(axes[0]), "standoff": 8}},
        "yaxis": {"title": {"text": axes[1], "standoff": 6}, "automargin": True},
    }


def _values(series: Sequence[SweepSeries]) -> list[str]:
    return ordered(point.value for one in series for point in one.points)


def axis_of(values: Sequence[str]) -> Drawn:
    """The axis that fits the values of a parameter: categories, numbers, or their logarithms."""
    at = [as_number(value) for value in values]
    if any(value is None for value in at):
        return {"type": "category", "categoryorder": "array", "categoryarray": [safe(value) for value in values]}
    numbers: Drawn = {"tickmode": "array", "tickvals": at, "ticktext": [safe(value) for value in values]}
    if len(values) > 14:
        numbers = {}
    return {"type": "log" if logarithmic(values) else "linear", **numbers}


def _line(index: int, name: str, found: Sequence[tuple[SweepPoint, PointSpread]], unit: str, best: str) -> Drawn:
    style, symbol = style_of(index)
    return _common(index, name, found, unit, best) | {
        "type": "scatter",
        "x": [point.at for point, _ in found],
        "mode": "lines+markers+text",
        "textposition": "top center" if best == "high" else "bottom center",
        "line": {"color": style.color, "width": 2, "dash": style.dash},
        "marker": {"color": style.color, "symbol": symbol, "size": 9},
    }


def _bars(index: int, name: str, found: Sequence[tuple[SweepPoint, PointSpread]], unit: str, best: str) -> Drawn:
    style, _ = style_of(index)
    return _common(index, name, found, unit, best) | {
        "type": "bar",
        "x": [safe(point.value) for point, _ in found],
        "textposition": "outside",
        "textangle": 0,
        "constraintext": "none",
        "marker": filled(style.color, style.hatch),
    }


def _common(index: int, name: str, found: Sequence[tuple[SweepPoint, PointSpread]], unit: str, best: str) -> Drawn:
    """What a line and bars of one series share: values, whiskers, the word at the best, and what
    hovering tells."""
    means = [spread.mean for _, spread in found]
    marked = {"low": min(means), "high": max(means)}.get(best)
    told = "%{customdata[1]}: <b>%{y:,.4~g} " + unit + "</b>, %{customdata[0]}"
    return {
        "name": safe(short_name(name, 60)),
        "y": [round(mean, 5) for mean in means],
        "text": ["best" if len(means) > 1 and mean == marked else "" for mean in means],
        "textfont": {"size": 11},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [round(spread.high - spread.mean, 5) for _, spread in found],
            "arrayminus": [round(spread.mean - spread.low, 5) for _, spread in found],
            "color": style_of(index)[0].color,
            "thickness": 1.4,
            "width": 4,
        },
        "customdata": [
            [launches_in_words(spread), safe(point.value), str(point.typical()["id"])] for point, spread in found
        ],
        "cliponaxis": False,
        "hovertemplate": f"{told}<extra>%{{fullData.name}}</extra>",
    }


def launches_in_words(spread: PointSpread) -> str:
    """``1 launch``, or how many there are and how far they spread."""
    if spread.n == 1:
        return "1 launch"
    return f"mean of {spread.n} launches, {spread.low:,.4g} to {spread.high:,.4g}"


def parts_figure(series: Sequence[SweepSeries], names: Sequence[str], parameter: str, unit: str = "") -> Figure:
    """The accounts by value of the parameter, stacked to 100 %: one panel per series, three panels
    in a row."""
    columns = 2 if len(series) == 4 else min(3, len(series))
    rows = -(-len(series) // columns)
    traces = [trace for panel, one in enumerate(series) for trace in _stack(one, panel, unit)]
    titles = [_title(panel, columns, rows, name) for panel, name in enumerate(names)] if len(series) > 1 else []
    layout: Drawn = {
        "barmode": "stack",
        "bargap": 0.18,
        "showlegend": False,
        "height": 36 + rows * PARTS_PX,
        "margin": {"l": 8, "r": 12, "t": 26, "b": 44},
        "annotations": titles,
    }
    for panel, one in enumerate(series):
        layout |= _panel(panel, columns, rows, [point.value for point in one.points], parameter)
    return figure_of(traces, layout)


def _stack(one: SweepSeries, panel: int, unit: str) -> list[Drawn]:
    accounts = [point.account()[0] for point in one.points]
    names = [name for name in PARTS if any(account.get(name) for account in accounts)]
    names += sorted({name for account in accounts for name in account} - set(PARTS))
    return [_part(name, one, accounts, panel, unit) for name in names]


def _part(name: str, one: SweepSeries, accounts: Sequence[dict[str, float]], panel: int, unit: str) -> Drawn:
    style, label = part_style(name), safe(part_label(name, unit))
    shares = [account.get(name, 0.0) for account in accounts]
    return {
        "type": "bar",
        "x": [safe(point.value) for point in one.points],
        "y": [round(share, 3) for share in shares],
        "name": label,
        "text": [f"<b>{share:.0f}</b>" if share >= LEAST_SHARE else "" for share in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"color": text_color(style.color), "size": 12},
        "marker": filled(style.color, style.hatch),
        "customdata": [_mean_of(point.account()[1]) for point in one.points],
        "hovertemplate": f"%{{x}} <b>{label}</b> %{{y:.2f}} %<br>%{{customdata}}<br>{style.meaning}<extra></extra>",
        "xaxis": axis_name("x", panel),
        "yaxis": axis_name("y", panel),
    }


def _mean_of(count: int) -> str:
    return "1 launch" if count == 1 else f"mean of {count} launches"


def _span(panel: int, columns: int, rows: int) -> tuple[list[float], list[float]]:
    """(x domain, y domain) of one panel."""
    row, column = divmod(panel, columns)
    gap, deep = 0.045, 0.24 if rows > 1 else 0.0
    width, height = (1.0 - gap * (columns - 1)) / columns, (1.0 - deep * (rows - 1)) / rows
    left, top = column * (width + gap), 1.0 - row * (height + deep)
    return [left, left + width], [max(0.0, top - height), top]


def _panel(panel: int, columns: int, rows: int, values: Sequence[str], parameter: str) -> Drawn:
    across, up = _span(panel, columns, rows)
    title = {"text": safe(parameter), "standoff": 4, "font": {"size": 11}}
    x = {"type": "category", "categoryorder": "array", "categoryarray": [safe(value) for value in values]}
    y = {"range": [0, 100], "ticksuffix": " %", "dtick": 25, "automargin": True, "showticklabels": not panel % columns}
    return {
        axis_name("xaxis", panel): {
            **x,
            "domain": across,
            "anchor": axis_name("y", panel),
            "showgrid": False,
            "title": title,
        },
        axis_name("yaxis", panel): {**y, "domain": up, "anchor": axis_name("x", panel)},
    }


def _title(panel: int, columns: int, rows: int, name: str) -> Drawn:
    across, up = _span(panel, columns, rows)
    place = {"x": across[0], "y": up[1], "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    return {"text": f"<b>{safe(short_name(name, 64 // columns + 14))}</b>", "showarrow": False, **place}
