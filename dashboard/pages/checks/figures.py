"""One metric over the checks of one kernel on one GPU model: numbers and verdicts in words, and the
figure, as pure functions.

Verdicts are told apart by symbol and colour; baseline and threshold are lines with their names
beside them, lasting changes lines across.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ncubble.analysis.account.palette import SIDE_STYLES, VERDICT_STYLES, VerdictStyle
from ncubble.analysis.compare.words import LABELS
from ncubble.analysis.gate.history import KeptMetric, Point
from ncubble.analysis.gate.trend import TrendSeries, short
from ncubble.dashboard.ui.figures import Drawn, Figure, faded, safe
from ncubble.text.values import NOT_COLLECTED, cut, duration

DIRECTIONS: dict[str, VerdictStyle] = {
    "worse": VerdictStyle("worse", VERDICT_STYLES["regressed"].color, "triangle-down", "▼"),
    "better": VerdictStyle("better", VERDICT_STYLES["improved"].color, "triangle-up", "▲"),
    "moved": VerdictStyle("moved", VERDICT_STYLES["not_comparable"].color, "diamond", "◆"),
}
BOUNDARY = VerdictStyle("new setup", VERDICT_STYLES["nothing_measured"].color, "line-ns", "┆")
HEIGHT = 380
_BASELINE, _THRESHOLD = SIDE_STYLES[0].color, VERDICT_STYLES["regressed"].color
_SCALES = {"ns": (1e-3, "µs"), "cycle": (1.0, "cycles"), "%": (1.0, "%")}
_DAY_MS = 86_400_000.0
_LINE: Drawn = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}
_ROW, _ROWS = 15, 3
"""Height in pixels of a row of texts above a figure, and the number of rows for texts that are
close together."""
_NEAR = 0.12


def style_of(verdict: str) -> VerdictStyle:
    """How a verdict is shown; an unknown one by its own name."""
    label = verdict.replace("_", " ")[:40] or "unknown"
    return VERDICT_STYLES.get(verdict) or replace(VERDICT_STYLES["info"], label=label)


def metric_words(metric: str) -> str:
    """A metric of the gate in words; an unknown one by its name."""
    return "elapsed SM cycles" if metric == "cycles" else LABELS.get(metric, metric.replace("_", " ")[:60])


def amount(value: float | None, unit: str) -> str:
    """A mean with its unit in digits that tell a regression, or ``not collected``."""
    if value is None or unit == "ns":
        return duration(value)
    forms = {"cycle": f"{value:,.0f} cycles", "%": f"{value:.2f} %"}
    return forms.get(unit, f"{value:.5g} {unit}".strip())


def spread(mean: float | None, sd: float | None, n: int, unit: str) -> str:
    """Mean, standard deviation and number of repeats: ``44.98 % ± 0.04 (n = 5)``."""
    if mean is None:
        return NOT_COLLECTED
    form = {"ns": "{:,.2f} µs", "cycle": "{:,.0f}"}.get(unit, "{:,.2f}")
    around = "" if sd is None else f" ± {form.format(sd * 1e-3 if unit == 'ns' else sd)}"
    return f"{amount(mean, unit)}{around}{f' (n = {n})' if n else ''}"


def mean_spread(metric: KeptMetric) -> str:
    """What a check measured."""
    return spread(metric.mean, metric.sd, metric.n, metric.unit)


def baseline_spread(metric: KeptMetric) -> str:
    """What its baseline had measured."""
    return spread(metric.baseline_mean, metric.baseline_sd, metric.baseline_n, metric.unit)


def change(value: float | None) -> str:
    """A change in percent of the baseline with its sign, or ``not compared``."""
    return "not compared" if value is None else f"{value:+.2f} %"


def fails(metric: KeptMetric) -> str:
    """The value beyond which a metric fails, with the change that it stands for; empty where it is
    not gated."""
    if metric.threshold is None or not metric.baseline_mean:
        return ""
    pct = 100.0 * (metric.threshold / metric.baseline_mean - 1.0)
    return f"{'below' if pct < 0.0 else 'above'} {amount(metric.threshold, metric.unit)} ({change(pct)})"


def commit(point: Point) -> str:
    """The commit of what was measured, shortened, else that of the checkout in which it was
    checked."""
    if own := short(point.kernel.git_sha):
        return f"{own}{' with changes' if point.kernel.git_dirty else ''}"
    return f"checked at {short(point.check.sha)}" if point.check.sha else NOT_COLLECTED


def when(time: datetime) -> str:
    """A time as ``2026-11-21 14:03 UTC``."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True)
class Mark:
    """A line of the figure: before which of its checks it stands, its text, and how it is drawn."""

    place: int
    text: str
    style: VerdictStyle
    dash: str


def marks(points: Sequence[Point], trend: TrendSeries) -> list[Mark]:
    """The lines for changes and boundaries, in the order of ``points``."""
    places, lines = {point.check.check: place for place, point in enumerate(points)}, []
    for shift in trend.changes:
        style, place = DIRECTIONS[shift.direction], places[trend.checks[shift.index].check.check]
        lines.append(Mark(place, f"{style.sign} {shift.size(trend.last.metric.unit)}", style, "solid"))
    for boundary in trend.boundaries:
        what = ", ".join(what for what, _, _ in boundary.changed)
        lines.append(Mark(places[trend.checks[boundary.index].check.check], f"new {what}", BOUNDARY, "dot"))
    return sorted(lines, key=lambda mark: mark.place)


def text_rows(lines: Sequence[Mark], edges: Sequence[float]) -> list[int]:
    """The row of each text above the figure: those that stand close go up, so that none lies on
    another."""
    whole = edges[-1] - edges[0] or 1.0
    rows: list[int] = []
    for place, mark in enumerate(lines):
        close = place and (edges[mark.place] - edges[lines[place - 1].place]) / whole < _NEAR
        rows.append((rows[-1] + 1) % _ROWS if close else 0)
    return rows


def trend_figure(points: Sequence[Point], even: bool = False, moved: Sequence[Mark] = ()) -> Figure:
    """Value and spread per check with its verdict, the baseline with its band, the threshold, and
    lasting changes.

    ``points``: as ``history.of_metric`` gives them. Times are UTC; with ``even`` checks stand in
    order. A check without a value is a mark on the strip below. ``moved``: the lines of ``marks``.
    """
    metric = next((point.metric for point in points if point.metric.name), KeptMetric())
    scale, unit_words = _SCALES.get(metric.unit, (1.0, metric.unit))
    times = [point.check.checked.timestamp() * 1e3 for point in points]
    x = [float(place + 1) for place in range(len(points))] if even else times
    edges = _edges(x, even)
    placed = list(zip(x, points, strict=True))
    valued = [(x, point) for x, point in placed if point.metric.mean is not None]
    empty = [(x, point) for x, point in placed if point.metric.mean is None]
    # The last line connects the checks, so that a step is seen.
    connection = {
        "x": [x for x, _ in valued],
        "y": [(point.metric.mean or 0.0) * scale for _, point in valued],
        "line": {"color": faded(_BASELINE, 0.7), "width": 1},
        "showlegend": False,
    }
    # If a larger value is a loss, the metric fails above its threshold.
    rises = any(point.metric.better == "lower" for point in points)
    limit = "fails above" if rises else "fails below"
    dashed = {"color": _THRESHOLD, "width": 1.8, "dash": "dash"}
    threshold = _LINE | {"name": limit, "line": dashed} | _steps(points, edges, "threshold", scale)
    gated = [threshold] if any(y is not None for y in threshold["y"]) else []
    traces = [*_baseline(points, edges, scale), *gated, _LINE | connection]
    unknown = {point.verdict for point in points} - set(VERDICT_STYLES)
    for verdict in [*VERDICT_STYLES, *sorted(unknown)]:
        above = [(x, point) for x, point in valued if point.verdict == verdict]
        below = [(x, point) for x, point in empty if point.verdict == verdict]
        if above:
            around = [(point.metric.sd or 0.0) * scale for _, point in above]
            spreads = {"array": around, "color": style_of(verdict).color, "thickness": 1, "width": 3}
            means = [(point.metric.mean or 0.0) * scale for _, point in above]
            traces.append(_symbols(above, verdict) | {"y": means, "error_y": spreads})
        if below:  # marks on the strip below the figure; the legend may already show the verdict
            strip = {"y": [0.0] * len(below), "yaxis": "y2", "showlegend": not above}
            traces.append(_symbols(below, verdict) | strip)
    rows = text_rows(moved, edges)
    layout = _layout(edges, even, bool(empty), 4 + _ROW * (1 + max(rows)) if moved else 0)
    layout["yaxis"]["title"] = {"text": safe(f"{metric_words(metric.name)}, {unit_words}"), "standoff": 8}
    texts = list(_line_names(points, scale, rises, limit))
    text = {"y": 1, "yref": "paper", "yanchor": "bottom", "font": {"size": 12}, "showarrow": False}
    line = {"type": "line", "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    shapes = []
    for mark, row in zip(moved, rows, strict=True):
        at = edges[mark.place]
        look = {"color": mark.style.color, "width": 1.6, "dash": mark.dash}
        shapes.append({**line, "x0": at, "x1": at, "line": look})
        texts.append({**text, "x": at, "yshift": _ROW * row, "text": safe(mark.text)})
    return Figure(traces, layout | {"shapes": shapes, "annotations": texts})


def _edges(x: Sequence[float], even: bool) -> list[float]:
    """Borders halfway between checks, one more than there are checks, with some room at both
    ends."""
    if not x:
        return [0.0, 1.0]
    room = 0.5 if even else max(0.03 * (x[-1] - x[0]), _DAY_MS / 48)
    return [x[0] - room, *((a + b) / 2 for a, b in itertools.pairwise(x)), x[-1] + room]


def _stretches(
    points: Sequence[Point], edges: Sequence[float], *names: str
) -> Iterator[tuple[float, float, list[float]]]:
    """Borders and values of each stretch over which all of ``names`` hold the same numbers, without
    values where they lack any."""
    values = [[getattr(point.metric, name) for name in names] for point in points]
    for numbers, places in itertools.groupby(range(len(points)), values.__getitem__):
        first, *more = places
        yield edges[first], edges[first + len(more) + 1], [] if None in numbers else numbers


def _steps(points: Sequence[Point], edges: Sequence[float], name: str, scale: float) -> Drawn:
    """x and y of a line that holds each value from one border to the next, broken where there is
    none."""
    stretches = list(_stretches(points, edges, name))
    return {
        "x": [x for left, right, _ in stretches for x in (left, right)],
        "y": [value[0] * scale if value else None for _, _, value in stretches for _ in ("left", "right")],
    }


def _baseline(points: Sequence[Point], edges: Sequence[float], scale: float) -> list[Drawn]:
    """The band of a standard deviation around the baseline, and its line."""
    shared = _LINE | {"legendgroup": "baseline"}
    bands = [band for band in _stretches(points, edges, "baseline_mean", "baseline_sd") if band[2]]
    around = [((mean - sd) * scale, (mean + sd) * scale) for _, _, (mean, sd) in bands]
    corners = {
        "x": [x for left, right, _ in bands for x in (left, right, right, left, None)],
        "y": [y for low, high in around for y in (low, low, high, high, None)],
    }
    band = {"fill": "toself", "fillcolor": faded(_BASELINE, 0.28), "line": {"width": 0}, "showlegend": False}
    line = {"name": "baseline ± standard deviation", "line": {"color": _BASELINE, "width": 2}}
    return [shared | band | corners, shared | line | _steps(points, edges, "baseline_mean", scale)]


def _line_names(points: Sequence[Point], scale: float, rises: bool, limit: str) -> Iterator[Drawn]:
    """The names of baseline and threshold with their last values, right of the figure."""
    for name, words, below in (("baseline_mean", "baseline", rises), ("threshold", limit, not rises)):
        known = ((getattr(point.metric, name), point.metric.unit) for point in reversed(points))
        value, unit = next((pair for pair in known if pair[0] is not None), (None, ""))
        if value is not None:
            yield {
                **{"x": 1.005, "xref": "paper", "xanchor": "left", "y": value * scale, "showarrow": False},
                **{"yanchor": "top" if below else "bottom", "yshift": 4 if below else -4, "font": {"size": 12}},
                "text": safe(f"{words} {amount(value, unit)}"),
            }


def _symbols(placed: Sequence[tuple[float, Point]], verdict: str) -> Drawn:
    """What all marks of a verdict share, with their places and what hovering shows."""
    style = style_of(verdict)
    line = {"width": 1, "color": style.color}
    return {
        **{"type": "scatter", "mode": "markers", "cliponaxis": False, "hovertemplate": "%{text}<extra></extra>"},
        **{"name": safe(style.label), "legendgroup": safe(verdict)},
        "marker": {"color": style.color, "symbol": style.symbol, "size": 10, "line": line},
        "x": [x for x, _ in placed],
        "text": [_hover(point) for _, point in placed],
    }


def _hover(point: Point) -> str:
    kernel, metric, lines = point.kernel, point.metric, []
    if metric.mean is not None:
        recorded = kernel.baseline_recorded[:10] or "at an unknown time"
        limit = f", fails {fails(metric)}" if fails(metric) else ""
        lines += [mean_spread(metric), f"baseline {baseline_spread(metric)}, recorded {recorded}"]
        lines.append(f"change {change(metric.change_pct)}{limit}")
    if reason := point.reason:
        lines.append(cut(reason, 100))
    lines.append(f"commit {commit(point)}")
    if kernel.ncu_version:
        lines.append(f"ncu {kernel.ncu_version[:40]}, driver {kernel.driver[:40] or 'not collected'}")
    title = f"<b>{safe(style_of(point.verdict).label)}</b> · {when(point.check.checked)}"
    return "<br>".join([title, *map(safe, lines)])


def _layout(edges: Sequence[float], even: bool, strip: bool, room: int) -> Drawn:
    """``strip`` for checks without a value below the figure, ``room`` in pixels for texts above."""
    above = 1.01 + room / (HEIGHT - 74)  # margins and the x axis take the rest
    title = "checks in order" if even else "checked, UTC"
    kind = {"tickformat": "d"} if even else {"type": "date", "tickangle": 0, "nticks": 3}
    below = {"domain": [0.0, 0.1], "range": [-1, 1], "showgrid": False, "tickvals": [0], "ticktext": ["no value"]}
    x_axis = {"range": [edges[0], edges[-1]], "showgrid": False, "automargin": True, **kind}
    return {
        "height": HEIGHT + room,
        "margin": {"l": 8, "r": 176, "t": 34 + room, "b": 40},
        "hovermode": "closest",
        "xaxis": {**x_axis, "title": {"text": title, "standoff": 8}, **({"anchor": "y2"} if strip else {})},
        "yaxis": {"domain": [0.16 if strip else 0.0, 1.0], "automargin": True},
        **({"yaxis2": {**below, "anchor": "x", "fixedrange": True}} if strip else {}),
        "legend": {"orientation": "h", "y": above, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
    }
