"""A figure as a picture: PNG, SVG or PDF of a given size, drawn by Chromium through kaleido, with
nothing loaded.

Size and ground do not depend on the machine: the width is asked for, the height is the figure's
own, the ground solid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from ncubble.dashboard.ui.figures import SURFACES, TEMPLATES
from ncubble.errors import MeasurementError
from ncubble.text.remedies import extras_command

KINDS = ("png", "svg", "pdf")
GROUND = {"light": "#ffffff", "dark": "#17202b"}
"""Background of a card, ``--surface`` in the styles."""
TITLE_HEIGHT = 34
WIDTH, HEIGHT = 1100, 420
"""Default size in CSS pixels, for figures without a height of their own."""
TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Look:
    """Width and height in CSS pixels (None: the figure's own and its title), pixels of a PNG per
    CSS pixel, theme."""

    width: int = WIDTH
    height: int | None = None
    scale: float = 2.0
    theme: str = "light"


def image(figure: Mapping[str, Any], title: str, kind: str, look: Look) -> bytes:
    """The picture of a figure without template, as ``components.bare`` gives it, under ``title``.

    Raises MeasurementError where kaleido or a Chromium is missing, or fails.
    """
    try:
        import kaleido
        from kaleido import errors
    except ImportError as error:
        raise MeasurementError("pictures need the package kaleido", extras_command("images")) from error
    drawn = prepared(figure, title, look)
    size = {"width": drawn["layout"]["width"], "height": drawn["layout"]["height"]}
    asked = {**size, "format": kind, "scale": look.scale if kind == "png" else 1}
    try:
        # Without MathJax, which kaleido would download.
        made: bytes = kaleido.calc_fig_sync(drawn, opts=asked, kopts={"mathjax": False, "timeout": TIMEOUT_S})
    except errors.ChromeNotFoundError as error:
        remedy = "install one (apt-get install chromium), or name it in BROWSER_PATH"
        raise MeasurementError("pictures need a Chromium or Chrome, and none was found", remedy) from error
    except (errors.BrowserFailedError, errors.BrowserClosedError, errors.KaleidoError, OSError, TimeoutError) as error:
        reason = str(error).strip() or type(error).__name__
        remedy = "try another browser with BROWSER_PATH, or save the figure from the dashboard"
        raise MeasurementError(f"Chromium did not draw the figure: {reason}", remedy) from error
    return made


def prepared(figure: Mapping[str, Any], title: str, look: Look) -> dict[str, Any]:
    """The figure with theme, solid ground, title and size: all that decides what the picture
    shows."""
    layout = dict(figure.get("layout") or {})
    margin = dict(layout.get("margin") or {"l": 60, "r": 20, "t": 10, "b": 50})
    margin["t"] = margin.get("t", 10) + TITLE_HEIGHT
    height = look.height or int(layout.get("height") or HEIGHT) + TITLE_HEIGHT
    ground = GROUND[look.theme]
    layout |= {
        "template": TEMPLATES[look.theme],
        "autosize": False,
        "width": look.width,
        "height": height,
        "margin": margin,
        "paper_bgcolor": ground,
        "plot_bgcolor": ground,
        "title": {
            "text": escape(title, quote=False),  # plotly does not understand &quot;
            "x": 0.01,
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 10},
            "font": {"size": 14, "color": SURFACES[look.theme]["text"]},
        },
    }
    return {"data": list(figure.get("data") or []), "layout": layout}
