"""Tables of the Sweep page. Text from reports only ever becomes string children."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import WORK, display_order, part_label
from ncubble.analysis.sweeps.model import PointSpread, Sweep, SweepPoint, SweepSeries
from ncubble.dashboard.pages.sweep.figures import style_of
from ncubble.dashboard.ui.components import table
from ncubble.text import values

MOST_LINKS = 10
"""Launches of one value that have a link."""


def numbers_tables(one: Sweep) -> list[Component]:
    """A table for each series, one line per value: share, time, cycles, the largest bubble, links
    to the launches."""
    unit = "tensor" if one.unit() == "tensor" else one.unit() or "unit"
    head = [one.parameter, f"{unit} busy", "time", "cycles", "against the best", "largest bubble", "launches"]
    found: list[Component] = []
    for index, (series, name) in enumerate(zip(one.series, one.names(), strict=True)):
        if len(one.series) > 1:
            found.append(_series_title(index, name))
        rows = [_cells(one, series, point) for point in series.points]
        found.append(table(head, rows, f"Numbers of {name} by {one.parameter}", numeric=(1, 2, 3, 4)))
    return found


def _series_title(index: int, name: str) -> Component:
    style, _ = style_of(index)
    return html.H3([html.Span(className="swatch", style={"background": style.color}), values.short_name(name, 110)])


def _cells(sweep: Sweep, series: SweepSeries, point: SweepPoint) -> list[Component | str]:
    took, ends = point.spread("duration_ns"), series.ends()
    least = ends[0].spread(ends[2]) if ends else None
    own = point.spread(ends[2]) if ends else None
    against = ""
    if own and least and least.mean > 0:
        more = 100 * (own.mean / least.mean - 1)
        against = "best" if ends and point is ends[0] else f"+{more:.1f} %"
    return [
        point.value,
        _with_range(sweep.busy(series, point), lambda value: f"{value:.1f}", " %"),
        _with_range(took, values.duration),
        _with_range(point.spread("cycles"), lambda value: f"{value:,.0f}"),
        against or values.NOT_COLLECTED,
        _largest(point),
        _links(point),
    ]


def _with_range(found: PointSpread | None, tell: Callable[[float], str], unit: str = "") -> Component | str:
    """The mean; the least and most of several launches beside it where they read differently."""
    if found is None:
        return html.Span(values.NOT_COLLECTED, className="missing")
    mean, low, high = (tell(value) for value in (found.mean, found.low, found.high))
    if low == high:
        return f"{mean}{unit}"
    return html.Span([f"{mean}{unit}", html.Span(f" {low} to {high}", className="hint")])


def _largest(point: SweepPoint) -> str:
    account = {name: share for name, share in point.account()[0].items() if name not in WORK and share > 0}
    if not account:
        return values.NOT_COLLECTED
    name = max(account, key=lambda part: account[part])
    return f"{part_label(name)} {account[name]:.1f} %"


def _links(point: SweepPoint) -> Component:
    links: list[Component | str] = []
    for number, row in enumerate(point.rows[:MOST_LINKS], 1):
        told = f"{row['path']}, launch {row['launch']}"
        links += [dcc.Link(str(number), href=f"/kernel/{row['id']}", title=told), " "]
    if len(point.rows) > MOST_LINKS:
        links.append(f"and {len(point.rows) - MOST_LINKS} more")
    return html.Span(links, className="sweep-links")


def parts_table(parameter: str, series: Sequence[SweepSeries], names: Sequence[str], unit: str) -> Component:
    """The accounts in numbers: one line per series and value, one column per part."""
    accounts = [
        (name, point, point.account()[0]) for one, name in zip(series, names, strict=True) for point in one.points
    ]
    present = {part for _, _, account in accounts for part, share in account.items() if share >= 0.05}
    parts = display_order(sorted(present))
    several = len(series) > 1
    head = [*(["Series"] if several else []), parameter, *(part_label(part, unit) for part in parts)]
    rows = [
        [*([name] if several else []), point.value, *(_share(account, part) for part in parts)]
        for name, point, account in accounts
    ]
    numeric = range(1 + several, len(head))
    return table(head, rows, f"Parts of the account in percent of elapsed SM cycles, by {parameter}", list(numeric))


def _share(account: dict[str, float], part: str) -> str:
    """A part that an account does not name is none of it; without an account nothing is known."""
    return f"{account.get(part, 0.0):.1f}" if account else values.NOT_COLLECTED
