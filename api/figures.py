"""Figures of the dashboard as plotly figures, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

    from ncubble.analysis.diagnosis.advise import Advice
    from ncubble.analysis.report.report import Launch
    from ncubble.dashboard.ui.figures import Drawn, Figure

THEMES = ("light", "dark")
ROW_PX, MOST_ROWS = 30, 60
"""Height per launch in a figure of many, and the maximum number drawn."""


def account_figure(account: Mapping[str, float], title: str, took: float | None, unit: str, theme: str) -> PlotlyFigure:
    """The waterfall of one launch: from 100 % of elapsed SM cycles down to work."""
    from ncubble.dashboard.ui.figures import waterfall

    return themed(waterfall(account, took, unit), title, theme)


def timeline_figure(launch: Launch, title: str, theme: str) -> PlotlyFigure:
    """The timeline of one launch, as on its page of the dashboard. Raises ReportError if it was not
    sampled, or has too few active samples."""
    from ncubble.analysis.account.account import account
    from ncubble.analysis.details.tracks import MIN_ACTIVE
    from ncubble.dashboard.pages.kernel.timeline_figure import LaunchTimeline
    from ncubble.errors import ReportError

    timeline = LaunchTimeline.of(launch.timeline, account(launch))
    where = f"{launch.report.path}: launch {launch.number}"
    if timeline is None:
        raise ReportError(f"{where} has no PM samples", "profile with --set timeline (the default of ncubble.profile)")
    if timeline.shown.active < MIN_ACTIVE:
        raise ReportError(
            f"{where} has {timeline.shown.active} active samples: too short to draw", "profile a longer one"
        )
    return themed(timeline.figure(), title, theme)


def depth_figure(advice: Advice, title: str, unit: str, theme: str) -> PlotlyFigure:
    """Predicted busy share by depth of the pipeline."""
    from ncubble.dashboard.ui import figures as depths

    return themed(depths.depth_figure(depths.depth_rows(advice), unit), title, theme)


def accounts_figure(rows: Sequence[tuple[str, Mapping[str, float]]], title: str, theme: str) -> PlotlyFigure:
    """The accounts of many launches, one bar each, the first on top."""
    from ncubble.analysis.account.parts import display_order
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
    from ncubble.analysis.account.parts import part_label, part_style
    from ncubble.dashboard.ui.figures import filled, safe

    style, label = part_style(name), safe(part_label(name))
    return {
        "type": "bar",
        "orientation": "h",
        "x": [account.get(name, 0.0) for _, account in rows],
        "y": [safe(row) for row, _ in rows],
        "name": label,
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"%{{y}} <b>{label}</b> %{{x:.2f}} %<br>{safe(style.meaning)}<extra></extra>",
    }


def themed(figure: Figure, title: str, theme: str) -> PlotlyFigure:
    """``figure`` with a title, in the colours of the dashboard; fills the available width. Raises
    UsageError for an unknown theme."""
    import plotly.graph_objects as go

    from ncubble.dashboard.export.pictures import Look, prepared

    if theme not in THEMES:
        raise UsageError(f"theme {theme!r}: unknown theme", f"use one of {', '.join(THEMES)}")
    drawn: dict[str, Any] = prepared(figure.to_plotly_json(), title, Look(theme=theme))
    drawn["layout"] |= {"autosize": True, "width": None}
    return go.Figure(drawn)
