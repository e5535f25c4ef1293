"""One sweep: what to vary and to fix, what is best, its figures, its numbers, and predictions
beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import display_order, part_label, part_style
from ncubble.analysis.diagnosis import words
from ncubble.analysis.sweeps.model import PointSpread, Sweep, SweepPoint, SweepSeries, timed
from ncubble.analysis.sweeps.noise import noise_words
from ncubble.analysis.sweeps.prediction import is_depth
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.compare.address import CompareAddress
from ncubble.dashboard.pages.sweep.address import SweepAddress
from ncubble.dashboard.pages.sweep.choice import choices
from ncubble.dashboard.pages.sweep.figures import MOST_SERIES, parts_figure, series_figure
from ncubble.dashboard.pages.sweep.predicted import prediction_section
from ncubble.dashboard.pages.sweep.tables import numbers_tables, parts_table
from ncubble.dashboard.ui.components import aria, card, figure, guarded, note, swatch
from ncubble.text import values as shown
from ncubble.text.values import SI_TIME

Y_WORDS = {
    "time": "time",
    "cycles": "cycles",
    "time-best": "time against the best",
    "cycles-best": "cycles against the best",
}


def sweep_page(store: ReportStore, all_found: Sequence[Sweep], chosen: Sweep, address: SweepAddress) -> Component:
    """The page of one sweep; ``chosen`` holds the series that the address leaves, of which a few
    are drawn."""
    whole = next(one for one in all_found if _same(one, chosen))
    drawn = replace(chosen, series=chosen.series[:MOST_SERIES])
    address = replace(address, kernel=chosen.kernel, parameter=chosen.parameter, gpu=chosen.gpu)
    sections = [
        guarded("Result", lambda: _result(drawn)),
        html.Div(
            [
                guarded("Utilization", lambda: _busy(drawn)),
                guarded("Time", lambda: _took(drawn, address)),
            ],
            className="columns",
        ),
        guarded("Parts of the account", lambda: _parts(drawn)),
    ]
    if is_depth(drawn.parameter, drawn.series):
        title = "Predicted against measured"
        sections.append(guarded(title, lambda: prediction_section(store, drawn, address)))
    sections.append(
        guarded(
            "Numbers", lambda: card("Numbers", numbers_tables(drawn), "mean, and least to most of several launches")
        )
    )
    more = len(chosen.series) - len(drawn.series)
    left_out = [note("info", f"{more} more series are not drawn. Fix a parameter to see them.")] if more > 0 else []
    return html.Div([_head(drawn), _choices(all_found, whole, address), *left_out, *sections], className="sweep-page")


def _same(one: Sweep, other: Sweep) -> bool:
    return (one.kernel, one.gpu, one.parameter, one.kind) == (other.kernel, other.gpu, other.parameter, other.kind)


def _head(one: Sweep) -> Component:
    count = len(one.series)
    lead = (
        f"{shown.short_name(one.kernel, 90)} on {one.gpu_shown or 'an unknown GPU'}: {len(one.values())} values, "
        f"{count} series, {one.launches} launches"
    )
    back = html.Nav(
        dcc.Link("← All sweeps", href=SweepAddress.PATH, className="button"), className="crumbs", **aria(label="Back")
    )
    title = html.H1(f"Sweep of {one.parameter}")
    return html.Div([back, title, html.P(lead, className="lead", title=one.kernel)], className="page-head compare-head")


def _choices(all_found: Sequence[Sweep], whole: Sweep, address: SweepAddress) -> Component:
    """Links to the other sweeps of this kernel, and to those series that share the value of another
    parameter."""
    alike = [one for one in all_found if one.kernel == whole.kernel]
    parameters = [one for one in alike if one.gpu == whole.gpu]
    gpus = [one for one in alike if one.parameter == whole.parameter]
    lines = [
        choices(
            "parameter",
            [(p.parameter, SweepAddress(p.kernel, p.parameter, p.gpu).href(), p is whole) for p in parameters],
        )
    ]
    if len(gpus) > 1:
        links = [(p.gpu_shown or "unknown", address.href(gpu=p.gpu, fixed=(), start=""), p is whole) for p in gpus]
        lines.append(choices("GPU", links))
    fixed = dict(address.fixed)
    for name, values in whole.varying().items():
        links = [("all", address.fixing(name, None), name not in fixed)]
        links += [(value, address.fixing(name, value), fixed.get(name) == value) for value in values if value]
        lines.append(choices(name, links))
    lines.append(choices("time as", [(text, address.href(y=y), y == address.y) for y, text in Y_WORDS.items()]))
    return html.Section(html.Dl(lines, className="sweep-choices"), className="card", **aria(label="What is drawn"))


def _result(one: Sweep) -> Component:
    """A sentence for each series: where it is best and worst, and a link that compares the two."""
    said = [_sentence(one, series, name) for series, name in zip(one.series, one.names(), strict=True)]
    body = html.Ul(said, className="sweep-result")
    return html.Section(body, className="card verdict", **aria(label="Result"))


def _sentence(sweep: Sweep, one: SweepSeries, name: str) -> Component:
    prefix = [html.Strong(f"{shown.short_name(name, 80)}: ")] if len(sweep.series) > 1 else []
    ends = one.ends()
    if ends is None:
        return html.Li([*prefix, "neither times nor cycles were collected; profile with ", html.Code("--set pipeline")])
    best, worst, of = ends
    text = f"Best: {_took_at(sweep, best, of)}. Worst: {_took_at(sweep, worst, of)}"
    if one.ratio >= 1.0005:
        text += f", {100 * (one.ratio - 1):.1f} % more"
    known = sum(point.spread(of) is not None for point in one.points)
    text += noise_words(best, worst, of, known)
    href = CompareAddress((str(worst.typical()["id"]), str(best.typical()["id"]))).href()
    link = dcc.Link("compare the two", href=href, className="button small")
    return html.Li([*prefix, f"{text}. ", link])


def _took_at(sweep: Sweep, point: SweepPoint, of: str) -> str:
    found = point.spread(of)
    took = shown.NOT_COLLECTED if found is None else shown.duration(found.mean)
    if of == "cycles" and found is not None:
        took = f"{found.mean:,.0f} cycles"
    return f"{took} at {sweep.parameter} {point.value}"


def _busy(one: Sweep) -> Component:
    unit = words.unit_words(one.unit()) if one.unit() == "tensor" else one.unit()
    title = f"{unit or 'busiest unit'} busy, %"
    drawn = series_figure(one.series, one.names(), one.busy, (one.parameter, title), "%", "high")
    if not drawn.data:
        return card("Utilization", [_lacking("utilization of any unit", "--set pipeline")])
    label = f"{title} of elapsed cycles against {one.parameter}"
    parts = [figure("sweep-busy", drawn, label)]
    return card("Utilization", parts, "" if unit else "of the unit that bounds each launch")


def _took(one: Sweep, address: SweepAddress) -> Component:
    """Time or cycles, in the scale that suits them."""
    scale, unit = _scale(one, address.y)
    title = f"{Y_WORDS[address.y]}{f', {unit}' if unit not in ('', '×') else ''}"
    read = partial(_scaled, scale, address.y)
    drawn = series_figure(one.series, one.names(), read, (one.parameter, title), unit, "low")
    name = "Time" if address.y.startswith("time") else "Cycles"
    if not drawn.data:
        return card(name, [_lacking(Y_WORDS[address.y], "--set pipeline")])
    hint = "as a multiple of the best of each series" if unit == "×" else ""
    return card(name, [figure("sweep-time", drawn, f"{title} against {one.parameter}")], hint)


def _scale(one: Sweep, y: str) -> tuple[float, str]:
    """What values are divided by, and the unit that they have then."""
    if y.endswith("-best"):
        return 1.0, "×"
    if y == "cycles":
        return 1.0, "cycles"
    most = max((found.mean for s in one.series for p in s.points if (found := p.spread("duration_ns"))), default=1.0)
    return next((pair for pair in SI_TIME if most >= pair[0]), SI_TIME[-1])


def _scaled(scale: float, y: str, series: SweepSeries, point: SweepPoint) -> PointSpread | None:
    found = timed(y, series, point)
    return found and PointSpread(found.mean / scale, found.low / scale, found.high / scale, found.n)


def _parts(one: Sweep) -> Component:
    kept = [(series, name) for series, name in zip(one.series, one.names(), strict=True) if _accounts(series)]
    if not kept:
        return card("Parts of the account", [_lacking("counters for an account", "--set pipeline")])
    series, names = [pair[0] for pair in kept], [pair[1] for pair in kept]
    unit = "" if one.unit() == "tensor" else one.unit()
    drawn = parts_figure(series, names, one.parameter, unit)
    label = f"Parts of the bubble account in percent of elapsed SM cycles, by {one.parameter}"
    as_table = html.Details([html.Summary("View as table"), parts_table(one.parameter, series, names, unit)])
    unsplit = any("idle" in point.account()[0] for held in series for point in held.points)
    hint = "percent of elapsed SM cycles"
    parts: list[Component] = [figure("sweep-parts", drawn, label), _legend(series, unit), as_table]
    if unsplit:
        text = "Idle time that is not split: those launches have no warp samples. Profile with"
        parts.append(note("", text, "--set source"))
    return card("Parts of the account", parts, hint)


def _accounts(series: SweepSeries) -> bool:
    return any(point.account()[0] for point in series.points)


def _legend(series: Sequence[SweepSeries], unit: str) -> Component:
    """Colours and hatches of the parts that any point has; their meaning on hover."""
    most: dict[str, float] = {}
    for account in (point.account()[0] for one in series for point in one.points):
        for name, share in account.items():
            most[name] = max(most.get(name, 0.0), share)
    items: list[Any] = []
    for name in display_order(most):
        if most.get(name, 0.0) >= 0.05:
            style = part_style(name)
            items.append(html.Span([swatch(style.color, style.hatch), part_label(name, unit)], title=style.meaning))
    return html.Div(items, className="legend bare")


def _lacking(what: str, flag: str) -> Component:
    return note("empty", f"Not collected: none of these launches holds {what}. Profile with", flag)
