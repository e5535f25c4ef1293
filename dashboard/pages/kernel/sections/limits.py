"""Launch and occupancy of one launch: what limits the CTAs of an SM, and what one more would
need."""

from __future__ import annotations

import math

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.occupancy_limits import ACHIEVED, Limit, Limits, limits_of
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.ui.components import Child, card, meter, not_collected, stat, table
from ncubble.text import values

METERED = 8
"""CTAs per SM at which the bar of a limit is full: the tight ones are told apart, the loose ones
need not be."""


def section(entry: Entry) -> Component:
    """The card: geometry and occupancy in numbers, then a row per resource."""
    found = limits_of(entry.launch.scalars)
    one = entry.launch.identity
    stats = [
        stat("Grid", values.text(one["grid"]), _count(found.grid_ctas, "CTAs")),
        stat("Block", values.text(one["block"]), _count(found.warps, "warps")),
        stat("Waves", values.fixed(found.waves, 2), _count(found.sms, "SMs")),
        stat("CTAs per SM", values.fixed(found.ctas, 0), f"limited by {_named(found.binding)}" if found.known else ""),
        stat("Theoretical occupancy", values.percent(found.theoretical_pct)),
        stat("Achieved occupancy", values.percent(found.achieved_pct)),
        stat("Cluster", _cluster(found), _count(found.clusters, "fit the GPU") if found.cluster > 0 else ""),
    ]
    parts: list[Child] = [html.Dl(stats, className="stats")]
    if not found.known:
        parts.append(not_collected("occupancy limits", "--set pipeline"))
    else:
        parts += [html.P(sentence(found), className="limits-sentence"), _table(found)]
    if math.isnan(found.achieved_pct):
        parts.append(html.P(f"Achieved occupancy needs {ACHIEVED}: --set pipeline collects it.", className="hint"))
    return card("Launch and occupancy", parts, "what keeps more CTAs off an SM")


def sentence(found: Limits) -> str:
    """What binds, and whether that matters: a grid that does not fill the GPU, or slots that are
    all taken."""
    resident = f"An SM holds {found.ctas:.0f} CTA{'' if found.ctas == 1 else 's'}; {_named(found.binding)} bind"
    resident += "s" if len(found.binding) == 1 and not found.binding[0].endswith("s") else ""
    if found.grid_binds:
        return (
            f"The grid has {found.grid_ctas:.0f} CTAs, fewer than the {found.ctas * found.sms:.0f} that the GPU holds "
            f"at once: its size limits occupancy before any resource does. {resident}."
        )
    if found.theoretical_pct >= 99.95:
        return f"{resident}, and every warp slot is taken: occupancy cannot grow."
    return f"{resident}. More CTAs hide more latency only where warps lack work; the account says whether they do."


def _table(found: Limits) -> Component:
    rows = [_row(limit, limit.resource in found.binding) for limit in found.limits]
    head = ["Resource", "CTAs per SM", "A CTA takes", "An SM has", "One more CTA would need"]
    return table(head, rows, "CTAs per SM by resource")


def _row(limit: Limit, binds: bool) -> list[Child]:
    name: Child = html.Strong(f"{limit.resource} (binds)") if binds else limit.resource
    if math.isnan(limit.ctas):
        missing = html.Span(values.NOT_COLLECTED, className="missing")
        return [name, missing, limit.uses, limit.has, ""]
    color = "var(--bad)" if binds else "var(--accent)"
    count = html.Span([meter(min(limit.ctas, METERED), METERED, color), f"{limit.ctas:.0f}"], className="metered")
    return [name, count, limit.uses, limit.has, limit.one_more or "has room"]


def _named(resources: tuple[str, ...]) -> str:
    if len(resources) == 1:
        return resources[0]
    return f"{', '.join(resources[:-1])} and {resources[-1]}"


def _count(value: float, what: str) -> str:
    return "" if math.isnan(value) else f"{value:,.0f} {what}".replace(",", " ")


def _cluster(found: Limits) -> str:
    if math.isnan(found.cluster):
        return values.NOT_COLLECTED
    return f"{found.cluster:.0f} CTAs" if found.cluster > 0 else "none"
