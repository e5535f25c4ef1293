"""The account of a trace of warps: where the time of the recorded SMs goes, without counters."""

from __future__ import annotations

from functools import lru_cache

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import part_label, part_style
from ncubble.analysis.traces.account import CANNOT_TELL, WORK, TraceAccount, trace_account
from ncubble.analysis.traces.lanes import LaneRun
from ncubble.analysis.traces.run import read_warps
from ncubble.dashboard.ui.components import Child, meter, swatch, table
from ncubble.errors import NcubbleError
from ncubble.text.values import fixed

TITLE = "Where the time of the recorded SMs goes"
SOURCE = "Source: the probe trace, no counters. Not visible in it"


@lru_cache(maxsize=4)
def _account(run: LaneRun, stamp: int) -> TraceAccount | None:
    try:
        return trace_account(read_warps(run))
    except NcubbleError:  # already stated on the page
        return None


def account_table(run: LaneRun, stamp: int) -> list[Component]:
    """A table of the parts; nothing where the run is no trace of warps that compute. ``stamp``:
    when its file changed last."""
    known = _account(run, stamp)
    if known is None:
        return []
    rows: list[list[Child]] = []
    for part, pct in known.parts.items():
        bounds = sorted((known.at_least[part], known.at_most[part]))
        if max(pct, *bounds) < 0.05:
            continue
        style = part_style("unit_busy" if part == WORK else part)
        name = html.Span([swatch(style.color, style.hatch), part_label(part)], className="part-name")
        spread = " to ".join(fixed(bound, 1) for bound in bounds)
        rows.append([name, fixed(pct, 1), spread, meter(pct, color=style.color)])
    head = ["Part", "% of time", "Range", ""]
    text = f"{SOURCE}: {'; '.join(CANNOT_TELL)}."
    parts = [html.H3(TITLE), table(head, rows, TITLE, (1, 2)), html.P(text, className="hint")]
    return [html.Div(parts, className="lane-table")]
