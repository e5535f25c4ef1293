"""Objects in notebooks and terminals: figures of the dashboard as plotly figures, and HTML and text
in which texts from reports are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from ncubble.analysis.account.parts import display_order, part_label, part_style
from ncubble.errors import ReportError, UsageError
from ncubble.records import JsonObject
from ncubble.text.markup import printable
from ncubble.text.values import cut

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

    from ncubble.analysis.model.depths import Depths
    from ncubble.analysis.report.report import Launch
    from ncubble.dashboard.ui.figures import Drawn, Figure

GROUND = {"light": "#ffffff", "dark": "#17202b"}
"""Background of a card by theme, ``--surface`` in the styles."""
HEIGHT, TITLE_HEIGHT = 420, 34
"""Pixels of a figure without a height of its own, and of its title."""
ROW_PX, MOST_ROWS = 30, 60
"""Height per launch in a figure of many, and the maximum number drawn."""
CELL = "text-align:left;white-space:nowrap"
NUMBER = "text-align:right;white-space:nowrap"


def timeline_figure(launch: Launch, title: str, theme: str) -> PlotlyFigure:
    """The timeline of one launch, as on its page of the dashboard. Raises ReportError if it was not
    sampled, or has too few active samples."""
    from ncubble.analysis.account.account import account
    from ncubble.analysis.details.tracks import MIN_ACTIVE
    from ncubble.dashboard.pages.kernel.timeline_figure import LaunchTimeline

    timeline = LaunchTimeline.of(launch.timeline, account(launch))
    where = f"{launch.report.path}: launch {launch.number}"
    if timeline is None:
        raise ReportError(f"{where} has no PM samples", "profile with --set timeline (the default of ncubble.profile)")
    if timeline.shown.active < MIN_ACTIVE:
        raise ReportError(
            f"{where} has {timeline.shown.active} active samples: too short to draw", "profile a longer one"
        )
    return themed(timeline.figure(), title, theme)


def depth_figure(depths: Depths, title: str, unit: str, theme: str) -> PlotlyFigure:
    """Predicted busy share by depth of the pipeline."""
    from ncubble.dashboard.ui import figures

    return themed(figures.depth_figure(depths, unit), title, theme)


def accounts_figure(rows: Sequence[tuple[str, Mapping[str, float]]], title: str, theme: str) -> PlotlyFigure:
    """The accounts of many launches, one bar each, the first on top."""
    from ncubble.dashboard.ui.figures import Figure

    names = display_order(name for _, account in rows for name, share in account.items() if share)
    layout: Drawn = {
        "barmode": "relative",
        "bargap": 0.15,
        "height": 70 + ROW_PX * len(rows),
        "margin": {"l": 8, "r": 16, "t": 8, "b": 36},
        "xaxis": {"range": [0, 100], "dtick": 20, "ticksuffix": " %", "showgrid": False},
        "yaxis": {
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "type": "category",
            "ticksuffix": " ",
        },
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    }
    return themed(Figure([_part(name, rows) for name in names], layout), title, theme)


def _part(name: str, rows: Sequence[tuple[str, Mapping[str, float]]]) -> Drawn:
    from ncubble.dashboard.ui import figures

    label, hover = figures.safe(part_label(name)), "%{y} <b>%{fullData.name}</b> %{x:.2f} %"
    shares, places = [account.get(name, 0.0) for _, account in rows], [figures.safe(row) for row, _ in rows]
    return figures.stacked(shares, places, part_style(name), label, [""] * len(rows), 11, hover)


def themed(figure: Figure, title: str, theme: str) -> PlotlyFigure:
    """``figure`` with a title, in the colours of the dashboard; fills the available width. Raises
    UsageError for an unknown theme."""
    import plotly.graph_objects as go

    from ncubble.dashboard.ui.figures import SURFACES, TEMPLATES

    if theme not in GROUND:
        raise UsageError(f"theme {theme!r}: unknown theme", f"use one of {', '.join(GROUND)}")
    drawn: JsonObject = figure.to_plotly_json()
    layout = drawn.get("layout") or {}
    margin = layout.get("margin") or {"l": 60, "r": 20, "t": 10, "b": 50}
    head: JsonObject = {
        "text": escape(title, quote=False),  # plotly does not understand &quot;
        "x": 0.01,
        "xanchor": "left",
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"t": 10},
        "font": {"size": 14, "color": SURFACES[theme]["text"]},
    }
    own: JsonObject = {
        "template": TEMPLATES[theme],
        "autosize": True,
        "height": int(layout.get("height") or HEIGHT) + TITLE_HEIGHT,
        "margin": {**margin, "t": margin.get("t", 10) + TITLE_HEIGHT},
        "paper_bgcolor": GROUND[theme],
        "plot_bgcolor": GROUND[theme],
        "title": head,
    }
    return go.Figure({"data": drawn.get("data") or [], "layout": {**layout, **own}})


def safe(text: object) -> str:
    """``text`` escaped for HTML, without control characters."""
    return escape(printable(str(text)), quote=True)


def paragraph(text: str) -> str:
    """One paragraph of plain text."""
    return f"<p>{safe(text)}</p>"


def account_bar(account: Mapping[str, float], unit: str = "") -> str:
    """The account as a stacked bar, each part with its share as a tooltip; negative parts are
    omitted."""
    parts = [(name, account[name]) for name in display_order(account) if account[name] > 0]
    spans = "".join(
        f'<span title="{safe(part_label(name, unit))} {share:.1f} %" '
        f'style="flex:{share:.3f};background:{part_style(name).color}"></span>'
        for name, share in parts
    )
    return f'<div style="display:flex;height:14px;min-width:220px">{spans}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """HTML table of cells that are already HTML, with a plain-text head."""
    styles = [NUMBER if index in numeric else CELL for index in range(len(head))]
    top = "".join(f'<th style="{style}">{safe(text)}</th>' for text, style in zip(head, styles, strict=True))
    body = "".join(f"<tr>{_cells(row, styles)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], styles: Sequence[str]) -> str:
    return "".join(f'<td style="{style}">{cell}</td>' for cell, style in zip(row, styles, strict=True))


def columns(head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = (), wide: int = 0) -> str:
    """Lines of a table for a terminal of 80 columns; the column ``wide`` is cut to the remaining
    width."""
    cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
    sizes = [max(len(row[index]) for row in cells) for index in range(len(head))]
    sizes[wide] = max(8, min(sizes[wide], 80 - sum(sizes) + sizes[wide] - 2 * (len(sizes) - 1)))
    return "\n".join(
        "  ".join(
            cut(cell, size).rjust(size) if index in numeric else cut(cell, size).ljust(size)
            for index, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ).rstrip()
        for row in cells
    )
