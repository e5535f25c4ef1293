"""Predictions of other depths of a pipeline, as rows and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncubble.analysis.account.palette import ACCENT
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.diagnosis.advise import Advice
from ncubble.analysis.model.predict import Prediction
from ncubble.dashboard.ui.figures import Drawn, Figure, safe
from ncubble.text.values import percent

UNKNOWN = "not identified"
UNKNOWN_Y = 4.0
"""Height of the crosses: at the bottom, clear of the ticks."""


@dataclass(frozen=True)
class DepthRow:
    """One depth: busy share and its interval in percent, cycles, and percent of the present cycles
    that it takes more (negative: fewer). None where it is not identified. ``present`` is the depth
    as measured."""

    depth: int
    busy_pct: float | None
    low: float | None
    high: float | None
    cycles: float | None
    change_pct: float | None
    present: bool

    @property
    def busy_words(self) -> str:
        """The busy share, said to be measured where it is."""
        if self.busy_pct is None:
            return UNKNOWN
        return f"{percent(self.busy_pct)}{' (measured)' if self.present else ''}"

    @property
    def interval_words(self) -> str:
        """``72 to 90 %``; empty for what was measured or is not known."""
        return "" if self.present or self.low is None or self.high is None else f"{self.low:.0f} to {self.high:.0f} %"

    @property
    def cycles_words(self) -> str:
        """Cycles with thin spaces between thousands."""
        return "" if self.cycles is None else f"{self.cycles:,.0f}".replace(",", "\u2009")

    @property
    def change_words(self) -> str:
        """Cycles against the present depth, in percent."""
        return "" if self.change_pct is None or self.present else f"{self.change_pct:+.1f} %"


def depth_rows(advice: Advice) -> list[DepthRow]:
    """A row per depth of the advice, in order."""
    now = advice.depths.get(advice.stages) if advice.stages else None
    return [_row(depth, advice.depths[depth], depth == advice.stages, now) for depth in sorted(advice.depths)]


def _row(depth: int, predicted: Prediction | None, present: bool, now: Prediction | None) -> DepthRow:
    if predicted is None:
        return DepthRow(depth, None, None, None, None, None, present)
    change = 100.0 * (predicted.cycles / now.cycles - 1.0) if now and now.cycles else None
    busy, cycles = predicted.tensor_elapsed_pct, predicted.cycles
    return DepthRow(depth, busy, predicted.low, predicted.high, cycles, change, present)


def depth_figure(rows: Sequence[DepthRow], unit: str) -> Figure:
    """Busy share by stages: predicted points with their intervals, the present depth as a filled
    square, and a cross on the axis where nothing is identified."""
    known = [row for row in rows if row.busy_pct is not None]
    shown = [row for row in known if not row.present]
    predicted = _points("predicted", shown, ACCENT, 9, "circle") | {
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [(row.high or 0.0) - (row.busy_pct or 0.0) for row in shown],
            "arrayminus": [(row.busy_pct or 0.0) - (row.low or 0.0) for row in shown],
            "color": ACCENT,
            "thickness": 1.4,
            "width": 5,
        },
        "customdata": [[row.interval_words, row.change_words] for row in shown],
        "hovertemplate": "%{x} stages: %{y:.1f} %<br>%{customdata[0]}, cycles %{customdata[1]}<extra>predicted</extra>",
    }
    now = [row for row in known if row.present]
    measured = _points("measured", now, PARTS["tensor_busy"].color, 13, "square")
    measured["hovertemplate"] = "%{x} stages: %{y:.1f} %<extra>measured, now</extra>"
    unknown = _points(UNKNOWN, [row for row in rows if row.busy_pct is None], PARTS["other"].color, 9, "x")
    unknown |= {"cliponaxis": False, "hovertemplate": "%{x} stages: not identified<extra></extra>"}
    deepest = rows[-1].depth if rows else 8
    layout: Drawn = {
        "height": 220,
        "margin": {"l": 8, "r": 8, "t": 26, "b": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "xaxis": {"title": {"text": "stages"}, "dtick": 1, "range": [0.5, deepest + 0.5], "fixedrange": True},
        "yaxis": {
            "title": {"text": f"{safe(unit)} busy, %"},
            "range": [0, 104],
            "automargin": True,
            "fixedrange": True,
        },
    }
    return Figure([predicted, measured, unknown], layout)


def _points(name: str, rows: Sequence[DepthRow], color: str, size: int, symbol: str) -> Drawn:
    """A trace of one kind of depths; those without a busy share stand on the floor."""
    return {
        "type": "scatter",
        "x": [row.depth for row in rows],
        "y": [UNKNOWN_Y if row.busy_pct is None else row.busy_pct for row in rows],
        "name": name,
        "mode": "markers",
        "marker": {"color": color, "size": size, "symbol": symbol},
    }
