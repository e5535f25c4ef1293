"""Head of the kernel page: where one is, the verdict in one sentence with its numbers, where the
data come from, and what limits its CTAs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.occupancy_limits import ACHIEVED, Limit, Limits, kib, limits_of, setmaxnreg
from ncubble.analysis.account.parts import GOOD_CAUSES, part_color, part_style
from ncubble.analysis.changes.change import places
from ncubble.analysis.details.tracks import sampling_interval_ns
from ncubble.analysis.diagnosis import words
from ncubble.dashboard.pages.addresses import CompareAddress, KernelAddress, SourceAddress
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui import components as ui
from ncubble.text import values
from ncubble.text.values import UnitStep

RECOVERABLE = "Idle time of the counted unit: the most that removing every bubble can give back"
METERED = 8
"""CTAs per SM at which the bar of a limit is full: only tight limits need to be distinguishable."""
_COUNTS = (
    UnitStep(1e9, 1e9, ".2f", "G"),
    UnitStep(1e6, 1e6, ".2f", "M"),
    UnitStep(1e3, 1e3, ".2f", "k"),
    UnitStep(0, 1, ".0f", ""),
)
_CLOCKS = {"none": "not locked", "base": "locked to base by ncu", "boost": "locked to boost by ncu"}
_RESOURCES = ("Resource", "CTAs per SM", "A CTA takes", "An SM has", "One more CTA would need")


def head(view: LaunchView) -> Component:
    """Links around the launch, its name, and what tells it from others of its kernel."""
    row, name = view.row, str(view.row["name"])
    parts: list[Component] = [_crumbs(view), html.H1(values.short_name(name, 120), title=name)]
    clock = values.scaled(row["clock_ghz"], [UnitStep(0, 1, ".2f", "GHz")], missing="")
    if lead := [str(text) for text in (row["label"], row["shape"], row["device"], clock) if text]:
        parts.append(html.P(" · ".join(dict.fromkeys(lead)), className="lead"))
    if row["demangled"] not in (name, row["kernel"]):
        full = html.Code(row["demangled"])
        parts.append(html.Details([html.Summary("full signature"), full], className="signature"))
    return html.Div(parts, className="page-head kernel-head")


def _crumbs(view: LaunchView) -> Component:
    family = [str(other.row["id"]) for other in view.store.siblings(view.entry)]
    steps: list[Component] = [dcc.Link("← All launches", href="/", className="button")]
    if len(family) > 1:
        index = family.index(view.id) if view.id in family else 0
        steps.append(ui.hint(f"launch {index + 1} of {len(family)} in this report"))
        steps += ui.neighbours(family, view.id, KernelAddress().of_launch)
    href = SourceAddress().of_launch(view.id)
    steps.append(dcc.Link("Source and SASS", href=href, className="button", id="show-source"))
    if view.store.alike(view.entry):
        compare = CompareAddress((view.id,)).href()
        steps.append(dcc.Link("Compare with another launch of this kernel", href=compare, className="button"))
    return ui.crumbs("Launches", *steps)


def verdict(view: LaunchView) -> Component:
    """The verdict in one sentence, what to do, and the numbers that one asks for first."""
    judged, cause = view.judged, view.judged.cause
    warnings = [text for text in judged.warnings if text not in judged.doubts]
    parts: list[Component] = []
    if judged.doubts:
        parts.append(ui.items(judged.doubts, "note note-error doubts", role="alert"))
    parts.append(html.P(sentence := words.sentence(judged), className="sentence"))
    tied = [change for place, change in zip(places(judged.changes), judged.changes, strict=True) if place == 1]
    advice = "; or ".join(map(words.change_words, tied)) or words.without_change(judged)
    if advice not in sentence:
        parts.append(html.P(f"{ui.capital(advice)}.", className="advice"))
    parts.append(html.Dl(_stats(view), className="stats"))
    if warnings:
        parts.append(ui.items(warnings, "warnings"))
    color = "var(--good)" if cause in GOOD_CAUSES else part_color(cause)
    return html.Section(parts, className="card verdict", style={"borderLeftColor": color}, **ui.aria(label="Verdict"))


def _stats(view: LaunchView) -> list[Component]:
    """What is asked for first. ``Busy`` is of the unit that the account counts: the tensor pipe, or
    by name the busiest one of a kernel without tensor work; its idle time bounds what removing
    bubbles can give back."""
    row, unit, gain = view.row, view.judged.unit, view.row["recoverable_ns"]
    tensor = values.percent(row["tensor"])
    ldgsts, tma = (values.scaled(view.judged.async_copy[kind], _COUNTS) for kind in ("ldgsts", "tma"))
    bubble = part_style(row["bubble_key"]).meaning if row["bubble_key"] else ""
    idle = "" if gain is None else f"idle time of the {view.unit}"
    busy, recoverable = (
        ui.stat("Tensor pipe busy", tensor),
        ui.stat("Recoverable, at most", values.duration(gain), idle, RECOVERABLE),
    )
    if unit not in (None, "tensor"):
        busy = ui.stat(f"{view.unit} busy", values.percent(row["busy"]), f"tensor pipe {tensor}")
    if gain == 0.0:
        recoverable = ui.stat("Recoverable", "none", "nothing that a change of the pipeline recovers")
    return [
        ui.stat("Duration", values.duration(row["duration_ns"])),
        busy,
        ui.stat("DRAM", values.percent(row["dram"])),
        ui.stat("Biggest bubble", values.percent(row["bubble_pct"]), row["bubble"] or "", bubble),
        recoverable,
        ui.stat("Async copies (LDGSTS)", ldgsts, f"TMA: {tma}"),
    ]


def provenance(view: LaunchView) -> Component:
    """What was measured, on what, with what, when: one flowing line."""
    report, launch = view.entry.report, view.launch.identity
    manifest = report.run.manifest
    capability = f" (CC {launch.compute_capability})" if launch.compute_capability else ""
    sizes = [values.number(size) for size in (launch.smem_static_B, launch.smem_dynamic_B)]
    memory = kib(sum(size or 0.0 for size in sizes))
    pairs = [
        ("GPU", f"{values.text(launch.device)}{capability}"),
        ("SM clock", values.frequency(launch.sm_clock_hz)),
        ("clocks", clock_control(manifest.ncu_argv, manifest.argv)),
        ("grid × block", f"{values.text(launch.grid)} × {values.text(launch.block)}"),
        ("registers", values.fixed(launch.registers, 0)),
        ("shared memory", values.NOT_COLLECTED if sizes == [None, None] else memory),
        ("Nsight Compute", values.text(launch.ncu_version)),
        ("replay passes", _passes(view)),
        ("sampling interval", values.duration(sampling_interval_ns(view.launch.timeline))),
        ("content", str(report.key)),
        ("file", ui.near(report.run.path)),
    ]
    optional = [
        ("NVTX", launch.nvtx),
        ("driver", manifest.device.get("driver")),
        ("metric set", "+".join(manifest.metric_set)),
        ("git", str(manifest.git.get("sha") or "")[:12] + (" (dirty)" if manifest.git.get("dirty") else "")),
        ("recorded", manifest.started),
    ]
    pairs += [(name, str(value)) for name, value in optional if value]
    return html.Section(
        [html.H2("Provenance"), ui.facts(pairs)], className="card provenance", **ui.aria(label="Provenance")
    )


def clock_control(argv: Sequence[str], program: Sequence[str] = ()) -> str:
    """Whether ncu locked the clocks, as far as the manifest tells; a report by itself does not.

    ``argv`` is all of ncu's command line, ``program`` the profiled command at its end, whose
    options are not ncu's.
    """
    if not argv:
        return values.NOT_COLLECTED
    own = " ".join(argv[: len(argv) - len(program)])
    control: str
    *_, control = "base", *re.findall(r"--clock-control[= ](\S+)", own)
    return _CLOCKS.get(control, control)


def _passes(view: LaunchView) -> str:
    """The replays of the launch by the manifest, else by the report."""
    launches, number = view.entry.report.run.manifest.report.get("launches") or [], view.entry.number
    declared = launches[number].get("passes") if number < len(launches) else None
    return values.fixed(view.launch.scalars.get("profiler__replayer_passes") if declared is None else declared, 0)


# --- Launch and occupancy ---


def occupancy(view: LaunchView) -> Component:
    """Geometry and occupancy in numbers, then what limits the CTAs of an SM: a row per resource."""
    limits, launch = limits_of(view.launch.scalars), view.launch.identity
    cluster = "none" if limits.cluster <= 0 else f"{values.fixed(limits.cluster, 0)} CTAs"
    stats = [
        ui.stat("Grid", values.text(launch.grid), _count(limits.grid_ctas, "CTAs")),
        ui.stat("Block", values.text(launch.block), _count(limits.warps, "warps")),
        ui.stat("Waves", values.fixed(limits.waves, 2), _count(limits.sms, "SMs")),
        ui.stat(
            "CTAs per SM",
            values.fixed(limits.ctas, 0),
            f"limited by {ui.joined(limits.binding)}" if limits.known else "",
        ),
        ui.stat("Theoretical occupancy", values.percent(limits.theoretical_pct)),
        ui.stat("Achieved occupancy", values.percent(limits.achieved_pct)),
        ui.stat(
            "Cluster",
            values.NOT_COLLECTED if math.isnan(limits.cluster) else cluster,
            _count(limits.clusters, "fit on the GPU") if limits.cluster > 0 else "",
        ),
    ]
    parts: list[ui.Child] = [html.Dl(stats, className="stats")]
    if limits.known:
        rows = [_resource(limit, limit.resource in limits.binding) for limit in limits.limits]
        text = html.P(limits_sentence(limits), className="limits-sentence")
        parts += [text, ui.table(_RESOURCES, rows, "CTAs per SM by resource")]
        if moved := setmaxnreg(view.launch.source["sass"]):
            parts.append(html.P(moved, className="hint"))
    else:
        parts.append(ui.not_collected("occupancy limits", "--set pipeline"))
    if math.isnan(limits.achieved_pct):
        parts.append(html.P(f"Achieved occupancy needs {ACHIEVED}; --set pipeline collects it.", className="hint"))
    return ui.card("Launch and occupancy", parts, "what limits the CTAs per SM")


def limits_sentence(limits: Limits) -> str:
    """What binds, and whether that matters: a grid that does not fill the GPU, or slots that are
    all taken."""
    verb = "binds" if len(limits.binding) == 1 and not limits.binding[0].endswith("s") else "bind"
    ctas = f"{limits.ctas:.0f} CTA{'' if limits.ctas == 1 else 's'}"
    resident = f"An SM holds {ctas}; {ui.joined(limits.binding)} {verb}"
    if limits.grid_binds:
        return (
            f"The grid has {limits.grid_ctas:.0f} CTAs, fewer than the {limits.ctas * limits.sms:.0f} "
            "that the GPU holds at once: the grid size limits occupancy before any resource does. "
            f"{resident}."
        )
    if limits.theoretical_pct >= 99.95:
        return f"{resident}, and every warp slot is in use: occupancy cannot grow."
    return f"{resident}. More CTAs hide more latency only if warps lack work; see the account."


def _resource(limit: Limit, binds: bool) -> list[ui.Child]:
    name: ui.Child = html.Strong(f"{limit.resource} (binds)") if binds else limit.resource
    if math.isnan(limit.ctas):
        return [name, ui.absent(), limit.uses, limit.has, ""]
    color = "var(--bad)" if binds else "var(--accent)"
    count = ui.metered(f"{limit.ctas:.0f}", min(limit.ctas, METERED), METERED, color)
    return [name, count, limit.uses, limit.has, limit.one_more or "has room"]


def _count(value: float, what: str) -> str:
    return "" if math.isnan(value) else f"{value:,.0f} {what}"
