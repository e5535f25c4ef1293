"""Every metric of one launch in a table that is searched in the browser, with SI prefixes, raw
values and explanations; sent when it is asked for."""

from __future__ import annotations

import math
import re
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.compare.compare import MetricChange, metric_changes
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.addresses import LONGEST_SEARCH, KernelAddress
from ncubble.dashboard.pages.kernel.metric_words import UNEXPLAINED, explain
from ncubble.dashboard.ui.components import ag_grid, aria, guarded, note
from ncubble.text.values import NOT_COLLECTED

MOST = 6000
"""Maximum metrics of a launch that are sent; the largest public report has half as many."""
_COLUMNS: list[dict[str, Any]] = [
    {"field": "metric", "headerName": "Metric", "width": 430, "tooltipField": "explained", "cellClass": "mono"},
    {
        "field": "raw",
        "headerName": "Value",
        "width": 170,
        "type": "rightAligned",
        "valueFormatter": {"function": "params.data.value"},
        "tooltipField": "exact",
        "filter": "agNumberColumnFilter",
    },
    {"field": "explained", "headerName": "Explanation", "flex": 1, "minWidth": 260, "tooltipField": "explained"},
]
_BESIDE: list[dict[str, Any]] = [
    {
        "field": "before",
        "headerName": "Pinned",
        "width": 150,
        "type": "rightAligned",
        "valueFormatter": {"function": "params.data.before_words"},
        "filter": "agNumberColumnFilter",
    },
    {
        "field": "change",
        "headerName": "Change %",
        "width": 120,
        "type": "rightAligned",
        "valueFormatter": {"function": "params.data.change_words"},
        "filter": "agNumberColumnFilter",
    },
]
"""Columns added if a launch is pinned."""
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_NANO = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_PLAIN = ("%", "ratio", "")
_VECTOR = re.compile(r"pmsampling:.*|.*occupancy_per_\w+|derived__\w*avg_thread_\w+|derived__memory_\w+_nway")
"""Metrics with a value per sample, per possible CTA size, or a mean per instruction: ncu's scalar
is their sum, which is meaningless."""
SEVERAL = "several values"
_LAST = ("device__", "nvlink__", "numa__", "c2clink__", "profiler__")
"""Families listed last: they describe the machine and the profiler, not the launch."""


def section(entry: Entry, address: KernelAddress, pinned: Entry | None = None) -> Component:
    """The folded card; where the address asks for the table, it is open and filled."""
    inside: Component = html.P("Reading the metrics of this launch …", className="hint")
    if address.metrics:
        inside = guarded("All metrics", lambda: grid(entry, address.find, pinned))
    filled: dict[str, Any] = {"data-filled": "yes" if address.metrics else ""}
    summary = html.Summary(
        [html.H2("All metrics"), html.Span("with descriptions", className="hint", id="kernel-metrics-count")],
        id="metrics-open",
        n_clicks=1 if address.metrics else 0,
        **filled,
    )
    folded = html.Details([summary, html.Div(inside, id="kernel-metrics")], open=address.metrics, id="metrics-details")
    return html.Section(folded, className="card metrics-card", **aria(label="All metrics"))


def counted(entry: Entry) -> str:
    """How many there are, for the line that opens the table."""
    return f"{len(entry.launch.scalars)} of this launch, with descriptions"


def grid(entry: Entry, find: str = "", pinned: Entry | None = None) -> Component:
    """Search field and table: name, value with its SI prefix, explanation; beside the value that of
    the ``pinned`` launch, and the change from it."""
    rows = metric_rows(_metrics(entry), None if pinned is None else _metrics(pinned))
    if not rows:
        return note("empty", "This report has no metrics of this launch.")
    box = dcc.Input(
        id="metric-search",
        type="search",
        value=find,
        debounce=0.15,
        maxLength=LONGEST_SEARCH,
        className="search",
        placeholder="names, values, descriptions",
    )
    table = ag_grid(
        "metrics-grid",
        [*_COLUMNS[:2], *(_BESIDE if pinned else []), *_COLUMNS[2:]],
        {"rowHeight": 30, "headerHeight": 34, "tooltipShowDelay": 250, "animateRows": True, "quickFilterText": find},
        column={"wrapHeaderText": True},
        rowData=rows[:MOST],
        getRowId="params.data.metric",
        style={"height": "520px", "width": "100%"},
        className="metrics-grid",
    )
    parts: list[Component] = [html.Label([html.Span("Search"), box], className="metric-find live-only")]
    if pinned:
        named = dcc.Link(f"{pinned.row['name']} {pinned.row['label']}".strip(), href=f"/kernel/{pinned.row['id']}")
        parts.append(
            html.P(
                [
                    "Compared with the pinned launch ",
                    named,
                    ". With one launch on each side, the change may be noise.",
                ]
            )
        )
    return html.Div([*parts, table])


def _metrics(entry: Entry) -> pd.DataFrame:
    metrics: pd.DataFrame = entry.report.metrics
    return metrics[metrics["launch"] == entry.number]


def metric_rows(metrics: pd.DataFrame, pinned: pd.DataFrame | None = None) -> list[dict[str, Any]]:
    """Rows of ``metrics`` (metric, value, unit) of one launch, those that describe the launch
    itself first, by name.

    ``metric``, ``value`` in words, ``raw`` (None where it is not finite, or one of several),
    ``exact`` text, ``unit`` and ``explained``.
    """
    now = _named(metrics)
    changes = metric_changes(now, _named(pinned)) if pinned is not None else {}
    return [
        {
            "metric": name,
            **_value(name, *now[name]),
            "unit": now[name][1],
            "explained": explain(name) or UNEXPLAINED,
            **(_beside(changes[name], name, now[name][1]) if changes else {}),
        }
        for name in sorted(now, key=lambda name: (name.startswith(_LAST), name))
    ]


def _named(metrics: pd.DataFrame) -> dict[str, tuple[float, str]]:
    """Value and unit by name."""
    values = zip(metrics["value"].astype(float), metrics["unit"].astype(str), strict=True)
    return dict(zip(metrics["metric"].astype(str), values, strict=True))


def _beside(change: MetricChange, name: str, unit: str) -> dict[str, Any]:
    """The pinned launch's value and the change from it, as numbers and in words."""
    known = change.before is not None and not _VECTOR.fullmatch(name)
    words = si(change.before, unit) if change.before is not None and known else NOT_COLLECTED
    pct = change.pct if known else None
    changed = "" if pct is None else f"{pct:+.1f}"
    return {"before": change.before if known else None, "before_words": words, "change": pct, "change_words": changed}


def _value(name: str, value: float, unit: str) -> dict[str, Any]:
    if not math.isfinite(value):
        return {"value": NOT_COLLECTED, "raw": None, "exact": NOT_COLLECTED}
    if _VECTOR.fullmatch(name):
        per_size = "size or count" if "occupancy_per_" in name else "instruction"
        each = "sample" if name.startswith("pmsampling:") else per_size
        return {"value": SEVERAL, "raw": None, "exact": f"one per {each}; their sum is meaningless"}
    return {"value": si(value, unit), "raw": value, "exact": f"{value:.17g} {unit}".strip()}


def si(value: float, unit: str) -> str:
    """``value`` with four significant digits and the SI prefix of its unit: ``1.755 GHz``, ``41.75
    kB``, ``34.7 %``.

    Whole numbers without a unit stay as they are; bytes count in powers of 1000.
    """
    if unit in _NANO:
        return _scaled(value * _NANO[unit] * 1e-9, "s")
    if unit in _PLAIN:
        digits = f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
        return f"{digits} {unit}".strip()
    base, _, per = unit.partition("/")
    symbol = {"byte": "B", "hz": "Hz", "hertz": "Hz"}.get(base.lower(), base)
    return _scaled(value, f"{symbol}/{per}" if per else symbol)


def _scaled(value: float, unit: str) -> str:
    size = abs(value)
    if size == 0 or (value == int(value) and size < 1000):
        return f"{value:.0f} {unit}"
    for scale, prefix in (*_PREFIXES, *(_SMALL if unit == "s" else _SMALL[:1])):
        if size >= scale:
            return _join(value / scale, prefix, unit)
    return f"{value:.4g} {unit}" if unit != "s" else _join(value * 1e9, "n", "s")


def _join(value: float, prefix: str, unit: str) -> str:
    # A space separates ``k`` from a word such as ``inst`` or ``sector``; symbols are joined.
    word = len(unit.partition("/")[0]) > 2
    return f"{value:.4g} {prefix}{' ' if word and prefix else ''}{unit}"
