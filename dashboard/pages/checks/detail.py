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
from ncubble.dashboard.pages.addresses import ChecksAddress, CompareAddress
from ncubble.dashboard.pages.checks.figures import trend_figure
from ncubble.dashboard.pages.checks.trend import changes, in_words, marks, trend_of
from ncubble.dashboard.pages.checks.words import (
    Check,
    baseline_spread,
    change,
    commit,
    fails,
    mean_spread,
    metric_words,
    reason_of,
    sentence,
    style_of,
    when,
)
from ncubble.dashboard.ui.components import Child, absent, aria, figure, guarded, note, sign, table
from ncubble.text.values import number

Runs = Mapping[str, tuple[str, str]]
"""Address and name of a loaded launch, by report key."""
LISTED = 50
"""Maximum checks in the table; the newest are kept."""


def detail(store: ReportStore, history: History, subject: CheckedKernel, address: ChecksAddress) -> Component:
    """The card of one subject; ``address`` says which metric, and how checks stand on the axis."""
    frame = checks_of(history, subject)
    metrics = metrics_of(frame)
    metric = next((name for name in (address.metric, subject.metric) if name in metrics), next(iter(metrics), ""))
    rows = of_metric(frame, metric)
    checks: Sequence[Check] = rows.to_dict("records")
    last = checks[-1] if checks else None
    runs = _runs(store, subject, checks)
    trend = trend_of(rows, subject) if metric else None
    head = [html.H2(subject.label), html.Span(subject.device or "no GPU", className="tag")]
    parts: list[Component] = [
        html.Div(head, className="card-head"),
        html.P(sentence(subject, last), className="sentence"),
        *_notes(last, metric, address),
        *([_choices(metrics, metric, address.even)] if metrics else []),
        guarded("Checks over time", lambda: _drawn(rows, metric, subject, address.even, trend)),
        *([guarded("Lasting changes", lambda: changes(trend))] if trend else []),
        *_between(checks, runs),
        _listed(checks[::-1][:LISTED], runs, subject),
    ]
    return html.Section(parts, className="card checks-detail", **aria(label="Checks of the chosen kernel"))


def _notes(last: Check | None, metric: str, address: ChecksAddress) -> list[Component]:
    """What limits the last verdict: its reason, notes of the gate, and a metric that the address
    names and no check holds."""
    notes: list[Component] = []
    if address.metric and address.metric != metric:
        notes.append(note("error", f"{metric_words(address.metric)}: no check of this kernel holds this metric."))
    if last is not None:
        reasons = [reason_of(last)] if number(last["mean"]) is not None else []
        texts = [*reasons, *(str(text) for name in ("notes", "gate_errors") for text in _many(last[name]))]
        items = [html.Li(text) for text in texts if text]
        notes += [html.Ul(items, className="warnings")] if items else []
    return notes


def _many(value: Any) -> list[Any]:
    """The entries of a list column; none where it is null."""
    return list(value) if value is not None and not isinstance(value, float) else []


def _choices(metrics: Sequence[str], metric: str, even: bool) -> Component:
    axes = {"time": "by time", "order": "in order"}
    groups = (
        ("Metric", "checks-metric", {name: metric_words(name) for name in metrics}, metric),
        ("X axis", "checks-axis", axes, "order" if even else "time"),
    )
    radios = []
    for label, name, labels, chosen in groups:
        options: Any = [{"label": text, "value": value} for value, text in labels.items()]
        items = dcc.RadioItems(options, chosen, id=name, className="segments", inline=True)
        radios.append(html.Div(items, role="group", **aria(label=label)))
    return html.Div(radios, className="checks-choices")


def _drawn(rows: pd.DataFrame, metric: str, subject: CheckedKernel, even: bool, trend: TrendSeries | None) -> Component:
    if not metric:
        return note("empty", "No value was ever compared for this kernel; see the reasons in the table.")
    counts = rows["verdict"].map(lambda verdict: style_of(str(verdict)).label).value_counts()
    verdicts = ", ".join(f"{count} {name}" for name, count in counts.items())
    label = f"{metric_words(metric)} of {subject.label} over {len(rows)} checks: {verdicts}. {in_words(trend)}"
    drawn = trend_figure(rows, even, marks(rows, trend) if trend else [])
    parts: list[Component] = [figure("checks", drawn, label, tools=True)]
    if subject.checks > MOST_CHECKS:
        parts.append(html.P(f"The newest {MOST_CHECKS} of {subject.checks} checks are drawn.", className="hint"))
    return html.Div(parts)


def _runs(store: ReportStore, subject: CheckedKernel, checks: Sequence[Check]) -> Runs:
    """The loaded launches of the checks' reports: of each that of this kernel, else its first."""
    keys = {str(key) for check in checks for key in _many(check["reports"])}
    own = subject.label.partition(" ")[0]
    runs: dict[str, tuple[str, str]] = {}
    for row in store.rows() if keys else ():
        key = str(row["id"]).partition("/")[0]
        if key in keys and (key not in runs or row["name"] == own):
            runs[key] = (str(row["id"]), str(row["report"]))
    return runs


def _between(checks: Sequence[Check], runs: Runs) -> list[Component]:
    """A link that compares the last run that passed with the last one, where both are loaded and
    differ."""
    loaded = [(check["kernel_verdict"], links[0][0]) for check in checks if (links := _links(check, runs))]
    good = [address for verdict, address in loaded if verdict in ("pass", "improved")]
    if not good or loaded[-1][0] != "regressed" or good[-1] == loaded[-1][1]:
        return []
    href = CompareAddress((good[-1], loaded[-1][1])).href()
    return [html.P(dcc.Link("Compare with the last run that passed", href=href, className="button"))]


def _links(row: Check, runs: Runs) -> list[tuple[str, str]]:
    return [runs[str(key)] for key in _many(row["reports"]) if str(key) in runs]


def _listed(newest: Sequence[Check], runs: Runs, subject: CheckedKernel) -> Component:
    head = ["Checked", "Verdict", "Value", "Baseline", "Change", "Fails", "Commit", "Runs", "Why"]
    listed = table(head, [_line(row, runs) for row in newest], f"Checks of {subject.label}", numeric=(2, 3, 4))
    more = f", the newest {LISTED} of {subject.checks}" if subject.checks > LISTED else ""
    title = html.Summary(f"The checks as a table{more}")
    return html.Details([title, listed], className="checks-list", open=len(newest) <= 8)


def _line(row: Check, runs: Runs) -> list[Child]:
    style = style_of(str(row["verdict"]))
    links: list[Any] = [
        dcc.Link(name, href=f"/kernel/{address}", className="row-link") for address, name in _links(row, runs)[:3]
    ]
    not_loaded = absent("not loaded", title=", ".join(str(path) for path in _many(row["paths"])))
    measured = number(row["mean"]) is not None
    return [
        when(row["checked"]),
        html.Span([sign(style, **aria(hidden="true")), style.label], className="verdict-words"),
        mean_spread(row) if measured else "no value",
        baseline_spread(row) if measured else "",
        change(row["change_pct"]) if measured else "",
        fails(row),
        commit(row),
        html.Span(links, className="checks-runs") if links else not_loaded,
        reason_of(row),
    ]
