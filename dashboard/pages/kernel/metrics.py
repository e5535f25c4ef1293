"""Every metric of one launch in a table that is searched in the browser, with SI prefixes, raw
values and explanations; sent when it is asked for.

ncu names metrics ``UNIT__COUNTER.ROLLUP.SUBMETRIC``: a counter of a unit, its values over all
instances of that unit rolled up, put into relation. What the metric sets say about a metric comes
first, then ``metric_words.toml``, whose pieces are put together. A name with a piece that is not
known is not explained: no guess is made.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.compare.compare import metric_changes
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.addresses import LONGEST_SEARCH
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui.components import ag_grid, aria, guarded, hint, note
from ncubble.dashboard.ui.figures import REASONS
from ncubble.profiling.metrics.generations import series_prefix
from ncubble.profiling.metrics.metrics import load_sets
from ncubble.text.values import NOT_COLLECTED

MOST = 6000
"""Maximum metrics of a launch that are sent; the largest public report has half as many."""
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_NANO = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_PLAIN = ("%", "ratio", "")
_VECTOR = re.compile(r"pmsampling:.*|.*occupancy_per_\w+|derived__\w*avg_thread_\w+|derived__memory_\w+_nway")
"""Metrics with a value per sample, per possible CTA size, or a mean per instruction: ncu's scalar
is their sum, which is meaningless."""
SEVERAL = "several values"
Metrics = Mapping[str, tuple[float, str]]
"""Value and unit by name."""
_LAST = ("device__", "nvlink__", "numa__", "c2clink__", "profiler__")
"""Families listed last: they describe the machine and the profiler, not the launch."""


def _number(field: str, name: str, width: int, words: str, **more: Any) -> dict[str, Any]:
    """A column of numbers that shows another field of its row."""
    form = {"type": "rightAligned", "valueFormatter": {"function": f"params.data.{words}"}}
    return {"field": field, "headerName": name, "width": width, "filter": "agNumberColumnFilter", **form, **more}


_TIP = {"tooltipField": "explained"}
_COLUMNS: list[dict[str, Any]] = [
    {"field": "metric", "headerName": "Metric", "width": 430, "cellClass": "mono", **_TIP},
    _number("raw", "Value", 170, "value", tooltipField="exact"),
    {"field": "explained", "headerName": "Explanation", "flex": 1, "minWidth": 260, **_TIP},
]
_BESIDE = [
    _number("before", "Pinned", 150, "before_words"),
    _number("change", "Change %", 120, "change_words"),
]
"""Columns added if a launch is pinned."""


def section(view: LaunchView) -> Component:
    """The folded card; where the address asks for the table, it is open and filled."""
    inside: Component = html.P("Reading the metrics of this launch …", className="hint")
    if opened := view.address.metrics:
        inside = guarded("All metrics", lambda: grid(view))
    filled: dict[str, Any] = {"data-filled": "yes" if opened else ""}
    title = [html.H2("All metrics"), hint("with descriptions", id="kernel-metrics-count")]
    summary = html.Summary(title, id="metrics-open", n_clicks=int(opened), **filled)
    folded = html.Details([summary, html.Div(inside, id="kernel-metrics")], open=opened, id="metrics-details")
    return html.Section(folded, className="card metrics-card", **aria(label="All metrics"))


def counted(view: LaunchView) -> str:
    """How many there are, for the line that opens the table."""
    return f"{len(view.launch.scalars)} of this launch, with descriptions"


def grid(view: LaunchView) -> Component:
    """Search field and table: name, value with its SI prefix, explanation; beside the value that of
    the pinned launch, and the change from it."""
    find, pinned = view.address.find, view.pinned
    rows = metric_rows(_metrics(view.entry), _metrics(pinned) if pinned else None)
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
        noise = ". With one launch on each side, the change may be noise."
        parts.append(html.P(["Compared with the pinned launch ", named, noise]))
    return html.Div([*parts, table])


def _metrics(entry: Entry) -> Metrics:
    """Value and unit by name of one launch."""
    metrics = entry.report.metrics
    return named_metrics(metrics[metrics["launch"] == entry.number])


def named_metrics(frame: pd.DataFrame) -> Metrics:
    """Value and unit by name, of rows of metric, value and unit."""
    values = zip(frame["value"].astype(float), frame["unit"].astype(str), strict=True)
    return dict(zip(frame["metric"].astype(str), values, strict=True))


def metric_rows(now: Metrics, pinned: Metrics | None = None) -> list[dict[str, Any]]:
    """A row per metric, those that describe the launch itself first, by name.

    ``metric``, ``value`` in words, ``raw`` (None where it is not finite, or one of several),
    ``exact`` text, ``unit`` and ``explained``; beside a ``pinned`` launch, its value and the change
    from it, as numbers and in words.
    """
    changes, rows = metric_changes(now, pinned) if pinned is not None else {}, []
    for name in sorted(now, key=lambda name: (name.startswith(_LAST), name)):
        value, unit = now[name]
        row = {"metric": name, **_value(name, value, unit), "unit": unit, "explained": explain(name) or UNEXPLAINED}
        if changes:
            one = _VECTOR.fullmatch(name) is None
            before, pct = (changes[name].before, changes[name].pct) if one else (None, None)
            row |= {"before": before, "before_words": NOT_COLLECTED if before is None else si(before, unit)}
            row |= {"change": pct, "change_words": "" if pct is None else f"{pct:+.1f}"}
        rows.append(row)
    return rows


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
    size, steps = abs(value), (*_PREFIXES, *(_SMALL if unit == "s" else ()))
    if size == 0 or (value == int(value) and size < 1000):
        return f"{value:.0f} {unit}"
    scale, prefix = next((step for step in steps if size >= step[0]), steps[-1])
    # A space separates ``k`` from a word such as ``inst`` or ``sector``; symbols are joined.
    space = " " if prefix and len(unit.partition("/")[0]) > 2 else ""
    return f"{value / scale:.4g} {prefix}{space}{unit}"


# --- What a metric means ---

UNEXPLAINED = "no description known"
_STALLED = "stalled"


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """The tables of ``metric_words.toml``."""
    text = files("ncubble.dashboard.pages.kernel").joinpath("metric_words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _of_sets() -> dict[str, str]:
    """What the metric sets say, by name, those of single chips included."""
    metrics = [metric for metric_set in load_sets().values() for metric in metric_set.metrics]
    # The first set that names a metric wins: iterate in reverse so that it overwrites others.
    return {name: metric.about for metric in metrics[::-1] for name in (metric.name, *metric.chips.values())}


@lru_cache(maxsize=1 << 13)
def explain(metric: str) -> str:
    """One or two sentences on what ``metric`` counts; empty where nothing here explains it."""
    if metric in _of_sets():
        return _of_sets()[metric]
    known, lead, bare = words(), "", metric
    if prefix := series_prefix().match(metric):
        lead, bare = "Sampled over time. ", metric[prefix.end() :]
    stem, _, suffix = bare.partition(".")
    if stem in known["exact"]:
        return lead + known["exact"][stem]
    for family, text in known["families"].items():
        if stem.startswith(family):
            return lead + text.format(rest=stem.removeprefix(family).replace("_", " "))
    counted, rolled = _counted(stem, known), _rolled(suffix, known)
    return f"{lead}{counted}{rolled}." if counted and rolled is not None else ""


def _counted(stem: str, known: Mapping[str, Mapping[str, str]]) -> str:
    """``SM: Warp instructions executed, of the FMA pipe``; empty where a piece is not known."""
    if stem.startswith("derived__") and "__" in stem.removeprefix("derived__"):
        stem, _, factor = stem.removeprefix("derived__").rpartition("_x")
        inner = _counted(stem, known) if factor.isdecimal() else ""
        return f"{inner}, times {factor}" if inner else ""
    unit, _, counter = stem.partition("__")
    base = _longest(counter, known["counters"])
    if unit not in known["units"] or not base:
        return ""
    pieces = _qualified(counter[len(base) + 1 :], known["qualifiers"], base.endswith(_STALLED))
    if pieces is None:
        return ""
    text = _lowered(known["counters"][base])
    first = f"{text} {pieces.pop(0)}" if text.endswith(":") and pieces else text
    return f"{known['units'][unit]}: {', '.join([first, *pieces])}"


def _lowered(text: str) -> str:
    """The first letter small, unless the word is an abbreviation such as ``CTAs``."""
    return f"{text[:1].lower()}{text[1:]}" if text[1:2].islower() else text


def _qualified(rest: str, qualifiers: Mapping[str, str], stalled: bool) -> list[str] | None:
    """The words of all qualifiers in ``rest``; None where one is not known."""
    phrases: list[str] = []
    while rest:
        reason = _longest(rest, REASONS) if stalled and not phrases else ""
        piece = reason or _longest(rest, qualifiers)
        if not piece:
            return None
        phrases += filter(None, [REASONS[piece].label if reason else qualifiers[piece]])
        rest = rest[len(piece) + 1 :]
    return phrases


def _longest(text: str, table: Mapping[str, Any]) -> str:
    """The longest key that ``text`` begins with, up to its end or an underscore; empty where there
    is none."""
    pieces = text.split("_")
    starts = ("_".join(pieces[:count]) for count in range(len(pieces), 0, -1))
    return next((start for start in starts if start and start in table), "")


def _rolled(suffix: str, known: Mapping[str, Mapping[str, str]]) -> str | None:
    """``; average of one, percent of the peak rate`` of ``avg.pct_of_peak_sustained_elapsed``; None
    if not known."""
    if not suffix:
        return ""
    rollup, *rest = suffix.split(".")
    phrases = [known["rollups"].get(rollup), *(known["submetrics"].get(submetric) for submetric in rest)]
    return None if None in phrases else "; " + ", ".join(map(str, phrases))
