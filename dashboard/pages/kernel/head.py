"""Head of the kernel page: where one is, the verdict in one sentence with its numbers, and where
the data come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import GOOD_CAUSES, part_color
from ncubble.analysis.details.tracks import sampling_interval_ns
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.diseases import fix_of
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.rows import labels
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import CompareAddress, KernelAddress, SourceAddress
from ncubble.dashboard.ui.components import aria, crumbs, facts, neighbours, stat
from ncubble.errors import ReportError
from ncubble.profiling.runs import RunNotes
from ncubble.text import values
from ncubble.text.values import UnitStep

MOST_COMPARED = 16
"""Maximum launches offered for comparison; the table of launches can compare any."""
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_COUNTS = (*(UnitStep(size, size, ".2f", name) for size, name in _PREFIXES), UnitStep(0, 1, ".0f", ""))
_GHZ = (UnitStep(0, 1, ".2f", "GHz"),)
_CLOCKS = {"none": "not locked", "base": "locked to base by ncu", "boost": "locked to boost by ncu"}


def head(store: ReportStore, entry: Entry) -> Component:
    """Links around the launch, its name, and what tells it from others of its kernel."""
    row, name = entry.row, str(entry.row["name"])
    parts: list[Component] = [_crumbs(store, entry), html.H1(values.short_name(name, 120), title=name)]
    lead = [row["label"], row["shape"], row["device"], values.scaled(row["clock_ghz"], _GHZ, missing="")]
    if any(lead):
        parts.append(html.P(" · ".join(dict.fromkeys(str(text) for text in lead if text)), className="lead"))
    parts += _notes(entry)
    if row["demangled"] not in (name, row["kernel"]):
        full = html.Code(row["demangled"])
        parts.append(html.Details([html.Summary("full signature"), full], className="signature"))
    return html.Div(parts, className="page-head kernel-head")


def _notes(entry: Entry) -> list[Component]:
    """Tags and note of the run, or what is wrong with their file."""
    try:
        notes = RunNotes.of(entry.report.run)
    except ReportError as error:
        return [html.P(error.message, className="hint")]
    tags = [html.Span(tag, className="tag") for tag in notes.tags]
    shown: list[Component] = [html.P(tags, className="tags", **aria(label="Tags of the run"))] if tags else []
    return [*shown, html.P(notes.note, className="run-note")] if notes.note else shown


def _crumbs(store: ReportStore, entry: Entry) -> Component:
    family, own = [str(other.row["id"]) for other in store.siblings(entry)], str(entry.row["id"])
    steps: list[Component] = [dcc.Link("← All launches", href="/", className="button")]
    if len(family) > 1:
        index = family.index(own) if own in family else 0
        steps.append(html.Span(f"launch {index + 1} of {len(family)} in this report", className="hint"))
        steps += neighbours(family, own, KernelAddress().of_launch)
    href = SourceAddress().of_launch(own)
    steps.append(dcc.Link("Source and SASS", href=href, className="button", id="show-source"))
    return crumbs("Launches", *steps, *_comparable(store, entry))


def _comparable(store: ReportStore, entry: Entry) -> list[Component]:
    """Links that compare this launch with others of its kernel, which come first; nothing where
    there are none."""
    others, links = store.alike(entry), []
    named = zip(others, labels([other.row for other in [*others, entry]]), strict=False)
    for other, label in list(named)[:MOST_COMPARED]:
        text = f"{label or other.row['name']} · {values.duration(other.row['duration_ns'])}"
        where = f"{other.row['path']}, launch {other.number}"
        href = CompareAddress((str(other.row["id"]), str(entry.row["id"]))).href()
        links.append(html.Li(dcc.Link(text, href=href, className="button small", title=where)))
    if len(others) > MOST_COMPARED:
        links.append(html.Li(f"{len(others) - MOST_COMPARED} more: select rows in the table", className="hint"))
    summary = html.Summary("compare with another launch of this kernel")
    return [html.Details([summary, html.Ul(links)], className="against")] if links else []


def verdict(entry: Entry) -> Component:
    """The verdict in one sentence, by what was measured where it was, what to do, and the numbers
    that one asks for first."""
    judged = as_measured(entry.verdict, entry.ablation)
    cause, doubts = judged.cause, judged.doubts
    warnings = [text for text in judged.warnings if text not in doubts]
    parts: list[Component] = []
    if doubts:
        parts.append(html.Ul([html.Li(text) for text in doubts], className="note note-error doubts", role="alert"))
    parts.append(html.P(words.sentence(judged), className="sentence"))
    if (advice := fix_of(cause)) and cause not in {bubble.cause for bubble in judged.causes}:
        parts.append(html.P(f"{advice[:1].upper()}{advice[1:]}.", className="advice"))
    parts.append(html.Dl(_stats(judged, entry.row), className="stats"))
    if warnings:
        parts.append(html.Ul([html.Li(text) for text in warnings], className="warnings"))
    color = "var(--good)" if cause in GOOD_CAUSES else part_color(cause)
    return html.Section(parts, className="card verdict", style={"borderLeftColor": color}, **aria(label="Verdict"))


def _stats(judged: LaunchVerdict, row: Mapping[str, Any]) -> list[Component]:
    """What is asked for first. ``Busy`` is of the unit that the account counts: the tensor pipe, or
    by name the busiest one of a kernel without tensor work; its idle time bounds what removing
    bubbles can give back."""
    unit, gain = judged.unit, row["recoverable_ns"]
    tensor, unit_words = values.percent(row["tensor"]), words.unit_words(unit)
    ldgsts, tma = (values.scaled(judged.async_copy[kind], _COUNTS) for kind in ("ldgsts", "tma"))
    recoverable = stat("Recoverable", "none", "nothing that a change of the pipeline recovers")
    if gain != 0.0:
        idle = "" if gain is None else f"idle time of the {unit_words}"
        recoverable = stat("Recoverable, at most", values.duration(gain), idle)
    return [
        stat("Duration", values.duration(row["duration_ns"])),
        stat("Tensor pipe busy", tensor)
        if unit in (None, "tensor")
        else stat(f"{unit_words} busy", values.percent(row["busy"]), f"tensor pipe {tensor}"),
        stat("DRAM", values.percent(row["dram"])),
        stat("Biggest bubble", values.percent(row["bubble_pct"]), row["bubble"] or ""),
        recoverable,
        stat("Async copies (LDGSTS)", ldgsts, f"TMA: {tma}"),
    ]


def provenance(entry: Entry) -> Component:
    """What was measured, on what, with what, when: one flowing line."""
    report, launch = entry.report, entry.launch.identity
    manifest = report.run.manifest
    capability = f" (CC {launch.compute_capability})" if launch.compute_capability else ""
    pairs = [
        ("GPU", f"{values.text(launch.device)}{capability}"),
        ("SM clock", values.frequency(launch.sm_clock_hz)),
        ("clocks", _clock_control(manifest.ncu_argv, manifest.argv)),
        ("grid × block", f"{values.text(launch.grid)} × {values.text(launch.block)}"),
        ("registers", values.fixed(launch.registers, 0)),
        ("shared memory", _kib(launch.smem_static_B, launch.smem_dynamic_B)),
        ("Nsight Compute", values.text(launch.ncu_version)),
        ("replay passes", _passes(entry)),
        ("sampling interval", values.duration(sampling_interval_ns(entry.launch.timeline))),
        ("content", str(report.key)),
        ("file", str(report.run.path)),
    ]
    optional = [
        ("NVTX", launch.nvtx),
        ("driver", manifest.device.get("driver")),
        ("metric set", "+".join(manifest.metric_set)),
        ("git", str(manifest.git.get("sha") or "")[:12] + (" (dirty)" if manifest.git.get("dirty") else "")),
        ("recorded", manifest.started),
    ]
    pairs += [(name, str(value)) for name, value in optional if value]
    return html.Section([html.H2("Provenance"), facts(pairs)], className="card provenance", **aria(label="Provenance"))


def _clock_control(argv: Sequence[str], program: Sequence[str] = ()) -> str:
    """Whether ncu locked the clocks, as far as the manifest tells; a report by itself does not.

    ``argv`` is all of ncu's command line, ``program`` the profiled command at its end, whose
    options are not ncu's.
    """
    if not argv:
        return values.NOT_COLLECTED
    own = argv[: -len(program)] if program and list(argv[-len(program) :]) == list(program) else argv
    given = "base"
    for text, after in pairwise([*own, ""]):
        if text == "--":
            break
        name, sign, value = text.partition("=")
        if name == "--clock-control":
            given = value if sign else after
    return _CLOCKS.get(given, given)


def _passes(entry: Entry) -> str:
    """The replays of the launch by the manifest, else by the report."""
    launches = entry.report.run.manifest.report.get("launches") or []
    declared = launches[entry.number].get("passes") if entry.number < len(launches) else None
    return values.fixed(entry.launch.scalars.get("profiler__replayer_passes") if declared is None else declared, 0)


def _kib(*sizes: Any) -> str:
    known = [size for value in sizes if (size := values.number(value)) is not None]
    return f"{sum(known) / 1024:.1f} KiB" if known else values.NOT_COLLECTED
