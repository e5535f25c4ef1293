"""The plot of ``ncubble validate diagnosis``: estimated against measured gains, ours and
Nsight's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ncubble.analysis.validation.diagnosis.score import ESTIMATES, GAIN_POINTS, cures
from ncubble.analysis.validation.diagnosis.tables import SETS
from ncubble.analysis.validation.plots import GREY, INK, SIZE, Colour, figure, plain, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
MARKS = {"nsight global": ("x", 18), "nsight any": ("+", 24)}


def diagnosis_plots(result: Mapping[str, Any], colour: Colour) -> dict[str, Figure]:
    """Figures by name of their file."""
    sets = list(result["scores"])
    lines = -(-len(sets) // COLUMNS)
    made = figure(10.0, 3.4 * lines)
    places = list(made.subplots(lines, COLUMNS, squeeze=False).flat)
    for unused in places[len(sets) :]:
        unused.remove()
    for name, axes in zip(sets, places, strict=False):
        rows = [row for row in result["launches"] if row["set"] == name and cures(row)]
        _panel(plain(axes, SETS[name]), rows, colour)
    made.supxlabel("measured gain of the cure, % of kernel time", fontsize=SIZE + 1)
    made.supylabel("estimated gain, % of kernel time", fontsize=SIZE + 1)
    return {"diagnosis-gains": made}


def _panel(axes: Axes, rows: Sequence[Mapping[str, Any]], colour: Colour) -> None:
    low = min([0.0, *(row["gain_pct"] for row in rows)]) - 3
    axes.plot([low, 100], [low, 100], color=INK, linewidth=0.8)
    axes.fill_between(
        [low, 100],
        [low - GAIN_POINTS, 100 - GAIN_POINTS],
        [low + GAIN_POINTS, 100 + GAIN_POINTS],
        color=GREY,
        alpha=0.15,
        linewidth=0,
        label=f"within {GAIN_POINTS:g} points",
    )
    for who, (marker, size) in MARKS.items():
        x, y = _points(rows, ESTIMATES[who])
        axes.scatter(
            x, y, marker=marker, s=size, linewidths=0.8, color=GREY, label=f"Nsight, {who.split()[1]} ({len(x)})"
        )
    causes = dict.fromkeys(row["cause"] for row in rows if row["predicted_gain_pct"] is not None)
    for cause in causes:
        x, y = _points([row for row in rows if row["cause"] == cause], ESTIMATES["ours"])
        axes.scatter(x, y, s=20, color=colour(cause), label=f"{cause.replace('_', ' ')} ({len(x)})")
    axes.set(xlim=(low, 100), ylim=(low, 100), aspect="equal")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, **words())


def _points(rows: Sequence[Mapping[str, Any]], member: str) -> tuple[list[float], list[float]]:
    told = [(row["gain_pct"], row[member]) for row in rows if row[member] is not None]
    return [x for x, _ in told], [y for _, y in told]
