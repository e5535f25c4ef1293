"""The figure of the Checks page: one metric over the checks of one kernel on one GPU model, as a
pure function.

Verdicts are told apart by symbol and colour; baseline and threshold are lines with their names
beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ncubble.analysis.account.palette import SIDE_STYLES, VERDICT_STYLES
from ncubble.dashboard.pages.checks.trend import Mark, drawn_marks, room_of
from ncubble.dashboard.pages.checks.words import (
    Check,
    amount,
    baseline_spread,
    change,
    commit,
    fails,
    mean_spread,
    metric_words,
    reason_of,
    style_of,
    when,
)
from ncubble.dashboard.ui.figures import Drawn, Figure, faded, safe
from ncubble.text.values import number

Placed = tuple[float, Check]
HEIGHT = 380
_BASELINE, _THRESHOLD = SIDE_STYLES[0].color, VERDICT_STYLES["regressed"].color
_SCALES = {"ns": (1e-3, "µs"), "cycle": (1.0, "cycles"), "%": (1.0, "%")}
_DAY_MS = 86_400_000.0
_DASHED: Drawn = {"color": _THRESHOLD, "width": 1.8, "dash": "dash"}
_LINE: Drawn = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}


def trend_figure(rows: pd.DataFrame, even: bool = False, moved: Sequence[Mark] = ()) -> Figure:
    """Value and spread per check with its verdict, the baseline with its band, the threshold, and
    lasting changes.

    ``rows``: as ``checked.of_metric`` gives them, oldest first. Times are UTC; with ``even`` checks
    stand in order. A check without a value is a mark on the strip below. ``moved``: the lines of
    ``trend.marks``.
    """
    checks: Sequence[Check] = rows.to_dict("records")
    unit = str(next((check["unit"] for check in checks if isinstance(check["unit"], str)), ""))
    metric = str(next((check["metric"] for check in checks if isinstance(check["metric"], str)), ""))
    scale, unit_words = _SCALES.get(unit, (1.0, unit))
    x = _places(rows, even)
    edges = _edges(x, even)
    valued, empty = list[Placed](), list[Placed]()
    for place, check in zip(x.tolist(), checks, strict=True):
        (empty if number(check["mean"]) is None else valued).append((place, check))
    # The last line connects the checks, so that a step is seen.
    connection = {
        "x": [x for x, _ in valued],
        "y": [check["mean"] * scale for _, check in valued],
        "line": {"color": faded(_BASELINE, 0.7), "width": 1},
        "showlegend": False,
    }
    # If a larger value is a loss, the metric fails above its threshold.
    rises = any(check["better"] == "lower" for check in checks)
    limit = "fails above" if rises else "fails below"
    threshold = _LINE | {"name": limit, "line": _DASHED} | _steps(checks, edges, "threshold", scale)
    gated = [threshold] if any(y is not None for y in threshold["y"]) else []
    traces = [*_baseline(checks, edges, scale), *gated, _LINE | connection]
    unknown = {str(check["verdict"]) for check in checks} - set(VERDICT_STYLES)
    for verdict in [*VERDICT_STYLES, *sorted(unknown)]:
        above = [pair for pair in valued if pair[1]["verdict"] == verdict]
        below = [pair for pair in empty if pair[1]["verdict"] == verdict]
        if above:
            around = [(number(check["sd"]) or 0.0) * scale for _, check in above]
            bars = {"array": around, "color": style_of(verdict).color, "thickness": 1, "width": 3}
            means = [check["mean"] * scale for _, check in above]
            traces.append(_marks(above, verdict) | {"y": means, "error_y": bars})
        if below:  # marks on the strip below the figure; the legend may already show the verdict
            strip = {"y": [0.0] * len(below), "yaxis": "y2", "showlegend": not above}
            traces.append(_marks(below, verdict) | strip)
    layout = _layout(edges, even, bool(empty), room_of(moved, edges))
    layout["yaxis"]["title"] = {"text": safe(f"{metric_words(metric)}, {unit_words}"), "standoff": 8}
    shapes, texts = drawn_marks(moved, edges)
    return Figure(
        traces, layout | {"shapes": shapes, "annotations": [*_line_names(checks, scale, rises, limit), *texts]}
    )


def _places(rows: pd.DataFrame, even: bool) -> np.ndarray:
    """Positions of checks on the x axis: ms since 1970, or their index."""
    if even:
        return np.arange(1, len(rows) + 1, dtype=float)
    since: pd.Series = pd.to_datetime(rows["checked"], utc=True) - pd.Timestamp(0, tz="UTC")
    return np.asarray(since.dt.total_seconds(), dtype=float) * 1e3


def _edges(x: np.ndarray, even: bool) -> np.ndarray:
    """Borders halfway between checks, one more than there are checks, with some room at both
    ends."""
    if not len(x):
        return np.array([0.0, 1.0])
    room = 0.5 if even else max(0.03 * (x[-1] - x[0]), _DAY_MS / 48)
    return np.concatenate([[x[0] - room], (x[1:] + x[:-1]) / 2, [x[-1] + room]])


Stretch = tuple[float, float, list[float]]


def _stretches(checks: Sequence[Check], edges: np.ndarray, *names: str) -> Iterator[Stretch]:
    """Borders and values of each stretch over which all of ``names`` hold the same numbers, without
    values where they lack any."""
    values = [[number(check[name]) for name in names] for check in checks]
    for numbers, places in itertools.groupby(range(len(checks)), values.__getitem__):
        first, *more = places
        known = [value for value in numbers if value is not None]
        yield float(edges[first]), float(edges[first + len(more) + 1]), known if len(known) == len(names) else []


def _steps(checks: Sequence[Check], edges: np.ndarray, name: str, scale: float) -> Drawn:
    """x and y of a line that holds each value from one border to the next, broken where there is
    none."""
    stretches = list(_stretches(checks, edges, name))
    return {
        "x": [x for left, right, _ in stretches for x in (left, right)],
        "y": [value[0] * scale if value else None for _, _, value in stretches for _ in ("left", "right")],
    }


def _baseline(checks: Sequence[Check], edges: np.ndarray, scale: float) -> list[Drawn]:
    """The band of a standard deviation around the baseline, and its line."""
    shared = _LINE | {"legendgroup": "baseline"}
    bands = [band for band in _stretches(checks, edges, "baseline_mean", "baseline_sd") if band[2]]
    around = [((mean - sd) * scale, (mean + sd) * scale) for _, _, (mean, sd) in bands]
    corners = {
        "x": [x for left, right, _ in bands for x in (left, right, right, left, None)],
        "y": [y for low, high in around for y in (low, low, high, high, None)],
    }
    band = {"fill": "toself", "fillcolor": faded(_BASELINE, 0.28), "line": {"width": 0}, "showlegend": False}
    line = {"name": "baseline ± standard deviation", "line": {"color": _BASELINE, "width": 2}}
    return [shared | band | corners, shared | line | _steps(checks, edges, "baseline_mean", scale)]


def _line_names(checks: Sequence[Check], scale: float, rises: bool, limit: str) -> Iterator[Drawn]:
    """The names of baseline and threshold with their last values, right of the figure."""
    for name, words, below in (("baseline_mean", "baseline", rises), ("threshold", limit, not rises)):
        last = next((check for check in reversed(checks) if number(check[name]) is not None), None)
        if last is not None:
            yield {
                "x": 1.005,
                "xref": "paper",
                "xanchor": "left",
                "y": float(last[name]) * scale,
                "yanchor": "top" if below else "bottom",
                "text": safe(f"{words} {amount(last[name], last['unit'])}"),
                "font": {"size": 12},
                "showarrow": False,
                "yshift": 4 if below else -4,
            }


def _marks(placed: Sequence[Placed], verdict: str) -> Drawn:
    """What all marks of a verdict share, with their places and what hovering shows."""
    style = style_of(verdict)
    return {
        "type": "scatter",
        "x": [x for x, _ in placed],
        "mode": "markers",
        "name": safe(style.label),
        "legendgroup": safe(verdict),
        "marker": {
            "color": style.color,
            "symbol": style.symbol,
            "size": 10,
            "line": {"width": 1, "color": style.color},
        },
        "text": [_hover(check) for _, check in placed],
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }


def _hover(row: Check) -> str:
    lines = []
    if number(row["mean"]) is not None:
        recorded = str(row["baseline_recorded"] or "at an unknown time")[:10]
        limit = f", fails {fails(row)}" if fails(row) else ""
        lines += [mean_spread(row), f"baseline {baseline_spread(row)}, recorded {recorded}"]
        lines.append(f"change {change(row['change_pct'])}{limit}")
    if reason := reason_of(row):
        lines.append(reason if len(reason) < 100 else f"{reason[:99]}…")
    lines.append(f"commit {commit(row)}")
    if isinstance(row["ncu_version"], str):
        lines.append(f"ncu {row['ncu_version'][:40]}, driver {str(row['driver'] or 'not collected')[:40]}")
    title = f"<b>{safe(style_of(str(row['verdict'])).label)}</b> · {when(row['checked'])}"
    return "<br>".join([title, *map(safe, lines)])


def _layout(edges: np.ndarray, even: bool, strip: bool, room: int) -> Drawn:
    """``strip`` for checks without a value below the figure, ``room`` in pixels for texts above."""
    above = 1.01 + room / (HEIGHT - 74)  # margins and the x axis take the rest
    title = "checks in order" if even else "checked, UTC"
    kind = {"tickformat": "d"} if even else {"type": "date"}
    below = {"domain": [0.0, 0.1], "range": [-1, 1], "showgrid": False, "tickvals": [0], "ticktext": ["no value"]}
    return {
        "height": HEIGHT + room,
        "margin": {"l": 8, "r": 176, "t": 34 + room, "b": 40},
        "hovermode": "closest",
        "xaxis": {
            "range": [float(edges[0]), float(edges[-1])],
            "showgrid": False,
            "title": {"text": title},
            **kind,
            **({"anchor": "y2"} if strip else {}),
        },
        "yaxis": {"domain": [0.16 if strip else 0.0, 1.0], "automargin": True},
        **({"yaxis2": {**below, "anchor": "x", "fixedrange": True}} if strip else {}),
        "legend": {"orientation": "h", "y": above, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
    }
