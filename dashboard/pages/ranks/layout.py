"""The Ranks page: the same launch on every rank of a program, and how far ranks lie apart. Its
state is its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import PARTS, part_label
from ncubble.analysis.compare.ranks import ByRank, Matched, Program, RankSpread, largest, most_apart
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.ranks.address import RanksAddress, id_of
from ncubble.dashboard.pages.ranks.figures import MOST_RANKS, Took, ranks_figure
from ncubble.dashboard.pages.ranks.model import matched, verdict_of
from ncubble.dashboard.ui.components import card, facts, figure, note, swatch, table
from ncubble.text.values import NOT_COLLECTED, duration

MOST_LAUNCHES, MOST_PROGRAMS = 50, 100
_HEAD = ("launch", "shortest", "median", "longest", "skew", "slowest", "tensor", "differs most")
_HOW = (
    "A run belongs to a rank where its manifest says so (ncubble profile below mpirun, srun or torchrun), or where the "
    "name of its file or folder does: rank0, report.rank1.ncu-rep, or report_0, report_1, … side by side."
)


def layout(store: ReportStore, address: RanksAddress) -> Component:
    """The page at an address."""
    found = matched(store)
    if not found.programs:
        return html.Div([_head(), _none(store)], className="ranks-page")
    chosen = next((one for one in found.programs if id_of(one.name) == address.program), None)
    parts: list[Component] = [_head()]
    if address.program and chosen is None:
        parts.append(note("error", "No program has this address. Its reports may have been moved or deleted."))
    chosen = chosen or found.programs[0]
    if len(found.programs) > 1:
        parts.append(_listed(found, chosen))
    parts += _program(store, chosen, address)
    return html.Div(parts, className="ranks-page")


def _head() -> Component:
    lead = html.P("The same launch on every rank of a program", className="lead")
    return html.Div([html.H1("Ranks"), lead], className="page-head")


def _none(store: ReportStore) -> Component:
    if not store.progress().finished:
        return card("Programs", [note("empty", "Reports are still being read.")])
    command = "mpirun -n 4 ncubble profile --out runs/job -- ./program"
    empty = note("empty", "No report here is known to be one rank of several. To record some:", command)
    return card("Programs", [empty, html.P(_HOW)])


def _listed(found: ByRank, chosen: Program) -> Component:
    items = []
    for one in found.programs[:MOST_PROGRAMS]:
        current: dict[str, Any] = {"aria-current": "true"} if one is chosen else {}
        link = dcc.Link(one.name, href=RanksAddress(id_of(one.name)).href(), className="row-link")
        ranks = html.Span(f"{len(one.ranks)} ranks", className="tag")
        items.append(html.Li([html.Span(link, **current), ranks]))
    more = f", the first {MOST_PROGRAMS} are listed" if len(found.programs) > MOST_PROGRAMS else ""
    return card("Programs", [html.Ul(items, className="sides")], f"{len(found.programs)} programs{more}")


def _program(store: ReportStore, one: Program, address: RanksAddress) -> list[Component]:
    shown = largest(one.matched, MOST_LAUNCHES)
    places = {id(launch): place for place, launch in enumerate(one.matched)}
    first = max(shown, key=_apart_ns)
    launch = one.matched[address.launch] if address.launch is not None and address.launch < len(one.matched) else first
    return [
        card(one.name, [_about(one), *_missing(one)]),
        _one_launch(store, launch),
        _launches(one, shown, places, launch),
    ]


def _apart_ns(one: Matched) -> float:
    times = one.values.get("duration_ns")
    return times.max - times.min if times else -1.0


def _about(one: Program) -> Component:
    totals = {rank: told["duration_ns"] for rank, told in one.ranks.items()}
    longest, shortest = max(totals, key=lambda rank: totals[rank]), min(totals, key=lambda rank: totals[rank])
    told = ", ".join("names of files" if source == "name" else source for source in one.sources)
    return facts(
        [
            ("ranks", f"{len(one.ranks)}" + (f" of {one.size}" if one.size else "")),
            ("told by", told),
            ("launches", str(len(one.matched))),
            ("most time in kernels", f"rank {longest}, {duration(totals[longest])}"),
            ("least", f"rank {shortest}, {duration(totals[shortest])}"),
        ]
    )


def _missing(one: Program) -> list[Component]:
    lacking = sum(bool(launch.missing) for launch in one.matched)
    text = f"{lacking} of {len(one.matched)} launches are not in the reports of all ranks."
    return [note("info", text)] if lacking else []


def _one_launch(store: ReportStore, one: Matched) -> Component:
    rows = {(row["path"], row["launch"]): row for row in store.rows()}
    verdicts = {rank: verdict_of(rows[place]) for rank, place in one.launches.items() if place in rows}
    took = {
        rank: Took(told["duration_ns"], told["account"] or {})
        for rank, told in verdicts.items()
        if told["duration_ns"] is not None
    }
    title, hint = f"{one.label} #{one.ordinal}", f"grid {one.grid or NOT_COLLECTED}, {len(one.launches)} ranks"
    if not took:
        return card(title, [note("empty", "Not collected: these reports hold no duration.")], hint)
    said = _sentence(one)
    links: list[Component | str] = ["Open: "]
    for rank, told in list(verdicts.items())[:MOST_RANKS]:
        links += [dcc.Link(f"rank {rank}", href=f"/kernel/{told['id']}"), " "]
    drawn = figure("ranks", ranks_figure(took), f"Time of {title} by rank. {said}")
    parts = [html.P(said, className="sentence"), drawn, _legend(took), html.P(links, className="ranks-links")]
    return card(title, parts, hint)


def _legend(took: Mapping[int, Took]) -> Component:
    """Colours of the parts that any rank has; their meaning on hover."""
    items = [
        html.Span([swatch(style.color, style.hatch), part_label(part)], title=style.meaning)
        for part, style in PARTS.items()
        if any(one.account.get(part) for one in took.values())
    ]
    return html.Div(items, className="legend bare")


def _sentence(one: Matched) -> str:
    times, apart = one.values["duration_ns"], most_apart(one)
    said = f"Rank {times.max_rank} takes longest, {duration(times.max)}; the median is {duration(times.median)}"
    said += f" and rank {times.min_rank} is the fastest with {duration(times.min)}."
    if apart:
        name, spread = apart
        said += f" Ranks differ most in {part_label(name)}: {spread.min:.1f} to {spread.max:.1f} % of the time."
    return said


def _launches(one: Program, shown: list[Matched], places: dict[int, int], chosen: Matched) -> Component:
    rows = [
        _cells(launch, RanksAddress(id_of(one.name), places[id(launch)]).href(), launch is chosen) for launch in shown
    ]
    left = len(one.matched) - len(shown)
    hint = f"the {len(shown)} whose ranks lie furthest apart, {left} are left out" if left else "in their order"
    return card("Launches", [table(_HEAD, rows, "Launches by rank", (1, 2, 3, 4, 5, 6))], hint)


def _cells(one: Matched, href: str, chosen: bool) -> list[Component | str]:
    times, apart = one.values.get("duration_ns"), most_apart(one)
    current: dict[str, Any] = {"aria-current": "true"} if chosen else {}
    name: list[Component | str] = [html.Span(dcc.Link(f"{one.label} #{one.ordinal}", href=href), **current)]
    if one.missing:
        name.append(html.Span(f" not on rank {', '.join(map(str, one.missing[:8]))}", className="hint"))
    gone = html.Span(NOT_COLLECTED, className="missing")
    return [
        html.Span(name),
        *([duration(value) for value in (times.min, times.median, times.max)] if times else [gone] * 3),
        gone if one.skew_pct is None else f"{one.skew_pct:.1f} %",
        gone if one.slowest is None else f"rank {one.slowest}",
        gone if "tensor_elapsed_pct" not in one.values else f"{_range(one.values['tensor_elapsed_pct'])} %",
        f"{part_label(apart[0])} {_range(apart[1])} %, most on rank {apart[1].max_rank}" if apart else "less than 1 %",
    ]


def _range(spread: RankSpread) -> str:
    low, high = f"{spread.min:.1f}", f"{spread.max:.1f}"
    return low if low == high else f"{low} to {high}"
