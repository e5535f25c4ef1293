"""The figures of the Program page: one bar of all kinds, and an icicle of all parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ncubble.analysis.account.palette import Style, text_color
from ncubble.analysis.program.tree import Node
from ncubble.dashboard.ui.figures import HATCH, Drawn, Figure, filled, safe, segment_text
from ncubble.text.values import duration, short_name

LONGEST = 60
"""Maximum length of a label; the whole label is in the tooltip."""
LEVEL_PX = 84


def kinds_bar(shares: Sequence[tuple[str, float, Style]]) -> Figure:
    """One bar of 100 % of the span: name, percent and style of each segment."""
    traces: list[Drawn] = [
        {
            "type": "bar",
            "orientation": "h",
            "x": [pct],
            "y": [""],
            "name": name,
            "marker": filled(style.color, style.hatch),
            "text": [segment_text(name, pct)],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "textfont": {"color": text_color(style.color), "size": 12},
            "constraintext": "none",
            "hovertemplate": f"{name}: %{{x:.1f}} %<extra></extra>",
        }
        for name, pct, style in shares
    ]
    layout: Drawn = {
        "height": 84,
        "barmode": "stack",
        "showlegend": False,
        "margin": {"l": 0, "r": 0, "t": 4, "b": 28},
        "xaxis": {"range": [0, 100], "ticksuffix": " %", "showgrid": False},
        "yaxis": {"visible": False},
    }
    return Figure(traces, layout)


def icicle(root: Node) -> Figure:
    """The tree from top to bottom, each node as wide as its time."""
    rows = list(_rows(root, "", "0"))
    ids, parents, nodes = zip(*rows, strict=True)
    trace: Drawn = {
        "type": "icicle",
        "ids": list(ids),
        "parents": list(parents),
        "labels": [safe(short_name(node.label, LONGEST)) for node in nodes],
        "values": [node.ns for node in nodes],
        "text": [f"{duration(node.ns)}, {node.pct:.1f} %" for node in nodes],
        "customdata": [safe(node.label) for node in nodes],
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v", "pad": 1},
        "leaf": {"opacity": 1},
        "pathbar": {"visible": True, "thickness": 24},
        "textposition": "middle center",
        "texttemplate": "%{label}<br>%{text}",
        "hovertemplate": "%{customdata}<br>%{text}<extra></extra>",
        "textfont": {"color": [text_color(node.style.color) for node in nodes]},
        "marker": {
            "colors": [node.style.color for node in nodes],
            "line": {"width": 1, "color": "rgba(255,255,255,0.35)"},
            "pattern": {
                **HATCH,
                "shape": [node.style.hatch for node in nodes],
                "bgcolor": [node.style.color for node in nodes],
            },
        },
    }
    layout: Drawn = {
        "height": 40 + LEVEL_PX * (1 + max(name.count("/") for name in ids)),
        "margin": {"l": 0, "r": 0, "t": 26, "b": 0},
        "uniformtext": {"minsize": 10, "mode": "hide"},
    }
    return Figure([trace], layout)


def _rows(node: Node, parent: str, name: str) -> Iterator[tuple[str, str, Node]]:
    yield name, parent, node
    for place, member in enumerate(node.members):
        yield from _rows(member, name, f"{name}/{place}")
