"""One kernel on one GPU model over its checks: verdict in a sentence, the figure, and the checks as
a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.history.checked import MOST_CHECKS, CheckedKernel, checks_of, metrics_of, of_metric
from ncubble.analysis.history.file import History
from ncubble.analysis.history.trend import TrendSeries
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.checks.address import ChecksAddress
from ncubble.dashboard.pages.checks.changes import changes
from ncubble.dashboard.pages.checks.figures import trend_figure
from ncubble.dashboard.pages.checks.trend import in_words, marks, trend_of
from ncubble.dashboard.pages.checks.words import (
    change,
    commit,
    fails,
    metric_words,
    reason_of,
    sentence,
    spread,
    style_of,
    when,
)
from ncubble.dashboard.pages.compare.address import CompareAddress
from ncubble.dashboard.ui.components import aria, figure, guarded, note, table
from ncubble.text.values import number

Check = Mapping[Any, Any]
LISTED = 50
"""Checks that the table lists, the newest."""


def detail(store: ReportStore, history: History, subject: CheckedKernel, address: ChecksAddress) -> Component:
    """The card of one subject; ``address`` says which metric, and how checks stand on the axis."""
    frame = checks_of(history, subject)
    metrics = metrics_of(frame)
    metric = next((name for name in (address.metric, subject.metric) if name in metrics), next(iter(metrics), ""))
    rows = of_metric(frame, metric)
    told: Sequence[Check] = rows.to_dict("records")
    last = told[-1] if told else None
    runs = _runs(store, subject, told)
    trend = trend_of(rows, subject) if metric else None
    parts: list[Component] = [
        html.P(sentence(subject, last), className="sentence"),
        *_notes(last, metric, address),
        *([_choices(metrics, metric, address.even)] if metrics else []),
        guarded("Checks over time", lambda: _drawn(rows, metric, subject, address.even, trend)),
        *([guarded("Lasting changes", lambda: changes(trend))] if trend else []),
        *_between(told, runs),
        _listed(told[::-1][:LISTED], runs, subject),
    ]
    head = [html.H2(subject.label), html.Span(subject.device or "no GPU", className="tag")]
    return html.Section(
        [html.Div(head, className="card-head"), *parts],
        className="card checks-detail",
        **aria(label="Checks of the chosen kernel"),
    )


def _notes(last: Check | None, metric: str, address: ChecksAddress) -> list[Component]:
    """What limits the last verdict: its reason, notes of the gate, and a metric that was asked for
    and is not there."""
    found: list[Component] = []
    if address.metric and address.metric != metric:
        found.append(note("error", f"{metric_words(address.metric)}: no check of this kernel holds this metric."))
    if last is None:
        return found
    texts = [reason_of(last)] if number(last["mean"]) is not None else []
    texts += [str(text) for name in ("notes", "gate_errors") for text in _many(last[name])]
    listed = [html.Li(text) for text in texts if text]
    return [*found, html.Ul(listed, className="warnings")] if listed else found


def _many(value: Any) -> list[Any]:
    """The entries of a list column; none where it is null."""
    return list(value) if value is not None and not isinstance(value, float) else []


def _choices(metrics: Sequence[str], metric: str, even: bool) -> Component:
    named: Any = [{"label": metric_words(name), "value": name} for name in metrics]
    axes: Any = [{"label": "by time", "value": "time"}, {"label": "in their order", "value": "order"}]
    which = dcc.RadioItems(named, metric, id="checks-metric", className="segments", inline=True)
    how = dcc.RadioItems(axes, "order" if even else "time", id="checks-axis", className="segments", inline=True)
    groups = [
        html.Div(which, role="group", **aria(label="Metric")),
        html.Div(how, role="group", **aria(label="Where checks stand")),
    ]
    return html.Div(groups, className="checks-choices")


def _drawn(rows: pd.DataFrame, metric: str, subject: CheckedKernel, even: bool, trend: TrendSeries | None) -> Component:
    if not metric:
        return note("empty", "No value was ever compared for this kernel; the reasons stand in the table.")
    counts = rows["verdict"].map(lambda verdict: style_of(str(verdict)).label).value_counts()
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    label = f"{metric_words(metric)} of {subject.label} over {len(rows)} checks: {told}. {in_words(trend)}"
    found = marks(rows, trend) if trend else []
    drawn: list[Component] = [figure("checks", trend_figure(rows, even, found), label, tools=True)]
    if subject.checks > MOST_CHECKS:
        drawn.append(html.P(f"The newest {MOST_CHECKS} of {subject.checks} checks are drawn.", className="hint"))
    return html.Div(drawn)


def _runs(store: ReportStore, subject: CheckedKernel, told: Sequence[Check]) -> dict[str, tuple[str, str]]:
    """Address and name of a loaded launch by the report's key: that of this kernel, else the
    report's first."""
    keys = {str(key) for one in told for key in _many(one["reports"])}
    found: dict[str, tuple[str, str]] = {}
    own = subject.label.partition(" ")[0]
    for row in store.rows() if keys else ():
        key = str(row["id"]).partition("/")[0]
        if key in keys and (key not in found or row["name"] == own):
            found[key] = (str(row["id"]), str(row["report"]))
    return found


def _between(told: Sequence[Check], runs: Mapping[str, tuple[str, str]]) -> list[Component]:
    """A link that compares the last run that passed with the last one, where both are loaded and
    differ."""
    linked = [(str(one["kernel_verdict"]), _links(one, runs)) for one in told]
    known = [(verdict, links[0][0]) for verdict, links in linked if links]
    good = [address for verdict, address in known if verdict in ("pass", "improved")]
    if not known or not good or known[-1][0] != "regressed" or good[-1] == known[-1][1]:
        return []
    href = CompareAddress((good[-1], known[-1][1])).href()
    return [html.P(dcc.Link("Compare the last run that passed with this one", href=href, className="button"))]


def _links(row: Check, runs: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    return [runs[str(key)] for key in _many(row["reports"]) if str(key) in runs]


def _listed(newest: Sequence[Check], runs: Mapping[str, tuple[str, str]], subject: CheckedKernel) -> Component:
    head = ["Checked", "Verdict", "Value", "Baseline", "Change", "Fails", "Commit", "Runs", "Why"]
    cells = [_line(row, runs) for row in newest]
    more = f", the newest {LISTED} of {subject.checks}" if subject.checks > LISTED else ""
    listed = table(head, cells, f"Checks of {subject.label}", numeric=(2, 3, 4))
    title = html.Summary(f"The checks as a table{more}")
    return html.Details([title, listed], className="checks-list", open=len(newest) <= 8)


def _line(row: Check, runs: Mapping[str, tuple[str, str]]) -> list[Any]:
    style, unit = style_of(str(row["verdict"])), row["unit"]
    sign = html.Span(style.sign, style={"color": style.color}, className="sign", **aria(hidden="true"))
    links: list[Any] = [
        dcc.Link(name, href=f"/kernel/{address}", className="row-link") for address, name in _links(row, runs)[:3]
    ]
    given = ", ".join(str(path) for path in _many(row["paths"]))
    not_loaded = html.Span("not loaded", className="missing", title=given)
    measured = number(row["mean"]) is not None
    return [
        when(row["checked"]),
        html.Span([sign, style.label], className="verdict-words"),
        spread(row["mean"], row["sd"], row["n"], unit) if measured else "no value",
        spread(row["baseline_mean"], row["baseline_sd"], row["baseline_n"], unit) if measured else "",
        change(row["change_pct"]) if measured else "",
        fails(row),
        commit(row),
        html.Span(links, className="checks-runs") if links else not_loaded,
        reason_of(row),
    ]
