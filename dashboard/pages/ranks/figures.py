"""The figure of the Ranks page: the time of one launch on every rank, split by its account. Pure;
names no theme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ncubble.analysis.account.parts import PARTS, part_label
from ncubble.dashboard.ui.drawn import Drawn, Figure, figure_of, filled
from ncubble.dashboard.ui.figures import safe

ROW_PX = 26
MOST_RANKS = 64


@dataclass(frozen=True)
class Took:
    """Duration in ns and account in percent of one rank; an empty account where there is none."""

    duration_ns: float
    account: Mapping[str, float]


def ranks_figure(took: Mapping[int, Took]) -> Figure:
    """One bar per rank, rank 0 on top, as long as the launch took in µs; of more than
    ``MOST_RANKS`` the slowest."""
    slowest = sorted(took, key=lambda rank: -took[rank].duration_ns)[:MOST_RANKS]
    shown = sorted(slowest)
    names = [f"rank {rank}" for rank in shown]
    traces: list[Drawn] = []
    for part, style in PARTS.items():
        times = [took[rank].duration_ns / 1e3 * took[rank].account.get(part, 0.0) / 100 for rank in shown]
        if any(times):
            shares = [took[rank].account.get(part, 0.0) for rank in shown]
            traces.append(_part(safe(part_label(part)), names, times, shares, filled(style.color, style.hatch)))
    whole = [0.0 if took[rank].account else took[rank].duration_ns / 1e3 for rank in shown]
    if any(whole):
        traces.append(_part("not split", names, whole, [100.0] * len(whole), filled("#808890", "")))
    layout: Drawn = {
        "barmode": "stack",
        "bargap": 0.2,
        "showlegend": False,
        "height": 54 + ROW_PX * max(len(shown), 1),
        "margin": {"l": 8, "r": 22, "t": 4, "b": 44},
        "xaxis": {"title": {"text": "time of the launch, µs", "standoff": 8}, "rangemode": "tozero"},
        "yaxis": {
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "ticksuffix": " ",
            "type": "category",
        },
    }
    return figure_of(traces, layout)


def _part(label: str, names: list[str], times: list[float], shares: list[float], marker: Drawn) -> Drawn:
    return {
        "type": "bar",
        "x": [round(time, 4) for time in times],
        "y": names,
        "orientation": "h",
        "name": label,
        "customdata": [round(share, 3) for share in shares],
        "marker": marker,
        "hovertemplate": f"%{{y}} <b>{label}</b> %{{x:.2f}} µs, %{{customdata:.1f}} %<extra></extra>",
    }
