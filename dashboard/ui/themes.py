"""Light and dark plotly templates, as plain JSON that the page applies to every figure when the
theme changes."""

from __future__ import annotations

from typing import Any

FONT = 'Inter, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'
SURFACES = {
    "light": {"text": "#1c2733", "muted": "#566373", "grid": "#e3e8ee", "line": "#b9c3ce", "hover": "#ffffff"},
    "dark": {"text": "#e3e8ef", "muted": "#9daaba", "grid": "#2b3644", "line": "#48566a", "hover": "#1b2430"},
}


def template(theme: str) -> dict[str, Any]:
    """The plotly template of ``light`` or ``dark``: transparent, so that the card's own colour
    shows."""
    tone = SURFACES[theme]
    axis = {
        "gridcolor": tone["grid"],
        "linecolor": tone["line"],
        "zerolinecolor": tone["line"],
        "tickcolor": tone["line"],
        "tickfont": {"color": tone["muted"]},
        "title": {"font": {"color": tone["muted"], "size": 12}},
        "spikecolor": tone["muted"],
        "zeroline": False,
    }
    return {
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 12, "color": tone["text"]},
            "hoverlabel": {"bgcolor": tone["hover"], "bordercolor": tone["line"], "font": {"color": tone["text"]}},
            "legend": {"font": {"color": tone["text"]}},
            "xaxis": axis,
            "yaxis": axis,
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": tone["muted"], "activecolor": tone["text"]},
            "colorway": ["#3f74c0", "#1a936f", "#d9480f", "#c98200", "#8e63ce"],
        }
    }


TEMPLATES = {theme: template(theme) for theme in SURFACES}
