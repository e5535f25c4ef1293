"""Other depths of a pipeline: predictions as rows, as a sentence, and as a figure. Pure functions
of the advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ncubble.analysis.account.palette import ACCENT
from ncubble.analysis.account.parts import PARTS
from ncubble.dashboard.ui.drawn import Drawn, Figure, figure_of
from ncubble.dashboard.ui.figures import safe
from ncubble.text.values import NOT_COLLECTED, number, percent

UNKNOWN = "not identified"
UNKNOWN_Y = 4.0
"""Where the crosses stand: on the floor, clear of the ticks."""
WORTH = 1.0
"""Percent of the present time that another depth has to save before it is recommended."""


@dataclass(frozen=True)
class DepthRow:
    """One depth: busy share and its interval in percent, cycles, and percent of the present time
    that it takes more (negative: less). None where it is not identified. ``present`` is the depth
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
        """Time against the present depth, in percent."""
        return "" if self.change_pct is None or self.present else f"{self.change_pct:+.1f} %"


def depth_rows(advice: Mapping[str, Any]) -> list[DepthRow]:
    """A row per depth of the advice (``analysis.advise``), in order."""
    depths = {int(depth): told for depth, told in (advice.get("depths") or {}).items()}
    present = advice.get("stages")
    now = number((depths.get(present) or {}).get("cycles")) if present else None
    return [_row(depth, depths[depth] or {}, depth == present, now) for depth in sorted(depths)]


def _row(depth: int, told: Mapping[str, Any], present: bool, now: float | None) -> DepthRow:
    cycles = number(told.get("cycles"))
    change = 100.0 * (cycles / now - 1.0) if cycles is not None and now else None
    busy, low, high = (number(told.get(name)) for name in ("tensor_elapsed_pct", "low", "high"))
    return DepthRow(depth, busy, low, high, cycles, change, present)


def best_depth(rows: Sequence[DepthRow], present: int | None, unit: str) -> str:
    """What to do about the depth, in a sentence. The shallowest of the best is taken: depth costs
    shared memory."""
    known = [row for row in rows if row.change_pct is not None and row.busy_pct is not None]
    if not known or present is None:
        return "The present depth is not known: no change can be told."
    fastest = min(row.change_pct for row in known if row.change_pct is not None)
    best = next(row for row in known if row.change_pct is not None and row.change_pct <= fastest + 0.5)
    if best.present or fastest > -WORTH:
        kept = f"Keep {present} stage{'' if present == 1 else 's'}"
        return f"{kept}: no other depth is predicted to save {WORTH:.0f} % or more."
    return (
        f"Take {best.depth} stages instead of {present}: {unit} {percent(best.busy_pct)} busy "
        f"({best.interval_words}), {-fastest:.0f} % less time."
        if best.change_pct is not None
        else NOT_COLLECTED
    )


def depth_figure(rows: Sequence[DepthRow], unit: str) -> Figure:
    """Busy share by stages: predicted points with their intervals, the present depth as a filled
    square, and a cross on the axis where nothing is identified."""
    now = [row for row in rows if row.present and row.busy_pct is not None]
    measured = _points("measured", now, PARTS["tensor_busy"].color, 13, "square")
    measured["hovertemplate"] = "%{x} stages: %{y:.1f} %<extra>measured, now</extra>"
    unknown = _points(UNKNOWN, [row for row in rows if row.busy_pct is None], PARTS["other"].color, 9, "x")
    unknown |= {"cliponaxis": False, "hovertemplate": "%{x} stages: not identified<extra></extra>"}
    layout: Drawn = {
        "height": 220,
        "margin": {"l": 8, "r": 8, "t": 26, "b": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": "stages"},
            "dtick": 1,
            "range": [0.5, (rows[-1].depth if rows else 8) + 0.5],
            "fixedrange": True,
        },
        "yaxis": {
            "title": {"text": f"{safe(unit)} busy, %"},
            "range": [0, 104],
            "automargin": True,
            "fixedrange": True,
        },
    }
    return figure_of([_predicted(rows), measured, unknown], layout)


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


def _predicted(rows: Sequence[DepthRow]) -> Drawn:
    """Points with the interval of each."""
    shown = [row for row in rows if row.busy_pct is not None and not row.present]
    return _points("predicted", shown, ACCENT, 9, "circle") | {
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
        "hovertemplate": "%{x} stages: %{y:.1f} %<br>%{customdata[0]}, time %{customdata[1]}<extra>predicted</extra>",
    }
