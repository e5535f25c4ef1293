"""The figure of the Checks page: one metric over the checks of one kernel on one GPU model, as a
pure function.

Verdicts are told apart by symbol and colour; baseline and threshold are lines with their names
beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ncubble.analysis.account.palette import SIDE_STYLES, VERDICT_STYLES, VerdictStyle
from ncubble.dashboard.pages.checks.trend import Mark, add_marks, room_of
from ncubble.dashboard.pages.checks.words import (
    amount,
    change,
    commit,
    fails,
    metric_words,
    reason_of,
    spread,
    style_of,
    when,
)
from ncubble.dashboard.ui.figures import safe
from ncubble.text.values import number

Check = Mapping[Any, Any]
Placed = tuple[float, Check]
HEIGHT = 380
_BASELINE, _THRESHOLD = SIDE_STYLES[0].color, VERDICT_STYLES["regressed"].color
_SCALES = {"ns": (1e-3, "µs"), "cycle": (1.0, "cycles"), "%": (1.0, "%")}
_DAY_MS = 86_400_000.0


def trend_figure(rows: pd.DataFrame, even: bool = False, moved: Sequence[Mark] = ()) -> go.Figure:
    """Value and spread per check with its verdict, the baseline with its band, the threshold, and
    lasting changes.

    ``rows``: as ``checked.of_metric`` gives them, oldest first. Times are UTC; with ``even`` checks
    stand in their order. A check without a value is a mark on the strip below. ``moved``: the lines
    of ``trend.marks``.
    """
    checks: Sequence[Check] = rows.to_dict("records")
    figure = go.Figure()
    unit = str(next((one["unit"] for one in checks if isinstance(one["unit"], str)), ""))
    scale, words = _SCALES.get(unit, (1.0, unit))
    x = _places(rows, even)
    edges = _edges(x, even)
    _add_baseline(figure, checks, edges, scale)
    _add_threshold(figure, checks, edges, scale)
    placed = list(zip(x.tolist(), checks, strict=True))
    valued = [one for one in placed if number(one[1]["mean"]) is not None]
    empty = [one for one in placed if number(one[1]["mean"]) is None]
    _add_line(figure, valued, scale)
    found = {str(one["verdict"]) for one in checks}
    for verdict in [*VERDICT_STYLES, *sorted(found - set(VERDICT_STYLES))]:
        mine = [one for one in valued if one[1]["verdict"] == verdict]
        below = [one for one in empty if one[1]["verdict"] == verdict]
        _add_checks(figure, mine, verdict, scale)
        _add_unmeasured(figure, below, verdict, bool(mine))
    _lay_out(figure, edges, even, bool(empty), room_of(moved, edges))
    add_marks(figure, moved, edges)
    metric = next((one["metric"] for one in checks if isinstance(one["metric"], str)), "")
    figure.update_yaxes(title={"text": safe(f"{metric_words(metric)}, {words}"), "standoff": 8}, selector=0)
    return figure


def _places(rows: pd.DataFrame, even: bool) -> np.ndarray:
    """Where checks stand on the x axis: ms since 1970, or their number."""
    if even:
        return np.arange(1, len(rows) + 1, dtype=float)
    since: pd.Series = pd.to_datetime(rows["checked"], utc=True) - pd.Timestamp(0, tz="UTC")
    return np.asarray(since.dt.total_seconds(), dtype=float) * 1e3


def _edges(x: np.ndarray, even: bool) -> np.ndarray:
    """Borders halfway between checks, one more than there are checks, with some room at both
    ends."""
    room = 0.5 if even else max(0.03 * (x[-1] - x[0]), _DAY_MS / 48) if len(x) else 1.0
    between = (x[1:] + x[:-1]) / 2
    return np.concatenate([[x[0] - room], between, [x[-1] + room]]) if len(x) else np.array([0.0, 1.0])


def _runs(checks: Sequence[Check], edges: np.ndarray, *names: str) -> Iterator[tuple[float, float, list[float]]]:
    """Borders and values of each stretch over which all of ``names`` hold the same numbers; others
    are left out."""
    start = 0
    told = [[number(one[name]) for name in names] for one in checks]
    for index in range(1, len(told) + 1):
        if index == len(told) or told[index] != told[start]:
            values = [value for value in told[start] if value is not None]
            if len(values) == len(names):
                yield float(edges[start]), float(edges[index]), values
            start = index


def _steps(checks: Sequence[Check], edges: np.ndarray, name: str, scale: float) -> tuple[list[Any], list[Any]]:
    """x and y of a line that holds each value from one border to the next, broken where there is
    none."""
    xs: list[Any] = []
    ys: list[Any] = []
    for left, right, (value,) in _runs(checks, edges, name):
        gap = [] if not xs or xs[-1] == left else [None]
        xs += [*gap, left, right]
        ys += [*gap, value * scale, value * scale]
    return xs, ys


def _add_baseline(figure: go.Figure, checks: Sequence[Check], edges: np.ndarray, scale: float) -> None:
    xs: list[Any] = []
    ys: list[Any] = []
    for left, right, (mean, sd) in _runs(checks, edges, "baseline_mean", "baseline_sd"):
        low, high = (mean - sd) * scale, (mean + sd) * scale
        xs += [left, right, right, left, None]
        ys += [low, low, high, high, None]
    shared: dict[str, Any] = {"mode": "lines", "hoverinfo": "skip", "legendgroup": "baseline"}
    figure.add_scatter(
        x=xs, y=ys, fill="toself", fillcolor=_faded(_BASELINE, 0.28), line={"width": 0}, showlegend=False, **shared
    )
    xs, ys = _steps(checks, edges, "baseline_mean", scale)
    figure.add_scatter(
        x=xs, y=ys, name="baseline ± standard deviation", line={"color": _BASELINE, "width": 2}, **shared
    )
    _name_line(figure, checks, "baseline_mean", "baseline {}", scale, below=_rises(checks))


def _add_threshold(figure: go.Figure, checks: Sequence[Check], edges: np.ndarray, scale: float) -> None:
    xs, ys = _steps(checks, edges, "threshold", scale)
    if not xs:
        return
    name = "fails above" if _rises(checks) else "fails below"
    line = {"color": _THRESHOLD, "width": 1.8, "dash": "dash"}
    figure.add_scatter(x=xs, y=ys, mode="lines", name=name, line=line, hoverinfo="skip")
    _name_line(figure, checks, "threshold", name + " {}", scale, below=not _rises(checks))


def _rises(checks: Sequence[Check]) -> bool:
    """Whether a larger value is a loss."""
    return any(one["better"] == "lower" for one in checks)


def _name_line(figure: go.Figure, checks: Sequence[Check], name: str, text: str, scale: float, below: bool) -> None:
    """The name of a line and its last value, right of the figure."""
    last = next((one for one in reversed(checks) if number(one[name]) is not None), None)
    if last is None:
        return
    figure.add_annotation(
        x=1.005,
        xref="paper",
        xanchor="left",
        y=float(last[name]) * scale,
        yanchor="top" if below else "bottom",
        text=safe(text.format(amount(last[name], last["unit"]))),
        font={"size": 12},
        showarrow=False,
        yshift=4 if below else -4,
    )


def _add_line(figure: go.Figure, placed: Sequence[Placed], scale: float) -> None:
    """What connects the checks, so that a step is seen."""
    x, y = np.array([x for x, _ in placed]), np.array([one["mean"] * scale for _, one in placed])
    line = {"color": _faded(_BASELINE, 0.7), "width": 1}
    figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _add_checks(figure: go.Figure, placed: Sequence[Placed], verdict: str, scale: float) -> None:
    if not placed:
        return
    style = style_of(verdict)
    around = np.array([(number(one["sd"]) or 0.0) * scale for _, one in placed])
    figure.add_scatter(
        y=np.array([one["mean"] * scale for _, one in placed]),
        error_y={"array": around, "color": style.color, "thickness": 1, "width": 3},
        **_marks(placed, style, verdict),
    )


def _add_unmeasured(figure: go.Figure, placed: Sequence[Placed], verdict: str, named: bool) -> None:
    """Marks on the strip below the figure."""
    if placed:
        nothing = np.zeros(len(placed))
        figure.add_scatter(y=nothing, yaxis="y2", showlegend=not named, **_marks(placed, style_of(verdict), verdict))


def _marks(placed: Sequence[Placed], style: VerdictStyle, verdict: str) -> dict[str, Any]:
    """What all marks of a verdict share, with their places and what hovering shows."""
    return {
        "x": np.array([x for x, _ in placed]),
        "mode": "markers",
        "name": safe(style.label),
        "legendgroup": safe(verdict),
        "marker": {
            "color": style.color,
            "symbol": style.symbol,
            "size": 10,
            "line": {"width": 1, "color": style.color},
        },
        "text": np.array([_hover(one) for _, one in placed], dtype=object),
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }


def _hover(row: Check) -> str:
    unit = row["unit"]
    lines = [f"<b>{safe(style_of(str(row['verdict'])).label)}</b> · {when(row['checked'])}"]
    if number(row["mean"]) is not None:
        lines.append(safe(spread(row["mean"], row["sd"], row["n"], unit)))
        base = spread(row["baseline_mean"], row["baseline_sd"], row["baseline_n"], unit)
        lines.append(safe(f"baseline {base}, recorded {str(row['baseline_recorded'] or 'at an unknown time')[:10]}"))
        lines.append(safe(f"change {change(row['change_pct'])}{f', fails {fails(row)}' if fails(row) else ''}"))
    reason = reason_of(row)
    if reason:
        lines.append(safe(reason if len(reason) < 100 else f"{reason[:99]}…"))
    lines.append(safe(f"commit {commit(row)}"))
    if isinstance(row["ncu_version"], str):
        lines.append(safe(f"ncu {row['ncu_version'][:40]}, driver {str(row['driver'] or 'not collected')[:40]}"))
    return "<br>".join(lines)


def _lay_out(figure: go.Figure, edges: np.ndarray, even: bool, strip: bool, room: int) -> None:
    above = 1.01 + room / (HEIGHT - 74)  # margins and the x axis take the rest
    axis: dict[str, Any] = {"range": [float(edges[0]), float(edges[-1])], "showgrid": False}
    axis |= {"title": "checks in their order", "tickformat": "d"} if even else {"type": "date", "title": "checked, UTC"}
    figure.update_layout(
        height=HEIGHT + room,
        margin={"l": 8, "r": 176, "t": 34 + room, "b": 40},
        hovermode="closest",
        xaxis=axis,
        yaxis={"domain": [0.16 if strip else 0.0, 1.0], "automargin": True},
        legend={
            "orientation": "h",
            "y": above,
            "yanchor": "bottom",
            "x": 0,
            "itemsizing": "constant",
        },
    )
    if strip:
        below = {"domain": [0.0, 0.1], "range": [-1, 1], "showgrid": False, "tickvals": [0], "ticktext": ["no value"]}
        figure.update_layout(yaxis2={**below, "anchor": "x", "fixedrange": True}, xaxis={"anchor": "y2"})


def _faded(color: str, alpha: float) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
