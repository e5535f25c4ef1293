"""The Program page: where the time of a whole program goes, between its kernels and inside them.
Its state is its address."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.program.account import ProgramAccount
from ncubble.analysis.program.opening import RecordedProgram, find_programs, is_program, open_program
from ncubble.analysis.program.tree import VIEWS, kind_shares, tree
from ncubble.analysis.traces.lanes import LaneRun
from ncubble.dashboard.data.index import signature_of
from ncubble.dashboard.data.roots import OUTSIDE, leads_out
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import ProgramAddress, TimelinesAddress
from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.program.figures import icicle, kinds_bar
from ncubble.dashboard.pages.program.tables import kernels_card, losses_card, ranges_card
from ncubble.dashboard.ui.components import (
    card,
    choice,
    choices,
    counted,
    facts,
    figure,
    guarded,
    legend,
    link_list,
    note,
    page_head,
)
from ncubble.errors import NcubbleError
from ncubble.text.values import duration, percent

FRESH_S = 5.0
"""Lifetime of the list of runs."""
MOST_LISTED = 100
COMMAND = "ncubble program -- python train.py"
_lock = threading.Lock()
_found: dict[tuple[Path, ...], tuple[float, list[Path]]] = {}
_WHAT = {"kernel": "kernel", "cause": "cause", "range": "NVTX range"}


def layout(store: ReportStore, address: ProgramAddress) -> Component:
    """The page at an address."""
    runs = runs_of(store)
    chosen = next((run for run in runs if LaneRun(run).id == address.run), None)
    parts: list[Component] = [page_head("Program", "Where the time of a whole program goes")]
    if address.run and chosen is None:
        parts.append(note("error", "No recorded program has this address. It may have been moved or deleted."))
    elif chosen is None and runs:
        chosen = runs[0]
    parts += [_listed(runs, chosen)] if len(runs) > 1 else []
    parts += cards(store, chosen, address) if chosen else [] if runs else [_none(store)]
    return html.Div(parts, className="program-page")


def runs_of(store: ReportStore) -> list[Path]:
    """Recorded programs below the paths of the store, then runs that hold streams only."""
    roots = tuple(Path(path) for path in store.paths)
    with _lock:
        made, runs = _found.get(roots, (-FRESH_S, []))
        if time.monotonic() - made >= FRESH_S:
            runs = sorted(find_programs(roots), key=lambda run: not is_program(run))
            _found[roots] = time.monotonic(), runs
    return runs


@lru_cache(maxsize=4)
def _opened(run: Path, stamp: tuple[tuple[int, ...], ...]) -> RecordedProgram:
    return open_program(run)


def opened(run: Path) -> RecordedProgram:
    """The program at ``run``, read anew where a file of it has changed."""
    names = ("activity.parquet", "program.json", "report.ncu-rep", "report.ncu-repz", "run.json")
    return _opened(run, tuple(signature_of(run / name) for name in names))


def _listed(runs: Sequence[Path], chosen: Path | None) -> Component:
    links = []
    for run in runs[:MOST_LISTED]:
        kind = html.Span("program" if is_program(run) else "streams only", className="tag")
        path = html.Span(str(run), className="hint side-path")
        links.append((run.name, ProgramAddress(LaneRun(run).id).href(), run == chosen, [kind, path]))
    more = f", the first {MOST_LISTED} are listed" if len(runs) > MOST_LISTED else ""
    return card("Recorded programs", [link_list(links)], f"{counted(len(runs), 'run')}{more}")


def _none(store: ReportStore) -> Component:
    where = [html.Code(str(path)) for path in store.paths[:6]]
    looked = html.P(["Searched for ", html.Code("activity.parquet"), " in run directories below ", *where])
    return card("Programs", [note("empty", "No recorded program was found. To record one:", COMMAND), looked])


def cards(store: ReportStore, run: Path, address: ProgramAddress) -> list[Component]:
    """The cards of one program; what cannot be read is one card that says why."""
    try:
        if leads_out(run, store.paths):
            raise OUTSIDE
        program = opened(run)
    except NcubbleError as error:
        return [card(run.name, [note("error", f"{error.message}. Remedy: {error.remedy}.")])]
    number = address.device if address.device is not None and address.device < len(program.accounts) else 0
    account = program.accounts[number]
    address = replace(address, run=LaneRun(run).id, device=number or None)
    ids = {f"{row['path']}#{row['launch']}": str(row["id"]) for row in store.rows()}
    blocks = [
        guarded(run.name, lambda: _about(program, account, number, address)),
        guarded("Parts", lambda: _parts(account, address)),
        guarded("Lost time", lambda: losses_card(account)),
        guarded("Kernels", lambda: kernels_card(account, ids)),
    ]
    ranges = ranges_card(account)
    return [*blocks, ranges] if ranges else blocks


def _about(program: RecordedProgram, account: ProgramAccount, number: int, address: ProgramAddress) -> Component:
    shares = kind_shares(account)
    pairs = [("accounted for", f"{duration(account.span.ns)}, {account.span.rule}")]
    pairs += [("left out", f"{duration(ns)} {what}") for what, ns in account.span.excluded]
    if account.overlapped_ns:
        pairs.append(("several kernels at once", f"{duration(account.overlapped_ns)}, split evenly among them"))
    seconds = {"recording took": program.record.recorded_s, "profiling took": program.record.profiled_s}
    pairs += [(name, duration(1e9 * taken)) for name, taken in seconds.items() if taken is not None]
    sentence = ", ".join(f"{name} {percent(pct)}" for name, pct, _ in shares)
    blocks: list[Component] = []
    if len(program.accounts) > 1:
        links = [
            (other.name or f"GPU {other.device}", ProgramAddress(LaneRun(program.folder).id, place, address.by).href(),
             place == number)
            for place, other in enumerate(program.accounts)
        ]  # fmt: skip
        blocks.append(html.Dl(choices("device", links), className="facts"))
    timeline = TimelinesAddress(LaneRun(program.folder).id).href()
    blocks += [
        facts(pairs),
        figure("kinds", kinds_bar(shares), f"Time of the program: {sentence}"),
        legend((f"{name} {percent(pct)}", style) for name, pct, style in shares),
        *(note("info", text) for text in program.notes),
        html.P(dcc.Link("Timeline", href=timeline, className="button small"), className="program-links"),
    ]
    return card(program.folder.name, blocks, "percent of the span; the parts sum to 100")


def _parts(account: ProgramAccount, address: ProgramAddress) -> Component:
    links = [(f"by {_WHAT[view]}", replace(address, by=view).href(), view == address.by) for view in VIEWS]
    drawn = icicle(tree(account, address.by))
    label = f"Parts of the program by {_WHAT[address.by]}; the tables below hold the same numbers"
    views = html.Div([choice(*link) for link in links], className="program-views")
    return card("Parts", [views, figure("parts", drawn, label, tools=True)], "click a part to zoom into it")


PAGE = Page("Program", ProgramAddress, layout)
