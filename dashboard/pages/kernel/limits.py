"""Launch and occupancy of one launch: what limits the CTAs of an SM, and what one more would
need."""

from __future__ import annotations

import math

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.occupancy_limits import ACHIEVED, Limit, Limits, limits_of
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.ui.components import Child, absent, card, joined, meter, not_collected, stat, table
from ncubble.text import values

METERED = 8
"""CTAs per SM at which the bar of a limit is full: only tight limits need to be distinguishable."""
_HEAD = ("Resource", "CTAs per SM", "A CTA takes", "An SM has", "One more CTA would need")


def section(entry: Entry) -> Component:
    """The card: geometry and occupancy in numbers, then a row per resource."""
    limits, launch = limits_of(entry.launch.scalars), entry.launch.identity
    cluster = "none" if limits.cluster <= 0 else f"{values.fixed(limits.cluster, 0)} CTAs"
    stats = [
        stat("Grid", values.text(launch.grid), _count(limits.grid_ctas, "CTAs")),
        stat("Block", values.text(launch.block), _count(limits.warps, "warps")),
        stat("Waves", values.fixed(limits.waves, 2), _count(limits.sms, "SMs")),
        stat(
            "CTAs per SM", values.fixed(limits.ctas, 0), f"limited by {joined(limits.binding)}" if limits.known else ""
        ),
        stat("Theoretical occupancy", values.percent(limits.theoretical_pct)),
        stat("Achieved occupancy", values.percent(limits.achieved_pct)),
        stat(
            "Cluster",
            values.NOT_COLLECTED if math.isnan(limits.cluster) else cluster,
            _count(limits.clusters, "fit on the GPU") if limits.cluster > 0 else "",
        ),
    ]
    parts: list[Child] = [html.Dl(stats, className="stats")]
    if limits.known:
        rows = [_row(limit, limit.resource in limits.binding) for limit in limits.limits]
        parts += [html.P(sentence(limits), className="limits-sentence"), table(_HEAD, rows, "CTAs per SM by resource")]
    else:
        parts.append(not_collected("occupancy limits", "--set pipeline"))
    if math.isnan(limits.achieved_pct):
        parts.append(html.P(f"Achieved occupancy needs {ACHIEVED}; --set pipeline collects it.", className="hint"))
    return card("Launch and occupancy", parts, "what limits the CTAs per SM")


def sentence(limits: Limits) -> str:
    """What binds, and whether that matters: a grid that does not fill the GPU, or slots that are
    all taken."""
    verb = "binds" if len(limits.binding) == 1 and not limits.binding[0].endswith("s") else "bind"
    ctas = f"{limits.ctas:.0f} CTA{'' if limits.ctas == 1 else 's'}"
    resident = f"An SM holds {ctas}; {joined(limits.binding)} {verb}"
    if limits.grid_binds:
        return (
            f"The grid has {limits.grid_ctas:.0f} CTAs, fewer than the {limits.ctas * limits.sms:.0f} "
            "that the GPU holds at once: the grid size limits occupancy before any resource does. "
            f"{resident}."
        )
    if limits.theoretical_pct >= 99.95:
        return f"{resident}, and every warp slot is in use: occupancy cannot grow."
    return f"{resident}. More CTAs hide more latency only if warps lack work; see the account."


def _row(limit: Limit, binds: bool) -> list[Child]:
    name: Child = html.Strong(f"{limit.resource} (binds)") if binds else limit.resource
    if math.isnan(limit.ctas):
        return [name, absent(), limit.uses, limit.has, ""]
    color = "var(--bad)" if binds else "var(--accent)"
    count = html.Span([meter(min(limit.ctas, METERED), METERED, color), f"{limit.ctas:.0f}"], className="metered")
    return [name, count, limit.uses, limit.has, limit.one_more or "has room"]


def _count(value: float, what: str) -> str:
    return "" if math.isnan(value) else f"{value:,.0f} {what}".replace(",", " ")
