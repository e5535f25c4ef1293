"""What all plots of the validations share: figures of matplotlib, written as small SVG files.

matplotlib is an extra (``plots``), imported only where a figure is made. Figures are deterministic
and do not touch its global state, but for the settings that SVG output reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour = Callable[[str], str]
"""The colour of a part or cause, as ``#rrggbb``."""
GREY, INK, PALE = "#9aa2ab", "#3a424c", "#d5d9de"
SIZE = 8.0
"""Text in points."""
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ncubble",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": SIZE,
}


def figure(width: float, height: float) -> Figure:
    """An empty figure of ``width`` by ``height`` inches. Raises UsageError without matplotlib."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("plots need matplotlib, which is missing", "pip install 'ncubble[plots]'") from error
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


def bars(axes: Axes, boxes: Iterable[tuple[float, float, float, float]], colour: str, name: str) -> None:
    """Boxes (left, bottom, width, height) as one shape, which takes a fraction of the space that
    single ones take."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Bbox, BboxTransformTo

    unit = Outline.unit_rectangle()
    shapes = [unit.transformed(BboxTransformTo(Bbox.from_bounds(*box))) for box in boxes]
    outline = Outline.make_compound_path(*shapes)
    axes.add_patch(PathPatch(outline, facecolor=colour, edgecolor="white", linewidth=0.3, label=name))


def words(**more: Any) -> dict[str, Any]:
    """Settings of a label or legend."""
    return {"fontsize": SIZE, **more}


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
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)
    return re.sub(r">\s+<", ">\n<", re.sub(r"[ \n]+", " ", svg)).strip() + "\n"
