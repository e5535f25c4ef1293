"""The Program page: where the time of a whole program goes, between its kernels and inside them.
Its state is its address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import text_color
from ncubble.analysis.account.parts import Style
from ncubble.analysis.program import output
from ncubble.analysis.program.account import BETWEEN, INSIDE, KernelTime, ProgramAccount
from ncubble.analysis.program.record import ProgramResult, is_program, open_program
from ncubble.analysis.streams.recording import FILE
from ncubble.analysis.traces.lanes import run_id
from ncubble.dashboard.data.index import signature_of
from ncubble.dashboard.data.roots import OUTSIDE, leads_out
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import KernelAddress, ProgramAddress, TimelinesAddress
from ncubble.dashboard.pages.page import Page, choose_run
from ncubble.dashboard.ui import components as ui
from ncubble.dashboard.ui.figures import HATCH, Drawn, Figure, safe, segment_text, stacked
from ncubble.errors import NcubbleError
from ncubble.text.values import duration, percent, short_name

COMMAND = "ncubble program -- python train.py"
LEAST_PCT = 0.05
"""Smaller losses get no row."""
MOST_ROWS = 200
"""Maximum rows for kernels and ranges."""
LONGEST = 60
"""Maximum length of a label in the figure; the whole label is in the tooltip."""
LEVEL_PX = 84
_FILES = (FILE, "program.json", "report.ncu-rep", "report.ncu-repz", "run.json")
_WHAT = {"kernel": "kernel", "cause": "cause", "range": "NVTX range"}
_SHARES = ("of the span", "tensor work", "other work", "lost inside")
_KERNELS = ("kernel", "grid", "launches", "time", "median", *_SHARES, "mostly")
_RANGES = ("NVTX range", "time", *_SHARES, "lost between", "mostly")
_LOSSES = ("lost to", "where", "time", "of the span", "what helps")


def layout(store: ReportStore, address: ProgramAddress) -> Component:
    """The page at an address: recorded programs, then runs that hold streams only."""
    runs = sorted(store.runs_with(FILE), key=lambda run: not is_program(run))
    tags = {run: "program" if is_program(run) else "streams only" for run in runs}
    chosen, choosing = choose_run("Recorded programs", tags, address)
    parts = [ui.page_head("Program", "Where the time of a whole program goes"), *choosing]
    if not runs:
        promise = "Where the time of a program goes, between its kernels and inside them."
        parts.append(ui.nothing_found("Programs", promise, COMMAND, FILE, store.paths))
    parts += cards(store, chosen, address) if chosen else []
    return html.Div(parts, className="program-page")


@lru_cache(maxsize=4)
def _opened(run: Path, stamp: tuple[tuple[int, ...], ...]) -> ProgramResult:
    return open_program(run)


def cards(store: ReportStore, run: Path, address: ProgramAddress) -> list[Component]:
    """The cards of one program, read anew where a file of it has changed; what cannot be read is
    one card that says why."""
    try:
        if leads_out(run, store.paths):
            raise OUTSIDE
        program = _opened(run, tuple(signature_of(run / name) for name in _FILES))
    except NcubbleError as error:
        return [ui.card(run.name, [ui.note("error", f"{error.message}. Remedy: {error.remedy}.")])]
    number = address.device if address.device is not None and address.device < len(program.accounts) else 0
    account = program.accounts[number]
    address = replace(address, run=run_id(run), device=number or None)
    ids = {f"{row['path']}#{row['launch']}": str(row["id"]) for row in store.rows()}
    blocks = [
        ui.guarded(run.name, lambda: _about(program, account, number, address)),
        ui.guarded("Parts", lambda: _parts(account, address)),
        ui.guarded("Lost time", lambda: _losses(account)),
        ui.guarded("Kernels", lambda: _kernels(account, ids)),
    ]
    return [*blocks, *_ranges(account)]


def _about(program: ProgramResult, account: ProgramAccount, number: int, address: ProgramAddress) -> Component:
    shares = output.kind_shares(account)
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
            (other.name, replace(address, device=place or None).href(), place == number)
            for place, other in enumerate(program.accounts)
        ]
        blocks.append(html.Dl(ui.choices("device", links), className="facts"))
    timeline = dcc.Link("Timeline", href=TimelinesAddress(run_id(program.path)).href(), className="button small")
    blocks += [
        html.P(_answer(account), className="sentence"),
        ui.facts(pairs),
        ui.figure("kinds", kinds_bar(shares), f"Time of the program: {sentence}"),
        ui.legend((f"{name} {percent(pct)}", style) for name, pct, style in shares),
        html.P(timeline, className="program-links"),
    ]
    if program.notes:
        summary = html.Summary(ui.counted(len(program.notes), "note"))
        blocks.append(html.Details([summary, ui.items(program.notes, "warnings")]))
    return ui.card(program.path.name, blocks, "percent of the span; the parts sum to 100")


def _answer(account: ProgramAccount) -> str:
    """How much is lost, and what most of it is lost to."""
    lost = sorted((part for part in account.parts if part.kind in (INSIDE, BETWEEN)), key=lambda part: -part.ns)
    whole = f"{percent(account.pct(sum(part.ns for part in lost)))} of {duration(account.span.ns)} is lost"
    most = [f", {percent(account.pct(one.ns))} to {output.part_words(one)}: {output.part_fix(one)}" for one in lost[:1]]
    return f"{whole}{''.join(most)}."


def _parts(account: ProgramAccount, address: ProgramAddress) -> Component:
    links = [(f"by {_WHAT[view]}", replace(address, by=view).href(), view == address.by) for view in output.VIEWS]
    label = f"Parts of the program by {_WHAT[address.by]}; the tables below hold the same numbers"
    drawn = ui.figure("parts", icicle(output.tree(account, address.by)), label, tools=True)
    views = html.Div([ui.choice(*link) for link in links], className="program-views")
    return ui.card("Parts", [views, drawn], "click a part to zoom into it")


def _losses(account: ProgramAccount) -> Component:
    """Everything that is lost, most first, with what helps."""
    lost = [part for part in account.parts if part.kind in (INSIDE, BETWEEN) and account.pct(part.ns) >= LEAST_PCT]
    rows = [
        [
            ui.part_name(output.part_words(part), output.style_of(part)),
            "inside kernels" if part.kind == INSIDE else "between kernels",
            duration(part.ns),
            percent(account.pct(part.ns)),
            output.part_fix(part),
        ]
        for part in sorted(lost, key=lambda part: -part.ns)
    ]
    return ui.card("Lost time", [ui.table(_LOSSES, rows, "Losses by time", (2, 3))])


def _kernels(account: ProgramAccount, ids: Mapping[str, str]) -> Component:
    """A row for each kernel. ``ids``: of launches in the store, by the address of their verdict."""
    rows = output.kernel_rows(account)
    pairs = list(zip(account.kernels, rows, strict=True))[:MOST_ROWS]
    cells = [_kernel_cells(account.names[kernel.kernel], kernel, row, ids) for kernel, row in pairs]
    for rest in output.with_rest(rows, MOST_ROWS)[MOST_ROWS:]:
        cells.append([rest.name, "", f"{rest.launches:,}", duration(rest.ns), "", *_shares(rest), ""])
    hint = f"profiled kernels make up {percent(account.covered_pct)} of the time of all kernels"
    return ui.card("Kernels", [ui.table(_KERNELS, cells, "Kernels by time", range(2, 9))], hint)


def _kernel_cells(name: str, kernel: KernelTime, row: output.TimeRow, ids: Mapping[str, str]) -> list[ui.Child]:
    name = short_name(name, 60)
    launch = ids.get(kernel.verdict.address) if kernel.verdict else None
    link: ui.Child = dcc.Link(name, href=KernelAddress().of_launch(launch)) if launch else name
    first = html.Span([link], title=kernel.kernel.name[:2000])
    mostly: ui.Child = row.worst if kernel.verdict else html.Span(kernel.lacking, className="missing")
    grid = kernel.kernel.grid or ui.absent("not recorded")
    return [first, grid, f"{row.launches:,}", duration(row.ns), duration(kernel.median_ns), *_shares(row), mostly]


def _ranges(account: ProgramAccount) -> list[Component]:
    """A row for each NVTX range; nothing where none was recorded."""
    cells = [
        [short_name(row.name, 80), duration(row.ns), *_shares(row), _share(row.between), row.worst]
        for row in output.with_rest(output.range_rows(account), MOST_ROWS)
    ]
    shown = ui.table(_RANGES, cells, "NVTX ranges by time", range(1, 7))
    return [ui.card("NVTX ranges", [shown], "innermost ranges")] if cells else []


def _shares(row: output.TimeRow) -> list[ui.Child]:
    return [_share(pct) for pct in (row.pct, row.tensor, row.work, row.inside)]


def _share(pct: float) -> ui.Child:
    return percent(pct) if pct else "–"


def kinds_bar(shares: Sequence[tuple[str, float, Style]]) -> Figure:
    """One bar of 100 % of the span: name, percent and style of each segment."""
    traces = [
        stacked([pct], [""], style, name, [segment_text(name, pct)], 12, f"{name}: %{{x:.1f}} %")
        for name, pct, style in shares
    ]
    layout: Drawn = {
        "height": 84,
        "barmode": "stack",
        "showlegend": False,
        "margin": {"l": 0, "r": 0, "t": 4, "b": 28},
        "xaxis": {"range": [0, 100], "ticksuffix": " %", "showgrid": False},
        "yaxis": {"visible": False},
    }
    return Figure(traces, layout)


def icicle(root: output.Node) -> Figure:
    """The tree from top to bottom, each node as wide as its time."""
    ids, parents, nodes = zip(*_nodes(root, "", "0"), strict=True)
    styles = [node.style for node in nodes]
    colors, hatches = [style.color for style in styles], [style.hatch for style in styles]
    trace: Drawn = {
        "type": "icicle",
        "ids": list(ids),
        "parents": list(parents),
        "labels": [safe(short_name(node.label, LONGEST)) for node in nodes],
        "values": [node.ns for node in nodes],
        "text": [f"{duration(node.ns)}, {node.pct:.1f} %" for node in nodes],
        "customdata": [safe(node.label) for node in nodes],
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v", "pad": 1},
        "leaf": {"opacity": 1},
        "pathbar": {"visible": True, "thickness": 24},
        "textposition": "middle center",
        "texttemplate": "%{label}<br>%{text}",
        "hovertemplate": "%{customdata}<br>%{text}<extra></extra>",
        "textfont": {"color": [text_color(color) for color in colors]},
        "marker": {
            "colors": colors,
            "line": {"width": 1, "color": "rgba(255,255,255,0.35)"},
            "pattern": {**HATCH, "shape": hatches, "bgcolor": colors},
        },
    }
    layout: Drawn = {
        "height": 40 + LEVEL_PX * (1 + max(name.count("/") for name in ids)),
        "margin": {"l": 0, "r": 0, "t": 26, "b": 0},
        "uniformtext": {"minsize": 10, "mode": "hide"},
    }
    return Figure([trace], layout)


def _nodes(node: output.Node, parent: str, name: str) -> Iterator[tuple[str, str, output.Node]]:
    yield name, parent, node
    for place, member in enumerate(node.members):
        yield from _nodes(member, name, f"{name}/{place}")


PAGE = Page("Program", ProgramAddress, layout)
