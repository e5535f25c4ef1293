"""What all plots of the validations share: figures of matplotlib, written as small SVG files.

matplotlib is imported only where a figure is made. Figures are deterministic
and do not touch its global state, but for the settings that SVG output reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour = Callable[[str], str]
"""Colour of a part or cause, as ``#rrggbb``."""
GREY, INK, PALE = "#9aa2ab", "#3a424c", "#d5d9de"
SIZE = 8.0
"""Font size in points."""
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ncubble",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": SIZE,
}


def figure(width: float, height: float) -> Figure:
    """An empty figure of ``width`` by ``height`` inches."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):
        return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def plain(axes: Axes, title: str = "") -> Axes:
    """Axes with a pale grid and no frame above and on the right."""
    axes.set_title(title, fontsize=SIZE + 1, loc="left", color=INK)
    axes.tick_params(labelsize=SIZE - 1, colors=INK)
    axes.grid(True, color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def labelled(figure: Figure, x: str, y: str) -> Figure:
    """The figure with names of both axes."""
    figure.supxlabel(x, fontsize=SIZE + 1)
    figure.supylabel(y, fontsize=SIZE + 1)
    return figure


def agreement(axes: Axes, low: float, high: float, within: float, name: str | None = None) -> None:
    """Square axes from ``low`` to ``high`` with the line on which both agree, called ``name``, and
    a band of ``within`` points around it."""
    axes.plot([low, high], [low, high], color=INK, linewidth=0.8, label=name)
    band = ([low - within, high - within], [low + within, high + within])
    axes.fill_between([low, high], *band, color=GREY, alpha=0.15, linewidth=0, label=f"within {within:g} points")
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")


def bars(axes: Axes, boxes: Iterable[tuple[float, float, float, float]], colour: str, name: str) -> None:
    """Boxes (left, bottom, width, height) as one shape, which takes a fraction of the space that
    single ones take."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Bbox, BboxTransformTo

    unit = Outline.unit_rectangle()
    outline = Outline.make_compound_path(*(unit.transformed(BboxTransformTo(Bbox.from_bounds(*box))) for box in boxes))
    axes.add_patch(PathPatch(outline, facecolor=colour, edgecolor="white", linewidth=0.3, label=name))


def save(figures: Mapping[str, Figure], folder: Path) -> None:
    """``NAME.svg`` in ``folder`` for every figure, without dates, so that the same data give the
    same file."""
    from matplotlib import rc_context

    with rc_context(SETTINGS):
        for name, made in figures.items():
            text = StringIO()
            made.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
            (folder / f"{name}.svg").write_text(short(text.getvalue()), encoding="utf-8")


def short(svg: str) -> str:
    """The same picture in fewer characters: no comments, one space between words, hundredths of a
    point."""
    for pattern, text in ((r"(?s)<!--.*?-->", ""), (r"(\d\.\d\d)\d+", r"\1"), (r"[ \n]+", " "), (r">\s+<", ">\n<")):
        svg = re.sub(pattern, text, svg)
    return svg.strip() + "\n"
