"""The Ranks page: the same launch on every rank of a program, and how far ranks lie apart. Its
state is its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import PARTS, display_order, part_label, part_style
from ncubble.analysis.compare.ranks import (
    ByRank,
    Matched,
    Program,
    RankLaunch,
    by_rank,
    largest,
    most_apart,
)
from ncubble.analysis.compare.spreads import RankSpread, RankTime, spread_of
from ncubble.analysis.report.launch_key import LaunchKey
from ncubble.dashboard.data.index import signature_of
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import RanksAddress, id_of
from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.ui.components import (
    Child,
    absent,
    card,
    current,
    facts,
    figure,
    link_list,
    note,
    page_head,
    parts_legend,
    table,
)
from ncubble.dashboard.ui.figures import Drawn, Figure, filled, safe
from ncubble.errors import NcubbleError
from ncubble.profiling.ranks import Rank, numbered, rank_of
from ncubble.profiling.runs import Run
from ncubble.text.values import NOT_COLLECTED, duration, significant

MOST_LAUNCHES, MOST_PROGRAMS, MOST_RANKS = 50, 100, 64
ROW_PX = 26
_HEAD = ("launch", "shortest", "median", "longest", "skew", "slowest", "cycles", "tensor", "differs most")
_HOW = (
    "A run belongs to a rank if its manifest says so (ncubble profile below mpirun, srun or "
    "torchrun), or if the name of its file or folder does: rank0, report.rank1.ncu-rep, or "
    "report_0, report_1, … side by side."
)


def match(unsorted: Sequence[Mapping[str, Any]]) -> ByRank:
    """The programs of all ranks among rows of a store."""
    rows = sorted(unsorted, key=lambda row: (row["path"], row["launch"]))
    ranks = ranks_of(sorted({Path(row["path"]) for row in rows}))
    placed = [(ranks.get(Path(row["path"])), row) for row in rows]
    return by_rank([rank_launch(rank, row) for rank, row in placed if rank])


matched = Remembered(match)


def ranks_of(paths: Sequence[Path]) -> dict[Path, Rank]:
    """The rank of each path that has one by its manifest or its name."""
    declared = {path: rank for path in paths if (rank := _rank_at(path, signature_of(path))) is not None}
    return {**numbered([path for path in paths if path not in declared]), **declared}


@lru_cache(maxsize=65_536)
def _rank_at(path: Path, signature: tuple[int, ...]) -> Rank | None:
    try:
        return rank_of(Run.load(path))
    except NcubbleError:  # a named upload, or a run that vanished
        return None


def rank_launch(rank: Rank, row: Mapping[str, Any]) -> RankLaunch:
    """A row of the store as it is matched; a part that the row leaves out is 0 where there is an
    account."""
    account = dict(row["account"])
    values = {"duration_ns": row["duration_ns"], "tensor_elapsed_pct": row["tensor"], "dram_pct": row["dram"]}
    values |= {"cycles": row.get("cycles"), "sm_clock_hz": 1e9 * row["clock_ghz"] if row.get("clock_ghz") else None}
    values |= {part: account.get(part, 0.0) for part in PARTS} if account else {}
    key = LaunchKey(kernel=row["kernel"], grid=row["grid"] or "", block=row["block"] or "")
    label, measured = f"{row['name']} {row['label']}".strip(), dict(row["measured"] or ()) or None
    return RankLaunch(rank, key, row["path"], row["launch"], label, values, measured)


def layout(store: ReportStore, address: RanksAddress) -> Component:
    """The page at an address."""
    programs = matched.of(store).programs
    named = next((program for program in programs if id_of(program.name) == address.program), None)
    parts: list[Component] = [page_head("Ranks", "The same launch on every rank of a program")]
    if not programs:
        parts.append(card("Programs", _none(store)))
    else:
        if address.program and named is None:
            parts.append(note("error", "No program has this address. Its reports may have been moved or deleted."))
        chosen = named or programs[0]
        parts += [_listed(programs, chosen)] if len(programs) > 1 else []
        parts += _program(store, chosen, address)
    return html.Div(parts, className="ranks-page")


def _none(store: ReportStore) -> list[Component]:
    if not store.progress().finished:
        return [note("empty", "Reports are still being read.")]
    command = "mpirun -n 4 ncubble profile --out runs/job -- ./program"
    return [
        note("empty", "No report here belongs to a rank of a multi-rank program. To record some:", command),
        html.P(_HOW),
    ]


def _listed(programs: Sequence[Program], chosen: Program) -> Component:
    links = []
    for program in programs[:MOST_PROGRAMS]:
        ranks = html.Span(f"{len(program.ranks)} ranks", className="tag")
        links.append((program.name, RanksAddress(id_of(program.name)).href(), program is chosen, [ranks]))
    more = f", the first {MOST_PROGRAMS} are listed" if len(programs) > MOST_PROGRAMS else ""
    return card("Programs", [link_list(links)], f"{len(programs)} programs{more}")


def _program(store: ReportStore, program: Program, address: RanksAddress) -> list[Component]:
    shown = largest(program.matched, MOST_LAUNCHES)
    launch = max(shown, key=lambda launch: ("duration_ns" in launch.values, launch.apart_ns))
    if address.launch is not None and address.launch < len(program.matched):
        launch = program.matched[address.launch]
    about = [_about(program)]
    if program.incomplete:
        counts = f"{program.incomplete} of {len(program.matched)}"
        about.append(note("info", f"{counts} launches are missing from the reports of some ranks."))
    return [card(program.name, about), _one_launch(store, launch), _launches(program, shown, launch)]


def _about(program: Program) -> Component:
    pairs = {
        "ranks": f"{len(program.ranks)}" + (f" of {program.size}" if program.size else ""),
        "numbered by": ", ".join("names of files" if source == "name" else source for source in program.sources),
        "launches": str(len(program.matched)),
    }
    if total := spread_of({rank: of_rank["duration_ns"] for rank, of_rank in program.ranks.items()}):
        pairs["most kernel time"] = f"rank {total.max_rank}, {duration(total.max)}"
        pairs["least"] = f"rank {total.min_rank}, {duration(total.min)}"
    return facts(pairs.items())


def _one_launch(store: ReportStore, launch: Matched) -> Component:
    rows = {(row["path"], row["launch"]): row for row in store.rows()}
    members = {rank: rows[place] for rank, place in launch.launches.items() if place in rows}
    took = {
        rank: RankTime(row["duration_ns"], dict(row["measured" if launch.measured else "account"]))
        for rank, row in members.items()
        if row["duration_ns"] is not None
    }
    title, hint = f"{launch.label} #{launch.ordinal}", f"{len(launch.launches)} ranks"
    if not launch.grid or launch.grid not in launch.label:  # kernels without parameters are called by their grid
        hint = f"grid {launch.grid or NOT_COLLECTED}, {hint}"
    if not took:
        return card(title, [note("empty", "Not collected: these reports have no durations.")], hint)
    links: list[Child] = ["Open: "]
    for rank, row in list(members.items())[:MOST_RANKS]:
        links += [dcc.Link(f"rank {rank}", href=f"/kernel/{row['id']}"), " "]
    sentence = _sentence(launch)
    parts = [
        html.P(sentence, className="sentence"),
        figure("ranks", ranks_figure(took), f"Time of {title} by rank. {sentence}"),
        parts_legend(_parts(took.values())),
        html.P(links, className="ranks-links"),
    ]
    return card(title, parts, hint)


def _sentence(launch: Matched) -> str:
    times, apart = launch.values["duration_ns"], most_apart(launch)
    longest = f"Rank {times.max_rank} takes longest, {duration(times.max)}; the median is {duration(times.median)}"
    text = f"{longest} and rank {times.min_rank} is the fastest with {duration(times.min)}."
    text += f" {launch.why}" if launch.why else ""
    if apart:
        name, spread = apart
        how = ", measured" if launch.measured else ""
        text += f" Ranks differ most in {part_label(name)}: {spread.min:.1f} to {spread.max:.1f} % of the time{how}."
    return text


def _launches(program: Program, shown: list[Matched], chosen: Matched) -> Component:
    places = {id(launch): place for place, launch in enumerate(program.matched)}
    rows = [
        _cells(launch, RanksAddress(id_of(program.name), places[id(launch)]).href(), launch is chosen)
        for launch in shown
    ]
    left = len(program.matched) - len(shown)
    hint = f"the {len(shown)} whose ranks differ most; {left} are left out" if left else "in order"
    return card("Launches", [table(_HEAD, rows, "Launches by rank", (1, 2, 3, 4, 5, 6, 7))], hint)


def _cells(launch: Matched, href: str, chosen: bool) -> list[Child]:
    how = " measured" if launch.measured else ""
    times, apart, tensor = launch.values.get("duration_ns"), most_apart(launch), launch.values.get("tensor_elapsed_pct")
    name: list[Child] = [html.Span(dcc.Link(f"{launch.label} #{launch.ordinal}", href=href), **current(chosen))]
    if launch.missing:
        name.append(html.Span(f" not on rank {', '.join(map(str, launch.missing[:8]))}", className="hint"))
    return [
        html.Span(name),
        *([duration(value) for value in (times.min, times.median, times.max)] if times else [absent()] * 3),
        absent() if launch.skew_pct is None else f"{launch.skew_pct:.1f} %",
        absent() if launch.slowest is None else f"rank {launch.slowest}",
        _cycles(launch.values.get("cycles")),
        f"{_range(tensor)} %" if tensor else absent(),
        f"{part_label(apart[0])} {_range(apart[1])} %{how}, most on rank {apart[1].max_rank}"
        if apart
        else "less than 1 %",
    ]


def _cycles(spread: RankSpread | None) -> Child:
    """``560k to 831k``: as many cycles and another time are another clock, more are more work or
    more waiting."""
    if spread is None:
        return absent()
    low, high = (significant(value, thousands=",") for value in (spread.min, spread.max))
    return low if low == high else f"{low} to {high}"


def _range(spread: RankSpread) -> str:
    low, high = f"{spread.min:.1f}", f"{spread.max:.1f}"
    return low if low == high else f"{low} to {high}"


def ranks_figure(took: Mapping[int, RankTime]) -> Figure:
    """One bar per rank, rank 0 on top, as long as the launch took in µs, split by its account; of
    more than ``MOST_RANKS`` the slowest."""
    slowest = sorted(took, key=lambda rank: -took[rank].duration_ns)[:MOST_RANKS]
    shown = {f"rank {rank}": took[rank] for rank in sorted(slowest)}
    traces = []
    for part in _parts(shown.values()):
        style, times = part_style(part), {name: rank.part_ns(part) for name, rank in shown.items()}
        shares = [rank.account.get(part, 0.0) for rank in shown.values()]
        traces.append(_bars(safe(part_label(part)), times, shares, filled(style.color, style.hatch)))
    whole = {name: 0.0 if rank.account else rank.duration_ns for name, rank in shown.items()}
    if any(whole.values()):
        traces.append(_bars("not split", whole, [100.0] * len(whole), filled("#808890", "")))
    layout: Drawn = {
        "barmode": "relative",
        "bargap": 0.2,
        "showlegend": False,
        "height": 54 + ROW_PX * max(len(shown), 1),
        "margin": {"l": 8, "r": 22, "t": 4, "b": 44},
        "xaxis": {"title": {"text": "time of the launch, µs", "standoff": 8}, "rangemode": "tozero"},
        "yaxis": {
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "ticksuffix": " ",
            "type": "category",
        },
    }
    return Figure(traces, layout)


def _parts(ranks: Iterable[RankTime]) -> list[str]:
    """The parts that any rank has, in display order."""
    return display_order(name for rank in ranks for name, share in rank.account.items() if share)


def _bars(label: str, times_ns: Mapping[str, float], shares: Sequence[float], marker: Drawn) -> Drawn:
    return {
        "type": "bar",
        "x": [round(time / 1e3, 4) for time in times_ns.values()],
        "y": list(times_ns),
        "orientation": "h",
        "name": label,
        "customdata": [round(share, 3) for share in shares],
        "marker": marker,
        "hovertemplate": f"%{{y}} <b>{label}</b> %{{x:.2f}} µs, %{{customdata:.1f}} %<extra></extra>",
    }


PAGE = Page("Ranks", RanksAddress, layout)
