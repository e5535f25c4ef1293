"""``ncubble ablate``: measures the cost of a kernel's parts by removing them from its machine
code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.ablation.result import SLACK, Ablation, MeasuredVariant
from ncubble.analysis.account.shares import LOOP, REST
from ncubble.cli.command import PROGRAM, Catalog, Force, Json, Out, Parameters, Timeout, Without
from ncubble.cli.terminal import emit_json, printable, recording
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.api.ablating import AblatedLaunch


def ablate(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A catalog kernel, or a run that ablate wrote; or -- CMD …")
    ] = None,
    parameters: Parameters = None,
    catalog: Catalog = None,
    kernel: Annotated[
        str, typer.Option(metavar="REGEX", help="Only kernels whose base name or demangled name matches.")
    ] = "",
    skip: Annotated[int, typer.Option(help="Matching launches to skip first.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="Matching launches to measure.")] = 1,
    without: Without = None,
    time: Annotated[
        bool, typer.Option("--time", help="Measure time instead of cycles: needs no counters and no ncu.")
    ] = False,
    out: Out = None,
    force: Force = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Measure what waits, copies, barriers, shared loads and stores cost, by removing them from the machine code.

    The program runs once, unchanged, to record its launch; the variants run in separate processes.
    Cycles are counted under ncu. If counters cannot be read, time is measured instead, and the
    output says so.
    """
    from ncubble.api import ablating
    from ncubble.api.subjects import chosen_subject
    from ncubble.profiling.ncu import Filters

    program = ctx.meta[PROGRAM]
    if (name is None) == (program is None):
        raise UsageError("name a catalog kernel, a run, or a program after --", "see `ncubble ablate -h`")
    if name is not None and Path(name).is_dir():
        launches = ablating.ablated(Path(name))
    else:
        times = 1 if program is not None else skip + count
        subject = chosen_subject(program, name, parameters or [], catalog, times)
        filters = Filters(kernel, "", skip, count, without=without)
        with recording() as observer:
            launches = ablating.ablate(
                subject, filters, out, timed=time, force=force, timeout_s=timeout, observer=observer
            )
    _print(launches, json)


def _print(launches: list[AblatedLaunch], json: bool) -> None:
    if json:
        emit_json({"schema": 1, "runs": [{"run": str(one.run), **one.ablation.to_json()} for one in launches]})
        return
    out = Console(highlight=False)
    for launch in launches:
        print_ablation(out, launch.ablation, launch.label)
        took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in launch.ablation.seconds.items())
        typer.echo(f"  run: {launch.run} ({took})", err=True)


LINES = 8
TIMED = "measured in time, not in cycles: no counters were read"


def print_ablation(out: Console, ablation: Ablation, label: str) -> None:
    """One launch in full."""
    out.print(Text(printable(label), style="bold"))
    facts = f"{ablation.device} · {extent(ablation)} · {ablation.rounds} rounds"
    out.print(Text(f"{facts} · {ablation.route}", style="dim"))
    if ablation.timed:
        out.print(Text(TIMED, style="yellow"))
    out.print(_parts(ablation))
    if pairs := _pairs(ablation):
        out.print(Text(f"together, in points beyond the sum of both alone: {pairs}", style="dim"))
    if ablation.lines:
        out.print(_lines(ablation))
    if ablation.slack:
        out.print(_slack(ablation.slack_by_cost))
    for variant in ablation.variants:
        if variant.status != "ok":
            out.print(Text(f"note: without {_words(variant.name)}: {variant.status}", style="yellow"))
    if ablation.faithful is False:
        text = (
            "note: the replay's results differ from the program's: the kernel is not deterministic, or "
            "reads more than its arguments"
        )
        out.print(Text(text, style="yellow"))
    for note in ablation.notes:
        out.print(Text(f"note: {printable(note)}", style="dim"))


def extent(ablation: Ablation) -> str:
    """Cycles or time of the whole kernel, by the measure."""
    if ablation.timed and ablation.time_ns is not None:
        low, high = ablation.interval_ns or (ablation.time_ns, ablation.time_ns)
        clock = f" at {ablation.clock_mhz:,.0f} MHz" if ablation.clock_mhz else ""
        return f"{_us(ablation.time_ns)} µs ({_us(low)} to {_us(high)}){clock}"
    return f"{ablation.cycles or 0.0:,.0f} cycles ± {ablation.se_pct:.2f} %"


def _us(ns: float) -> str:
    return f"{ns / 1e3:,.2f}" if ns < 1e6 else f"{ns / 1e3:,.0f}"


def _spread(interval: tuple[float, float] | None, se: float | None) -> str:
    if interval is not None:
        return f"{interval[0]:.1f}..{interval[1]:.1f}"
    return f"{se:.1f}" if se is not None else ""


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=bool(number))
    return table


def _parts(ablation: Ablation) -> Table:
    estimates = [] if ablation.timed else ["estimated"]
    spread = "95 %" if ablation.timed else "±"
    table = _table(f"part (% of {ablation.measure})", *estimates, "measured", spread, "alone")
    rest = "remainder, work included" if ablation.timed else "neither work nor removed"
    for part in ablation.parts:
        name = rest if part.part == REST else part.part.replace("_", " ").replace("+", " + ")
        estimated = [f"{part.estimated:.1f}" if part.estimated is not None else ""] if estimates else []
        alone = f"{part.alone:.1f}" if part.alone is not None else ""
        measured = Text(f"{part.measured:.1f}", style="bold")
        table.add_row(name, *estimated, measured, _spread(part.interval, part.se), alone)
    return table


def _pairs(ablation: Ablation) -> str:
    return ", ".join(f"{_words(word)} {points:+.1f}" for word, points in ablation.interactions.items())


def _words(word: str) -> str:
    known = word.split("_")
    return " and ".join(known) if set(known) <= {*LOOP, "epilogue"} else word


def _lines(ablation: Ablation) -> Table:
    table = _table("measured cost by line", "part", f"% of {ablation.measure}")
    for line in ablation.lines[:LINES]:
        place = f"{line.file.rpartition('/')[2]}:{line.line}" if line.file else line.sass
        table.add_row(printable(place), line.part.replace("_", " "), f"{line.pct:.1f}")
    return table


def _slack(slack: list[MeasuredVariant]) -> Table:
    spread = "95 %" if any(variant.interval for variant in slack) else "±"
    table = _table("slack: delayed instructions of the loop", "instructions", "costs %", spread)
    for variant in slack:
        cost = f"{-variant.gone_pct:.1f}" if variant.gone_pct is not None else variant.status
        costs = (-variant.interval[1], -variant.interval[0]) if variant.interval else None
        table.add_row(variant.name.removeprefix(f"{SLACK} "), str(variant.rows), cost, _spread(costs, variant.se))
    return table
