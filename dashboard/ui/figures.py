"""Figures of plain dictionaries, as pure functions of frames and verdicts: what all of them share,
the account as a waterfall, launches as points, stall reasons, predictions of other depths; and the
templates, which the page adds when the theme changes. No figure names a theme.

Plotly checks each member that is set on a figure and copies all of it to make JSON, which takes ten
times as long as all else of a page. Here it does so for who asks for a member of a figure: the
tests.

Every text that comes out of a report goes through ``safe``: plotly renders some tags, and a
kernel's name is no markup.
"""

from __future__ import annotations

import html
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

from ncubble.analysis.account.palette import ACCENT, text_color
from ncubble.analysis.account.parts import CAUSES, PARTS, WORK, Style, display_order, part_color, part_label, part_style
from ncubble.analysis.launches.table import LaunchRows
from ncubble.text.values import duration, number, percent, short_name

if TYPE_CHECKING:
    from ncubble.analysis.model.depths import Depths

# --- Themes ---

FONT = 'Inter, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'
SURFACES = {
    "light": {"text": "#1c2733", "muted": "#566373", "grid": "#e3e8ee", "line": "#b9c3ce", "hover": "#ffffff"},
    "dark": {"text": "#e3e8ef", "muted": "#9daaba", "grid": "#2b3644", "line": "#48566a", "hover": "#1b2430"},
}


def template(theme: str) -> dict[str, Any]:
    """The plotly template of ``light`` or ``dark``: transparent, so that the card's own colour
    shows; no text within a bar is cut off."""
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
            "uniformtext": {"mode": "hide", "minsize": 11},
            "hoverlabel": {"bgcolor": tone["hover"], "bordercolor": tone["line"], "font": {"color": tone["text"]}},
            "legend": {"font": {"color": tone["text"]}},
            "xaxis": axis,
            "yaxis": axis,
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": tone["muted"], "activecolor": tone["text"]},
            "colorway": ["#3f74c0", "#1a936f", "#d9480f", "#c98200", "#8e63ce"],
        }
    }


TEMPLATES = {theme: template(theme) for theme in SURFACES}


# --- What figures share ---

NO_STALL = "selected"
Drawn = dict[str, Any]
"""A trace, an axis or a layout as plotly.js reads it."""
HATCH: Drawn = {"fgcolor": "rgba(255,255,255,0.3)", "size": 7, "solidity": 0.25}


class Figure:
    """Traces and a layout that are JSON as they stand. Any other attribute is that of plotly's
    figure of the same."""

    def __init__(self, traces: Sequence[Drawn], layout: Drawn) -> None:
        self._plain = {"data": list(traces), "layout": layout}

    def to_plotly_json(self) -> dict[str, Any]:
        """``data`` and ``layout``. Not a copy: do not write to it."""
        return self._plain

    @cached_property
    def checked(self) -> Any:
        """The figure as plotly's own; raises ValueError for a member that plotly does not know."""
        import plotly.graph_objects as go

        return go.Figure(self._plain)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.checked, name)


def filled(color: str, hatch: str) -> Drawn:
    """The marker of bars in one colour and hatch, as everywhere."""
    return {"color": color, "line": {"width": 0}, "pattern": {**HATCH, "shape": hatch, "bgcolor": color}}


def bars(
    values: Sequence[float], places: Sequence[str], look: Drawn, texts: Sequence[str], hover: str, **more: Any
) -> Drawn:
    """Horizontal bars of one series: ``look`` is their marker, ``texts`` stand beside them,
    ``hover`` is what pointing at one shows."""
    return {
        **{"type": "bar", "orientation": "h", "x": list(values), "y": list(places), "marker": look},
        **{"text": list(texts), "textposition": "outside", "cliponaxis": False},
        "hovertemplate": hover,
        **more,
    }


def stacked(
    values: Sequence[float], places: Sequence[str], style: Style, name: str, texts: Sequence[str], size: int, hover: str
) -> Drawn:
    """Horizontal bars of one series that stand on each other, ``texts`` inside, each where it fits
    (``template``); ``hover`` as in ``bars``, before the meaning of the series."""
    return {
        **{"type": "bar", "orientation": "h", "x": list(values), "y": list(places), "name": name},
        **{"text": list(texts), "textposition": "inside", "insidetextanchor": "middle", "textangle": 0},
        **{"textfont": {"color": text_color(style.color), "size": size}},
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"{hover}<br>{safe(style.meaning)}<extra></extra>",
    }


def whiskers(ends: Sequence[tuple[float, float, float]], color: str) -> Drawn:
    """Error bars from the least to the most of (least, mean, most) of each point."""
    up = [round(most - mean, 5) for _, mean, most in ends]
    down = [round(mean - least, 5) for least, mean, _ in ends]
    look = {"color": color, "thickness": 1.4, "width": 4}
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, **look}


def faded(color: str, alpha: float) -> str:
    """``#rrggbb`` as a translucent colour."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def safe(value: object) -> str:
    """Text from a report, for plotly: shown as it stands, never taken for markup."""
    return html.escape(str(value), quote=True)


def segment_text(label: str, share: float) -> str:
    """What stands in a segment of ``share`` percent: name and share, the share alone, or
    nothing."""
    if share >= 1.1 * len(label) + 2:
        return f"{label}<br><b>{share:.1f}</b>"
    return f"<b>{share:.0f}</b>" if share >= 4 else ""


def stall_bar(shares: Sequence[tuple[str, float]], limit: int = 12) -> Figure:
    """Warp samples by stall reason, largest on top; ``selected`` (a warp that issued) is green, it
    is no stall."""
    shown = list(shares[:limit])
    rest = sum(share for _, share in shares[limit:])
    if rest >= 0.05:
        shown.append((f"{len(shares) - limit} more", rest))
    names = [safe(reason_style(reason).label) for reason, _ in shown]
    values = [share for _, share in shown]
    good = PARTS["tensor_busy"].color
    look: Drawn = {"color": [good if reason == NO_STALL else ACCENT for reason, _ in shown]}
    hover = "%{y}: %{x:.2f} % of warp samples<extra></extra>"
    drawn = bars(values, names, look, [f"{value:.1f} %" for value in values], hover)
    layout: Drawn = {
        "height": 56 + 24 * len(shown),
        "margin": {"l": 8, "r": 56, "t": 4, "b": 40},
        "bargap": 0.25,
        "xaxis": {"title": {"text": "% of warp samples", "standoff": 8}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False, "ticksuffix": " "},
    }
    return Figure([drawn], layout)


_WORDS, _NUMBERS = ("id", "name", "label", "unit", "cause", "cause_key"), ("busy", "duration_ns", "recoverable_ns")
_POINT = (*_WORDS, *_NUMBERS, "tensor", "dram")
"""Fields that a point shows."""


def utilization_data(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Tensor % against DRAM % of launches, one trace per cause; area of a point grows with its
    recoverable idle time.

    ``data`` and ``layout``, JSON-ready: with thousands of points, plotly's objects cost more than
    all the rest. Launches that lack either number are counted below the figure by the page, not
    drawn.
    """
    drawn = LaunchRows.of(rows).picked(_POINT)
    return {
        "data": point_traces(
            [row for row in drawn if None not in (row["tensor"], row["dram"])], "dram", "tensor", point_text
        ),
        "layout": {
            **scatter_layout(),
            "xaxis": {"title": {"text": "DRAM throughput, % of peak"}, "range": [-2, 102], "automargin": True},
            "yaxis": {"title": {"text": "tensor pipe active, % of peak"}, "range": [-3, 103], "automargin": True},
        },
    }


def point_traces(
    rows: Sequence[Mapping[str, Any]], across: str, up: str, words: Callable[[Mapping[str, Any]], str]
) -> list[dict[str, Any]]:
    """A trace of points per cause: ``across`` and ``up`` name the fields, ``words`` says what
    hovering shows."""
    largest = max((row.get("recoverable_ns") or 0.0 for row in rows), default=0.0)
    traces: list[dict[str, Any]] = []
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(str(row["cause_key"]), []).append(row)
    for cause, group in groups.items():
        traces.append(
            {
                "type": "scatter",
                "x": [row[across] for row in group],
                "y": [row[up] for row in group],
                "mode": "markers",
                "name": safe(" or ".join(dict.fromkeys(str(row["cause"]) for row in group))),
                "customdata": [row["id"] for row in group],
                "text": [words(row) for row in group],
                "marker": {"color": part_color(cause), **_marker(cause, group, largest)},
                "cliponaxis": False,
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


def scatter_layout() -> dict[str, Any]:
    """The layout of figures with a point per launch."""
    below = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "itemsizing": "constant"}
    margin = {"l": 8, "r": 12, "t": 8, "b": 8}
    return {"margin": margin, "hovermode": "closest", "showlegend": True, "legend": below}


def _marker(cause: str, group: Sequence[Mapping[str, Any]], largest: float) -> dict[str, Any]:
    """Symbol of a cause, and sizes of its points: their area grows with recoverable time up to
    ``largest`` ns."""
    return {
        "symbol": (symbol := cause_symbol(cause)),
        "size": [_point_size(row.get("recoverable_ns"), largest) for row in group],
        "opacity": 0.85,
        "line": {"width": 2 if symbol.endswith("-open") else 1, "color": "rgba(255,255,255,0.5)"},
    }


def cause_symbol(cause: str) -> str:
    """The marker of a cause, the same wherever it is drawn."""
    return CAUSES[cause].symbol if cause in CAUSES else "asterisk-open"


def _point_size(recoverable_ns: float | None, largest: float) -> float:
    return round(9.0 + 15.0 * ((recoverable_ns or 0.0) / largest) ** 0.5, 1) if largest else 10.0


def point_text(row: Mapping[str, Any]) -> str:
    """What hovering a launch's point says, escaped for plotly."""
    lines = [f"<b>{safe(short_name(str(row['name']), 60))}</b>"]
    if row.get("label"):
        lines.append(safe(short_name(str(row["label"]), 80)))
    if row.get("unit") and row["unit"] != "tensor":
        lines.append(f"{safe(row['unit'])} busy {percent(row['busy'])}")
    lines.append(f"tensor {percent(row['tensor'])} · DRAM {percent(row['dram'])} · {duration(row['duration_ns'])}")
    lines.append(f"cause: {safe(row['cause'])}")
    return "<br>".join(lines)


def axis_name(name: str, row: int) -> str:
    """Plotly's name of the axis of the track in ``row`` (from 0): ``y``, ``y2``, …"""
    return name if row == 0 else f"{name}{row + 1}"


def domains(weights: Sequence[float], gaps: float) -> list[list[float]]:
    """The shares of the figure's height that rows of these relative heights take, the first on top;
    ``gaps`` is the share between them, times the number of rows."""
    gap = gaps / max(len(weights), 1)
    unit = (1.0 - gap * (len(weights) - 1)) / (sum(weights) or 1.0)
    tops = accumulate((weight * unit + gap for weight in weights), lambda top, size: top - size, initial=1.0)
    return [[max(0.0, top - weight * unit), top] for top, weight in zip(tops, weights, strict=False)]


# --- The account as a waterfall ---

SMALLEST = 0.05
"""Parts below this percent are not drawn: their label would read 0.0 %."""
WHOLE = "#858d96"
HEIGHT_PX = 204


@dataclass(frozen=True)
class Step:
    """One bar: the part, its share in percent of elapsed time (negative where the kernel is slower
    without it), and where its lower edge lies (percent)."""

    part: str
    share: float
    base: float

    @property
    def top(self) -> float:
        """Where its upper edge lies."""
        return self.base + abs(self.share)

    @property
    def end(self) -> float:
        """The level from which the next bar goes on."""
        return self.base if self.share >= 0 else self.top


def parts_of(account: Mapping[str, Any]) -> list[tuple[str, float, Style]]:
    """(name, percent, style) in display order; parts below ``SMALLEST`` are left out."""
    known = [(name, number(account[name]) or 0.0) for name in display_order(account)]
    return [(name, share, part_style(name)) for name, share in known if abs(share) >= SMALLEST]


def steps(account: Mapping[str, Any]) -> list[Step]:
    """The bubbles, largest first, each beginning where the one before ended; then the work, which
    stands on 0."""
    shares = {name: share for name, share, _ in parts_of(account)}
    bubbles = sorted((name for name in shares if name not in WORK), key=lambda name: -shares[name])
    _, *edges = accumulate((-shares[name] for name in bubbles), initial=100.0)
    lower = [max(0.0, min(edge, edge + shares[name])) for name, edge in zip(bubbles, edges, strict=True)]
    falling = [Step(name, shares[name], edge) for name, edge in zip(bubbles, lower, strict=True)]
    return [*falling, *(Step(name, share, 0.0) for name, share in shares.items() if name in WORK)]


def waterfall(account: Mapping[str, Any], duration_ns: float | None = None, unit: str = "") -> Figure:
    """Bars from 100 % down to the busy share of ``unit`` (in words), each with its percent, and its
    time if known."""
    drawn = [(step, part_style(step.part)) for step in steps(account)]
    whole = (Step("", 100.0, 0.0), Style("elapsed", WHOLE, "", "All SM cycles of the launch."))
    traces, numbers = [], []
    for step, style in (whole, *drawn):
        label = part_label(step.part, unit) if step.part else style.label
        place = safe(wrapped(label)).replace("\n", "<br>")
        time = duration(duration_ns * step.share / 100.0) if duration_ns is not None else ""
        traces.append(_bar(step, style, place, label, time))
        numbers.append(_number(step, place, time))
    axis = {"fixedrange": True, "automargin": True}
    return Figure(
        traces,
        {
            "height": HEIGHT_PX,
            "showlegend": False,
            "bargap": 0.18,
            "margin": {"l": 8, "r": 8, "t": 22, "b": 42},
            "shapes": [_connector(index, step.end) for index, (step, _) in enumerate(drawn[:-1], 1)],
            "annotations": numbers,
            "xaxis": {"showgrid": False, "tickangle": 0, **axis},
            "yaxis": {"range": [0, 108], "ticksuffix": " %", "tickvals": [0, 25, 50, 75, 100], **axis},
        },
    )


def _bar(step: Step, style: Style, place: str, label: str, time: str) -> Drawn:
    amount = f"{step.share:.2f} %" + (f", {time}" if time else "")
    return {
        "type": "bar",
        "x": [place],
        "y": [abs(step.share)],
        "base": [step.base],
        "name": safe(label),
        "customdata": [safe(step.part)],
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"<b>{safe(label)}</b> {amount}<br>{safe(style.meaning)}<extra></extra>",
    }


def _number(step: Step, place: str, time: str) -> Drawn:
    """Percent and time of a step: above its bar, or below where it hangs near 100 %; in one line
    above a whole one."""
    full = step.share >= 80.0
    above = full or step.top <= 88.0
    return {
        "x": place,
        "y": step.top if above else step.base,
        "text": f"<b>{step.share:.1f} %</b>" + (f"{' · ' if full else '<br>'}{time}" if time else ""),
        "showarrow": False,
        "yanchor": "bottom" if above else "top",
        "font": {"size": 11},
    }


def _connector(index: int, level: float) -> Drawn:
    """The thin line from the end of bar ``index`` to the next."""
    ends = {"x0": index - 0.41, "x1": index + 1.41, "y0": level, "y1": level}
    return {"type": "line", "xref": "x", "yref": "y", **ends, "line": {"color": WHOLE, "width": 1, "dash": "dot"}}


def wrapped(label: str) -> str:
    """A label in two lines of about equal length where it has several words, so that twelve fit
    side by side."""
    words = label.split(" ")
    if len(words) < 2 or len(label) <= 8:
        return label
    halves = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(1, len(words))]
    return "\n".join(min(halves, key=lambda pair: max(map(len, pair))))


def described(account: Mapping[str, Any], unit: str) -> str:
    """The waterfall in words, for those who do not see it."""
    shares = [f"{part_label(step.part, unit)} {step.share:.1f} %" for step in steps(account)]
    return f"From 100 % of elapsed SM cycles down to work: {', '.join(shares)}"


# --- Predictions of other depths ---

UNKNOWN_Y = 4.0
"""Height of the crosses: at the bottom, clear of the ticks."""


def depth_figure(depths: Depths, unit: str) -> Figure:
    """Busy share by stages: predicted points with their intervals, the present depth as a filled
    square, and a cross on the axis where nothing is identified."""
    known = {depth: one for depth, one in sorted(depths.predicted.items()) if one}
    unknown = [depth for depth in sorted(depths.predicted) if depth not in known]
    now = known.pop(depths.stages or 0, None)
    hover = "%{x} stages: %{y:.1f} %<br>%{customdata[0]:.0f} to %{customdata[1]:.0f} %, cycles %{customdata[2]:+.1f} %"
    change = [100.0 * (one.cycles / now.cycles - 1.0) if now and now.cycles else 0.0 for one in known.values()]
    busy = [one.tensor_elapsed_pct for one in known.values()]
    predicted = _points("predicted", list(known), busy, ACCENT, 9, "circle") | {
        "error_y": whiskers([(one.low, one.tensor_elapsed_pct, one.high) for one in known.values()], ACCENT),
        "customdata": [[one.low, one.high, more] for one, more in zip(known.values(), change, strict=True)],
        "hovertemplate": f"{hover}<extra>predicted</extra>",
    }
    present = ([depths.stages or 0], [now.tensor_elapsed_pct]) if now else ([], [])
    measured = _points("measured", *present, PARTS["tensor_busy"].color, 13, "square")
    measured["hovertemplate"] = "%{x} stages: %{y:.1f} %<extra>measured, now</extra>"
    crosses = _points("not identified", unknown, [UNKNOWN_Y] * len(unknown), PARTS["other"].color, 9, "x")
    crosses |= {"cliponaxis": False, "hovertemplate": "%{x} stages: not identified<extra></extra>"}
    layout: Drawn = {
        "height": 220,
        "margin": {"l": 8, "r": 8, "t": 26, "b": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": "stages"},
            "dtick": 1,
            "range": [0.5, max(depths.predicted, default=8) + 0.5],
            "fixedrange": True,
        },
        "yaxis": {
            "title": {"text": f"{safe(unit)} busy, %"},
            "range": [0, 104],
            "automargin": True,
            "fixedrange": True,
        },
    }
    return Figure([predicted, measured, crosses], layout)


def _points(name: str, x: Sequence[int], y: Sequence[float], color: str, size: int, symbol: str) -> Drawn:
    """A trace of one kind of depths."""
    marker = {"color": color, "size": size, "symbol": symbol}
    return {"type": "scatter", "x": list(x), "y": list(y), "name": name, "mode": "markers", "marker": marker}


# --- Stall reasons ---

_REASONS = files("ncubble.dashboard.ui").joinpath("reasons.toml").read_text("utf-8")
REASONS = msgspec.convert(tomllib.loads(_REASONS), dict[str, Style])
OTHER = Style("other reasons", "#858d96", "", "All other reasons.")


def reason_style(reason: str) -> Style:
    """How a reason is drawn; one that is not known keeps its name, with spaces."""
    if reason in REASONS:
        return REASONS[reason]
    return Style(reason.replace("_", " "), OTHER.color, "+", "A stall reason unknown to ncubble.")
