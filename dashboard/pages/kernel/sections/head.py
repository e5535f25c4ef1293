"""Head of the kernel page: where one is, the verdict in one sentence with its numbers, and where
the data come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import GOOD_CAUSES
from ncubble.analysis.account.parts import part_color, part_label
from ncubble.analysis.details.tracks import sampling_interval_ns
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.diseases import fix_of
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel.address import KernelAddress
from ncubble.dashboard.pages.kernel.sections.against import comparable
from ncubble.dashboard.pages.source.address import SourceAddress
from ncubble.dashboard.ui.components import aria, facts, stat
from ncubble.text import values as shown


def head(store: ReportStore, entry: Entry) -> Component:
    """Links around the launch, its name, and what tells it from others of its kernel."""
    row = entry.row
    name = str(row["name"])
    parts: list[Component] = [_crumbs(store, entry), html.H1(shown.short_name(name, 120), title=name)]
    told = [row["label"], row["shape"], row["device"], _clock(row)]
    lead = " · ".join(dict.fromkeys(str(text) for text in told if text))
    if lead:
        parts.append(html.P(lead, className="lead"))
    if row["demangled"] not in (name, row["kernel"]):
        full = html.Code(row["demangled"])
        parts.append(html.Details([html.Summary("full signature"), full], className="signature"))
    return html.Div(parts, className="page-head kernel-head")


def _clock(row: Mapping[str, Any]) -> str:
    known = shown.number(row["clock_ghz"])
    return "" if known is None else f"{known:.2f} GHz"


def _crumbs(store: ReportStore, entry: Entry) -> Component:
    family = store.siblings(entry)
    index = next((i for i, other in enumerate(family) if other.number == entry.number), 0)
    steps: list[Component] = [dcc.Link("← All launches", href="/", className="button")]
    if len(family) > 1:
        steps.append(html.Span(f"launch {index + 1} of {len(family)} in this report", className="hint"))
        around = ((index - 1, "‹ previous", "previous-launch"), (index + 1, "next ›", "next-launch"))
        for other, text, name in around:
            if 0 <= other < len(family):
                steps.append(
                    dcc.Link(text, href=KernelAddress().of_launch(family[other].row["id"]), className="button", id=name)
                )
    source = dcc.Link(
        "Source and SASS", href=SourceAddress().of_launch(entry.row["id"]), className="button", id="show-source"
    )
    steps.append(source)
    if (others := comparable(store, entry)) is not None:
        steps.append(others)
    return html.Nav(steps, className="crumbs", **aria(label="Launches"))


def verdict(entry: Entry) -> Component:
    """The verdict in one sentence, what to do, and the numbers that one asks for first."""
    found, row = entry.verdict, entry.row
    cause = str(found.get("cause") or "unknown")
    color = "var(--good)" if cause in GOOD_CAUSES else part_color(cause)
    said: list[Component] = [html.P(words.sentence(found), className="sentence")]
    if (advice := fix_of(cause)) and cause not in {one.get("cause") for one in found.get("causes") or []}:
        said.append(html.P(f"{advice[:1].upper()}{advice[1:]}.", className="advice"))
    said.append(html.Dl(_stats(found, row), className="stats"))
    doubts = words.doubts(found)
    others = [str(text) for text in found.get("warnings") or [] if text not in doubts]
    if doubts:
        said.insert(0, html.Ul([html.Li(text) for text in doubts], className="note note-error doubts", role="alert"))
    if others:
        said.append(html.Ul([html.Li(text) for text in others], className="warnings"))
    return html.Section(said, className="card verdict", style={"borderLeftColor": color}, **aria(label="Verdict"))


def _stats(found: Mapping[str, Any], row: Mapping[str, Any]) -> list[Component]:
    copies = found.get("async_copy") or {}
    largest = words.biggest_bubble(found.get("account"))
    return [
        stat("Duration", shown.duration(row["duration_ns"])),
        _busy(found, row),
        stat("DRAM", shown.percent(row["dram"])),
        stat(
            "Biggest bubble",
            shown.percent(largest[1]) if largest else shown.NOT_COLLECTED,
            part_label(largest[0]) if largest else "",
        ),
        _recoverable(row["recoverable_ns"], words.unit_words(found.get("unit"))),
        stat("Async copies (LDGSTS)", _count(copies.get("ldgsts")), f"TMA: {_count(copies.get('tma'))}"),
    ]


def _busy(found: Mapping[str, Any], row: Mapping[str, Any]) -> Component:
    """The unit that the account counts: the tensor pipe, or by name the busiest one of a kernel
    without tensor work."""
    unit = found.get("unit")
    if unit is None or unit == "tensor":
        return stat("Tensor pipe busy", shown.percent(row["tensor"]))
    return stat(
        f"{words.unit_words(unit)} busy", shown.percent(row["busy"]), f"tensor pipe {shown.percent(row['tensor'])}"
    )


def _recoverable(value: float | None, unit: str) -> Component:
    """The idle time of the counted unit, which bounds what removing bubbles can give back."""
    if value == 0.0:
        return stat("Recoverable", "none", "nothing that a change of the pipeline gives back")
    return stat("Recoverable, at most", shown.duration(value), "" if value is None else f"idle time of the {unit}")


def _count(warp_instructions: Any) -> str:
    """A number of executed warp instructions with its SI prefix."""
    value = shown.number(warp_instructions)
    if value is None:
        return shown.NOT_COLLECTED
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.2f} {prefix}"
    return f"{value:.0f}"


def provenance(entry: Entry) -> Component:
    """What was measured, on what, with what, when: one flowing line."""
    report = entry.report
    one, manifest = entry.launch.identity, report.run.manifest
    timeline = entry.launch.timeline
    capability = f" (CC {one['compute_capability']})" if one["compute_capability"] else ""
    scalars = entry.launch.scalars
    pairs = [
        ("GPU", f"{shown.text(one['device'])}{capability}"),
        ("SM clock", shown.frequency(one["sm_clock_hz"])),
        ("clocks", _clock_control(manifest.ncu_argv, manifest.argv)),
        ("grid × block", f"{shown.text(one['grid'])} × {shown.text(one['block'])}"),
        ("registers", _whole(one["registers"])),
        ("shared memory", _bytes(one["smem_static_B"], one["smem_dynamic_B"])),
        ("Nsight Compute", shown.text(one["ncu_version"])),
        ("replay passes", _passes(entry, scalars)),
        ("sampling interval", shown.duration(sampling_interval_ns(timeline))),
        ("content", str(report.key)),
        ("file", str(report.run.path)),
    ]
    optional = [
        ("NVTX", one["nvtx"]),
        ("driver", manifest.device.get("driver")),
        ("metric set", "+".join(manifest.metric_set)),
        ("git", str(manifest.git.get("sha") or "")[:12] + (" (dirty)" if manifest.git.get("dirty") else "")),
        ("recorded", manifest.started),
    ]
    pairs += [(name, str(value)) for name, value in optional if value]
    return html.Section([html.H2("Provenance"), facts(pairs)], className="card provenance", **aria(label="Provenance"))


_CLOCKS = {"none": "as they are", "base": "locked to base by ncu", "boost": "locked to boost by ncu"}


def _clock_control(argv: Sequence[str], program: Sequence[str] = ()) -> str:
    """Whether ncu locked the clocks, as far as the manifest tells; a report by itself does not.

    ``argv`` is all of ncu's command line, ``program`` the profiled command at its end, whose
    options are not ncu's.
    """
    if not argv:
        return shown.NOT_COLLECTED
    own = argv[: -len(program)] if program and list(argv[-len(program) :]) == list(program) else argv
    given = "base"
    for text, after in pairwise([*own, ""]):
        if text == "--":
            break
        name, sign, value = text.partition("=")
        if name == "--clock-control":
            given = value if sign else after
    return _CLOCKS.get(given, given)


def _passes(entry: Entry, scalars: Mapping[str, float]) -> str:
    recorded = entry.report.run.manifest.report.get("launches") or []
    told = recorded[entry.number].get("passes") if entry.number < len(recorded) else None
    return _whole(scalars.get("profiler__replayer_passes") if told is None else told)


def _whole(value: Any) -> str:
    known = shown.number(value)
    return shown.NOT_COLLECTED if known is None else f"{known:.0f}"


def _bytes(*values: Any) -> str:
    known = [number for value in values if (number := shown.number(value)) is not None]
    return f"{sum(known) / 1024:.1f} KiB" if known else shown.NOT_COLLECTED
