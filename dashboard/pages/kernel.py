"""The page of one launch: verdict, provenance, account, timeline, causes beside Nsight's rules, stalls, source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.fixes import FIXES
from ncubble.analysis.samples import stall_shares
from ncubble.dashboard import words
from ncubble.dashboard.components import aria, card, facts, figure, guarded, not_collected, note, stat
from ncubble.dashboard.data import Launch, ReportStore, address
from ncubble.dashboard.figures import account_bar, stall_bar
from ncubble.dashboard.pages.against import comparable
from ncubble.dashboard.pages.tables import account_legend, account_meanings, causes_list, rules_list, source_table
from ncubble.dashboard.palette import GOOD_CAUSES, part_color, part_label
from ncubble.dashboard.timeline import MIN_ACTIVE, NO_MARKS, Marks, sampling_interval_ns, timeline_figure, window


def layout(store: ReportStore, entry: Launch, search: str = "") -> Component:
    """The whole page of one launch. A section that fails says so in its own place."""
    account = cache(lambda: store.account_of(entry))
    return html.Div(
        [
            _head(store, entry),
            guarded("Verdict", lambda: _verdict(entry)),
            guarded("Provenance", lambda: _provenance(entry)),
            guarded("Bubble account", lambda: _account(entry, account())),
            guarded("Timeline", lambda: _timeline(entry, account())),
            html.Div(
                [
                    html.Div([guarded("Causes", lambda: _causes(entry))]),
                    html.Div(
                        [
                            guarded("Stall reasons", lambda: _stalls(entry)),
                            guarded("Nsight's rules", lambda: _rules(entry)),
                        ]
                    ),
                ],
                className="columns",
            ),
            guarded("Source", lambda: _source(entry)),
        ],
        className="kernel-page",
    )


def _head(store: ReportStore, entry: Launch) -> Component:
    family = store.siblings(entry)
    index = next((i for i, other in enumerate(family) if other.launch == entry.launch), 0)
    steps: list[Component] = [dcc.Link("← All launches", href="/", className="button")]
    if len(family) > 1:
        around = ((index - 1, "‹ previous"), (index + 1, "next ›"))
        steps.append(html.Span(f"launch {index + 1} of {len(family)} in this report", className="hint"))
        for other, text in around:
            if 0 <= other < len(family):
                target = f"/kernel/{address(entry.report.key, family[other].launch)}"
                steps.append(dcc.Link(text, href=target, className="button"))
    name = str(entry.row["name"])
    head = [
        html.Nav(steps, className="crumbs", **aria(label="Launches")),
        html.H1(words.short_name(name, 120), title=name),
    ]
    lead = " · ".join(dict.fromkeys(text for text in (entry.row["label"], entry.row["shape"]) if text))
    if lead:
        head.append(html.P(lead, className="lead"))
    if (others := comparable(store, entry)) is not None:
        head.append(others)
    if entry.row["demangled"] not in (name, entry.row["kernel"]):
        full = html.Code(entry.row["demangled"])
        head.append(html.Details([html.Summary("full signature"), full], className="signature"))
    return html.Div(head, className="page-head kernel-head")


def _verdict(entry: Launch) -> Component:
    verdict, row = entry.verdict, entry.row
    cause = str(verdict.get("cause") or "unknown")
    color = "var(--good)" if cause in GOOD_CAUSES else part_color(cause)
    copies = verdict.get("async_copy") or {}
    largest = words.biggest_bubble(verdict.get("account"))
    stats = [
        stat("Duration", words.duration(row["duration_ns"])),
        _busy(entry),
        stat("DRAM", words.percent(row["dram"])),
        stat(
            "Biggest bubble",
            words.percent(largest[1]) if largest else words.NOT_COLLECTED,
            part_label(largest[0]) if largest else "",
        ),
        _recoverable(row["recoverable_ns"], words.unit_words(verdict.get("unit"))),
        stat("Async copies (LDGSTS)", _count(copies.get("ldgsts")), f"TMA: {_count(copies.get('tma'))}"),
    ]
    said: list[Component] = [html.P(words.sentence(verdict), className="sentence")]
    if (advice := FIXES.get(cause)) and cause not in {found.get("cause") for found in verdict.get("causes") or []}:
        said.append(html.P(f"{advice[:1].upper()}{advice[1:]}.", className="advice"))
    said.append(html.Dl(stats, className="stats"))
    doubts = words.doubts(verdict)
    others = [str(text) for text in verdict.get("warnings") or [] if text not in doubts]
    if doubts:
        said.insert(0, html.Ul([html.Li(text) for text in doubts], className="note note-error doubts", role="alert"))
    if others:
        said.append(html.Ul([html.Li(text) for text in others], className="warnings"))
    return html.Section(said, className="card verdict", style={"borderLeftColor": color}, **aria(label="Verdict"))


def _busy(entry: Launch) -> Component:
    """The unit that the account counts: the tensor pipe, or by name the busiest one of a kernel without tensor work."""
    row, unit = entry.row, entry.verdict.get("unit")
    if unit is None or unit == "tensor":
        return stat("Tensor pipe busy", words.percent(row["tensor"]))
    return stat(
        f"{words.unit_words(unit)} busy", words.percent(row["busy"]), f"tensor pipe {words.percent(row['tensor'])}"
    )


def _recoverable(value: float | None, unit: str) -> Component:
    """The idle time of the counted unit, which bounds what removing bubbles can give back."""
    if value == 0.0:
        return stat("Recoverable", "none", "nothing that a change of the pipeline gives back")
    return stat("Recoverable, at most", words.duration(value), "" if value is None else f"idle time of the {unit}")


def _count(warp_instructions: Any) -> str:
    """A number of executed warp instructions with its SI prefix."""
    value = words.number(warp_instructions)
    if value is None:
        return words.NOT_COLLECTED
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.2f} {prefix}"
    return f"{value:.0f}"


def _provenance(entry: Launch) -> Component:
    launches = entry.report.launches
    one = launches[launches["launch"] == entry.launch].iloc[0]
    manifest = entry.report.run.manifest
    interval = sampling_interval_ns(_of(entry, entry.report.timeline))
    capability = f" (CC {one['compute_capability']})" if one["compute_capability"] else ""
    pairs = [
        ("GPU", f"{words.text(one['device'])}{capability}"),
        ("SM clock", words.frequency(one["sm_clock_hz"])),
        ("grid × block", f"{words.text(one['grid'])} × {words.text(one['block'])}"),
        ("registers", _whole(one["registers"])),
        ("shared memory", _bytes(one["smem_static_B"], one["smem_dynamic_B"])),
        ("Nsight Compute", words.text(one["ncu_version"])),
        ("sampling interval", words.duration(interval)),
        ("content", str(entry.report.key)),
        ("file", str(entry.report.run.path)),
    ]
    optional = [
        ("NVTX", one["nvtx"]),
        ("driver", manifest.device.get("driver")),
        ("metric set", "+".join(manifest.metric_set)),
        ("git", str(manifest.git.get("sha") or "")[:12] + (" (dirty)" if manifest.git.get("dirty") else "")),
        ("recorded", manifest.started),
    ]
    pairs += [(name, str(value)) for name, value in optional if value]
    return html.Section(facts(pairs), className="card provenance", **aria(label="Provenance"))


def _whole(value: Any) -> str:
    known = words.number(value)
    return words.NOT_COLLECTED if known is None else f"{known:.0f}"


def _bytes(*values: Any) -> str:
    known = [number for value in values if (number := words.number(value)) is not None]
    return f"{sum(known) / 1024:.1f} KiB" if known else words.NOT_COLLECTED


def _of(entry: Launch, frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["launch"] == entry.launch]


def _account(entry: Launch, found: Any | None) -> Component:
    account = entry.verdict.get("account") or {}
    if words.bubble_pct(account) is None:
        return card(
            "Bubble account", [not_collected("counters from which elapsed cycles can be shared out", "--set pipeline")]
        )
    unit = words.unit_words(entry.verdict.get("unit"))
    shares = ", ".join(f"{part_label(name)} {words.percent(value)}" for name, value in account.items() if value)
    drawn = figure("account", account_bar(account, unit), f"Bubble account in percent of elapsed SM cycles: {shares}")
    notes = [html.P(line, className="hint") for line in account_notes(found)]
    parts = [account_legend(account, entry.row["duration_ns"], unit), *notes, account_meanings(account, unit)]
    return card("Bubble account", [drawn, *parts], "percent of elapsed SM cycles; the parts sum to 100")


def account_notes(account: Any | None) -> list[str]:
    """What an account cannot tell apart, and which counters would; empty where it tells all."""
    if account is None:
        return []
    lines = [f"{part_label(coarse)} stands for {_listed(finer)} together." for coarse, finer in account.merged.items()]
    if account.missing:
        lines.append(f"Not collected, and needed to tell more: {', '.join(account.missing)}.")
    return lines


def _listed(parts: Sequence[str]) -> str:
    names = [part_label(name) for name in parts]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _timeline(entry: Launch, account: Any | None) -> Component:
    frame = _of(entry, entry.report.timeline)
    unit = account.unit if account is not None else "tensor"
    shown = window(frame, unit)
    interval = words.duration(sampling_interval_ns(frame))
    if shown is None:
        return card("Timeline", [not_collected("PM samples", "--set timeline")])
    if shown.active < MIN_ACTIVE:
        few = f"Too short to draw: {shown.active} active samples, one per {interval}. A longer launch shows its phases."
        return card("Timeline", [note("empty", few)])
    marks = Marks.of(account.phases, account.parts, shown, unit) if account and account.phases else None
    said = marks.words() if marks else NO_MARKS
    if shown.apart:
        said += f" Not drawn, for they were recorded in another pass with its own clock: {', '.join(shown.apart)}."
    drawn = figure("timeline", timeline_figure(shown, marks), f"Timeline of the launch. {said}", tools=True)
    hint = f"PM sampling, one sample per {interval}; drag to zoom, double-click to reset"
    return card("Timeline", [drawn, html.P(said, className="hint")], hint)


def _causes(entry: Launch) -> Component:
    causes = entry.verdict.get("causes") or []
    if not causes and entry.verdict.get("cause") in GOOD_CAUSES:
        return card("Causes and fixes", [note("empty", "Nothing to remove: no cause was found.")])
    if not causes:
        wanted = "--set pipeline" if entry.verdict.get("account") is None else "--set source"
        return card("Causes and fixes", [not_collected("data that would split its idle time", wanted)])
    return card(
        "Causes and fixes",
        [causes_list(causes)],
        "in % of kernel time; a gain takes along what other parts lose",
    )


def _rules(entry: Launch) -> Component:
    rules = _of(entry, entry.report.rules)
    if rules.empty:
        return card("Nsight's rules", [not_collected("rule results", "--set full")])
    return card("Nsight's rules", [rules_list(rules)], "as Nsight Compute states them, with its own estimates")


def _stalls(entry: Launch) -> Component:
    shares = stall_shares(_of(entry, entry.report.source))
    if not shares:
        return card("Stall reasons", [not_collected("warp samples", "--set source")])
    said = ", ".join(f"{reason} {share:.0f} %" for reason, share in shares[:5])
    return card(
        "Stall reasons",
        [figure("stalls", stall_bar(shares), f"Warp samples by stall reason: {said}")],
        "all warp samples",
    )


def _source(entry: Launch) -> Component:
    rows = _of(entry, entry.report.source)
    if rows.empty or not rows["samples"].sum() > 0:
        return card("Hottest instructions", [not_collected("warp samples per instruction", "--set source")])
    return card("Hottest instructions", [source_table(rows)], "by share of warp samples")
