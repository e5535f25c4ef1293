"""One sweep: what to vary and to fix, what is best, its figures, its numbers, and predictions
beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import WORK, part_label
from ncubble.analysis.diagnosis import words
from ncubble.analysis.sweeps.model import PointSpread, Sweep, SweepPoint, SweepSeries, timed
from ncubble.analysis.sweeps.noise import noise_words
from ncubble.analysis.sweeps.prediction import is_depth
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import CompareAddress, SweepAddress
from ncubble.dashboard.pages.sweep import parallel, parts
from ncubble.dashboard.pages.sweep.figures import MOST_SERIES, series_figure, style_of
from ncubble.dashboard.pages.sweep.predicted import TITLE as PREDICTED
from ncubble.dashboard.pages.sweep.predicted import prediction_section
from ncubble.dashboard.ui.components import Child, absent, aria, card, choices, crumbs, figure, guarded, note, table
from ncubble.text import values as shown
from ncubble.text.values import SI_TIME

Y_WORDS = {
    "time": "time",
    "cycles": "cycles",
    "time-best": "time relative to the best",
    "cycles-best": "cycles relative to the best",
}
MOST_LINKS = 10
"""Maximum linked launches per value."""
_LACKING = "Not collected: none of these launches has {}. Profile with"


def sweep_page(store: ReportStore, sweeps: Sequence[Sweep], chosen: Sweep, address: SweepAddress) -> Component:
    """The page of one sweep; ``chosen`` holds the series that the address leaves, of which a few
    are drawn."""
    drawn = replace(chosen, series=chosen.series[:MOST_SERIES])
    address = replace(address, kernel=chosen.kernel, parameter=chosen.parameter, gpu=chosen.gpu)
    figures = [guarded("Utilization", lambda: _busy(drawn)), guarded("Time", lambda: _took(drawn, address))]
    sections = [
        guarded("Result", lambda: _result(drawn)),
        html.Div(figures, className="columns"),
        guarded(parts.TITLE, lambda: parts.section(drawn)),
    ]
    if is_depth(drawn.parameter, drawn.series):
        sections.append(guarded(PREDICTED, lambda: prediction_section(store, drawn, address)))
    sections += parallel.places(store, address)
    sections.append(guarded("Numbers", lambda: _numbers(drawn)))
    more = len(chosen.series) - len(drawn.series)
    left_out = [note("info", f"{more} more series are not drawn. Fix a parameter to see them.")] if more > 0 else []
    return html.Div([_head(drawn), _choices(sweeps, chosen, address), *left_out, *sections], className="sweep-page")


def _head(sweep: Sweep) -> Component:
    name, gpu = shown.short_name(sweep.kernel, 90), sweep.gpu_shown or "an unknown GPU"
    lead = f"{name} on {gpu}: {len(sweep.values())} values, {len(sweep.series)} series, {sweep.launches} launches"
    back = crumbs("Back", dcc.Link("← All sweeps", href=SweepAddress.PATH, className="button"))
    title = html.H1(f"Sweep of {sweep.parameter}")
    return html.Div(
        [back, title, html.P(lead, className="lead", title=sweep.kernel)], className="page-head compare-head"
    )


def _choices(sweeps: Sequence[Sweep], chosen: Sweep, address: SweepAddress) -> Component:
    """Links to the other sweeps of this kernel, and to those series that share the value of another
    parameter."""
    alike = [sweep for sweep in sweeps if sweep.kernel == chosen.kernel]
    whole = next(sweep for sweep in alike if _identity(sweep) == _identity(chosen))
    gpus = [sweep for sweep in alike if sweep.parameter == whole.parameter]
    parameters = [
        (sweep.parameter, SweepAddress(sweep.kernel, sweep.parameter, sweep.gpu).href(), sweep is whole)
        for sweep in alike
        if sweep.gpu == whole.gpu
    ]
    lines = [choices("parameter", parameters)]
    if len(gpus) > 1:
        links = [(s.gpu_shown or "unknown", address.href(gpu=s.gpu, fixed=(), start=""), s is whole) for s in gpus]
        lines.append(choices("GPU", links))
    fixed = dict(address.fixed)
    for name, values in whole.varying().items():
        links = [("all", address.fixing(name, None), name not in fixed)]
        links += [(value, address.fixing(name, value), fixed.get(name) == value) for value in values if value]
        lines.append(choices(name, links))
    lines.append(choices("time as", [(text, address.href(y=y), y == address.y) for y, text in Y_WORDS.items()]))
    return html.Section(html.Dl(lines, className="sweep-choices"), className="card", **aria(label="Quantity"))


def _identity(sweep: Sweep) -> tuple[str, ...]:
    return sweep.gpu, sweep.parameter, sweep.kind


def _result(sweep: Sweep) -> Component:
    """A sentence for each series: where it is best and worst, and a link that compares the two."""
    items = [_sentence(sweep, series, name) for series, name in zip(sweep.series, sweep.names(), strict=True)]
    body = html.Ul(items, className="sweep-result")
    return html.Section(body, className="card verdict", **aria(label="Result"))


def _sentence(sweep: Sweep, series: SweepSeries, name: str) -> Component:
    prefix = [html.Strong(f"{shown.short_name(name, 80)}: ")] if len(sweep.series) > 1 else []
    ends = series.ends()
    if ends is None:
        return html.Li([*prefix, "neither times nor cycles were collected; profile with ", html.Code("--set pipeline")])
    best, worst, metric = ends
    text = f"Best: {_took_at(sweep, best, metric)}. Worst: {_took_at(sweep, worst, metric)}"
    if series.ratio >= 1.0005:
        text += f", {100 * (series.ratio - 1):.1f} % more"
    text += noise_words(best, worst, metric, sum(point.spread(metric) is not None for point in series.points))
    href = CompareAddress((str(worst.typical()["id"]), str(best.typical()["id"]))).href()
    link = dcc.Link("compare the two", href=href, className="button small")
    return html.Li([*prefix, f"{text}. ", link])


def _took_at(sweep: Sweep, point: SweepPoint, metric: str) -> str:
    spread = point.spread(metric)
    took = shown.duration(spread and spread.mean)
    if metric == "cycles" and spread is not None:
        took = f"{spread.mean:,.0f} cycles"
    return f"{took} at {sweep.parameter} {point.value}"


def _busy(sweep: Sweep) -> Component:
    unit = words.unit_words(sweep.unit()) if sweep.unit() == "tensor" else sweep.unit()
    title = f"{unit or 'busiest unit'} busy, %"
    drawn = series_figure(sweep.series, sweep.names(), sweep.busy, (sweep.parameter, title), "%", "high")
    if not drawn.data:
        return card("Utilization", [note("empty", _LACKING.format("utilization of any unit"), "--set pipeline")])
    placed = figure("sweep-busy", drawn, f"{title} of elapsed cycles over {sweep.parameter}")
    return card("Utilization", [placed], "" if unit else "of the unit that limits each launch")


def _took(sweep: Sweep, address: SweepAddress) -> Component:
    """Time or cycles, in the scale that suits them."""
    words = Y_WORDS[address.y]
    scale, unit = _scale(sweep, address.y)
    title = f"{words}, {unit}" if unit not in ("", "×") else words

    def read(series: SweepSeries, point: SweepPoint) -> PointSpread | None:
        took = timed(address.y, series, point)
        return took and PointSpread(took.mean / scale, took.low / scale, took.high / scale, took.n)

    drawn = series_figure(sweep.series, sweep.names(), read, (sweep.parameter, title), unit, "low")
    name = "Time" if address.y.startswith("time") else "Cycles"
    if not drawn.data:
        return card(name, [note("empty", _LACKING.format(words), "--set pipeline")])
    hint = "as a multiple of the best of each series" if unit == "×" else ""
    return card(name, [figure("sweep-time", drawn, f"{title} over {sweep.parameter}")], hint)


def _scale(sweep: Sweep, y: str) -> tuple[float, str]:
    """What values are divided by, and the unit that they have then."""
    if y.endswith("-best"):
        return 1.0, "×"
    if y == "cycles":
        return 1.0, "cycles"
    spreads = (point.spread("duration_ns") for series in sweep.series for point in series.points)
    most = max((spread.mean for spread in spreads if spread), default=1.0)
    return next((pair for pair in SI_TIME if most >= pair[0]), SI_TIME[-1])


def _numbers(sweep: Sweep) -> Component:
    """A table for each series, one line per value: share, time, cycles, the largest bubble, links
    to the launches."""
    unit = "tensor" if sweep.unit() == "tensor" else sweep.unit() or "unit"
    head = [sweep.parameter, f"{unit} busy", "time", "cycles", "relative to the best", "largest bubble", "launches"]
    tables: list[Component] = []
    for index, (series, name) in enumerate(zip(sweep.series, sweep.names(), strict=True)):
        if len(sweep.series) > 1:
            swatch = html.Span(className="swatch", style={"background": style_of(index)[0].color})
            tables.append(html.H3([swatch, shown.short_name(name, 110)]))
        rows = [_cells(sweep, series, point) for point in series.points]
        tables.append(table(head, rows, f"Numbers of {name} by {sweep.parameter}", numeric=(1, 2, 3, 4)))
    return card("Numbers", tables, "mean, and minimum to maximum of several launches")


def _cells(sweep: Sweep, series: SweepSeries, point: SweepPoint) -> list[Child]:
    against = shown.NOT_COLLECTED
    if ends := series.ends():
        best, _, metric = ends
        own, least = point.spread(metric), best.spread(metric)
        if own and least and least.mean > 0:
            against = "best" if point is best else f"+{100 * (own.mean / least.mean - 1):.1f} %"
    bubbles = {name: share for name, share in point.account()[0].items() if name not in WORK and share > 0}
    bubble = max(bubbles, key=bubbles.__getitem__, default="")
    links: list[Child] = []
    for number, row in enumerate(point.rows[:MOST_LINKS], 1):
        where = f"{row['path']}, launch {row['launch']}"
        links += [dcc.Link(str(number), href=f"/kernel/{row['id']}", title=where), " "]
    if len(point.rows) > MOST_LINKS:
        links.append(f"and {len(point.rows) - MOST_LINKS} more")
    return [
        point.value,
        _with_range(sweep.busy(series, point), lambda value: f"{value:.1f}", " %"),
        _with_range(point.spread("duration_ns"), shown.duration),
        _with_range(point.spread("cycles"), lambda value: f"{value:,.0f}"),
        against,
        f"{part_label(bubble)} {bubbles[bubble]:.1f} %" if bubble else shown.NOT_COLLECTED,
        html.Span(links, className="sweep-links"),
    ]


def _with_range(spread: PointSpread | None, write: Callable[[float], str], unit: str = "") -> Child:
    """The mean; the least and most of several launches beside it where they read differently."""
    if spread is None:
        return absent()
    mean, low, high = (write(value) for value in (spread.mean, spread.low, spread.high))
    if low == high:
        return f"{mean}{unit}"
    return html.Span([f"{mean}{unit}", html.Span(f" {low} to {high}", className="hint")])
