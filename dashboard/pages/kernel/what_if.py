"""What if the launch had other settings: how long it would take, and where its time would go. What
was recorded or tried stands as measured, all else as predicted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import HATCH_NAMES
from ncubble.analysis.account.parts import WORK
from ncubble.analysis.changes.change import KINDS, TRITON, Change, kind_of_constant, value_of
from ncubble.analysis.changes.tried import OK, Tried
from ncubble.analysis.diagnosis.words import try_command
from ncubble.analysis.gate.history import read
from ncubble.analysis.sweeps.sweeps import sweeps
from ncubble.analysis.traces.lanes import FILE, run_id, traced_kernel
from ncubble.dashboard.pages.addresses import (
    ChecksAddress,
    CompareAddress,
    KernelAddress,
    SweepAddress,
    TimelinesAddress,
)
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui import components as ui
from ncubble.dashboard.ui.figures import depth_figure, described, parts_of
from ncubble.text import values

MOST = 12
"""Maximum settings shown; those that save most are kept."""
OF_ANY_PROGRAM = "ncubble try --vary NAME=V,V --build CMD -- PROGRAM"
"""Tries a program that is neither of the catalog nor in Triton."""
_USUAL = {"stages": ("stages", "num_stages"), "warps": ("warps", "num_warps")}
_HEAD = ("Settings", "Time", "Saves", "Account", "From")


class Alternative(NamedTuple):
    """``settings`` that differ from the launch's, as ``name=value``; percent of its time that they
    save, negative for a loss, None where that is not known, with an interval where it is predicted;
    the account in percent of the new time; the id of the ``launch`` that measured it."""

    settings: str
    source: str
    saves_pct: float | None = None
    low: float | None = None
    high: float | None = None
    account: Mapping[str, float] = {}
    launch: str = ""


def alternatives(view: LaunchView) -> list[Alternative]:
    """Settings of which something is known, those that save most first; what was measured stands in
    place of a prediction."""
    known: dict[str, Alternative] = {}
    for found in (_recorded(view), _tried(view), _changes(view), _depths(view)):
        for one in found:
            known.setdefault(one.settings, one)
    return sorted(known.values(), key=lambda one: (one.saves_pct is None, -(one.saves_pct or 0.0)))


def _recorded(view: LaunchView) -> Iterator[Alternative]:
    """Launches of the same kernel and problem on the same GPU model."""
    now, own = view.row, view.row["parameters"]
    for row in (other.row for other in view.store.alike(view.entry)):
        differ = [f"{name}={value}" for name, value in row["parameters"].items() if own.get(name) != value]
        alike = all(row[name] == now[name] for name in ("kernel", "device", "dims"))
        if differ and alike and row["duration_ns"] and now["duration_ns"] and _same_work(row, now):
            saves = 100.0 * (1.0 - row["duration_ns"] / now["duration_ns"])
            account = dict(row["measured"] or row["account"])
            yield Alternative(" ".join(differ), "measured", saves, account=account, launch=str(row["id"]))


def _same_work(row: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether both compute as much, as far as their runs say: a causal mask halves the work."""
    if {row["flops_from"], now["flops_from"]} != {"run"}:
        return True
    return math.isclose(*(one["tflops"] * one["duration_ns"] for one in (row, now)), rel_tol=0.01)


def _tried(view: LaunchView) -> Iterator[Alternative]:
    """What ``ncubble try`` timed of this run."""
    tried = Tried.load(view.entry.report.run.path)
    for made in tried.base.changes if tried and tried.kernel in (view.row["name"], view.row["kernel"]) else ():
        if made.outcome == OK:
            yield Alternative(f"{made.name}={made.after}", "tried", made.gain_pct, made.low, made.high)


def _changes(view: LaunchView) -> Iterator[Alternative]:
    """Changes of the verdict that set something."""
    for change in view.verdict.changes:
        after = value_of(change.after, change.before)
        if change.kind in TRITON and after is not None and not change.blocked:
            saves, source = change.gain_pct, "predicted" if change.known else "unknown: try it"
            account = _without(view.verdict.account or {}, change.part, saves) if saves else {}
            yield Alternative(f"{_name(view, change.kind)}={after}", source, saves, change.low, change.high, account)


def _depths(view: LaunchView) -> Iterator[Alternative]:
    """Other depths of the pipeline, in the scale of the change that the verdict promises."""
    present = view.depths.predicted.get(view.depths.stages or 0)
    if present is None:
        return
    saves = {depth: 100.0 * (1.0 - one.cycles / present.cycles) for depth, one in view.depths.predicted.items() if one}
    promised = next((one for one in view.verdict.changes if one.kind == "stages" and one.known), Change(kind="stages"))
    predicted = saves.get(promised.after) if isinstance(promised.after, int) else None
    scale = min(1.0, (promised.gain_pct or 0.0) / predicted) if predicted and predicted > 0.0 else 1.0
    for depth, percent in saves.items():
        if depth != view.depths.stages:
            scaled = percent * scale if percent > 0.0 else percent
            account = _without(view.verdict.account or {}, "data_wait", scaled)
            yield Alternative(f"{_name(view, 'stages')}={depth}", "predicted", scaled, account=account)


def _name(view: LaunchView, kind: str) -> str:
    """What the run calls the setting of a kind, else the usual word."""
    for name, value in view.row["parameters"].items():
        if name in _USUAL.get(kind, ()) or (isinstance(value, int) and kind_of_constant(name, value) == kind):
            return str(name)
    return KINDS[kind]


def _without(account: Mapping[str, float], part: str | None, percent: float) -> dict[str, float]:
    """The account, in percent of the new time, once ``percent`` of the time is saved: first of
    ``part``, then of other idle time in proportion. What is lost instead is more of ``part``."""
    taken = min(account.get(part or "", 0.0), percent)
    idle = sum(share for name, share in account.items() if name not in (*WORK, part))
    rest = max(0.0, 1.0 - (percent - taken) / idle) if idle > 0.0 else 1.0
    left = {name: share if name in WORK else share * rest for name, share in account.items()}
    if part in left:
        left[part] = account[part] - taken
    whole = sum(left.values()) or 1.0
    return {name: 100.0 * share / whole for name, share in left.items()}


def section(view: LaunchView) -> Component:
    """The card: a row for each alternative, links to other pages of the kernel, and the utilization
    of other depths as ``report --depths`` has it."""
    present = Alternative("now", "this launch", 0.0, account=view.verdict.account or {})
    rows = [_cells(view, one) for one in (present, *alternatives(view)[:MOST])]
    command = try_command(view.verdict, view.entry.report.run.manifest.argv) or OF_ANY_PROGRAM
    left: list[Component] = [
        ui.table(_HEAD, rows, "Other settings of this launch", (1, 2)),
        ui.note("empty", "Any other setting is unknown: try it with", command),
        html.Div(ui.crumbs("Other pages of this kernel", *_elsewhere(view)), className="live-only"),
    ]
    right: list[Component] = []
    if any(one and depth != view.depths.stages for depth, one in view.depths.predicted.items()):
        right.append(ui.figure("depths", depth_figure(view.depths, view.unit), "Predicted utilization by stages"))
    if notes := [f"{ui.capital(text)}." for text in view.depths.notes if text]:
        right.append(ui.items(notes, "warnings"))
    return ui.card("What if", [html.Div([html.Div(left), html.Div(right)], className="columns")])


def _cells(view: LaunchView, one: Alternative) -> list[ui.Child]:
    took, saves = view.row["duration_ns"], one.saves_pct
    source: list[Any] = [one.source]
    if one.launch:
        href = CompareAddress((view.id, one.launch)).href()
        source = [dcc.Link(one.source, href=KernelAddress().of_launch(one.launch)), " ", dcc.Link("compare", href=href)]
    interval = "" if one.low is None or one.high is None else f" ({one.low:z.0f} to {one.high:z.0f})"
    gain = "" if one.source == "this launch" or saves is None else html.Span([f"{saves:.1f} %", ui.hint(interval)])
    time = values.duration(took * (1.0 - saves / 100.0)) if took and saves is not None else ui.absent("unknown")
    return [one.settings, time, gain, _bar(one.account, view.unit) if one.account else "", html.Span(source)]


def _elsewhere(view: LaunchView) -> Iterator[Component]:
    """Links to sweeps, traces and checks of the same kernel."""
    store, row, gpu = view.store, view.row, values.device_of(view.row)
    words = {str(row["name"]), *str(row["label"]).split(), *str(row["shape"]).split()}
    links: dict[str, str] = {}
    for swept in sweeps([row, *(other.row for other in store.alike(view.entry))]):
        if swept.gpu == gpu:
            links[f"Sweep of {swept.parameter}"] = SweepAddress(swept.kernel, swept.parameter, gpu).href()
    for run in store.runs_with(FILE):
        if traced_kernel(run) == row["name"]:
            links[f"Timeline {run.name}"] = TimelinesAddress(run_id(run)).href()
    for checked in read(store.checks or Path("checks")).kernels:
        if checked.device == gpu and set(checked.label.split()) == words:
            links["Checks against its baseline"] = ChecksAddress(checked.kernel, checked.gpu).href()
    for text, href in links.items():
        yield dcc.Link(text, href=href, className="button small")


def _bar(account: Mapping[str, float], unit: str) -> ui.Child:
    """The account as a bar in a table."""
    segments = []
    for _, share, style in parts_of(account):
        look = {"width": f"{share:.2f}%", "background": style.color}
        segments.append(html.Span(style=look, className=HATCH_NAMES.get(style.hatch, "")))
    words = described(account, unit)
    return html.Span(segments, className="account-cell", role="img", title=words, **ui.aria(label=words))
