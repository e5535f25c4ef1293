"""The Checks page: how every kernel did in the gate, and one of them over time. Its whole state is
its address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.analysis.account.palette import VERDICT_STYLES, VerdictStyle
from ncubble.analysis.gate.history import (
    MOST_CHECKS,
    NO_KERNEL,
    CheckedKernel,
    History,
    Point,
    metrics_of,
    of_metric,
    read,
)
from ncubble.analysis.gate.steps import LEAST_POINTS
from ncubble.analysis.gate.trend import TrendSeries, mean_of, series_of, short
from ncubble.analysis.gate.verdicts import FAILED, RANKS, rank_of
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import LONGEST_SEARCH, ChecksAddress, CompareAddress
from ncubble.dashboard.pages.checks import figures
from ncubble.dashboard.pages.page import Page, in_browser
from ncubble.dashboard.ui import components as ui
from ncubble.recordings import CHECKS
from ncubble.text.values import NOT_COLLECTED, short_name

POLL_MS = 3000
SHIPPED = "They ran on another H200 than the one of the baselines, and vec=4 narrows copies on purpose."
"""Why kernels regress in the checks that ship."""
STRIP = 14
"""Maximum verdicts in the strip of a kernel, newest last."""
LISTED = 50
"""Maximum checks in the table; the newest are kept."""
Runs = Mapping[str, tuple[str, str]]
"""Address and name of a loaded launch, by report key."""


def history_of(store: ReportStore) -> History:
    """What the folder of results holds now; a store that names none has them in the working one."""
    return read(store.checks or Path("checks"))


def layout(store: ReportStore, address: ChecksAddress) -> Component:
    """The page at an address."""
    history = history_of(store)
    return html.Div(
        [
            html.Div(body(store, history, address), id="checks-body"),
            dcc.Store(id="checks-chosen", data=address.query()),  # the browser writes the address
            dcc.Store(id="checks-query", data=address.search),
            dcc.Store(id="checks-token", data=history.token),
            dcc.Interval(id="checks-poll", interval=POLL_MS),
        ],
        className="checks-page",
    )


def body(store: ReportStore, history: History, address: ChecksAddress) -> list[Component]:
    """Everything that follows from the history and the address."""
    parts = [_head(history), *_problems(history)]
    if not history.kernels:
        return [*parts, _nothing(history.folder)]
    chosen = history.find(address.kernel, address.gpu)
    listed = _table(history.kernels, replace(address, gpu=chosen.gpu) if chosen else address)
    return [*parts, listed, html.Div(selected(store, history, address), id="checks-detail")]


def selected(store: ReportStore, history: History, address: ChecksAddress) -> Component:
    """The card of the chosen kernel, without a choice of the first one."""
    kernel = history.find(address.kernel, address.gpu) if address.kernel else next(iter(history.kernels), None)
    if kernel is None:
        return ui.note("error", "The history has no check of this kernel on this GPU model. Choose a row of the table.")
    return detail(store, kernel, address)


def _head(history: History) -> Component:
    kernels = history.kernels
    if not kernels:
        return html.Div([html.H1("Checks")], className="page-head")
    counts = _counted(kernel.verdict for kernel in kernels)
    gpus = ui.counted(len({kernel.device for kernel in kernels if kernel.device}), "GPU model")
    named = ui.counted(sum(kernel.label != NO_KERNEL for kernel in kernels), "kernel")
    where = html.Span(["History: ", html.Code(ui.near(history.folder), title=str(history.folder))], className="hint")
    lost = [kernel for kernel in kernels if kernel.verdict in FAILED]
    answer = "No kernel failed at its last check."
    if lost:
        worst = max(lost, key=lambda kernel: abs(kernel.decided.change_pct or 0.0))
        most = "most " if len(lost) > 1 else ""
        answer = f"{len(lost)} of {named} failed, {most}{short_name(worst.label)}: {decided(worst)}."
    if history.folder == CHECKS:
        answer = f"{answer} {SHIPPED}"
    return ui.page_head("Checks", f"{named} on {gpus}; at the last check {counts}", where, answer=answer)


def _problems(history: History) -> list[Component]:
    blocks: list[Component] = []
    if history.problems:
        entries = [(item.name, item.error, item.remedy) for item in history.problems]
        blocks.append(ui.problem_list(f"{ui.counted(len(entries), 'part')} of the history could not be read", entries))
    if history.left_out:
        text = f"The newest {len(history.checks):,} checks are shown; {history.left_out:,} older ones are left out."
        blocks.append(ui.note("info", text))
    return blocks


def _table(kernels: list[CheckedKernel], address: ChecksAddress) -> Component:
    placeholder = "Search kernels, GPUs, verdicts ( / )"
    tools = [
        *ui.search_field("checks-search", "Search", placeholder, value=address.search, maxLength=LONGEST_SEARCH),
        html.Span(id="checks-count", className="hint", **ui.aria(live="polite")),
        html.Button("Reset", id="checks-reset", className="button", n_clicks=0),
    ]
    key = [html.Span([ui.sign(style), style.label]) for verdict, style in VERDICT_STYLES.items() if verdict in RANKS]
    parts = [
        html.Div(tools, className="toolbar"),
        html.Div(grid(kernels, address), className="grid-place"),
        html.Div(key, className="legend", role="note", **ui.aria(label="Verdict symbols")),
    ]
    style = {"--rows": str(max(min(len(kernels), 14), 3))}
    return html.Section(parts, className="card checks-table", style=style, **ui.aria(label="Table of checked kernels"))


def _nothing(folder: Path) -> Component:
    """The page's state without any check: what records one, and where it was looked for."""
    steps = {
        "Record a baseline of at least five repeats:": "ncubble baseline RUN…",
        "Later, compare new repeats with the baseline. Every check is added to the history:": "ncubble check RUN…",
        "The history is checks/, which lies beside baselines/. Use another with": "ncubble dashboard --checks DIR",
    }
    parts = [
        html.P(["No check has been recorded. Searched in ", html.Code(ui.near(folder), title=str(folder)), "."]),
        html.Ol([html.Li([text, " ", html.Code(command)]) for text, command in steps.items()]),
        html.P("The first check will appear here automatically."),
    ]
    return html.Div(parts, className="note note-empty checks-empty", role="note")


def grid_rows(kernels: Sequence[CheckedKernel]) -> list[dict[str, Any]]:
    """JSON-ready rows in the order of the kernels; texts from reports stay texts."""
    return [_row(place, kernel) for place, kernel in enumerate(kernels)]


def _row(place: int, kernel: CheckedKernel) -> dict[str, Any]:
    last, checked = kernel.last, kernel.last.check.checked
    return {
        "place": place,
        "id": f"{kernel.kernel}/{kernel.gpu}",
        "label": kernel.label,
        "device": kernel.device or "no GPU",
        "verdict": figures.style_of(kernel.verdict).label,
        "verdict_key": kernel.verdict,
        "change": decided(kernel),
        "change_pct": kernel.decided.change_pct,
        "strip": kernel.verdicts[-STRIP:],
        "counted": _counted(kernel.verdicts),
        "checks": len(kernel.verdicts),
        "checked": int(checked.timestamp()),
        "checked_text": figures.when(checked).removesuffix(" UTC"),
        "commit": short(last.sha) or NOT_COLLECTED,
    }


def _counted(verdicts: Iterable[str]) -> str:
    """``1 regressed, 4 pass``: how many there are of each, the worst first."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {figures.style_of(verdict).label}" for verdict in sorted(counts, key=rank_of))


def decided(kernel: CheckedKernel) -> str:
    """The change that decided its last check, else why there is none."""
    metric = kernel.decided
    if metric.name:
        return f"{figures.change(metric.change_pct)} {figures.metric_words(metric.name)}"
    return kernel.last.kernel.reason or "not compared"


def _column(field: str, name: str, tip: str, **extra: Any) -> dict[str, Any]:
    return {"field": field, "headerName": name, "headerTooltip": tip, "tooltipField": field, **extra}


_BY_CHANGE = {"comparator": {"function": "ncChecksByChange"}, "sortingOrder": ["asc", "desc"]}
_BY_TIME = {"comparator": {"function": "ncChecksByTime"}, "sortingOrder": ["desc", "asc"], "filter": False}
_NO_ORDER = {"sortable": False, "filter": False, "cellDataType": False, "tooltipField": "counted"}
_DECIDED = "Metric that decided the last check, and its change from the baseline"
COLUMNS = [
    _column("label", "Kernel", "Kernel, parameters and shape", cellRenderer="NcCheckKernel", minWidth=200, flex=3),
    _column("verdict", "Last verdict", "Verdict of the last check", cellRenderer="NcVerdict", width=140),
    _column("change", "Decided by", _DECIDED, minWidth=176, flex=2, **_BY_CHANGE),
    _column("strip", "History", "Last checks, newest on the right", cellRenderer="NcStrip", width=190, **_NO_ORDER),
    _column("device", "GPU", "GPU model", minWidth=100, flex=1),
    _column("checks", "Checks", "Number of checks", width=84, filter="agNumberColumnFilter"),
    _column("checked_text", "Last check, UTC", "Time of the last check", width=138, **_BY_TIME),
    _column("commit", "Commit", "Commit of the runs in the last check", width=118),
]
"""Order of the rows: regressed first, then the most recently checked."""


def grid(kernels: Sequence[CheckedKernel], address: ChecksAddress) -> Any:
    """The table, with the row of ``address`` selected and its search applied."""
    styles = {name: [style.label, style.color, style.sign] for name, style in VERDICT_STYLES.items()}
    options = {
        "rowSelection": {"mode": "singleRow", "enableClickSelection": True, "checkboxes": False},
        "quickFilterText": address.search,
        "context": {"verdicts": styles},
        "rowHeight": 46,
    }
    selected = {"ids": [f"{address.kernel}/{address.gpu}"]} if address.kernel else []
    return ui.ag_grid(
        "checks-grid", COLUMNS, options, rowData=grid_rows(kernels), getRowId="params.data.id", selectedRows=selected
    )


def detail(store: ReportStore, kernel: CheckedKernel, address: ChecksAddress) -> Component:
    """The card of one kernel; ``address`` says which metric, and how checks stand on the axis."""
    points = kernel.recent
    metrics = metrics_of(points)
    metric = next((name for name in (address.metric, kernel.decided.name) if name in metrics), next(iter(metrics), ""))
    shown = of_metric(points, metric)
    runs = _runs(store, kernel, shown)
    trend = series_of(shown) if any(point.metric.mean is not None for point in shown) else None
    head = [html.H2(kernel.label), html.Span(kernel.device or "no GPU", className="tag")]
    parts: list[Component] = [
        html.Div(head, className="card-head"),
        html.P(sentence(kernel, shown[-1]), className="sentence"),
        *_notes(shown[-1], metric, address),
        *([_choices(metrics, metric, address.even)] if metrics else []),
        ui.guarded("Checks over time", lambda: _drawn(shown, metric, kernel, address.even, trend)),
        *([ui.guarded("Lasting changes", lambda: changes(trend))] if trend else []),
        *_between(shown, runs),
        _listed(shown[::-1][:LISTED], runs, kernel),
    ]
    return html.Section(parts, className="card checks-detail", **ui.aria(label="Checks of the chosen kernel"))


def sentence(kernel: CheckedKernel, last: Point) -> str:
    """The last check in one sentence; ``last`` is that of the shown metric."""
    metric = last.metric
    word = "passed" if kernel.verdict == "pass" else figures.style_of(kernel.verdict).label
    head = f"{ui.capital(word)} at the last check, {figures.when(kernel.last.check.checked)}"
    if metric.mean is None:
        return f"{head}: {kernel.last.kernel.reason or 'no value was measured'}."
    measured, baseline = figures.amount(metric.mean, metric.unit), figures.amount(metric.baseline_mean, metric.unit)
    moved = f", {figures.change(metric.change_pct)}" if metric.change_pct is not None else ""
    limit = (
        f"; fails {figures.fails(metric)}"
        if figures.fails(metric)
        else "; shown only, not gated"
        if last.verdict == "info"
        else ""
    )
    return f"{head}: {figures.metric_words(metric.name)} {measured} against {baseline} of the baseline{moved}{limit}."


def _notes(last: Point, metric: str, address: ChecksAddress) -> list[Component]:
    """What limits the last verdict: its reason, notes of the gate, and a metric that the address
    names and no check holds."""
    notes: list[Component] = []
    if address.metric and address.metric != metric:
        notes.append(
            ui.note("error", f"{figures.metric_words(address.metric)}: no check of this kernel holds this metric.")
        )
    reasons = [last.reason] if last.metric.mean is not None and last.reason else []
    items = [html.Li(text) for text in (*reasons, *last.kernel.notes, *last.check.errors)]
    return [*notes, *([html.Ul(items, className="warnings")] if items else [])]


def _choices(metrics: Sequence[str], metric: str, even: bool) -> Component:
    named = [(name, figures.metric_words(name)) for name in metrics]
    axes, axis = (("time", "by time"), ("order", "in order")), "order" if even else "time"
    radios = [
        ui.segments("checks-metric", named, metric, "Metric"),
        ui.segments("checks-axis", axes, axis, "X axis"),
    ]
    return html.Div(radios, className="checks-choices")


def _drawn(
    points: Sequence[Point], metric: str, kernel: CheckedKernel, even: bool, trend: TrendSeries | None
) -> Component:
    if not metric:
        return ui.note("empty", "No value was ever compared for this kernel; see the reasons in the table.")
    counts = Counter(figures.style_of(point.verdict).label for point in points)
    verdicts = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    said = in_words(trend) if trend else "No check holds a value."
    label = f"{figures.metric_words(metric)} of {kernel.label} over {len(points)} checks: {verdicts}. {said}"
    drawn = figures.trend_figure(points, even, figures.marks(points, trend) if trend else [])
    parts: list[Component] = [ui.figure("checks", drawn, label, tools=True)]
    if len(kernel.verdicts) > MOST_CHECKS:
        parts.append(html.P(f"The newest {MOST_CHECKS} of {len(kernel.verdicts)} checks are drawn.", className="hint"))
    return html.Div(parts)


def in_words(trend: TrendSeries) -> str:
    """All changes in one sentence, for the figure's label and above the table."""
    if trend.changes:
        count = len(trend.changes)
        times = {1: "", 2: " twice; last"}.get(count, f" {count} times; last")
        shift = trend.changes[-1]
        label, point = figures.DIRECTIONS[shift.direction].label, trend.checks[shift.index]
        at = f" at {short(point.sha)}" if short(point.sha) else ""
        moved = f"by {shift.size(trend.last.metric.unit)} ({label}; confidence {shift.confidence})"
        return f"The level changed lastingly{times} on {point.check.checked:%Y-%m-%d}{at} {moved}."
    if not trend.enough:
        return f"Too few checks to detect a lasting change: at least {LEAST_POINTS} are needed."
    return f"No lasting change over {len(trend.checks)} checks."


def changes(trend: TrendSeries) -> Component:
    """The sentence, and a row for every change, boundary and odd check where there is any."""
    parts: list[Component] = [html.P(in_words(trend), className="checks-trend")]
    rows = [row for _, row in sorted(_events(trend), key=lambda event: -event[0])]
    if rows:
        head = ("What changed", "Since the check of", "By (95 % interval)", "Confidence", "At commit")
        parts.append(ui.table(head, rows, f"Lasting changes of {trend.last.kernel.label}", numeric=(2, 3)))
    if trend.again:
        count = ui.counted(trend.again, "check")
        parts.append(html.P(f"{count} of reports that were checked before are not counted again.", className="hint"))
    return html.Div(parts, className="checks-changes")


def _events(trend: TrendSeries) -> Iterator[tuple[int, list[ui.Child]]]:
    """The place of each change, boundary and odd check, and its row of the table."""
    commits = [short(point.sha) or NOT_COLLECTED for point in trend.checks]

    def row(index: int, style: VerdictStyle, what: str, *more: str) -> tuple[int, list[ui.Child]]:
        named = html.Span([ui.sign(style, **ui.aria(hidden="true")), what])
        return index, [named, figures.when(trend.checks[index].check.checked), *more]

    for shift in trend.changes:
        style = figures.DIRECTIONS[shift.direction]
        moved = shift.size(trend.last.metric.unit) + (f" ({shift.interval})" if shift.interval else "")
        where = trend.commits(shift)
        if shift.first != shift.last:
            where += f"; it is between {commits[shift.first - 1]} and {commits[shift.last]}"
        yield row(shift.index, style, f"level {style.label}", moved, shift.confidence, where)
    for boundary in trend.boundaries:
        moved = "unknown" if boundary.change_pct is None else figures.change(boundary.change_pct)
        what = f"new {boundary.words}: changes here are not attributed to the kernel"
        yield row(boundary.index, figures.BOUNDARY, what, moved, "", commits[boundary.index])
    for index in trend.odd:
        what = "one outlier; the next check is back at the level"
        if index == len(trend.checks) - 1:
            what = "the last check is an outlier; the next shows whether the change lasts"
        moved = f"{mean_of(trend.checks[index]):.5g} {trend.last.metric.unit}"
        yield row(index, VERDICT_STYLES["nothing_measured"], what, moved, "", commits[index])


def _runs(store: ReportStore, kernel: CheckedKernel, points: Sequence[Point]) -> Runs:
    """The loaded launches of the checks' reports: of each that of this kernel, else its first."""
    keys = {key for point in points for key in point.kernel.reports}
    own = kernel.label.partition(" ")[0]
    runs: dict[str, tuple[str, str]] = {}
    for row in store.rows() if keys else ():
        key = str(row["id"]).partition("/")[0]
        if key in keys and (key not in runs or row["name"] == own):
            runs[key] = (str(row["id"]), str(row["report"]))
    return runs


def _between(points: Sequence[Point], runs: Runs) -> list[Component]:
    """A link that compares the last run that passed with the last one, where both are loaded and
    differ."""
    loaded = [(point.kernel.verdict, links[0][0]) for point in points if (links := _links(point, runs))]
    good = [address for verdict, address in loaded if verdict in ("pass", "improved")]
    if not good or loaded[-1][0] not in FAILED or good[-1] == loaded[-1][1]:
        return []
    href = CompareAddress((good[-1], loaded[-1][1])).href()
    return [html.P(dcc.Link("Compare with the last run that passed", href=href, className="button"))]


def _links(point: Point, runs: Runs) -> list[tuple[str, str]]:
    return [runs[key] for key in point.kernel.reports if key in runs]


def _listed(newest: Sequence[Point], runs: Runs, kernel: CheckedKernel) -> Component:
    head, rows = ["Checked", "Verdict", "Value", "Baseline", "Change", "Fails", "Commit", "Runs", "Why"], []
    for point in newest:
        style, metric, links = figures.style_of(point.verdict), point.metric, _links(point, runs)[:3]
        named = [dcc.Link(name, href=f"/kernel/{address}", className="row-link") for address, name in links]
        loaded = html.Span(named, className="checks-runs")
        measured = [figures.mean_spread(metric), figures.baseline_spread(metric), figures.change(metric.change_pct)]
        cells: list[ui.Child] = [
            figures.when(point.check.checked),
            html.Span([ui.sign(style, **ui.aria(hidden="true")), style.label], className="verdict-words"),
            *(measured if metric.mean is not None else ["no value", "", ""]),
            figures.fails(metric),
            figures.commit(point),
            loaded if links else ui.absent("not loaded", title=", ".join(point.check.paths)),
            point.reason,
        ]
        rows.append(cells)
    more = f", the newest {LISTED} of {len(kernel.verdicts)}" if len(kernel.verdicts) > LISTED else ""
    listed = ui.table(head, rows, f"Checks of {kernel.label}", numeric=(2, 3, 4))
    title = html.Summary(f"The checks as a table{more}")
    return html.Details([title, listed], className="checks-list", open=len(newest) <= 8)


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks of this page to ``app``; what runs in the browser is in
    ``assets/checks.js``."""
    options = State("checks-grid", "dashGridOptions")
    chosen, again = Output("checks-chosen", "data"), Output("checks-chosen", "data", allow_duplicate=True)
    searched = (Output("checks-grid", "dashGridOptions"), Output("checks-query", "data"))
    cleared = (Output("checks-search", "value"), Output("checks-grid", "filterModel"))
    functions: dict[str, tuple[Any, ...]] = {
        "choose": (chosen, Input("checks-grid", "selectedRows")),
        "metric": (again, Input("checks-metric", "value")),
        "axis": (again, Input("checks-axis", "value")),
        "search": (*searched, Input("checks-search", "value"), options),
        "matches": (
            Output("checks-count", "children"),
            Input("checks-grid", "virtualRowData"),
            State("checks-grid", "rowData"),
        ),
        "reset": (*cleared, Input("checks-reset", "n_clicks")),
    }
    in_browser(app, "ncubble_checks", functions, prevent_initial_call=True)

    @app.callback(
        Output("checks-detail", "children"),
        Input("checks-chosen", "data"),
        prevent_initial_call=True,
    )
    def show(chosen: str | None) -> Component:
        return selected(store, history_of(store), ChecksAddress.parse(chosen))

    @app.callback(
        Output("checks-body", "children"),
        Output("checks-token", "data"),
        Input("checks-poll", "n_intervals"),
        State("checks-token", "data"),
        State("checks-chosen", "data"),
        State("checks-query", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int | None, seen: str | None, chosen: str | None, search: str | None) -> tuple[Any, Any]:
        history = history_of(store)
        if history.token == seen:
            return no_update, no_update
        return body(store, history, replace(ChecksAddress.parse(chosen), search=search or "")), history.token


PAGE = Page("Checks", ChecksAddress, layout, register)
