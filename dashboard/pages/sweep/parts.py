"""The accounts of a sweep by value of its parameter: a panel of stacked bars per series, and the
same in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from dash.development.base_component import Component

from ncubble.analysis.account.palette import text_color
from ncubble.analysis.account.parts import PARTS, display_order, part_label, part_style
from ncubble.analysis.sweeps.model import Sweep, SweepSeries
from ncubble.dashboard.ui.components import as_table, card, figure, note, parts_legend
from ncubble.dashboard.ui.figures import Drawn, Figure, axis_name, filled, safe
from ncubble.text.values import NOT_COLLECTED, short_name

PANEL_PX = 250
LEAST_SHARE = 7.0
"""Minimum percent for a part to show its number."""
SHOWN = 0.05
"""Parts below this percent read 0.0 % and are omitted from legend and table."""
TITLE = "Parts of the account"


def section(sweep: Sweep) -> Component:
    """The card of the accounts."""
    named = zip(sweep.series, sweep.names(), strict=True)
    kept = {name: series for series, name in named if any(point.account()[0] for point in series.points)}
    if not kept:
        lacking = "Not collected: none of these launches has the counters for an account. Profile with"
        return card(TITLE, [note("empty", lacking, "--set pipeline")])
    series, names = list(kept.values()), list(kept)
    unit = "" if sweep.unit() == "tensor" else sweep.unit()
    accounts = [point.account()[0] for own in series for point in own.points]
    shown = display_order(sorted({part for account in accounts for part, share in account.items() if share >= SHOWN}))
    label = f"Parts of the bubble account in percent of elapsed SM cycles, by {sweep.parameter}"
    parts: list[Component] = [
        figure("sweep-parts", parts_figure(series, names, sweep.parameter, unit), label),
        parts_legend(shown, unit),
        _numbers(sweep.parameter, kept, shown, unit),
    ]
    if any("idle" in account for account in accounts):
        text = "Idle time is not split for launches without warp samples. Profile with"
        parts.append(note("", text, "--set source"))
    return card(TITLE, parts, "percent of elapsed SM cycles")


def _numbers(parameter: str, kept: dict[str, SweepSeries], parts: Sequence[str], unit: str) -> Component:
    """One line per series and value, one column per part. A part that an account does not name is
    none of it; without an account nothing is known."""
    several = len(kept) > 1
    head = [*(["Series"] if several else []), parameter, *(part_label(part, unit) for part in parts)]
    rows = []
    for name, series in kept.items():
        for point in series.points:
            account = point.account()[0]
            shares = [f"{account.get(part, 0.0):.1f}" if account else NOT_COLLECTED for part in parts]
            rows.append([*([name] if several else []), point.value, *shares])
    caption = f"Parts of the account in percent of elapsed SM cycles, by {parameter}"
    return as_table(caption, head, rows, range(1 + several, len(head)))


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
        "annotations": titles,
    }
    for panel, (own, name) in enumerate(zip(series, names, strict=True)):
        across, up = _span(panel, columns, rows)
        layout[axis_name("xaxis", panel)] = {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [safe(point.value) for point in own.points],
            "domain": across,
            "anchor": axis_name("y", panel),
            "showgrid": False,
            "title": {"text": safe(parameter), "standoff": 4, "font": {"size": 11}},
        }
        layout[axis_name("yaxis", panel)] = {
            "range": [0, 100],
            "ticksuffix": " %",
            "dtick": 25,
            "automargin": True,
            "showticklabels": not panel % columns,
            "domain": up,
            "anchor": axis_name("x", panel),
        }
        if len(series) > 1:
            title = {"text": f"<b>{safe(short_name(name, 64 // columns + 14))}</b>", "showarrow": False}
            place = {"x": across[0], "y": up[1], "xref": "paper", "yref": "paper"}
            titles.append({**title, **place, "xanchor": "left", "yanchor": "bottom"})
    return Figure([trace for panel, own in enumerate(series) for trace in _stack(own, panel, unit)], layout)


def _span(panel: int, columns: int, rows: int) -> tuple[list[float], list[float]]:
    """(x domain, y domain) of one panel."""
    row, column = divmod(panel, columns)
    gap, deep = 0.045, 0.24 if rows > 1 else 0.0
    width, height = (1.0 - gap * (columns - 1)) / columns, (1.0 - deep * (rows - 1)) / rows
    left, top = column * (width + gap), 1.0 - row * (height + deep)
    return [left, left + width], [max(0.0, top - height), top]


def _stack(series: SweepSeries, panel: int, unit: str) -> list[Drawn]:
    accounts = [point.account()[0] for point in series.points]
    names = [name for name in PARTS if any(account.get(name) for account in accounts)]
    names += sorted({name for account in accounts for name in account} - set(PARTS))
    return [_part(name, series, panel, unit) for name in names]


def _part(name: str, series: SweepSeries, panel: int, unit: str) -> Drawn:
    style, label = part_style(name), safe(part_label(name, unit))
    shares = [point.account()[0].get(name, 0.0) for point in series.points]
    counts = [point.account()[1] for point in series.points]
    return {
        "type": "bar",
        "x": [safe(point.value) for point in series.points],
        "y": [round(share, 3) for share in shares],
        "name": label,
        "text": [f"<b>{share:.0f}</b>" if share >= LEAST_SHARE else "" for share in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"color": text_color(style.color), "size": 12},
        "marker": filled(style.color, style.hatch),
        "customdata": ["1 launch" if count == 1 else f"mean of {count} launches" for count in counts],
        "hovertemplate": f"%{{x}} <b>{label}</b> %{{y:.2f}} %<br>%{{customdata}}<br>{style.meaning}<extra></extra>",
        "xaxis": axis_name("x", panel),
        "yaxis": axis_name("y", panel),
    }
