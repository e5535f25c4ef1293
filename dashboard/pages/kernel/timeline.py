"""The timeline of one launch, and numbers of the range that is in sight."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.details.tracks import MIN_ACTIVE, NO_MARKS, sampling_interval_ns
from ncubble.dashboard.pages.kernel.timeline_figure import LaunchTimeline
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui.components import aria, card, figure, hint, not_collected, note
from ncubble.text import values

_BANDS = (
    "Busy share, and above it idle time by cause. Steady idle time has no time stamps: every "
    "sample is split like the whole account."
)
_NO_STALLS = "Sampled warp states (which reasons stall the warps, over time): not collected. Profile with "


def section(view: LaunchView) -> Component:
    """The card of the timeline; the address says which stretch is in sight at first."""
    frame = view.launch.timeline
    interval, drawn = values.duration(sampling_interval_ns(frame)), LaunchTimeline.of(frame, view.account)
    if drawn is None:
        return card("Timeline", [not_collected("PM samples", "--set timeline")])
    shown = drawn.shown
    if shown.active < MIN_ACTIVE:
        few = f"Too short to draw: {shown.active} active samples, one per {interval}."
        return card("Timeline", [note("empty", f"{few} A longer launch would show its phases.")])
    summary = drawn.marks.words() if drawn.marks else NO_MARKS
    if shown.apart:
        apart = ", ".join(shown.apart)
        summary += f" Not drawn, because they were recorded in another pass with its own clock: {apart}."
    label = f"Timeline of the launch. {summary}"
    parts = [figure("timeline", drawn.figure(view.address.range_us), label, tools=True)]
    parts += [html.P(line, className="hint") for line in (summary, *([_BANDS] if drawn.bands else []))]
    if not drawn.stalls:
        parts.append(html.P([_NO_STALLS, html.Code("--set warp_states")], className="hint"))
    # ``assets/kernel.js`` builds the table of the range's samples on request.
    samples = html.Summary("View as table", id="timeline-samples-open", n_clicks=0)
    table = html.Details([samples, html.Div(id="timeline-samples")], className="as-table live-only")
    about = f"PM sampling, one sample per {interval}; drag to zoom all tracks, double-click to reset"
    return card("Timeline", [*parts, _range(shown.end_ns - shown.start_ns), table], about)


def _range(span_ns: float) -> Component:
    """Fields for the range in sight, and the place of its numbers, which ``assets/kernel.js``
    fills."""
    fields = [
        html.Label(
            [html.Span(text), dcc.Input(id=name, type="number", debounce=True, step="any", className="range-field")]
        )
        for name, text in (("timeline-from", "from"), ("timeline-to", "to"))
    ]
    whole = html.Button("Whole launch", id="timeline-whole", className="button small", n_clicks=0)
    row = [html.Strong("In range"), *fields, hint("µs"), whole]
    numbers = aria(label="Statistics of the range")
    return html.Div(
        [
            dcc.Store(id="timeline-zoomed"),
            dcc.Store(id="timeline-span", data=round(span_ns / 1e3, 3)),
            html.Div(row, className="range-row"),
            html.Div(id="timeline-range", className="range-tables", role="status", **numbers),
        ],
        className="live-only range-numbers",
    )
