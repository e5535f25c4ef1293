"""The Sweep page: the sweeps that were found, or one of them: what to vary and to fix, what is
best, its figures, its numbers, and predictions beside them. Its whole state is its address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import WORK, display_order, part_label
from ncubble.analysis.diagnosis.words import unit_words
from ncubble.analysis.sweeps.depths import Depth, depth_predictions, depths_of, is_depth, judged, profiles
from ncubble.analysis.sweeps.sweeps import SHAPE, PointSpread, Row, Sweep, SweepPoint, SweepSeries, noise_words
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import CompareAddress, SweepAddress
from ncubble.dashboard.pages.page import Page, all_sweeps, in_browser, largest_difference, launch_at, still_loading
from ncubble.dashboard.pages.sweep.figures import MOST_SERIES, parts_figure, prediction_figure, series_figure, style_of
from ncubble.dashboard.ui import components as ui
from ncubble.text import values as shown

MOST_LISTED, MOST_VALUES = 300, 8
MOST_LINKS = 10
"""Maximum linked launches per value."""
SHOWN = 0.05
"""Parts below this percent read 0.0 % and are omitted from legend and table."""
PARTS = "Parts of the account"
QUANTITIES = {"time": "duration_ns", "cycles": "cycles"}
"""What the second figure shows, by the word in the address."""
_HEAD = ("Kernel", "Parameter", "Values", "Launches", "Slowest relative to fastest", "GPU")
_LACKING = "Not collected: none of these launches has {}. Profile with"


def layout(store: ReportStore, address: SweepAddress) -> Component:
    """The page at an address; while reports are being read, launches may still come."""
    listed, progress = all_sweeps.of(store), store.progress()
    chosen = choose(listed, address)
    if chosen is not None:
        return sweep_page(store, listed, chosen, address)
    if not progress.finished and (address.kernel or not listed):
        return still_loading(progress)
    problems: list[Component] = []
    if address.kernel:
        text = "No such sweep: no launches of this kernel differ only in this parameter, or they are not loaded."
        problems.append(ui.note("error", text))
    if not progress.finished:
        text = f"{progress.done} of {progress.total} reports are read; more sweeps may appear."
        problems.append(html.P([text, " ", dcc.Link("Look again", href=SweepAddress.PATH)], className="hint"))
    lead = f"{ui.counted(len(listed), 'sweep')}: launches that differ in only one parameter" if listed else ""
    body = _listed(listed) if listed else _none(len(store.rows()))
    answer = ""
    if found := largest_difference(store):
        first, best, worst = found
        answer = f"{first.parameter} of {shown.short_name(first.kernel, 60)} matters most: "
        answer += f"{worst.value} takes {first.ratio:.2f} times as long as {best.value}."
    return html.Div([ui.page_head("Sweep", lead, answer=answer), *problems, body], className="sweep-page")


def choose(listed: Sequence[Sweep], address: SweepAddress) -> Sweep | None:
    """The sweep that an address means: on the GPU that it names, else on that of the most launches;
    None without one.

    It keeps the series that have all coordinates that the address fixes.
    """
    same = [sweep for sweep in listed if sweep.kernel == address.kernel and sweep.parameter == address.parameter]
    on_gpu = [sweep for sweep in same if address.gpu in ("", sweep.gpu, shown.short_gpu(sweep.gpu))]
    kept = [left for sweep in on_gpu if (left := sweep.narrowed(address.fixed)).series]
    return max(kept, key=lambda sweep: len(sweep.rows), default=None)


# --- The list ---


def _none(launches: int) -> Component:
    """What to do where nothing was swept."""
    seen = f"None of the {launches} launches here differ" if launches else "There are no launches that differ"
    more = html.P(
        "Runs of your own program are found too, if its launches differ in block size, a template "
        "argument, or recorded parameters."
    )
    lead = html.P(f"{seen} in only one parameter. Record a kernel at several values of a parameter:")
    command = html.Ul(html.Li(html.Code("ncubble sweep tensor_core_gemm -g stages=1,2,3")))
    return html.Div([lead, command, more], className="note note-empty sweep-none", role="note")


def _listed(listed: Sequence[Sweep]) -> Component:
    tools = ui.search_field("sweep-search", "Search", "Search kernel, parameter, GPU", value="")
    tools.append(html.Span(id="sweep-count", className="hint", role="status"))
    rows = [_line(sweep) for sweep in listed[:MOST_LISTED]]
    parts: list[ui.Child] = [
        html.Div(tools, className="crumbs"),
        html.Div(ui.table(_HEAD, rows, "Sweeps", numeric=(3, 4)), id="sweep-list"),
    ]
    if len(listed) > MOST_LISTED:
        text = f"{len(listed) - MOST_LISTED} more are not listed; open fewer reports to see them."
        parts.append(html.P(text, className="hint"))
    return ui.card("Sweeps", parts, "among all launches; parameters first, largest differences on top")


def _line(sweep: Sweep) -> list[ui.Child]:
    of_shape = [html.Span("shape", className="tag")] if sweep.kind == SHAPE else []
    values = sweep.values()
    more = f", … {len(values)} in all" if len(values) > MOST_VALUES else ""
    timed = any(series.ends for series in sweep.series)
    return [
        dcc.Link(shown.short_name(sweep.kernel, 60), href=_href(sweep), className="row-link", title=sweep.kernel),
        html.Span([sweep.parameter, " ", *of_shape], className="sweep-parameter"),
        html.Span(", ".join(values[:MOST_VALUES]) + more, className="sweep-values"),
        f"{len(sweep.rows)}{_in_series(sweep)}",
        f"{sweep.ratio:.2f} ×" if timed else shown.NOT_COLLECTED,
        html.Span(sweep.gpu_shown or "unknown", title=sweep.gpu),
    ]


def _in_series(sweep: Sweep) -> str:
    return f" in {len(sweep.series)} series" if len(sweep.series) > 1 else ""


def _href(sweep: Sweep) -> str:
    return SweepAddress(sweep.kernel, sweep.parameter, sweep.gpu).href()


# --- One sweep ---


def sweep_page(store: ReportStore, listed: Sequence[Sweep], chosen: Sweep, address: SweepAddress) -> Component:
    """The page of one sweep; ``chosen`` holds the series that the address leaves, of which a few
    are drawn."""
    drawn = replace(chosen, series=chosen.series[:MOST_SERIES])
    address = replace(address, kernel=chosen.kernel, parameter=chosen.parameter, gpu=chosen.gpu)
    figures = [ui.guarded("Utilization", lambda: _busy(drawn)), ui.guarded("Time", lambda: _took(drawn, address.y))]
    sections = [
        ui.guarded("Result", lambda: _result(drawn)),
        html.Div(figures, className="columns"),
        ui.guarded(PARTS, lambda: _parts(drawn)),
    ]
    if is_depth(drawn.parameter, drawn.series):
        sections.append(ui.guarded(PREDICTED, lambda: _predictions(store, drawn, address)))
    sections.append(ui.guarded("Numbers", lambda: _numbers(drawn)))
    more = len(chosen.series) - len(drawn.series)
    left_out = [ui.note("info", f"{more} more series are not drawn. Fix a parameter to see them.")] if more > 0 else []
    name, gpu = shown.short_name(drawn.kernel, 90), drawn.gpu_shown or "an unknown GPU"
    lead = f"{name} on {gpu}: {len(drawn.values())} values, {len(drawn.rows)} launches{_in_series(drawn)}"
    head = [
        ui.crumbs("Back", dcc.Link("← All sweeps", href=SweepAddress.PATH, className="button")),
        html.H1(f"Sweep of {drawn.parameter}"),
        html.P(lead, className="lead", title=drawn.kernel),
    ]
    placed = html.Div(head, className="page-head compare-head")
    return html.Div([placed, _choices(listed, chosen, address), *left_out, *sections], className="sweep-page")


def _choices(listed: Sequence[Sweep], chosen: Sweep, address: SweepAddress) -> Component:
    """Links to the other sweeps of this kernel, and to those series that share the value of another
    parameter."""
    alike = [sweep for sweep in listed if sweep.kernel == chosen.kernel]
    whole = next(
        sweep
        for sweep in alike
        if (sweep.gpu, sweep.parameter, sweep.kind) == (chosen.gpu, chosen.parameter, chosen.kind)
    )
    parameters = [(sweep.parameter, _href(sweep), sweep is whole) for sweep in alike if sweep.gpu == whole.gpu]
    lines = [ui.choices("parameter", parameters)]
    gpus = [sweep for sweep in alike if sweep.parameter == whole.parameter]
    if len(gpus) > 1:
        links = [(s.gpu_shown or "unknown", address.href(gpu=s.gpu, fixed=(), start=""), s is whole) for s in gpus]
        lines.append(ui.choices("GPU", links))
    fixed = dict(address.fixed)
    for name, values in whole.varying().items():
        links = [("all", address.fixing(name, None), name not in fixed)]
        links += [(value, address.fixing(name, value), fixed.get(name) == value) for value in values if value]
        lines.append(ui.choices(name, links))
    lines.append(ui.choices("time as", [(y, address.href(y=y), y == address.y) for y in QUANTITIES]))
    return html.Section(html.Dl(lines, className="sweep-choices"), className="card", **ui.aria(label="Quantity"))


def _result(sweep: Sweep) -> Component:
    """A sentence for each series: where it is best and worst, and a link that compares the two."""
    items = [_sentence(sweep, series, name) for series, name in zip(sweep.series, sweep.names(), strict=True)]
    body = html.Ul(items, className="sweep-result")
    return html.Section(body, className="card verdict", **ui.aria(label="Result"))


def _sentence(sweep: Sweep, series: SweepSeries, name: str) -> Component:
    prefix = [html.Strong(f"{shown.short_name(name, 80)}: ")] if len(sweep.series) > 1 else []
    if series.ends is None:
        return html.Li([*prefix, "neither times nor cycles were collected; profile with ", html.Code("--set pipeline")])
    best, worst, metric = series.ends
    told = []
    for point in (best, worst):
        mean = point.mean(metric)
        took = f"{mean:,.0f} cycles" if metric == "cycles" else shown.duration(mean)
        told.append(f"{took} at {sweep.parameter} {point.value}")
    text = f"Best: {told[0]}. Worst: {told[1]}"
    if series.ratio >= 1.0005:
        text += f", {100 * (series.ratio - 1):.1f} % more"
    text += noise_words(best, worst, metric, sum(point.spread(metric) is not None for point in series.points))
    href = CompareAddress((str(worst.typical()["id"]), str(best.typical()["id"]))).href()
    return html.Li([*prefix, f"{text}. ", dcc.Link("compare the two", href=href, className="button small")])


def _busy(sweep: Sweep) -> Component:
    unit = unit_words(sweep.unit) if sweep.unit == "tensor" else sweep.unit
    title = f"{unit or 'busiest unit'} busy, %"
    axes = (sweep.parameter, title)
    drawn = series_figure(sweep.series, sweep.names(), sweep.busy, axes, "%", "high")
    if not drawn.to_plotly_json()["data"]:
        return ui.card("Utilization", [ui.note("empty", _LACKING.format("utilization of any unit"), "--set pipeline")])
    placed = ui.figure("sweep-busy", drawn, f"{title} of elapsed cycles over {sweep.parameter}")
    return ui.card("Utilization", [placed], "" if unit else "of the unit that limits each launch")


def _took(sweep: Sweep, y: str) -> Component:
    """Time or cycles, in the scale that suits them."""
    name = QUANTITIES[y]
    means = [point.mean(name) for series in sweep.series for point in series.points if point.known(name)]
    if not means:
        return ui.card(y.capitalize(), [ui.note("empty", _LACKING.format(y), "--set pipeline")])
    scale, unit = 1.0, "cycles"
    if y == "time":
        scale, unit = next((pair for pair in shown.SI_TIME if max(means) >= pair[0]), shown.SI_TIME[-1])

    def read(point: SweepPoint) -> PointSpread | None:
        spread = point.spread(name)
        return spread and spread.over(scale)

    title = f"{y}, {unit}"
    drawn = series_figure(sweep.series, sweep.names(), read, (sweep.parameter, title), unit, "low")
    return ui.card(y.capitalize(), [ui.figure("sweep-time", drawn, f"{title} over {sweep.parameter}")])


def _parts(sweep: Sweep) -> Component:
    """The accounts of a sweep by value of its parameter, drawn and in numbers.

    A part that an account does not name is none of it; without an account nothing is known.
    """
    named = zip(sweep.series, sweep.names(), strict=True)
    kept = {name: series for series, name in named if any(point.account[0] for point in series.points)}
    if not kept:
        return ui.card(PARTS, [ui.note("empty", _LACKING.format("the counters for an account"), "--set pipeline")])
    unit = "" if sweep.unit == "tensor" else sweep.unit
    accounts = [(name, point.value, point.account[0]) for name, own in kept.items() for point in own.points]
    parts = display_order({part for *_, account in accounts for part, share in account.items() if share >= SHOWN})
    label = f"Parts of the bubble account in percent of elapsed SM cycles, by {sweep.parameter}"
    first = int(len(kept) == 1)  # one series needs no column of names
    head = [*("Series", sweep.parameter)[first:], *(part_label(part, unit) for part in parts)]
    rows = [
        [*(name, value)[first:], *(f"{account.get(p, 0.0):.1f}" if account else shown.NOT_COLLECTED for p in parts)]
        for name, value, account in accounts
    ]
    body: list[Component] = [
        ui.figure("sweep-parts", parts_figure(list(kept.values()), list(kept), sweep.parameter, unit), label),
        ui.parts_legend(parts, unit),
        ui.as_table(label, head, rows, range(2 - first, len(head))),
    ]
    if any("idle" in account for *_, account in accounts):
        text = "Idle time is not split for launches without warp samples. Profile with"
        body.append(ui.note("", text, "--set source"))
    return ui.card(PARTS, body, "percent of elapsed SM cycles")


def _numbers(sweep: Sweep) -> Component:
    """A table for each series, one line per value: share, time, cycles, the largest bubble, links
    to the launches."""
    unit = sweep.unit or "unit"
    head = [sweep.parameter, f"{unit} busy", "time", "cycles", "relative to the best", "largest bubble", "launches"]
    tables: list[Component] = []
    for index, (series, name) in enumerate(zip(sweep.series, sweep.names(), strict=True)):
        if len(sweep.series) > 1:
            swatch = html.Span(className="swatch", style={"background": style_of(index).color})
            tables.append(html.H3([swatch, shown.short_name(name, 110)]))
        rows = [_cells(sweep, series, point) for point in series.points]
        tables.append(ui.table(head, rows, f"Numbers of {name} by {sweep.parameter}", numeric=(1, 2, 3, 4)))
    return ui.card("Numbers", tables, "mean, and minimum to maximum of several launches")


def _cells(sweep: Sweep, series: SweepSeries, point: SweepPoint) -> list[ui.Child]:
    against = shown.NOT_COLLECTED
    if series.ends:
        best, _, metric = series.ends
        if point.known(metric) and (least := best.mean(metric)) > 0:
            against = "best" if point is best else f"+{100 * (point.mean(metric) / least - 1):.1f} %"
    bubbles = {name: share for name, share in point.account[0].items() if name not in WORK and share > 0}
    bubble = max(bubbles, key=bubbles.__getitem__, default="")
    links: list[ui.Child] = []
    for number, row in enumerate(point.rows[:MOST_LINKS], 1):
        where = f"{row['path']}, launch {row['launch']}"
        links += [dcc.Link(str(number), href=f"/kernel/{row['id']}", title=where), " "]
    if len(point.rows) > MOST_LINKS:
        links.append(f"and {len(point.rows) - MOST_LINKS} more")
    return [
        point.value,
        _with_range(sweep.busy(point), lambda value: f"{value:.1f}", " %"),
        _with_range(point.spread("duration_ns"), shown.duration),
        _with_range(point.spread("cycles"), lambda value: f"{value:,.0f}"),
        against,
        f"{part_label(bubble)} {bubbles[bubble]:.1f} %" if bubble else shown.NOT_COLLECTED,
        html.Span(links, className="sweep-links"),
    ]


def _with_range(spread: PointSpread | None, write: Callable[[float], str], unit: str = "") -> ui.Child:
    """The mean; the least and most of several launches beside it where they read differently."""
    if spread is None:
        return ui.absent()
    mean, low, high = (write(value) for value in spread[:3])
    if low == high:
        return f"{mean}{unit}"
    return html.Span([f"{mean}{unit}", html.Span(f" {low} to {high}", className="hint")])


# --- Predicted and measured: what one profile says of other depths ---

PREDICTED = "Predicted and measured"
_PREDICTED = ("measured", "predicted", "between", "error, points", "cycles measured", "predicted", "error", "")


def _predictions(store: ReportStore, sweep: Sweep, address: SweepAddress) -> Component:
    """The section of one series: that of the launch in the address, or the first that has a
    profile."""
    launches = ((series, point, row) for series in sweep.series for point in series.points for row in point.rows)
    first = ((series, points[0], points[0].typical()) for series in sweep.series if (points := profiles(series)))
    start = next((launch for launch in launches if launch[2]["id"] == address.start), None) or next(first, None)
    if start is None:
        text = "Depths are predicted from warp samples, and no launch here has them. Profile with"
        return ui.card(PREDICTED, [ui.note("empty", text, "--set pipeline --set source")])
    series, point, row = start
    entry = launch_at(store, str(row["id"]))
    if entry is None:
        return ui.card(PREDICTED, [ui.note("error", "The launch to predict from is no longer loaded.")])
    parts = [_profiles(sweep, address, row), *_of_point(sweep, series, point, entry)]
    return ui.card(PREDICTED, parts, "with the model of ncubble report --depths, from a single launch")


def _profiles(sweep: Sweep, address: SweepAddress, chosen: Row) -> Component:
    """Links to the profiles that depths can be predicted from, by series."""
    several, lines = len(sweep.series) > 1, []
    for series, name in zip(sweep.series, sweep.names(), strict=True):
        links = [
            (f"{sweep.parameter} {point.value}", address.href(start=str(point.typical()["id"])), chosen in point.rows)
            for point in sorted(profiles(series), key=lambda point: point.at or 0.0)
        ]
        if links:
            lines.append(ui.choices(f"from, {shown.short_name(name, 60)}" if several else "from", links))
    return html.Dl(lines, className="sweep-choices wide" if several else "sweep-choices")


def _of_point(sweep: Sweep, series: SweepSeries, point: SweepPoint, entry: Entry) -> list[Component]:
    told, parameter = depth_predictions(entry.launch, int(point.at or 0)), sweep.parameter
    if told.reason:
        return [ui.note("empty", f"Not identified: {told.reason}.")]
    present, depths = told.present, depths_of(series, told)
    label = f"Predicted and measured utilization of {sweep.names()[sweep.series.index(series)]} by {parameter}"
    caption = "Predicted and measured utilization and cycles by depth"
    return [
        *(html.P(text, className="sweep-said") for text in judged(parameter, depths, present)),
        ui.figure("sweep-predicted", prediction_figure(depths, present, parameter), label),
        ui.table([parameter, *_PREDICTED], [_depth_row(depth, present) for depth in depths], caption, range(1, 8)),
        *([html.P(told.note, className="hint")] if told.note else []),
    ]


def _depth_row(depth: Depth, present: int) -> list[ui.Child]:
    busy: ui.Child = f"{depth.busy.mean:.1f} %" if depth.busy else ui.absent("not measured")
    cycles: ui.Child = f"{depth.cycles.mean:,.0f}" if depth.cycles else ui.absent("not measured")
    predicted, error, more = depth.predicted, depth.error, depth.cycles_error_pct
    if depth.depth == present or predicted is None:
        why: ui.Child = "predicted from here"
        if depth.depth != present:
            why = html.Span(f"no prediction: {depth.refusal or 'not identified'}", className="hint sweep-why")
        return [str(depth.depth), busy, "", "", "", cycles, "", "", why]
    return [
        str(depth.depth),
        busy,
        f"{predicted.tensor_elapsed_pct:.1f} %",
        f"{predicted.low:.1f} to {predicted.high:.1f}",
        f"{error:+.1f}" if error is not None else "",
        cycles,
        f"{predicted.cycles:,.0f}",
        f"{more:+.1f} %" if more is not None else "",
        "",
    ]


def register(app: Dash, store: ReportStore) -> None:
    """A click on a point leads to its launch (``assets/sweep.js``)."""
    place = [Output("url", part, allow_duplicate=True) for part in ("pathname", "search")]
    for name in ("sweep-busy", "sweep-time"):
        click = Input({"type": "figure", "name": name}, "clickData")
        in_browser(app, "ncubble_sweep", {"openPoint": (*place, click)}, prevent_initial_call=True)


PAGE = Page("Sweep", SweepAddress, layout, register)
